"""Matrix products of the algebra."""

from __future__ import annotations

import math

from harness.numbers.backend import Array
from harness.numbers.model import Model, compound
from harness.numbers.number import (
    LASTING,
    NAN,
    NINF,
    PINF,
    UNSPECIFIED,
    Number,
    is_zero,
    joined,
    operand_error,
    settle,
)
from harness.numbers.reductions import flushable, infinities


def matmul(a: Number, b: Number, *, start: Number | None = None, partials: str | None = None) -> Number:
    """a @ b over K: |A|tB + tA(|B| + tB) + ((1+u)^(depth·c) - 1)·|A||B| + K·eta.

    a: [..., M, K], b: [..., K, N]. The depth is K (one FMA chain) unless an author claims less, and an IEEE
    dot errs by no more than K·u·|A||B|. Operands of TF32 and bf16 dots carry u_in|A| + eta_in, except exact
    ones that the reduction leaves as they are.

    start: what is added to the product, or what the accumulator starts with, so that it is one more term of
    the sum. partials: a place where an author may claim that partial products (split-K) are stored in a
    narrower format: u'·|A||B| + K·eta' more, and that format's overflow.
    """
    reading, xp = a.reading, a.reading.backend
    model, dot = reading.model, reading.model.dot
    k = a.shape[-1]
    v = xp.matmul(a.v, b.v)
    size_a, size_b = abs(a.v), abs(b.v)
    error_a, error_b = reduced(a, size_a), reduced(b, size_b)
    products = xp.matmul(size_a, size_b)
    spread: Array = 0.0
    if not is_zero(error_b):
        spread = spread + xp.matmul(size_a, xp.filled(error_b, size_b))
    if not is_zero(error_a):
        spread = spread + xp.matmul(xp.filled(error_a, size_a), size_b + error_b)
    growth = dot_growth(model, k)
    terms = products if is_zero(spread) else products + spread
    if start is not None:
        growth += model.u * max(dot.c, 1.0)
        v = v + start.v
        terms = terms + abs(start.v) + operand_error(start)
        spread = spread + operand_error(start)
    t = growth * terms
    t += spread
    t += k * model.underflow() * (_flushable(a, b, start) if model.flush == "all" else 1)
    threshold, stored = model.overflow, model.stored(partials)
    if stored is not None:
        t = t + stored.u * (terms + t) + k * stored.eta
        threshold = min(threshold, stored.overflow_threshold)
    may = None
    a, b = _reducible(a, size_a), _reducible(b, size_b)
    flagged = any(operand is not None and operand.may is not None for operand in (a, b, start))
    if flagged or not xp.within(terms, t, threshold):
        may = _overflow(a, b, start, v, t, growth, threshold)

    def finite_operands() -> Array:
        row, column = (
            xp.any_along(~xp.isfinite(a.v), len(a.shape) - 1),
            xp.any_along(~xp.isfinite(b.v), len(b.shape) - 2),
        )
        finite = ~(row | column)
        finite = finite if start is None else finite & xp.isfinite(start.v)
        return finite | (xp.isnan(v) & _overflowed(a, b, start))

    return settle(reading, v, t, may, finite_operands=finite_operands)


def dot_growth(model: Model, k: int) -> float:
    """Error of a dot of k terms relative to the sum of their magnitudes."""
    depth, dot = max(1, min(k, model.depth)) if isinstance(model.depth, int) else k, model.dot
    growth = compound(depth * max(dot.c, 1.0), model.u)
    return (min(growth, k * model.u) if dot.c <= 1 else growth) + dot.extra


def _overflowed(a: Number, b: Number, start: Number | None) -> Array:
    """Mask of results without a NaN operand whose finite products alone leave the reading's range: beside an
    infinite one they may make NaN."""
    xp = a.reading.backend

    def finite(x: Number) -> Array:
        return xp.where(xp.isfinite(x.v), abs(x.v), xp.scalar(0.0))

    nan = xp.any_along(xp.isnan(a.v), len(a.shape) - 1) | xp.any_along(xp.isnan(b.v), len(b.shape) - 2)
    total = xp.matmul(finite(a), finite(b))
    if start is not None:
        nan, total = nan | xp.isnan(start.v), total + finite(start)
    return ~nan & xp.isinf(total)


def _flushable(a: Number, b: Number, start: Number | None) -> Array:
    """Mask of results of which a product or a partial sum may be subnormal and not 0: where the smallest factors
    of row and column make a product with digits below the smallest normal."""
    xp, model = a.reading.backend, a.reading.model

    def smallest(x: Number, dim: int) -> Array:
        size, error = abs(x.v), operand_error(x)
        size = xp.where((size == 0) & (error == 0), xp.scalar(math.inf), size - error)
        return -xp.amax(-size, dim)

    rows, columns = smallest(a, len(a.shape) - 1), smallest(b, len(b.shape) - 2)
    mask = (rows <= 0) | (columns <= 0) | (rows * columns < model.tiny / model.u)
    return mask if start is None else mask | flushable(start)


def reduced(a: Number, size: Array) -> Array:
    """The error of an operand after its rounding for the dot unit: none where it is exact and needs none."""
    dot, error, xp = a.reading.model.dot, operand_error(a), a.reading.backend
    if not (dot.u_in or dot.eta_in):
        return error
    reduced = error + (dot.u_in * (size + error) + dot.eta_in)
    if dot.fmt is None or not is_zero(error):
        return reduced
    step = 2 * xp.half_ulp(size, dot.fmt)
    kept = (size / step) % 1 == 0
    return xp.where(kept, xp.scalar(0.0), reduced)


def _reducible(a: Number, size: Array) -> Number:
    """An operand of a dot, unspecified where it may be infinite in the format that the dot reads."""
    beyond = infinite_when_reduced(a, size)
    if beyond is None:
        return a
    return Number(a.reading, a.v, a.t, joined(a.may, a.reading.backend.flags(beyond, UNSPECIFIED)))


def infinite_when_reduced(a: Number, size: Array) -> Array | None:
    """Mask of finite operands that, rounded to nearest for the dot unit, may be infinite; None if none may.

    The largest float32 is in TF32 and bf16, and so is the high part of a split.
    """
    fmt, xp = a.reading.model.dot.fmt, a.reading.backend
    if fmt is None or xp.within(size, a.t, fmt.overflow_threshold):
        return None
    return xp.isfinite(size) & (size + a.t >= fmt.overflow_threshold)


def _overflow(
    a: Number, b: Number, start: Number | None, v: Array, t: Array, growth: float, threshold: float
) -> Array:
    """Flags as of a sum of positive and negative terms; unspecified where a factor is flagged.

    In a split dot the high and the low products may be opposite infinities, by overflow or of an infinite
    operand; the low ones come first and may be all that is left (an H200 gave -inf for a product of 1.8e43).
    """
    xp = a.reading.backend
    zero = xp.scalar(0.0)
    finite_a = xp.where(xp.isfinite(a.v), a.v, zero)
    finite_b = xp.where(xp.isfinite(b.v), b.v, zero)
    pa, na = xp.maximum(finite_a, zero), xp.maximum(-finite_a, zero)
    pb, nb = xp.maximum(finite_b, zero), xp.maximum(-finite_b, zero)
    rises, falls = xp.matmul(pa, pb) + xp.matmul(na, nb), xp.matmul(pa, nb) + xp.matmul(na, pb)
    always_up, always_down = (v == math.inf) | xp.isnan(v), (v == -math.inf) | xp.isnan(v)
    if start is not None:
        finite = xp.where(xp.isfinite(start.v), start.v, zero)
        rises, falls = rises + xp.maximum(finite, zero), falls + xp.maximum(-finite, zero)
    error = xp.where(xp.isfinite(t), t, growth * (rises + falls))
    up, down = rises + error >= threshold, falls + error >= threshold
    if start is not None and start.may is not None:
        plus, minus = (start.may & PINF) != 0, (start.may & NINF) != 0
        up, down, always_up, always_down = up | plus, down | minus, always_up & ~minus, always_down & ~plus
    may = infinities(xp, up, down, always_up, always_down)
    if a.reading.model.dot.extra:
        may = may | xp.flags(up | down, PINF | NINF) | xp.flags(up | down | xp.isinf(v), NAN)
    if start is not None and start.may is not None:
        may = may | (start.may & LASTING)
    for operand, dim in ((a, -1), (b, -2)):
        if operand.may is not None:
            may = may | xp.flags(xp.any_along(operand.may != 0, dim % len(operand.shape)), UNSPECIFIED)
    return may
