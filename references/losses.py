"""Cross-entropy of logits against whole labels, as torch.nn.functional.cross_entropy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.contracts import Output, Tensor, Whole
from harness.declaration import contract
from harness.numbers import Number, amax, exp, log, mean, reshape, rounded, sum, take_along, unsqueeze, where
from harness.values import Family, Param
from harness.values.family import Setting

_MOSTLY_MASKED = Family(
    "mostly-masked",
    lambda s, n, fmt, every: np.where(s.integers(n, 1, int(every), 1) == 1, s.normal(n, 2), -np.inf),
    (Param("every", (16, 64)),),
    frozenset({"special"}),
)
"""-inf but for one logit in 16 or 64: blocks without a finite maximum come before blocks with one."""

_FAR = Family(
    "far",
    lambda s, n, fmt, offset: offset + s.normal(n),
    (Param("offset", (1e4, 1e3, -3e4)),),
    frozenset({"structured"}),
    (Setting((("offset", 1e4),)),),
)
"""Logits about a common offset, beside which their loss is small: max + log Σ - x loses the digits of it."""


def _separate(scalars: Mapping[str, Any]) -> str:
    """The axis of the results: without a reduction each row of logits has its own, and is a situation."""
    return "N" if scalars["reduction"] == "none" else ""


@contract(
    args={
        "logits": "N V",
        "target": Tensor("N", dtype="int64", whole=Whole(0, "V", planted=("ignore_index",))),
        "ignore_index": (-100, 1, -1),
        "reduction": ("mean", "sum", "none"),
    },
    returns=Output(_separate),
    rows=_separate,
    nonempty=("V",),
    families=(
        _MOSTLY_MASKED,
        "leading-minus-inf",
        _FAR,
        "offset",
        "decisive-step",
        "decisive-max",
        "decisive-one-hot",
        "wide",
        "mask-values",
        "all-negative",
        "stagnation",
        "equal",
        "ascending",
        "some-minus-inf",
        "nan-at",
        "inf-at",
    ),
    roundings={
        "shifted": "x - max is rounded to the input's format",
        "lse": "written as (max + log Σ) - x_target, the bracket rounded to the input's format",
        "losses": "the loss of each row is rounded to the input's format before they are added",
    },
    online=True,
)
def cross_entropy(logits: Number, target: Number, ignore_index: int, reduction: str) -> Number:
    """log Σ exp(x - max) - (x_target - max) of every row whose target is not ignore_index.

    The others give 0 ("none"), and do not count in the "sum" and the "mean", which is NaN if none counts.
    """
    m = amax(logits, 1)
    shifted = rounded(logits - m, "shifted")
    logarithm = log(sum(exp(shifted), 1))
    losses = rounded(logarithm, "lse", at=m + logarithm) - take_along(shifted, unsqueeze(target, 1), 1)
    losses = rounded(reshape(losses, (logits.shape[0],)), "losses")
    counted = target != ignore_index
    if reduction == "none":
        return where(counted, losses, 0.0)
    return sum(losses, 0, where=counted) if reduction == "sum" else mean(losses, 0, where=counted)
