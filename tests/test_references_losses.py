"""cross_entropy against PyTorch in float64."""

from __future__ import annotations

import itertools

import pytest
import torch
from definitions import SPECIAL, assert_is, assert_roundings_matter, views
from torch.nn import functional

import references

REDUCTIONS = ("mean", "sum", "none")


def assert_as_torch(logits: torch.Tensor, target: torch.Tensor, ignore_index: int) -> None:
    for reduction in REDUCTIONS:
        wanted = functional.cross_entropy(logits, target, ignore_index=ignore_index, reduction=reduction)
        exact = target.to(torch.float64)
        arguments = {"logits": logits, "target": exact, "ignore_index": ignore_index, "reduction": reduction}
        assert_is(references.cross_entropy, arguments, wanted)


@pytest.mark.parametrize(("n", "v"), [(1, 1), (1, 7), (5, 3), (40, 11), (0, 4)])
@pytest.mark.parametrize("ignored", [-100, 0, -1])
def test_random_logits(n: int, v: int, ignored: int) -> None:
    generator = torch.Generator().manual_seed(0)
    for scale, offset, every in ((1.0, 0.0, 3), (30.0, 0.0, 2), (1.0, 500.0, 1000), (1.0, 0.0, 1)):
        logits = scale * torch.randn(n, v, dtype=torch.float64, generator=generator) + offset
        target = torch.randint(v, (n,), generator=generator)
        target[torch.randint(every, (n,), generator=generator) == 0] = ignored
        for view in views(logits):
            assert_as_torch(view, target, ignored)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_rows_of_special_values(length: int) -> None:
    rows = torch.tensor(list(itertools.product(SPECIAL, repeat=length)), dtype=torch.float64)
    for label in range(length):
        for ignored in (-100, label):
            target = torch.full((len(rows),), label)
            target[::5] = ignored
            assert_as_torch(rows, target, ignored)
            for row in range(0, len(rows), 7):
                assert_as_torch(rows[row : row + 1], target[row : row + 1], ignored)


def test_roundings_matter() -> None:
    generator = torch.Generator().manual_seed(0)
    arguments = {
        "logits": 10 + torch.randn(9, 40, dtype=torch.float64, generator=generator),
        "target": torch.randint(40, (9,), generator=generator).to(torch.float64),
        "ignore_index": -100,
        "reduction": "none",
    }
    assert_roundings_matter(references.cross_entropy, arguments, (9,))
