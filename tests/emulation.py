"""Arithmetic units emulated in NumPy, one rounding per operation, and the orders in which kernels sum.

Values are float64 arrays that hold values of the unit's format. float64 has more than twice the precision of
every narrower format, so that rounding its sums, products, quotients and roots once more is innocuous
(Figueroa 1995); a fused multiply-add is made safe by rounding to odd first (Boldo & Melquiond 2008).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.special

from harness.formats import FLOAT16, FLOAT32, Format, round_to

Array = np.ndarray


class Unit:
    """An arithmetic unit of one format.

    off: ulps by which approximated operations (division, exp2, log, …) miss the correctly rounded result:
    a number, or "random" for -limit to limit. flush: "approximate" for subnormal arguments and results of
    exp2, sqrt, rsqrt, tanh, erf, sin and log, "all" for those of every operation.
    """

    def __init__(
        self, fmt: Format = FLOAT32, off: int | str = 0, *, flush: str = "none", seed: int = 0
    ) -> None:
        self.fmt = fmt
        self.off = off
        self.flush = flush
        self.random = np.random.default_rng(seed)
        self.log2e = float(self.round(np.array([math.log2(math.e)]))[0])

    def round(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            if self.fmt is FLOAT32:
                return np.asarray(x, dtype=np.float64).astype(np.float32).astype(np.float64)
            if self.fmt is FLOAT16:
                return np.asarray(x, dtype=np.float64).astype(np.float16).astype(np.float64)
            return round_to(np.asarray(x, dtype=np.float64), self.fmt)

    def add(self, a: Array, b: Array) -> Array:
        return self._rounded(np.add, a, b)

    def sub(self, a: Array, b: Array) -> Array:
        return self._rounded(np.subtract, a, b)

    def mul(self, a: Array, b: Array) -> Array:
        return self._rounded(np.multiply, a, b)

    def fma(self, a: Array, b: Array, c: Array) -> Array:
        return self._rounded(_to_odd, a, b, c)

    def div(self, a: Array, b: Array) -> Array:
        """div.full: up to 2 ulp from the correctly rounded quotient; by a power of two, that quotient."""
        quotient = self._rounded(np.divide, a, b)
        exact = abs(np.frexp(b)[0]) == 0.5
        return self._kept(np.where(exact, quotient, self._missed(quotient, 2)))

    def sqrt(self, a: Array) -> Array:
        return self._approximated(np.sqrt, a, 1)

    def rsqrt(self, a: Array) -> Array:
        return self._approximated(lambda x: 1.0 / np.sqrt(x), a, 1)

    def exp2(self, a: Array) -> Array:
        """ex2.approx: up to 2 ulp, and exp2(0) = 1."""
        return np.where(a == 0, 1.0, self._approximated(np.exp2, a))

    def exp(self, a: Array) -> Array:
        """exp2 of the rounded product with the rounded log2 e."""
        return self.exp2(self.mul(a, self.log2e))

    def exp_scaled(self, x: Array, m: Array, *, contracted: bool = True) -> Array:
        """exp(x - m) as exp2(x·c - m·c), the first product contracted into the subtraction or not."""
        c = np.full_like(x, self.log2e)
        if contracted:
            return self.exp2(self.fma(x, c, -self.mul(m, self.log2e)))
        return self.exp2(self.sub(self.mul(x, c), self.mul(m, self.log2e)))

    def log(self, a: Array) -> Array:
        return self._approximated(np.log, a)

    def tanh(self, a: Array) -> Array:
        return self._approximated(np.tanh, a)

    def erf(self, a: Array) -> Array:
        return self._approximated(scipy.special.erf, a)

    def sin(self, a: Array) -> Array:
        return self._approximated(np.sin, a)

    def cos(self, a: Array) -> Array:
        return self._kept(self._missed(self._rounded(np.cos, a), 2))

    def _rounded(self, function: Callable[..., Array], *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return self._kept(self.round(function(*(self._kept(np.asarray(x)) for x in operands))))

    def _approximated(self, function: Callable[[Array], Array], a: Array, limit: int = 2) -> Array:
        with np.errstate(all="ignore"):
            if self.flush == "none":
                return self._missed(self.round(function(a)), limit)
            return self._flushed(self._missed(self.round(function(self._flushed(a))), limit))

    def _kept(self, a: Array) -> Array:
        return self._flushed(a) if self.flush == "all" else a

    def _flushed(self, a: Array) -> Array:
        return np.where(abs(a) < self.fmt.tiny, 0.0, a)

    def _missed(self, v: Array, limit: int) -> Array:
        """v moved by ``off`` ulps of the format, at most ``limit``; 0, inf and NaN stay."""
        v = np.asarray(v, dtype=np.float64)
        if self.off == "random":
            off = self.random.integers(-limit, limit + 1, v.shape)
        else:
            off = np.full(v.shape, max(-limit, min(limit, int(self.off))))
        moved = v
        for step in range(1, limit + 1):
            moved = np.where(abs(off) >= step, self._neighbour(moved, off > 0), moved)
        return np.where((v == 0) | ~np.isfinite(v), v, moved)

    def _neighbour(self, v: Array, up: Array) -> Array:
        """The next value of the format, up or down."""
        with np.errstate(all="ignore"):
            step = np.maximum(np.exp2(np.floor(np.log2(abs(v)))), self.fmt.tiny) * 2 * self.fmt.u
            # Towards 0 from a power of two, the spacing is half.
            inward = (v > 0) != up
            power = np.frexp(v)[0] == np.sign(v) * 0.5
            step = np.where(inward & power & (abs(v) > self.fmt.tiny), step / 2, step)
            return np.where(np.isfinite(v), self.round(v + np.where(up, step, -step)), v)


def _to_odd(a: Array, b: Array, c: Array) -> Array:
    """a·b + c in float64, rounded to odd: the product of values of 24 bits or fewer is exact."""
    product = a * b
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    even = (total.view(np.int64) & 1) == 0
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where((error != 0) & even & np.isfinite(total), odd, total)


def sequential(unit: Unit, x: Array) -> tuple[Array, int]:
    """x [R, n] summed one by one: the sums [R] and the depth n - 1."""
    total = x[:, 0]
    for i in range(1, x.shape[1]):
        total = unit.add(total, x[:, i])
    return total, x.shape[1] - 1


def backwards(unit: Unit, x: Array) -> tuple[Array, int]:
    """From the last term to the first."""
    return sequential(unit, x[:, ::-1])


def tree(unit: Unit, x: Array) -> tuple[Array, int]:
    """Neighbours in pairs: depth ceil(log2 n)."""
    depth = 0
    while x.shape[1] > 1:
        x = unit.add(x[:, 0::2], _to_length(x[:, 1::2], (x.shape[1] + 1) // 2))
        depth += 1
    return x[:, 0], depth


def butterfly(unit: Unit, x: Array) -> tuple[Array, int]:
    """Halves onto each other, as lanes of a warp: depth ceil(log2 n)."""
    width = 1 << (x.shape[1] - 1).bit_length()
    x = _to_length(x, width)
    for _ in range(width.bit_length() - 1):
        half = x.shape[1] // 2
        x = unit.add(x[:, :half], x[:, half:])
    return x[:, 0], width.bit_length() - 1


def laned(unit: Unit, x: Array, lanes: int = 64) -> tuple[Array, int]:
    """acc[lanes] over the row, then a tree over the lanes: depth ceil(n/lanes) - 1 + log2 lanes."""
    steps = -(-x.shape[1] // lanes)
    parts = _to_length(x, steps * lanes).reshape(len(x), steps, lanes)
    accumulator = parts[:, 0]
    for i in range(1, steps):
        accumulator = unit.add(accumulator, parts[:, i])
    total, depth = butterfly(unit, accumulator)
    return total, steps - 1 + depth


def blocked(unit: Unit, x: Array, block: int = 64) -> tuple[Array, int]:
    """A scalar accumulator over the trees of blocks: depth ceil(n/block) + log2 block."""
    steps = -(-x.shape[1] // block)
    parts = _to_length(x, steps * block).reshape(-1, block)
    totals, depth = tree(unit, parts)
    total, more = sequential(unit, totals.reshape(len(x), steps))
    return total, depth + more


ORDERS: dict[str, Callable[[Unit, Array], tuple[Array, int]]] = {
    "sequential": sequential,
    "backwards": backwards,
    "tree": tree,
    "butterfly": butterfly,
    "laned": laned,
    "blocked": blocked,
}


def _to_length(x: Array, n: int) -> Array:
    """Zeros added on the right: adding them is exact."""
    return np.pad(x, ((0, 0), (0, n - x.shape[1])))
