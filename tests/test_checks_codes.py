"""Codes and choices: the sentence on the grid of an integer or fp8 dtype, and sets of right indices."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch

from harness.checks.judgement import Judgement, Target
from harness.checks.sentence import judge
from harness.checks.wording import element_text
from harness.formats import FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT32, FLOAT64, Format
from harness.numbers import Answer
from harness.numbers.number import NAN, NINF, PINF, UNSPECIFIED

INT8 = Target("code", None, FLOAT32, clamp=(-127, 127))


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def answer(value: torch.Tensor, t: float = 0.0, may: int = 0) -> Answer:
    return Answer(value, torch.full_like(value, t), torch.full_like(value, may, dtype=torch.uint8))


def judged(got: float, value: float, t: float = 0.0, target: Target = INT8, may: int = 0) -> Judgement:
    return judge(tensor(got), answer(tensor(value), t, may), target)


@pytest.mark.parametrize(
    ("value", "t", "right"),
    [
        (127.4, 0.0, {127}),
        (127.6, 0.0, {127}),
        (-128.6, 0.0, {-127}),
        (0.5, 0.0, {0}),
        (1.5, 0.0, {2}),
        (2.5, 0.0, {2}),
        (-0.5, 0.0, {0}),
        (2.5, 1e-6, {2, 3}),
        (2.5 + 1e-6, 1e-7, {3}),
        (2.0, 0.6, {1, 2, 3}),
        (math.inf, 0.0, {127}),
        (-math.inf, 0.0, {-127}),
        (0.0, 0.0, {0}),
    ],
)
def test_integer_codes(value: float, t: float, right: set[int]) -> None:
    assert {code for code in range(-128, 128) if bool(judged(code, value, t).right)} == right


@pytest.mark.parametrize("may", [NAN, NAN | PINF])
def test_where_nan_may_be_held_any_code_is_right(may: int) -> None:
    """As of 0/0, where a scale may have been flushed."""
    found = judged(0.0, math.inf, may=may)
    assert bool(found.right) and bool(found.unspecified) and not bool(found.decisive)


@pytest.mark.parametrize("clamp", [(-127, 127), (-128, 127), (0, 255)])
def test_where_an_infinity_may_be_held_the_clamp_is_right(clamp: tuple[int, int]) -> None:
    for flag, code in ((NINF, clamp[0]), (PINF, clamp[1])):
        target = Target("code", None, FLOAT32, clamp=clamp)
        right = {c for c in range(-130, 260) if bool(judged(c, 5.0, 0.0, target, flag).right)}
        assert right == {5, code}
        text = element_text("q", (0,), 9.0, judged(9.0, 5.0, 0.0, target, flag), None)
        assert text.endswith(f"right: 5 or {code}")


def test_without_a_clamp_infinities_have_no_code() -> None:
    assert bool(judged(17.0, 5.0, 0.0, Target("code", None, FLOAT32), PINF).unspecified)


def test_nan_has_no_integer_code() -> None:
    found = judged(17.0, math.nan)
    assert bool(found.right) and bool(found.unspecified) and float(found.ratio) == 0
    assert not bool(found.decisive)


def test_the_ratio_of_a_code_is_of_half_a_step() -> None:
    assert float(judged(3.0, 2.6, 0.1).ratio) == pytest.approx(0.4 / 0.6)
    assert float(judged(3.0, 1.0, 0.1).ratio) > 1
    assert float(judged(127.0, 300.0).ratio) == 0


@pytest.mark.parametrize(
    ("value", "fmt", "right"),
    [
        (1.0625, FLOAT8_E4M3FN, 1.0),
        (1.0625001, FLOAT8_E4M3FN, 1.125),
        (136.002075, FLOAT8_E4M3FN, 144.0),
        (400.199585, FLOAT8_E4M3FN, 416.0),
        (1000.0, FLOAT8_E4M3FN, 448.0),
        (1.125, FLOAT8_E5M2, 1.0),
        (2.0**-11, FLOAT8_E4M3FN, 0.0),
    ],
)
def test_fp8_codes_are_rounded_once(value: float, fmt: Format, right: float) -> None:
    target = Target("code", fmt, FLOAT32, saturate=not fmt.infinities)
    found = judged(right, value, 0.0, target)
    assert bool(found.right)
    step = 2 ** (math.floor(math.log2(max(right, 2.0**-6))) - fmt.precision + 1)
    assert not bool(judged(right + step, value, 0.0, target).right)
    assert not bool(judged(right - step, value, 0.0, target).right)


def test_fp8_ratio_is_of_half_an_ulp() -> None:
    target = Target("code", FLOAT8_E4M3FN, FLOAT32, saturate=True)
    assert float(judged(416.0, 410.0, 0.0, target).ratio) == pytest.approx(6 / 16)


def test_an_open_answer_has_no_ratio() -> None:
    found = judged(99.0, 1.0, 0.0, INT8, UNSPECIFIED)
    assert bool(found.right) and float(found.ratio) == 0 and bool(found.unspecified)


def test_codes_of_mpmath_answers() -> None:
    context = mpmath.MPContext()
    values = np.array([context.mpf("2.5"), context.mpf("2.5") + context.mpf(2) ** -80], dtype=object)
    t = np.array([context.mpf(0)] * 2, dtype=object)
    exact = Answer(values, t, np.zeros(2, dtype=np.uint8), context)
    target = Target("code", None, FLOAT64, clamp=(-127, 127))
    assert judge(tensor(2.0, 3.0), exact, target).right[0]
    assert not judge(tensor(3.0, 3.0), exact, target).right[0]


CHOICE = Target("choice", None, FLOAT32)


def choice(got: float, scores: list[float], t: list[float] | float = 0.0) -> Judgement:
    value = tensor(*scores)[None]
    errors = tensor(*t)[None] if isinstance(t, list) else torch.full_like(value, t)
    return judge(tensor(got), Answer(value, errors, torch.zeros_like(value, dtype=torch.uint8)), CHOICE)


@pytest.mark.parametrize(
    ("scores", "t", "right"),
    [
        ([3.0, 1.0, 2.0], 0.0, {1}),
        ([1.0, 1.0, 2.0], 0.0, {0}),
        ([2.0, 1.0, 1.0], 0.0, {1}),
        ([1.0, 1.0, 2.0], 1e-9, {0, 1}),
        ([1.0, 1.5, 2.0], 0.3, {0, 1}),
        ([1.0, 1.5, 2.0], [0.0, 0.6, 0.0], {0, 1}),
        ([math.inf, math.inf], 0.0, {0}),
    ],
)
def test_choices(scores: list[float], t: list[float] | float, right: set[int]) -> None:
    indices = range(-1, len(scores) + 1)
    assert {i for i in indices if bool(choice(i, scores, t).right)} == right


def test_a_choice_is_decisive_where_0_is_wrong() -> None:
    assert bool(choice(1.0, [2.0, 1.0]).decisive)
    assert not bool(choice(0.0, [1.0, 2.0]).decisive)


def test_a_wrong_choice_is_infinitely_wrong() -> None:
    found = choice(0.0, [2.0, 1.0])
    assert found.ratio.dtype == torch.float64 and math.isinf(float(found.ratio))
    assert bool(found.accepts(tensor(1.0)))


def test_exact_outputs() -> None:
    target = Target("exact", None, FLOAT32)
    assert bool(judged(-3596.0, -3596.0, 5.0, target).right)
    assert not bool(judged(-12.0, -3596.0, 5.0, target).right)


def test_the_largest_number_for_what_lies_beyond_has_no_ratio() -> None:
    """A saturating format holds nothing nearer, however far the exact value is."""
    target = Target("number", FLOAT8_E4M3FN, FLOAT32, None, True)
    for value, got, ratio in (
        (8e9, 448, 0),
        (-8e9, -448, 0),
        (8e9, 416, math.inf),
        (448, 448, 0),
        (440, 448, 0.5),
    ):
        assert judged(got, value, target=target).ratio.item() == ratio
