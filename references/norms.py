"""Normalisation of rows: layer_norm, rms_norm, group_norm and add_rms_norm, as the torch functions."""

from __future__ import annotations

from harness.contracts import Choice, Output, SizeOf, SpecialRow, Tensor
from harness.declaration import contract
from harness.numbers import Number, mean, reshape, rounded, sqrt, standardised, var
from harness.values import POSITION, Family, Param
from harness.values.family import place

_NEAR_EPS = Family(
    "near-eps",
    lambda s, n, fmt, size: size * s.signs(n, 1) * (1.0 + 0.25 * s.uniform(n)),
    (Param("size", (3e-3, 3e-2, 1e-3, 1e-6)),),
    frozenset({"structured"}),
)
"""Both signs of a size near √eps, where it matters on which side of the root eps stands."""

_ONE_LARGE = Family(
    "one-large",
    lambda s, n, fmt, height, position: place(s.normal(n), position, height),
    (Param("height", (200.0, -40.0)), POSITION),
    frozenset({"decisive"}),
)
"""Bell-shaped, with one outlier that makes most of the variance."""

_FAMILIES = (
    "offset",
    _NEAR_EPS,
    _ONE_LARGE,
    "gaussian",
    "positive",
    "equal",
    "half-ulps",
    "one-huge",
    "decisive-large",
    "ascending",
    "near-overflow",
    "near-underflow",
    "subnormal",
    "nan-at",
    "inf-at",
)
_SPECIAL = (
    SpecialRow("NaN first", ("nan",), ("1",), "nan"),
    SpecialRow("NaN second", ("1", "nan"), ("2",), "nan"),
    SpecialRow("inf and NaN", ("inf", "nan"), ("1",), "nan"),
    SpecialRow("constant", (), ("3",), None),
    SpecialRow("all 0", (), ("0",), None),
)
_EPS = Choice((1e-5, 1e-3, 1e-12, 1e-6))
_NORMALIZED = {"normalized": "the normalised row is rounded to the input's format before it meets the weight"}


@contract(
    args={
        "x": "*batch N",
        "weight": Tensor("N", optional=True),
        "bias": Tensor("N", optional=True),
        "eps": _EPS,
    },
    returns="*batch N",
    rows="all but last",
    families=_FAMILIES,
    special=(*_SPECIAL, SpecialRow("+inf first", ("inf",), ("1",), "nan")),
    roundings=_NORMALIZED,
)
def layer_norm(x: Number, weight: Number | None, bias: Number | None, eps: float) -> Number:
    """(x - mean)/√(var + eps)·weight + bias over the last axis."""
    y = rounded(standardised(x, -1, eps), "normalized")
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _root_mean_square(x: Number, eps: float) -> Number:
    return sqrt(mean(x * x, -1) + eps)


@contract(
    args={"x": "*batch N", "weight": Tensor("N", optional=True), "eps": _EPS},
    returns="*batch N",
    rows="all but last",
    families=_FAMILIES,
    special=(*_SPECIAL, SpecialRow("+inf second", ("1", "inf"), ("1",), None)),
    roundings=_NORMALIZED,
)
def rms_norm(x: Number, weight: Number | None, eps: float) -> Number:
    """x/√(mean x² + eps)·weight over the last axis.

    Where a square may overflow the accumulator, everything between 0 and twice the value is right.
    """
    y = rounded(x / _root_mean_square(x, eps), "normalized")
    return y if weight is None else y * weight


@contract(
    args={"x": "*batch N", "residual": "*batch N", "weight": Tensor("N", optional=True), "eps": _EPS},
    returns=(Output("*batch N", name="y"), Output("*batch N", name="total")),
    rows="all but last",
    families=_FAMILIES,
    given=("total",),
    roundings=_NORMALIZED,
)
def add_rms_norm(
    x: Number, residual: Number, weight: Number | None, eps: float, given: dict[str, Number]
) -> tuple[Number, Number]:
    """(rms_norm of the returned total, total = x + residual)."""
    total = given["total"]
    y = rounded(total / _root_mean_square(total, eps), "normalized")
    return y if weight is None else y * weight, x + residual


@contract(
    args={
        "x": "N G*Cg *spatial",
        "num_groups": SizeOf("G"),
        "weight": Tensor("G*Cg", optional=True),
        "bias": Tensor("G*Cg", optional=True),
        "eps": _EPS,
    },
    returns="N G*Cg *spatial",
    rows="N",
    nonempty=("G", "Cg"),
    families=_FAMILIES,
    roundings={
        **_NORMALIZED,
        "folded": "written as x·scale + (bias - mean·scale), both parts rounded to the input's format",
    },
)
def group_norm(x: Number, num_groups: int, weight: Number | None, bias: Number | None, eps: float) -> Number:
    """layer_norm of each of the num_groups groups of neighbouring channels, weight and bias by channel."""
    samples, channels, *spatial = x.shape
    count = channels // num_groups
    for length in spatial:
        count *= length
    groups = (samples, num_groups, count)
    y = rounded(reshape(standardised(reshape(x, groups), -1, eps), x.shape), "normalized")
    scaled = reshape(reshape(x, groups) / sqrt(var(reshape(x, groups), -1) + eps), x.shape)
    along = (channels, *(1 for _ in spatial))
    if weight is not None:
        y, scaled = y * reshape(weight, along), scaled * reshape(weight, along)
    if bias is not None:
        y = y + reshape(bias, along)
    return rounded(rounded(y, "folded", at=scaled, summand=True), "folded", at=y - scaled)
