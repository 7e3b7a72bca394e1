"""Reduction of failing cases: contracts with scalars of every kind, and values that stay what they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import harness
import references
from harness import simplify
from harness.case import Case, Recipe, Row, logical_values
from harness.layouts import Layout


def test_a_scalar_that_is_a_size_is_reduced_with_the_sizes() -> None:
    def biased(x: Any, num_groups: int, weight: Any, bias: Any, eps: float) -> torch.Tensor:
        exact = torch.group_norm(
            x.double(), num_groups, *(v if v is None else v.double() for v in (weight, bias)), eps
        )
        return exact.to(x.dtype) + num_groups

    verdict = harness.check(biased, references.group_norm, "float32", examples=20)
    assert verdict.outcome == "FAIL"
    assert verdict.findings[0].case.sizes["G"] == 1


def test_values_stay_where_a_scalar_decides_what_a_row_is() -> None:
    """Without a reduction each row of logits has a recipe of its own; with one they all share the first."""
    rows = (Row("gaussian", 1), Row("gaussian", 2), Row("positive", 3))
    labels = Recipe("int64", Layout.contiguous(1), (Row("literal", values=("0x1p+0",)),))
    case = Case(
        {"N": 3, "V": 4},
        {"ignore_index": -100, "reduction": "none"},
        {"logits": Recipe("float32", Layout.contiguous(2), rows), "target": labels},
    )
    changed = simplify.with_scalar(references.cross_entropy, case, "reduction", "mean")
    assert changed.scalars == {"ignore_index": -100, "reduction": "mean"}
    for name in case.tensors:
        before = logical_values(references.cross_entropy, case, name)
        assert np.array_equal(logical_values(references.cross_entropy, changed, name), before)
