"""What a definition says of errors beyond the rules: two usual forms, exact sums, answers left open."""

from __future__ import annotations

from harness.formats import FLOAT64
from harness.numbers.backend import Array
from harness.numbers.number import UNSPECIFIED, Number, combined, is_zero, joined
from harness.numbers.reductions import axis_of, flushable, sum

CHUNK = 1 << 16
"""Elements of an axis that are looked at together: most rows show in the first that they round."""


def looser(a: Number, b: Number) -> Number:
    """a, or what is computed in the form of b: the larger of both errors and the flags of both.

    b may differ from a by what cancels where the result is used, as a term that all scores share.
    """
    xp = a.reading.backend
    return Number(
        a.reading, a.v, xp.maximum(xp.filled(a.t, a.v), xp.filled(b.t, a.v)), combined(a.may, b.may)
    )


def exact_sum(x: Number, dim: int, partials: str | None = None) -> Number:
    """Σ xᵢ, without error in rows whose partial sums the accumulator holds in any order.

    So it does where all terms are multiples of one ulp of Σ|xᵢ|. For sums that are added and nothing else: a
    mean that is made of running means, or of quotients, rounds all the same. partials: as of a sum; under its
    claim nothing is exact, and where sums may be flushed only those without digits that small.
    """
    total = sum(x, dim, partials=partials)
    xp, model = x.reading.backend, x.reading.model
    if not is_zero(x.t) or model.stored(partials) is not None:
        return total
    axis, n = axis_of(x, dim)
    size = xp.sum(abs(x.v), axis)
    step = 2 * xp.half_ulp(size, model.accumulator or FLOAT64)
    rounds = _rounds(x, axis, n, step)
    if model.flush == "all":
        rounds = rounds | xp.any_along(flushable(x), axis)
    exact = ~rounds & (size < model.overflow)
    return Number(x.reading, total.v, xp.where(exact, xp.scalar(0.0), total.t), total.may)


def _rounds(x: Number, axis: int, n: int, step: Array) -> Array:
    """Mask, the axis kept with length 1, of the rows that hold a number which is no multiple of their step."""
    xp, found = x.reading.backend, None
    for start in range(0, max(n, 1), CHUNK):
        part = x.v[(slice(None),) * axis + (slice(start, start + CHUNK),)]
        some = xp.any_along(~(xp.divide(part, step) % 1 == 0), axis)
        found = some if found is None else found | some
        if not xp.any(~found):
            break
    return found


def whole(a: Number, dim: int) -> Array:
    """Mask, ``dim`` kept with length 1, of the rows of an exact number that hold whole numbers only."""
    return ~a.reading.backend.any_along(~(a.v % 1 == 0), dim)


def exact_where(condition: Array, a: Number, size: Number) -> Number:
    """a without error where the condition says that every partial result is a whole number, and ``size``,
    which none of them exceeds, is so small that the accumulator holds them all."""
    xp = a.reading.backend
    exact = condition & (size.v + size.t <= 1 / a.reading.model.u)
    return Number(a.reading, a.v, xp.where(exact, xp.scalar(0.0), xp.filled(a.t, a.v)), a.may)


def left_open(condition: Array, a: Number) -> Number:
    """Elements of a, and anything where the condition holds: the contract leaves them to a relation."""
    xp = a.reading.backend
    return Number(a.reading, a.v, a.t, joined(a.may, xp.flags(condition & (a.v == a.v), UNSPECIFIED)))
