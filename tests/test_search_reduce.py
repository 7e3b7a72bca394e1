"""Reduction of failing cases: contracts with scalars of every kind, and values that stay what they were."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import harness
import references
from harness import simplify
from harness.admission import check_written
from harness.case import Case, Recipe, Row, logical_values
from harness.executors.faults import StepLimit
from harness.layouts import Layout
from harness.search.progress import Progress
from harness.search.reduce import LONGEST_CASE, in_format


def test_a_scalar_that_is_a_size_is_reduced_with_the_sizes() -> None:
    def biased(x: Any, num_groups: int, weight: Any, bias: Any, eps: float) -> torch.Tensor:
        scale, shift = (v if v is None else v.double() for v in (weight, bias))
        exact = torch.nn.functional.group_norm(x.double(), num_groups, scale, shift, eps)
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


def test_the_case_of_a_long_input_fits_in_a_command() -> None:
    """The rows of a long input are told by their recipes, not written out element by element."""

    def wrong(x: torch.Tensor, dim: int) -> torch.Tensor:
        n = x.shape[dim]
        kept = (
            x.double()
            if n <= 4096
            else torch.where(torch.arange(n) == 1000, 0.0, x.movedim(dim, -1).double())
        )
        return (kept.sum(dim) if n <= 4096 else kept.sum(-1)).to(x.dtype)

    verdict = harness.check(wrong, references.sum, "float32")
    assert not verdict.ok
    assert len(verdict.findings[0].case.to_json()) <= LONGEST_CASE


def test_one_element_of_many_is_told_from_the_others() -> None:
    """Halves, quarters and eighths become plain, until little is left beside what matters."""

    def wrong(x: torch.Tensor, dim: int) -> torch.Tensor:
        y = x.double().cumsum(dim)
        if y.shape[dim] > 128:
            y.select(dim, 128).add_(x.double().select(dim, 100))
        return y.to(x.dtype)

    verdict = harness.check(wrong, references.cumsum, "float32")
    values = logical_values(references.cumsum, verdict.findings[0].case, "x").reshape(-1)
    assert len(values) == 129
    assert len(set(values.tolist())) <= 2 + 16


def test_equal_rows_are_written_once() -> None:
    rows = (Row("gaussian", 1), Row("gaussian", 2), Row("gaussian", 3))
    case = Case({"*shape": (3, 2)}, {"dim": 1}, {"x": Recipe("float32", Layout.contiguous(2), rows)})
    plain = simplify.with_values(references.sum, case, "x", np.ones((3, 2)))
    assert len(plain.tensors["x"].rows) == 1  # type: ignore[union-attr]
    assert logical_values(references.sum, plain, "x").tolist() == [[1.0, 1.0]] * 3


def test_a_shorter_row_holds_no_values_beyond_its_end() -> None:
    """They would make the case too long for a command, however short the row is."""
    row = Row("literal", values=tuple(float(i).hex() for i in range(1000)))
    case = Case({"*shape": (2, 1000)}, {"dim": -1}, {"x": Recipe("float32", Layout.contiguous(2), (row,))})
    shorter = simplify.cut(references.softmax, case, ("*shape", 1), 3)
    assert logical_values(references.softmax, shorter, "x").tolist() == [[0.0, 1.0, 2.0]] * 2
    recipe = shorter.tensors["x"]
    assert recipe is not None and len(recipe.rows[0].values) == 3


def test_the_smallest_case_of_another_format_is_tried_with_numbers_of_this_one() -> None:
    x = Recipe(
        "float32", Layout.contiguous(1), (Row("literal", values=("0x1.000002p+0",), plant=((0, "0x1p+99"),)),)
    )
    like = Case({"*shape": (1,)}, {}, {"x": replace(x, format="float16")})
    found = in_format(Case({"*shape": (1,)}, {}, {"x": x}), like)
    assert found.tensors["x"] == replace(
        x, format="float16", rows=(Row("literal", values=("0x1p+0",), plant=((0, "0x1.ffcp+15"),)),)
    )
    check_written(references.silu, found)


def _hangs_from(least: int, launches: list[int]) -> Any:
    """A softmax that never returns from so many elements on. launches: gets the elements of each that hangs."""

    def softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
        if x.numel() >= least:
            launches.append(x.numel())
            raise StepLimit("3 rounds without any change")
        return torch.softmax(x.double(), dim).to(x.dtype)

    return softmax


def test_a_kernel_that_always_hangs_is_launched_a_few_times_in_all() -> None:
    """Each launch takes the whole limit of time: the smallest input first, and no format reduces it again."""
    launches: list[int] = []
    told: list[Progress] = []
    verdict = harness.check(_hangs_from(1, launches), references.softmax, progress=told.append)
    (found,) = [progress.found for progress in told if progress.found]
    assert found.startswith("hangs (float32): ") and "TimeoutError: 3 rounds" in found
    assert [(item.check, item.format) for item in verdict.findings] == [
        ("hangs", name) for name in ("float32", "float16", "bfloat16")
    ]
    assert [item.case.sizes for item in verdict.findings] == [{"*shape": (1,)}] * 3
    assert len(launches) <= 8


def test_a_hang_is_reduced_by_a_few_launches_only() -> None:
    launches: list[int] = []
    verdict = harness.check(_hangs_from(5, launches), references.softmax, "float32")
    (finding,) = verdict.findings
    assert finding.message.endswith("; not reduced further, as every launch of it takes the limit of time")
    assert len(launches) <= 6


def test_an_interrupt_of_a_reduction_leaves_the_finding() -> None:
    seen = []

    def wrong(x: torch.Tensor, dim: int) -> torch.Tensor:
        if seen:
            signal.raise_signal(signal.SIGINT)
        return torch.softmax(x.double(), dim).to(x.dtype) * 2

    def watch(progress: Progress) -> None:
        if progress.phase == "shrinking":
            seen.append(progress.phase)

    verdict = harness.check(wrong, references.softmax, "float32", progress=watch)
    assert verdict.interrupted and verdict.outcome == "FAIL"
    assert verdict.findings[0].check == "accuracy"


def test_a_kernel_that_raises_from_some_size_on_is_told_how_to_decline() -> None:
    def softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
        if x.numel() > 200:
            raise ValueError("too large")
        return torch.softmax(x.double(), dim).to(x.dtype)

    verdict = harness.check(softmax, references.softmax, "float32", domain={"layouts": ("contiguous",)})
    (finding,) = verdict.findings
    assert "ValueError: too large; tensors of up to " in finding.message
    found = re.search(r"raise harness\.Unsupported before .* --domain max_elements=(\d+)$", finding.message)
    assert found is not None and int(found[1]) <= 200
    assert harness.check(softmax, references.softmax, "float32", domain={"max_elements": int(found[1])}).ok


def test_a_kernel_that_always_raises_is_not_told_of_sizes() -> None:
    def softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
        raise ValueError("never")

    verdict = harness.check(softmax, references.softmax, "float32")
    assert "max_elements" not in str(verdict)
