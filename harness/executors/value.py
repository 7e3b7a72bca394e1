"""What a register of a running kernel holds: one array for all programs at once, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from .casts import Array

Span: TypeAlias = tuple[int, int]

INT32: Final = np.dtype(np.int32)
_LIMITS: Final = (-(2**31), 2**31 - 1)


class Value:
    """``data`` [programs, *block], or [1, *block] where all programs hold the same.

    ``undef``: Bool, broadcastable to data: the lanes whose contents are undefined; None where there are none.
    ``wrap``: the same for integers that depend on an int32 result that wrapped around.
    ``span``: bounds of an integer's values, if known.
    """

    __slots__ = ("data", "span", "undef", "wrap")

    def __init__(
        self, data: Array, undef: Array | None = None, wrap: Array | None = None, span: Span | None = None
    ) -> None:
        self.data, self.undef, self.wrap, self.span = data, undef, wrap, span

    def taken(self, lanes: Array) -> Value:
        """The part of some programs."""
        if len(self.data) == 1:
            return self
        return Value(self.data[lanes], _some(self.undef, lanes), _some(self.wrap, lanes), self.span)

    def reshaped(self, change: Callable[[Array], Array]) -> Value:
        """Every array changed alike, by something that only moves lanes."""
        return Value(
            change(self.data), self._moved(self.undef, change), self._moved(self.wrap, change), self.span
        )

    def _moved(self, mask: Array | None, change: Callable[[Array], Array]) -> Array | None:
        return None if mask is None else change(np.broadcast_to(mask, self.data.shape))

    def bounds(self) -> Span:
        """Bounds of an integer's values."""
        if self.span is None:
            self.span = (int(self.data.min()), int(self.data.max())) if self.data.size else (0, 0)
        return self.span


def _some(mask: Array | None, lanes: Array) -> Array | None:
    return mask if mask is None or len(mask) == 1 else mask[lanes]


def either(x: Array | None, y: Array | None) -> Array | None:
    """Where one or the other holds."""
    if x is None or y is None:
        return y if x is None else x
    return np.asarray(x | y)


def undefined(values: tuple[Value, ...]) -> Array | None:
    """Lanes of which any operand is undefined."""
    mask = None
    for value in values:
        if value.undef is not None:
            mask = either(mask, value.undef)
    return mask


def wrapped(values: tuple[Value, ...]) -> Array | None:
    mask = None
    for value in values:
        if value.wrap is not None:
            mask = either(mask, value.wrap)
    return mask


def exact_or_wrapped(
    data: Array, x: Value, y: Value, span: Span, exactly: Callable[[Array, Array], Array]
) -> Value:
    """The int32 result of an operation whose exact results lie in ``span``; marks the lanes that wrapped."""
    wrap = either(x.wrap, y.wrap)
    if _LIMITS[0] <= span[0] and span[1] <= _LIMITS[1]:
        return Value(data, either(x.undef, y.undef), wrap, span)
    overflowed = exactly(x.data.astype(np.int64), y.data.astype(np.int64)) != data
    return Value(data, either(x.undef, y.undef), either(wrap, overflowed) if overflowed.any() else wrap)
