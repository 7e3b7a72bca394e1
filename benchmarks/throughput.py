"""Where the time of a check goes: launches and situations per second, and the share of each part.

    python benchmarks/throughput.py [FOLDER] [EXAMPLES]

One line per kernel and format. Machines are noisy: compare shares and ratios of one run, not seconds.
"""

from __future__ import annotations

import sys
import time

from harness.search import check
from harness.subjects import discover

PARTS = ("inputs", "kernel", "oracle", "checks")


def main(folder: str = "kernels", examples: int = 300) -> None:
    """Check every subject of a folder and print where the time went."""
    print(
        f"{'kernel':34} {'format':9} {'launch/s':>8} {'situ./s':>8}  "
        + "  ".join(f"{p:>7}" for p in (*PARTS, "drawing"))
    )
    for target in discover(folder):
        declared = target.declaration
        assert declared is not None
        for fmt in declared.dtypes:
            start = time.perf_counter()
            verdict = check(
                target,
                declared.contract,
                fmt,
                claims=declared.claims,
                domain=declared.domain,
                examples=examples,
            )
            wall = time.perf_counter() - start
            tally = verdict.tallies[fmt]
            launches = tally.launches + tally.reruns
            shares = [tally.seconds[part] / wall for part in PARTS]
            shares.append(1 - sum(shares))
            print(
                f"{target.spec:34} {fmt:9} {launches / wall:8.1f} {tally.situations / wall:8.1f}  "
                + "  ".join(f"{100 * share:6.1f}%" for share in shares)
            )


if __name__ == "__main__":
    main(*sys.argv[1:2], *(int(argument) for argument in sys.argv[2:3]))
