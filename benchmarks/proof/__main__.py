"""The command: one line per contract and reading, and an exit status."""

from __future__ import annotations

import argparse
import sys

import references
from benchmarks.proof import CONTRACTS, READINGS, __doc__, compare
from benchmarks.proof.comparison import Found

OUTPUTS = 20_000


def main(arguments: list[str] | None = None) -> int:
    """Compare; 1 if anything lay outside its radius, or fewer outputs were compared than asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proof", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("contracts", nargs="*", metavar="CONTRACT", help="all of references by default")
    parser.add_argument("--outputs", type=int, default=OUTPUTS, help="to be compared, of each (%(default)s)")
    parser.add_argument("--reading", choices=list(READINGS), action="append", help="all by default")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    unknown = set(given.contracts) - set(CONTRACTS)
    if unknown:
        parser.error(f"no contract {', '.join(sorted(unknown))}; there are {', '.join(CONTRACTS)}")
    good = True
    for name in given.contracts or CONTRACTS:
        for reading in given.reading or READINGS:
            found = compare(getattr(references, name), reading, given.outputs, given.seed)
            good = good and not found.outside and (found.refused or found.compared >= given.outputs)
            print(line(name, reading, found), flush=True)
    return 0 if good else 1


def line(name: str, reading: str, found: Found) -> str:
    """What a comparison found, in words; the first output that lay outside on a line of its own."""
    if found.refused:
        return f"{name:18} {reading:13} not to be read so"
    text = (
        f"{name:18} {reading:13} {found.compared:6} outputs  {found.lost:6} lost  {found.open:6} open  "
        f"largest error/radius {found.largest:9.3g}  outside {found.outside}"
    )
    return f"{text}\n    {found.example}" if found.example else text


if __name__ == "__main__":
    sys.exit(main())
