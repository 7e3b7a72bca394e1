"""What explains the findings of all formats together: another rounding, a claim, or a mistake."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from harness.search.claims import numerical, right_if
from harness.search.one_format import FormatSearch
from harness.search.resemblance import looks_like, other_launches, other_roundings
from harness.trial import Subject, Trial

MOST_EVIDENCE = 4
"""Wrong launches of each format that a claim must make right beside the failures."""


def explain(searches: list[FormatSearch]) -> None:
    """Name what explains every finding: another rounding of results, a claim that makes it right, or a mistake that
    gives the same answers.

    One claim for all formats, else one for each of them. Where no claim explains one of the formats, none is named
    for the others: the mistake is likely the same.
    """
    failing = [search for search in searches if search.failing]
    if not failing:
        return
    failing[0].report("explaining")
    subject = failing[0].subject
    others = functools.cache(lambda search: list(search.others()))

    def more() -> Iterator[Trial]:
        return chain.from_iterable(map(others, failing))

    claimable = all(numerical(trial) for search in failing for trial in search.failing)
    for search in failing if claimable else ():
        # What extreme values alone show says little of a claim.
        wrong = [trial for trial in others(search) if trial.failures and numerical(trial)]
        search.failing += wrong[:MOST_EVIDENCE]
    trials = [trial for search in failing for trial in search.failing]

    rounding = looks_like(other_roundings(subject), trials, more)
    claim = "" if rounding else _claim(failing)
    words = [rounding or claim] * len(failing) if rounding or claim else _claims(failing)
    words = words or [looks_like(other_launches(subject), trials, more)] * len(failing)
    for search, found in zip(failing, words, strict=False):
        search.findings = [replace(item, explanation=found) for item in search.findings]


def _claim(searches: list[FormatSearch]) -> str:
    """The claim that makes all formats right; "" if there is none."""
    trials = [trial for search in searches for trial in search.failing]

    def still_wrong(subject: Subject) -> Trial | None:
        return next(filter(None, (search.still_wrong(subject) for search in searches)), None)

    return right_if(searches[0].subject, trials, still_wrong)


def _claims(failing: list[FormatSearch]) -> list[str]:
    """A claim for each of several formats, or none at all."""
    claims: list[str] = []
    for search in failing if len(failing) > 1 else ():
        claims.append(_claim([search]))
        if not claims[-1]:
            return []
    return claims
