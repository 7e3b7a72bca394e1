"""Variance along one axis: the error of the usual ways to compute it, which plain propagation overstates."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from harness.numbers.backend import Array
from harness.numbers.model import Model, compound
from harness.numbers.number import (
    LASTING,
    NAN,
    NINF,
    PINF,
    Number,
    is_zero,
    joined,
    operand_error,
    settle,
)
from harness.numbers.reductions import any_flag, axis_of, mean


@dataclass(frozen=True)
class Moments:
    """What the error of a variance depends on under a model, each [the reduced shape].

    n: terms; scale: n / (n - correction); v: the variance; mean; mean_magnitude: of |x| + t; mean_square: of
    x², where the textbook form is claimed; largest: max |x| + t; deviation: mean |x - mean|; input_error: max t.
    """

    model: Model
    n: int
    scale: float
    v: Array
    mean: Array
    mean_magnitude: Array
    mean_square: Array
    largest: Array
    deviation: Array
    input_error: Array

    @functools.cached_property
    def welford_error(self) -> Array:
        """Laned Welford and Chan merges at depth d: ((1+u)^(d+10) - 1)·v + 4·D1·dl + dl² + underflow.

        D1 = mean|x - μ|, dl = (d/2 + 12)u·max|x|: the error of a running mean, one u of it per step, which a
        step halves on average, and the roundings of a step's difference and quotient.
        """
        model = self.model
        depth = model.reduction_depth(self.n)
        running = (depth / 2 + 12) * model.u * self.largest + model.underflow("divide")
        relative = compound(depth + 10, model.u)
        spread = (4 * self.deviation + running) * (self.scale * running)
        return relative * self.v + spread + self.underflow

    @property
    def welford_is_larger(self) -> bool:
        """Whether a sum's mean and the roundings of a two-pass variance certainly err by no more than Welford's.

        (1 + k)(1 + u)³(1 + c u) <= (1 + u)^(d+10) for a division of c <= 7.
        """
        return self.model.variance == "any" and self.model.errors["divide"] <= 7

    @property
    def underflow(self) -> float:
        """Of the squares and of the quotient by their number."""
        return self.scale * self.model.underflow() + self.model.underflow("divide")


def var(x: Number, dim: int, correction: int = 0, m: Moments | None = None) -> Number:
    """Σ(xᵢ - μ)² / (n - correction): the larger of the two-pass and the Welford or Chan bound.

    m: its moments, where they are known. Only the two-pass bound under the claim variance='two-pass'; the
    textbook form E[x²] - μ² only under variance='textbook'. Where a sum of these may overflow, +inf and NaN are right too.
    """
    reading, xp = x.reading, x.reading.backend
    model = reading.model
    m = m or moments(x, dim, correction)
    t = _claimed_error(x, m, _two_pass_error(x, m))
    if model.variance != "textbook" and _far_from_overflow(x, m, t):
        return Number(reading, m.v, t, nonnegative=True)
    may = None
    growth = 1 + model.growth(m.n)
    squares, magnitudes = (m.v + t) * (m.n / m.scale), m.mean_magnitude * m.n
    over = (squares * growth >= model.overflow) | (magnitudes * growth >= model.overflow)
    if model.variance == "textbook":
        over = over | (m.mean_square * m.n * growth >= model.overflow)
    if x.may is not None:
        flagged = any_flag(xp, x.may, axis_of(x, dim)[0])
        may = flagged & LASTING
        over = over | ((flagged & (PINF | NINF)) != 0)
    over = over & (m.v == m.v)
    if xp.any(over):
        may = joined(may, xp.flags(over, PINF | NAN))

    def finite_operands() -> Array:
        return ~xp.any_along(~xp.isfinite(x.v), axis_of(x, dim)[0]) & (m.n > correction)

    nonnegative = model.variance != "textbook"
    return settle(reading, m.v, t, may, finite_operands=finite_operands, nonnegative=nonnegative)


def variance_shortfall(x: Number, m: Moments) -> Array:
    """How much too small a computed variance may be: a two-pass one only by its roundings, r·v + underflow.

    The error of its mean adds to it. Welford's and the textbook form may err to either side.
    """
    if m.welford_is_larger:
        return _with_inputs(m, m.welford_error)
    return _claimed_error(x, m, two_pass_roundings(x, m))


def centre(x: Number, dim: int, m: Moments, variance: Number) -> Number:
    """The mean, off by the larger error of the forms that the claim on the variance admits, a sum and Welford's."""
    reading, model = x.reading, x.reading.model
    if model.variance != "any":
        return mean(x, dim)
    error = welford_mean_error(x, m)
    if m.welford_is_larger and variance.may is None and model.flush != "all":
        return Number(reading, m.mean, error)
    summed = mean(x, dim)
    return Number(reading, summed.v, reading.backend.maximum(summed.t, error), summed.may)


def welford_mean_error(x: Number, m: Moments) -> Array:
    """Error of a Welford and Chan mean: ((1+u)^(d + 14 + 8 log2 n) - 1)·mean(|x| + t) + t.

    Step k of a lane adds u|mₖ| and 6u|xₖ - mₖ₋₁|/k (a difference and a quotient), of which the later steps
    leave k/q: with k|mₖ| <= Σ|xᵢ| the q steps make (q + 6 + 6(1 + ln q))·u·mean|x|. A merge of equal parts
    adds u|m| and 7u of half a difference, 8u·mean|x|, on each of its levels. The depth d counts q - 1 and
    the levels once; log2 q and the levels make log2 n. The quotient of each step may underflow.
    """
    model = x.reading.model
    depth = model.reduction_depth(m.n)
    growth = compound(depth + 14 + 8 * math.log2(max(m.n, 1)), model.u)
    return growth * m.mean_magnitude + (m.input_error + (depth + 1) * model.underflow("divide"))


def _far_from_overflow(x: Number, m: Moments, t: Array) -> bool:
    """Whether certainly neither n·max(|x| + t) nor n·(max(|x| + t)² + the variance's error t) overflows."""
    model = x.reading.model
    limit = model.overflow / ((1 + model.growth(m.n)) * (1 + 2.0**-40) * max(m.n, 1))
    return x.may is None and x.reading.backend.within(m.largest, t, math.sqrt(limit) - 1)


def _claimed_error(x: Number, m: Moments, two_pass: Array) -> Array:
    """The largest error of the forms that the claims admit, and of the inputs."""
    xp, model = x.reading.backend, x.reading.model
    t = two_pass
    if model.variance == "any":
        t = xp.maximum(t, m.welford_error)
    if model.variance == "textbook":
        t = xp.maximum(t, _textbook_error(x, m))
    return _with_inputs(m, t)


def _with_inputs(m: Moments, t: Array) -> Array:
    """The error of a variance, and what the errors of its terms add."""
    if is_zero(m.input_error):
        return t
    return t + 4 * m.scale * m.input_error * (m.deviation + m.input_error)


def moments(x: Number, dim: int, correction: int = 0) -> Moments:
    """What the error of the variance along an axis, and of its mean, depends on."""
    dim, n = axis_of(x, dim)
    xp = x.reading.backend
    error = operand_error(x)
    if x.reading.model.flush == "all":
        error = error + x.reading.model.tiny
    total = xp.sum(x.v, dim)
    mean = xp.divide(total, float(n))
    deviation = x.v - mean
    squares = xp.sum(deviation * deviation, dim)
    magnitude = abs(x.v) if is_zero(error) else abs(x.v) + error
    textbook = x.reading.model.variance == "textbook"
    return Moments(
        model=x.reading.model,
        n=n,
        scale=max(n, 1) / max(n - correction, 1),
        v=xp.divide(squares, float(max(n - correction, 0))),
        mean=mean,
        mean_magnitude=xp.divide(xp.sum(magnitude, dim), float(n)),
        mean_square=xp.divide(xp.sum(magnitude * magnitude, dim), float(n)) if textbook else math.nan,
        largest=xp.amax(magnitude, dim),
        deviation=xp.divide(xp.sum(abs(deviation), dim), float(n)),
        input_error=0.0 if is_zero(error) else xp.amax(xp.filled(error, x.v), dim),
    )


def _mean_error(x: Number, m: Moments) -> Array:
    """dμ = ((1 + k)(1 + c u) - 1)·mean(|x| + t) + t + underflow, k = (1+u)^depth - 1, c u of a division."""
    model = x.reading.model
    division = model.errors["divide"] * model.u
    k = model.growth(m.n)
    return (k + division + k * division) * m.mean_magnitude + (m.input_error + model.underflow("divide"))


def _two_pass_error(x: Number, m: Moments) -> Array:
    """r·(v + dμ²) + dμ² + underflow, r = (1 + k)(1 + u)³(1 + c u) - 1: the mean's error enters squared.

    Chan, Golub & LeVeque, The American Statistician 37 (1983), doi:10.1080/00031305.1983.10483115.
    """
    mean_error = _mean_error(x, m)
    relative = _two_pass_relative(x, m)
    shift = m.scale * (1 + relative) * mean_error * mean_error
    return relative * m.v + shift + m.underflow


def two_pass_roundings(x: Number, m: Moments) -> Array:
    """r·v + underflow, with the r of :func:`_two_pass_error`."""
    return _two_pass_relative(x, m) * m.v + m.underflow


def _two_pass_relative(x: Number, m: Moments) -> float:
    """r, by factors, as 1 + u is 1 in float64."""
    model = x.reading.model
    found = model.growth(m.n)
    for error in (compound(3, model.u), model.errors["divide"] * model.u):
        found = found + error + found * error
    return found


def _textbook_error(x: Number, m: Moments) -> Array:
    """E[x²] - μ²: (k + 10u)·mean(x²) + 2|μ|dμ + dμ² + underflow."""
    model = x.reading.model
    mean_error = _mean_error(x, m)
    squares = (model.growth(m.n) + 10 * model.u) * m.mean_square
    underflow = model.underflow() + model.underflow("divide")
    return m.scale * (squares + 2 * abs(m.mean) * mean_error + mean_error * mean_error + underflow)
