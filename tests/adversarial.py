"""Operands and rows that saturate error bounds: exact values of a format in float64 arrays."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from harness.formats import FLOAT32, Format, round_to

Array = np.ndarray


def operands(fmt: Format, count: int, seed: int, low: int, high: int, *, signed: bool = True) -> Array:
    """[count] values with exponents in [low, high]: half with random mantissas, half next to 1 and 2."""
    random = np.random.default_rng(seed)
    near = np.array([1.0, 1 + 2 * fmt.u, 1 + 4 * fmt.u, 1 + 6 * fmt.u, 1.5, 2 - 2 * fmt.u, 2 - 4 * fmt.u])
    mantissa = np.where(random.random(count) < 0.5, 1 + random.random(count), random.choice(near, count))
    values = np.ldexp(mantissa, random.integers(low, high + 1, count))
    if signed:
        values *= random.choice([-1.0, 1.0], count)
    return round_to(values, fmt)


def subnormals(fmt: Format, count: int, seed: int, *, signed: bool = True) -> Array:
    """[count] subnormal numbers and the smallest normal ones."""
    random = np.random.default_rng(seed)
    few = random.integers(1, 12, count)
    many = random.integers(1, round(4 * fmt.tiny / fmt.eta), count)
    values = np.where(random.random(count) < 0.5, few, many) * fmt.eta
    return values * random.choice([-1.0, 1.0], count) if signed else values


def half_ulps(fmt: Format, n: int, lanes: int = 1) -> Array:
    """[1, n]: 2^k in every lane and then half an ulp of it again and again, each lost to a tie."""
    row = np.full((1, n), 2.0 ** (8 - fmt.precision))
    row[0, :lanes] = 2.0**8
    return row


def half_ulps_of_tree(fmt: Format, depth: int) -> Array:
    """[1, 2^depth]: at each level of a tree of neighbours, the right half is half an ulp of the left."""
    row = np.array([1.0])
    for _ in range(depth):
        right = np.zeros(len(row))
        right[0] = fmt.u
        row = np.concatenate([row, right])
    return row[None, :]


def ill_conditioned(n: int, exponents: int, seed: int, fmt: Format = FLOAT32) -> Array:
    """[1, n]: a ramp up, then cancelled term by term (Ogita, Rump & Oishi, doi:10.1137/030601818, §6)."""
    random = np.random.default_rng(seed)
    half = n // 2
    ramp = random.integers(0, exponents + 1, half)
    ramp[0], ramp[-1] = exponents, 0
    first = round_to(np.ldexp(2 * random.random(half) - 1, ramp), fmt)
    row, total = list(first), sum((Fraction(v) for v in first), Fraction(0))
    for e in np.linspace(exponents, 0, n - half).round().astype(int):
        term = Fraction(np.ldexp(2 * random.random() - 1, int(e))) - total
        row.append(float(round_to(np.array([float(term)]), fmt)[0]))
        total += Fraction(row[-1])
    return random.permutation(np.array(row))[None, :]


def rows(fmt: Format, n: int, seed: int = 0) -> Array:
    """[R, n] adversarial rows for sums of every kind."""
    random = np.random.default_rng(seed)
    normal = random.standard_normal((4, n))
    alternating = (1 + 3 * random.random((2, n))) * np.where(np.arange(n) % 2, -1, 1)
    pairs = random.standard_normal((2, n))
    pairs[:, 1::2] = -(pairs[:, 0::2] * (1 + 4 * fmt.u))[:, : n // 2]
    tail = 1e-3 * random.standard_normal((1, n))
    tail[0, -1] = 100.0
    found = np.concatenate(
        [
            half_ulps(fmt, n),
            half_ulps(fmt, n, 64),
            half_ulps(fmt, n)[:, ::-1],
            np.full((1, n), 0.1),
            np.full((1, n), 1 / 3),
            normal,
            np.sort(abs(normal), axis=1),
            np.sort(abs(normal), axis=1)[:, ::-1],
            alternating,
            pairs,
            tail,
            100 + random.standard_normal((2, n)),
            np.exp2(random.uniform(-10, 10, (2, n))),
        ]
    )
    return round_to(np.concatenate([found, fmt.eta * random.integers(-9, 10, (2, n))]), fmt)
