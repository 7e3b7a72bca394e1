"""Elementary functions of double-double arrays, each within 2^-98 of its value.

Arguments are reduced with constants of three or four words, computed by mpmath when they are first needed;
what is left is summed by Taylor series. Special values are those of float64.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import mpmath
import torch

from harness.numbers.double import (
    SMALLEST,
    VANISHES,
    Double,
    add,
    add_float,
    chosen,
    divide,
    multiply,
    scaled,
    scaled_apart,
    two_product,
    two_sum,
)

_TABLE = 64
_LARGEST_ANGLE = 2.0**30
"""Arguments of sin and cos beyond this are unknown: multiples of π/2 are subtracted in four words."""


def apply(name: str, a: Double) -> Double:
    """One of exp, expm1, log, log1p, sqrt, tanh, erf, sin and cos."""
    return _FUNCTIONS[name](a)


def exp(a: Double) -> Double:
    """exp(k ln2/64 + r) = 2^(k // 64) · 2^(k % 64 / 64) · exp(r), |r| <= ln2/128."""
    x, ends = _moderate(a, -1500.0, 1500.0)
    count, r = _reduced(x)
    index = torch.remainder(count, _TABLE).to(torch.int64)
    table_high, table_low = _table()
    power = Double(table_high[index], table_low[index])
    value = multiply(power, add_float(_expm1_series(r), 1.0))
    value = scaled(value, torch.div(count - index, _TABLE).to(torch.int64))
    subnormal = (x.hi < -745.2) & (x.hi > VANISHES * math.log(2.0))
    value = chosen(x.hi < -745.2, 0.0, value)
    value = Double(value.hi, torch.where(subnormal, math.nan, value.lo))
    return _with_ends(value, a, ends, torch.exp(a.hi))


def expm1(a: Double) -> Double:
    """The series of exp(r) - 1 for |a| < 1/128·ln 2, exp(a/2^j) - 1 doubled j times below 1/2, exp(a) - 1."""
    small = a.hi.abs() < 0.5
    value = add_float(exp(a), -1.0)
    value = chosen(a.hi < -80.0, -1.0, value)
    if not bool(small.any()):
        return value
    near = chosen(small, a, 0.0)
    doublings = 7
    part = _expm1_series(near.each(lambda w: w * 2.0**-doublings))
    for _ in range(doublings):  # exp(2r) - 1 = (exp(r) - 1)(exp(r) + 1)
        part = multiply(part, add_float(part, 2.0))
    # of what is too small the square vanishes, and the low word with it
    tiny = near.hi.abs() < 2.0**-110
    part = chosen(tiny, near, part)
    return chosen(small, part, value)


def log(a: Double) -> Double:
    """log(m 2^k) = log1p(m - 1) + k ln2, m in [0.7, 1.4]."""
    usual = (a.hi > 0) & torch.isfinite(a.hi)
    x = chosen(usual, a, 1.0)
    mantissa, exponent = scaled_apart(x)
    low = mantissa.hi < math.sqrt(0.5)
    exponent = exponent - low.to(exponent.dtype)
    mantissa = scaled(mantissa, low.to(torch.int64))
    value = _log1p_near(add_float(mantissa, -1.0))
    k = exponent.to(torch.float64)
    for word in _words_of("ln2", 3):
        value = add(value, Double(*two_product(k, torch.full_like(k, word))))
    return _with_ends(value, a, ~usual, torch.log(a.hi))


def log1p(a: Double) -> Double:
    """Near 0 by its own digits, elsewhere log(1 + a)."""
    near = a.hi.abs() < 0.4
    value = log(add_float(chosen(near, 0.0, a), 1.0))
    return chosen(near, _log1p_near(chosen(near, a, 0.0)), value) if bool(near.any()) else value


def sqrt(a: Double) -> Double:
    """One Newton step from the float64 root; small arguments are scaled by 2^200 first."""
    usual = (a.hi > 0) & torch.isfinite(a.hi)
    x = chosen(usual, a, 1.0)
    small = (x.hi < 2.0**-700).to(torch.int64)
    x = scaled(x, 200 * small)
    root = torch.sqrt(x.hi)
    rest = add(x, -Double(*_square(root)))
    high, low = two_sum(root, rest.hi / (2.0 * root))
    value = scaled(Double(high, low + rest.lo / (2.0 * root)), -100 * small)
    return _with_ends(value, a, ~usual, torch.sqrt(a.hi))


def tanh(a: Double) -> Double:
    """-w/(2 + w) of w = expm1(-2|a|), with the sign of a."""
    negative = (a.hi < 0) | ((a.hi == 0) & (a.lo < 0))
    size = chosen(negative, -a, a)
    w = expm1(chosen(size.hi < 50.0, size, 50.0).each(lambda word: -2.0 * word))
    value = chosen(size.hi < 2.0**-60, size, divide(-w, add_float(w, 2.0)))
    value = chosen(size.hi < 50.0, value, 1.0)
    cubic = multiply(size, add_float(multiply(size, size).each(lambda word: word / -3.0), 1.0))
    value = chosen(size.hi < 2.0**-60, chosen(size.hi < 2.0**-110, size, cubic), value)
    value = chosen(negative, -value, value)
    return _with_ends(value, a, torch.isnan(a.hi) | (a.hi == 0), torch.tanh(a.hi))


def erf(a: Double) -> Double:
    """2/√π · exp(-x²) · Σ 2^n x^(2n+1) / (2n+1)!!, all of one sign; ±1 from 9.3 on, to 2^-127."""
    size = a.hi.abs()
    x = chosen(size < 9.3, a, 9.3)
    x = chosen(torch.isnan(a.hi), 0.0, x)
    tiny = x.hi.abs() < 2.0**-440
    square = multiply(chosen(tiny, 0.0, x), chosen(tiny, 0.0, x))
    twice = square.each(lambda word: 2.0 * word)
    total = term = Double(torch.ones_like(x.hi))
    n = 0
    while n < 600 and bool((term.hi > total.hi * 2.0**-112).any()):
        n += 1
        term = multiply(term, twice)
        term = divide(term, Double(torch.full_like(x.hi, 2.0 * n + 1.0)))
        term = Double(term.hi, torch.where(term.hi.abs() < SMALLEST, 0.0, term.lo))
        total = add(total, term)
    value = multiply(multiply(multiply(x, total), exp(-square)), _constant("erf", x))
    value = chosen(size < 9.3, value, Double(torch.sign(torch.nan_to_num(a.hi))))
    return _with_ends(value, a, torch.isnan(a.hi) | (a.hi == 0), torch.special.erf(a.hi))


def sin(a: Double) -> Double:
    """By the quadrant of a, ± sin or cos of what is left of it."""
    return _circular(a, 0)


def cos(a: Double) -> Double:
    """By the quadrant of a, ± cos or sin of what is left of it."""
    return _circular(a, 1)


def _circular(a: Double, shift: int) -> Double:
    plain = torch.cos(a.hi) if shift else torch.sin(a.hi)
    usual = a.hi.abs() <= _LARGEST_ANGLE
    x = chosen(usual, a, 0.0)
    count = torch.round(x.hi * (2 / math.pi))
    r = x
    for word in _words_of("half pi", 4):
        r = add(r, -Double(*two_product(count, torch.full_like(count, word))))
    quadrant = torch.remainder(count, 4).to(torch.int64) + shift
    tiny = r.hi.abs() < 2.0**-110
    near = chosen(tiny, 0.0, r)
    square = multiply(near, near)
    sine = add(r, multiply(near, _series(square, lambda n: -1.0 / ((2 * n) * (2 * n + 1)), 15)))
    cosine = add_float(_series(square, lambda n: -1.0 / ((2 * n - 1) * (2 * n)), 15), 1.0)
    value = chosen(quadrant % 2 == 1, cosine, sine)
    value = chosen(quadrant % 4 >= 2, -value, value)
    value = chosen(usual, value, Double(plain, torch.full_like(plain, math.nan)))
    return _with_ends(value, a, ~torch.isfinite(a.hi) | ((a.hi == 0) & (a.lo == 0)), plain)


def _series(x: Double, ratio: Callable[[int], float], terms: int) -> Double:
    """x c1 (1 + x c2 (1 + …)): a series by the ratios of its terms, c = 1/integer, from the last to the first."""
    value = Double(torch.zeros_like(x.hi))
    for n in range(terms, 0, -1):
        whole = Double(torch.full_like(x.hi, float(round(1.0 / ratio(n)))))
        value = divide(multiply(x, add_float(value, 1.0)), whole)
        if bool((x.hi == 0).any()):
            value = chosen(x.hi == 0, 0.0, value)
    return value


def _expm1_series(r: Double) -> Double:
    """exp(r) - 1 for |r| <= 0.0055, to 2^-104."""
    tiny = r.hi.abs() < 2.0**-440
    near = chosen(tiny, 0.0, r)
    return chosen(tiny, r, _series(near, lambda n: 1.0 / n, 14))


def _log1p_near(d: Double) -> Double:
    """log(1 + d) for |d| <= 0.42: a Newton step y + (d - w)/(1 + w), w = exp(y) - 1, from float64's."""
    y = Double(torch.log1p(d.hi))
    w = expm1(y)
    step = divide(add(d, -w), add_float(w, 1.0))
    step = chosen((step.hi.abs() < SMALLEST) & ~d.unknown, Double(step.hi), step)
    square = Double(step.hi * step.hi * -0.5)
    value = add(add(y, step), square)
    return chosen(d.hi.abs() < 2.0**-110, d, value)


def _reduced(x: Double) -> tuple[torch.Tensor, Double]:
    """k and r of x = k ln2/64 + r."""
    count = torch.round(x.hi * (_TABLE / math.log(2.0)))
    r = x
    for word in _words_of("ln2", 3):
        r = add(r, -Double(*two_product(count, torch.full_like(count, word / _TABLE))))
    return count, r


def _moderate(a: Double, low: float, high: float) -> tuple[Double, torch.Tensor]:
    """Arguments within a range, and a mask of those that were not."""
    ends = ~((a.hi > low) & (a.hi < high))
    return (chosen(ends, 0.0, a) if bool(ends.any()) else a), ends


def _with_ends(value: Double, a: Double, ends: torch.Tensor, plain: torch.Tensor) -> Double:
    """What float64 gives for special arguments; unknown where the argument was."""
    value = chosen(ends, Double(plain), value) if bool(ends.any()) else value
    unknown = a.unknown
    return Double(value.hi, torch.where(unknown, math.nan, value.lo)) if bool(unknown.any()) else value


def _square(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return two_product(a, a)


@functools.cache
def _words_of(name: str, words: int) -> tuple[float, ...]:
    """A constant as a sum of float64 numbers, each the rounding of what is left."""
    context = mpmath.MPContext()
    context.prec = 400
    value = {
        "ln2": context.ln2,
        "half pi": context.pi / 2,
        "erf": 2 / context.sqrt(context.pi),
    }[name]
    return _split(+value, words)


def _split(value: object, words: int) -> tuple[float, ...]:
    found = []
    for _ in range(words):
        found.append(float(value))  # type: ignore[arg-type]
        value = value - found[-1]  # type: ignore[operator]
    return tuple(found)


def _constant(name: str, like: Double) -> Double:
    high, low = _words_of(name, 2)
    return Double(torch.full_like(like.hi, high), torch.full_like(like.hi, low))


@functools.cache
def _table() -> tuple[torch.Tensor, torch.Tensor]:
    """2^(j/64) for j < 64, in two words."""
    context = mpmath.MPContext()
    context.prec = 400
    pairs = [_split(context.mpf(2) ** (context.mpf(j) / _TABLE), 2) for j in range(_TABLE)]
    high, low = zip(*pairs, strict=True)
    return torch.tensor(high, dtype=torch.float64), torch.tensor(low, dtype=torch.float64)


_FUNCTIONS: dict[str, Callable[[Double], Double]] = {
    "exp": exp,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "sqrt": sqrt,
    "tanh": tanh,
    "erf": erf,
    "sin": sin,
    "cos": cos,
}
