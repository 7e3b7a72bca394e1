"""What an author claims of a kernel's arithmetic, and the error model that follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness import formats
from harness.contracts import Contract
from harness.errors import HarnessError, nearest
from harness.formats import Format
from harness.limits import is_positive
from harness.numbers.model import PRIMITIVE_ERRORS, Dot, Model

CHOICES: Mapping[str, tuple[Any, ...]] = {
    "dot": ("ieee", "tf32", "tf32x3", "bf16", "fp8"),
    "variance": ("any", "two-pass", "textbook"),
    "exp": ("shifted", "scaled"),
    "flush": ("approximate", "none", "all"),
    "saturate": (None, True, False),
    "deterministic": (True, False),
    "batch_invariant": (True, False),
    "layout_invariant": (True, False),
}
"""The values of claims that have few."""

_DOTS: Mapping[str, Dot] = {
    "ieee": Dot(),
    "tf32": Dot(u_in=2.0**-10, eta_in=2.0**-136, fmt=formats.TF32),
    "tf32x3": Dot(eta_in=2.0**-136, c=3.0, extra=3 * 2.0**-22, fmt=formats.TF32),
    "bf16": Dot(u_in=2.0**-8, eta_in=2.0**-134, fmt=formats.BFLOAT16),
    "fp8": Dot(c=33 / 32 * 2.0**11),
}
"""Operand errors of a dot: TF32 is truncated to 11 bits (measured on an H200, Triton 3.6.0). The low parts of
tf32x3 are lost below TF32's smallest subnormal. fp8 operands are exact, and the tensor cores of an H200 align 32
products and the running sum to the largest, and cut them 13 bits behind its first: 33·2⁻¹³ for 32 products
(numerics.md §2; Khattak & Mikaitis, arXiv:2512.07004)."""


@dataclass(frozen=True)
class Arithmetic:
    """A claim; the defaults are what a kernel is held to without one.

    accumulator: format of sums ('float32' means float64 for float64 inputs), and of scalars where it is
    narrower than float32; depth: roundings on the longest path of a reduction, None for min(n-1, ceil(n/16)
    + 64), 'sequential' for n-1; dot: treatment of operands, or 'fp8', whose products the tensor cores of
    Hopper add in 13 bits; roundings: named places of the contract that are rounded to the input's format;
    variance, exp: the form; ulp: primitive errors in u by name; flush: subnormals flushed by exp2, sqrt,
    rsqrt, tanh, erf, sin and log ('approximate'), by nothing or by everything; saturate: overflow gives the
    largest finite value (None: as the format does);
    deterministic, batch_invariant, layout_invariant: bits may not differ between runs, batches or layouts.
    """

    accumulator: str = "float32"
    depth: int | str | None = None
    dot: str = "ieee"
    roundings: tuple[str, ...] = ()
    variance: str = "any"
    exp: str = "shifted"
    ulp: Mapping[str, float] = field(default_factory=dict)
    flush: str = "approximate"
    saturate: bool | None = None
    deterministic: bool = False
    batch_invariant: bool = False
    layout_invariant: bool = False

    def __post_init__(self) -> None:
        formats.format_of(self.accumulator)
        if not (
            self.depth is None
            or self.depth == "sequential"
            or (isinstance(self.depth, int) and not isinstance(self.depth, bool) and self.depth >= 0)
        ):
            raise HarnessError(
                f"claim depth={self.depth!r}: give None, 'sequential' or a number of roundings >= 0"
            )
        for name, choices in CHOICES.items():
            given = getattr(self, name)
            if not any(type(given) is type(choice) and given == choice for choice in choices):
                words = ", ".join(map(str, choices))
                raise HarnessError(f"claim {name}={given!r}: {nearest(given, choices)}choose from {words}")
        if not isinstance(self.roundings, str | tuple | list):
            raise HarnessError(f"claim roundings={self.roundings!r}: give the names of places")
        object.__setattr__(self, "roundings", _names(self.roundings))
        if not isinstance(self.ulp, Mapping):
            raise HarnessError(f"claim ulp={self.ulp!r}: give errors in u by primitive, such as {{'exp': 3}}")
        object.__setattr__(self, "ulp", dict(self.ulp))
        for primitive, error in self.ulp.items():
            if primitive not in PRIMITIVE_ERRORS:
                known = list(PRIMITIVE_ERRORS)
                raise HarnessError(
                    f"claim ulp names {primitive!r}; {nearest(primitive, known)}primitives: {', '.join(known)}"
                )
            if not is_positive(error):
                raise HarnessError(f"claim ulp[{primitive!r}]={error!r}: give a positive, finite number of u")

    def __hash__(self) -> int:
        return hash(str(sorted(self.claimed().items(), key=str)))

    def claimed(self) -> dict[str, Any]:
        """Only the fields that differ from the defaults, as a dict to paste."""
        default = {item.name: _default(item) for item in dataclasses.fields(self)}
        return {name: getattr(self, name) for name in default if getattr(self, name) != default[name]}

    def accumulator_for(self, fmt: Format) -> Format:
        """The accumulator's format for inputs of ``fmt``."""
        if self.accumulator == "float32" and fmt is formats.FLOAT64:
            return formats.FLOAT64
        return formats.format_of(self.accumulator)

    def model(self, contract: Contract, fmt: Format) -> Model:
        """The error model for ``contract`` on inputs of ``fmt``.

        Raises HarnessError for a rounding that the contract does not name.
        """
        accumulator = self.accumulator_for(fmt)
        if self.dot == "fp8" and fmt.bits != 8:
            raise HarnessError(f"claim dot='fp8' is of fp8 operands, and these are {fmt.name}")
        for place in self.roundings:
            if place not in contract.roundings:
                known = list(contract.roundings)
                raise HarnessError(
                    f"claim roundings names {place!r}, which is no place of {contract.name}; "
                    f"{nearest(place, known)}places: {', '.join(known) or 'none'}"
                )
        places = dict.fromkeys((*contract.usual, *self.roundings), fmt)
        return Model(
            u=accumulator.u,
            eta=accumulator.eta,
            tiny=accumulator.tiny,
            threshold=accumulator.overflow_threshold,
            accumulator=accumulator,
            depth=self.depth,
            online=contract.online,
            exp=self.exp,
            variance=self.variance,
            flush=self.flush,
            errors={**PRIMITIVE_ERRORS, **self.ulp},
            roundings=places,
            places=tuple(contract.roundings),
            dot=_DOTS[self.dot],
        )


def arithmetic(given: Arithmetic | Mapping[str, Any] | None) -> Arithmetic:
    """Claims as given to a public function; unknown fields raise with the nearest name."""
    if given is None:
        return Arithmetic()
    if isinstance(given, Arithmetic):
        return given
    known = [item.name for item in dataclasses.fields(Arithmetic)]
    if not isinstance(given, Mapping):
        raise HarnessError(
            f"claims={given!r}: give an Arithmetic or a dict such as {{'depth': 'sequential'}}"
        )
    for name in given:
        if name not in known:
            raise HarnessError(f"unknown claim {name!r}; {nearest(name, known)}known: {', '.join(known)}")
    return Arithmetic(**given)


def _names(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _default(item: dataclasses.Field[Any]) -> Any:
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return item.default
