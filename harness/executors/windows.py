"""Addresses: pointer arithmetic, and the windows of block pointers and tensor descriptors.

A pointer of known origin counts elements from the start of its storage (int64); any other is an address
(uint64), which moves by ``size`` bytes an element.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .casts import Array, bits_of
from .context import Context
from .trace import Run
from .value import Value, either, undefined, wrapped


def _plus(base: Array, offset: Array, size: int | None) -> Array:
    if size is None:
        return np.asarray(base + offset)
    return np.asarray(base + (offset * size).view(np.uint64))


def moved(size: int | None) -> Run:
    """tl.addptr"""

    def run(context: Context, ptr: Value, offset: Value) -> Value:
        by = offset.data if size is None and offset.data.dtype.kind == "i" else offset.data.astype(np.int64)
        return Value(
            _plus(ptr.data, by, size), either(ptr.undef, offset.undef), either(ptr.wrap, offset.wrap)
        )

    return run


def _along(x: Array, axis: int, axes: int) -> Array:
    """A scalar [programs], or what lies along one axis of a block [programs, n], as [programs, .., n, ..]."""
    shape = [len(x), *(1,) * axes]
    if x.ndim == 2:
        shape[axis + 1] = x.shape[1]
    return x.astype(np.int64).reshape(shape)


def _range(length: int, axis: int, axes: int) -> Array:
    return _along(np.arange(length)[None], axis, axes)


def _tensor(context: Context, base: Value, offset: Array, values: Sequence[Value], size: int | None) -> Value:
    start = base.data.reshape(-1, *(1,) * (offset.ndim - 1))
    marks = [np.asarray(v).reshape(len(v), *(1,) * (offset.ndim - 1)) if v is not None else None
             for v in (undefined((base, *values)), wrapped((base, *values)))]  # fmt: skip
    return Value(_plus(start, offset, size), marks[0], marks[1])


def addresses(block: tuple[int, ...], size: int | None) -> Run:
    """Addresses [block]; inputs: the base, a stride for each axis, the first index along each axis."""
    axes = len(block)

    def run(context: Context, base: Value, *values: Value) -> Value:
        offset = np.zeros((1, *block), np.int64)
        for axis, length in enumerate(block):
            stride, start = values[axis].data, values[axes + axis].data
            index = _along(start, axis, axes) + _range(length, axis, axes)
            offset = offset + index * _along(stride, axis, axes)
        return _tensor(context, base, offset, values, size)

    return run


def inside(block: tuple[int, ...], check: Sequence[int]) -> Run:
    """Bool [block]; inputs: the size, then the first index, along each checked axis."""
    axes = len(block)

    def run(context: Context, *values: Value) -> Value:
        mask = np.ones((1, *block), bool)
        for at, axis in enumerate(check):
            index = _along(values[len(check) + at].data, axis, axes) + _range(block[axis], axis, axes)
            mask = mask & (index >= 0) & (index < _along(values[at].data, axis, axes))
        return Value(mask)

    return run


def row_addresses(shape: tuple[int, ...], size: int | None) -> Run:
    """Addresses [rows, columns]; inputs: base, two strides, the rows' indices, the first column."""

    def run(context: Context, base: Value, *values: Value) -> Value:
        by_row, by_column, rows, column = (value.data for value in values)
        index = _along(column, 1, 2) + _range(shape[1], 1, 2)
        offset = _along(rows, 0, 2) * _along(by_row, 0, 2) + index * _along(by_column, 1, 2)
        return Value(_plus(base.data.reshape(-1, 1, 1), offset, size))

    return run


def rows_inside(shape: tuple[int, ...]) -> Run:
    """Bool [rows, columns]; inputs: the tensor's two sizes, the rows' indices, the first column."""

    def run(context: Context, height: Value, width: Value, rows: Value, column: Value) -> Value:
        row = _along(rows.data, 0, 2)
        index = _along(column.data, 1, 2) + _range(shape[1], 1, 2)
        mask = (row >= 0) & (row < _along(height.data, 0, 2))
        return Value(mask & (index >= 0) & (index < _along(width.data, 1, 2)))

    return run


def aligned(origin: str | None, size: int) -> Run:
    """Refuses a tensor descriptor that the hardware would; inputs: base and all strides but the last."""

    def run(context: Context, base: Value, *strides: Value) -> None:
        address = base.data * size + context.windows[origin].region.base if origin is not None else base.data
        if (address % 16 != 0).any():
            raise ValueError("the base of a tensor descriptor must be aligned to 16 bytes")
        if any((stride.data.astype(np.int64) * size % 16 != 0).any() for stride in strides):
            found = [int(stride.data.flat[0]) for stride in strides]
            raise ValueError(
                f"the strides of a tensor descriptor must be multiples of 16 bytes, got {found} elements"
            )

    return run


def round_to_tf32(context: Context, x: Value) -> Value:
    """fp32 elements rounded to TF32 (11 bits, to nearest even)."""
    bits = bits_of(np.ascontiguousarray(x.data))
    rounded = (bits + (((bits >> np.uint32(13)) & np.uint32(1)) + np.uint32(0xFFF))) & np.uint32(0xFFFFE000)
    return Value(np.where(np.isfinite(x.data), rounded.view(np.float32), x.data), x.undef)
