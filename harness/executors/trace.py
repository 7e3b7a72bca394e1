"""The record of what Triton's front end did: straight pieces of operations, joined by decisions.

The front end runs a kernel's Python once for each way that control flow takes. What it computes is recorded
as operations on numbered registers; where Python needs a value (an ``if``, a loop's end) the piece ends in a
decision, and a piece for each value follows. Later launches of the same kernel walk the recorded pieces and
need no front end, as long as they decide as before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .faults import StepLimit
from .handles import Handle
from .value import Value
from .waiting import Waits

STEPS = 500_000
"""Operations after which one program counts as hung."""

Run = Callable[..., Any]


class Operation:
    """``registers[out] = run(context, *registers[inputs])``, after which ``frees`` hold nothing any more."""

    __slots__ = ("frees", "inputs", "line", "out", "run")

    def __init__(self, run: Run, inputs: tuple[int, ...], out: int, line: str) -> None:
        self.run, self.inputs, self.out, self.line = run, inputs, out, line
        self.frees: list[int] = []


class Segment:
    """Operations up to the next decision or the end."""

    __slots__ = (
        "children",
        "constants",
        "decision",
        "emitted",
        "frees",
        "inside",
        "key",
        "line",
        "loop",
        "operations",
        "parent",
        "results",
        "sealed",
    )

    def __init__(self, parent: Segment | None = None, key: Any = None) -> None:
        self.parent, self.key = parent, key
        self.children: dict[Any, Segment] = {}
        self.inside: bool = parent is not None and (parent.inside or parent.loop)
        """Whether it comes after the condition of a ``while``."""
        self.reset()

    def reset(self) -> None:
        """Forget what was recorded."""
        self.operations: list[Operation] = []
        self.emitted: list[int] = []
        self.frees: list[int] = []
        """Registers that hold nothing any more when the segment begins."""
        self.constants: list[int] = []
        """Hashes of the constants that are made here, if it is inside."""
        self.sealed = False
        self.decision: int | None = None
        self.results: list[int] = []
        self.line = ""
        self.loop = False
        """Whether the decision is one of ``while``."""

    def child(self, key: Any) -> Segment:
        if key not in self.children:
            self.children[key] = Segment(self, key)
        return self.children[key]

    def path(self) -> list[Segment]:
        """From the root to here."""
        found = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return found[::-1]


class Tree:
    """All that is known of one kernel for one set of compile-time values and types."""

    def __init__(self, arguments: int, kept: Any = None) -> None:
        self.root = Segment()
        self.constants: dict[int, Value] = {}
        self.registers = arguments
        self.kept = kept
        """What the key of this tree refers to by identity."""
        self.largest = 1
        """Elements of the largest block."""
        self.sequential = False
        """Programs were found to depend on each other: they run one at a time."""
        self.stored: set[str | None] = set()
        """Arguments that some operation writes; None stands for addresses of unknown origin."""
        self.traced = False


class Tracer:
    """Takes what the front end emits along one path; beyond the known part of the path it records."""

    def __init__(
        self, tree: Tree, segment: Segment, locate: Callable[[], str], reach: Callable[[Segment], Segment]
    ):
        """``reach`` runs a finished segment and returns the one to go on with."""
        self.tree, self._locate, self._reach = tree, locate, reach
        self._path, self._at = segment.path(), 0
        self._position = 0
        self._rounds = 0
        """Of loops whose condition is known before any program runs."""
        self.segment = self._path[0]
        self.recording = not self.segment.sealed

    def emit(
        self,
        run: Run,
        inputs: tuple[Handle, ...],
        shape: tuple[int, ...],
        dtype: Any,
        origin: str | None = None,
        *,
        pure: bool = False,
    ) -> Handle:
        """A new value. pure: depends on its inputs only, so that constants are computed at once."""
        if not self.recording:
            register = self.segment.emitted[self._position]
            self._position += 1
            return Handle(register, shape, dtype, origin, self)
        tree = self.tree
        register = tree.registers
        tree.registers += 1
        tree.largest = max(tree.largest, _size(shape))
        self.segment.emitted.append(register)
        registers = tuple(handle.register for handle in inputs)
        if pure and all(each in tree.constants for each in registers):
            made = tree.constants[register] = run(None, *(tree.constants[each] for each in registers))
            if self.segment.inside:
                self.segment.constants.append(hash((made.data.dtype, made.data.shape, made.data.tobytes())))
        else:
            self.segment.operations.append(Operation(run, registers, register, self._locate()))
        return Handle(register, shape, dtype, origin, self)

    def decide(self, handle: Handle, *, loop: bool = False) -> Any:
        """The value that the programs of this path have in ``handle``. loop: the condition of a ``while``."""
        constant = self.tree.constants.get(handle.register)
        if constant is not None:
            self._rounds += loop
            if self._rounds > STEPS:
                raise StepLimit(f"no end after {STEPS} rounds of loops")
            return constant.data.flat[0].item()
        if self.recording:
            segment = self.segment
            segment.decision, segment.line, segment.sealed = handle.register, self._locate(), True
            segment.loop = loop
            try:
                self.segment = self._reach(segment)
            except Waits:
                self.recording = False  # what the front end drops on its way out is still needed
                raise
        else:
            self._at += 1
            self.segment = self._path[self._at]
        self._position = 0
        self.recording = not self.segment.sealed
        return self.segment.key

    def finish(self, results: tuple[Handle, ...]) -> None:
        self.segment.results = [handle.register for handle in results]
        self.segment.sealed = True
        self.recording = False

    def release(self, register: int) -> None:
        """Nothing refers to the register any more."""
        if self.recording:
            operations = self.segment.operations
            (operations[-1].frees if operations else self.segment.frees).append(register)


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size
