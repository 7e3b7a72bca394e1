"""The words of a wrong element."""

from __future__ import annotations

import torch

from harness.checks.agreement import wrong_elements
from harness.checks.judgement import Target
from harness.checks.sentence import judge
from harness.checks.wording import element_text
from harness.formats import FLOAT32
from harness.numbers import Answer


def test_the_ratio_is_that_of_the_value_it_is_said_of() -> None:
    """An answer of another launch is told with its own error, not with that of the launch that was judged."""
    exact = torch.tensor([1.0], dtype=torch.float64)
    answer = Answer(exact, torch.full_like(exact, 2.0**-20), torch.zeros_like(exact, dtype=torch.uint8))
    judgement = judge(exact, answer, Target("number", FLOAT32, FLOAT32))
    assert "8 × the allowed error" in element_text("out", (0,), 1.0 + 2.0**-17, judgement, FLOAT32)


def test_integers_are_told_without_hexadecimal_digits() -> None:
    exact = torch.tensor([3.0, 2.0**40 + 1, 2.5], dtype=torch.float64)
    answer = Answer(exact, torch.zeros_like(exact), torch.zeros_like(exact, dtype=torch.uint8))
    judgement = judge(exact, answer, Target("exact", None, FLOAT32))
    assert element_text("q", (0,), 1.0, judgement, None) == "q[0] is 1, exact 3; right: 3"
    assert element_text("q", (1,), 2.0**40, judgement, None) == (
        "q[1] is 1099511627776, exact 1099511627777; right: 1099511627777"
    )
    assert element_text("q", (2,), 2.0, judgement, None) == "q[2] is 2, exact 2.5; right: 2.5"


def test_an_index_that_may_be_chosen_is_a_whole_number() -> None:
    scores = torch.tensor([[0.0, 3.0, 1.0]], dtype=torch.float64)
    answer = Answer(scores, torch.zeros_like(scores), torch.zeros_like(scores, dtype=torch.uint8))
    judgement = judge(torch.tensor([1.0], dtype=torch.float64), answer, Target("choice", None, FLOAT32))
    text = element_text("out", (0,), 1.0, judgement, None)
    assert "0x" not in text and text.startswith("out[0] is 1, exact 0; right: 0")


def test_where_both_zeros_are_right_zero_has_no_sign() -> None:
    exact = torch.tensor([-0.0, -0.0], dtype=torch.float64)
    t = torch.tensor([0.0, 2.0**-149], dtype=torch.float64)
    judgement = judge(exact, Answer(exact, t, torch.zeros_like(exact, dtype=torch.uint8)), _float32())
    assert element_text("out", (0,), 1.0, judgement, FLOAT32).endswith(
        "exact 0 (0x0p+0): off by 7.136e+44 ulp, should be exact; right: 0"
    )
    assert "exact 0 (0x0p+0)" in element_text("out", (1,), 1.0, judgement, FLOAT32)


def _float32() -> Target:
    return Target("number", FLOAT32, FLOAT32)


def test_a_finite_answer_that_is_missed_is_told_before_a_missing_nan() -> None:
    got = torch.tensor([0.0, torch.nan, torch.nan], dtype=torch.float64)
    value = torch.tensor([torch.nan, 1.0, torch.nan], dtype=torch.float64)
    flags = torch.zeros(3, dtype=torch.uint8)
    judged = judge(
        got, Answer(value, torch.zeros(3, dtype=torch.float64), flags), Target("number", FLOAT32, FLOAT32)
    )
    (failure,) = wrong_elements(
        [got], [judged], ["out"], [FLOAT32], [torch.arange(3)], [torch.zeros(3).bool()]
    )
    assert (failure.check, failure.element) == (
        "special values",
        (1,),
    ) and "2 of 3 elements" in failure.message
