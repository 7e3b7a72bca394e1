"""How far a reading's own value may be from exact, as a share of the error that it allows a kernel.

A rule's allowed error is at least proportional to the unit roundoff, so that the same definition read with
a smaller one is off by no more than that share of it: the ratio of the unit roundoffs, times what a kernel
is allowed less of than the reading commits, in the depth of a reduction or in a primitive.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from harness.numbers.model import Model
from harness.numbers.pieces import Long

FLOAT64_U = 2.0**-53
DOUBLE_U = 2.0**-100
"""Unit roundoff at which double-double arithmetic is charged: products and quotients err by 2^-102,
elementary functions by 2^-98, less than the primitive errors of the rules."""

SMALL_ENOUGH = 2.0**-6
"""The largest share at which a reading judges: beyond, a more exact one does."""

_FEWEST_STEPS = 16.0
"""What any reduction of the readings may take more of than a kernel's default depth, n/16 + 64."""
_PRIMITIVE = 2.0
"""Largest error of the readings' primitives in their u (torch's exp 1.02 to tanh 1.6 u in float64)."""


def share(model: Model, u: float, terms: int) -> float:
    """The radius of a reading of unit roundoff ``u`` over at most ``terms`` terms, as a share of t.

    Infinite where a depth of 0, or a primitive without error, allows none at all.
    """
    depth = model.reduction_depth(terms)
    steps = (terms - 1) / depth if depth else 0.0 if terms <= 1 else float("inf")
    least = min(model.errors.values())
    if not (model.u and least):
        return float("inf")
    primitives = _PRIMITIVE / least
    return u / model.u * max(_FEWEST_STEPS, steps, primitives)


def held(radius: float) -> float:
    """A share as t is enlarged by it: one too large to judge with enlarges nothing without bound."""
    return min(radius, SMALL_ENOUGH)


def terms(arguments: Iterable[Any]) -> int:
    """The most terms that one reduction over these arguments can have: the elements of all tensors.

    Of a long array, which is added up in pieces, those on the longest path.
    """
    count = 0
    for value in arguments:
        if isinstance(value, torch.Tensor):
            count += value.numel()
        elif isinstance(value, Long):
            count += value.terms
        elif isinstance(value, list):
            count += terms(value)
        elif isinstance(value, dict):
            count += terms(value.values())
    return max(count, 1)
