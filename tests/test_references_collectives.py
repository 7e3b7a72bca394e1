"""Collectives against plain torch in float64, with ragged and empty shards."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

import references
from harness.arithmetic import Arithmetic
from harness.contracts import Contract
from harness.formats import FLOAT32
from harness.numbers import read_float64

OPERATIONS = {
    "sum": lambda every: every.sum(0),
    "avg": lambda every: every.mean(0),
    "prod": lambda every: every.prod(0),
    "min": lambda every: every.amin(0),
    "max": lambda every: every.amax(0),
}
SPECIAL = (math.nan, math.inf, -math.inf, 2.0)


def _shards(world: int, *shape: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(world)
    return list(torch.randn(world, *shape, dtype=torch.float64, generator=generator))


def _is(contract: Contract, shards: list[torch.Tensor], wanted: list[torch.Tensor], **scalars: Any) -> None:
    model = Arithmetic().model(contract.at({"world": len(shards)}), FLOAT32)
    shapes = [tuple(value.shape) for value in wanted]
    found = read_float64(contract.definition, {"shards": shards} | scalars, model, shapes)
    assert len(found) == len(wanted)
    for answer, value in zip(found, wanted, strict=True):
        assert answer.value.shape == value.shape
        torch.testing.assert_close(answer.value, value, rtol=1e-13, atol=1e-14, equal_nan=True)


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("world", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_reductions(op: str, world: int, rows: int) -> None:
    shards = _shards(world, world * rows, 3)
    total = OPERATIONS[op](torch.stack(shards))
    _is(references.all_reduce, shards, [total] * world, op=op)
    _is(references.reduce_scatter, shards, list(total.reshape(world, rows, 3)), op=op)
    root = world - 1
    _is(references.reduce, shards, [*shards[:root], total], root=root, op=op)


@pytest.mark.parametrize("op", OPERATIONS)
def test_special_values(op: str) -> None:
    every = torch.tensor(list(itertools.product(SPECIAL, repeat=3)), dtype=torch.float64).T
    _is(references.all_reduce, list(every), [OPERATIONS[op](every)] * 3, op=op)


@pytest.mark.parametrize("lengths", [(2, 2), (0, 2, 1), (3, 0), (0, 0), (5,), (1, 4, 0, 2)])
def test_all_gather_of_ragged_shards(lengths: tuple[int, ...]) -> None:
    shards = [shard[:n] for shard, n in zip(_shards(len(lengths), 5, 2), lengths, strict=True)]
    _is(references.all_gather, shards, [torch.cat(shards)] * len(shards))


@pytest.mark.parametrize("root", [0, 1])
@pytest.mark.parametrize("rows", [0, 1, 4])
def test_moves(root: int, rows: int) -> None:
    shards = _shards(3, 3 * rows, 2)
    _is(references.broadcast, shards, [shards[root]] * 3, root=root)
    _is(references.scatter, shards, list(shards[root].reshape(3, rows, 2)), root=root)
    _is(
        references.gather,
        shards,
        [torch.cat(shards) if r == root else shards[r] for r in range(3)],
        root=root,
    )


@pytest.mark.parametrize(
    ("sums", "counts", "wanted"),
    [([1, 12], [1, 4], 2.6), ([0, 3], [0, 2], 1.5), ([0, 0], [0, 0], math.nan), ([1, 0], [0, 0], math.inf)],
)
def test_weighted_mean(sums: list[int], counts: list[int], wanted: float) -> None:
    arguments = {
        "sums": torch.tensor(sums, dtype=torch.float64),
        "counts": torch.tensor(counts, dtype=torch.float64),
    }
    model = Arithmetic().model(references.weighted_mean, FLOAT32)
    value = read_float64(references.weighted_mean.definition, arguments, model, [()])[0].value
    torch.testing.assert_close(value, torch.tensor(wanted, dtype=torch.float64), equal_nan=True)
