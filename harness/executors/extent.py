"""Which bytes of a storage a strided view reaches."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from .casts import Array


@dataclass(frozen=True)
class Extent:
    """A view of a storage. start, stop: in bytes from the start of the storage; strides in elements."""

    start: int
    width: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor, start: int) -> Extent:
        return cls(start, tensor.element_size(), tuple(tensor.shape), tuple(tensor.stride()))

    @functools.cached_property
    def stop(self) -> int:
        if 0 in self.shape:
            return self.start
        reach = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return self.start + (reach + 1) * self.width

    @property
    def count(self) -> int:
        """Elements of the view, those that lie in one place counted once."""
        axes = zip(self.strides, self.shape, strict=True)
        return math.prod(size if stride else min(size, 1) for stride, size in axes)

    @functools.cached_property
    def dense(self) -> bool:
        """Whether every byte between start and stop is reached."""
        expected = 1
        for stride, size in sorted(zip(self.strides, self.shape, strict=True)):
            if size > 1 and stride:
                if stride != expected:
                    return False
                expected *= size
        return True

    def position(self, element: int) -> tuple[int, ...] | None:
        """The index of the element that many elements from the first; None where the view does not reach."""
        if not 0 <= element * self.width < self.stop - self.start:
            return None
        rest, found = element, [0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis]):
            if self.shape[axis] > 1 and self.strides[axis]:
                found[axis] = min(rest // self.strides[axis], self.shape[axis] - 1)
                rest -= found[axis] * self.strides[axis]
        return None if rest else tuple(found)

    def holds(self, byte: int) -> bool:
        """Whether the view reaches a byte of the storage."""
        return self.position((byte - self.start) // self.width) is not None

    def reaches(self, elements: Array) -> Array:
        """Bool: whether the view reaches the elements that many elements from its first one."""
        if self.stop == self.start:
            return np.zeros(elements.shape, bool)
        rest = elements.copy()
        for stride, size in sorted(zip(self.strides, self.shape, strict=True), reverse=True):
            if size > 1 and stride:
                rest -= np.clip(rest // stride, 0, size - 1) * stride
        return np.asarray(rest == 0)

    def places(self) -> Array:
        """Int64 [elements]: where the view's elements lie, in elements from the start of the storage."""
        found = np.full(1, self.start // self.width, np.int64)
        for stride, size in zip(self.strides, self.shape, strict=True):
            found = (found[:, None] + np.arange(size if stride else min(size, 1)) * stride).reshape(-1)
        return found

    def clear(self, mask: Array, start: int, unit: int) -> None:
        """Set what the view reaches to False in ``mask``, of which an item stands for ``unit`` bytes.

        unit divides the width; the mask's first item lies ``start`` bytes into the storage.
        """
        items = self.width // unit
        inside = np.lib.stride_tricks.as_strided(
            mask[(self.start - start) // unit :],
            (*self.shape, items),
            (*(stride * items for stride in self.strides), 1),
        )
        inside[...] = False


def missed(extents: Iterable[Extent], index: Array, width: int) -> Array:
    """Bool: elements of ``width`` bytes of a storage that no view reaches, each looked at by itself.

    For storages too long for `unreached`. Views of elements of another width reach nothing.
    """
    stray = np.ones(index.shape, bool)
    for extent in extents:
        if extent.width == width and extent.start % width == 0:
            stray &= ~extent.reaches(index - extent.start // width)
    return stray


def unreached(extents: Iterable[Extent], start: int, stop: int, width: int) -> Array:
    """Bool [(stop − start) / width]: elements of ``width`` bytes that no view reaches in full."""
    parts = [extent for extent in extents if extent.stop > extent.start]
    unit = min([width, *(extent.width for extent in parts)])
    mask = np.ones((stop - start) // unit, bool)
    for extent in parts:
        extent.clear(mask, start, unit)
    return np.asarray(mask.reshape(-1, width // unit).any(axis=1))
