"""The first line of a verdict: the claim that explains every finding, in one line."""

from __future__ import annotations

import pytest

from harness.case import Case
from harness.verdict import Finding, Tally, Verdict

FLUSHED = "right if claims={'flush': 'all'}"
NARROW = "right if claims={'accumulator': 'float16'}"


@pytest.mark.parametrize(
    ("explained", "line"),
    [
        ({"float32": FLUSHED, "float16": FLUSHED}, FLUSHED),
        ({"float32": FLUSHED, "float16": NARROW}, f"in float32 {FLUSHED}; in float16 {NARROW}"),
        (
            {"float32": FLUSHED, "float16": NARROW, "bfloat16": FLUSHED},
            f"in float32 and bfloat16 {FLUSHED}; in float16 {NARROW}",
        ),
        ({"float32": FLUSHED, "float16": ""}, ""),
        ({"float32": FLUSHED, "float16": "as if the last column were missing"}, ""),
        ({}, ""),
    ],
)
def test_formats_with_one_claim_share_it(explained: dict[str, str], line: str) -> None:
    case = Case({}, {}, {})
    findings = tuple(
        Finding(check, "out[0] is 1", case, format=name, explanation=explanation)
        for name, explanation in explained.items()
        for check in ("accuracy", "special values")
    )
    verdict = Verdict("f", "sum", "cpu", findings, {name: Tally() for name in explained})
    assert verdict.claim == line
    assert str(verdict).startswith(line or "FAIL" if findings else "EMPTY")
