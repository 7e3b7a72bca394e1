"""What Triton's front end carries around as a value: arrays, block pointers and tensor descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .casts import Array
from .storage import Region


class Handle:
    """An array with its Triton element type; a pointer also knows the storage of its argument."""

    __slots__ = ("data", "dtype", "region")

    def __init__(self, data: Array, dtype: Any, region: Region | None = None) -> None:
        self.data, self.dtype, self.region = data, dtype, region

    def like(self, data: Array) -> Handle:
        """Other data of the same type and origin."""
        return Handle(data, self.dtype, self.region)


def _block(
    base: Handle, strides: Sequence[int], start: Sequence[int], block: Sequence[int]
) -> tuple[Array, list[Array]]:
    """Addresses [block] of the elements from ``start`` on, and along each axis their index in the tensor."""
    size = max(1, base.dtype.element_ty.primitive_bitwidth // 8)
    indices = []
    addresses = np.broadcast_to(base.data.reshape((1,) * len(block)), tuple(block))
    for axis, length in enumerate(block):
        along = [1] * len(block)
        along[axis] = length
        index = (start[axis] + np.arange(length, dtype=np.int64)).reshape(along)
        addresses = addresses + (index * (strides[axis] * size)).view(np.uint64)
        indices.append(index)
    return addresses, indices


class BlockPointer:
    """tl.make_block_ptr: a window of ``block`` elements at ``offsets`` of a strided tensor."""

    def __init__(
        self, base: Handle, shape: list[int], strides: list[int], offsets: list[int], block: tuple[int, ...]
    ) -> None:
        self.base, self.shape, self.strides, self.offsets, self.block = base, shape, strides, offsets, block

    def advanced(self, by: Sequence[int]) -> BlockPointer:
        offsets = [offset + step for offset, step in zip(self.offsets, by, strict=True)]
        return BlockPointer(self.base, self.shape, self.strides, offsets, self.block)

    def addresses(self, check: Sequence[int]) -> tuple[Handle, Array | None]:
        """Addresses and, if any axis is checked, which of them lie inside the tensor along those axes."""
        addresses, indices = _block(self.base, self.strides, self.offsets, self.block)
        mask = None
        for axis in check:
            inside = (indices[axis] >= 0) & (indices[axis] < self.shape[axis])
            mask = inside if mask is None else mask & inside
        return self.base.like(addresses), None if mask is None else np.broadcast_to(mask, addresses.shape)


class Descriptor:
    """tl.make_tensor_descriptor: elements outside the tensor read as the padding and are not written."""

    def __init__(
        self, base: Handle, shape: list[int], strides: list[int], block: tuple[int, ...], padding: Any
    ) -> None:
        self.base, self.shape, self.strides, self.block, self.padding = base, shape, strides, block, padding
        self.round_to_tf32 = False
        size = base.dtype.element_ty.primitive_bitwidth // 8
        if int(base.data.flat[0]) % 16:
            raise ValueError("the base of a tensor descriptor must be aligned to 16 bytes")
        if any(stride * size % 16 for stride in strides[:-1]):
            raise ValueError(
                f"the strides of a tensor descriptor must be multiples of 16 bytes, got {strides} elements"
            )

    def addresses(self, start: Sequence[int]) -> tuple[Handle, Array]:
        addresses, indices = _block(self.base, self.strides, start, self.block)
        mask = np.ones(self.block, bool)
        for index, size in zip(indices, self.shape, strict=True):
            mask &= (index >= 0) & (index < size)
        return self.base.like(addresses), mask

    def rounded(self, loaded: Handle) -> Handle:
        """fp32 elements rounded to TF32 (11 bits, to nearest even) where the descriptor asks for it."""
        if not self.round_to_tf32 or loaded.data.dtype != np.float32:
            return loaded
        bits = np.ascontiguousarray(loaded.data).view(np.uint32)
        rounded = (bits + (((bits >> np.uint32(13)) & np.uint32(1)) + np.uint32(0xFFF))) & np.uint32(
            0xFFFFE000
        )
        return loaded.like(np.where(np.isfinite(loaded.data), rounded.view(np.float32), loaded.data))
