"""The conformance suite: every kernel of kernels/ is right in every format, every mutant of it is caught."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.subjects import Target, discover, load

FOLDER = Path(__file__).parent.parent / "kernels"
SUBJECTS = list(discover(str(FOLDER)))
EXAMPLES = 160


def _name(target: Target) -> str:
    return target.spec.rpartition("/")[2]


def _formats() -> list[object]:
    return [
        pytest.param(target, fmt, id=f"{_name(target)}-{fmt}")
        for target in SUBJECTS
        for fmt in target.declaration.dtypes
    ]


def _mutants() -> list[object]:
    return [
        pytest.param(target, mutant, id=f"{_name(target)}@{mutant}")
        for target in SUBJECTS
        for mutant in target.declaration.mutants
    ]


@pytest.mark.parametrize(("target", "fmt"), _formats())
def test_kernel_is_right(target: Target, fmt: str) -> None:
    declared = target.declaration
    verdict = harness.check(
        target, declared.contract, fmt, claims=declared.claims, domain=declared.domain, examples=EXAMPLES
    )
    assert verdict.ok, str(verdict)


@pytest.mark.parametrize(("target", "mutant"), _mutants())
def test_mutant_is_caught(target: Target, mutant: str) -> None:
    """In one of the formats at least; the first that catches it ends the test."""
    declared = target.declaration
    found = load(f"{target.spec}@{mutant}")
    for fmt in declared.dtypes:
        verdict = harness.check(
            found,
            declared.contract,
            fmt,
            claims=declared.claims,
            domain=declared.domain,
            examples=400,
            shrink=False,
        )
        if verdict.outcome in ("FAIL", "ERROR"):
            return
    pytest.fail(f"{target.spec}@{mutant} survived in every format")


def test_every_kernel_carries_mutants() -> None:
    assert SUBJECTS
    for target in SUBJECTS:
        assert len(target.declaration.mutants) >= 4, target.spec
