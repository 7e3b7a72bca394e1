"""PyTorch's own functions on the CPU, judged by the contracts: right under the claims that they need.

What a function needs beyond the defaults is written down with its cause; so is what no claim makes right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import harness
import references

HALF = ("float16", "bfloat16")
ALL = ("float32", *HALF)
EXAMPLES = 60


def _vector_norm(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.linalg.vector_norm(x, dim=dim)


def _variance(x: torch.Tensor, dim: int, correction: int) -> torch.Tensor:
    return torch.var(x, dim, correction=correction)


def _layer_norm(x: torch.Tensor, weight: Any, bias: Any, eps: float) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _rms_norm(x: torch.Tensor, weight: Any, eps: float) -> torch.Tensor:
    return functional.rms_norm(x, x.shape[-1:], weight, eps)


def _add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: Any, eps: float) -> tuple[Any, Any]:
    total = x + residual
    return _rms_norm(total, weight, eps), total


def _gelu(x: torch.Tensor, approximate: str) -> torch.Tensor:
    return functional.gelu(x, approximate=approximate)


def _gelu_without_onednn(x: torch.Tensor, approximate: str) -> torch.Tensor:
    with torch.backends.mkldnn.flags(enabled=False):
        return functional.gelu(x, approximate=approximate)


def _swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return functional.silu(gate) * up


def _softcap(x: torch.Tensor, cap: float) -> torch.Tensor:
    return cap * torch.tanh(x / cap)


def _rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    half = cos.shape[-1]
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    turned = first * cos - second * sin, second * cos + first * sin
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


def _cross_entropy(logits: Any, target: Any, ignore_index: int, reduction: str) -> torch.Tensor:
    return functional.cross_entropy(logits, target, ignore_index=ignore_index, reduction=reduction)


RIGHT: dict[str, tuple[Callable[..., Any], str, tuple[str, ...], dict[str, Any]]] = {
    "argmax": (torch.argmax, "argmax", ALL, {}),
    "argmin": (torch.argmin, "argmin", ALL, {}),
    "var": (_variance, "var", ALL, {}),
    # A strided row is added into one scalar.
    "vector_norm": (_vector_norm, "vector_norm", ALL, {"depth": "sequential"}),
    "cumsum": (torch.cumsum, "cumsum", ALL, {}),
    "layer_norm": (_layer_norm, "layer_norm", ALL, {}),
    "rms_norm": (_rms_norm, "rms_norm", ALL, {}),
    "add_rms_norm": (_add_rms_norm, "add_rms_norm", ALL, {}),
    # Weight, bias and statistics are folded into one factor and one summand of each channel, in float32.
    "group_norm-float32": (torch.group_norm, "group_norm", ("float32",), {"roundings": ("folded",)}),
    "group_norm": (torch.group_norm, "group_norm", HALF, {}),
    "gelu": (_gelu_without_onednn, "gelu", HALF, {}),
    "silu": (functional.silu, "silu", ALL, {}),
    # Two calls, or three, each of which rounds.
    "swiglu": (_swiglu, "swiglu", ALL, {"roundings": ("silu",)}),
    "softcap": (_softcap, "softcap", ALL, {"roundings": ("scaled", "tanh")}),
    "rope": (_rope, "rope", ALL, {"roundings": ("products",)}),
    "cross_entropy": (_cross_entropy, "cross_entropy", ("float32",), {}),
}


@pytest.mark.parametrize("name", list(RIGHT))
def test_right_under_the_claims_it_needs(name: str) -> None:
    function, contract, dtypes, claims = RIGHT[name]
    verdict = harness.check(function, getattr(references, contract), dtypes, claims=claims, examples=EXAMPLES)
    assert verdict.ok, str(verdict)


WRONG: dict[str, tuple[Callable[..., Any], str, tuple[str, ...]]] = {
    # erf is a formula with an absolute error of 1.5e-7, and 3 ulp of 1 show beside a small erf. From oneDNN
    # (PyTorch 2.13, AVX-512), which takes float32 and bfloat16, gelu(inf) of two elements or more is NaN, and
    # subnormal results of bfloat16 are flushed.
    "gelu-without-onednn": (_gelu_without_onednn, "gelu", ("float32",)),
    "gelu": (_gelu, "gelu", ("float32",)),
    # Each call rounds.
    "swiglu": (_swiglu, "swiglu", HALF),
    "softcap": (_softcap, "softcap", HALF),
    "rope": (_rope, "rope", HALF),
    # log_softmax makes x - (max + log Σ) of 16-bit brackets, and the losses of the rows are rounded again.
    "cross_entropy": (_cross_entropy, "cross_entropy", HALF),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_wrong_without_a_claim(name: str) -> None:
    function, contract, dtypes = WRONG[name]
    for dtype in dtypes:
        verdict = harness.check(
            function, getattr(references, contract), dtype, examples=EXAMPLES, shrink=False
        )
        assert verdict.outcome == "FAIL", str(verdict)
