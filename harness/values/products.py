"""Factors whose product stays within the format, and factors whose partial products do not."""

from __future__ import annotations

import numpy as np

from harness.formats import Format
from harness.values.counter import Floats, Stream
from harness.values.family import POSITION, Param, family, place, powers


@family("near-one", "structured", "ordinary", params=(Param("signed", (0, 1)),))
def near_one(s: Stream, n: int, fmt: Format, signed: float) -> Floats:
    """Magnitudes in [0.5, 2); of random signs when ``signed``."""
    row = np.ldexp(1.0 + s.uniform(n), s.integers(n, -1, 0, 1))
    return row * s.signs(n, 2) if signed else row


@family("signs", "structured", "ordinary", "exact")
def signs(s: Stream, n: int, fmt: Format) -> Floats:
    """+1 and -1: sums and products are exact in any order."""
    return s.signs(n)


@family("one-plus-ulps", "structured", params=(Param("ulps", (1, 8)),))
def one_plus_ulps(s: Stream, n: int, fmt: Format, ulps: float) -> Floats:
    """1 and a few ulps more: products whose roundings add up."""
    return 1.0 + 2.0 * fmt.u * s.integers(n, 0, int(ulps)).astype(np.float64)


@family("balancing-powers", "structured", params=(Param("width", (1, 4, 12)),))
def balancing_powers(s: Stream, n: int, fmt: Format, width: float) -> Floats:
    """Powers of two with random signs, in pairs 2**e, 2**-e: exact while partial products stay in range."""
    index = np.arange(n)
    width = min(width, fmt.emax / 2)
    exponents = s.integers(n, -int(width), int(width))[index - index % 2]
    return powers(np.where(index % 2 == 0, exponents, -exponents)) * s.signs(n, 1)


@family("with-zero", "structured", params=(POSITION,))
def with_zero(s: Stream, n: int, fmt: Format, position: float) -> Floats:
    """Magnitudes in [0.5, 2), and one zero."""
    return place(np.ldexp(1.0 + s.uniform(n), s.integers(n, -1, 0, 1)), position, 0.0)


@family("partial-overflow", "range", params=(Param("run", (4, 32)),))
def partial_overflow(s: Stream, n: int, fmt: Format, run: float) -> Floats:
    """Runs of large factors, then of small ones: the product is moderate, its partial products are not."""
    large = (np.arange(n) // int(run)) % 2 == 0
    return np.ldexp(1.0 + 0.25 * s.uniform(n), np.where(large, fmt.emax // 3, -(fmt.emax // 3)))


PRODUCTS = (near_one, signs, one_plus_ulps, balancing_powers, with_zero, partial_overflow)
