"""Attention and its logsumexp: softmax(scale·q kᵀ) v over the keys that causal and window leave.

One query row (b, h, s) is a situation of its own. Query head h reads the key head h // (H/Hkv). Rows that
see no key give 0, and -inf as their logsumexp. k and v are finite wherever they are inside their views.

The cast of the probabilities to the format of v, in the numerator alone, is *usual*: the tensor cores that
multiply them with v take operands of one format, so that every flash attention in half precision does so
(FlashAttention-2, arXiv:2307.08691; FlashAttention-3; the Triton tutorial; PyTorch on the CPU), while the
normaliser adds up the float32 ones. Nothing else is: q·kᵀ leaves the tensor core in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.contracts import Output, Tensor
from harness.declaration import contract
from harness.numbers import (
    Number,
    log_sum_exp,
    positions,
    repeat_interleave,
    reshape,
    rounded,
    scaled_matmul,
    softmax_average,
    transpose,
)

_QUERIES = (
    "gaussian",
    "small-integers",
    "offset",
    "equal",
    "decisive-one-hot",
    "scaled",
    "zeros",
    "one-plus-ulps",
    "nan-at",
    "inf-at",
    "near-overflow",
    "subnormal",
)
_KEYS = (
    "gaussian",
    "ascending-vectors",
    "identical-vectors",
    "positive",
    "factor-vectors",
    "small-integers",
    "one-hot-vectors",
    "offset",
    "half-ulps",
)
_VALUES = (
    "gaussian",
    "one-hot-vectors",
    "numbered-vectors",
    "offset",
    "factor-vectors",
    "scaled",
    "equal",
    "small-integers",
    "near-overflow",
    "subnormal",
)
_ARGS: dict[str, Any] = {
    "q": Tensor("B Hkv*G S D", families=_QUERIES),
    "k": Tensor("B Hkv T D", families=_KEYS),
    "v": Tensor("B Hkv T Dv", families=_VALUES),
    "scale": (0.125, 1.0, 0.1, 0.3),
    "causal": (None, "bottom-right", "top-left"),
    "window": (None, 5, None, 1, None, 40),
}
_SIZES = {
    "B": (2, 1, 3),
    "Hkv": (2, 1, 3),
    "G": (1, 3, 2),
    "S": (5, 33, 1, 17, 2, 1, 64, 70, 200),  # one query, as in decoding, twice as often
    "D": (16, 32, 24, 64, 128, 8, 80, 5),
    "Dv": (16, 48, 8, 128, 32, 64, 20),
}
_SCORES = {
    "scaled_query": "q·scale is rounded to the input's format before the product with k",
    "product": "q kᵀ is rounded to the input's format before it is scaled",
    "scores": "scale·q kᵀ is rounded to the input's format",
}
_AVERAGE = {
    "probabilities": "exp(scores - max) is rounded to the input's format in the numerator, not in its sum",
    "normalizer": "the exponentials are rounded to the input's format in numerator and sum, and so is the sum",
    "partials": "normalised results over parts of the keys are stored in the input's format and then merged",
}


def _scores(q: Number, k: Number, scale: float) -> Number:
    """scale·q kᵀ [B, H, S, T]; scale multiplies q, or the product, or its square root q and k."""
    k = transpose(repeat_interleave(k, _group(q, k), 1))
    scores = scaled_matmul(q, k, scale, operand="scaled_query", product="product")
    return rounded(scores, "scores")


def _group(q: Number, k: Number) -> int:
    """How many query heads read one key head."""
    return q.shape[1] // k.shape[1] if k.shape[1] else 1


def _visible(scores: Number, causal: str | None, window: int | None) -> Any:
    """Mask [1, 1, S, T] of the keys that a query sees, None for all: 0 <= i - j, and < window."""
    if causal is None and window is None:
        return None
    last = scores.shape[3] - scores.shape[2] if causal == "bottom-right" else 0
    distance = positions(scores, 2) + last - positions(scores, 3)
    mask = distance >= 0
    return mask if window is None else mask & (distance < window)


@contract(
    args=_ARGS,
    returns="B Hkv*G S Dv",
    rows="B Hkv*G S",
    sizes=_SIZES,
    nonempty=("B", "Hkv", "G", "D", "Dv"),
    roundings={**_SCORES, **_AVERAGE},
    usual=("probabilities",),
)
def attention(
    q: Number, k: Number, v: Number, *, scale: float, causal: str | None, window: int | None
) -> Number:
    """softmax(scale·q kᵀ) v: q [B, H, S, D], k [B, Hkv, T, D], v [B, Hkv, T, Dv] give [B, H, S, Dv].

    causal: None, or query i sees key j <= i ("top-left"), j <= i + T - S ("bottom-right"). window: None, or
    of those keys the last ``window`` (0 <= i - j < window, i aligned as causal says, top-left when None).
    """
    return _attention(q, k, v, scale, causal, window)[0]


def _wide(call: Mapping[str, Any]) -> str:
    """The usual format of a logsumexp: the accumulator's."""
    return "float64" if call["format"] == "float64" else "float32"


@contract(
    args=_ARGS,
    returns=(
        Output("B Hkv*G S Dv"),
        Output("B Hkv*G S", name="lse", dtype=(_wide, None)),
    ),
    rows="B Hkv*G S",
    sizes=_SIZES,
    nonempty=("B", "Hkv", "G", "D", "Dv"),
    roundings={**_SCORES, **_AVERAGE},
    usual=("probabilities",),
)
def attention_lse(
    q: Number, k: Number, v: Number, *, scale: float, causal: str | None, window: int | None
) -> tuple[Number, Number]:
    """attention, and log Σ exp(scale·q kᵀ) over the visible keys [B, H, S], natural, -inf for none.

    The logsumexp is float32 or has q's format.
    """
    average, scores, mask = _attention(q, k, v, scale, causal, window)
    lse = log_sum_exp(scores, mask)
    return average, reshape(lse, lse.shape[:3])


def _attention(
    q: Number, k: Number, v: Number, scale: float, causal: str | None, window: int | None
) -> tuple[Number, Number, Any]:
    scores = _scores(q, k, scale)
    mask = _visible(scores, causal, window)
    v = repeat_interleave(v, _group(q, v), 1)
    average = softmax_average(
        scores, v, mask, probabilities="probabilities", normalizer="normalizer", partials="partials"
    )
    return average, scores, mask
