"""Double-double arrays: unevaluated sums hi + lo of two float64 tensors, about 104 bits.

Algorithms: Dekker, Numer. Math. 18 (1971), doi:10.1007/BF01397083; Knuth's TwoSum; their combinations and
error bounds: Joldes, Muller & Popescu, ACM TOMS 44 (2017), doi:10.1145/3121432. Every operation here errs by
less than 2^-102 of its result.

What leaves that accuracy says so: a low word that is not finite marks an element as *unknown*, and stays
with everything computed from it. Products and quotients below 2^-960, whose low words would be subnormal,
are unknown, and so is what overflows in a step before the result does. Those below 2^-1500 are 0, and known.

Beside tensors, which are allowed errors and need few digits, a double-double counts as its high word: the
result is a tensor. Python floats are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

SMALLEST = 2.0**-960
"""Products below this may lose digits: the error of a product of 53-bit numbers is a multiple of 2^-1074."""

VANISHES = -1500
"""Exponent of products and quotients that are as good as 0: an operation that underflows allows 2^-1074, of which
a reading may be off by 2^-43; even under three roots what is left out is less than that share of what is allowed."""

_HALF_LOW_BITS = 1 << 26
_HIGH_BITS = -(1 << 27)

_MIXED = (
    "add",
    "sub",
    "mul",
    "truediv",
    "radd",
    "rsub",
    "rmul",
    "rtruediv",
    "iadd",
    "isub",
    "imul",
    "itruediv",
)
_REFLECTED = frozenset(getattr(torch.Tensor, f"__{name}__") for name in _MIXED)


class Double:
    """An array hi + lo with |lo| <= ulp(hi)/2; lo is 0 where hi is infinite or NaN, not finite where unknown."""

    __slots__ = ("hi", "lo")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, hi: torch.Tensor, lo: torch.Tensor | None = None) -> None:
        self.hi = hi
        self.lo = torch.zeros_like(hi) if lo is None else lo

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> torch.Tensor:
        """A tensor's operator with a double-double on its right: the high word."""
        if function not in _REFLECTED:
            raise TypeError(f"{function} would drop the low words of a double-double")
        return cast(torch.Tensor, function(*(a.hi if isinstance(a, cls) else a for a in args)))

    @property
    def shape(self) -> torch.Size:
        return self.hi.shape

    @property
    def ndim(self) -> int:
        return self.hi.ndim

    @property
    def device(self) -> torch.device:
        return self.hi.device

    @property
    def unknown(self) -> torch.Tensor:
        """Mask of elements whose accuracy was lost on the way."""
        return ~torch.isfinite(self.lo)

    def each(self, move: Callable[[torch.Tensor], torch.Tensor]) -> Double:
        """Both words, moved alike."""
        return Double(move(self.hi), move(self.lo))

    def reshape(self, *shape: Any) -> Double:
        return self.each(lambda a: a.reshape(*shape))

    def narrow(self, dim: int, start: int, length: int) -> Double:
        return Double(self.hi.narrow(dim, start, length), self.lo.narrow(dim, start, length))

    def __getitem__(self, index: Any) -> Double:
        return self.each(lambda a: a[index])

    def __neg__(self) -> Double:
        return Double(-self.hi, -self.lo)

    def __abs__(self) -> torch.Tensor:
        """The magnitude of the high word, a new tensor: what allowed errors are made of."""
        return self.hi.abs()

    def __add__(self, other: Any) -> Any:
        if isinstance(other, torch.Tensor):
            return self.hi + other
        if isinstance(other, Double):
            return add(self, other)
        return add_float(self, other)

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, torch.Tensor):
            return self.hi * other
        return multiply(self, _as_double(other, self))

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, torch.Tensor):
            return self.hi / other
        return divide(self, _as_double(other, self))

    def __rtruediv__(self, other: Any) -> Any:
        if isinstance(other, torch.Tensor):
            return other / self.hi
        return divide(_as_double(other, self), self)

    def __mod__(self, whole: int) -> Double:
        """The rest of a division by 1: that of the high word or, where that is whole, of the low one; 0 of whole
        numbers alone, as a low word of less than half an ulp makes no other high word whole."""
        if whole != 1:
            raise TypeError("double-doubles know the rest of a division by 1 only")
        rest = self.hi % 1
        return Double(torch.where(rest == 0, self.lo % 1, rest))

    def __lt__(self, other: Any) -> torch.Tensor:
        return _compared(self, other, torch.lt)

    def __le__(self, other: Any) -> torch.Tensor:
        return _compared(self, other, torch.le)

    def __gt__(self, other: Any) -> torch.Tensor:
        return _compared(self, other, torch.gt)

    def __ge__(self, other: Any) -> torch.Tensor:
        return _compared(self, other, torch.ge)

    def __eq__(self, other: Any) -> torch.Tensor:  # type: ignore[override]
        high, low = _words(other)
        same: torch.Tensor = (self.hi == high) & (self.lo == low)
        return same

    def __ne__(self, other: Any) -> torch.Tensor:  # type: ignore[override]
        same: torch.Tensor = self == other
        return ~same


def two_sum(a: torch.Tensor, b: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """a + b rounded, and its error, exactly (Knuth)."""
    s = a + b
    of_b = s - a
    error = (a - (s - of_b)) + (b - of_b)
    return s, error


def two_product(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """a · b rounded, and its error: exact where the product is at least SMALLEST (Dekker, split by bits)."""
    p = a * b
    high_a, high_b = _high(a), _high(b)
    low_a, low_b = a - high_a, b - high_b
    error = ((high_a * high_b - p) + high_a * low_b + low_a * high_b) + low_a * low_b
    return p, error


def add(a: Double, b: Double) -> Double:
    """a + b to 3·2^-106 of the sum, cancellation or not (AccurateDWPlusDW)."""
    high, low = two_sum(a.hi, b.hi)
    other, rest = two_sum(a.lo, b.lo)
    c = low + other
    sum_ = high + c
    c = c - (sum_ - high)
    return _settled(high, sum_, rest + c, a.lo, b.lo)


def add_float(a: Double, b: float) -> Double:
    """a + b for an exact Python number, to 2·2^-106 of the sum."""
    high, low = two_sum(a.hi, float(b))
    return _settled(high, high, low + a.lo, a.lo, a.lo)


def multiply(a: Double, b: Double) -> Double:
    """a · b to 8·2^-106 of the product; unknown where it is too small for that."""
    p, error = two_product(a.hi, b.hi)
    error = error + (a.hi * b.lo + a.lo * b.hi + a.lo * b.lo)
    error = _unless_tiny(p, error, a.hi, b.hi, 1)
    return _settled(p, p, error, a.lo, b.lo)


def divide(a: Double, b: Double) -> Double:
    """a / b to 10·2^-106 of the quotient, three steps of long division; unknown where a part is too small."""
    q = a.hi / b.hi
    endless = torch.isinf(b.hi)
    if bool(endless.any()):
        return chosen(endless, Double(q, 0.0 * (a.lo + b.lo)), divide(a, chosen(endless, 1.0, b)))
    first = torch.where(torch.isfinite(q), q, 0.0)
    rest = add(a, -_times_word(b, first))
    second = rest.hi / b.hi
    rest = add(rest, -_times_word(b, second))
    high, low = two_sum(first, second)
    # With the low word of the rest, what is not known of a stays so.
    low = low + (rest.hi + rest.lo) / b.hi
    low = _unless_tiny(q, low, a.hi, b.hi, -1)
    low = _unless_tiny(a.hi, low, a.hi, b.hi, -1)
    return _settled(q, high, low, a.lo, b.lo)


def sum_along(a: Double, dim: int) -> Double:
    """The sum along an axis, kept, as a balanced tree: depth ceil(log2 n)."""
    if a.shape[dim] == 0:
        return Double(a.hi.new_zeros((*a.shape[:dim], 1, *a.shape[dim + 1 :])))
    while a.shape[dim] > 1:
        a = _folded(a, dim, add)
    return a


def cumulative_sum(a: Double, dim: int) -> Double:
    """Prefix sums, each of depth ceil(log2 n) (Hillis and Steele)."""
    step, n = 1, a.shape[dim]
    while step < n:
        moved = add(a.narrow(dim, step, n - step), a.narrow(dim, 0, n - step))
        a = joined([a.narrow(dim, 0, step), moved], dim)
        step *= 2
    return a


def product_along(a: Double, dim: int) -> Double:
    """The product along an axis, kept, without intermediate overflow: exponents are counted apart."""
    mantissa, exponent = scaled_apart(a)
    total = exponent.to(torch.int64).sum(dim, keepdim=True)
    while mantissa.shape[dim] > 1:
        mantissa = _folded(mantissa, dim, multiply)
        mantissa, shift = scaled_apart(mantissa)
        total = total + shift.to(torch.int64).sum(dim, keepdim=True)
    if mantissa.shape[dim] == 0:
        mantissa = Double(torch.ones_like(total, dtype=torch.float64))
    return scaled(mantissa, total.clamp(-4000, 4000))


def scaled_apart(a: Double) -> tuple[Double, torch.Tensor]:
    """a as m · 2^e with 1/2 <= |m| < 1, or 0; infinities and NaN stay, with e = 0."""
    high, exponent = torch.frexp(a.hi)
    exponent = torch.where(torch.isfinite(a.hi) & (a.hi != 0), exponent, 0)
    low = _ldexp(a.lo, -exponent)
    return Double(torch.where(torch.isfinite(a.hi), high, a.hi), low), exponent


def scaled(a: Double, exponent: torch.Tensor) -> Double:
    """a · 2^exponent; unknown where that is too small to be exact, but not as good as 0, or an overflow."""
    high, low = _ldexp(a.hi, exponent), _ldexp(a.lo, exponent)
    lost = (a.hi != 0) & (high.abs() < SMALLEST) & (exponent < 0)
    if bool(lost.any()):
        lost = lost & (torch.frexp(a.hi)[1] + exponent >= VANISHES)
    lost = lost | (torch.isfinite(a.hi) & torch.isinf(high))
    return Double(high, torch.where(lost, math.nan, low))


def joined(parts: Sequence[Double], dim: int) -> Double:
    """Arrays joined along an axis."""
    return Double(torch.cat([part.hi for part in parts], dim), torch.cat([part.lo for part in parts], dim))


def chosen(condition: torch.Tensor, a: Double | float, b: Double | float) -> Double:
    """Elements of a where the condition holds, else of b."""
    like = a if isinstance(a, Double) else b
    a, b = _as_double(a, like), _as_double(b, like)
    return Double(torch.where(condition, a.hi, b.hi), torch.where(condition, a.lo, b.lo))


def _ldexp(a: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """a · 2^exponent in steps that no power of two in between leaves."""
    for _ in range(5):
        step = exponent.clamp(-1000, 1000)
        a, exponent = torch.ldexp(a, step), exponent - step
    return a


def _folded(a: Double, dim: int, combine: Callable[[Double, Double], Double]) -> Double:
    """Halves of an axis combined; the last element of an odd one is taken along."""
    n = a.shape[dim]
    half = n // 2
    result = combine(a.narrow(dim, 0, half), a.narrow(dim, half, half))
    return joined([result, a.narrow(dim, n - 1, 1)], dim) if n % 2 else result


def _high(a: torch.Tensor) -> torch.Tensor:
    """a rounded to its upper 26 bits."""
    bits: torch.Tensor = (a.view(torch.int64) + _HALF_LOW_BITS) & _HIGH_BITS
    return bits.view(torch.float64)


def _times_word(a: Double, q: torch.Tensor) -> Double:
    """a · q for one word q, without regard to range."""
    p, error = two_product(a.hi, q)
    error = error + a.lo * q
    high = p + error
    return Double(high, error - (high - p))


def _unless_tiny(
    size: torch.Tensor, error: torch.Tensor, a: torch.Tensor, b: torch.Tensor, sign: int
) -> torch.Tensor:
    """The error of a product (sign 1) or quotient (-1) of a and b: not known where a size is too small, 0 where it
    was made of zeros or vanishes."""
    tiny = (size.abs() < SMALLEST) & (a != 0)
    tiny = tiny & (b != 0) if sign > 0 else tiny
    if not bool(tiny.any()):
        return error
    exponent = torch.frexp(a)[1] + sign * torch.frexp(b)[1]
    vanishes = tiny & (exponent < VANISHES) & torch.isfinite(error)
    return torch.where(vanishes, 0.0, torch.where(tiny, math.nan, error))


def _settled(
    plain: torch.Tensor, high: torch.Tensor, low: torch.Tensor, a_low: torch.Tensor, b_low: torch.Tensor
) -> Double:
    """high + low normalised, where the plain float64 result is finite; else that, with a low word of 0.

    Where the low word is not finite, the high word stays what float64 gives.
    """
    total = high + low
    if bool(torch.isfinite(total).all()):
        return Double(total, low - (total - high))
    finite, known = torch.isfinite(plain), torch.isfinite(low)
    total = torch.where(finite & known, total, plain)
    rest = torch.where(known, low - (total - high), math.nan)
    return Double(total, torch.where(finite, rest, 0.0 * (a_low + b_low)))


def _as_double(value: Any, like: Any) -> Double:
    if isinstance(value, Double):
        return value
    device = like.device if isinstance(like, Double) else None
    return Double(torch.tensor(value, dtype=torch.float64, device=device))


def _compared(a: Double, other: Any, compare: Callable[[torch.Tensor, Any], torch.Tensor]) -> torch.Tensor:
    """By the high words, and where those are equal by the low ones."""
    high, low = _words(other)
    result: torch.Tensor = torch.where(a.hi == high, compare(a.lo, low), compare(a.hi, high))
    return result


def _words(value: Any) -> tuple[Any, Any]:
    return (value.hi, value.lo) if isinstance(value, Double) else (value, 0.0)
