"""Rows in which one position alone decides the result: whoever drops, repeats or misplaces it is seen."""

from __future__ import annotations

import numpy as np

from harness.formats import Format
from harness.values.counter import Floats, Integers, Stream
from harness.values.family import POSITION, Param, family, place


@family("decisive-max", "decisive", params=(Param("height", (30.0, 15.0, 90.0)), POSITION))
def decisive_max(s: Stream, n: int, fmt: Format, height: float, position: float) -> Floats:
    """Bell-shaped, with one maximum far above: it is all of a softmax, a logsumexp, an amax."""
    return place(s.normal(n), position, height)


@family("decisive-min", "decisive", params=(Param("height", (30.0, 15.0, 90.0)), POSITION))
def decisive_min(s: Stream, n: int, fmt: Format, height: float, position: float) -> Floats:
    """Bell-shaped, with one minimum far below."""
    return place(s.normal(n), position, -height)


@family("decisive-large", "decisive", params=(Param("height", (16.0, -16.0, 200.0)), POSITION))
def decisive_large(s: Stream, n: int, fmt: Format, height: float, position: float) -> Floats:
    """Small summands of random signs, and one a thousand times larger: it is all of a sum."""
    return place(s.normal(n) * 2.0**-6, position, height)


@family("decisive-one-hot", "decisive", params=(Param("height", (15.0, 1.0, 30.0, 90.0)), POSITION))
def decisive_one_hot(s: Stream, n: int, fmt: Format, height: float, position: float) -> Floats:
    """Zeros and one positive element."""
    return place(np.zeros(n), position, height)


@family("decisive-factor", "decisive", params=(Param("factor", (3.0, -1.0, 0.25, 0.0)), POSITION))
def decisive_factor(s: Stream, n: int, fmt: Format, factor: float, position: float) -> Floats:
    """Ones and one other factor: it is all of a product."""
    return place(np.ones(n), position, factor)


@family("decisive-step", "decisive", params=(Param("height", (100.0, -100.0, 120.0)), POSITION))
def decisive_step(s: Stream, n: int, fmt: Format, height: float, position: float) -> Floats:
    """Bell-shaped, raised by more than 88 from one position on: exp overflows unless the maximum moves."""
    start = position if position >= 0 else n + position
    return s.normal(n) + height * (np.arange(n) >= start)


SPACING = 1021
"""A prime: elements from one decisive position to the next, where no power of two is near."""


def _everywhere(n: int, position: float) -> Integers:
    """Where blocks begin and end: about the powers of two, somewhere in every block, and beside a position."""
    edges = 2 ** np.arange(n.bit_length())
    start = int(position) if position >= 0 else n + int(position)
    found = np.concatenate([edges - 1, edges, np.arange(0, n, SPACING), [start - 1, start]])
    return np.unique(found[(found >= 0) & (found < n)]).astype(np.int64)


@family("decisive-many", "decisive", "everywhere", params=(Param("height", (16.0, -16.0)), POSITION))
def decisive_many(s: Stream, n: int, fmt: Format, height: float, position: float) -> Floats:
    """Zeros, and one value where blocks begin or end: in a row of 10^5 each of them is a 170th of a sum.

    That is more than rounding errors may hide, so that one row shows a loss anywhere.
    """
    row = np.zeros(n)
    row[_everywhere(n, position)] = height
    return row


@family("decisive-factors", "decisive", "everywhere", "exact", params=(POSITION,))
def decisive_factors(s: Stream, n: int, fmt: Format, position: float) -> Floats:
    """Ones, and 2 or 1/2 where blocks begin or end: a product, near 1 throughout, in which each counts."""
    row = np.ones(n)
    row[_everywhere(n, position)] = 2.0
    up = np.cumsum(row == 2.0) % 2 == 0
    return np.where((row == 2.0) & up, 0.5, row)


@family("nan-at", "special", params=(POSITION,))
def nan_at(s: Stream, n: int, fmt: Format, position: float) -> Floats:
    """Bell-shaped, with one NaN."""
    return place(s.normal(n), position, np.nan)


@family("inf-at", "special", params=(Param("sign", (1, -1)), POSITION))
def inf_at(s: Stream, n: int, fmt: Format, sign: float, position: float) -> Floats:
    """Bell-shaped, with one infinity."""
    return place(s.normal(n), position, sign * np.inf)


DECISIVE = (
    decisive_max,
    decisive_min,
    decisive_large,
    decisive_one_hot,
    decisive_factor,
    decisive_step,
    decisive_many,
    decisive_factors,
    nan_at,
    inf_at,
)
