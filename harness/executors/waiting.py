"""Loops that go round without any change: a program that waits for another one, or for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .value import Value


class Waits(Exception):
    """The running program goes on only when another one changes memory. Never leaves a launch."""


class Rounds:
    """The rounds of one ``while``, of which it is asked whether one is as an earlier one was.

    What a loop does next is decided by memory, by the registers that it still needs, and by constants, which
    are known before anything runs and of which each round makes its own. They are compared with what was there
    some rounds ago, the number of which doubles (Brent's cycle detection).
    """

    def __init__(self, line: str) -> None:
        self.line = line
        self._count, self._next = 0, 1
        self._version = -1
        self._registers: tuple[Any, ...] = ()
        self.constants: list[int] = []
        """Of the present round."""
        self._constants: list[int] = []

    def repeat(self, version: int, registers: Sequence[Any]) -> bool:
        """A round has ended: were memory of this version, the registers and the constants there before?"""
        constants, self.constants = self.constants, []
        if version != self._version:
            self._count, self._next = 0, 1
        elif (
            constants == self._constants
            and len(registers) == len(self._registers)
            and all(map(_same, registers, self._registers))
        ):
            return True
        self._count += 1
        if self._count == self._next:
            self._next *= 2
            self._version, self._registers, self._constants = version, tuple(registers), constants
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
