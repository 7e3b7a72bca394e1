"""Runs a function under test on the CPU or on a CUDA device: `execute` and `cpu` are the only ways in.

On the CPU, Triton kernels go through an interpreter of our own behind Triton's front end, with the semantics
of a GPU by device profile: bf16 and fp8 rounded as the device rounds them, sums in the format of their
elements, undefined lanes filled, addresses checked.
"""

from __future__ import annotations

from .execution import Execution, Outcome, cpu, execute, lost, ready
from .faults import Fault, MemoryFault, NotSimulated
from .origin import locate
from .state import neutral

__all__ = [
    "Execution",
    "Fault",
    "MemoryFault",
    "NotSimulated",
    "Outcome",
    "cpu",
    "execute",
    "locate",
    "lost",
    "neutral",
    "ready",
]
