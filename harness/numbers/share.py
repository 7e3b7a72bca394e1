"""Allowed errors that are a share of the magnitude everywhere, such as one rounding of an exact result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Share:
    """Errors share·|v| + least, of which no array is made before one is asked for."""

    share: float = 0.0
    least: float = 0.0

    def of(self, v: Any) -> Any:
        """The errors of these values, in a new array."""
        t = abs(v)
        t *= self.share
        if self.least:
            t += self.least
        return t

    def at(self, size: float) -> float:
        """The error of a number of this magnitude."""
        return size * self.share + self.least


NO_ERROR = Share()
