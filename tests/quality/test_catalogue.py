"""Every entry of the list of real bugs is met by a subject or a mutant, or is named with the reason why not."""

from __future__ import annotations

from quality.catalogue import ELSEWHERE, MUTANTS, mutants
from quality.declare import subjects

NUMBERED = [f"B{number:02}" for number in range(2, 139, 2)]
RIGHT = [f"C{number:02}" for number in (1, 2, 4, 6, 8, 11, 13, 14, 15, 17, 18, 19, 20, 21)]
UNREPORTED = [f"U{number:02}" for number in range(2, 9, 2)]
CLAIMED = ("C01", "C02", "C08", "C17", "B106")
"""Entries that are right under a claim alone."""


def test_every_bug_is_met_or_named() -> None:
    declared = {subject.expected.bug for kind in ("wrong", "right") for subject in subjects(kind)} - {""}
    met = declared | MUTANTS.keys()
    assert met | ELSEWHERE.keys() == {*NUMBERED, *RIGHT, *UNREPORTED}
    assert not met & ELSEWHERE.keys()


def test_every_catalogued_mutant_exists() -> None:
    assert sum(map(len, MUTANTS.values())) == len(list(mutants()))


def test_what_is_right_under_a_claim_stands_on_both_sides() -> None:
    for bug in CLAIMED:
        wrong = [subject for subject in subjects("wrong") if subject.expected.bug == bug]
        right = [s for s in subjects("right") if s.expected.bug == bug and s.expected.claims]
        assert {subject.function.__name__ for subject in wrong} == {s.function.__name__ for s in right}
        assert all(subject.expected.claim.startswith("right if claims=") for subject in wrong)
