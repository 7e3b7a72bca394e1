"""Averages weighted by a softmax, and logsumexps, of computed scores: what attention is made of.

Plain propagation is loose here. What errs in a weight, errs in the normaliser too, so that it moves the
average O by its share of vⱼ - O only; in an online softmax the same computed factor rescales the numerator
and the normaliser; the differences of running maxima telescope; and the maximum itself cancels.

Admitted without a claim, for T terms: one or two passes, online over blocks with up to
r = min(T-1, ceil(T/16) + 8) rescalings, parts that are normalised and merged by their logsumexps (split-KV),
exp or exp2, scaled before or after. With w = exp(z - max z), l = Σw and dz the error of the scores,

    eⱼ = dzⱼ + u·((c + 2)(|zⱼ - m| + dzⱼ + max dz) + 2|zⱼ| + 7 log(T-1) + 5(r + 1)),    c = 1 + 1.23
    Tⱼ = wⱼ·expm1(eⱼ) + (r + 1)τ,                 in numerator and normaliser alike; τ: underflow of exp

c is the subtraction and the product with log2 e; 2|zⱼ| + 2|zⱼ - m| + 7 log(T-1) the logsumexp of a part of
the keys, rounded and subtracted; 5u each exp. Higham, 2nd ed., ch. 3; the telescoping sum is Σ|m_b - m_{b+1}| = |m_1 - m|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.numbers.backend import Array, Backend
from harness.numbers.conditions import mask_of
from harness.numbers.dots import infinite_when_reduced, reduced
from harness.numbers.model import HOPELESS, compound
from harness.numbers.number import (
    LASTING,
    LOST,
    NAN,
    NINF,
    PINF,
    SPANNED,
    UNSPECIFIED,
    Number,
    is_zero,
    joined,
    operand_error,
    rounding,
    settle,
)
from harness.numbers.reductions import any_flag
from harness.numbers.shaping import concatenate

_TOGETHER = 1 << 17
"""Scores that are worked on at a time, so that what is made of them stays in a cache."""


@dataclass(frozen=True)
class _Weights:
    """Softmax weights of scores [..., S, T], 0 where masked, before they are divided by their sum.

    visible: the mask, None where every key is; largest: max z [..., S, 1]; w: exp(z - largest); error: Tⱼ;
    total, slack: Σw and ΣT; relative: the largest eⱼ; nothing: rows without a key, or with scores of -inf only,
    where largest is 0 and total 1; may: flags of the row.
    """

    visible: Array | None
    largest: Array
    w: Array
    error: Array
    total: Array
    slack: Array
    relative: Array
    nothing: Array
    may: Array | None


@dataclass(frozen=True)
class _Places:
    """Places whose cast to a narrower format an author may claim, see :func:`softmax_average`."""

    probabilities: str | None
    normalizer: str | None
    partials: str | None


def softmax_average(
    z: Number,
    v: Number,
    where: Array | Number | None = None,
    *,
    probabilities: str | None = None,
    normalizer: str | None = None,
    partials: str | None = None,
) -> Number:
    """O = Σⱼ softmax(z)ⱼ vⱼ over the keys that ``where`` leaves; 0 for a row without keys.

    z: [..., S, T]; v: [..., T, D], finite; where: a mask that broadcasts to z's shape. The result is
    [..., S, D]. With a = l - ΣT and every sum over the keys that are left:

        ΣTⱼ|vⱼ - O|/a, at most max|vⱼ - O|         errors of the weights, which leave O in the hull of the vⱼ
        + A·(u_p + u_d + g_N),                      of the numerator alone, A = Σ(wⱼ + Tⱼ)|vⱼ|/a <= max|vⱼ|
        + ((η_p/2)Σ|vⱼ| + (T + 2r)η)/max(a, 1)      underflow of the numerator
        + |O|·g_L/(1 - g_L),                        then the division, 5u

    g_N = (1+u)^(T + 2r + 5) - 1: one FMA chain, rescaled, and the division of a part; g_L =
    (1+u)^(depth + 2r) - 1: the normaliser. u_d: reduced operands of the dot (TF32). Places whose cast to a
    narrower format an author may claim: probabilities, of w in the numerator alone (u_p, η_p); normalizer, of
    the w that numerator and normaliser add up, and of their sum; partials, of normalised parts to be merged.

    A brief reading leaves the errors of the weights and of TF32's operands out.

    Where the running numerator may overflow, ±inf and NaN are right too; where a score may be +inf, or the
    largest -inf, anything; where the score of a key that is masked may be +inf, NaN, since PyTorch adds -inf
    to it (scaled_dot_product_attention). A row of scores that are all -inf gives 0, as PyTorch's, or NaN, as the
    formula.

    Where max|vⱼ - O| takes the place of the sum, the reading's own weights may be as wrong as a kernel's: its O
    is one of the hull of the vⱼ, all of which t spans.
    """
    where = where if where is None else mask_of(where)
    places = _Places(probabilities, normalizer, partials)
    axis = max(range(len(z.shape) - 2), key=lambda axis: z.shape[axis], default=0)
    count = z.shape[axis]
    at_once = max(1, count * _TOGETHER // max(math.prod(z.shape), 1))
    if len(z.shape) < 3 or z.shape[:-2] != v.shape[:-2] or at_once >= count:
        return _average(z, v, where, places)
    averages = []
    for start in range(0, count, at_once):
        part = (slice(None),) * axis + (slice(start, start + at_once),)
        seen = where if where is None or len(where.shape) <= axis or where.shape[axis] == 1 else where[part]
        averages.append(_average(z[part], v[part], seen, places))
    return concatenate(averages, axis)


def _average(z: Number, v: Number, where: Array | None, places: _Places) -> Number:
    """The same at one go."""
    reading, xp = z.reading, z.reading.backend
    model, dot, keys = reading.model, reading.model.dot, z.shape[-1]
    if keys == 0:
        return Number(reading, xp.matmul(z.v, v.v), 0.0)
    size, cast = abs(v.v), model.stored(places.normalizer)
    brief = _brief(z, v, where) if reading.brief else None
    if brief is not None:
        weights, value, average = brief
        spread = moved = 0.0
        floor = xp.maximum(weights.total, xp.scalar(1.0))
    else:
        weights = _weights(z, where, cast.u if cast else 0.0)
        value = xp.divide(xp.matmul(weights.w, v.v), weights.total)
        spread, average, moved, floor, spanned = _moved(weights, v, value)
    rescalings, narrow = _rescalings(z), model.stored(places.probabilities)
    chain = max(1, min(keys, model.depth)) if isinstance(model.depth, int) else keys
    steps = chain * max(dot.c, 1.0) + 2 * rescalings + (model.errors["divide"] if keys > 2 else 0)
    products = compound(steps, model.u) + dot.extra
    relative = products + dot.u_in * (1 + products)
    lost = (keys + 2 * rescalings) * model.underflow()
    if narrow is not None:
        relative += narrow.u * (1 + relative)
        lost = lost + narrow.eta / 2 * _over_visible(weights, size, xp)
    part = model.stored(places.partials)
    if part is not None:
        relative += part.u * (1 + relative)
    spread = spread + relative * average + (1 + relative) * moved + xp.divide(lost, floor)
    spread = spread + (part.eta if part else 0.0)

    growth = compound(model.reduction_depth(keys) + 2 * rescalings, model.u)
    growth += cast.u * (1 + growth) if cast else 0.0
    spread = spread + (abs(value) + spread) * (growth / (1 - growth) if growth < 1 else math.inf)
    t = rounding(value, spread, model.errors["divide"] * model.u) + model.underflow("divide")
    if brief is not None:
        return settle(reading, value, t)
    t = xp.where(weights.nothing, xp.scalar(0.0), t)
    limit = min(model.overflow, part.overflow_threshold if part else math.inf)
    may = _with_overflow(weights, v.v, t, limit, z)
    if xp.any(spanned):
        may = joined(may, xp.flags(spanned, SPANNED))
    beyond = infinite_when_reduced(v, size)
    if beyond is not None:
        open_ = xp.any_along(beyond, len(v.shape) - 2)
        may = joined(may, xp.filled(xp.flags(open_, UNSPECIFIED), value))

    def finite_operands() -> Array:
        every = ~xp.any_along(~xp.isfinite(v.v), len(v.shape) - 2)
        return every & xp.isfinite(weights.total) & xp.isfinite(weights.largest)

    return settle(reading, value, t, may, finite_operands=finite_operands)


def _moved(weights: _Weights, v: Number, value: Array) -> tuple[Array, Array, Array, Array, Array]:
    """ΣTⱼ|vⱼ - O|/a, A, the same average of the errors of the vⱼ as operands, the least normaliser, at least 1, and
    a mask of the elements in which max|vⱼ - O| takes the place of the first."""
    xp = v.reading.backend
    least = weights.total - weights.slack
    safe = xp.where(least > 0, least, xp.scalar(1.0))

    def bounded(total: Array, most: Array) -> Array:
        """A sum over the least normaliser, at most the largest of what it averages."""
        return xp.where(least > 0, xp.minimum(xp.divide(total, safe), most), most)

    moved_by, furthest = xp.distances(weights.error, weights.visible, v.v, value)
    size, largest = abs(v.v), weights.w + weights.error
    average = bounded(xp.matmul(largest, size), abs(value) + furthest)
    moved: Array = 0.0
    errors = reduced(v, size)
    if not is_zero(errors):
        errors = xp.filled(errors, size)
        moved = bounded(xp.matmul(largest, errors), xp.amax(errors, len(v.shape) - 2))
    error = xp.amax(weights.error, len(weights.error.shape) - 1)
    floor = xp.maximum(xp.divide(least, 1 + error), xp.scalar(1.0))
    spread = bounded(moved_by, furthest)
    return spread, average, moved, floor, (spread >= furthest) & (furthest > 0)


def _brief(z: Number, v: Number, where: Array | None) -> tuple[_Weights, Array, Array] | None:
    """Weights without errors, O, and Σwⱼ|vⱼ|/l: A is no less, as |vⱼ| is at most |O| + max|vⱼ - O|.

    None where a score is not finite or may overflow, or a row has no key.
    """
    reading, xp, axis = z.reading, z.reading.backend, len(z.shape) - 1
    if z.may is not None or v.may is not None or not xp.within(z.v, z.error, reading.model.overflow):
        return None
    seen = z.v if where is None else xp.where(where, z.v, xp.scalar(-math.inf))
    largest = xp.amax(seen, axis)
    if where is not None and not xp.within(largest, 0.0, math.inf):
        return None
    reading.shortened.append("softmax_average")
    w = xp.apply("exp", seen - largest)
    total = xp.sum(w, axis)
    average = xp.divide(xp.matmul(w, abs(v.v)), total) * (1 - 2.0**-30)
    value = xp.divide(xp.matmul(w, v.v), total)
    return _Weights(where, largest, w, 0.0, total, 0.0, 0.0, 0.0, None), value, average


def log_sum_exp(z: Number, where: Array | Number | None = None) -> Number:
    """log Σⱼ exp(zⱼ) [..., S, 1] over the keys that ``where`` leaves; -inf for a row without keys.

    z: [..., S, T]. -log1p(-ΣT/l), at most the largest eⱼ, and g_L for the sum; then 5u of log l, 2u of max z
    and 3u of the result, which a kernel may hold in base 2 and turn into a natural logarithm at the end. With a
    score of +inf it is +inf, as torch.logsumexp, or NaN, as the formula.
    """
    reading, xp = z.reading, z.reading.backend
    model, keys = reading.model, z.shape[-1]
    where = where if where is None else mask_of(where)
    if keys == 0:
        return Number(reading, xp.sum(z.v, len(z.shape) - 1) - xp.scalar(math.inf), 0.0)
    weights = _weights(z, where)
    logarithm = xp.apply("log", weights.total)
    value = xp.where(weights.nothing, xp.scalar(-math.inf), weights.largest + logarithm)
    infinite = weights.largest == math.inf
    value = xp.where(infinite, xp.scalar(math.inf), value)
    may = joined(weights.may, xp.flags(infinite, NAN)) if xp.any(infinite) else weights.may
    share = xp.minimum(xp.divide(weights.slack, weights.total), xp.scalar(1.0))
    rescalings = _rescalings(z)
    flushed = (rescalings + 1) * keys * model.underflow("exp")
    spread = xp.minimum(-xp.apply("log1p", -share), weights.relative + flushed)
    growth = compound(model.reduction_depth(keys) + 2 * rescalings, model.u)
    spread = spread + (-math.log1p(-growth) if growth < 1 else math.inf)
    spread = rounding(logarithm, spread, model.errors["log"] * model.u)
    spread = spread + 2 * model.u * abs(weights.largest) + model.underflow("log")
    t = xp.where(weights.nothing, xp.scalar(0.0), rounding(value, spread, 3 * model.u))
    return settle(reading, value, t, may)


def _weights(z: Number, where: Array | None, cast: float = 0.0) -> _Weights:
    """Weights and their errors. cast: a relative error that numerator and normaliser share besides."""
    xp, model = z.reading.backend, z.reading.model
    axis = len(z.shape) - 1
    plain = _plain_weights(z, cast) if where is None else None
    if plain is not None:
        return plain
    zero = xp.scalar(0.0)
    visible = xp.flags(xp.isnan(z.v), 0) == 0
    visible = visible if where is None else visible & where
    found = xp.where(visible, z.v, xp.scalar(-math.inf))
    top = xp.amax(found, axis)
    nothing = top == -math.inf
    largest = xp.where(nothing, zero, top)
    w = xp.apply("exp", found - largest)
    finite = visible & xp.isfinite(z.v) & xp.isfinite(largest)
    dz = xp.where(finite, xp.filled(operand_error(z), z.v), zero)
    below = xp.where(finite, largest - found, zero)
    height = xp.where(finite, abs(z.v), zero)
    rescalings = _rescalings(z)
    by_spread, by_height, fixed = _score_factors(z)
    relative = by_spread * (below + dz + xp.amax(dz, axis)) + by_height * height
    relative = xp.where(finite, dz + model.u * (relative + fixed) + cast, zero)
    grown = w * xp.apply("expm1", xp.minimum(relative, xp.scalar(1.0)))
    uncertain = xp.apply("exp", xp.minimum(relative - below, xp.scalar(HOPELESS)))
    error = xp.where(relative < 1, grown, uncertain) + (rescalings + 1) * model.underflow("exp")
    error = xp.where(finite, error, zero)
    unsure = nothing & xp.any_along(visible, axis)
    may = xp.flags(unsure, NAN) if xp.any(unsure) else None
    scores = _in_base_2(z)
    if where is not None:
        may = _added(scores, where, axis, may)
    if scores.may is not None:
        may = joined(may, _row_flags(scores, visible, found, dz, axis))
        vanishing = visible & ((scores.may & NINF) != 0)
        error = xp.where(vanishing, xp.maximum(error, w), error)
    total = xp.where(nothing, xp.scalar(1.0), xp.sum(w, axis))
    return _Weights(
        visible, largest, w, error, total, xp.sum(error, axis), xp.amax(relative, axis), nothing, may
    )


def _score_factors(z: Number) -> tuple[float, float, float]:
    """What |z - m| + dz + max dz, |z| and 1 contribute to a relative error, in u."""
    model, rescalings = z.reading.model, _rescalings(z)
    exps = model.errors["exp"] * (rescalings + 1) * (1 + 2 * model.errors["exp"] * model.u)
    merged = 7 * math.log(max(z.shape[-1] - 1, 1))
    return 3 + model.log2e_rounding, 3.0 if model.exp == "scaled" else 2.0, exps + merged


def _plain_weights(z: Number, cast: float) -> _Weights | None:
    """The same in fewer steps, of scores that are all finite, far from overflow, and have relative errors below 1."""
    xp, model, axis = z.reading.backend, z.reading.model, len(z.shape) - 1
    if not xp.shares or z.may is not None or not xp.within(z.v, z.error, model.overflow / math.log2(math.e)):
        return None
    largest, dz = xp.amax(z.v, axis), operand_error(z)
    w = z.v - largest
    relative = dz - w
    w = xp.apply("exp", w)
    by_spread, by_height, fixed = _score_factors(z)
    relative += dz if is_zero(dz) else xp.amax(xp.filled(dz, z.v), axis)
    relative *= by_spread * model.u
    height = abs(z.v)
    height *= by_height * model.u
    relative += height
    relative += dz
    relative += model.u * fixed + cast
    most = xp.amax(relative, axis)
    if not xp.within(most, 0.0, 1.0):
        return None
    error = xp.apply("expm1", relative)
    error *= w
    error += (_rescalings(z) + 1) * model.underflow("exp")
    total = xp.sum(w, axis)
    return _Weights(None, largest, w, error, total, xp.sum(error, axis), most, total < 0, None)


def _added(z: Number, where: Array, axis: int, may: Array | None) -> Array | None:
    """NaN too for a row with a masked key whose score may be +inf or NaN: what adding -inf to it gives."""
    xp = z.reading.backend
    open_ = (z.v == math.inf) | xp.isnan(z.v)
    if z.may is not None:
        open_ = open_ | ((z.may & (PINF | NAN | UNSPECIFIED)) != 0)
    found = xp.any_along(open_ & ~where, axis)
    return joined(may, xp.flags(found, NAN)) if xp.any(found) else may


def _in_base_2(z: Number) -> Number:
    """Scores with the flags that they have times log2 e, as exp2 takes them."""
    xp, limit = z.reading.backend, z.reading.model.overflow / math.log2(math.e)
    if xp.within(z.v, z.t, limit):
        return z
    finite = xp.isfinite(z.v)
    up, down = finite & (z.v + z.t >= limit), finite & (z.v - z.t <= -limit)
    return Number(z.reading, z.v, z.t, joined(z.may, xp.flags(up, PINF) | xp.flags(down, NINF)))


def _row_flags(z: Number, visible: Array, found: Array, dz: Array, axis: int) -> Array:
    """Flags of the row [..., S, 1]: anything, if a score may be +inf or NaN, or the largest one -inf.

    Of a score that *is* infinite only NaN matters, of one that is NaN nothing, unless it is LOST: so is the row.
    """
    xp = z.reading.backend
    assert z.may is not None
    finite = visible & xp.isfinite(z.v)
    may = z.may * xp.flags(finite, 1) | (z.may & LASTING) * xp.flags(visible & xp.isinf(z.v), 1)
    may = may | (z.may & LOST) * xp.flags(visible, 1)
    lowest = xp.amax(xp.where(visible, found - dz, xp.scalar(-math.inf)), axis)
    open_ = ((may & (PINF | NAN | UNSPECIFIED)) != 0) | (((may & NINF) != 0) & (found + dz >= lowest))
    return (any_flag(xp, may, axis) & LOST) | xp.flags(xp.any_along(open_, axis), UNSPECIFIED)


def _with_overflow(weights: _Weights, v: Array, t: Array, limit: float, z: Number) -> Array | None:
    """The row's flags, and ±inf and NaN where the numerator, in units of some running maximum, may overflow."""
    xp, zero = z.reading.backend, z.reading.backend.scalar(0.0)
    axis = len(v.shape) - 2
    if xp.within(xp.sum(abs(v), axis), xp.amax(t, axis), limit):
        return weights.may
    present = xp.filled(xp.constant(1.0), z.v)
    if weights.visible is not None:
        present = xp.where(weights.visible, present, zero)
    up = (xp.matmul(present, xp.maximum(v, zero)) + t >= limit) & ~weights.nothing
    down = (xp.matmul(present, xp.maximum(-v, zero)) + t >= limit) & ~weights.nothing
    return joined(weights.may, xp.flags(up, PINF) | xp.flags(down, NINF) | xp.flags(up | down, NAN))


def _over_visible(weights: _Weights, a: Array, xp: Backend) -> Array:
    """Sums of a [..., T, D] over the keys that are seen, [..., S or 1, D]."""
    if weights.visible is None:
        return xp.sum(a, len(a.shape) - 2)
    return xp.matmul(xp.where(weights.visible, xp.scalar(1.0), xp.scalar(0.0)), a)


def _rescalings(z: Number) -> int:
    """Rescalings of an online softmax, and merges, that a term goes through: one for 16 keys and 8 more.

    Under a claimed depth it is that; under 'sequential' one for each key.
    """
    model, most = z.reading.model, max(z.shape[-1] - 1, 0)
    if isinstance(model.depth, int):
        return min(most, model.depth)
    return most if model.depth == "sequential" else min(most, -(-z.shape[-1] // 16) + 8)
