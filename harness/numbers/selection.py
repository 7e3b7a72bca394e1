"""Operations that select, compare or round: where, maximum, minimum, isfinite, named roundings."""

from __future__ import annotations

from typing import Any

from harness.numbers.backend import Array
from harness.numbers.conditions import exact_of, mask_of
from harness.numbers.elementary import exp
from harness.numbers.number import NAN, NINF, PINF, Number, coerce, combined, could_be, joined, settle


def where(condition: Array | Number, a: Number | float, b: Number | float) -> Number:
    """Elements of a where the condition holds, else of b; conditions come from exact numbers only.

    condition: a mask, as comparisons of inputs give it, or an exact number, which holds where it is not 0: a
    bool or integer argument.
    """
    number = a if isinstance(a, Number) else b
    if not isinstance(number, Number):
        raise TypeError("where(condition, a, b) needs a number among a and b")
    reading, xp = number.reading, number.reading.backend
    a, b = coerce(reading, a), coerce(reading, b)
    condition = mask_of(condition)
    v = xp.where(condition, a.v, b.v)
    t: Any = 0.0 if a.exact and b.exact else xp.where(condition, a.t, b.t)
    may = None
    if a.may is not None or b.may is not None:
        zero = xp.flags(condition & ~condition, 0)
        may = xp.where(condition, zero if a.may is None else a.may, zero if b.may is None else b.may)
    return Number(reading, v, t, may, nonnegative=a.nonnegative and b.nonnegative)


def isfinite(a: Number) -> Array:
    """Mask of finite elements of an exact number."""
    return a.reading.backend.isfinite(exact_of(a, "isfinite").v)


def isnan(a: Number) -> Array:
    """Mask of NaN elements of an exact number."""
    return a.reading.backend.isnan(exact_of(a, "isnan").v)


def maximum(a: Number, b: Number | float) -> Number:
    """Elementwise maximum, NaN if either is: the larger t; an operand that may be -inf leaves the other."""
    reading, xp = a.reading, a.reading.backend
    b = coerce(reading, b)
    v = xp.maximum(a.v, b.v)
    t: Any = 0.0 if a.exact and b.exact else xp.maximum(xp.filled(a.t, v), xp.filled(b.t, v))
    for operand, other in ((a, b), (b, a)):
        if operand.may is not None:
            gone = (operand.may & NINF) != 0
            if xp.any(gone):
                t = xp.maximum(t, xp.where(gone, abs(v - other.v) + other.t, xp.scalar(0.0)))
    may = combined(a.may, b.may)
    if may is not None:
        may = may & (0xFF ^ NINF) | xp.flags(could_be(a, NINF) & could_be(b, NINF), NINF)
    return settle(reading, v, t, may, nonnegative=a.nonnegative or b.nonnegative)


def minimum(a: Number, b: Number | float) -> Number:
    """Elementwise minimum, as -maximum(-a, -b)."""
    return -maximum(-a, -coerce(a.reading, b))


def rounded(a: Number, place: str, at: Number | None = None, *, summand: bool = False) -> Number:
    """A place where an author may claim a cast: half an ulp at |v| + t in the claimed format, else nothing.

    at: the number whose cast it is, where that is not ``a`` itself but something that cancels to it, so that
    it rounds in the accumulator's format too. summand: ``a`` is then the sum of that number and another one, which
    is NaN where it is infinite, as the other one is, too.
    """
    reading, xp = a.reading, a.reading.backend
    model = reading.model
    fmt = model.stored(place) if at is None else model.claimed(place)
    if fmt is None:
        return a
    cast = a if at is None else at
    half = xp.half_ulp(abs(cast.v) + cast.t, fmt)
    may = a.may
    if not xp.within(cast.v, cast.t, fmt.overflow_threshold):
        finite, threshold = xp.isfinite(cast.v), fmt.overflow_threshold
        may = joined(may, xp.flags(finite & (cast.v + cast.t >= threshold), PINF))
        may = joined(may, xp.flags(finite & (cast.v - cast.t <= -threshold), NINF))
        half = xp.where(finite, half, xp.scalar(0.0))
        if summand:
            may = joined(may, xp.flags(~finite, NAN))
    return settle(reading, a.v, a.t + half, may, origin=a.origin, nonnegative=a.nonnegative)


def sigmoid(a: Number) -> Number:
    """1 / (1 + exp(-a)), by the rules of its parts; exp overflowing gives 0."""
    return 1.0 / (1.0 + exp(-a))
