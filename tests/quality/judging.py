"""A subject's verdict, and in which ways it is not the one that the subject must get."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import torch

import harness
from harness.search import replay
from harness.verdict import ERRORS, Finding, Verdict
from quality.declare import Subject


def judged(subject: Subject, *, examples: int | None = None, shrink: bool = True, seed: int = 0) -> Verdict:
    """The verdict, at default settings unless ``examples`` says otherwise."""
    expected = subject.expected
    dtype = torch.get_default_dtype()
    try:
        return harness.check(
            subject.target,
            expected.contract,
            expected.formats,
            claims=expected.claims,
            domain=expected.domain,
            examples=examples,
            seed=seed,
            timeout=expected.timeout,
            shrink=shrink and (expected.smallest is not None or bool(expected.claim)),
        )
    finally:
        torch.set_default_dtype(dtype)


def problems(subject: Subject, verdict: Verdict, *, shrunk: bool = True) -> list[str]:
    """In words; none if the verdict is as it should be."""
    return list(_of_wrong(subject, verdict, shrunk) if _wrong(subject) else _of_right(verdict))


def _wrong(subject: Subject) -> bool:
    return subject.found is not None or ".wrong." in subject.function.__module__


def _of_right(verdict: Verdict) -> Iterator[str]:
    if verdict.outcome != "PASS":
        yield f"is right and got {verdict.outcome}"
        for name in verdict.tallies:
            if verdict.outcome_of(name) == "INCONCLUSIVE":
                yield f"{name}: {verdict.tallies[name].reason([])}"
    for finding in verdict.findings:
        yield f"{finding.check} ({finding.format}): {finding.message}"


def _of_wrong(subject: Subject, verdict: Verdict, shrunk: bool) -> Iterator[str]:
    expected = subject.expected
    if verdict.outcome not in ("FAIL", "ERROR"):
        yield f"is wrong and got {verdict.outcome}"
        return
    first = verdict.findings[0]
    checks = {finding.check for finding in verdict.findings}
    if expected.checks and first.check not in expected.checks:
        yield f"found by {first.check!r}, not by {' or '.join(expected.checks)}: {first.message}"
    if (verdict.outcome == "ERROR") != (checks <= ERRORS):
        yield f"outcome {verdict.outcome} with {checks}"
    if not shrunk:
        return
    if expected.smallest is not None and size(first) > expected.smallest:
        yield f"smallest input has {size(first)} elements, more than {expected.smallest}: {first.case}"
    if expected.rows is not None and situations(subject, first) > expected.rows:
        yield f"smallest input has {situations(subject, first)} situations, more than {expected.rows}: {first.case}"
    line = str(verdict).partition("\n")[0]
    if expected.claim not in ("", "*") and line != expected.claim:
        yield f"first line {line!r} instead of {expected.claim!r}"
    if bool(expected.claim) != bool(verdict.claim):
        yield f"explained by {verdict.claim!r}"


def size(finding: Finding) -> int:
    """Elements of the largest tensor of the smallest input."""
    return max(
        prod(_shape(finding, name)) for name, recipe in finding.case.tensors.items() if recipe is not None
    )


def situations(subject: Subject, finding: Finding) -> int:
    """Situations of the smallest input."""
    return subject.expected.contract.situations(finding.case.sizes, finding.case.scalars)


def _shape(finding: Finding, name: str) -> tuple[int, ...]:
    lengths: list[int] = []
    for size in finding.case.sizes.values():
        lengths += size if isinstance(size, tuple) else [size]
    return tuple(lengths)


def replayed(subject: Subject, finding: Finding) -> Verdict:
    """The verdict of the finding's smallest input alone."""
    expected = subject.expected
    return replay(
        subject.target,
        expected.contract,
        finding.case,
        claims=expected.claims,
        domain=expected.domain,
        timeout=expected.timeout,
    )
