"""The backend of the last resort: mpmath numbers in object arrays, which have no range to leave."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import torch

from harness.formats import Format
from harness.numbers.backend import Array

LARGEST_MAGNITUDE = 1 << 14
"""Exponent beyond which no function of an mpmath number is evaluated: of arguments that are exponentials."""


class Multiprecision:
    """mpmath numbers in NumPy object arrays, in a private context of ``precision`` bits."""

    shares = False

    def __init__(self, precision: int) -> None:
        self.context = mpmath.MPContext()
        self.context.prec = precision
        c = self.context
        self._unary: dict[str, Callable[[Any], Any]] = {
            "exp": lambda x: c.exp(x) if self._reducible(x) else c.inf if x > 0 else c.zero,
            "expm1": lambda x: c.expm1(x) if self._reducible(x) else c.inf if x > 0 else -c.one,
            "log": lambda x: c.log(x) if x >= 0 else c.nan,
            "log1p": lambda x: c.log1p(x) if x >= -1 else c.nan,
            "sqrt": lambda x: c.sqrt(x) if x >= 0 else c.nan,
            "tanh": lambda x: c.tanh(x) if self._reducible(x) else c.sign(x),
            "erf": c.erf,
            "sin": lambda x: c.sin(x) if c.isfinite(x) and self._reducible(x) else c.nan,
            "cos": lambda x: c.cos(x) if c.isfinite(x) and self._reducible(x) else c.nan,
        }
        self._divide = np.frompyfunc(self._quotient, 2, 1)
        self._maximum = np.frompyfunc(lambda a, b: self._pick(a, b, a >= b), 2, 1)
        self._minimum = np.frompyfunc(lambda a, b: self._pick(a, b, a <= b), 2, 1)

    def leaf(self, values: torch.Tensor) -> np.ndarray:
        """Exact values of an input, [any shape], as mpmath numbers; [1] where there are no axes.

        NumPy turns arithmetic on object arrays without axes into bare mpmath numbers.
        """
        flat = np.empty(values.numel(), dtype=object)
        flat[:] = [self.context.mpf(v) for v in values.detach().cpu().double().flatten().tolist()]
        return flat.reshape(tuple(values.shape) or (1,))

    def scalar(self, value: float) -> Any:
        return self.context.mpf(value)

    def constant(self, value: float) -> np.ndarray:
        """A scalar as an array of shape [1]."""
        return np.array([self.context.mpf(value)], dtype=object)

    def filled(self, t: Array, like: Array) -> np.ndarray:
        """A scalar or array broadcast to the shape of ``like``."""
        return np.broadcast_to(t if isinstance(t, np.ndarray) else np.array(t, dtype=object), np.shape(like))

    def where(self, condition: np.ndarray, a: Array, b: Array) -> np.ndarray:
        return np.asarray(np.where(condition, a, b))

    def any(self, mask: np.ndarray) -> bool:
        return bool(np.any(mask))

    def within(self, v: np.ndarray, t: Array, limit: float) -> bool:
        """Whether |v| + t < limit everywhere; False wherever something is infinite or NaN."""
        return bool(np.all(abs(v) + t < limit))

    def beyond(self, v: np.ndarray, t: Array, limit: float) -> bool:
        return False

    def most(self, v: np.ndarray, t: Array) -> float:
        return float("nan")

    def extremes(self, a: np.ndarray) -> tuple[float, float]:
        return float("nan"), float("nan")

    def nonnegative(self, a: np.ndarray) -> bool:
        return False

    def positive(self, a: np.ndarray) -> bool:
        return False

    def flags(self, mask: np.ndarray, flag: int) -> np.ndarray:
        return mask.astype(np.uint8) * np.uint8(flag)

    def isnan(self, a: Array) -> np.ndarray:
        return self._test(self.context.isnan, a)

    def isinf(self, a: Array) -> np.ndarray:
        return self._test(self.context.isinf, a)

    def isfinite(self, a: Array) -> np.ndarray:
        return self._test(self.context.isfinite, a)

    def maximum(self, a: Array, b: Array) -> np.ndarray:
        return np.asarray(self._maximum(a, b), dtype=object)

    def minimum(self, a: Array, b: Array) -> np.ndarray:
        return np.asarray(self._minimum(a, b), dtype=object)

    def absolute(self, a: np.ndarray) -> np.ndarray:
        return abs(a)

    def sign(self, a: np.ndarray) -> np.ndarray:
        return np.asarray(np.frompyfunc(self.context.sign, 1, 1)(a), dtype=object)

    def divide(self, a: Array, b: Array) -> np.ndarray:
        return np.asarray(self._divide(a, b), dtype=object)

    def apply(self, name: str, a: Array) -> np.ndarray:
        return np.asarray(np.frompyfunc(self._unary[name], 1, 1)(a), dtype=object)

    def sum(self, a: np.ndarray, dim: int) -> np.ndarray:
        return self._reduce(np.add, a, dim, 0)

    def prod(self, a: np.ndarray, dim: int) -> np.ndarray:
        return self._reduce(np.multiply, a, dim, 1)

    def amax(self, a: np.ndarray, dim: int) -> np.ndarray:
        return self._fold(self._maximum, a, dim, -self.context.inf)

    def cumsum(self, a: np.ndarray, dim: int) -> np.ndarray:
        return np.asarray(np.add.accumulate(a, axis=dim), dtype=object) if a.shape[dim] else a

    def any_along(self, mask: np.ndarray, dim: int) -> np.ndarray:
        return np.asarray(mask.any(axis=dim, keepdims=True))

    def any_so_far(self, mask: np.ndarray, dim: int) -> np.ndarray:
        return np.logical_or.accumulate(mask, axis=dim)

    def first_along(self, mask: np.ndarray, dim: int) -> np.ndarray:
        n = mask.shape[dim]
        first = np.where(mask.any(axis=dim, keepdims=True), mask.argmax(axis=dim, keepdims=True), n)
        return self.leaf(torch.from_numpy(first.astype(np.float64)))

    def along(self, values: list[float], dim: int, like: np.ndarray) -> np.ndarray:
        shape = [len(values) if axis == dim else 1 for axis in range(like.ndim)]
        return self.leaf(torch.tensor(values, dtype=torch.float64)).reshape(shape)

    def matmul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        products = np.expand_dims(a, -1) * np.expand_dims(b, -3)
        return np.squeeze(self.sum(products, products.ndim - 2), -2)

    def distances(
        self, weight: np.ndarray, present: np.ndarray | None, v: np.ndarray, c: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        distance = abs(v[..., None, :, :] - c[..., :, None, :])
        if present is not None:
            distance = self.where(present[..., None], distance, self.scalar(0.0))
        axis = distance.ndim - 2
        total = self.sum(weight[..., None] * distance, axis)
        return total[..., 0, :], self.amax(distance, axis)[..., 0, :]

    def half_ulp(self, a: Array, fmt: Format) -> np.ndarray:
        return np.asarray(np.frompyfunc(functools.partial(self._half_ulp, fmt=fmt), 1, 1)(a), dtype=object)

    def _reducible(self, x: Any) -> bool:
        """Whether an argument can be reduced modulo log 2 or π, which takes as many bits as its exponent says."""
        return not self.context.isfinite(x) or x == 0 or self.context.mag(x) <= LARGEST_MAGNITUDE

    def _half_ulp(self, value: Any, fmt: Format) -> Any:
        c = self.context
        if not c.isfinite(value):
            return abs(value)
        exponent = int(c.frexp(value)[1]) - 1 if value else fmt.emin
        return c.ldexp(c.mpf(1), min(max(exponent, fmt.emin), fmt.emax) - fmt.precision)

    def _quotient(self, a: Any, b: Any) -> Any:
        if b == 0:
            return (
                self.context.nan
                if a == 0 or self.context.isnan(a)
                else self.context.inf * (1 if a > 0 else -1)
            )
        return self.context.mpf(a) / b

    def _pick(self, a: Any, b: Any, first: bool) -> Any:
        if self.context.isnan(a):
            return a
        return a if first and not self.context.isnan(b) else b

    def _test(self, predicate: Callable[[Any], bool], a: Array) -> np.ndarray:
        return np.asarray(np.frompyfunc(predicate, 1, 1)(a), dtype=bool)

    def _reduce(self, ufunc: np.ufunc, a: np.ndarray, dim: int, empty: int) -> np.ndarray:
        if a.shape[dim] == 0:
            return self._identity(a, dim, self.context.mpf(empty))
        return np.asarray(ufunc.reduce(a, axis=dim, keepdims=True), dtype=object)

    def _identity(self, a: np.ndarray, dim: int, value: Any) -> np.ndarray:
        return np.full((*a.shape[:dim], 1, *a.shape[dim + 1 :]), value, dtype=object)

    def _fold(self, function: Any, a: np.ndarray, dim: int, empty: Any) -> np.ndarray:
        if a.shape[dim] == 0:
            return self._identity(a, dim, empty)
        parts = [np.take(a, [i], axis=dim) for i in range(a.shape[dim])]
        return np.asarray(functools.reduce(function, parts), dtype=object)
