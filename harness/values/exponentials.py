"""Rows that break softmax, logsumexp and their kin: padding, masks, missing and late maxima."""

from __future__ import annotations

import numpy as np

from harness.formats import Format
from harness.values.counter import Floats, Stream
from harness.values.family import POSITION, Param, Setting, family, place


@family(
    "all-negative",
    "structured",
    params=(Param("level", (-10.0, -200.0, -1000.0)), Param("spread", (0.0, 1.0))),
)
def all_negative(s: Stream, n: int, fmt: Format, level: float, spread: float) -> Floats:
    """Everything far below 0: a lane padded with 0 becomes the maximum."""
    return level + spread * s.normal(n)


@family(
    "stagnation",
    "structured",
    params=(Param("low", (-12.0, -8.0, -20.0)), POSITION),
    settings=(Setting((("low", -12.0),), "first", least=1000),),
)
def stagnation(s: Stream, n: int, fmt: Format, low: float, position: float) -> Floats:
    """0 among copies of -12: n·exp(-12) counts, but each term is lost in a float16 accumulator."""
    return place(np.full(n, low), position, 0.0)


@family("mask-values", "structured", params=(Param("mask", (-65504.0, -1e6, -1e9)), Param("every", (2, 8))))
def mask_values(s: Stream, n: int, fmt: Format, mask: float, every: float) -> Floats:
    """Bell-shaped, about one element in ``every`` replaced by a finite mask value."""
    return np.where(s.integers(n, 1, int(every), 1) == 1, mask, s.normal(n, 2))


@family("equal-maxima", "structured")
def equal_maxima(s: Stream, n: int, fmt: Format) -> Floats:
    """Integers in [0, 3]: the maximum occurs many times."""
    return s.integers(n, 0, 3).astype(np.float64)


@family("minus-inf-row", "special")
def minus_inf_row(s: Stream, n: int, fmt: Format) -> Floats:
    """Every element -inf: a fully masked row."""
    return np.full(n, -np.inf)


@family("some-minus-inf", "special", params=(Param("every", (3, 2, 16)),))
def some_minus_inf(s: Stream, n: int, fmt: Format, every: float) -> Floats:
    """Bell-shaped, about one element in ``every`` masked with -inf."""
    return np.where(s.integers(n, 1, int(every), 1) == 1, -np.inf, s.normal(n, 2))


@family(
    "leading-minus-inf",
    "special",
    params=(POSITION, Param("level", (0.0, -200.0))),
    settings=(Setting((("level", -200.0),), "before-edge", 600),),
)
def leading_minus_inf(s: Stream, n: int, fmt: Format, position: float, level: float) -> Floats:
    """-inf up to and with one position, then values about ``level``.

    The first blocks of an online softmax have no finite maximum; if 0 stands in for it, all that follows at
    -200 is lost.
    """
    last = position if position >= 0 else n + position
    return np.where(np.arange(n) <= last, -np.inf, level + s.normal(n))


@family(
    "creeping",
    "structured",
    params=(Param("step", (2.0**-9, 2.0**-12, 2.0**-7)),),
    settings=tuple(Setting((("step", step),), least=1000) for step in (2.0**-9, 2.0**-12)),
)
def creeping(s: Stream, n: int, fmt: Format, step: float) -> Floats:
    """Every 64 elements a little more: maxima that rise by less than a threshold below which nothing is rescaled."""
    return np.floor(np.arange(n) / 64) * step


EXPONENTIALS = (
    all_negative,
    stagnation,
    mask_values,
    equal_maxima,
    minus_inf_row,
    some_minus_inf,
    leading_minus_inf,
    creeping,
)
