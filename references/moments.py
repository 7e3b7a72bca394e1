"""Variance, Euclidean norm and running sum along one axis, as torch.var, linalg.vector_norm and cumsum."""

from __future__ import annotations

from harness import numbers
from harness.contracts import Dim, SpecialRow
from harness.declaration import contract
from harness.numbers import Number, sqrt, sum

_SPREAD = (
    "offset",
    "one-huge",
    "half-ulps",
    "equal",
    "decisive-large",
    "positive",
    "small-integers",
    "alternating",
    "ascending",
    "near-overflow",
    "near-underflow",
    "subnormal",
    "nan-at",
    "inf-at",
)
_NOT_FINITE = (
    SpecialRow("NaN first", ("nan",), ("1",), "nan"),
    SpecialRow("NaN second", ("1", "nan"), ("2",), None),
    SpecialRow("NaN, then inf", ("nan", "inf"), ("1",), "nan"),
)


@contract(
    args={"x": "*shape", "dim": Dim("x"), "correction": (0, 1)},
    returns="*shape-dim",
    rows="all but dim",
    families=_SPREAD,
    special=(
        *_NOT_FINITE,
        SpecialRow("+inf first", ("inf",), ("1",), "nan"),
        SpecialRow("-inf among finite", ("1", "-inf"), ("1",), None),
        SpecialRow("all inf", (), ("inf",), "nan"),
        SpecialRow("constant", (), ("3",), None),
    ),
)
def var(x: Number, dim: int, correction: int) -> Number:
    """Σ(xᵢ - mean)² / (n - correction); NaN where n <= correction, and over an empty axis.

    Without a claim the bound is Welford's, whose running mean may be wrong to first order in the largest
    element: no float32 row was seen to use more than a twentieth of it. Under variance='two-pass' right
    kernels reach 0.23.
    """
    return numbers.var(x, dim, correction)


@contract(
    args={"x": "*shape", "dim": Dim("x")},
    returns="*shape-dim",
    rows="all but dim",
    families=_SPREAD,
    special=(
        *_NOT_FINITE,
        SpecialRow("+inf first", ("inf",), ("1",), "inf"),
        SpecialRow("-inf second", ("1", "-inf"), ("1",), None),
        SpecialRow("all -inf", (), ("-inf",), "inf"),
        SpecialRow("all 0", (), ("0",), "0"),
        SpecialRow("all -0", (), ("-0",), "0"),
    ),
    roundings={"squares": "each square is rounded to the input's format before it is added"},
)
def vector_norm(x: Number, dim: int) -> Number:
    """√Σxᵢ²; 0 over an empty axis. Where a square may overflow the accumulator, +inf is right too."""
    return sqrt(sum(numbers.rounded(x * x, "squares"), dim))


@contract(
    args={"x": "*shape", "dim": Dim("x")},
    returns="*shape",
    rows="all but dim",
    families=(
        "decisive-large",
        "half-ulps",
        "equal",
        "positive",
        "one-huge",
        "cancelling-pairs",
        "ill-conditioned",
        "near-overflow",
        "positive-integers",
        "small-integers",
        "alternating",
        "nan-at",
        "inf-at",
    ),
    special=(
        *_NOT_FINITE,
        SpecialRow("+inf first", ("inf",), ("1",), "inf"),
        SpecialRow("-inf second", ("1", "-inf"), ("1",), None),
        SpecialRow("+inf, later -inf", ("1", "inf", "1", "-inf"), ("1",), None),
        SpecialRow("all -inf", (), ("-inf",), "-inf"),
        SpecialRow("all 0", (), ("0",), "0"),
    ),
)
def cumsum(x: Number, dim: int) -> Number:
    """x₀ + … + xᵢ for every i; after an infinity it stays, after two of unlike sign it is NaN."""
    return numbers.cumsum(x, dim)
