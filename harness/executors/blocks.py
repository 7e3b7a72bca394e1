"""Operations that move lanes: each takes and returns `Value`s whose first axis is the program's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .casts import Array
from .context import Context
from .trace import Run
from .value import Value, either


def moving(change: Callable[[Array], Array]) -> Run:
    """An operation that only moves lanes."""

    def run(context: Context, x: Value) -> Value:
        if x.undef is None and x.wrap is None:
            return Value(change(x.data), None, None, x.span)
        return x.reshaped(change)

    return run


def splat(shape: tuple[int, ...]) -> Run:
    ones = (1,) * len(shape)
    return moving(lambda data: np.broadcast_to(data.reshape(-1, *ones), (len(data), *shape)))


def broadcast(shape: tuple[int, ...]) -> Run:
    return moving(lambda data: np.broadcast_to(data, (len(data), *shape)))


def expand(axis: int) -> Run:
    return moving(lambda data: np.expand_dims(data, axis + 1))


def reshape(shape: tuple[int, ...]) -> Run:
    return moving(lambda data: data.reshape(len(data), *shape))


def transpose(order: Sequence[int]) -> Run:
    axes = (0, *(axis + 1 for axis in order))
    return moving(lambda data: np.transpose(data, axes))


def half(which: int) -> Run:
    return moving(lambda data: data[..., which])


def together(join: Callable[[list[Array]], Array]) -> Run:
    """Two blocks made one."""

    def run(context: Context, x: Value, y: Value) -> Value:
        shape = np.broadcast_shapes(x.data.shape, y.data.shape)
        data = join([np.broadcast_to(x.data, shape), np.broadcast_to(y.data, shape)])
        masks = [
            None if a is None and b is None else join([_mask(a, shape), _mask(b, shape)])
            for a, b in ((x.undef, y.undef), (x.wrap, y.wrap))
        ]
        return Value(data, masks[0], masks[1])

    return run


def _mask(mask: Array | None, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.zeros((), bool) if mask is None else mask, shape)


def select(context: Context, condition: Value, x: Value, y: Value) -> Value:
    """tl.where: undefined where the chosen side is, or the choice."""
    data = np.where(condition.data, x.data, y.data)
    return Value(
        data,
        either(condition.undef, _chosen(condition.data, x.undef, y.undef)),
        _chosen(condition.data, x.wrap, y.wrap),
    )


def _chosen(condition: Array, x: Array | None, y: Array | None) -> Array | None:
    if x is None and y is None:
        return None
    none = np.zeros((), bool)
    return np.where(condition, none if x is None else x, none if y is None else y)


def gather(axis: int) -> Run:
    def run(context: Context, x: Value, index: Value) -> Value:
        count = max(len(x.data), len(index.data))
        data = np.broadcast_to(x.data, (count, *x.data.shape[1:]))
        at = np.broadcast_to(index.data, (count, *index.data.shape[1:])).astype(np.int64)
        size = data.shape[axis + 1]
        stray = (at < 0) | (at >= size)
        at = np.clip(at, 0, size - 1)
        undef = either(index.undef, stray if stray.any() else None)
        if x.undef is not None:
            undef = either(undef, np.take_along_axis(np.broadcast_to(x.undef, data.shape), at, axis + 1))
        return Value(np.take_along_axis(data, at, axis + 1), undef)

    return run


def histogram(bins: int) -> Run:
    def run(context: Context, x: Value, mask: Value | None = None) -> Value:
        count = len(x.data) if mask is None else max(len(x.data), len(mask.data))
        data = np.broadcast_to(x.data, (count, *x.data.shape[1:]))
        counted = (data >= 0) & (data < bins)
        if mask is not None:
            counted = counted & mask.data
        undef: Array | None = None
        if x.undef is not None and (counted & x.undef).any():
            undef = np.asarray((counted & x.undef).any(axis=-1, keepdims=True))
        rows = (np.arange(count)[:, None] * bins + np.where(counted, data, 0))[counted]
        totals = np.bincount(rows, minlength=count * bins).reshape(count, bins).astype(np.int32)
        return Value(totals, undef)

    return run


def constant(data: Array, span: tuple[int, int] | None = None) -> Run:
    made = Value(data, None, None, span)
    return lambda context: made


def number(value: Any, dtype: np.dtype[Any]) -> Run:
    """A scalar known at compile time."""
    return constant(np.array([value]).astype(dtype))
