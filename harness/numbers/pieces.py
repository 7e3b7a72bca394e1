"""Reading a definition over one axis too long to hold in float64: arrays that exist a piece at a time.

A `Long` array knows how to make any piece of itself along its long axis. Elementwise operations on it make
another such array; a reduction along that axis, and every question about all elements, goes through the pieces
once. Memory is that of a few pieces; what depends on a row as a whole is computed again for each reduction.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch

from harness.formats import Format
from harness.numbers.backend import Array, Float64

Piece = Callable[[int, int], Any]


class NotInPieces(Exception):
    """A definition does what cannot be done a piece of an axis at a time."""


class Long:
    """An array of this shape; piece(start, stop): its slice along ``axis``, which is the long one.

    step: elements of the axis that are worked on at a time.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shape: tuple[int, ...], axis: int, step: int, piece: Piece) -> None:
        self.shape, self.axis, self.step, self.piece = shape, axis, step, piece

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def terms(self) -> int:
        """Additions on the longest path of its sum, at most: through a piece, then through the pieces."""
        length = self.shape[self.axis]
        return min(length, self.step + -(-length // self.step)) * math.prod(self.shape) // max(length, 1)

    def places(self, dim: int) -> Long:
        """0, 1, 2, … along its long axis."""
        if dim != self.axis:
            raise NotInPieces("numbers another axis than the long one")
        ones, device = (1,) * self.ndim, self.piece(0, 1).device

        def piece(start: int, stop: int) -> torch.Tensor:
            return torch.arange(start, stop, device=device).reshape(*ones[:dim], -1, *ones[dim + 1 :])

        return Long((*ones[:dim], self.shape[dim], *ones[dim + 1 :]), dim, self.step, piece)

    def pieces(self) -> Iterator[Any]:
        """All of it, in order."""
        length = self.shape[self.axis]
        for start in range(0, length, self.step):
            yield self.piece(start, min(start + self.step, length))

    @property
    def dtype(self) -> torch.dtype:
        """That of its elements."""
        dtype: torch.dtype = self.piece(0, 1).dtype
        return dtype

    def __getattr__(self, name: str) -> Any:
        if hasattr(torch.Tensor, name):
            raise NotInPieces(f"needs its long axis as a whole: {name}")
        raise AttributeError(name)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise NotInPieces("needs its long axis as a whole")

    @classmethod
    def __torch_function__(cls, function: Any, *_: Any, **__: Any) -> Any:
        raise NotInPieces(f"needs its long axis as a whole: {function.__name__}")

    def __getitem__(self, index: Any) -> Any:
        if not (isinstance(index, tuple) and len(index) == self.axis + 1):
            raise NotInPieces("takes other parts than slices of its long axis")
        kept = (
            all(isinstance(item, slice) for item in index)
            and index[: self.axis].count(slice(None)) == self.axis
        )
        start, stop, step = index[self.axis].indices(self.shape[self.axis]) if kept else (0, 0, 0)
        if step != 1:
            raise NotInPieces("takes other parts than slices of its long axis")
        return self.piece(start, stop)


def lifted(function: Callable[..., Any], *operands: Any) -> Any:
    """An elementwise function of operands of which some are long: the long array of its results."""
    long = [operand for operand in operands if isinstance(operand, Long)]
    if not long:
        return function(*operands)
    shapes = [operand.shape for operand in operands if hasattr(operand, "shape")]
    shape = tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
    first = long[0]
    if (
        any(other.shape[other.axis - other.ndim] != first.shape[first.axis] for other in long)
        or len({other.axis - other.ndim for other in long}) > 1
    ):
        raise NotInPieces("combines arrays that are long along different axes")
    axis = len(shape) + first.axis - first.ndim
    whole = [o for o in operands if isinstance(o, torch.Tensor) and o.ndim >= len(shape) - axis]
    if any(operand.shape[axis - len(shape)] != 1 for operand in whole):
        raise NotInPieces("combines a long array with one that is held as a whole")

    def piece(start: int, stop: int) -> Any:
        return function(*(o.piece(start, stop) if isinstance(o, Long) else o for o in operands))

    return Long(shape, axis, first.step, piece)


def _unary(function: Callable[[Any], Any]) -> Any:
    return lambda self: lifted(function, self)


def _binary(function: Callable[[Any, Any], Any]) -> Any:
    return lambda self, other: lifted(function, self, other)


def _reflected(function: Callable[[Any, Any], Any]) -> Any:
    return lambda self, other: lifted(lambda a, b: function(b, a), self, other)


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")
for _name in (*_BINARY, "lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Long, f"__{_name}__", _binary(getattr(operator, f"__{_name}__")))
for _name in _BINARY:
    setattr(Long, f"__r{_name}__", _reflected(getattr(operator, f"__{_name}__")))
for _name in ("neg", "abs", "invert"):
    setattr(Long, f"__{_name}__", _unary(getattr(operator, f"__{_name}__")))


class InPieces(Float64):
    """float64 tensors, and long arrays of them, whose errors are made anew with each piece."""

    shares = False

    def leaf(self, values: Any) -> Any:
        return values

    def filled(self, t: Array, like: Array) -> Any:
        if not isinstance(like, Long):
            return super().filled(t, like)
        if isinstance(t, Long) and t.shape == like.shape:
            return t
        return lifted(super().filled, t, like)

    def where(self, condition: Array, a: Array, b: Array) -> Any:
        return lifted(super().where, condition, a, b)

    def any(self, mask: Array) -> bool:
        parts = mask.pieces() if isinstance(mask, Long) else (mask,)
        return any(bool(part.any()) for part in parts)

    def most(self, v: Array, t: Array) -> float:
        if not isinstance(v, Long):
            return super().most(v, t)
        both = lifted(lambda a, b: (a, b), v, t)
        most = [Float64.most(self, a, b) for a, b in both.pieces()]
        return math.nan if any(map(math.isnan, most)) else max(most)

    def nonnegative(self, a: Array) -> bool:
        return False if isinstance(a, Long) else super().nonnegative(a)

    def positive(self, a: Array) -> bool:
        return False if isinstance(a, Long) else super().positive(a)

    def beyond(self, v: Array, t: Array, limit: float) -> bool:
        return False if isinstance(v, Long) else super().beyond(v, t, limit)

    def flags(self, mask: Array, flag: int) -> Any:
        return lifted(lambda part: Float64.flags(self, part, flag), mask)

    def isnan(self, a: Array) -> Any:
        return lifted(torch.isnan, a)

    def isinf(self, a: Array) -> Any:
        return lifted(torch.isinf, a)

    def isfinite(self, a: Array) -> Any:
        return lifted(torch.isfinite, a)

    def maximum(self, a: Array, b: Array) -> Any:
        return lifted(super().maximum, a, b)

    def minimum(self, a: Array, b: Array) -> Any:
        return lifted(super().minimum, a, b)

    def absolute(self, a: Array) -> Any:
        return abs(a)

    def sign(self, a: Array) -> Any:
        return lifted(torch.sign, a)

    def divide(self, a: Array, b: Array) -> Any:
        return lifted(super().divide, a, b)

    def apply(self, name: str, a: Array) -> Any:
        return lifted(self._UNARY[name], a)

    def half_ulp(self, a: Array, fmt: Format) -> Any:
        return lifted(lambda part: Float64.half_ulp(self, part, fmt), a)

    def sum(self, a: Array, dim: int) -> torch.Tensor:
        return self._reduced(super().sum, a, dim)

    def amax(self, a: Array, dim: int) -> torch.Tensor:
        return self._reduced(super().amax, a, dim)

    def any_along(self, mask: Array, dim: int) -> torch.Tensor:
        return self._reduced(super().any_along, mask, dim)

    def prod(self, a: Array, dim: int) -> torch.Tensor:
        return super().prod(_whole(a), dim)

    def cumsum(self, a: Array, dim: int) -> torch.Tensor:
        return super().cumsum(_whole(a), dim)

    def any_so_far(self, mask: Array, dim: int) -> torch.Tensor:
        return super().any_so_far(_whole(mask), dim)

    def first_along(self, mask: Array, dim: int) -> Array:
        if not isinstance(mask, Long):
            return super().first_along(mask, dim)
        self._along_it(mask, dim)
        length = mask.shape[dim]
        found = torch.full([1 if axis == dim else n for axis, n in enumerate(mask.shape)], float(length))
        start = 0
        for part in mask.pieces():
            place = super().first_along(part, dim)
            found = found.to(place.device)
            found = torch.where((found == length) & (place < part.shape[dim]), place + start, found)
            start += part.shape[dim]
        return found

    def along(self, values: list[float], dim: int, like: Array) -> torch.Tensor:
        return super().along(values, dim, _whole(like))

    def matmul(self, a: Array, b: Array) -> torch.Tensor:
        return super().matmul(_whole(a), _whole(b))

    def distances(self, weight: Array, present: Array, v: Array, c: Array) -> tuple[Array, Array]:
        return super().distances(_whole(weight), _whole(present), _whole(v), _whole(c))

    def _reduced(self, reduce: Callable[[Any, int], torch.Tensor], a: Array, dim: int) -> torch.Tensor:
        """A reduction along the long axis: of each piece, then of what that gives."""
        if not isinstance(a, Long):
            return reduce(a, dim)
        self._along_it(a, dim)
        return reduce(torch.cat([reduce(part, dim) for part in a.pieces()], dim), dim)

    @staticmethod
    def _along_it(a: Long, dim: int) -> None:
        if dim != a.axis:
            raise NotInPieces("reduces another axis than the long one")


def _whole(a: Array) -> Array:
    if isinstance(a, Long):
        raise NotInPieces("needs its long axis as a whole")
    return a
