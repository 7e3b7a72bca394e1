"""Reductions over one axis of a block, in the order and the format in which a GPU takes them.

A reduction adds the elements that one thread holds one after the other, then halves the lanes of a warp, then
the warps (measured on an H200; `Profile.spread` says which elements a thread holds). Every partial result is
rounded to the element type, so that a sum of fp16 overflows as it does on the device.

``combine`` takes two tuples of arrays and returns one; all arrays of a tuple have the same shape, a power of
two along every axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from .casts import BFLOAT16, Array
from .operations import quiet
from .profile import Spread

Values: TypeAlias = tuple[Array, ...]
Combine: TypeAlias = Callable[[Values, Values], Values]


def reduce(values: Values, axis: int, combine: Combine, spread: Spread) -> Values:
    """Combine all elements along ``axis``, which the results no longer have."""
    shape = (spread.repeats, spread.warps, spread.lanes, spread.run)
    # [the axes before, repeats, warps, lanes, run, the axes after]
    parts = [value.reshape(*value.shape[:axis], *shape, *value.shape[axis + 1 :]) for value in values]
    before: tuple[Any, ...] = (slice(None),) * axis
    total: Values | None = None
    for repeat in range(spread.repeats):
        for element in range(spread.run):
            own = tuple(part[(*before, repeat, slice(None), slice(None), element)] for part in parts)
            total = own if total is None else combine(total, own)
    assert total is not None
    for at in (axis + 1, axis):
        while total[0].shape[at] > 1:
            half = total[0].shape[at] // 2
            index = (slice(None),) * at
            total = combine(
                tuple(part[(*index, slice(0, half))] for part in total),
                tuple(part[(*index, slice(half, None))] for part in total),
            )
    return tuple(part.reshape(*part.shape[:axis], *part.shape[axis + 2 :]) for part in total)


def extreme_of(x: Array, axis: int, *, largest: bool) -> Array:
    """Maximum or minimum along ``axis``, in any order: NaN dropped, −0 below +0."""
    if x.dtype.kind in "iub":
        return np.asarray((np.max if largest else np.min)(x, axis=axis))
    if x.dtype == BFLOAT16:
        return extreme_of(x.astype(np.float32), axis, largest=largest).astype(BFLOAT16)
    result = np.asarray((np.fmax if largest else np.fmin).reduce(quiet(x), axis=axis))
    if (result == 0).any():
        favoured = ((x == 0) & (np.signbit(x) != largest)).any(axis=axis)
        zero = np.where(favoured == largest, x.dtype.type(0), np.negative(x.dtype.type(0)))
        result = np.where(result == 0, zero, result)
    return result


def first_extreme(values: Values, axis: int, *, largest: bool) -> Values | None:
    """Value and index of the first extreme along ``axis``; None where a NaN makes the order matter."""
    value, index = values
    if value.dtype.kind not in "iub" and np.isnan(value).any():
        return None
    if not (np.diff(index, axis=axis) > 0).all():
        return None
    value = value.astype(np.float32) if value.dtype == BFLOAT16 else value
    best = np.expand_dims((np.argmax if largest else np.argmin)(value, axis=axis), axis)
    return tuple(np.squeeze(np.take_along_axis(part, best, axis), axis) for part in values)
