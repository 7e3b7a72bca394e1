"""softmax, log_softmax and logsumexp along one axis, as the torch functions of the same names."""

from __future__ import annotations

from harness.contracts import Dim, SpecialRow
from harness.declaration import contract
from harness.numbers import Number, amax, exp, isfinite, log, rounded, sum, where

_ARGS: dict[str, str | Dim] = {"x": "*shape", "dim": Dim("x")}
_FAMILIES = (
    "offset",
    "decisive-max",
    "decisive-one-hot",
    "decisive-step",
    "all-negative",
    "stagnation",
    "mask-values",
    "equal-maxima",
    "ascending",
    "creeping",
    "equal",
    "wide",
    "some-minus-inf",
    "leading-minus-inf",
    "minus-inf-row",
    "nan-at",
    "inf-at",
)
_STEPS = {
    "shifted": "x - max is rounded to the input's format",
    "exponentials": "exp(x - max) is rounded to the input's format",
    "total": "the sum of exponentials is rounded to the input's format",
}
_LOGARITHM = {"logarithm": "the logarithm of the sum is rounded to the input's format"}
_NAN_ROWS = (
    SpecialRow("NaN first", ("nan",), ("1",), "nan"),
    SpecialRow("NaN third", ("1", "2", "nan"), ("1",), None),
    SpecialRow("NaN and inf", ("inf", "nan"), ("1",), None),
    SpecialRow("all NaN", (), ("nan",), "nan"),
)
_UNDEFINED = (
    *_NAN_ROWS,
    SpecialRow("all -inf", (), ("-inf",), "nan"),
    SpecialRow("+inf among finite", ("inf",), ("1",), None),
    SpecialRow("all +inf", (), ("inf",), "nan"),
    SpecialRow("-inf among finite", ("1", "-inf"), ("1", "-inf"), None),
    SpecialRow("one finite", ("-3",), ("-inf",), None),
)


@contract(
    args=_ARGS,
    returns="*shape",
    rows="all but dim",
    families=_FAMILIES,
    special=_UNDEFINED,
    roundings=_STEPS,
    online=True,
)
def softmax(x: Number, dim: int) -> Number:
    """exp(x - max) / Σ exp(x - max)."""
    e = rounded(exp(rounded(x - amax(x, dim), "shifted")), "exponentials")
    return e / rounded(sum(e, dim), "total")


@contract(
    args=_ARGS,
    returns="*shape",
    rows="all but dim",
    families=_FAMILIES,
    special=_UNDEFINED,
    roundings={
        **_STEPS,
        **_LOGARITHM,
        "lse": "written as x - (max + log Σ), the bracket rounded to the input's format",
    },
    online=True,
)
def log_softmax(x: Number, dim: int) -> Number:
    """(x - max) - log Σ exp(x - max)."""
    m = amax(x, dim)
    shifted = rounded(x - m, "shifted")
    total = rounded(sum(rounded(exp(shifted), "exponentials"), dim), "total")
    logarithm = rounded(log(total), "logarithm")
    return shifted - rounded(logarithm, "lse", at=m + logarithm)


@contract(
    args=_ARGS,
    returns="*shape-dim",
    rows="all but dim",
    families=_FAMILIES,
    special=(
        *_NAN_ROWS,
        SpecialRow("all -inf", (), ("-inf",), "-inf"),
        SpecialRow("+inf among finite", ("inf",), ("1",), "inf"),
        SpecialRow("all +inf", (), ("inf",), "inf"),
        SpecialRow("+inf and -inf", ("inf",), ("-inf",), "inf"),
        SpecialRow("-inf among finite", ("1", "-inf"), ("1", "-inf"), None),
        SpecialRow("one finite", ("-3",), ("-inf",), "-3"),
    ),
    roundings={**_STEPS, **_LOGARITHM},
    online=True,
)
def logsumexp(x: Number, dim: int) -> Number:
    """max + log Σ exp(x - max), with an infinite max shifted by 0; -inf over an empty axis."""
    m = amax(x, dim)
    shift = where(isfinite(m), m, 0.0)
    e = rounded(exp(rounded(x - shift, "shifted")), "exponentials")
    return shift + rounded(log(rounded(sum(e, dim), "total")), "logarithm")
