"""Ordinary data, and data at the edges of the format's range."""

from __future__ import annotations

import numpy as np

from harness.formats import FLOAT32, Format
from harness.values.counter import Floats, Stream
from harness.values.family import Param, family, place


@family("small-integers", "generic", "ordinary", "exact")
def small_integers(s: Stream, n: int, fmt: Format) -> Floats:
    """Integers in [-8, 8]: sums are exact in any order."""
    return s.integers(n, -8, 8).astype(np.float64)


@family("gaussian", "generic", "ordinary", params=(Param("scale", (1.0, 2.0**-6, 16.0)),))
def gaussian(s: Stream, n: int, fmt: Format, scale: float) -> Floats:
    """Bell-shaped, mean 0, standard deviation ``scale``."""
    return s.normal(n) * scale


@family("positive", "generic", "ordinary")
def positive(s: Stream, n: int, fmt: Format) -> Floats:
    """Uniform in [0.5, 1): rounding errors of one sign, sums that grow."""
    return 0.5 + 0.5 * s.uniform(n)


@family("positive-integers", "generic", "ordinary", "exact")
def positive_integers(s: Stream, n: int, fmt: Format) -> Floats:
    """Integers in [1, 8]: every element moves an exact sum."""
    return s.integers(n, 1, 8).astype(np.float64)


@family("window", "generic", params=(Param("width", (1, 0, 4, 10)), Param("ordinary", (1, 0))))
def window(s: Stream, n: int, fmt: Format, width: float, ordinary: float) -> Floats:
    """Random signs and mantissas; exponents uniform in a window of ``width`` binades, drawn per row.

    The window lies within 2**-8 and 2**8, or anywhere in the format when not ``ordinary``.
    """
    low, high = (max(fmt.emin, -8), min(fmt.emax, 8)) if ordinary else (fmt.emin, fmt.emax)
    start = s.integer(low, max(low, high - int(width)), 3)
    exponents = s.integers(n, start, start + int(width), 1)
    return s.signs(n, 2) * np.ldexp(1.0 + s.uniform(n), exponents)


@family("wide", "generic", "ordinary", params=(Param("scale", (8.0, 30.0)),))
def wide(s: Stream, n: int, fmt: Format, scale: float) -> Floats:
    """Bell-shaped with a large spread: exponentials over many orders of magnitude."""
    return s.normal(n) * scale


@family("equal", "structured", "flat", params=(Param("value", (0.1, -0.1, 1 / 3, 0.001, 100.1)),))
def equal(s: Stream, n: int, fmt: Format, value: float) -> Floats:
    """One value with an awkward mantissa: every addition rounds the same way."""
    return np.full(n, value)


@family("signed-zeros", "structured")
def signed_zeros(s: Stream, n: int, fmt: Format) -> Floats:
    """+0.0 and -0.0."""
    return np.copysign(0.0, s.signs(n))


@family("near-overflow", "range", params=(Param("sign", (1, -1, 0)),))
def near_overflow(s: Stream, n: int, fmt: Format, sign: float) -> Floats:
    """Magnitudes in [Omega/4, Omega], one in eight Omega itself; all of one sign, or of both if ``sign`` is 0."""
    magnitude = fmt.max * np.where(s.integers(n, 0, 7, 2) == 0, 1.0, 0.25 + 0.75 * s.uniform(n))
    return magnitude * (sign or s.signs(n, 1))


@family("near-underflow", "range")
def near_underflow(s: Stream, n: int, fmt: Format) -> Floats:
    """Normal numbers of the four lowest binades, random signs."""
    return s.signs(n, 2) * np.ldexp(1.0 + s.uniform(n), fmt.emin + s.integers(n, 0, 3, 1))


@family("subnormal", "range", params=(Param("sign", (0, 1)),))
def subnormal(s: Stream, n: int, fmt: Format, sign: float) -> Floats:
    """Subnormal numbers, random signs or all positive: flushing them to zero shows."""
    count = float(2 ** (fmt.precision - 1) - 1)
    steps = 1.0 + np.floor(s.uniform(n) * count)
    return np.ldexp(np.minimum(steps, count), fmt.emin - fmt.precision + 1) * (sign or s.signs(n, 1))


@family("inf-nan", "special", params=(Param("kind", (3, 0, 2, 1)),))
def inf_nan(s: Stream, n: int, fmt: Format, kind: float) -> Floats:
    """Bell-shaped, one element in eight replaced: by +inf, -inf, NaN or any of them (kind 0 to 3)."""
    marks = (np.inf, -np.inf, np.nan)
    chosen = s.integers(n, 0, 2, 1) if kind == 3 else np.full(n, int(kind))
    return np.where(s.integers(n, 0, 7, 2) == 0, np.array(marks)[chosen], s.normal(n, 3))


def _edges(fmt: Format) -> Floats:
    """NaN, infinities, zeros, ones, the largest and the smallest numbers, normal and subnormal."""
    found = (np.inf, 0.0, 1.0, fmt.max, fmt.eta, 2.0**fmt.emin)
    return np.array([np.nan, *(sign * value for value in found for sign in (1, -1))])


@family("edge-values", "special", "edges", params=(Param("first", tuple(range(len(_edges(FLOAT32))))),))
def edge_values(s: Stream, n: int, fmt: Format, first: float) -> Floats:
    """NaN, infinities, zeros, ones, the largest and the smallest numbers at random; ``first``: which of them begins."""
    edges = _edges(fmt)
    return place(edges[s.integers(n, 0, len(edges) - 1, 1)], 0, edges[int(first)])


ORDINARY = (small_integers, gaussian, positive, positive_integers, window, wide, equal, signed_zeros)
EDGES = (near_overflow, near_underflow, subnormal, inf_nan, edge_values)
