"""The rule for (x - mean)/√(var + eps), attacked with two-pass and Welford forms; infinities times 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from emulation import ORDERS, Unit
from judging import Array, attack, model, mp, narrower, rejected, truth
from test_numbers_variance import MISSES, laned_welford, merged, variance_rows, welford

from harness import numbers
from harness.formats import FLOAT16, FLOAT32, Format
from harness.numbers.backend import Float64
from harness.numbers.number import NAN, PINF, UNSPECIFIED, Reading
from harness.numbers.variance import centre, moments, two_pass_roundings, variance_shortfall

EPS = (1e-5, 1e-12, 1e-1)


def exact_rows(eps: float) -> Any:
    def row(x: list[Any]) -> list[Any]:
        mean = mp.fsum(x) / len(x)
        root = mp.sqrt(mp.fsum((term - mean) ** 2 for term in x) / len(x) + mp.mpf(eps))
        return [(term - mean) / root for term in x]

    return row


def scaled(unit: Unit, x: Array, mean: Array, variance: Array, eps: float, form: str) -> Array:
    """(x - mean) times rsqrt, over sqrt, or times 1/sqrt."""
    w = unit.add(variance, np.full_like(variance, float(unit.round(np.array(eps)))))
    deviation = unit.sub(x, mean[:, None])
    if form == "quotient":
        return unit.div(deviation, np.broadcast_to(unit.sqrt(w)[:, None], x.shape))
    inverse = unit.rsqrt(w) if form == "rsqrt" else unit.div(np.ones_like(w), unit.sqrt(w))
    return unit.mul(deviation, inverse[:, None])


def two_pass(unit: Unit, x: Array, order: str, eps: float, form: str) -> tuple[Array, int]:
    n = np.full(len(x), float(x.shape[1]))
    total, depth = ORDERS[order](unit, x)
    mean = unit.div(total, n)
    deviation = unit.sub(x, mean[:, None])
    squares, _ = ORDERS[order](unit, unit.mul(deviation, deviation))
    return scaled(unit, x, mean, unit.div(squares, n), eps, form), depth


def by_welford(unit: Unit, x: Array, lanes: int, eps: float) -> tuple[Array, int]:
    state = welford(unit, x.reshape(len(x), -1, lanes))
    depth = x.shape[1] // lanes - 1
    while state[0].shape[1] > 1:
        half = state[0].shape[1] // 2
        state = merged(unit, tuple(s[:, :half] for s in state), tuple(s[:, half:] for s in state))
        depth += 1
    variance, _ = laned_welford(unit, x, lanes, 0)
    return scaled(unit, x, state[1][:, 0], variance[:, 0], eps, "rsqrt"), depth


def reading(eps: float) -> Any:
    return lambda x: numbers.standardised(x, -1, eps)


@pytest.mark.parametrize("fmt", [FLOAT32, FLOAT16], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("eps", EPS)
@pytest.mark.parametrize("n", [2, 64])
def test_two_pass_and_welford(n: int, eps: float, fmt: Format) -> None:
    if fmt is FLOAT16 and eps < fmt.eta:
        pytest.skip("eps is 0 in this format")
    x = variance_rows(fmt, n)
    exact = truth(exact_rows(eps), x)
    largest: dict[str, float] = {}
    for off in MISSES:
        unit = Unit(fmt, off)
        for order in ORDERS:
            for form in ("rsqrt", "quotient", "inverse"):
                held, depth = two_pass(unit, x, order, eps, form)
                claims = {"depth": "sequential" if order in ("sequential", "backwards") else depth}
                for variance in ("any", "two-pass"):
                    held_to = model(fmt, variance=variance, **claims)
                    ratio = attack(reading(eps), {"x": x}, exact, {f"{order} {form}": held}, held_to)
                    largest[variance] = max(largest.get(variance, 0), ratio)
        for lanes in (1, n):
            held, depth = by_welford(unit, x, lanes, eps)
            ratio = attack(reading(eps), {"x": x}, exact, {f"{lanes} lanes": held}, model(fmt, depth=depth))
            largest["Welford"] = max(largest.get("Welford", 0), ratio)
    print(n, eps, fmt.name, {name: round(ratio, 3) for name, ratio in largest.items()})


@pytest.mark.parametrize("depth", [None, "sequential", 0, 1])
@pytest.mark.parametrize("divide", [5.0, 7.0, 50.0])
@pytest.mark.parametrize("n", [1, 2, 64, 5000])
def test_no_form_of_the_mean_and_the_variance_is_left_out(n: int, divide: float, depth: Any) -> None:
    """The error of a mean as a sum, and the roundings of a two-pass variance, where Welford's are admitted too."""
    rows = variance_rows(FLOAT32, n)
    x = Reading(Float64(), model(depth=depth, ulp={"divide": divide})).exact(torch.from_numpy(rows))
    m = moments(x, 1)
    middle = centre(x, 1, m, numbers.var(x, 1, m=m))
    assert bool((middle.t >= numbers.mean(x, 1).t).all())
    assert bool((variance_shortfall(x, m) >= two_pass_roundings(x, m)).all())


def test_comes_close_to_its_bound() -> None:
    """At a small depth; with a unit roundoff of a quarter, the same row breaks the rule."""
    x = variance_rows(FLOAT32, 2)
    exact = truth(exact_rows(1e-5), x)
    claims = {"variance": "two-pass", "depth": 1}
    held = {off: two_pass(Unit(FLOAT32, off), x, "tree", 1e-5, "quotient")[0] for off in (2, -2, "random")}
    attack(reading(1e-5), {"x": x}, exact, held, model(**claims))
    assert rejected(reading(1e-5), {"x": x}, exact, held, narrower(model(**claims)))


def test_a_mean_that_drowns_the_spread_leaves_a_two_pass_row_bounded() -> None:
    """Where δ² of the mean's error exceeds σ² + eps, plain propagation leaves the row unspecified."""
    random = np.random.default_rng(0)
    x = torch.from_numpy(1e6 + random.integers(-2, 3, (4, 512)) / 16)
    held_to = model(variance="two-pass")
    answer = numbers.read_float64(reading(1e-12), {"x": x}, held_to, [x.shape])[0]
    assert torch.isfinite(answer.t).all()
    assert not (answer.may & UNSPECIFIED).any()
    plain = numbers.read_float64(
        lambda x: (x - numbers.mean(x, -1)) * numbers.rsqrt(numbers.var(x, -1) + 1e-12),
        {"x": x},
        held_to,
        [x.shape],
    )[0]
    assert (plain.may & UNSPECIFIED).any()


def test_an_infinity_times_what_may_be_zero_may_be_nan() -> None:
    """silu(-90) is -7e-38, which flushes to 0 in float32: times an infinity, it may be NaN."""
    gate = torch.tensor([[-90.0, -1.0]], dtype=torch.float64)
    up = torch.tensor([[-math.inf, -math.inf]], dtype=torch.float64)
    answer = numbers.read_float64(
        lambda gate, up: gate * numbers.sigmoid(gate) * up, {"gate": gate, "up": up}, model(), [(1, 2)]
    )[0]
    assert answer.value.tolist() == [[math.inf, math.inf]]
    assert answer.may[0, 0] & NAN and answer.may[0, 0] & PINF
    assert answer.may[0, 1] == 0
