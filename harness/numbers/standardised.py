"""Rows with mean 0 and variance 1, as layer norm and group norm make them: (x - μ) / √(σ² + eps).

Plain propagation would let the variance be as much too small as too large, so that a row whose spread is
lost beside its mean could be anything. But the error of the mean only *adds* to a two-pass variance, δ² of
it: the result shrinks, and stays bounded.
"""

from __future__ import annotations

import math

from harness.numbers.backend import Array
from harness.numbers.elementary import sqrt
from harness.numbers.number import UNSPECIFIED, Number, coerce, joined, settle
from harness.numbers.share import Share
from harness.numbers.variance import centre, moments, var, variance_shortfall


def standardised(x: Number, dim: int, eps: float) -> Number:
    """(xᵢ - μ) / √(σ² + eps) along one axis, σ² with correction 0.

    With W = σ² + eps, computed as W', the result is (d ± td)/√W times a factor √(W/W'), which lies within
    rel = max((1 - e/W)^(-1/2) - 1, 1 - (1 + E/W)^(-1/2)) of 1: e is how much too small W' may be, E how much
    too large. As Welford's mean is off by more than a sum's (:func:`welford_mean_error`), the larger counts,
    unless the claim variance='two-pass' rules it out. Unspecified where e reaches W.
    """
    reading, xp = x.reading, x.reading.backend
    spread = moments(x, dim)
    variance = var(x, dim, m=spread)
    middle = centre(x, dim, spread, variance)
    epsilon = coerce(reading, eps)
    w = variance + epsilon
    quotient = (x - middle) / sqrt(Number(reading, w.v, 0.0, w.may))
    shortfall = variance_shortfall(x, spread)
    one_sided = xp.any(shortfall != variance.t)
    missing = (Number(reading, variance.v, shortfall) + epsilon).t if one_sided else w.t
    share = xp.divide(missing, w.v)
    bounded = xp.within(share, 0.0, 1.0)
    if not bounded:
        share = xp.minimum(share, xp.scalar(1.0))
    factor = xp.apply("expm1", -0.5 * xp.apply("log1p", -share))
    if one_sided:
        shrunk = -xp.apply("expm1", -0.5 * xp.apply("log1p", xp.divide(w.t, w.v)))
        factor = xp.maximum(factor, shrunk)
    t: Array | Share
    if quotient.share is not None:
        grown = 1 + factor
        t = Share(quotient.share.share * grown + factor, quotient.share.least * grown)
    else:
        t = abs(quotient.v)
        t *= factor
        t += quotient.t * (1 + factor)
    may = quotient.may
    if not bounded:
        lost = xp.filled(share >= 1, quotient.v)
        t = t.of(quotient.v) if isinstance(t, Share) else t
        t = xp.where(lost, xp.scalar(math.inf), t)
        may = joined(may, xp.flags(lost & xp.isfinite(quotient.v), UNSPECIFIED))
    return settle(reading, quotient.v, t, may)
