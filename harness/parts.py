"""Parts of a launch: ranges of its row axes, the slices of its tensors that belong to them, and how to join them.

Along the row axes of a contract results are independent, so that its definition may be read part by part: of
large launches in parts that stay in a processor's cache, of elements that one reading leaves open alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.case import Case
from harness.contracts import Contract, Written
from harness.shapes import AxisLabel

PART = 1 << 18
"""Elements of a part: a dozen float64 arrays of so many fit into a cache of some MiB."""

DEVICE_PART = 1 << 22
"""The same on a GPU, whose launches cost more than its caches save."""


@dataclass(frozen=True)
class Part:
    """The indices start, …, start + length - 1 along some row axes, by label."""

    contract: Contract
    case: Case
    ranges: Mapping[AxisLabel, tuple[int, int]] = field(default_factory=dict)

    def of(self, written: Written, tensor: torch.Tensor) -> torch.Tensor:
        """The slice of a tensor of a written shape, its axes kept."""
        if not self.ranges:
            return tensor
        for at, axis in enumerate(self.contract.axes(written, self.case.sizes, self.case.scalars)):
            if axis.label in self.ranges:
                tensor = tensor.narrow(at, *self.ranges[axis.label])
        return tensor

    def axis(self, written: Written) -> int:
        """The axis of a written shape along which this is a part."""
        axes = self.contract.axes(written, self.case.sizes, self.case.scalars)
        return next(at for at, axis in enumerate(axes) if axis.label in self.ranges)

    def has(self, written: Written) -> bool:
        """Whether what has a written shape belongs to the part as far as it is sliced: it has all its axes."""
        axes = self.contract.axes(written, self.case.sizes, self.case.scalars)
        return set(self.ranges) <= {axis.label for axis in axes}

    def mask(self, written: Written, like: torch.Tensor) -> torch.Tensor:
        """Where a tensor of a written shape belongs to the part."""
        mask = torch.zeros(like.shape, dtype=torch.bool)
        self.of(written, mask).fill_(True)
        return mask

    def inputs(self, exact: Mapping[str, torch.Tensor | None]) -> dict[str, torch.Tensor | None]:
        """The slices of the tensor arguments."""
        return {
            name: None if value is None else self.of(self.contract.tensors[name].shape, value)
            for name, value in exact.items()
        }

    def outputs(self, got: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The slices of the outputs."""
        return [
            self.of(output.shape, tensor) for output, tensor in zip(self.contract.outputs, got, strict=True)
        ]


def situation(contract: Contract, case: Case, number: int, *, numbered: bool = False) -> Part:
    """The smallest part that holds one situation; everything for a negative number.

    Axes whose length is a product stay whole, as the heads of queries that share a head of keys, and so do,
    where a definition numbers positions, those that it may number.
    """
    found: dict[AxisLabel, tuple[int, int]] = {}
    if number >= 0:
        for place, axis in reversed(list(enumerate(contract.row_labels(case.sizes, case.scalars)))):
            number, index = divmod(number, axis.length)
            if _divisible(axis.label, 0 if not numbered else place):
                found[axis.label] = (index, 1)
    return Part(contract, case, found)


def _divisible(label: AxisLabel, place: int) -> bool:
    """Whether an axis may be divided: it is one of a pack, or the first, and its length no product."""
    word = label[0]
    return word.startswith("*") or (place == 0 and word.isidentifier())


def parts_at_once(device: torch.device | str) -> int:
    """Elements of a part on this device."""
    return PART if torch.device(device).type == "cpu" else DEVICE_PART


def parts(
    contract: Contract, case: Case, exact: Mapping[str, Any], got: Sequence[torch.Tensor]
) -> list[Part]:
    """The launch in parts along one row axis, of about PART elements; one part where that saves nothing.

    That axis is one of a pack, or the first: definitions may number the positions of others, as attention does.
    """
    if all(tensor is None or tensor.numel() <= PART for tensor in (*exact.values(), *got)):
        return [Part(contract, case)]
    tensors: list[tuple[Written, torch.Tensor]] = [
        (contract.tensors[name].shape, value) for name, value in exact.items() if value is not None
    ]
    tensors += [(output.shape, value) for output, value in zip(contract.outputs, got, strict=True)]
    most = max((parts_at_once(tensor.device) for _, tensor in tensors), default=PART)
    if all(tensor.numel() <= most for _, tensor in tensors):
        return [Part(contract, case)]
    label, length = divided(contract, case)
    shared = along = 0
    for written, tensor in tensors:
        labels = [axis.label for axis in contract.axes(written, case.sizes, case.scalars)]
        if label in labels:
            along = max(along, tensor.numel())
        else:
            shared += tensor.numel()
    everywhere = all(
        label in [axis.label for axis in contract.axes(output.shape, case.sizes, case.scalars)]
        for output in contract.outputs
    )
    if label is None or not everywhere or along <= most:
        return [Part(contract, case)]
    count = min(length, math.ceil(along / max(most, shared)))
    step = math.ceil(length / count)
    return [
        Part(contract, case, {label: (start, min(step, length - start))}) for start in range(0, length, step)
    ]


def divided(contract: Contract, case: Case) -> tuple[AxisLabel | None, int]:
    """The first row axis of more than one element that may be divided, and its length."""
    for place, axis in enumerate(contract.row_labels(case.sizes, case.scalars)):
        if axis.length > 1 and _divisible(axis.label, place):
            return axis.label, axis.length
    return None, 1
