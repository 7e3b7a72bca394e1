"""Where the elements of a tensor argument lie in its storage."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from .casts import Array
from .extent import Extent, missed, unreached
from .marks import MOST
from .storage import Region


class Window:
    """A tensor argument: its storage, and which elements of it a kernel may reach through the tensor.

    Those are the tensor's own, and those of the argument or allocation that it is a part of: a launcher may
    pass ``x[0]`` as the address at which x starts. In a storage that belongs to no argument or allocation
    they are all. ``start``, and ``low`` and ``high``, between which they lie, count elements of ``width``
    bytes from the start of the storage.
    """

    def __init__(self, name: str, region: Region, tensor: torch.Tensor, address: int) -> None:
        self.name, self.region = name, region
        self._own = own = Extent.of(tensor, address - region.base)
        self.width = own.width
        self.start = own.start // own.width
        self._reach = [own, *(owner for owner in region.owners if owner.holds(own.start))]
        low, high = min(each.start for each in self._reach), max(each.stop for each in self._reach)
        if not region.owners:
            low, high = 0, region.size
        self.low, self.high = -(-low // self.width), high // self.width
        self.dense = not region.owners or any(
            each.dense and each.start == low and each.stop == high for each in self._reach
        )

    @functools.cached_property
    def gaps(self) -> Array:
        """Bool [high − low]: the elements between the first and the last that may not be reached."""
        if self.dense or self.high <= self.low:
            return np.zeros(max(0, self.high - self.low), bool)
        return unreached(self._reach, self.low * self.width, self.high * self.width, self.width)

    def outside(self, index: Array) -> Array:
        """Bool: which elements of the storage may not be reached."""
        stray = (index < self.low) | (index >= self.high)
        if not self.dense and self.high - self.low > MOST:
            stray |= missed(self._reach, index, self.width)
        elif not self.dense and len(self.gaps):
            stray |= self.gaps[np.clip(index - self.low, 0, len(self.gaps) - 1)]
        return stray

    def position(self, element: int) -> tuple[int, ...]:
        """The index of an element in the tensor; its offset where it is none of the tensor's."""
        return self._own.position(element - self.start) or (element - self.start,)

    def place(self, element: int) -> str:
        """An element in words."""
        if bool(self.outside(np.array([element]))[0]):
            if element < self.low:
                return f"{self.low - element} elements before {self.name}"
            if element >= self.high:
                return f"{element - self.high + 1} elements past the end of {self.name}"
            return f"a gap between the elements of {self.name}, at offset {element - self.start}"
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
