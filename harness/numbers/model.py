"""The arithmetic that an error bound assumes: unit roundoff, range, depths and primitive errors.

A model is plain data. :class:`harness.arithmetic.Arithmetic` derives one from an author's claims; the
oracle's own radius uses :func:`oracle_model`, the same rules with the oracle's unit roundoff.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness import formats
from harness.errors import nearest
from harness.formats import Format

PRIMITIVE_ERRORS: Mapping[str, float] = {
    "exp": 5.0,
    "log": 5.0,
    "divide": 5.0,
    "sqrt": 3.0,
    "rsqrt": 3.0,
    "tanh": 5.0,
    "erf": 5.0,
    "sin": 5.0,
    "cos": 5.0,
    "power": 5.0,
}
"""Largest error of each primitive in u, its final rounding included (numerics.md §1: PTX ISA 9.1 and an
H200 under Triton 3.6.0; div.full 2 ulp, ex2.approx 2 ulp, rsqrt.approx 1.51 ulp, libdevice 1 to 2 ulp)."""

LOG2E_ROUNDINGS: Mapping[int, float] = {53: 1.13, 24: 1.23}
"""By precision: the rounding of exp(x) = exp2(x·log2 e) per |x|, in u: a multiplication and the rounded
constant (0.127 and 0.224)."""

FLUSHED = frozenset({"exp", "sqrt", "rsqrt", "tanh", "erf", "sin", "log"})
"""Primitives whose arguments and results a device may flush to zero under flush='approximate' (an H200 under
Triton 3.6.0 does so in exp2, sqrt, rsqrt, tanh, erf and sin, and not in cos or division)."""


HOPELESS = 300.0
"""Exponents are cut off here, so that errors of which nothing is certain stay finite float64 numbers."""


def compound(roundings: float, u: float) -> float:
    """(1 + u)^roundings - 1: the relative error of so many roundings in a row."""
    return math.expm1(min(roundings * math.log1p(u), HOPELESS))


@dataclass(frozen=True)
class Dot:
    """How a dot product treats its operands: u_in and eta_in are the input rounding (TF32 2^-10), fmt the
    format that they are reduced to, whose values stay as they are; c the accumulator's error per term in u
    (2((kb+1)/2^g + 1)/kb of a tensor core), extra a relative error of the products of split schemes."""

    u_in: float = 0.0
    eta_in: float = 0.0
    c: float = 1.0
    extra: float = 0.0
    fmt: Format | None = None


@dataclass(frozen=True)
class Model:
    """Parameters of the error rules. u, eta and tiny are the accumulator's unit roundoff, smallest
    subnormal and smallest normal; threshold is where it overflows. places: those that the contract names as
    roundings, None for any."""

    u: float
    eta: float
    tiny: float
    threshold: float
    accumulator: Format | None = None
    depth: int | str | None = None
    online: bool = False
    exp: str = "shifted"
    variance: str = "any"
    flush: str = "approximate"
    errors: Mapping[str, float] = field(default_factory=lambda: dict(PRIMITIVE_ERRORS))
    roundings: Mapping[str, Format] = field(default_factory=dict)
    places: tuple[str, ...] | None = None
    dot: Dot = Dot()
    float32_scalars: bool = True

    def reduction_depth(self, n: int) -> int:
        """Roundings on the longest path of a reduction of ``n`` terms.

        Default min(n-1, ceil(n/16) + 64), 'sequential' n-1, twice that where an online softmax is a usual
        form; a number is itself, but no more than 'sequential'.
        """
        if n <= 1:
            return 0
        factor = 2 if self.online else 1
        if isinstance(self.depth, int):
            return min(factor * (n - 1), self.depth)
        if self.depth == "sequential":
            return factor * (n - 1)
        return factor * min(n - 1, math.ceil(n / 16) + 64)

    def growth(self, n: int) -> float:
        """Error of a sum of ``n`` terms relative to the sum of their magnitudes: (1+u)^depth - 1, at most
        (n-1)u in any order (Jeannerod & Rump 2013, doi:10.1137/120894488), which no rescaled sum keeps."""
        along_the_path = compound(self.reduction_depth(n), self.u)
        return along_the_path if self.online else min(along_the_path, max(n - 1, 0) * self.u)

    def claimed(self, place: str | None) -> Format | None:
        """The format of the cast that is claimed at a place, if any; ValueError for one that no claim could name."""
        if place is not None and self.places is not None and place not in self.places:
            known = ", ".join(self.places) or "none"
            raise ValueError(
                f"{place!r} is no place of its roundings; {nearest(place, self.places)}places: {known}"
            )
        return self.roundings.get(place or "")

    def stored(self, place: str | None) -> Format | None:
        """The format in which what an accumulator holds is stored at a claimed place, if that changes it.

        A store in the accumulator's own format, or a wider one, rounds nothing: float32 kernels whose partial
        sums are in the input's format add no error.
        """
        fmt, held = self.claimed(place), self.accumulator
        if fmt is None or (held is not None and fmt.precision >= held.precision and fmt.max >= held.max):
            return None
        return fmt

    @property
    def overflow(self) -> float:
        """Where the accumulator overflows; for float64, whose threshold is no float64, its largest number."""
        if self.accumulator is not None and math.isinf(self.threshold):
            return self.accumulator.max
        return self.threshold

    @property
    def log2e_rounding(self) -> float:
        """Rounding of the argument of exp(x) = exp2(x·log2 e) per |x|, in u; 1.5 covers any constant. The
        oracle's exp is no exp2."""
        return LOG2E_ROUNDINGS.get(self.accumulator.precision, 1.5) if self.accumulator else 0.0

    def underflow(self, primitive: str | None = None) -> float:
        """Largest absolute error from underflow: of one rounding, eta; of a primitive of c u, c half ulps of
        eta, rounded up; the smallest normal where results may be flushed."""
        if self.flush == "all" or (self.flush == "approximate" and primitive in FLUSHED):
            return self.tiny
        return self.eta * max(1, math.ceil(self.errors[primitive] / 2) if primitive else 1)

    def constant_error(self, value: float) -> float:
        """|fl32(s) - s|: a Python scalar may be rounded to float32 before it is used, or not at all.

        Under an accumulator narrower than that it may be rounded to its format too, as PyTorch's vectorised
        operations on 16-bit tensors round theirs; not to 0 nor beyond the range.
        """
        if not self.float32_scalars or not math.isfinite(value):
            return 0.0
        return _scalar_error(value, self.accumulator)


@functools.lru_cache(maxsize=4096)
def _scalar_error(value: float, accumulator: Format | None) -> float:
    single = formats.round_to(value, formats.FLOAT32)
    held = [value, single]
    if accumulator is not None and accumulator.precision < formats.FLOAT32.precision:
        narrow = [formats.round_to(each, accumulator) for each in held]
        held += [each for each in narrow if each and math.isfinite(each)]
    return max(abs(each - value) for each in held)


def oracle_model(precision: int) -> Model:
    """The oracle's own arithmetic at ``precision`` bits: any order of summation, no range limits."""
    return Model(
        u=2.0**-precision,
        eta=0.0,
        tiny=0.0,
        threshold=math.inf,
        depth="sequential",
        flush="none",
        float32_scalars=False,
    )
