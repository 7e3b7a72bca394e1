"""Where the elements of a tensor argument lie in its storage."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from .casts import Array
from .storage import Region


class Window:
    """A tensor argument: its storage, and which of its elements the tensor reaches.

    ``start`` and ``stop`` count elements of ``width`` bytes from the start of the storage.
    """

    def __init__(self, name: str, region: Region, tensor: torch.Tensor, address: int) -> None:
        self.name, self.region = name, region
        self.width = tensor.element_size()
        self.start = (address - region.base) // self.width
        self.shape, self.strides = tuple(tensor.shape), tuple(tensor.stride())
        reach = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        self.stop = self.start + (reach + 1 if tensor.numel() else 0)
        self.dense = self._dense()

    def _dense(self) -> bool:
        expected = 1
        for stride, size in sorted(zip(self.strides, self.shape, strict=True)):
            if size > 1 and stride:
                if stride != expected:
                    return False
                expected *= size
        return True

    @functools.cached_property
    def gaps(self) -> Array:
        """Bool [stop − start]: the elements between the first and the last that the tensor does not reach."""
        mask = np.ones(max(0, self.stop - self.start), bool)
        if len(mask):
            np.lib.stride_tricks.as_strided(mask, self.shape, self.strides)[...] = False
        return mask

    def outside(self, index: Array) -> Array:
        """Bool: which elements of the storage are none of the tensor's."""
        stray = (index < self.start) | (index >= self.stop)
        if not self.dense and len(self.gaps):
            stray |= self.gaps[np.clip(index - self.start, 0, len(self.gaps) - 1)]
        return stray

    def position(self, element: int) -> tuple[int, ...]:
        """The index of an element in the tensor; its offset where it is none of the tensor's."""
        offset = element - self.start
        if not 0 <= offset < self.stop - self.start:
            return (offset,)
        rest, found = offset, [0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis]):
            if self.shape[axis] > 1 and self.strides[axis]:
                found[axis] = min(rest // self.strides[axis], self.shape[axis] - 1)
                rest -= found[axis] * self.strides[axis]
        return (offset,) if rest else tuple(found)

    def place(self, element: int) -> str:
        """An element in words."""
        if bool(self.outside(np.array([element]))[0]):
            offset = element - self.start
            if offset < 0:
                return f"{-offset} elements before {self.name}"
            if element >= self.stop:
                return f"{element - self.stop + 1} elements past the end of {self.name}"
            return f"a gap between the elements of {self.name}, at offset {offset}"
        return f"{self.name}[{', '.join(map(str, self.position(element)))}]"

    def distance(self, element: int, width: int) -> str:
        """Where an element outside the storage lies, in words."""
        byte = element * width
        if byte < 0:
            return f"{-byte} bytes before argument {self.name!r}"
        return f"{byte + width - self.region.size} bytes past the end of argument {self.name!r}"


def element_of(value: Any, tensor: torch.Tensor, region: Region) -> int | None:
    """The element at which an argument's pointer starts; None where it is not aligned to its elements."""
    offset = int(value.data_ptr()) - region.base
    return None if offset % tensor.element_size() else offset // tensor.element_size()
