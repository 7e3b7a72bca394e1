"""The memory a kernel may touch on the CPU executor: the storages of the tensors it can know of.

Every access goes through here and is resolved against a storage, so that an address outside all of them
becomes an error with a name instead of a crash. A pointer knows the argument it came from, and may only reach
that argument's storage; one that lost its origin (built from an integer) may reach any storage the function
has seen. Within a storage, the guards of `harness.memory` tell a stray access.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch

from .casts import Array
from .faults import MemoryFault


class Region:
    """The bytes of one storage, under the name by which a message calls it."""

    def __init__(self, storage: torch.UntypedStorage, name: str) -> None:
        self.name = name
        self.base, self.size = storage.data_ptr(), storage.nbytes()
        self._storage = storage
        whole = (ctypes.c_uint8 * self.size).from_address(self.base) if self.size else (ctypes.c_uint8 * 0)()
        self._bytes: Array = np.ctypeslib.as_array(whole)
        self._views: dict[int, Array] = {}

    def elements(self, width: int) -> Array:
        """The storage as unsigned integers of ``width`` bytes."""
        if width not in self._views:
            whole = self.size // width * width
            self._views[width] = self._bytes[:whole].view(f"u{width}")
        return self._views[width]

    def inside(self, addresses: Array, width: int) -> Array:
        """Bool: the addresses at which a whole element of ``width`` bytes lies in this storage."""
        return addresses - np.uint64(self.base) < np.uint64(max(0, self.size - width + 1))

    def distance(self, address: int, width: int) -> str:
        """Where a stray address lies, in words."""
        if address < self.base:
            return f"{self.base - address} bytes before {self.name}"
        return f"{address + width - self.base - self.size} bytes past the end of {self.name}"


class Memory:
    """All storages known to one execution, and the reads and writes of its kernels."""

    def __init__(self, describe: Callable[[], str]) -> None:
        self._describe = describe
        self._known: dict[int, Region] = {}

    def know(self, tensors: Iterable[torch.Tensor], name: str = "a tensor of the function") -> None:
        """Remember storages that a kernel may reach through addresses it reads from memory."""
        for tensor in tensors:
            if tensor.device.type == "cpu" and tensor.layout == torch.strided:
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in self._known:
                    self._known[storage.data_ptr()] = Region(storage, name)

    def read(self, addresses: Array, mask: Array | None, width: int, region: Region | None) -> Array:
        """Elements of ``width`` bytes as unsigned integers [shape of addresses], 0 in masked-off lanes."""
        out = np.zeros(addresses.shape, f"u{width}")
        for part, lanes, index in self._resolve("reads", addresses, mask, width, region):
            elements = part.elements(width)
            if lanes is None:
                return elements[index]
            out[lanes] = elements[index]
        return out

    def write(self, addresses: Array, mask: Array | None, values: Array, region: Region | None) -> None:
        """Write unsigned integers; where lanes share an address, the last one stays."""
        values = np.broadcast_to(values, addresses.shape)
        width = values.dtype.itemsize
        for part, lanes, index in self._resolve("writes", addresses, mask, width, region):
            part.elements(width)[index] = values if lanes is None else values[lanes]

    def _resolve(
        self, verb: str, addresses: Array, mask: Array | None, width: int, region: Region | None
    ) -> Iterator[tuple[Region, Array | None, Array]]:
        """Split the active lanes by storage: (storage, lanes or None for all, element index of each)."""
        lanes = None if mask is None or mask.all() else np.broadcast_to(mask, addresses.shape)
        active = addresses if lanes is None else addresses[lanes]
        if not active.size:
            return
        if region is not None:
            if not region.inside(active, width).all():
                self._fault(verb, active[~region.inside(active, width)], width, region)
            yield region, lanes, self._index(verb, active, width, region)
            return
        left = np.ones(addresses.shape, bool) if lanes is None else lanes.copy()
        for known in list(self._known.values()):
            here = left & known.inside(addresses, width)
            if here.any():
                yield known, here, self._index(verb, addresses[here], width, known)
                left &= ~here
        if left.any():
            self._fault(verb, addresses[left], width, None)

    def _index(self, verb: str, addresses: Array, width: int, region: Region) -> Any:
        offsets = (addresses - np.uint64(region.base)).view(np.int64)
        if width > 1 and (offsets & (width - 1)).any():
            stray = int(offsets[(offsets & (width - 1)) != 0][0])
            raise MemoryFault(
                f"{self._describe()} {verb} {width} bytes at byte {stray} of {region.name}, "
                f"which is not a multiple of {width}"
            )
        return offsets // width if width > 1 else offsets

    def _fault(self, verb: str, stray: Array, width: int, region: Region | None) -> None:
        address = int(stray.flat[0])
        where = f"at {address:#x}, in no known tensor" if region is None else region.distance(address, width)
        raise MemoryFault(f"{self._describe()} {verb} {width} bytes {where}")
