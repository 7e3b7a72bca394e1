"""Matrix products: matmul, bmm, addmm, and linear with its bias and activation.

Row m of a and column n of b are what one output needs, so that each (m, n) is a situation of its own, and
every row of a meets every column of b. Rows keep K <= 1024 often enough for the truncation of TF32,
2^-10 of each operand, to exceed the K·2^-24 that a float32 dot may err by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from harness import numbers
from harness.contracts import Output, Tensor
from harness.declaration import contract
from harness.formats import Format
from harness.numbers import Number, erf, maximum, rounded
from harness.values import Family, Stream
from harness.values.family import accumulator, place


def _dot_half_ulps(s: Stream, n: int, fmt: Format) -> Any:
    """2**8 and then 2**(8 - p/2): in the product of two such rows every term after the first is half an ulp
    of the accumulator's p bits, lost if they are added one by one."""
    head = min(8, fmt.emax)
    row = np.full(n, np.ldexp(1.0, head - accumulator(fmt).precision // 2))
    return place(row, 0, np.ldexp(1.0, head))


_HALF_ULPS = Family("dot-half-ulps", _dot_half_ulps)
_FAMILIES = (
    _HALF_ULPS,
    "positive",
    "equal",
    "half-ulps",
    "decisive-large",
    "one-plus-ulps",
    "small-integers",
    "positive-integers",
    "decisive-one-hot",
    "one-huge",
    "cancelling-pairs",
    "ill-conditioned",
    "alternating",
    "midpoints",
    "near-overflow",
    "subnormal",
    "nan-at",
    "inf-at",
)
_RIGHT = (
    "positive-integers",
    _HALF_ULPS,
    "positive",
    "small-integers",
    "gaussian",
    "near-one",
    "one-plus-ulps",
    "window",
    "equal",
    "decisive-large",
    "half-ulps",
    "decisive-one-hot",
    "cancelling-pairs",
    "alternating",
    "near-overflow",
    "near-underflow",
    "subnormal",
    "nan-at",
    "inf-at",
    "whole-uniform",
    "whole-small",
    "whole-extremes",
    "whole-ascending",
    "whole-large",
)
"""Families of the right operand: most are dense, so that few products are 0 whatever the left one is."""

_PARTIALS = {"partials": "partial products over parts of K are stored in the input's format and then added"}
_FLOATING = ("float64", "float32", "float16", "bfloat16")
_PRODUCTS = {"int8": "int32", "float8_e4m3fn": "float32", "float8_e5m2": "float32"}


def _product_dtype(call: Mapping[str, Any]) -> str:
    """The dtype of a product: int32 of int8, float32 of fp8, else that of the operands."""
    tested: str = call["format"]
    return _PRODUCTS.get(tested, tested)


@contract(
    args={"a": "M K", "b": Tensor("K N", families=_RIGHT)},
    returns=Output("M N", dtype=_product_dtype),
    rows="M N",
    families=_FAMILIES,
    roundings=_PARTIALS,
    formats=(*_FLOATING, *_PRODUCTS),
)
def matmul(a: Number, b: Number) -> Number:
    """a [M, K] @ b [K, N]; 0 where K = 0. int8 operands give int32, exactly; fp8 operands give float32."""
    return numbers.matmul(a, b, partials="partials")


@contract(
    args={"a": "B M K", "b": Tensor("B K N", families=_RIGHT)},
    returns="B M N",
    rows="B M N",
    families=_FAMILIES,
    roundings=_PARTIALS,
)
def bmm(a: Number, b: Number) -> Number:
    """a [B, M, K] @ b [B, K, N], matrix by matrix."""
    return numbers.matmul(a, b, partials="partials")


@contract(
    args={
        "c": "M N",
        "a": "M K",
        "b": Tensor("K N", families=_RIGHT),
        "beta": (1.0, 0.0, 0.5, -1.5, 0.1),
        "alpha": (1.0, 0.5, -2.0, 0.1),
    },
    returns="M N",
    rows="M N",
    families=_FAMILIES,
    roundings={"product": "alpha·a@b is rounded to the input's format before beta·c is added", **_PARTIALS},
)
def addmm(c: Number, a: Number, b: Number, beta: float, alpha: float) -> Number:
    """beta·c + alpha·(a @ b), c [M, N], a [M, K], b [K, N]; where beta is 0 c is ignored, even NaN.

    Either product and summand are added in the end, or, as in a BLAS, (alpha·a) @ b is accumulated upon beta·c.
    """
    product = numbers.matmul(a, b, partials="partials")
    scaled = rounded(product if alpha == 1 else alpha * product, "product")
    start = None if beta == 0 else c if beta == 1 else beta * c
    if start is None and alpha == 1:
        return scaled
    accumulated = numbers.matmul(a if alpha == 1 else alpha * a, b, start=start, partials="partials")
    return numbers.looser(scaled if start is None else scaled + start, accumulated)


@contract(
    args={
        "x": "*batch I",
        "weight": Tensor("O I", families=_RIGHT),
        "bias": Tensor("O", optional=True),
        "activation": (None, "gelu", "silu", "relu"),
    },
    returns="*batch O",
    rows="*batch O",
    families=_FAMILIES,
    roundings={
        "product": "x@weight.T is rounded to the input's format before bias is added",
        "biased": "x@weight.T + bias is rounded to the input's format before the activation",
        **_PARTIALS,
    },
)
def linear(x: Number, weight: Number, bias: Number | None, activation: str | None) -> Number:
    """activation(x @ weight.T + bias), x [..., I], weight [O, I], bias [O] or None; gelu is the erf form."""
    rows = x if len(x.shape) > 1 else numbers.unsqueeze(x, 0)
    z = numbers.matmul(rows, numbers.transpose(weight), start=bias, partials="partials")
    z = numbers.reshape(z, (*x.shape[:-1], weight.shape[0]))
    if bias is not None:
        z = rounded(z, "product", at=z - bias)
    if activation is None:
        return z
    z = rounded(z, "biased")
    match activation:
        case "gelu":
            return z * (1.0 + erf(z * math.sqrt(0.5))) * 0.5
        case "silu":
            return z * numbers.sigmoid(z)
    return maximum(z, 0.0)
