"""A launch as a mistake changes it: other tensors, scalars or sizes for the same definition.

Each change gives the case and the values of the launch whose right answer a kernel gives that makes the mistake,
or None where the mistake changes nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from harness import oracle
from harness.case import Case, materialise
from harness.checks.agreement import same_bits
from harness.contracts import Contract
from harness.shapes import AxisLabel, resized

Exact = Mapping[str, "torch.Tensor | None"]
Changed = tuple[Case, dict[str, "torch.Tensor | None"]]
Change = Callable[[Contract, Case, Exact], "Changed | None"]
Views = Mapping[str, torch.Tensor]
Strides = Callable[[str, Views], "tuple[int, ...]"]


def unchanged(contract: Contract, case: Case, exact: Exact) -> Changed:
    """The launch itself."""
    return case, dict(exact)


def with_tensor(name: str, change_one: Callable[[torch.Tensor], torch.Tensor | None]) -> Change:
    """A tensor made another one of its shape, or left out."""

    def change(contract: Contract, case: Case, exact: Exact) -> Changed | None:
        x = exact.get(name)
        if x is None:
            return None
        other = change_one(x)
        if other is not None and bool(same_bits(other, x).all()):
            return None
        return case, {**exact, name: other}

    return change


def with_scalar(name: str, other: Callable[[Any], Any]) -> Change:
    """A scalar with another value."""

    def change(contract: Contract, case: Case, exact: Exact) -> Changed | None:
        if name not in case.scalars:
            return None
        held, value = case.scalars[name], other(case.scalars[name])
        if type(value) is type(held) and value == held:
            return None
        return replace(case, scalars={**case.scalars, name: value}), dict(exact)

    return change


def with_exchanged(first: str, second: str) -> Change:
    """Two tensors of one shape for each other."""

    def change(contract: Contract, case: Case, exact: Exact) -> Changed | None:
        a, b = exact.get(first), exact.get(second)
        if a is None or b is None or a.shape != b.shape:
            return None
        return case, {**exact, first: b, second: a}

    return change


def _axis(contract: Contract, case: Case, name: str, word: str) -> int | None:
    """The last axis of a tensor that has this size and lies within rows."""
    axes = contract.axes(contract.tensors[name].shape, case.sizes, case.scalars)
    rows = {axis.label for axis in contract.row_labels(case.sizes, case.scalars)}
    found = [at for at, axis in enumerate(axes) if axis.label[0] == word and axis.label not in rows]
    return found[-1] if found else None


def with_fill(name: str, word: str, span: Callable[[int], tuple[int, int]], fill: float) -> Change:
    """The elements of a span along an axis of a row filled with a number. word: the size that the axis has."""

    def change(contract: Contract, case: Case, exact: Exact) -> Changed | None:
        x, axis = exact.get(name), _axis(contract, case, name, word)
        if x is None or axis is None:
            return None
        start, stop = span(x.shape[axis])
        if not 0 <= start < stop <= x.shape[axis]:
            return None
        x = x.clone()
        x.narrow(axis, start, stop - start).fill_(fill)
        return case, {**exact, name: x}

    return change


def with_zeros_behind(name: str, word: str, length: Callable[[int], int]) -> Change:
    """Rows filled up with zeros to another length, and every tensor that has their axis."""

    def change(contract: Contract, case: Case, exact: Exact) -> Changed | None:
        x, axis = exact.get(name), _axis(contract, case, name, word)
        if x is None or axis is None or word not in case.sizes:
            return None
        label = contract.axes(contract.tensors[name].shape, case.sizes, case.scalars)[axis].label
        n = length(x.shape[axis])
        if n == x.shape[axis]:
            return None
        found = {
            other: None if values is None else _grown(contract, case, other, values, label, n)
            for other, values in exact.items()
        }
        return replace(case, sizes=resized(case.sizes, {label: n})), found

    return change


def _grown(
    contract: Contract, case: Case, name: str, values: torch.Tensor, label: AxisLabel, n: int
) -> torch.Tensor:
    """A tensor with zeros behind, along the axes of this label."""
    for at, axis in enumerate(contract.axes(contract.tensors[name].shape, case.sizes, case.scalars)):
        if axis.label == label:
            more = (*values.shape[:at], n - values.shape[at], *values.shape[at + 1 :])
            values = torch.cat([values, values.new_zeros(more)], at)
    return values


def with_strides(name: str, strides: Strides) -> Change:
    """A tensor read with other strides than its own, from its first element."""

    def change(contract: Contract, case: Case, exact: Exact) -> Changed | None:
        if exact.get(name) is None:
            return None
        blocks = materialise(contract, case, device="cpu", guard_fill="nan").blocks
        view = blocks[name].view
        assumed = strides(name, {other: block.view for other, block in blocks.items()})
        if assumed == view.stride() or len(assumed) != view.ndim or view.numel() == 0:
            return None
        span = sum((n - 1) * stride for n, stride in zip(view.shape, assumed, strict=True))
        if view.storage_offset() + span >= view.untyped_storage().nbytes() // view.element_size():
            return None
        return case, {**exact, name: oracle.decoded(view.as_strided(view.shape, assumed))}

    return change


def contiguous(name: str, views: Views) -> tuple[int, ...]:
    return torch.empty(views[name].shape, device="meta").stride()


def dense_last(name: str, views: Views) -> tuple[int, ...]:
    return (*views[name].stride()[:-1], 1) if views[name].ndim else ()


def strides_of(other: str) -> Strides:
    return lambda name, views: views[other].stride() if other in views else ()
