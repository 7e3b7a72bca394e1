"""``python -m tests.quality [wrong|right|mutants] [NAME…]``: what the harness says of each subject, as a table.

A line is a subject, the bug whose mistake it makes, the outcome, situations, the largest ratio, seconds, the
checks that caught it, and the claim that explains it. The last lines count bugs and subjects. Names are
parts of names or bugs. Options: ``--examples N`` situations of each format (default: as harness.check);
``--no-shrink``.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

from quality.catalogue import mutants
from quality.declare import Subject, subjects
from quality.judging import judged, problems

KINDS = ("wrong", "right", "mutants")


def main() -> int:
    """Judge and print; the exit status is the number of subjects that got another verdict than they should."""
    parser = argparse.ArgumentParser(prog="python -m tests.quality", description=__doc__)
    parser.add_argument("kinds", nargs="*", help="wrong, right, mutants, bugs, or parts of names")
    parser.add_argument("--examples", type=int)
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    kinds = [kind for kind in KINDS if kind in options.kinds] or list(KINDS)
    names = [name for name in options.kinds if name not in KINDS]
    totals = []
    for kind in kinds:
        every = mutants() if kind == "mutants" else subjects(kind)
        chosen = [
            s for s in every if not names or any(name in s.name or name == s.expected.bug for name in names)
        ]
        missed = sum(_line(subject, options) for subject in chosen)
        bugs = {subject.expected.bug for subject in chosen} - {""}
        totals.append((kind, len(chosen), len(bugs), missed))
    for kind, count, bugs, missed in totals:
        print(f"{kind}: {count} subjects, {bugs} bugs, {missed} unexpected")
    return min(sum(missed for *_, missed in totals), 100)


def _line(subject: Subject, options: argparse.Namespace) -> bool:
    start = time.perf_counter()
    try:
        verdict = judged(subject, examples=options.examples, shrink=not options.no_shrink)
    except Exception as error:
        print(f"!! {subject.name:58} {subject.expected.bug:5} {type(error).__name__}: {error}", flush=True)
        return True
    seconds = time.perf_counter() - start
    wrong = problems(subject, verdict, shrunk=not options.no_shrink)
    checks = ", ".join(dict.fromkeys(f"{finding.check} ({finding.format})" for finding in verdict.findings))
    situations = sum(tally.situations for tally in verdict.tallies.values())
    ratio = max((tally.largest_ratio for tally in verdict.tallies.values()), default=0.0)
    print(
        f"{'!!' if wrong else '  '} {subject.name:58} {subject.expected.bug:5} {verdict.outcome:12} {situations:6} "
        f"{ratio:9.3g} {seconds:6.1f} s  {checks}{verdict.claim and '  ' + verdict.claim}",
        flush=True,
    )
    for text in wrong:
        print(f"       {text}", flush=True)
    if wrong and options.verbose:
        print(verdict, flush=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
