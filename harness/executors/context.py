"""What the operations of a launch work on: arguments, programs, findings, and what must be undone."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from .casts import Array
from .faults import Fault
from .memory_map import Window
from .storage import Memory, Region
from .trace import Operation

MOST_FINDINGS = 64
"""Findings kept of one execution."""


class Findings:
    """The faults of one execution, one for each kind, line and argument."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._seen: set[tuple[str, str, str | None]] = set()

    def new(self, kind: str, line: str, argument: str | None) -> bool:
        return (kind, line, argument) not in self._seen and len(self.faults) < MOST_FINDINGS

    def add(self, fault: Fault) -> None:
        self._seen.add((fault.kind, fault.line, fault.argument))
        self.faults.append(fault)

    def mark(self) -> tuple[int, set[tuple[str, str, str | None]]]:
        return len(self.faults), set(self._seen)

    def back_to(self, mark: tuple[int, set[tuple[str, str, str | None]]]) -> None:
        del self.faults[mark[0] :]
        self._seen = mark[1]


@dataclass
class Deferred:
    """An atomic operation whose result nobody used: done when the programs that run together are."""

    region: Region
    dtype: np.dtype[Any]
    modify: Any
    programs: Array
    index: Array
    values: Array


class Context:
    """One launch, and the group of programs that is running."""

    def __init__(
        self,
        name: str,
        grid: tuple[int, int, int],
        windows: dict[str, Window],
        memory: Memory,
        fill: str,
        findings: Findings,
    ) -> None:
        self.name, self.grid, self.windows = name, grid, windows
        self.memory, self.fill, self.findings = memory, fill, findings
        programs = grid[0] * grid[1] * grid[2]
        self.several = programs > 1
        self.first = memory.ticket(programs)
        self.lanes: Array = np.zeros(1, np.int64)
        """The linear numbers of the running programs."""
        self.operation: Operation | None = None
        self.alone = False
        """One program at a time."""
        self.locks = False
        """Programs used results of atomics or volatile loads: what they share may be in order."""
        self.written: set[int] = set()
        """Regions, by identity, that this launch wrote."""
        self.watched: set[int] | None = None
        """Regions whose reads must be remembered: those the kernel is known to write."""
        self.reads: dict[int, list[tuple[Array, Array | None, Array]]] = {}
        self.readers: dict[int, Array] = {}
        """By region: which program read an element, −1 for none, −2 for several."""
        self.changed: dict[int, Array] = {}
        """The same of atomic changes, of programs that run one at a time."""
        self.saved: dict[int, tuple[Region, Any]] = {}
        self.deferred: list[Deferred] = []
        self.updated: set[int] = set()
        """Regions that atomics of this launch changed."""
        self.version = 0
        """How often memory was changed."""
        self.inside = False
        """In a function that is applied to each of many elements."""

    @classmethod
    def empty(cls) -> Context:
        """For functions that see no memory."""
        return cls("", (1, 1, 1), {}, Memory(), "nan", Findings())

    def inner(self, count: int) -> Context:
        """For a function applied to each of ``count`` elements."""
        made = copy.copy(self)
        made.lanes, made.inside = np.arange(count), True
        return made

    def program(self, lane: int) -> tuple[int, int, int]:
        number = int(self.lanes[lane]) if lane < len(self.lanes) else 0
        x, y, _ = self.grid
        return number % x, number // x % y, number // (x * y)

    @property
    def line(self) -> str:
        return self.operation.line if self.operation is not None else ""

    def report(
        self, kind: str, argument: str | None, lane: int, index: tuple[int, ...] | None, message: str
    ) -> None:
        if self.findings.new(kind, self.line, argument):
            self.findings.add(Fault(kind, message, self.line, self.program(lane), argument, index))

    def keep(self, region: Region) -> None:
        """Called before a region is first written: it can be put back."""
        if id(region) not in self.written:
            self.written.add(id(region))
            if not self.alone:
                self.saved[id(region)] = (region, region.save())

    def rewind(self) -> None:
        """Undo every write of this launch."""
        for region, state in self.saved.values():
            region.restore(state)
        self.saved.clear()
        self.written.clear()
        self.updated.clear()
        self.deferred.clear()
        self.reads.clear()
        self.readers.clear()

    def watch(self, regions: set[int] | None) -> None:
        """From now on, remember reads of these only; None for all."""
        self.watched = regions
        if regions is not None:
            self.reads = {key: pending for key, pending in self.reads.items() if key in regions}
