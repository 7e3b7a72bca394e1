"""Rows that saturate or defeat the error bounds of sums, means, variances and dot products."""

from __future__ import annotations

import math

import numpy as np

from harness.formats import Format, round_to
from harness.values.counter import Floats, Stream
from harness.values.family import POSITION, Param, Setting, accumulator, family, place


@family(
    "offset",
    "structured",
    params=(
        Param("offset", (10.0, -100.0, 1000.0, -1000.0, 100.0, 10000.0)),
        Param("spread", (1.0, 0.1, 4.0, 0.0)),
    ),
)
def offset(s: Stream, n: int, fmt: Format, offset: float, spread: float) -> Floats:
    """A large offset with a small spread: mean/std from 2.5 to 1e5, exponentials that overflow or vanish.

    A ``spread`` of 0 stands for two ulps of the offset.
    """
    return offset + (spread or 4.0 * fmt.u * abs(offset)) * s.normal(n)


@family(
    "half-ulps",
    "structured",
    params=(Param("narrow", (0, 1)), Param("over", (0, 1)), Param("exponent", (15, 10, 4)), POSITION),
    settings=tuple(
        Setting((("narrow", 0), ("over", 0), ("exponent", 15), ("position", 3)), least=least)
        for least in (2000, 257)
    ),
)
def half_ulps(
    s: Stream, n: int, fmt: Format, narrow: float, over: float, exponent: float, position: float
) -> Floats:
    """A head 2**exponent among half ulps of it: added one by one, each half ulp is lost (or doubled).

    The half ulps are those of the accumulator, or of ``fmt`` itself when ``narrow``, which shows an
    accumulator of that format; one ulp of ``fmt`` larger when ``over``, so that each rounds up. The
    head's exponent rises or falls to where both are values of ``fmt``. [2^15, 2^-9, 2^-9, ...] in float32
    reaches .97 of the any-order bound of a sum.
    """
    bits = fmt.precision if narrow else accumulator(fmt).precision
    smallest = fmt.emin - fmt.precision + 1
    head = min(max(int(exponent), smallest + bits), fmt.emax)
    tail = math.ldexp(1.0, max(head - bits, smallest))
    return place(np.full(n, tail * (1.0 + 2.0 * fmt.u) if over else tail), position, math.ldexp(1.0, head))


@family("one-huge", "structured", params=(POSITION,))
def one_huge(s: Stream, n: int, fmt: Format, position: float) -> Floats:
    """One element of 2**40 (or near Omega) among small ones, which are all but lost beside it."""
    return place(s.normal(n) * 2.0**-4, position, math.ldexp(1.0, min(40, fmt.emax - 1)))


@family("alternating", "cancellation")
def alternating(s: Stream, n: int, fmt: Format) -> Floats:
    """Magnitudes in [1, 4) with alternating signs."""
    signs = 1.0 - 2.0 * (np.arange(n) % 2)
    return signs * (1.0 + 3.0 * s.uniform(n))


@family(
    "cancelling-pairs", "cancellation", params=(Param("distance", (1, 16, 512)), Param("ulps", (4, 0, 1)))
)
def cancelling_pairs(s: Stream, n: int, fmt: Format, distance: float, ulps: float) -> Floats:
    """Pairs h, -h(1 + 2ku) that lie ``distance`` (a power of two) apart, their mismatch up to k ulps."""
    index = np.arange(n)
    partner = (index & int(distance)) != 0
    first = np.where(partner, index - int(distance), index)
    heads = round_to(np.ldexp(1.0 + s.uniform(n), s.integers(n, 0, 3, 1)), fmt)[first]
    return np.where(partner, -heads * (1.0 + 2.0 * ulps * fmt.u), heads)


_HALF = 8


@family("ill-conditioned", "cancellation", params=(Param("bits", (10, 20, 40)),))
def ill_conditioned(s: Stream, n: int, fmt: Format, bits: float) -> Floats:
    """Sums of condition number about 2**bits, in blocks of 16 that each nearly cancel.

    As Ogita, Rump and Oishi's dot products (SISC 2005, doi 10.1137/030601818, algorithm 6.1): half a block
    has random exponents up to bits - 3, the other half brings the running sum down as exponents fall.
    """
    top = min(int(bits) - 3, fmt.emax - 4)
    blocks = -(-n // (2 * _HALF))
    size = blocks * 2 * _HALF
    random = (s.signs(size, 1) * (1.0 + s.uniform(size))).reshape(blocks, 2 * _HALF)
    exponents = s.integers(size, 0, top, 2).reshape(blocks, 2 * _HALF)
    exponents[:, 0] = top
    exponents[:, _HALF:] = np.linspace(top, 0, _HALF).round().astype(np.int64)
    row = round_to(np.ldexp(random, exponents), fmt)
    running = np.zeros(blocks)
    for column in range(2 * _HALF):
        if column >= _HALF:
            row[:, column] = round_to(row[:, column] - running, fmt)
        running += row[:, column]
    return row.reshape(-1)[:n]


@family("midpoints", "structured", params=(Param("tilt", (0, 1, -1)),))
def midpoints(s: Stream, n: int, fmt: Format, tilt: float) -> Floats:
    """A number of ``fmt``, half an ulp of it, and zeros or pairs that cancel: the sum is a rounding tie.

    ``tilt`` adds or takes a 2**-12th of the half ulp, so that the sum lies just beside the tie: rounding
    twice, or towards zero, shows.
    """
    p = fmt.precision
    steps = 2.0 ** (p - 1) + (s.integer(0, 2 ** min(p - 1, 30) - 1, 1))
    highest = min(fmt.emax - 4, 4)
    exponent = s.integer(min(max(fmt.emin + 16, -4), highest), highest, 2)
    half = math.ldexp(1.0, exponent - p)
    pairs = np.where(np.arange(n) % 4 == 2, 1.0, 0.0) - np.where(np.arange(n) % 4 == 3, 1.0, 0.0)
    row = pairs * (4.0 * half * (s.number(3) % 2))
    place(row, 0, steps * 2.0 * half)
    place(row, 1, half)
    return place(row, 4, tilt * half * 2.0**-12)


@family("ascending", "structured", params=(Param("step", (0.0625, 1.0, 0.5)), Param("start", (0.0, -8.0))))
def ascending(s: Stream, n: int, fmt: Format, step: float, start: float) -> Floats:
    """A rising ramp: every element is a new maximum."""
    return start + step * np.arange(n, dtype=np.float64)


@family("descending", "structured", params=(Param("step", (0.0625, 1.0, 0.5)), Param("start", (0.0, 8.0))))
def descending(s: Stream, n: int, fmt: Format, step: float, start: float) -> Floats:
    """A falling ramp: the first element is the maximum."""
    return start - step * np.arange(n, dtype=np.float64)


SUMS = (
    offset,
    half_ulps,
    one_huge,
    alternating,
    cancelling_pairs,
    ill_conditioned,
    midpoints,
    ascending,
    descending,
)
