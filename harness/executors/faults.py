"""What the executors raise on their own account, and what they find."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import Unsupported


class MemoryFault(Exception):
    """A kernel read or wrote outside the storage of the tensor that its pointer came from."""


class NotSimulated(Unsupported):
    """The CPU executor lacks a construct (inline assembly, say): nothing is said about the kernel."""


class AmbiguousCondition(TypeError):
    """An ``if``, ``while`` or ``not`` on a block of several elements, which Triton refuses to compile."""


class StepLimit(Exception):
    """A program ran for so many operations that it counts as hung: a lock that nobody releases, say."""


class OrderMatters(Exception):
    """Programs that run together would not do what they do one after another. Never leaves a launch."""


@dataclass(frozen=True)
class Fault:
    """Something that the CPU executor saw a kernel do wrong."""

    kind: str
    """"out of bounds", "undefined values", "race", "written" or "offset overflow"."""
    message: str
    line: str
    """``file:line`` in the kernel; empty where no line is to blame."""
    program: tuple[int, int, int] | None
    argument: str | None
    index: tuple[int, ...] | None
    """Of the element in the argument; one offset in elements from its start where it lies outside."""
