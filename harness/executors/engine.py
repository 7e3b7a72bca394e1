"""Runs a recorded kernel: all programs of a group execute each operation at once.

Programs that decide alike stay together. Where they do not, the group splits: each part goes on with its own
rows of every live register. Where Python has to be asked what comes next, the front end runs again along the
known path and records from its end on.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .casts import Array
from .context import Context
from .faults import MemoryFault, OrderMatters, StepLimit
from .handles import Handle
from .trace import STEPS, Segment, Tracer, Tree
from .value import Value
from .waiting import Rounds, Waits

Front = Callable[[Tracer], tuple[Handle, ...]]


class Registers(dict[int, Value]):
    """Values by register; constants need not be copied in."""

    __slots__ = ("_constants",)

    def __init__(self, constants: dict[int, Value], values: Any = ()) -> None:
        super().__init__(values)
        self._constants = constants

    def __missing__(self, register: int) -> Value:
        return self._constants[register]


class Group:
    """Programs that are at the same place."""

    __slots__ = ("lanes", "registers", "rounds", "rows", "segment", "steps")

    def __init__(
        self, segment: Segment, rows: Array, lanes: Array, registers: Registers, steps: int = 0
    ) -> None:
        self.segment, self.lanes, self.registers = segment, lanes, registers
        self.rows = rows
        """Where these programs stand among those of the run."""
        self.steps = steps
        """Operations that each of them has executed."""
        self.rounds: Rounds | None = None
        """Of the ``while`` that they are in."""

    def part(self, segment: Segment, chosen: Array) -> Group:
        registers = Registers(
            self.registers._constants,
            {register: value.taken(chosen) for register, value in self.registers.items()},
        )
        return Group(segment, self.rows[chosen], self.lanes[chosen], registers, self.steps)


class Run:
    """One pass of some programs through a tree."""

    def __init__(self, tree: Tree, front: Front, locate: Callable[[], str], context: Context) -> None:
        self._tree, self._front, self._locate, self._context = tree, front, locate, context
        self._waiting: list[Group] = []
        self._group: Group
        self.results: list[tuple[Array, list[Value]]] = []

    def all(self, lanes: Array, arguments: list[Value]) -> list[tuple[Array, list[Value]]]:
        """Run programs ``lanes``; returns what the front end's results are, by group: (rows, values)."""
        registers = Registers(self._tree.constants, enumerate(arguments))
        self._waiting.append(Group(self._tree.root, np.arange(len(lanes)), lanes, registers))
        self.go_on()
        return self.results

    def go_on(self) -> None:
        """Run to the end, also after a program has waited for another one (`Waits`)."""
        while self._waiting:
            self._group = self._waiting.pop()
            try:
                self._finish()
            except Waits:
                self._waiting.append(self._group)
                raise

    def _finish(self) -> None:
        """Take the current group to the end of its path."""
        while True:
            segment = self._group.segment
            if not segment.sealed:
                self._record()
                segment = self._group.segment
            else:
                self._execute(segment)
            if segment.decision is None:
                registers = self._group.registers
                self.results.append((self._group.rows, [registers[result] for result in segment.results]))
                return
            self._decide(segment)

    def _record(self) -> None:
        """The front end, along the path of the current group and on to an end."""
        tracer = Tracer(self._tree, self._group.segment, self._locate, self._reach)
        try:
            results = self._front(tracer)
            tracer.finish(results)
        except BaseException:
            if tracer.recording:
                tracer.segment.reset()
            tracer.recording = False
            raise
        self._execute(self._group.segment)
        self._tree.traced = True

    def _reach(self, segment: Segment) -> Segment:
        """The front end needs a decision: do what was recorded so far."""
        self._execute(segment)
        self._decide(segment)
        return self._group.segment

    def _execute(self, segment: Segment) -> None:
        context, registers = self._context, self._group.registers
        context.lanes = self._group.lanes
        self._group.steps += len(segment.operations) + 1
        if self._group.steps > STEPS:
            raise located(StepLimit(f"no end after {STEPS} operations"), segment.line)
        if self._group.rounds is not None:
            self._group.rounds.constants += segment.constants
        for register in segment.frees:
            registers.pop(register, None)
        operation = None
        try:
            for operation in segment.operations:
                context.operation = operation
                registers[operation.out] = operation.run(
                    context, *[registers[each] for each in operation.inputs]
                )
                for register in operation.frees:
                    registers.pop(register, None)
        except (MemoryFault, AssertionError, ValueError, NotImplementedError) as error:
            raise located(error, operation.line if operation is not None else "") from None

    def _decide(self, segment: Segment) -> None:
        """Move the current group on; programs that decide otherwise wait."""
        assert segment.decision is not None
        group = self._group
        value = group.registers[segment.decision]
        if value.undef is not None and value.undef.any():
            lane = int(np.flatnonzero(value.undef.reshape(len(value.undef), -1).any(axis=1))[0])
            self._context.operation = None
            self._context.report(
                "undefined values", None, lane, None,
                f"{segment.line}: a branch depends on something undefined",
            )  # fmt: skip
        data = value.data.reshape(-1)
        first = data[0].item()
        if len(data) == 1 or (data == data[0]).all():
            group.segment = segment.child(first)
            if segment.loop:
                self._go_round(segment, bool(first))
            return
        parts = []
        for key in np.unique(data).tolist():
            chosen = np.flatnonzero(data == key)
            parts.append(group.part(segment.child(key), chosen))
        parts.sort(key=lambda part: int(part.rows[0]))
        self._group = parts[0]
        self._waiting.extend(reversed(parts[1:]))

    def _go_round(self, segment: Segment, again: bool) -> None:
        """The current group is at a ``while``: does its loop change anything?"""
        group, context = self._group, self._context
        if not again:
            group.rounds = None
            return
        if group.rounds is None or group.rounds.line != segment.line:
            group.rounds = Rounds(segment.line)
        if group.rounds.repeat(context.version, list(group.registers.values())):
            if context.inside or not context.several:
                raise located(StepLimit("a loop that goes round without any change"), segment.line)
            raise Waits(segment.line) if context.alone else OrderMatters


def located(error: BaseException, line: str) -> BaseException:
    """The error with a frame at ``file:line`` in its traceback, as if it had been raised there."""
    file, _, number = line.rpartition(":")
    if not number.isdigit():
        return error
    code = compile("\n" * (int(number) - 1) + "raise __error", file, "exec")
    frame_of = types.FunctionType(code, {"__error": error.with_traceback(None)})
    try:
        frame_of()
    except BaseException as raised:
        return raised
    return error
