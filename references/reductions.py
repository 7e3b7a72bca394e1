"""Sums, products and extremes along one axis, as the torch functions of the same names (without keepdim)."""

from __future__ import annotations

from harness import numbers
from harness.contracts import Dim, SpecialRow
from harness.declaration import contract
from harness.numbers import Number

_ARGS: dict[str, str | Dim] = {"x": "*shape", "dim": Dim("x")}
_LARGEST = (SpecialRow("+inf among finite", ("inf",), ("1",), "inf"),)
_INFINITE = (
    SpecialRow("-inf among finite", ("1", "-inf"), ("1",), None),
    SpecialRow("NaN first", ("nan",), ("1",), "nan"),
    SpecialRow("NaN second", ("1", "nan"), ("2",), None),
)
_SUMS = (
    *_LARGEST,
    *_INFINITE,
    SpecialRow("+inf and -inf", ("inf", "-inf"), ("1",), None),
    SpecialRow("all -inf", (), ("-inf",), "-inf"),
    SpecialRow("all 0", (), ("0",), "0"),
    SpecialRow("all -0", (), ("-0",), "0"),
)
_SUM_FAMILIES = (
    "decisive-large",
    "half-ulps",
    "equal",
    "positive",
    "one-huge",
    "cancelling-pairs",
    "ill-conditioned",
    "near-overflow",
    "small-integers",
    "positive-integers",
    "midpoints",
    "alternating",
)
_PARTIALS = {"partials": "partial sums of blocks are stored in the input's format before they are added"}


@contract(
    args=_ARGS,
    returns="*shape-dim",
    rows="all but dim",
    families=_SUM_FAMILIES,
    special=_SUMS,
    roundings=_PARTIALS,
)
def sum(x: Number, dim: int) -> Number:
    """Σ xᵢ; 0 over an empty axis. Exact before the last rounding where every partial sum is, in any order."""
    return numbers.exact_sum(x, dim, partials="partials")


@contract(
    args=_ARGS,
    returns="*shape-dim",
    rows="all but dim",
    families=_SUM_FAMILIES,
    special=_SUMS,
    roundings=_PARTIALS,
)
def mean(x: Number, dim: int) -> Number:
    """Σ xᵢ / n; NaN over an empty axis."""
    return numbers.mean(x, dim, partials="partials")


@contract(
    args=_ARGS,
    returns="*shape-dim",
    rows="all but dim",
    families=(
        "decisive-factor",
        "near-one",
        "one-plus-ulps",
        "balancing-powers",
        "signs",
        "with-zero",
        "partial-overflow",
        "small-integers",
    ),
    special=(
        *_LARGEST,
        *_INFINITE,
        SpecialRow("0 and inf", ("0", "inf"), ("1",), None),
        SpecialRow("all 0", (), ("0",), "0"),
        SpecialRow("all 1", (), ("1",), "1"),
    ),
)
def prod(x: Number, dim: int) -> Number:
    """Π xᵢ; 1 over an empty axis."""
    return numbers.prod(x, dim)


_EXTREMES = (
    *_INFINITE,
    SpecialRow("inf, then NaN", ("inf", "nan"), ("1",), None),
    SpecialRow("NaN, then -inf", ("nan", "-inf"), ("1",), "nan"),
    SpecialRow("+inf first", ("inf",), ("1",), None),
    SpecialRow("all NaN", (), ("nan",), "nan"),
    SpecialRow("all -inf", (), ("-inf",), "-inf"),
    SpecialRow("all +inf", (), ("inf",), "inf"),
    SpecialRow("ties", (), ("3",), "3"),
    SpecialRow("both zeros", ("-0", "0"), ("0",), "0"),
)
_EXTREME_FAMILIES = (
    "decisive-max",
    "decisive-min",
    "all-negative",
    "positive",
    "window",
    "nan-at",
    "inf-at",
    "equal-maxima",
    "subnormal",
    "signed-zeros",
)


@contract(
    args=_ARGS,
    returns="*shape-dim",
    rows="all but dim",
    nonempty=("dim",),
    families=_EXTREME_FAMILIES,
    special=_EXTREMES,
)
def amax(x: Number, dim: int) -> Number:
    """max xᵢ, exactly; NaN if any is."""
    return numbers.amax(x, dim)


@contract(
    args=_ARGS,
    returns="*shape-dim",
    rows="all but dim",
    nonempty=("dim",),
    families=_EXTREME_FAMILIES,
    special=_EXTREMES,
)
def amin(x: Number, dim: int) -> Number:
    """min xᵢ, exactly; NaN if any is."""
    return numbers.amin(x, dim)
