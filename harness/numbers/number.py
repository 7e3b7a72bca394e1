"""The abstract number of the error algebra: a value, an allowed error, and what else it may be.

Every number carries ``t >= |what any implementation that keeps its claims may hold - exact|`` (running
error analysis: Wilkinson; Higham, Accuracy and Stability, 2nd ed., ch. 3), and flags for the answers that
an overflow adds to the interval: overflow is a set of answers, not an excuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

from harness.formats import FLOAT64, Format
from harness.numbers.backend import Array, Backend
from harness.numbers.model import Model, compound
from harness.numbers.share import NO_ERROR, Share

FAR = 2.0**1000
"""Magnitude beyond which the float64 reading keeps no value, as no narrower format comes near it."""

PINF, NINF, NAN, UNSPECIFIED, LOST, SPANNED = 1, 2, 4, 8, 16, 32
"""Flags: the implementation may hold +inf, -inf, NaN, anything; LOST: the reading left its own range; SPANNED:
whatever the exact value is, t reaches from v over everything that an implementation may hold."""

LASTING = NAN | UNSPECIFIED | LOST | SPANNED
"""Flags that what is computed of a number has too."""

BRANCH = (
    "a definition may not branch on a number; use where(condition, a, b), and for max and min "
    "harness.numbers.maximum(a, b) and minimum(a, b)"
)
"""What is said of ``if x > 0``, and of the comparisons of Python's own max and min."""


@dataclass(frozen=True)
class Reading:
    """An arithmetic to read a definition with: where values live, and what errors they may carry.

    brief: errors that are costly to bound may be given less than what is allowed, and say so in shortened.
    """

    backend: Backend
    model: Model
    numbered: list[int] = field(default_factory=list, compare=False, repr=False)
    """Axes whose positions the definition asked for: its results depend on where along them a row stands."""
    brief: bool = False
    shortened: list[str] = field(default_factory=list, compare=False, repr=False)

    def exact(self, values: Array) -> Number:
        """An input: its values are exact."""
        return Number(self, values, 0.0)

    def constant(self, value: float) -> Number:
        """A Python scalar: exact value, t = |fl32(s) - s|."""
        error = self.model.constant_error(value)
        number = Number(self, self.backend.constant(value), error, nonnegative=value >= 0)
        if error and self.backend.shares:
            number.share = Share(error / abs(value))
        return number


class Number:
    """An array of values v with allowed errors t (an array that broadcasts to v's shape, or a Python float,
    0.0 where all are exact) and flags, of v's shape. share: t as a share of |v|, if it is one everywhere.

    ``origin`` remembers the operands of a subtraction, for the error of exp2(x c - m c). ``beyond`` is a mask
    of LOST elements, held as ±inf, of which only the sign is known and that they exceed FAR: enough of a
    result in any narrower format, and of a divisor. ``nonnegative``: no implementation holds a negative number,
    however much t allows, as of a square or of a sum of squares.
    """

    __slots__ = ("_t", "beyond", "may", "nonnegative", "origin", "reading", "share", "v")

    def __init__(
        self,
        reading: Reading,
        v: Array,
        t: Array | Share,
        may: Array | None = None,
        origin: tuple[Number, Number] | None = None,
        beyond: Array | None = None,
        nonnegative: bool = False,
    ) -> None:
        self.reading = reading
        self.v = v
        self.share = t if isinstance(t, Share) else None
        self._t = t
        self.may = None if may is None else reading.backend.filled(may, v)
        self.origin = origin
        self.beyond = beyond
        self.nonnegative = nonnegative

    @property
    def t(self) -> Array:
        if isinstance(self._t, Share):
            self._t = self._t.of(self.v)
        return self._t

    @property
    def error(self) -> Array | Share:
        """t, or the share of |v| that it is."""
        return self.share or self._t

    @property
    def exact(self) -> bool:
        """Whether no element carries an error."""
        return is_zero(self._t)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.v.shape)

    def __add__(self, other: Any) -> Number:
        return _add(self, coerce(self.reading, other), 1)

    def __radd__(self, other: Any) -> Number:
        return _add(coerce(self.reading, other), self, 1)

    def __sub__(self, other: Any) -> Number:
        return _add(self, coerce(self.reading, other), -1)

    def __rsub__(self, other: Any) -> Number:
        return _add(coerce(self.reading, other), self, -1)

    def __neg__(self) -> Number:
        return Number(self.reading, -self.v, self.error, _negated(self.may), beyond=self.beyond)

    def __mul__(self, other: Any) -> Number:
        return _multiply(self, coerce(self.reading, other))

    def __rmul__(self, other: Any) -> Number:
        return _multiply(coerce(self.reading, other), self)

    def __truediv__(self, other: Any) -> Number:
        return _divide(self, coerce(self.reading, other))

    def __rtruediv__(self, other: Any) -> Number:
        return _divide(coerce(self.reading, other), self)

    def __pow__(self, exponent: int) -> Number:
        return power(self, exponent)

    def _compared(self, other: Any, operator: str) -> Array:
        b = coerce(self.reading, other)
        if not (self.exact and b.exact):
            raise TypeError(
                f"a definition compares ({operator}) numbers that carry a rounding error, which no kernel "
                "decides the same way; compare inputs, or write it with maximum, minimum or abs"
            )
        return b.v

    def __lt__(self, other: Any) -> Array:
        return self.v < self._compared(other, "<")

    def __le__(self, other: Any) -> Array:
        return self.v <= self._compared(other, "<=")

    def __gt__(self, other: Any) -> Array:
        return self.v > self._compared(other, ">")

    def __ge__(self, other: Any) -> Array:
        return self.v >= self._compared(other, ">=")

    def __eq__(self, other: Any) -> Array:
        return self.v == self._compared(other, "==")

    def __ne__(self, other: Any) -> Array:
        return self.v != self._compared(other, "!=")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError(BRANCH)

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "a number of a definition cannot be looped over: use harness.numbers.sum(x, dim), and for max and "
            "min harness.numbers.amax(x, dim) and harness.numbers.amin(x, dim)"
        )

    def __len__(self) -> NoReturn:
        raise TypeError("a number of a definition has no length: use x.shape[dim]")

    def __float__(self) -> NoReturn:
        raise TypeError("a number of a definition is no float: use the functions of harness.numbers")

    def __getitem__(self, index: Any) -> Number:
        t = self.error
        if not moves(t):
            t = self.reading.backend.filled(self.t, self.v)[index]
        may, beyond = (None if mask is None else mask[index] for mask in (self.may, self.beyond))
        return Number(self.reading, self.v[index], t, may, beyond=beyond, nonnegative=self.nonnegative)


def moves(t: Array | Share) -> bool:
    """Whether an error stays what it is where its number is rearranged."""
    return t.uniform if isinstance(t, Share) else isinstance(t, float)


def uniform(a: Number) -> Share | None:
    """The error of an operand as one share of its magnitude, 0 where it is exact; None where it is none."""
    if a.reading.model.flush == "all" and operand_error(a) is not a.t:
        return None
    if a.exact:
        return NO_ERROR
    return a.share if a.share is not None and a.share.uniform else None


def is_zero(t: Array) -> bool:
    """Whether an error is the Python float 0.0, which stands for exact."""
    return isinstance(t, float) and t == 0.0


def coerce(reading: Reading, value: Any) -> Number:
    """A number as it is, a Python number as a constant."""
    if isinstance(value, Number):
        return value
    if isinstance(value, bool | int | float):
        return reading.constant(float(value))
    hint = "; numbered(x, dim) gives positions as numbers" if hasattr(value, "shape") else ""
    text = f"a {type(value).__name__}" if hint else repr(value)
    raise TypeError(f"a definition combines a number with {text}; use numbers and Python scalars{hint}")


def scalar(like: Number, value: float) -> Number:
    """A Python scalar as a number of the same reading, so that arithmetic on scalars alone is analysed too."""
    return like.reading.constant(float(value))


def combined(may_a: Array | None, may_b: Array | None, keep: int = 0xFF) -> Array | None:
    """Union of two sets of flags, restricted to ``keep``."""
    if may_a is None:
        return None if may_b is None else may_b & keep
    if may_b is None:
        return may_a & keep
    return (may_a | may_b) & keep


def joined(may: Array | None, more: Array) -> Array:
    """Flags with more flags (the shapes broadcast)."""
    return more if may is None else may | more


def could_be(a: Number, flag: int) -> Array:
    """Mask: elements that may be the infinity ``flag`` names, by flag or by value."""
    by_value = a.v == (math.inf if flag == PINF else -math.inf)
    return by_value if a.may is None else by_value | ((a.may & flag) != 0)


def always(a: Number, flag: int) -> Array:
    """Mask: elements that are the infinity ``flag`` names, or NaN, whatever an implementation holds."""
    xp = a.reading.backend
    by_value = (a.v == (math.inf if flag == PINF else -math.inf)) | xp.isnan(a.v)
    return by_value if a.may is None else by_value & ((a.may & (NINF if flag == PINF else PINF)) == 0)


def both_finite(a: Number, b: Number) -> Callable[[], Array]:
    """A mask, computed when called: elements where the values of both are finite."""
    return lambda: a.reading.backend.isfinite(a.v) & b.reading.backend.isfinite(b.v)


def settle(
    reading: Reading,
    v: Array,
    t: Array | Share,
    may: Array | None = None,
    *,
    finite_operands: Callable[[], Array] | None = None,
    origin: tuple[Number, Number] | None = None,
    beyond: Array | None = None,
    nonnegative: bool = False,
) -> Number:
    """A computed number: exact where v is not finite, flagged where it may leave the accumulator's range.

    finite_operands: where its mask holds, an infinite or NaN v means that the reading itself overflowed.
    An error of 0·inf is infinite: the element is untestable.
    """
    xp, threshold = reading.backend, reading.model.overflow
    if xp.within(v, t, threshold):
        return Number(reading, v, t, may, origin, beyond, nonnegative)
    finite = xp.isfinite(v)
    if isinstance(t, Share):
        t = t.of(v)
    if not is_zero(t):
        t = xp.filled(t, v)
        t = xp.where(finite, xp.where(xp.isnan(t), xp.scalar(math.inf), t), xp.scalar(0.0))
    reasons = [(PINF, finite & (v + t >= threshold)), (NINF, finite & (v - t <= -threshold))]
    if finite_operands is not None:
        reasons.append((LOST, ~finite & finite_operands()))
    for flag, mask in reasons:
        if xp.any(mask):
            may = joined(may, xp.flags(mask, flag))
    return Number(reading, v, t, may, origin, beyond, nonnegative)


def rounding(v: Array, spread: Array, relative: float) -> Array:
    """spread + relative·(|v| + spread): errors so far and a rounding, in a new array of v's shape."""
    t = abs(v)
    if isinstance(t, torch.Tensor) and isinstance(spread, torch.Tensor):
        t *= relative
        return t.add_(spread, alpha=1 + relative)
    if is_zero(spread):
        t *= relative
        return t
    t += spread
    t *= relative
    t += spread
    return t


def operand_error(a: Number) -> Array:
    """The error of an operand as an operation sees it: under flush='all' a subnormal may be read as 0."""
    model = a.reading.model
    if model.flush != "all":
        return a.t
    xp = a.reading.backend
    size = abs(a.v)
    small = (size - a.t < model.tiny) & (size > 0)
    return xp.where(small, xp.maximum(xp.filled(a.t, a.v), size), a.t) if xp.any(small) else a.t


def with_underflow(reading: Reading, v: Array, t: Array, amount: float) -> Array:
    """t and what underflow adds to it.

    A flush to zero, an amount of the smallest normal or more, only where what is within t of v may be so
    small (a v of 0 may have underflowed in this reading alone); gradual underflow anywhere.
    """
    if amount < reading.model.tiny or amount == 0:
        t += amount
        return t
    xp = reading.backend
    if xp.beyond(v, t, amount):
        return t
    small = ~(abs(v) - t >= amount)
    return t + xp.where(small, xp.scalar(amount), xp.scalar(0.0)) if xp.any(small) else t


def _negated(may: Array | None) -> Array | None:
    if may is None:
        return None
    rest = may & (0xFF ^ (PINF | NINF))
    return rest | ((may & PINF) * 2) | ((may & NINF) // 2)


def _add(a: Number, b: Number, sign: int) -> Number:
    """a ± b: ta + tb + u(|v| + ta + tb); exact in the subnormal range, so that no underflow term is due."""
    reading, xp = a.reading, a.reading.backend
    model = reading.model
    v = a.v + b.v if sign > 0 else a.v - b.v
    if sign < 0 and not (a.may is None and b.may is None):
        b = -b
    ta, tb = operand_error(a), operand_error(b)
    spread = tb if is_zero(ta) else ta if is_zero(tb) else ta + tb
    t: Array | Share
    if xp.shares and model.flush != "all" and _small(spread, v):
        t = Share(0.0, spread).rounded(model.u)
    else:
        t = rounding(v, spread, model.u)
    if model.flush == "all":
        t = with_underflow(reading, v, t, model.tiny)
    may = combined(a.may, b.may)
    if may is not None:
        clash = (could_be(a, PINF) & could_be(b, NINF)) | (could_be(a, NINF) & could_be(b, PINF))
        may = may | xp.flags(clash & ~xp.isnan(v), NAN)
        never_up, never_down = always(a, NINF) | always(b, NINF), always(a, PINF) | always(b, PINF)
        may = may & (0xFF ^ (xp.flags(never_up, PINF) | xp.flags(never_down, NINF)))
    origin, beyond = (a, b) if sign < 0 else None, _beyond_beside(a, b)
    return settle(
        reading,
        v,
        t,
        may,
        finite_operands=both_finite(a, b),
        origin=origin,
        beyond=beyond,
        nonnegative=sign > 0 and a.nonnegative and b.nonnegative,
    )


def _small(a: Array, v: Array) -> bool:
    """Whether arithmetic on an array is cheap beside that on v, such as one number for each row."""
    return isinstance(a, float) or (a.numel() * 8 <= v.numel() and a.ndim <= v.ndim)


def _beyond_beside(a: Number, b: Number) -> Array | None:
    """Mask of sums of which one term is beyond the reading and the other so small that the sum is, too."""
    found = None
    for far, near in ((a, b), (b, a)):
        if far.beyond is not None:
            mask = far.beyond & (abs(near.v) + near.t < FAR * 2.0**-10)
            found = mask if found is None else found | mask
    return found


def _multiply(a: Number, b: Number) -> Number:
    """a · b: |a|tb + |b|ta + ta·tb, then rounding and underflow."""
    reading, xp = a.reading, a.reading.backend
    v = a.v * b.v
    t = _product_share(a, b) or _product_error(v, a, b)
    may = combined(a.may, b.may, LASTING)
    if a.may is not None:
        may = joined(may, _infinity_times(a.may, b, xp))
    if b.may is not None:
        may = joined(may, _infinity_times(b.may, a, xp))
    if not xp.within(v, 0.0, math.inf):
        for factor, other in ((a, b), (b, a)):
            if not other.exact:
                may = joined(may, _infinite_times_uncertain(factor, other))
    nonnegative = a is b or (a.nonnegative and b.nonnegative)
    return settle(reading, v, t, may, finite_operands=both_finite(a, b), nonnegative=nonnegative)


def _product_share(a: Number, b: Number) -> Share | None:
    """The error of a product of numbers whose own errors are shares of them, without an absolute part."""
    model, first, second = a.reading.model, uniform(a), uniform(b)
    if not a.reading.backend.shares or model.flush == "all":
        return None
    if first is None or second is None or first.least or second.least:
        return _share_times_exact(a, b) or _share_times_exact(b, a)
    spread = first.share + second.share + first.share * second.share
    return Share(spread + model.u * (1 + spread), model.underflow())


def _share_times_exact(a: Number, b: Number) -> Share | None:
    """The same where a's error is a share of it with an absolute part, which b scales."""
    if a.share is None or not b.exact:
        return None
    model = a.reading.model
    return Share(a.share.share, a.share.least * abs(b.v)).rounded(model.u, model.underflow())


def _product_error(v: Array, a: Number, b: Number) -> Array:
    ta, tb = operand_error(a), operand_error(b)
    spread: Array = 0.0
    if not is_zero(tb):
        spread = spread + abs(a.v) * tb
    if not is_zero(ta):
        spread = spread + abs(b.v) * ta
    if not (is_zero(ta) or is_zero(tb)):
        spread = spread + ta * tb
    t = rounding(v, spread, a.reading.model.u)
    return with_underflow(a.reading, v, t, a.reading.model.underflow())


def _infinite_times_uncertain(a: Number, b: Number) -> Array:
    """Flags of an infinite value times a number that may be 0 or of either sign: both infinities and NaN."""
    xp = a.reading.backend
    return xp.flags(xp.isinf(a.v) & (abs(b.v) <= b.t) & ~xp.isnan(b.v), PINF | NINF | NAN)


def _infinity_times(may: Array, other: Number, xp: Backend) -> Array:
    """Flags of (possible infinities) × other: by the sign of other, everything where that is uncertain."""
    positive, negative = other.v > other.t, other.v < -other.t
    zero = (other.v == 0) & (other.t == 0)
    unsure = ~(positive | negative | zero | xp.isnan(other.v))
    plus, minus = (may & PINF) != 0, (may & NINF) != 0
    either = plus | minus
    return (
        xp.flags((plus & positive) | (minus & negative), PINF)
        | xp.flags((plus & negative) | (minus & positive), NINF)
        | xp.flags(either & zero, NAN)
        | xp.flags(either & unsure, UNSPECIFIED)
    )


def _divide(a: Number, b: Number) -> Number:
    """a / b: (ta + |v|tb) over the perturbed denominator |b| - tb, then c u and underflow; over an exact 0, of
    what may be 0 or of either sign, both infinities and NaN.

    By an exact power of two no digit is lost, unless the quotient is subnormal (div.full.f32 on an H200,
    Triton 3.6.0: none of 1.2·10^7 was off, while of the exact quotients by other numbers a fifth was).
    """
    reading, xp = a.reading, a.reading.backend
    model = reading.model
    v = xp.divide(a.v, b.v)
    share = _quotient_share(a, b, v)
    if share is not None:
        nonnegative = a.nonnegative and b.nonnegative
        return settle(reading, v, share, finite_operands=both_finite(a, b), nonnegative=nonnegative)
    ta, tb = operand_error(a), operand_error(b)
    may = combined(a.may, b.may, LASTING)
    spread: Array = 0.0
    if is_zero(tb):
        if not is_zero(ta):
            spread = xp.divide(ta, abs(b.v))
    else:
        smallest = abs(b.v) - tb
        spread = abs(v)
        spread *= tb
        spread += ta
        spread = xp.divide(spread, smallest)
        unsafe = None
        if not xp.positive(smallest):
            unsafe = (smallest <= 0) & (xp.filled(tb, b.v) > 0)
        if unsafe is not None and xp.any(unsafe):
            spread = xp.where(unsafe, xp.scalar(math.inf), spread)
            may = joined(may, xp.flags(unsafe & xp.isfinite(a.v), UNSPECIFIED))
            may = may | xp.flags(unsafe & xp.isinf(a.v), PINF | NINF)
    t = rounding(v, spread, model.errors["divide"] * model.u)
    t = with_underflow(reading, v, t, model.underflow("divide"))
    if model.accumulator is not None and (is_zero(tb) or model.flush == "all"):
        power = _powers_of_two(b, tb, model.accumulator)
        if power is not None:
            kept = power & (abs(v) - spread >= model.tiny)
            t = xp.where(kept, spread if isinstance(spread, float) else xp.filled(spread, v), t)
    zero = None if xp.beyond(b.v, 0.0, FLOAT64.eta) else b.v == 0
    if zero is not None and xp.any(zero):
        may = joined(may, xp.flags(zero & (a.v != 0) & ~xp.isnan(a.v), PINF | NINF))
        if not is_zero(ta):
            may = may | xp.flags(zero & (abs(a.v) <= ta) & (ta > 0), PINF | NINF | NAN)
    if b.may is not None:
        vanishes = (b.may & (PINF | NINF)) != 0
        t = xp.maximum(t, xp.where(vanishes, abs(v), xp.scalar(0.0)))
        both = vanishes & (could_be(a, PINF) | could_be(a, NINF))
        may = joined(may, xp.flags(both, NAN))
    if a.may is not None:
        may = joined(may, _infinity_times(a.may, b, xp))
    if b.beyond is not None and may is not None:
        # The exact quotient is less than 2^-500, far below eta, which t has.
        known = b.beyond & (abs(a.v) + a.t < FAR * 2.0**-500)
        known = known if a.may is None else known & ((a.may & LOST) == 0)
        may = may & (0xFF ^ xp.flags(known, LOST))
    nonnegative = a.nonnegative and b.nonnegative

    def finite_operands() -> Array:
        return both_finite(a, b)() & (b.v != 0)

    return settle(reading, v, t, may, finite_operands=finite_operands, nonnegative=nonnegative)


def _powers_of_two(b: Number, error: Array, fmt: Format) -> Array | bool | None:
    """Mask of exact divisors that are normal powers of two, True for a scalar that is one; None if there are none."""
    xp = b.reading.backend
    if xp.shares and b.v.numel() == 1 and is_zero(error):
        digits, exponent = math.frexp(abs(b.v.item()))
        return True if digits == 0.5 and fmt.emin < exponent <= fmt.emax + 1 else None
    mask = (abs(b.v) == xp.half_ulp(b.v, fmt) * 2.0**fmt.precision) & (error == 0)
    return mask if xp.any(mask) else None


def _quotient_share(a: Number, b: Number, v: Array) -> Share | None:
    """The error of a quotient of a number whose error is a share of it, by few inexact ones that keep off 0.

    With |a| = |v||b|, (ta + |v|tb) / (|b| - tb) is a share of |v|, too. None where another rule applies.
    """
    xp, model = a.reading.backend, a.reading.model
    if a.share is None or b.exact or a.may is not None or b.may is not None or b.beyond is not None:
        return None
    if not xp.shares or not model.underflow("divide") < model.tiny or not _small(b.v, v):
        return None
    size, c = abs(b.v), model.errors["divide"] * model.u
    if b.share is not None and b.share.uniform and not b.share.least and xp.beyond(b.v, b.share, FLOAT64.eta):
        kept = (1 + c) / (1 - b.share.share)
        return Share(
            (a.share.share + b.share.share) * kept + c,
            a.share.least * kept / size + model.underflow("divide"),
        )
    if not _small(b.t, v):
        return None
    smallest = size - b.t
    if not xp.positive(smallest):
        return None
    own = a.share.share * (size * (1 + c) / smallest)
    own += b.t * (1 + c) / smallest + c
    return Share(own, a.share.least * (1 + c) / smallest + model.underflow("divide"))


def power(b: Number, n: Any) -> Number:
    """bⁿ for an integer n: n·tb·(|b| + tb)ⁿ⁻¹, then c u (u for a square), underflow of n - 1 products."""
    if not isinstance(n, int) or n < 1:
        raise TypeError(f"a definition raises a number to {n!r}; use a positive integer")
    if n == 1:
        return b
    reading, xp = b.reading, b.reading.backend
    model = reading.model
    v = b.v
    for _ in range(n - 1):
        v = v * b.v
    tb = operand_error(b)
    spread = 0.0 if is_zero(tb) else n * tb * (abs(b.v) + tb) ** (n - 1)
    relative = model.u if n == 2 else compound(max(n - 1, model.errors["power"]), model.u)
    t = rounding(v, spread, relative)
    t = with_underflow(reading, v, t, (n - 1) * model.underflow())
    may = None
    if b.may is not None:
        infinite = xp.flags((b.may & (PINF | NINF)) != 0, PINF) if n % 2 == 0 else b.may & (PINF | NINF)
        may = (b.may & LASTING) | infinite
    nonnegative = n % 2 == 0 or b.nonnegative
    return settle(reading, v, t, may, finite_operands=lambda: xp.isfinite(b.v), nonnegative=nonnegative)
