"""Elementary functions of the algebra, each with its rule for the allowed error.

The error of a function is the largest change that the argument's error can make, plus the primitive's own
error in u (:data:`harness.numbers.model.PRIMITIVE_ERRORS`), plus underflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from harness.formats import FLOAT64
from harness.numbers.backend import Array, Backend
from harness.numbers.number import (
    FAR,
    LASTING,
    LOST,
    NAN,
    NINF,
    PINF,
    SPANNED,
    UNSPECIFIED,
    Number,
    Reading,
    could_be,
    joined,
    rounding,
    settle,
    uniform,
    with_underflow,
)
from harness.numbers.share import Share

_LONGEST = 6
"""Terms of a series that take longer than the function itself."""


def exp(a: Number) -> Number:
    """exp: |v|·expm1(ta), then the rounding of x·log2 e and c u, then underflow.

    The rounding of exp(x) = exp2(x·log2 e) changes the argument by s = λu(|x| + ta), λ that of
    :attr:`harness.numbers.model.Model.log2e_rounding`, and the value by expm1(s) <= s + s² wherever the
    value is in range. Where it overflows for every argument within ta + s, half of it is error enough. Under
    the claim exp='scaled', exp2(x·c - m·c), s uses |x| + |m| of the subtraction that made the argument. An
    argument that may be -inf may give 0. That of an exact 0 is 1 in every implementation: exp2(0) is (PTX ISA
    9.1, ex2), and so is 1 + 0·P(0).
    """
    reading, xp = a.reading, a.reading.backend
    model = reading.model
    v = xp.apply("exp", a.v)
    in_range = xp.within(v, 0.0, model.overflow)
    overflows = None
    t = _exp_series(a, v) if in_range else None
    if t is None:
        spread, shift = _exp_spread(a, v), _exp_shift(a)
        size = abs(a.v) + a.t if model.exp != "scaled" or a.origin is None else None
        overflows = None if in_range else a.v - a.t - shift > math.log(model.overflow)
        moved = v + spread
        moved *= shift
        shift *= moved
        moved += shift
        moved += spread
        t = rounding(v, moved, model.errors["exp"] * model.u)
        t = with_underflow(reading, v, t, model.underflow("exp"))
        if overflows is not None:
            t = xp.where(overflows, xp.minimum(t, v / 2), t)
        if size is not None:
            t *= xp.sign(size)
    may = None
    if a.may is not None:
        may = a.may & (PINF | LASTING)
        t = xp.maximum(t, xp.where((a.may & NINF) != 0, v, xp.scalar(0.0)))
    if not isinstance(t, Share) and not xp.beyond(v, 0.0, model.tiny):
        t = xp.where(a.v == -math.inf, xp.scalar(0.0), t)
    beyond = None
    if overflows is not None and model.overflow < FAR:
        beyond = (v == math.inf) & overflows & (a.v - a.t > math.log(FAR)) & (a.v < math.inf)
        if a.may is not None:
            beyond = beyond & ((a.may & LOST) == 0)
            may = joined(may, xp.flags(beyond & ((a.may & NINF) != 0), UNSPECIFIED))
    return settle(
        reading, v, t, may, finite_operands=lambda: xp.isfinite(a.v), beyond=beyond, nonnegative=True
    )


def _exp_spread(a: Number, v: Array) -> Array:
    """|v|·expm1(ta)."""
    xp = a.reading.backend
    if a.exact:
        return 0.0
    spread = xp.apply("expm1", xp.filled(a.t, v))
    far = None if xp.within(spread, 0.0, 1.0) else spread > 1
    spread *= v
    if far is not None and xp.any(far):
        # Where v underflows in this reading, v + spread need not.
        spread = xp.where(far, xp.apply("exp", a.v + a.t) - v, spread)
    return spread


def _exp_shift(a: Number) -> Array:
    """λu(|x| + ta), or what takes its place where the argument is scaled before the subtraction."""
    xp, model = a.reading.backend, a.reading.model
    shift = abs(a.v)
    if model.exp == "scaled" and a.origin is not None:
        shift = xp.maximum(shift, abs(a.origin[0].v) + abs(a.origin[1].v))
    shift += a.t
    shift *= model.log2e_rounding * model.u
    return shift


def _exp_series(a: Number, v: Array) -> Array | Share | None:
    """The allowed error of exp as a power series in |x| times v, where ta is a share k of |x|.

    With s = σ|x|, σ = λu(1 + k): v·(c u + (1 + c u)·((1 + E)(s + s²) + E)), E = expm1(k|x|). The coefficient of
    |x|ⁿ in the last bracket is at most (k + σ)ⁿ; terms stop where what follows is no digit of the sum.
    None where another rule applies, or where the series is long.
    """
    reading, xp = a.reading, a.reading.backend
    model, error = reading.model, uniform(a)
    if (
        not xp.shares
        or error is None
        or error.least
        or a.may is not None
        or (model.exp == "scaled" and a.origin is not None)
    ):
        return None
    k: float = error.share
    c = model.errors["exp"] * model.u
    sigma = model.log2e_rounding * model.u * (1 + k)
    step = (k + sigma) * xp.most(a.v, 0.0)
    terms = next((n for n in range(1, _LONGEST) if step < 1 and step**n <= 2.0**-54), 0)
    if not terms:
        return None

    def coefficient(n: int) -> float:
        powers: list[float] = [k**i / math.factorial(i) if i >= 0 else 0.0 for i in (n, n - 1, n - 2)]
        return (1 + c) * (powers[0] + sigma * powers[1] + sigma * sigma * powers[2])

    size = abs(a.v)
    factor = size * coefficient(terms)
    for n in range(terms - 1, 0, -1):
        factor += coefficient(n)
        factor *= size
    factor += c
    factor *= xp.sign(size)
    share, least = Share(factor), model.underflow("exp")
    if least >= model.tiny and xp.beyond(v, share, least):
        return share
    t = with_underflow(reading, v, share.of(v), least)
    t *= xp.sign(size)
    return t


def log(a: Number) -> Number:
    """log: -log1p(-ta/a), then c u |v|; unbounded where the argument may reach 0."""
    reading, xp = a.reading, a.reading.backend
    model = reading.model
    v = xp.apply("log", a.v)
    spread: Array = 0.0
    may = None if a.may is None else a.may & (PINF | LASTING)
    if not a.exact:
        ratio = xp.divide(a.t, a.v)
        spread = -xp.apply("log1p", -xp.minimum(ratio, xp.scalar(1.0)))
        reaches_zero = _reaches_zero(a)
        if reaches_zero is not None:
            spread = xp.where(reaches_zero, xp.scalar(math.inf), spread)
            may = joined(may, xp.flags(reaches_zero, NINF if a.nonnegative else NINF | NAN))
            may = joined(may, xp.flags(reaches_zero & (a.v <= 0), UNSPECIFIED))
    t = rounding(v, spread, model.errors["log"] * model.u)
    if model.flush != "none" and not xp.beyond(a.v, a.t, model.tiny):
        flushed = (a.v - a.t < model.tiny) & (a.v > 0)
        if xp.any(flushed):
            may = joined(may, xp.flags(flushed, NINF))
    if a.may is not None:
        may = joined(may, xp.flags(could_be(a, NINF), NAN))
    return settle(reading, v, t, may)


def _reaches_zero(a: Number) -> Array | None:
    """Mask of inexact arguments that may be 0; None where there are none."""
    xp = a.reading.backend
    if xp.beyond(a.v, a.t, FLOAT64.eta):
        return None
    mask = (abs(a.v) <= a.t) & (xp.filled(a.t, a.v) > 0)
    return mask if xp.any(mask) else None


def sqrt(a: Number) -> Number:
    """sqrt: ta/(√a + √(a - ta)), then c u; a subnormal argument may give 0, one that may be negative NaN."""
    reading, xp = a.reading, a.reading.backend
    model = reading.model
    v = xp.apply("sqrt", a.v)
    if xp.shares and a.exact and a.may is None:
        least, most = xp.extremes(a.v)
        if least >= max(model.tiny, FLOAT64.eta) and most < model.overflow:
            return Number(reading, v, Share(model.errors["sqrt"] * model.u), nonnegative=True)
    spread: Array = 0.0
    may = None if a.may is None else a.may & (PINF | LASTING)
    lowest = a.v - a.t
    if not a.exact:
        spread = xp.divide(a.t, v + xp.apply("sqrt", xp.maximum(lowest, xp.scalar(0.0))))
        reaches_zero = None if xp.beyond(a.v, a.t, FLOAT64.eta) else abs(a.v) <= a.t
        if reaches_zero is not None and xp.any(reaches_zero):
            spread = xp.where(reaches_zero, xp.apply("sqrt", abs(a.v) + a.t), spread)
            if not a.nonnegative:
                may = joined(may, xp.flags(reaches_zero & (lowest < 0) & (a.v >= 0), NAN))
            may = joined(may, xp.flags(reaches_zero & (a.v < 0), UNSPECIFIED))
    t = rounding(v, spread, model.errors["sqrt"] * model.u)
    if model.flush != "none" and not xp.beyond(a.v, a.t, model.tiny):
        flushed = (lowest < model.tiny) & (a.v >= 0)
        if xp.any(flushed):
            t = xp.maximum(t, xp.where(flushed, v, xp.scalar(0.0)))
    if a.may is not None:
        may = joined(may, xp.flags(could_be(a, NINF), NAN))
    return settle(reading, v, t, may, nonnegative=True)


def rsqrt(a: Number) -> Number:
    """1/√a: |v|·((1 - ta/a)^(-1/2) - 1), then c u and underflow; unspecified where a may reach 0."""
    reading, xp = a.reading, a.reading.backend
    model = reading.model
    v = xp.divide(1.0, xp.apply("sqrt", a.v))
    spread: Array = 0.0
    may = None if a.may is None else a.may & LASTING
    if not a.exact:
        ratio = xp.minimum(xp.divide(a.t, a.v), xp.scalar(1.0))
        spread = v * xp.apply("expm1", -0.5 * xp.apply("log1p", -ratio))
        reaches_zero = _reaches_zero(a)
        if reaches_zero is not None:
            spread = xp.where(reaches_zero, xp.scalar(math.inf), spread)
            may = joined(may, xp.flags(reaches_zero, UNSPECIFIED))
    t = rounding(v, spread, model.errors["rsqrt"] * model.u)
    t = with_underflow(reading, v, t, model.underflow("rsqrt"))
    if model.flush != "none" and not xp.beyond(a.v, a.t, model.tiny):
        flushed = (a.v - a.t < model.tiny) & (a.v >= 0)
        if xp.any(flushed):
            may = joined(may, xp.flags(flushed, PINF))
    zero = None if xp.beyond(a.v, 0.0, FLOAT64.eta) else a.v == 0
    if zero is not None and xp.any(zero):
        may = joined(may, xp.flags(zero, PINF | NINF))
    if a.may is not None:
        vanishes = (a.may & PINF) != 0
        t = xp.maximum(t, xp.where(vanishes, v, xp.scalar(0.0)))
        may = joined(may, xp.flags(could_be(a, NINF), NAN))
    return settle(reading, v, t, may)


def tanh(a: Number) -> Number:
    """tanh: ta·sech²(nearest point to 0 of [a - ta, a + ta]), then c u |v| and underflow."""

    def slope(xp: Backend, nearest: Array) -> Array:
        decay = xp.apply("exp", -2 * nearest)
        return xp.divide(4 * decay, (1 + decay) ** 2)

    return _sigmoidal("tanh", a, slope, 1.0)


def erf(a: Number) -> Number:
    """erf: ta·(2/√π)·exp(-x²) at the nearest point to 0 of [a - ta, a + ta], then c u |v| and underflow."""
    steepest = 2 / math.sqrt(math.pi)

    def slope(xp: Backend, nearest: Array) -> Array:
        return steepest * xp.apply("exp", -nearest * nearest)

    return _sigmoidal("erf", a, slope, steepest)


def _sigmoidal(name: str, a: Number, slope: Callable[[Backend, Array], Array], steepest: float) -> Number:
    """An odd function from -1 to 1 whose slope falls from ``steepest`` at 0, where arguments are flushed."""
    reading, xp = a.reading, a.reading.backend
    model = reading.model
    v = xp.apply(name, a.v)
    spread: Array = 0.0
    may = None
    if not a.exact:
        nearest = xp.maximum(abs(a.v) - a.t, xp.scalar(0.0))
        spread, may = _at_most_2(reading, a.t * slope(xp, nearest))
    t = rounding(v, spread, model.errors[name] * model.u)
    t = with_underflow(reading, v, t, steepest * model.underflow(name))
    if a.may is not None:
        may = joined(may, a.may & LASTING)
        t = xp.maximum(t, xp.where((a.may & PINF) != 0, 1 - v, xp.scalar(0.0)))
        t = xp.maximum(t, xp.where((a.may & NINF) != 0, 1 + v, xp.scalar(0.0)))
    infinite = xp.isinf(a.v)
    if xp.any(infinite):
        t = xp.where(infinite, xp.scalar(0.0), t)
    return settle(reading, v, t, may)


def _at_most_2(reading: Reading, spread: Array) -> tuple[Array, Array | None]:
    """A spread between values of [-1, 1], and where it is all of that, so that a reading's own may be off as far."""
    xp = reading.backend
    if xp.within(spread, 0.0, 2.0):
        return spread, None
    return xp.minimum(spread, xp.scalar(2.0)), xp.flags(spread >= 2, SPANNED)


def sin(a: Number) -> Number:
    """sin: ta, then c u |v| and underflow."""
    return _oscillating("sin", a)


def cos(a: Number) -> Number:
    """cos: ta, then c u |v| and underflow."""
    return _oscillating("cos", a)


def _oscillating(name: str, a: Number) -> Number:
    reading, xp = a.reading, a.reading.backend
    model = reading.model
    v = xp.apply(name, a.v)
    spread, may = (0.0, None) if a.exact else _at_most_2(reading, xp.filled(a.t, v))
    t = rounding(v, spread, model.errors[name] * model.u)
    t = with_underflow(reading, v, t, model.underflow(name))
    if a.may is not None:
        may = joined(may, a.may & LASTING) | xp.flags(could_be(a, PINF) | could_be(a, NINF), NAN)
    return settle(reading, v, t, may)


def absolute(a: Number) -> Number:
    """|a|: exact."""
    xp = a.reading.backend
    may = None
    if a.may is not None:
        may = (a.may & LASTING) | xp.flags((a.may & (PINF | NINF)) != 0, PINF)
    return Number(a.reading, xp.absolute(a.v), a.error, may, nonnegative=True)
