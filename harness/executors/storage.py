"""The memory a kernel may touch on the CPU executor: the storages of the tensors it can know of.

A pointer knows the argument it came from, and may only reach that argument's storage; one that lost its
origin (built from an integer) may reach any storage the function has seen. Beside each storage lies a shadow
that knows which program wrote an element last, and which elements nobody ever wrote.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import torch

from .. import spread
from .casts import Array
from .extent import Extent, missed, unreached
from .marks import MOST, Pages, marks

NEVER: Final = 0
"""In a shadow: the element still holds what its allocation happened to hold."""
BEFORE: Final = 1
"""In a shadow: written by nobody that the executor watched, but holding a value."""


class Region:
    """The bytes of one storage."""

    def __init__(self, storage: torch.UntypedStorage, owners: list[Extent]) -> None:
        self.base, self.size = storage.data_ptr(), storage.nbytes()
        self.owners = owners
        """The arguments and allocations that lie in the storage, if it belongs to such."""
        self._storage = storage
        whole = (ctypes.c_uint8 * self.size).from_address(self.base) if self.size else (ctypes.c_uint8 * 0)()
        self.bytes: Array = np.ctypeslib.as_array(whole)
        self._elements: dict[Any, Array] = {}
        self._unowned: tuple[int, int, Array] | None = None
        """A width of elements, how many owners there were, and the elements that belong to none."""
        self._shadow: Array | None = None
        self._before = BEFORE
        """What a shadow begins with, which is made when it is first needed."""
        self.width = 0
        """Bytes of the elements that the shadow counts in."""
        self.holes = False
        """Whether the shadow may contain NEVER."""
        self.fill: int | None = None
        """The bits that an element holds as long as nobody wrote it; None where they are not one number."""

    def outside(self, index: Array, width: int) -> Array:
        """Bool: elements of ``width`` bytes that belong to no argument or allocation, where there are such."""
        if not self.owners:
            return np.zeros(index.shape, bool)
        if self.size > MOST * width:
            return missed(self.owners, index, width)
        if self._unowned is None or self._unowned[:2] != (width, len(self.owners)):
            whole = self.size // width * width
            self._unowned = width, len(self.owners), unreached(self.owners, 0, whole, width)
        return np.asarray(np.take(self._unowned[2], index))

    def elements(self, dtype: np.dtype[Any]) -> Array:
        """The storage as elements of ``dtype``."""
        found = self._elements.get(dtype)
        if found is None:
            whole = self.size // dtype.itemsize * dtype.itemsize
            found = self._elements[dtype] = self.bytes[:whole].view(dtype)
        return found

    def shadow(self, width: int) -> Array | None:
        """Int32, one for each element of ``width`` bytes; None where it counts in other elements."""
        if self._shadow is None:
            self.width = self.width if self.holes else width
            if self.width != width:
                return None
            self._shadow = marks(self.size // width, self._before)
        return self._shadow if self.width == width else None

    def forget(self, width: int, at: int = 0) -> None:
        """Everything was just allocated and holds nothing but a fill, as it is from element ``at`` on."""
        self.width, self.holes = width, self.size > 0
        self._shadow, self._before = None, NEVER
        whole = self.elements(np.dtype(f"u{width}"))[at : at + 2]
        self.fill = int(whole[0]) if len(whole) > 1 and whole[0] == whole[1] else None

    def never(self, index: Array) -> Array | None:
        """Bool: elements that nobody wrote, nor holds anything but the fill; None where there are none."""
        if not self.holes:
            return None
        if self._shadow is None:
            never = np.ones(index.shape, bool)
        else:
            never = np.asarray(np.take(self._shadow, index, mode="clip") == NEVER)
        if self.fill is not None and never.any():
            whole = self.elements(np.dtype(f"u{self.width}"))
            never &= np.take(whole, index, mode="clip") == self.fill
        return never if never.any() else None

    @property
    def untouched(self) -> bool:
        """Whether it was just allocated, and no kernel has written to it since."""
        return self.holes and self._shadow is None

    def define(self) -> None:
        """Something other than a kernel wrote here: it counts as written everywhere."""
        if self.holes:
            self._shadow, self._before, self.holes = None, BEFORE, False

    def save(self) -> tuple[list[tuple[Any, Any, Array]], Array | None]:
        """What it holds: all of it, or of a very long storage what its owners reach."""
        parts: list[tuple[Any, Any]] = [(np.dtype(np.uint8), slice(None))]
        if self.owners and sum(owner.count for owner in self.owners) * spread.THIN <= self.size:
            parts = [(np.dtype(f"u{owner.width}"), owner.places()) for owner in self.owners]
        held = [(dtype, places, self.elements(dtype)[places].copy()) for dtype, places in parts]
        return held, None if self._shadow is None else self._shadow.copy()

    def restore(self, saved: tuple[list[tuple[Any, Any, Array]], Array | None]) -> None:
        for dtype, places, held in saved[0]:
            self.elements(dtype)[places] = held
        self._shadow = saved[1]


class Memory:
    """All storages known to one execution."""

    def __init__(self) -> None:
        self._known: dict[int, torch.UntypedStorage] = {}
        self._regions: dict[int, Region] = {}
        self._owners: dict[int, list[Extent]] = {}
        self.clock = BEFORE + 1
        """The number under which the next program writes."""

    def know(self, tensors: Iterable[torch.Tensor]) -> None:
        """Remember storages that a kernel may reach through addresses it reads from memory."""
        for tensor in tensors:
            if tensor.device.type == "cpu" and tensor.layout == torch.strided:
                storage = tensor.untyped_storage()
                self._known.setdefault(storage.data_ptr(), storage)

    def own(self, tensors: Iterable[torch.Tensor]) -> None:
        """Know these, each as a whole of its own: what else their storages hold is none of it."""
        for tensor in tensors:
            if tensor.device.type == "cpu" and tensor.layout == torch.strided:
                self.know([tensor])
                base = tensor.untyped_storage().data_ptr()
                self._owners.setdefault(base, []).append(Extent.of(tensor, tensor.data_ptr() - base))

    def region(self, tensor: torch.Tensor) -> Region:
        """The region of a tensor; kept, with its shadow, if the storage is known."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        region = self._regions.get(address)
        if region is None:
            region = Region(storage, self._owners.setdefault(address, []))
            if address in self._known:
                self._regions[address] = region
        return region

    def find(self, tensor: torch.Tensor) -> Region | None:
        """The region of a tensor, if it was ever made."""
        return self._regions.get(tensor.untyped_storage().data_ptr())

    def regions(self) -> list[Region]:
        """Every known storage."""
        for address, storage in self._known.items():
            if address not in self._regions:
                self._regions[address] = Region(storage, self._owners.setdefault(address, []))
        return list(self._regions.values())

    def ticket(self, programs: int) -> int:
        """Numbers for the programs of a launch: program p writes under the first plus p."""
        if self.clock + programs >= 2**31:
            for region in self._regions.values():
                if isinstance(region._shadow, Pages):
                    region._shadow.limit(BEFORE)
                elif region._shadow is not None:
                    np.minimum(region._shadow, BEFORE, out=region._shadow)
            self.clock = BEFORE + 1
        first = self.clock
        self.clock += programs
        return first
