"""Activations, elementwise: gelu, silu, swiglu and softcap, as the torch functions where there are any."""

from __future__ import annotations

import math

from harness.contracts import SpecialRow
from harness.declaration import contract
from harness.numbers import Number, erf, rounded, sigmoid, tanh
from harness.values import Family, Param

_TAIL = Family(
    "tail",
    lambda s, n, fmt, low: low * s.uniform(n),
    (Param("low", (-8.0, 8.0, -16.0, -100.0, -700.0)),),
    frozenset({"structured"}),
)
"""Arguments where an activation is flat, or decays to 0."""

_FAMILIES = (
    _TAIL,
    "gaussian",
    "wide",
    "window",
    "equal",
    "near-overflow",
    "near-underflow",
    "subnormal",
    "signed-zeros",
    "inf-nan",
)
_NAN = SpecialRow("NaN", (), ("nan",), "nan")
_ZEROS = (SpecialRow("0", (), ("0",), "0"), SpecialRow("-0", (), ("-0",), "0"))
_GATES = (
    _NAN,
    *_ZEROS,
    SpecialRow("+inf", (), ("inf",), "inf"),
    SpecialRow("-inf", (), ("-inf",), "nan"),
)


@contract(
    args={"x": "*shape", "approximate": ("none", "tanh")},
    returns="*shape",
    rows="all but last",
    families=_FAMILIES,
    special=_GATES,
)
def gelu(x: Number, approximate: str) -> Number:
    """x·(1 + erf(x/√2))/2, or x·(1 + tanh(√(2/π)·(x + 0.044715x³)))/2; -inf gives -inf·0 = NaN.

    The bracket of a negative x is a difference, so that only its absolute accuracy is asked for.
    """
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
        return 0.5 * x * (1.0 + tanh(inner))
    return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))


@contract(args={"x": "*shape"}, returns="*shape", rows="all but last", families=_FAMILIES, special=_GATES)
def silu(x: Number) -> Number:
    """x / (1 + exp(-x)); -inf gives NaN."""
    return x * sigmoid(x)


@contract(
    args={"gate": "*shape", "up": "*shape"},
    returns="*shape",
    rows="all but last",
    families=_FAMILIES,
    special=(_NAN, SpecialRow("-inf", (), ("-inf",), "nan")),
    roundings={"silu": "silu(gate) is rounded to the input's format before it is multiplied"},
)
def swiglu(gate: Number, up: Number) -> Number:
    """silu(gate)·up."""
    return rounded(gate * sigmoid(gate), "silu") * up


@contract(
    args={"x": "*shape", "cap": (30.0, 1.0, 50.0, 0.3)},
    returns="*shape",
    rows="all but last",
    families=_FAMILIES,
    special=(_NAN, *_ZEROS, SpecialRow("+inf", (), ("inf",), None), SpecialRow("-inf", (), ("-inf",), None)),
    roundings={
        "scaled": "x / cap is rounded to the input's format",
        "tanh": "the hyperbolic tangent is rounded to the input's format",
    },
)
def softcap(x: Number, cap: float) -> Number:
    """cap·tanh(x / cap)."""
    return cap * rounded(tanh(rounded(x / cap, "scaled")), "tanh")
