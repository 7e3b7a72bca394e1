"""Double-double arithmetic for a reading: values in two words, allowed errors in one."""

from __future__ import annotations

from typing import Any

import torch

from harness.formats import Format
from harness.numbers import double, double_elementary
from harness.numbers.backend import Array, Float64
from harness.numbers.double import Double

_MOST_PRODUCTS = 1 << 20
"""Products of a matrix product that are held at a time."""


class DoubleDouble(Float64):
    """:class:`Float64` for allowed errors, which are tensors; the same in double-double for values."""

    shares = False

    def leaf(self, values: torch.Tensor) -> Any:
        return Double(values)

    def constant(self, value: float) -> Any:
        return Double(super().constant(value))

    def filled(self, t: Array, like: Any) -> Any:
        """A scalar, tensor or double-double broadcast to the shape of ``like``, of the kind that it is."""
        if isinstance(t, Double):
            return t.each(lambda w: w.expand(like.shape))
        return super().filled(t, like.hi if isinstance(like, Double) else like)

    def where(self, condition: torch.Tensor, a: Array, b: Array) -> Any:
        """A double-double where one is given, unless a tensor is too."""
        if _values(a, b):
            return double.chosen(condition, a, b)
        return super().where(condition, _word(a), _word(b))

    def within(self, v: Any, t: Array, limit: float) -> bool:
        if isinstance(v, Double):
            return not bool(v.unknown.any()) and super().within(v.hi, _word(t), limit * (1 - 2.0**-50))
        return super().within(v, _word(t), limit)

    def beyond(self, v: Any, t: Array, limit: float) -> bool:
        return super().beyond(_word(v), _word(t), limit)

    def nonnegative(self, a: Any) -> bool:
        return False

    def positive(self, a: Any) -> bool:
        return False

    def sign(self, a: Any) -> torch.Tensor:
        return super().sign(_word(a))

    def isnan(self, a: Any) -> torch.Tensor:
        return torch.isnan(_word(a))

    def isinf(self, a: Any) -> torch.Tensor:
        return torch.isinf(_word(a))

    def isfinite(self, a: Any) -> torch.Tensor:
        return torch.isfinite(_word(a))

    def maximum(self, a: Array, b: Array) -> Any:
        return self._extreme(a, b, True) if _values(a, b) else super().maximum(_word(a), _word(b))

    def minimum(self, a: Array, b: Array) -> Any:
        return self._extreme(a, b, False) if _values(a, b) else super().minimum(_word(a), _word(b))

    def _extreme(self, a: Any, b: Any, largest: bool) -> Double:
        first = a if isinstance(a, Double) else Double(torch.full_like(b.hi, a))
        second = b if isinstance(b, Double) else Double(torch.full_like(a.hi, b))
        picked = (first >= second) if largest else (first <= second)
        picked = (picked | torch.isnan(first.hi)) & ~torch.isnan(second.hi)
        found = double.chosen(picked, first, second)
        unknown = first.unknown | second.unknown
        return Double(found.hi, torch.where(unknown, torch.nan, found.lo)) if bool(unknown.any()) else found

    def absolute(self, a: Any) -> Any:
        if not isinstance(a, Double):
            return super().absolute(a)
        negative = torch.signbit(a.hi)
        return double.chosen(negative, -a, a)

    def divide(self, a: Array, b: Array) -> Any:
        if _values(a, b):
            return a / b if isinstance(a, Double) else b.__rtruediv__(a)
        return super().divide(_word(a), _word(b))

    def apply(self, name: str, a: Any) -> Any:
        return double_elementary.apply(name, a) if isinstance(a, Double) else super().apply(name, a)

    def sum(self, a: Any, dim: int) -> Any:
        return double.sum_along(a, dim) if isinstance(a, Double) else super().sum(a, dim)

    def prod(self, a: Any, dim: int) -> Any:
        if not isinstance(a, Double):
            return super().prod(a, dim)
        endless = ~torch.isfinite(a.hi)
        if not bool(endless.any()):
            return double.product_along(a, dim)
        plain = super().prod(a.hi, dim)
        unknown = torch.where(a.unknown.any(dim, keepdim=True), torch.nan, torch.zeros_like(plain))
        finite = double.product_along(double.chosen(endless, 1.0, a), dim)
        return double.chosen(endless.any(dim, keepdim=True), Double(plain, unknown), finite)

    def amax(self, a: Any, dim: int) -> Any:
        if not isinstance(a, Double):
            return super().amax(a, dim)
        high = super().amax(a.hi, dim)
        if a.shape[dim] == 0:
            return Double(high)
        low = torch.where((a.hi == high) | a.unknown, a.lo, -torch.inf)
        unknown = a.unknown.any(dim, keepdim=True)
        found = torch.where(torch.isnan(high), 0.0, low.amax(dim, keepdim=True))
        return Double(high, torch.where(unknown, torch.nan, found))

    def cumsum(self, a: Any, dim: int) -> Any:
        return double.cumulative_sum(a, dim) if isinstance(a, Double) else super().cumsum(a, dim)

    def along(self, values: list[float], dim: int, like: Any) -> torch.Tensor:
        return super().along(values, dim, like.hi if isinstance(like, Double) else like)

    def matmul(self, a: Any, b: Any) -> Any:
        if not _values(a, b):
            return super().matmul(_word(a), _word(b))
        first, second = (x if isinstance(x, Double) else Double(x) for x in (a, b))
        if len(first.shape) == 1:
            whole: Double = self.matmul(first.each(lambda w: w.unsqueeze(0)), second)
            return whole.each(lambda w: w.squeeze(-2))
        k, results = first.shape[-1], max(first.shape[-2] * second.shape[-1], 1)
        for n in (*first.shape[:-2],):
            results *= max(n, 1)
        step = max(1, _MOST_PRODUCTS // results)
        total: Double | None = None
        for start in range(0, k, step):
            left = first[..., :, start : start + step].each(lambda w: w.unsqueeze(-1))
            right = second[..., start : start + step, :].each(lambda w: w.unsqueeze(-3))
            products = double.multiply(left, right)
            part = double.sum_along(products, products.ndim - 2).each(lambda w: w.squeeze(-2))
            total = part if total is None else double.add(total, part)
        return Double(super().matmul(first.hi, second.hi)) if total is None else total

    def distances(self, weight: Any, present: torch.Tensor | None, v: Any, c: Any) -> Any:
        """Of high words: an error's share. What of |v - c| they lose is 2^-53 of v and c, as of a sum of them."""
        near, far = super().distances(_word(weight), present, _word(v), _word(c))
        slack = 2.0**-52 * (abs(v).amax(-2, keepdim=True) + abs(c))
        return near + _word(weight).sum(-1, keepdim=True) * slack, far + slack

    def half_ulp(self, a: Any, fmt: Format) -> torch.Tensor:
        return super().half_ulp(_word(a), fmt)


def _word(a: Any) -> Any:
    return a.hi if isinstance(a, Double) else a


def _values(a: Any, b: Any) -> bool:
    """Whether a double-double meets another or a Python number, so that the result is a value."""
    return (isinstance(a, Double) or isinstance(b, Double)) and not (
        isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor)
    )
