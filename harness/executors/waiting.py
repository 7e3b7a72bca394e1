"""Loops that go round without any change: a program that waits for another one, or for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .value import Value


class Waits(Exception):
    """The running program goes on only when another one changes memory. Never leaves a launch."""


class Rounds:
    """The rounds of one ``while``, of which it is asked whether one is as an earlier one was.

    What a loop does next is decided by memory and by the registers that it still needs. It is compared with
    what was there a power of two of rounds ago (Brent's cycle detection).
    """

    def __init__(self, line: str) -> None:
        self.line = line
        self._count, self._next = 0, 1
        self._version = -1
        self._registers: tuple[Any, ...] = ()

    def repeat(self, version: int, registers: Sequence[Any]) -> bool:
        """Whether memory of this version and the registers were there before."""
        if version == self._version and len(registers) == len(self._registers):
            if all(map(_same, registers, self._registers)):
                return True
        elif version != self._version:
            self._count, self._next = 0, 1
        self._count += 1
        if self._count == self._next:
            self._next *= 2
            self._version, self._registers = version, tuple(registers)
        return False


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, Value) and isinstance(b, Value):
        return all(map(_equal, (a.data, a.undef), (b.data, b.undef)))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return False


def _equal(a: Any, b: Any) -> bool:
    """Of arrays, or None: the same bits."""
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and bool(a.tobytes() == b.tobytes())
