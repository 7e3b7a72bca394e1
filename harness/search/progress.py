"""What a running search tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Phase = Literal["covering", "searching", "shrinking", "explaining"]


@dataclass(frozen=True)
class Progress:
    """Where a search stands in one format; share: of its budget that is spent, None where that is no matter.

    found: a failure, in words, whose reduction is about to take long.
    """

    format: str
    phase: Phase
    situations: int
    share: float | None
    launches: int
    findings: int
    largest_ratio: float
    found: str = ""


Watcher = Callable[[Progress], None]
