"""Double-double arithmetic against mpmath at 400 bits: accuracy, special values, and what is called unknown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from harness.numbers import double
from harness.numbers.backend import Float64
from harness.numbers.double import SMALLEST, Double
from harness.numbers.double_backend import DoubleDouble
from harness.numbers.double_elementary import apply

mp = mpmath.MPContext()
mp.prec = 400
N = 300
random = np.random.default_rng(0)


def pair(high: Any) -> Double:
    """Values with low words that are 0 or random."""
    high = np.asarray(high, dtype=np.float64)
    low = high * 2.0**-54 * random.uniform(-1, 1, high.shape) * (random.random(high.shape) < 0.7)
    return Double(torch.from_numpy(high.copy()), torch.from_numpy(low))


def exactly(x: Double) -> list[Any]:
    words = zip(x.hi.flatten().tolist(), x.lo.flatten().tolist(), strict=True)
    return [mp.mpf(h) + mp.mpf(l) for h, l in words]


def largest_error(found: Double, right: list[Any]) -> Any:
    """Relative to what is right, over the elements that are not called unknown."""
    known = (~found.unknown).flatten().tolist()
    assert sum(known) > len(known) / 2
    value = [v for v, k in zip(exactly_known(found), known, strict=True) if k]
    wanted = [r for r, k in zip(right, known, strict=True) if k]
    return max(abs(v - r) / abs(r) if r else abs(v) * mp.inf for v, r in zip(value, wanted, strict=True))


def exactly_known(x: Double) -> list[Any]:
    return exactly(Double(x.hi, torch.where(x.unknown, 0.0, x.lo)))


def logarithmic(low: float, high: float) -> Any:
    return 10.0 ** random.uniform(low, high, N)


ARGUMENTS: dict[str, list[Any]] = {
    "exp": [random.uniform(-745, 709, N), random.uniform(-1, 1, N), logarithmic(-300, -1)],
    "expm1": [random.uniform(-700, 709, N), random.uniform(-1, 1, N), -logarithmic(-280, -1)],
    "log": [logarithmic(-300, 300), 1 + random.uniform(-0.5, 0.5, N), 1 + logarithmic(-15, -1)],
    "log1p": [logarithmic(-280, 300), random.uniform(-0.99, 0.5, N), -logarithmic(-280, -1)],
    "sqrt": [logarithmic(-290, 300), random.uniform(0, 1, N)],
    "tanh": [logarithmic(-280, 3), random.uniform(-3, 3, N), -logarithmic(-20, 0)],
    "erf": [logarithmic(-280, 3), random.uniform(-10, 10, N), -logarithmic(-20, 0)],
    "sin": [logarithmic(-280, 3), random.uniform(-10, 10, N), np.round(random.uniform(0, 1e5, N)) * np.pi],
    "cos": [logarithmic(-280, 3), random.uniform(-10, 10, N), np.round(random.uniform(0, 1e5, N)) * np.pi],
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_elementary_functions(name: str) -> None:
    x = pair(np.concatenate(ARGUMENTS[name]))
    assert largest_error(apply(name, x), [getattr(mp, name)(v) for v in exactly(x)]) <= 2.0**-98


@pytest.mark.parametrize("name", ARGUMENTS)
def test_special_values_are_those_of_float64(name: str) -> None:
    x = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan], dtype=torch.float64)
    found = apply(name, Double(x))
    plain = Float64().apply(name, x)
    assert torch.equal(torch.nan_to_num(found.hi), torch.nan_to_num(plain))
    assert torch.equal(found.hi.isnan(), plain.isnan())
    assert torch.equal(torch.signbit(found.hi[:2]), torch.signbit(plain[:2]))
    assert bool((found.lo == 0).all())


OPERATORS: dict[str, tuple[Callable[..., Double], Callable[[Any, Any], Any]]] = {
    "+": (double.add, lambda a, b: a + b),
    "·": (double.multiply, lambda a, b: a * b),
    "/": (double.divide, lambda a, b: a / b),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    operator, right = OPERATORS[name]
    x = pair(random.standard_normal(3 * N) * 10.0 ** random.uniform(-140, 140, 3 * N))
    close = Double(-x.hi * (1 + torch.from_numpy(random.integers(-3, 4, 3 * N) * 2.0**-52)), x.lo)
    for y in (pair(random.standard_normal(3 * N) * 10.0 ** random.uniform(-140, 140, 3 * N)), close):
        wanted = [right(a, b) for a, b in zip(exactly(x), exactly(y), strict=True)]
        assert largest_error(operator(x, y), wanted) <= 2.0**-102


def test_what_is_too_small_or_overflows_on_the_way_is_unknown_and_stays_so() -> None:
    tiny = Double(torch.tensor([2.0**-500, 2.0**-480, 0.0], dtype=torch.float64))
    product = tiny * tiny
    assert product.unknown.tolist() == [True, False, False]
    assert SMALLEST == 2.0**-960
    assert (product + 1.0).unknown.tolist() == [True, False, False]
    assert (product * 0.0 + 3.0).unknown.tolist() == [True, False, False]
    assert double.sum_along(product, 0).unknown.tolist() == [True]
    assert DoubleDouble().amax(product, 0).unknown.tolist() == [True]
    huge = Double(torch.tensor([1.7e308], dtype=torch.float64))
    assert (huge + huge).hi.tolist() == [math.inf]
    assert (huge * Double(torch.tensor([0.999], dtype=torch.float64))).hi.tolist() == [1.7e308 * 0.999]


def test_what_vanishes_is_0_and_known() -> None:
    """Below 2^-1500 a result is as good as 0; between that and 2^-960 its low word is not known."""
    tiny = Double(torch.tensor([2.0**-800, 2.0**-700, 5e-324], dtype=torch.float64))
    two = double.joined([tiny, Double(torch.full((1,), 2.0**-3, dtype=torch.float64))], 0)
    for found, unknown in (
        (tiny * tiny, [False, True, False]),
        (
            tiny / Double(torch.tensor([2.0**800, 2.0**700, 2.0**600], dtype=torch.float64)),
            [False, True, False],
        ),
        (double.product_along(two, 0), [False]),
        (
            apply("exp", Double(torch.tensor([-1045.0, -900.0, -2000.0], dtype=torch.float64))),
            [False, True, False],
        ),
    ):
        assert found.unknown.tolist() == unknown
        assert found.hi.tolist() == [0.0] * len(unknown)
    lost = Double(tiny.hi, torch.full_like(tiny.hi, math.nan))
    assert bool(
        (lost * tiny).unknown.all() & (lost / tiny.each(lambda w: 1 / w.clamp(min=1e-300))).unknown.all()
    )


def test_only_whole_numbers_leave_no_rest() -> None:
    """-1e-30 leaves 1 - 1e-30, which is 1 in float64, and no 0."""
    high = torch.tensor(
        [3.0, -3.0, 0.0, 0.5, -1e-30, -1e-322, 1e-30, 2.0**60, 2.0**60, 1.0], dtype=torch.float64
    )
    low = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.5, -1e-30], dtype=torch.float64)
    whole = [True, True, True, False, False, False, False, True, False, False]
    assert ((Double(high, low) % 1) == 0).tolist() == whole


UNKNOWN = Double(
    torch.tensor([0.0, 1e-320, 1e-30, 1e-3, 0.25, 1.0, 3.0, 60.0, -0.25, -3.0, 1e300], dtype=torch.float64),
    torch.full((11,), math.nan, dtype=torch.float64),
)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_what_is_made_of_an_unknown_argument_is_unknown(name: str) -> None:
    found = apply(name, UNKNOWN)
    # tanh, erf and exp(x) - 1 far from 0 are 1 or -1 to more digits than they would keep
    flat = {"tanh": found.hi.abs() == 1, "erf": found.hi.abs() == 1, "expm1": found.hi == -1}
    assert bool((found.unknown | flat.get(name, found.unknown)).all())


@pytest.mark.parametrize("name", [*OPERATORS, "maximum", "minimum"])
def test_what_is_made_of_an_unknown_operand_is_unknown(name: str) -> None:
    operator = OPERATORS[name][0] if name in OPERATORS else getattr(DoubleDouble(), name)
    known = Double(torch.full_like(UNKNOWN.hi, 1.7))
    assert bool(operator(UNKNOWN, known).unknown.all())
    assert bool(operator(known, UNKNOWN).unknown.all())


def test_errors_are_tensors_and_values_keep_both_words() -> None:
    x = Double(
        torch.tensor([1.0, -2.0], dtype=torch.float64), torch.tensor([2.0**-60, 0.0], dtype=torch.float64)
    )
    t = torch.tensor([0.5, 0.5], dtype=torch.float64)
    for error in (abs(x), x + t, t + x, t * x, x / t, t / x, t - x):
        assert isinstance(error, torch.Tensor)
    assert isinstance(x * 3.0 - 1, Double)
    assert (x > 1.0).tolist() == [True, False]
    with pytest.raises(TypeError, match="would drop the low words"):
        torch.cat([x, x])  # type: ignore[list-item]


@pytest.mark.parametrize("n", [0, 1, 2, 7, 64])
def test_reductions_equal_exact_ones(n: int) -> None:
    x = pair(random.standard_normal((3, n)) * 10.0 ** random.uniform(-8, 8, (3, n)))
    rows = np.array(exactly(x), dtype=object).reshape(3, n)
    right = [mp.fsum(row) for row in rows]
    scale = [mp.fsum(abs(v) for v in row) for row in rows]
    total = exactly(double.sum_along(x, 1))
    assert all(abs(v - r) <= s * 2.0**-98 for v, r, s in zip(total, right, scale, strict=True))
    product = exactly(double.product_along(x, 1))
    assert all(abs(v - mp.fprod(row)) <= abs(v) * 2.0**-96 for v, row in zip(product, rows, strict=True))
    if n:
        last = exactly(double.cumulative_sum(x, 1)[:, n - 1 :])
        assert all(abs(v - r) <= s * 2.0**-98 for v, r, s in zip(last, right, scale, strict=True))
