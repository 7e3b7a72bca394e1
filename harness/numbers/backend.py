"""Array arithmetic that a reading is carried out in: what every backend offers, and float64 tensors.

Others are double-doubles (harness/numbers/double_backend.py), mpmath numbers (multiprecision.py) and arrays that exist a
piece at a time (pieces.py): all offer the same few functions, so that every rule of the algebra is written once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import torch

from harness import formats
from harness.formats import Format
from harness.numbers.share import Share

Array = Any

_TOGETHER = 1 << 16
"""Elements of an array that is worked on a part at a time, so that it stays in a cache."""

_FEW = 1 << 12
"""Elements of which a pass takes less time than a call."""

_REMEMBERED = 16
"""Arrays whose extremes are remembered."""


class Backend(Protocol):
    """Elementwise functions and reductions (which keep their axis) on one kind of array.

    shares: whether errors that are a share of |v| are kept as that, see :class:`harness.numbers.share.Share`.
    """

    shares: bool

    def leaf(self, values: torch.Tensor) -> Array: ...
    def scalar(self, value: float) -> Any: ...
    def constant(self, value: float) -> Array: ...
    def filled(self, t: Array, like: Array) -> Array: ...
    def where(self, condition: Array, a: Array, b: Array) -> Array: ...
    def any(self, mask: Array) -> bool: ...
    def within(self, v: Array, t: Array, limit: float) -> bool: ...
    def beyond(self, v: Array, t: Array, limit: float) -> bool: ...
    def most(self, v: Array, t: Array) -> float: ...
    def extremes(self, a: Array) -> tuple[float, float]: ...
    def nonnegative(self, a: Array) -> bool: ...
    def positive(self, a: Array) -> bool: ...
    def flags(self, mask: Array, flag: int) -> Array: ...
    def isnan(self, a: Array) -> Array: ...
    def isinf(self, a: Array) -> Array: ...
    def isfinite(self, a: Array) -> Array: ...
    def maximum(self, a: Array, b: Array) -> Array: ...
    def minimum(self, a: Array, b: Array) -> Array: ...
    def absolute(self, a: Array) -> Array: ...
    def sign(self, a: Array) -> Array: ...
    def divide(self, a: Array, b: Array) -> Array: ...
    def apply(self, name: str, a: Array) -> Array: ...
    def sum(self, a: Array, dim: int) -> Array: ...
    def prod(self, a: Array, dim: int) -> Array: ...
    def amax(self, a: Array, dim: int) -> Array: ...
    def cumsum(self, a: Array, dim: int) -> Array: ...
    def any_along(self, mask: Array, dim: int) -> Array: ...
    def any_so_far(self, mask: Array, dim: int) -> Array: ...
    def first_along(self, mask: Array, dim: int) -> Array: ...
    def along(self, values: list[float], dim: int, like: Array) -> Array: ...
    def matmul(self, a: Array, b: Array) -> Array: ...
    def distances(self, weight: Array, present: Array | None, v: Array, c: Array) -> tuple[Array, Array]: ...
    def half_ulp(self, a: Array, fmt: Format) -> Array: ...


class Float64:
    """float64 tensors on one device: the everyday oracle."""

    shares = True

    _UNARY: ClassVar[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
        "exp": torch.exp,
        "expm1": torch.expm1,
        "log": torch.log,
        "log1p": torch.log1p,
        "sqrt": torch.sqrt,
        "tanh": torch.tanh,
        "erf": torch.special.erf,
        "sin": torch.sin,
        "cos": torch.cos,
    }

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._device = device
        self._extremes: dict[int, tuple[weakref.ref[torch.Tensor], int, tuple[float, float]]] = {}

    def leaf(self, values: torch.Tensor) -> torch.Tensor:
        """Exact values of an input, [any shape], as they are."""
        return values

    def scalar(self, value: float) -> float:
        return value

    def constant(self, value: float) -> torch.Tensor:
        """A scalar as an array without axes."""
        return torch.scalar_tensor(value, dtype=torch.float64, device=self._device)

    def filled(self, t: Array, like: torch.Tensor) -> torch.Tensor:
        """A scalar or array broadcast to the shape of ``like``."""
        if not isinstance(t, torch.Tensor):
            return torch.full_like(like, t)
        return t if t.shape == like.shape else t.expand(like.shape)

    def where(self, condition: torch.Tensor, a: Array, b: Array) -> torch.Tensor:
        return torch.where(condition, _tensor_like(a, condition), _tensor_like(b, condition))

    def any(self, mask: torch.Tensor) -> bool:
        return bool(mask.any())

    def within(self, v: torch.Tensor, t: Array, limit: float) -> bool:
        """Whether certainly |v| + t < limit everywhere; False wherever something is infinite or NaN."""
        return self.most(v, t) < limit

    def most(self, v: torch.Tensor, t: Array) -> float:
        """What |v| + t nowhere exceeds; NaN where something is NaN."""
        if v.numel() == 0:
            return 0.0
        low, high = self.extremes(v)
        size = high if high >= -low else -low
        return size + (t.at(size) if isinstance(t, Share) else self._largest(t))

    def beyond(self, v: torch.Tensor, t: Array, limit: float) -> bool:
        """Whether all v have one sign and certainly |v| - t >= limit; False may be wrong."""
        if v.numel() == 0:
            return True
        low, high = self.extremes(v)
        least = low if low > 0 else -high
        error = t.at(max(-low, high)) if isinstance(t, Share) else self._largest(t) if least >= limit else 0.0
        return least - error >= limit

    def nonnegative(self, a: torch.Tensor) -> bool:
        """Whether a is remembered to hold no number below 0; False may be wrong."""
        known = self._remembered(a)
        return known is not None and known[0] >= 0

    def positive(self, a: torch.Tensor) -> bool:
        """Whether certainly all are above 0; False may be wrong."""
        return a.numel() == 0 or self.extremes(a)[0] > 0

    def extremes(self, a: torch.Tensor) -> tuple[float, float]:
        """The least and the largest element, both NaN where there is one, 0 of none; remembered of the last few arrays."""
        known = self._remembered(a)
        if known is not None:
            return known
        if len(self._extremes) >= _REMEMBERED:
            self._extremes.clear()
        found = _extremes(a)
        self._extremes[id(a)] = (weakref.ref(a), a._version, found)
        return found

    def _remembered(self, a: torch.Tensor) -> tuple[float, float] | None:
        known = self._extremes.get(id(a))
        return known[2] if known is not None and known[0]() is a and known[1] == a._version else None

    def _largest(self, t: Array) -> float:
        return t.amax().item() if isinstance(t, torch.Tensor) else t

    def flags(self, mask: torch.Tensor, flag: int) -> torch.Tensor:
        return mask.to(torch.uint8) * flag

    def isnan(self, a: torch.Tensor) -> torch.Tensor:
        return torch.isnan(a)

    def isinf(self, a: torch.Tensor) -> torch.Tensor:
        return torch.isinf(a)

    def isfinite(self, a: torch.Tensor) -> torch.Tensor:
        return torch.isfinite(a)

    def maximum(self, a: Array, b: Array) -> torch.Tensor:
        return torch.maximum(_tensor_like(a, b), _tensor_like(b, a))

    def minimum(self, a: Array, b: Array) -> torch.Tensor:
        return torch.minimum(_tensor_like(a, b), _tensor_like(b, a))

    def absolute(self, a: torch.Tensor) -> torch.Tensor:
        """|a| as a value; abs(a) is what allowed errors are made of."""
        return a.abs()

    def sign(self, a: torch.Tensor) -> torch.Tensor:
        """1, 0 or -1."""
        return torch.sign(a)

    def divide(self, a: Array, b: Array) -> torch.Tensor:
        return torch.true_divide(_tensor_like(a, b), b)

    def apply(self, name: str, a: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._UNARY[name](a)
        return result

    def sum(self, a: torch.Tensor, dim: int) -> torch.Tensor:
        return a.sum(dim, keepdim=True)

    def prod(self, a: torch.Tensor, dim: int) -> torch.Tensor:
        """Product without intermediate overflow: mantissas and exponents apart, renormalised in blocks.

        An infinity times factors other than 0 is one, of the sign of the product, in any order.
        """
        mantissa, exponent = torch.frexp(torch.where(torch.isfinite(a), a, 1.0).movedim(dim, -1))
        exponent = exponent.to(torch.int64).sum(-1, keepdim=True)
        while mantissa.shape[-1] > 1:
            width = min(512, mantissa.shape[-1])
            padded = torch.nn.functional.pad(mantissa, (0, -mantissa.shape[-1] % width), value=1.0)
            mantissa, shift = torch.frexp(_in_blocks(padded, width).prod(-1))
            exponent = exponent + shift.to(torch.int64).sum(-1, keepdim=True)
        if mantissa.shape[-1] == 0:
            mantissa = torch.ones_like(exponent, dtype=a.dtype)
        exponent = exponent.clamp(-4000, 4000)
        value = mantissa
        for _ in range(4):
            step = exponent.clamp(-1000, 1000)
            value, exponent = torch.ldexp(value, step), exponent - step
        value = value.movedim(-1, dim)
        if bool(torch.isfinite(a).all()):
            return value
        infinite, zero = torch.isinf(a).any(dim, keepdim=True), (a == 0).any(dim, keepdim=True)
        odd = torch.signbit(a).sum(dim, keepdim=True) % 2 == 1
        value = torch.where(infinite, torch.where(odd, -torch.inf, torch.inf), value)
        undefined = torch.isnan(a).any(dim, keepdim=True) | (infinite & zero)
        return torch.where(undefined, torch.nan, value)

    def amax(self, a: torch.Tensor, dim: int) -> torch.Tensor:
        return a.amax(dim, keepdim=True) if a.shape[dim] else _identity(a, dim, -torch.inf)

    def cumsum(self, a: torch.Tensor, dim: int) -> torch.Tensor:
        """Prefix sums in blocks of 64, so that their depth stays near that of a parallel scan."""
        n = a.shape[dim]
        if n <= 64:
            return a.cumsum(dim)
        last = torch.nn.functional.pad(a.movedim(dim, -1), (0, -n % 64))
        blocks = _in_blocks(last, 64).cumsum(-1)
        before = self.cumsum(blocks[..., :-1, -1], -1)
        blocks[..., 1:, :] += before.unsqueeze(-1)
        return blocks.flatten(-2)[..., :n].movedim(-1, dim)

    def any_along(self, mask: torch.Tensor, dim: int) -> torch.Tensor:
        return mask.any(dim, keepdim=True)

    def any_so_far(self, mask: torch.Tensor, dim: int) -> torch.Tensor:
        """Whether the mask holds at this or an earlier place of the axis."""
        return mask.cumsum(dim) > 0

    def first_along(self, mask: torch.Tensor, dim: int) -> Array:
        """The first place of the axis at which the mask holds, its length where there is none."""
        n = mask.shape[dim]
        places = torch.arange(n, device=mask.device).reshape(-1, *(1,) * (mask.ndim - 1 - dim))
        return self.leaf(torch.where(mask, places, n).amin(dim, keepdim=True).to(torch.float64))

    def along(self, values: list[float], dim: int, like: torch.Tensor) -> torch.Tensor:
        """Values along axis ``dim``, [1, …, n, …, 1]."""
        shape = [len(values) if axis == dim else 1 for axis in range(like.ndim)]
        return torch.tensor(values, dtype=torch.float64, device=like.device).reshape(shape)

    def matmul(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b

    def distances(
        self, weight: torch.Tensor, present: torch.Tensor | None, v: torch.Tensor, c: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Σⱼ weightⱼ |vⱼ - c| and maxⱼ |vⱼ - c| over the present j, [..., S, D], a few rows of S at a time.

        weight, present (None: all are): [..., S, T]; v: [..., T, D]; c: [..., S, D].
        """
        rows, keys = c.shape[:-1], v.shape[-2]
        v = v.expand(*rows[:-1], keys, v.shape[-1]).reshape(-1, *v.shape[-2:])
        everything = keys > 0 and (present is None or bool(present.all()))
        present = weight if present is None else present
        weight, present = (a.expand(*rows, keys).reshape(len(v), -1, 1, keys) for a in (weight, present))
        centres = c.reshape(len(v), -1, 1, c.shape[-1])
        total, furthest = torch.empty_like(centres), torch.empty_like(centres)
        if everything:
            low, high = torch.aminmax(v, dim=-2, keepdim=True)
            furthest = torch.maximum(high.unsqueeze(1) - centres, centres - low.unsqueeze(1))
        rows_at_once = max(1, min(centres.shape[1], _TOGETHER // max(v.shape[-2] * v.shape[-1], 1)))
        groups_at_once = max(1, _TOGETHER // max(centres.shape[1] * v.shape[-2] * v.shape[-1], 1))
        scratch = v.new_empty((min(groups_at_once, len(v)), rows_at_once, *v.shape[-2:]))
        everyone = (v.unsqueeze(1), weight, present, centres, total, furthest)
        for values, *groups in zip(*(torch.split(a, groups_at_once) for a in everyone), strict=True):
            for w, there, centre, sums, far in zip(
                *(torch.split(a, rows_at_once, 1) for a in groups), strict=True
            ):
                distance = torch.sub(values, centre, out=scratch[: len(centre), : centre.shape[1]]).abs_()
                if not everything:
                    distance = torch.where(there.movedim(-1, -2), distance, 0.0)
                    torch.amax(distance, -2, keepdim=True, out=far)
                torch.matmul(w, distance, out=sums)
        return total.reshape(c.shape), furthest.reshape(c.shape)

    def half_ulp(self, a: torch.Tensor, fmt: Format) -> torch.Tensor:
        result: torch.Tensor = formats.half_ulp(a, fmt)
        return result


def _extremes(a: torch.Tensor) -> tuple[float, float]:
    """Least and largest element; both at one go, which is the slower way, where a call takes longer than the work."""
    if a.numel() == 0:
        return 0.0, 0.0
    if a.numel() < _FEW:
        low, high = torch.aminmax(a)
        return low.item(), high.item()
    return a.amin().item(), a.amax().item()


def _in_blocks(a: torch.Tensor, width: int) -> torch.Tensor:
    """[..., k·width] as [..., k, width]."""
    return a.reshape(*a.shape[:-1], a.shape[-1] // width, width)


def _identity(a: torch.Tensor, dim: int, value: float) -> torch.Tensor:
    return a.new_full((*a.shape[:dim], 1, *a.shape[dim + 1 :]), value)


def _tensor_like(value: Array, other: Array) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    device = other.device if isinstance(other, torch.Tensor) else None
    return torch.scalar_tensor(value, dtype=torch.float64, device=device)
