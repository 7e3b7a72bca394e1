"""The variance rule, attacked with two-pass, Welford and Chan forms; the textbook form needs a claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from adversarial import half_ulps, operands, rows
from emulation import ORDERS, Unit, laned
from judging import Array, attack, model, mp, narrower, rejected, truth

from harness import numbers
from harness.formats import FLOAT16, FLOAT32, FLOAT64, Format, round_to
from harness.numbers.number import LOST

MISSES: list[int | str] = [0, 2, -2, "random"]


def variance_rows(fmt: Format, n: int, seed: int = 0) -> Array:
    """[R, n]: large means, constant rows with an awkward mantissa, ramps, outliers, rows for sums."""
    random = np.random.default_rng(seed)
    normal = random.standard_normal((3, n))
    large = 0.8 if fmt is FLOAT16 else 1.0
    ramp = np.arange(n)[None, :]
    staircase = 1.0 + 0.999 * fmt.u * ramp
    outlier = 1e-2 * random.standard_normal((2, n))
    outlier[0, 0], outlier[1, -1] = 50.0, 50.0
    found = np.concatenate(
        [
            *(mean + normal for mean in (10.0, -100.0 * large, 1e3, 1e4)),
            1000 + np.round(3 * normal) * 2000 * fmt.u,
            staircase,
            staircase[:, ::-1],
            ramp / n + 1.0,
            np.where(ramp < n // 2, 1.0, 1.0 + n * fmt.u / 2),
            np.full((1, n), 0.1),
            np.full((1, n), 1 / 3),
            outlier,
            3.0 + half_ulps(fmt, n) / 2**8,
        ]
    )
    return round_to(np.concatenate([found, rows(fmt, n, seed) if fmt is FLOAT32 else found[:0]]), fmt)


def two_pass(unit: Unit, x: Array, order: str, correction: int) -> tuple[Array, int]:
    n = float(x.shape[1])
    total, depth = ORDERS[order](unit, x)
    mean = unit.div(total, np.full_like(total, n))
    deviation = unit.sub(x, mean[:, None])
    squares, _ = ORDERS[order](unit, unit.mul(deviation, deviation))
    return unit.div(squares, np.full_like(squares, n - correction))[:, None], depth


State = tuple[Array, Array, Array]


def welford(unit: Unit, x: Array) -> State:
    """Counts, means and sums of squares of [R, n, lanes] along n."""
    mean, squares = x[:, 0], np.zeros_like(x[:, 0])
    for k in range(2, x.shape[1] + 1):
        difference = unit.sub(x[:, k - 1], mean)
        mean = unit.add(mean, unit.div(difference, np.full_like(difference, float(k))))
        squares = unit.fma(difference, unit.sub(x[:, k - 1], mean), squares)
    return np.full_like(mean, float(x.shape[1])), mean, squares


def merged(unit: Unit, left: State, right: State) -> State:
    """Chan, Golub and LeVeque's merge of two parts."""
    (na, ma, sa), (nb, mb, sb) = left, right
    n = na + nb
    weight = unit.div(nb, n)
    difference = unit.sub(mb, ma)
    mean = unit.add(ma, unit.mul(difference, weight))
    square = unit.mul(unit.mul(difference, difference), unit.mul(na, weight))
    return n, mean, unit.add(unit.add(sa, sb), square)


def laned_welford(unit: Unit, x: Array, lanes: int, correction: int) -> tuple[Array, int]:
    """Welford in every lane over the row, then merges of halves: depth n/lanes - 1 + log2 lanes."""
    state = welford(unit, x.reshape(len(x), -1, lanes))
    depth = x.shape[1] // lanes - 1
    while state[0].shape[1] > 1:
        half = state[0].shape[1] // 2
        state = merged(unit, tuple(s[:, :half] for s in state), tuple(s[:, half:] for s in state))
        depth += 1
    return unit.div(state[2], state[0] - correction), depth


def textbook(unit: Unit, x: Array, correction: int) -> Array:
    n = np.full(len(x), float(x.shape[1]))
    mean = unit.div(laned(unit, x)[0], n)
    mean_square = unit.div(laned(unit, unit.mul(x, x))[0], n)
    variance = unit.fma(-mean, mean, mean_square)
    return (unit.div(unit.mul(variance, n), n - correction) if correction else variance)[:, None]


def exact_variance(correction: int) -> Any:
    def variance(x: list[Any]) -> Any:
        total = mp.mpf(0)
        for term in x:
            total += term
        mean, squares = total / len(x), mp.mpf(0)
        for term in x:
            squares += (term - mean) ** 2
        return squares / (len(x) - correction)

    return variance


def reading(correction: int) -> Any:
    return lambda x: numbers.var(x, -1, correction)


@pytest.mark.parametrize("fmt", [FLOAT32, FLOAT16], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize("n", [2, 64, 512])
def test_two_pass_and_welford(n: int, correction: int, fmt: Format) -> None:
    x = variance_rows(fmt, n)
    exact = truth(exact_variance(correction), x)
    for off in MISSES:
        unit = Unit(fmt, off)
        for order in ORDERS:
            held, depth = two_pass(unit, x, order, correction)
            for variance in ("any", "two-pass"):
                held_to = model(fmt, variance=variance, depth=depth)
                attack(reading(correction), {"x": x}, exact, {order: held}, held_to)
        for lanes in {lanes for lanes in (1, 16, n) if n % lanes == 0}:
            held, depth = laned_welford(unit, x, lanes, correction)
            attack(reading(correction), {"x": x}, exact, {f"{lanes} lanes": held}, model(fmt, depth=depth))


Attack = tuple[Array, dict[Any, Array], dict[str, Any]]
"""Rows, what implementations hold of their variance, and their claims."""


def textbook_of_three() -> Attack:
    x = operands(FLOAT32, 1200, 0, 0, 0, signed=False).reshape(400, 3)
    held = {off: textbook(Unit(off=off), x, 0) for off in MISSES}
    return x, held, {"variance": "textbook", "depth": 2}


def two_pass_of_three() -> Attack:
    x = operands(FLOAT32, 1200, 0, 0, 0).reshape(400, 3)
    held = {off: two_pass(Unit(off=off), x, "tree", 0)[0] for off in MISSES}
    return x, held, {"variance": "two-pass", "depth": 2}


def two_pass_with_a_wrong_mean() -> Attack:
    """Terms near 1, each of which loses almost half an ulp of the sum so far."""
    row, total = [1.0], np.array(1.0)
    while len(row) < 4096:
        half_ulp = 2.0 ** (np.floor(np.log2(total)) - 24)
        row.append(1 + max(half_ulp - 2.0**-23, 0.0))
        total = Unit().add(total, np.array(row[-1]))
    x = np.array([row])
    return x, {"": two_pass(Unit(), x, "sequential", 0)[0]}, {"variance": "two-pass", "depth": "sequential"}


def welford_with_a_mean_that_no_step_moves() -> Attack:
    """Each step of the running mean is just under half an ulp of it."""
    x = round_to(1.0 + 0.999 * FLOAT32.u * np.arange(4096)[None, :], FLOAT32)
    return x, {"": laned_welford(Unit(), x, 1, 0)[0]}, {"depth": "sequential"}


@pytest.mark.parametrize(
    "case",
    [
        textbook_of_three,
        two_pass_of_three,
        two_pass_with_a_wrong_mean,
        welford_with_a_mean_that_no_step_moves,
    ],
    ids=lambda case: case.__name__,
)
def test_variance_comes_close_to_its_bound(case: Callable[[], Attack]) -> None:
    x, held, claims = case()
    exact = truth(exact_variance(0), x)
    attack(reading(0), {"x": x}, exact, held, model(**claims))
    assert rejected(reading(0), {"x": x}, exact, held, narrower(model(**claims)))


@pytest.mark.parametrize("kappa", [1e3, 1e4, 1e5])
@pytest.mark.parametrize("n", [64, 256, 1024])
def test_textbook_form_needs_its_claim(n: int, kappa: float) -> None:
    """On rows with |mean|/std >= 1000 the textbook form leaves the default bound, and keeps its own."""
    random = np.random.default_rng(1)
    x = round_to(kappa + random.standard_normal((12, n)), FLOAT32)
    exact = truth(exact_variance(0), x)
    held = {"textbook": textbook(Unit(), x, 0)}
    attack(reading(0), {"x": x}, exact, held, model(variance="textbook"))
    assert rejected(reading(0), {"x": x}, exact, held, model())


def test_a_row_whose_sum_overflows_the_reading_is_given_up() -> None:
    x = torch.tensor([[1.6e308, -1.6e308, 1.6e308], [1.0, math.inf, 2.0]], dtype=torch.float64)
    found = numbers.read_double(numbers.var, {"x": x, "dim": -1, "correction": 0}, model(FLOAT64), [None])[0]
    assert ((found.may & LOST) != 0).flatten().tolist() == [True, False]
