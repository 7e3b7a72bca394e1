"""Where the extremes lie: argmax and argmin along one axis, as the torch functions (without keepdim)."""

from __future__ import annotations

import numpy as np

from harness import numbers
from harness.contracts import Dim, Output, SpecialRow
from harness.declaration import contract
from harness.numbers import Number
from harness.values import POSITION, Family
from harness.values.family import Setting, place

_ARGS: dict[str, str | Dim] = {"x": "*shape", "dim": Dim("x")}
_INDEX = Output("*shape-dim", kind="exact", dtype="int64")
_NANS = (
    SpecialRow("NaN first", ("nan",), ("1",), "0"),
    SpecialRow("NaN third, then another", ("1", "inf", "nan", "-inf", "nan"), ("1",), "2"),
    SpecialRow("NaN among infinities", ("inf", "-inf", "nan"), ("inf", "-inf"), "2"),
    SpecialRow("all NaN", (), ("nan",), "0"),
)
_EARLY_NAN = Family(
    "early-nan",
    lambda s, n, fmt, position: place(s.normal(n), position, np.nan),
    (POSITION,),
    frozenset({"special"}),
    (Setting((("position", 1.0),), None, 600),),
)
"""A NaN near the start of a row of several blocks, which none of the later ones may undo."""

_FAMILIES = (
    _EARLY_NAN,
    "nan-at",
    "inf-at",
    "equal-maxima",
    "all-negative",
    "positive",
    "window",
    "subnormal",
    "inf-nan",
    "gaussian",
    "decisive-step",
)


@contract(
    args=_ARGS,
    returns=_INDEX,
    rows="all but dim",
    nonempty=("dim",),
    families=("decisive-max", "ascending", "leading-minus-inf", *_FAMILIES),
    special=(
        *_NANS,
        SpecialRow("all -inf", (), ("-inf",), "0"),
        SpecialRow("ties after less", ("1",), ("3",), "1"),
        SpecialRow("zeros of both signs after less", ("-1", "-0", "0"), ("-0", "0"), "1"),
        SpecialRow("largest second, twice", ("1", "4", "2", "4"), ("1",), "1"),
        SpecialRow("finite after -inf", ("-inf", "-1"), ("-inf",), "1"),
    ),
)
def argmax(x: Number, dim: int) -> Number:
    """Index of the largest element, exactly: the first of ties; the first NaN wins."""
    return numbers.argmax(x, dim)


@contract(
    args=_ARGS,
    returns=_INDEX,
    rows="all but dim",
    nonempty=("dim",),
    families=("decisive-min", "descending", *_FAMILIES),
    special=(
        *_NANS,
        SpecialRow("all +inf", (), ("inf",), "0"),
        SpecialRow("ties after more", ("5",), ("3",), "1"),
        SpecialRow("zeros of both signs after more", ("1", "0", "-0"), ("-0", "0"), "1"),
        SpecialRow("smallest second, twice", ("1", "-4", "2", "-4"), ("1",), "1"),
        SpecialRow("finite after +inf", ("inf", "1"), ("inf",), "1"),
    ),
)
def argmin(x: Number, dim: int) -> Number:
    """Index of the smallest element, exactly: the first of ties; the first NaN wins."""
    return numbers.argmin(x, dim)
