"""What the executors raise on their own account."""

from __future__ import annotations

from ..errors import Unsupported


class MemoryFault(Exception):
    """A kernel read or wrote outside the storage of the tensor that its pointer came from."""


class NotSimulated(Unsupported):
    """The CPU executor lacks a construct (inline assembly, say): nothing is said about the kernel."""


class AmbiguousCondition(TypeError):
    """An ``if``, ``while`` or ``not`` on a block of several elements, which Triton refuses to compile."""
