"""Replay every finding of a report in a new process, and say how small the inputs are.

    harness report kernels/ --reduce-mutants && python benchmarks/replays.py report/report.json [EVERY]

One line for each replay that does not show the finding again, then a summary. EVERY: take every n-th only. Exit
status 1 if one did not.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.report.model import MutantRecord, load

SIZES = (1, 2, 4, 8, 16, 64, 256)


def main(path: str, every: str = "1") -> int:
    """Replay, print, and return the exit status."""
    report = load(Path(path))
    caught = [mutant for mutant in report.mutants if not mutant.survived]
    for mutant in report.mutants:
        if mutant.survived:
            print(f"SURVIVED {mutant.subject}@{mutant.name}: {mutant.message}")
    chosen = caught[:: int(every)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        shown = list(pool.map(_shown, chosen))
    for mutant, again in zip(chosen, shown, strict=True):
        if not again:
            print(f"NOT SHOWN AGAIN {mutant.subject}@{mutant.name}: {mutant.replay}")
    sizes = [mutant.elements or 0 for mutant in caught]
    print(
        f"mutants: {len(report.mutants)}, caught: {len(caught)}, replays that show it: {sum(shown)} of {len(shown)}"
    )
    print(f"checks: {dict(Counter(mutant.caught_by for mutant in caught).most_common())}")
    print(
        "elements of the smallest input: " + ", ".join(f"≤ {n}: {sum(s <= n for s in sizes)}" for n in SIZES)
    )
    return 0 if all(shown) and len(caught) == len(report.mutants) else 1


def _shown(mutant: MutantRecord) -> bool:
    """Whether the replay command of a mutant ends in FAIL or ERROR with the same check."""
    words = [str(Path(sys.executable).with_name("harness")), *shlex.split(mutant.replay)[1:]]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode == 1 and f"{mutant.caught_by} (" in done.stdout


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
