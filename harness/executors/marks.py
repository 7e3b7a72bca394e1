"""One int32 beside each element of a storage; of a storage that is mostly never touched, in pages as needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from .casts import Array

MOST: Final = 1 << 28
"""Elements of the longest plain array."""
_PAGE: Final = 1 << 12


def marks(size: int, value: int) -> Array:
    """[size] int32, all ``value``: an array, or what serves as one where that would be longer than MOST."""
    return np.full(size, value, np.int32) if size <= MOST else Pages(value)  # type: ignore[return-value]


class Pages:
    """A very long int32 array of one value, but for the pages that something was put into.

    It does what the executor asks of an array: reads and writes at an array of indices, and copies.
    """

    def __init__(self, value: int) -> None:
        self._value = value
        self._pages: dict[int, Array] = {}

    def __getitem__(self, index: Array) -> Array:
        found = np.full(index.size, self._value, np.int32)
        for page, here, within in self._split(index):
            if page in self._pages:
                found[here] = self._pages[page][within]
        return found.reshape(index.shape)

    def __setitem__(self, index: Array, values: Any) -> None:
        flat = np.broadcast_to(values, index.shape).reshape(-1)
        for page, here, within in self._split(index):
            if page not in self._pages:
                self._pages[page] = np.full(_PAGE, self._value, np.int32)
            self._pages[page][within] = flat[here]

    def take(self, index: Array, axis: None = None, out: None = None, mode: str = "clip") -> Array:
        """As of an array; indices outside of it hold the value that all began with."""
        return self[index]

    def copy(self) -> Pages:
        made = Pages(self._value)
        made._pages = {page: held.copy() for page, held in self._pages.items()}
        return made

    def limit(self, most: int) -> None:
        """No element is greater than that from now on."""
        for held in self._pages.values():
            np.minimum(held, most, out=held)

    def _split(self, index: Array) -> Iterator[tuple[int, Array, Array]]:
        """By page: its number, which of the flattened indices lie in it, in their order, and where in it."""
        pages, within = np.divmod(index.reshape(-1), _PAGE)
        order = np.argsort(pages, kind="stable")
        for here in np.split(order, np.flatnonzero(np.diff(pages[order])) + 1) if len(order) else ():
            yield int(pages[here[0]]), here, within[here]
