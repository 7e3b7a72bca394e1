"""Allowed errors that are a share of the magnitude, such as one rounding of an exact result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Share:
    """Errors share·|v| + least, of which no array is made before one is asked for.

    share, least: floats, or tensors that broadcast to v's shape, such as one number for each row.
    """

    share: Any = 0.0
    least: Any = 0.0

    @property
    def uniform(self) -> bool:
        """Whether both are the same for all elements."""
        return isinstance(self.share, float) and isinstance(self.least, float)

    def of(self, v: Any) -> Any:
        """The errors of these values, in a new array."""
        t = abs(v)
        t *= self.share
        if not isinstance(self.least, float) or self.least:
            t += self.least
        return t

    def at(self, size: float) -> float:
        """The most that the error of a number of this magnitude can be."""
        return size * _most(self.share) + _most(self.least)

    def rounded(self, relative: float, underflow: float = 0.0) -> Share:
        """With a rounding of the result: e + relative·(|v| + e) + underflow."""
        grown = 1 + relative
        least = self.least * grown
        return Share(self.share * grown + relative, least + underflow if underflow else least)


NO_ERROR = Share()


def _most(part: Any) -> float:
    if isinstance(part, float):
        return part
    return part.amax().item() if part.numel() else 0.0
