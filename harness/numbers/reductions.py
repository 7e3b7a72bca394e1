"""Reductions of the algebra along one axis, which they keep with length 1.

``where`` masks terms out: they are *absent*, never multiplied by 0.
"""

from __future__ import annotations

import math

from harness.numbers.backend import Array, Backend
from harness.numbers.conditions import mask_of
from harness.numbers.model import compound
from harness.numbers.number import (
    FAR,
    LASTING,
    LOST,
    NAN,
    NINF,
    PINF,
    UNSPECIFIED,
    Number,
    always,
    coerce,
    is_zero,
    joined,
    operand_error,
    settle,
    uniform,
)


def sum(
    x: Number,
    dim: int,
    where: Array | Number | None = None,
    partials: str | None = None,
    hop: str | None = None,
) -> Number:
    """Σ xᵢ: Σtᵢ + ((1+u)^depth - 1)·Σ(|xᵢ| + tᵢ); the depth is the claim's (any order needs n-1).

    Overflow: with P = Σmax(x,0) + t and N = Σmax(-x,0) + t, +inf is also right if P reaches the overflow
    threshold, -inf if N does, NaN if both do.

    partials: a place where an author may claim that partial sums are stored in a narrower format, each
    term passing through one such store: u'·Σ(|xᵢ| + tᵢ) + n·eta' more, and that format's overflow. hop: one
    where the running total is stored so after every addition: ((1+u')^(n-1) - 1)·Σ(|xᵢ| + tᵢ) more.
    """
    reading, xp = x.reading, x.reading.backend
    model = reading.model
    dim, n = axis_of(x, dim)
    x = _present(x, where, 0.0)
    v = xp.sum(x.v, dim)
    magnitudes = v if xp.nonnegative(x.v) else xp.sum(abs(x.v), dim)
    error = uniform(x)
    spread: Array = 0.0
    if error is None:
        errors = operand_error(x)
        spread = 0.0 if is_zero(errors) else xp.sum(xp.filled(errors, x.v), dim)
    elif not x.exact:
        spread = error.share * magnitudes + n * error.least
    if not is_zero(spread):
        magnitudes = magnitudes + spread
    t = spread + model.growth(n) * magnitudes
    if model.flush == "all":
        t = t + xp.where(xp.any_along(flushable(x), dim), xp.scalar(n * model.tiny), xp.scalar(0.0))
    stored = model.stored(partials)
    threshold = model.overflow
    if stored is not None:
        t = t + stored.u * (magnitudes + t) + n * stored.eta
        threshold = min(threshold, stored.overflow_threshold)
    every = model.claimed(hop)
    if every is not None:
        t = t + compound(max(n - 1, 0), every.u) * (magnitudes + t) + n * every.eta
        threshold = min(threshold, every.overflow_threshold)
    may = None if x.may is None else any_flag(xp, x.may, dim) & LASTING
    if x.may is None and xp.within(magnitudes, t, threshold):
        return Number(reading, v, t, nonnegative=x.nonnegative)
    zero = xp.scalar(0.0)
    finite = xp.where(xp.isfinite(x.v), x.v, zero)
    error = xp.where(xp.isfinite(magnitudes), t, spread + model.growth(n) * xp.sum(abs(finite), dim))
    up = xp.sum(xp.maximum(finite, zero), dim) + error >= threshold
    down = xp.sum(xp.maximum(-finite, zero), dim) + error >= threshold
    if x.may is not None:
        up = up | xp.any_along((x.may & PINF) != 0, dim)
        down = down | xp.any_along((x.may & NINF) != 0, dim)
    always_up = xp.any_along(always(x, PINF), dim)
    always_down = xp.any_along(always(x, NINF), dim)
    may = joined(may, infinities(xp, up, down, always_up, always_down))

    def finite_operands() -> Array:
        beside_one = xp.isnan(v) & ~xp.any_along(xp.isnan(x.v), dim) & _overflowed(xp, x, dim)
        return ~xp.any_along(~xp.isfinite(x.v), dim) | beside_one

    return settle(reading, v, t, may, finite_operands=finite_operands, nonnegative=x.nonnegative)


def _overflowed(xp: Backend, x: Number, dim: int) -> Array:
    """Mask of sums whose finite terms alone leave the reading's range: beside an infinite one they may make NaN."""
    return xp.isinf(xp.sum(xp.where(xp.isfinite(x.v), abs(x.v), xp.scalar(0.0)), dim))


def mean(x: Number, dim: int, where: Array | Number | None = None, partials: str | None = None) -> Number:
    """Σ xᵢ / n, as a sum and a division; the mean of an empty axis is NaN."""
    reading, xp = x.reading, x.reading.backend
    count = coerce(reading, axis_of(x, dim)[1])
    if where is not None:
        where = mask_of(where)
        ones = xp.where(where, xp.filled(xp.constant(1.0), x.v), xp.scalar(0.0))
        count = Number(reading, xp.sum(ones, axis_of(x, dim)[0]), 0.0, nonnegative=True)
    return sum(x, dim, where, partials) / count


def prod(x: Number, dim: int) -> Number:
    """Π xᵢ in any order: |v|·((1+u)^(n-1) - 1) plus relative t's.

    Where the partial products of some order reach the overflow threshold, an infinity of the product's
    sign is also right (NaN too where a factor or a partial product may be 0); where they leave the normal
    range below, an absolute error of n·eta·Πmax(1,|xᵢ|) is due. Both are decided by sums of logarithms.
    """
    reading, xp = x.reading, x.reading.backend
    model = reading.model
    dim, n = axis_of(x, dim)
    v = xp.prod(x.v, dim)
    exponent = max(n - 1, 0) * math.log1p(model.u)
    size, error = abs(x.v), operand_error(x)
    spread: Array = 0.0
    if not is_zero(error):
        relative = xp.apply("expm1", xp.sum(xp.apply("log1p", xp.divide(error, size)), dim))
        spread = xp.where(v == 0, xp.prod(size + error, dim), abs(v) * relative)
    t = spread + compound(max(n - 1, 0), model.u) * (abs(v) + spread)
    if n < 2:
        return settle(reading, v, t, None if x.may is None else any_flag(xp, x.may, dim))
    zero, one = xp.scalar(0.0), xp.scalar(1.0)
    growth = xp.sum(xp.apply("log", xp.maximum(size + error, one)), dim) + exponent
    smallest = xp.where((size == 0) & (error == 0), one, xp.maximum(size - error, zero))
    decay = xp.sum(xp.apply("log", xp.minimum(smallest, one)), dim) - exponent
    low = decay <= _log(model.tiny) + 2.0**-20
    if xp.any(low):
        t = t + xp.where(low, n * model.underflow() * xp.apply("exp", growth), zero)
    may = _product_flags(x, v, growth, decay, dim)
    product = settle(reading, v, t, may, finite_operands=lambda: ~xp.any_along(~xp.isfinite(x.v), dim))
    vanishes = decay <= _log(n * model.underflow()) + 2.0**-20
    return _beyond_the_reading(product, x, vanishes, dim)


def _beyond_the_reading(product: Number, x: Number, vanishes: Array, dim: int) -> Number:
    """A product of finite factors that this reading holds as an infinity: in every narrower format it is that
    too, or anything where the partial product of the small factors may vanish before."""
    xp = x.reading.backend
    beyond = xp.isinf(product.v)
    if not (x.reading.model.overflow < FAR and xp.any(beyond)):
        return product
    beyond = beyond & ~xp.any_along(~xp.isfinite(x.v), dim)
    if x.may is not None:
        beyond = beyond & ~xp.any_along((x.may & LOST) != 0, dim)
    may = joined(product.may, xp.flags(beyond & vanishes, UNSPECIFIED))
    return Number(x.reading, product.v, product.t, may, beyond=beyond)


def _product_flags(x: Number, v: Array, growth: Array, decay: Array, dim: int) -> Array | None:
    """Flags of a product whose largest partial product is exp(growth) and smallest nonzero one exp(decay)."""
    xp, model = x.reading.backend, x.reading.model
    high = growth >= _log(model.overflow) - 2.0**-20
    infinite = xp.any_along(xp.isinf(x.v), dim)
    may: Array | None = None
    if x.may is not None:
        flagged = any_flag(xp, x.may, dim)
        may = flagged & LASTING
        infinite = infinite | ((flagged & (PINF | NINF)) != 0)
    if xp.any(high | infinite):
        unsure = (abs(x.v) <= x.t) & (xp.filled(x.t, x.v) > 0)
        if x.may is not None:
            unsure = unsure | (x.may != 0)
        either = xp.any_along(unsure, dim) & (high | infinite)
        may = joined(
            may, xp.flags(either | (high & (v > 0)), PINF) | xp.flags(either | (high & (v < 0)), NINF)
        )
        vanishes = xp.any_along((x.v == 0) | unsure, dim) | (decay <= _log(model.underflow()) + 2.0**-20)
        may = may | xp.flags((high | infinite) & vanishes, NAN)
    return may


def amax(x: Number, dim: int, where: Array | Number | None = None) -> Number:
    """max xᵢ: the largest of the t's; NaN wins. Unspecified where the largest may have overflowed away."""
    xp = x.reading.backend
    dim, _ = axis_of(x, dim)
    x = _present(x, where, -math.inf)
    v = xp.amax(x.v, dim)
    t = x.t if x.exact else xp.amax(xp.filled(x.t, x.v), dim)
    may = None
    if x.may is not None:
        lost_maximum = ((x.may & (NINF | NAN)) != 0) & (x.v + x.t >= v - t)
        may = any_flag(xp, x.may, dim) & (PINF | LASTING)
        may = may | xp.flags(xp.any_along(lost_maximum, dim), UNSPECIFIED)
    return settle(x.reading, v, t, may)


def amin(x: Number, dim: int, where: Array | Number | None = None) -> Number:
    """min xᵢ, as -max(-xᵢ)."""
    return -amax(-x, dim, where)


def cumsum(x: Number, dim: int) -> Number:
    """Prefix sums: the bound of a sum of i+1 terms, from prefix sums of |x| + t."""
    reading, xp = x.reading, x.reading.backend
    model = reading.model
    dim, n = axis_of(x, dim)
    errors = operand_error(x)
    v = xp.cumsum(x.v, dim)
    spread = 0.0 if is_zero(errors) else xp.cumsum(xp.filled(errors, x.v), dim)
    magnitudes = xp.cumsum(abs(x.v), dim) + spread
    growth = xp.along([model.growth(i + 1) for i in range(n)], dim, x.v)
    t = spread + growth * magnitudes
    if model.flush == "all":
        flushed = xp.along([i * model.tiny for i in range(n)], dim, x.v)
        t = t + xp.where(xp.any_so_far(flushable(x), dim), flushed, xp.scalar(0.0))
    may = None
    if x.may is not None or not xp.within(magnitudes, t, model.overflow):
        zero = xp.scalar(0.0)
        finite = xp.where(xp.isfinite(x.v), x.v, zero)
        error = xp.where(xp.isfinite(magnitudes), t, spread + growth * xp.cumsum(abs(finite), dim))
        up = xp.cumsum(xp.maximum(finite, zero), dim) + error >= model.overflow
        down = xp.cumsum(xp.maximum(-finite, zero), dim) + error >= model.overflow
        if x.may is not None:
            up = up | xp.any_so_far((x.may & PINF) != 0, dim)
            down = down | xp.any_so_far((x.may & NINF) != 0, dim)
            for flag in (NAN, UNSPECIFIED, LOST):
                may = joined(may, xp.flags(xp.any_so_far((x.may & flag) != 0, dim), flag))
        always_up = xp.any_so_far(always(x, PINF), dim)
        always_down = xp.any_so_far(always(x, NINF), dim)
        may = joined(may, infinities(xp, up, down, always_up, always_down))
    return settle(reading, v, t, may, finite_operands=lambda: ~xp.any_so_far(~xp.isfinite(x.v), dim))


def flushable(x: Number) -> Array:
    """Mask of terms of which a sum may be subnormal and not 0: those with digits below the smallest normal."""
    model = x.reading.model
    return (abs(x.v) - x.t < model.tiny / model.u) & ((x.v != 0) | (x.t != 0))


def axis_of(x: Number, dim: int) -> tuple[int, int]:
    """An axis counted from 0, and its length."""
    rank = len(x.shape)
    if not -rank <= dim < rank:
        raise IndexError(f"axis {dim} of a number of shape {x.shape}")
    return dim % rank, x.shape[dim]


def _present(x: Number, where: Array | Number | None, absent: float) -> Number:
    """x with its masked-out terms replaced by an exact value, without flags."""
    if where is None:
        return x
    where = mask_of(where)
    xp = x.reading.backend
    zero = xp.scalar(0.0)
    t = x.error
    if not x.exact and (x.share is None or not x.share.uniform or x.share.least or absent):
        t = xp.where(where, xp.filled(x.t, x.v), zero)
    may = None if x.may is None else x.may * xp.flags(where, 1)
    nonnegative = x.nonnegative and absent == 0
    return Number(x.reading, xp.where(where, x.v, xp.scalar(absent)), t, may, nonnegative=nonnegative)


def any_flag(xp: Backend, may: Array, dim: int) -> Array:
    """The union of flags along an axis."""
    union: Array | None = None
    for flag in (PINF, NINF, NAN, UNSPECIFIED, LOST):
        union = joined(union, xp.flags(xp.any_along((may & flag) != 0, dim), flag))
    return union


def infinities(xp: Backend, up: Array, down: Array, always_up: Array, always_down: Array) -> Array:
    """Flags of a sum whose terms may overflow upwards or downwards, or hold that infinity in any case.

    Beside a term that is +inf in any case there is no -inf, but NaN; NaN is both in any case.
    """
    flags = xp.flags(up & ~always_down, PINF) | xp.flags(down & ~always_up, NINF)
    return flags | xp.flags((up | always_up) & (down | always_down), NAN)


def _log(value: float) -> float:
    return math.log(value) if 0 < value < math.inf else -math.inf if value == 0 else math.inf
