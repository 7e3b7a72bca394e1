"""Atomic operations: lanes that share an address take turns, in lane order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from .casts import Array, bits_of
from .handles import Handle
from .storage import Memory

Modify = Callable[[Array, Array], Array]

READ_MODIFY_WRITE: Final[dict[str, Modify]] = {
    "ADD": np.add,
    "FADD": np.add,
    "MAX": np.maximum,
    "UMAX": np.maximum,
    "MIN": np.minimum,
    "UMIN": np.minimum,
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "XOR": np.bitwise_xor,
    "XCHG": lambda old, new: new,
}


def _turns(addresses: Array, mask: Array) -> Iterator[Array]:
    """Disjoint masks over the active lanes, in each of which every address occurs once."""
    lanes = np.flatnonzero(mask)
    active = addresses.flat[lanes]
    order = np.argsort(active, kind="stable")
    ranked = active[order]
    first = np.concatenate([[True], ranked[1:] != ranked[:-1]]) if len(ranked) else np.zeros(0, bool)
    starts = np.maximum.accumulate(np.where(first, np.arange(len(ranked)), 0))
    turn = np.empty(len(ranked), np.int64)
    turn[order] = np.arange(len(ranked)) - starts
    for number in range(int(turn.max()) + 1 if len(turn) else 0):
        chosen = np.zeros(addresses.shape, bool)
        chosen.flat[lanes[turn == number]] = True
        yield chosen


def update(memory: Memory, ptr: Handle, values: Array, mask: Array, modify: Modify) -> Array:
    """Replace each element by ``modify(element, value)``; returns what each lane found."""
    addresses = ptr.data
    values, mask = np.broadcast_to(values, addresses.shape), np.broadcast_to(mask, addresses.shape)
    found = np.zeros(addresses.shape, values.dtype)
    for lanes in _turns(addresses, mask):
        old = memory.read(addresses, lanes, values.dtype.itemsize, ptr.region).view(values.dtype)
        memory.write(addresses, lanes, bits_of(modify(old, values)), ptr.region)
        found = np.where(lanes, old, found)
    return found


def compare_and_swap(memory: Memory, ptr: Handle, expected: Array, values: Array) -> Array:
    """Write ``value`` where the element's bits are ``expected``'s; returns what each lane found."""
    wanted = np.broadcast_to(bits_of(expected), ptr.data.shape)
    bits = np.broadcast_to(bits_of(values), ptr.data.shape)
    everywhere = np.ones(ptr.data.shape, bool)
    found = np.zeros(ptr.data.shape, bits.dtype)
    for lanes in _turns(ptr.data, everywhere):
        old = memory.read(ptr.data, lanes, bits.dtype.itemsize, ptr.region)
        memory.write(ptr.data, lanes & (old == wanted), bits, ptr.region)
        found = np.where(lanes, old, found)
    return found.view(values.dtype)
