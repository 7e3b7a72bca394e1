"""Quantisation to int8 and fp8 with scales, and back: x ≈ q·scale.

A code is judged given the returned scale: it is the rounding of some number within a division's error of
x / scale, so that only values within that of a boundary between two codes may have either. Where the scale
is a power of two the division is exact, and so are its ties: half way goes to the even code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from harness import formats, numbers
from harness.contracts import Dtype, Output, Tensor
from harness.declaration import contract
from harness.formats import FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT32, Format
from harness.numbers import Number
from harness.values import POSITION, Family, Param, Stream

_INT8 = 127.0
_FP8 = Dtype((FLOAT8_E4M3FN.name, FLOAT8_E5M2.name))


def _among(row: Any, position: float, exponent: float, largest: float) -> Any:
    """codes·2**exponent with the largest code at one position, so that the row's scale is 2**exponent."""
    if -len(row) <= position < len(row):
        row[int(position)] = largest
    return np.ldexp(row, int(exponent))


def _int8_ties(s: Stream, n: int, fmt: Format, exponent: float, tilt: float, position: float) -> Any:
    """Codes half way between two integers, or a rounding unit of the format beside."""
    half = s.integers(n, -127, 126).astype(np.float64) + 0.5
    return _among(half * (1.0 + tilt * 2.0 * fmt.u), position, exponent, _INT8)


def _fp8_ties(to: Format) -> Any:
    def make(s: Stream, n: int, fmt: Format, exponent: float, tilt: float, position: float) -> Any:
        """Half way between two numbers of an fp8 format, or a rounding unit of the row's format beside."""
        codes = np.ldexp(1.0 + s.uniform(n), s.integers(n, to.emin - 2, to.emax - 1, 1))
        below = formats.round_to(codes, to, mode="down")
        ties = 0.5 * (below + formats.next_up(below, to)) * (1.0 + tilt * 2.0 * fmt.u)
        return _among(ties * s.signs(n, 2), position, exponent, to.max)

    return make


def _few_etas(s: Stream, n: int, fmt: Format, most: float) -> Any:
    """A few times the smallest subnormal number: the scale is subnormal, far from amax / 127, or 0."""
    return s.signs(n) * s.integers(n, 0, int(most), 1) * float(fmt.eta)


_EXPONENT = Param("exponent", (0, -3, -6, 2))
_TILT = Param("tilt", (0, 1, -1))
_SMALL = Family("few-etas", _few_etas, (Param("most", (200, 400, 60)),), frozenset({"range"}))
_TIES = frozenset({"structured"})
_INT8_TIES = Family("int8-ties", _int8_ties, (_EXPONENT, _TILT, POSITION), _TIES)
_FP8_TIES = tuple(
    Family(f"{to.name}-ties", _fp8_ties(to), (_EXPONENT, _TILT, POSITION), _TIES)
    for to in (FLOAT8_E4M3FN, FLOAT8_E5M2)
)
_FAMILIES = (
    "gaussian",
    "signed-zeros",
    "one-huge",
    "small-integers",
    "equal",
    "window",
    "decisive-large",
    "near-overflow",
    "near-underflow",
    "subnormal",
    "nan-at",
    "inf-at",
)


def _finite_scales(arguments: Mapping[str, Any], outputs: list[torch.Tensor]) -> str | None:
    """Rows of zeros, or so small that their scale underflows, may have any finite scale."""
    return _infinite_scale(arguments["x"].abs().amax(-1), outputs[1])


def _finite_block_scales(arguments: Mapping[str, Any], outputs: list[torch.Tensor]) -> str | None:
    x, block = arguments["x"], arguments["block"]
    count = -(-x.shape[-1] // block)
    padded = torch.nn.functional.pad(x, (0, -x.shape[-1] % block))
    return _infinite_scale(padded.reshape(*x.shape[:-1], count, block).abs().amax(-1), outputs[1])


def _infinite_scale(m: torch.Tensor, scale: torch.Tensor) -> str | None:
    wrong = (m <= FLOAT32.max) & ~torch.isfinite(scale.detach().cpu().double())
    if not bool(wrong.any()):
        return None
    first = tuple(int(i) for i in wrong.nonzero()[0])
    return f"scale{list(first)} is not finite, amax is {float(m[first]):g} ({int(wrong.sum())} such rows)"


def _scale(x: Number, largest: float) -> Number:
    """amax / largest along the last axis, which stays; left open where it is 0 or underflows to 0."""
    m = numbers.amax(numbers.absolute(x), -1)
    return numbers.left_open(m < largest * FLOAT32.eta, m / largest)


def _codes(x: Number, scale: Number) -> Number:
    """x / scale; 0 of a 0 whatever the scale; left open where the scale has underflowed to 0."""
    quotient = numbers.where((x == 0) & (numbers.isfinite(scale)), 0.0, x / scale)
    return numbers.left_open((scale == 0) & (x != 0), quotient)


def _quantised(call: Mapping[str, Any]) -> str:
    name: str = call["dtype"]
    return name


@contract(
    args={"x": "*batch N"},
    returns=(
        Output("*batch N", kind="code", dtype="int8", name="q", clamp=(-127, 127)),
        Output("*batch", dtype="float32", name="scale"),
    ),
    rows="all but last",
    nonempty=("N",),
    families=(*_FAMILIES[:1], _INT8_TIES, _SMALL, *_FAMILIES[1:]),
    given=("scale",),
    relations={"finite scale": _finite_scales},
)
def quantize_int8(x: Number, *, given: Mapping[str, Number]) -> tuple[Number, Number]:
    """(q, scale): scale = amax|x| / 127 along the last axis, q = x / scale to nearest even within ±127.

    A row of zeros has q = 0 and any finite scale, as has one so small that its scale underflows; NaN has no
    code.
    """
    return _codes(x, numbers.unsqueeze(given["scale"], len(x.shape) - 1)), _scale(x, _INT8)


@contract(
    args={"x": "*batch N", "dtype": _FP8},
    returns=(
        Output("*batch N", kind="code", dtype=_quantised, name="q"),
        Output("*batch", dtype="float32", name="scale"),
    ),
    rows="all but last",
    nonempty=("N",),
    families=(*_FAMILIES[:1], *_FP8_TIES, _SMALL, *_FAMILIES[1:]),
    given=("scale",),
    relations={"finite scale": _finite_scales},
)
def quantize_fp8(x: Number, dtype: torch.dtype, *, given: Mapping[str, Number]) -> tuple[Number, Number]:
    """(q, scale): scale = amax|x| / (largest finite value of dtype), q = x / scale rounded once to dtype."""
    largest = formats.format_of(dtype).max
    return _codes(x, numbers.unsqueeze(given["scale"], len(x.shape) - 1)), _scale(x, largest)


@contract(
    args={"x": "*batch N", "dtype": _FP8, "block": (16, 32, 128, 7)},
    returns=(
        Output("*batch N", kind="code", dtype=_quantised, name="q"),
        Output("*batch N/block", dtype="float32", name="scale"),
    ),
    rows="all but last",
    nonempty=("N",),
    families=(*_FAMILIES[:1], *_FP8_TIES, _SMALL, *_FAMILIES[1:]),
    given=("scale",),
    relations={"finite scale": _finite_block_scales},
)
def quantize_fp8_block(
    x: Number, dtype: torch.dtype, block: int, *, given: Mapping[str, Number]
) -> tuple[Number, Number]:
    """(q, scale): as quantize_fp8, a scale for each ``block`` elements of the last axis (the last fewer)."""
    *batch, n = x.shape
    count, rest = -(-n // block), n % block
    largest = formats.format_of(dtype).max
    blocks = numbers.reshape(x[..., : n - rest], (*batch, n // block, block))
    scale = numbers.reshape(_scale(blocks, largest), (*batch, n // block))
    if rest:
        scale = numbers.concatenate([scale, _scale(x[..., n - rest :], largest)], -1)
    spread = numbers.repeat_interleave(numbers.reshape(given["scale"], (*batch, count)), block, -1)
    return _codes(x, spread[..., :n]), scale


@contract(
    args={"q": "*batch N", "scale": Tensor("*batch", dtype="float32")},
    returns=Output("*batch N", dtype="float32"),
    rows="all but last",
    formats=("int8", FLOAT8_E4M3FN.name, FLOAT8_E5M2.name),
)
def dequantize(q: Number, scale: Number) -> Number:
    """q·scale in float32, scale [...] of q [..., N]."""
    return q * numbers.unsqueeze(scale, len(q.shape) - 1)
