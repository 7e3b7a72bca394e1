"""What a running search tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Phase = Literal["covering", "searching", "shrinking", "explaining"]


@dataclass(frozen=True)
class Progress:
    """Where a search stands in one format; wanted is None when it runs for a time."""

    format: str
    phase: Phase
    situations: int
    wanted: int | None
    launches: int
    findings: int
    largest_ratio: float


Watcher = Callable[[Progress], None]
