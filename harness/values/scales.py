"""Magnitudes: rows far from 1, elements of very different size, ties of quantisers, and numbers as tags."""

from __future__ import annotations

import numpy as np

from harness.formats import FLOAT8_E4M3FN, FLOAT8_E5M2, Format, from_ordinal
from harness.values.counter import Floats, Stream
from harness.values.family import Param, family, place, powers


@family("unit", "generic", "ordinary", "mild")
def unit(s: Stream, n: int, fmt: Format) -> Floats:
    """Uniform in [-1, 1): cosines, probabilities' weights, normalised data."""
    return 2.0 * s.uniform(n) - 1.0


@family("zeros", "structured", "exact", "flat")
def zeros(s: Stream, n: int, fmt: Format) -> Floats:
    """All +0.0: a variance, an amax or a second moment of 0."""
    return np.zeros(n)


@family("scaled", "structured", params=(Param("exponent", (10, -10, 18, -24, 4, -5)),))
def scaled(s: Stream, n: int, fmt: Format, exponent: float) -> Floats:
    """Bell-shaped, all of it 2**exponent times as large (as far as the format has it), another for each row.

    What is linear in the row scales with it exactly, unless a partial result lies in a narrower format.
    """
    return s.normal(n) * 2.0 ** min(max(int(exponent), fmt.emin + 6), fmt.emax - 3)


@family(
    "small-magnitudes",
    "structured",
    params=(Param("level", (1e-3, 1e-2, 0.0031622776601683795, 1e-6)), Param("signed", (1, 0))),
)
def small_magnitudes(s: Stream, n: int, fmt: Format, level: float, signed: float) -> Floats:
    """+level and -level, near the square root of an epsilon: where the epsilon is added then matters."""
    return level * (s.signs(n) if signed else np.ones(n))


@family("spread-magnitudes", "structured", params=(Param("signed", (1, 0)),))
def spread_magnitudes(s: Stream, n: int, fmt: Format, signed: float) -> Floats:
    """Exponents from -40 to 10, as far as the format has them, side by side."""
    exponents = s.integers(n, max(fmt.emin, -40), min(fmt.emax - 1, 10), 1)
    return np.ldexp(1.0 + s.uniform(n), exponents) * (s.signs(n, 2) if signed else 1.0)


@family(
    "code-midpoints",
    "structured",
    params=(Param("largest", (127, 448, 57344)), Param("exponent", (0, -4, -7))),
)
def code_midpoints(s: Stream, n: int, fmt: Format, largest: float, exponent: float) -> Floats:
    """The largest code first, then ties between neighbouring codes, all times a power of two.

    ``largest`` names the codes: the integers of int8 up to 127, or the values of float8 e4m3fn or e5m2. With
    the first element as the row's amax the scale is that power of two, and every other element is a tie.
    """
    if largest == 127:
        row = s.integers(n, -127, 126).astype(np.float64) + 0.5
    else:
        narrow = FLOAT8_E4M3FN if largest == 448 else FLOAT8_E5M2
        codes = s.integers(n, 0, narrow.last_ordinal - 1)
        row = (from_ordinal(codes, narrow) + from_ordinal(codes + 1, narrow)) / 2 * s.signs(n, 1)
    return place(row, 0, largest) * powers(int(exponent))


@family("ordinals", "structured", params=(Param("start", (0, 7, 100, 1000)),))
def ordinals(s: Stream, n: int, fmt: Format, start: float) -> Floats:
    """start, start + 1, …, exact, over again at 2**p: an element that is moved, lost or doubled shows."""
    return (start + np.arange(n, dtype=np.float64)) % 2.0**fmt.precision


SCALES = (unit, zeros, scaled, small_magnitudes, spread_magnitudes, code_midpoints, ordinals)
