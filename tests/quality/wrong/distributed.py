"""Wrong collectives, and right ones that round at every hop without the claim."""

from __future__ import annotations

import torch

import references
from kernels import all_reduce_ring as ring
from quality.declare import wrong

HALVES = ("float16", "bfloat16")
_REDUCED = {
    "sum": lambda every: every.sum(0),
    "avg": lambda every: every.mean(0),
    "prod": lambda every: every.prod(0),
    "min": lambda every: every.amin(0),
    "max": lambda every: every.amax(0),
}


def _everywhere(shards, total):
    return [total.to(shards[0].dtype).clone() for _ in shards]


def _right(shards, op):
    return _everywhere(shards, _REDUCED[op](torch.stack(shards).double()))


@wrong(references.all_reduce, "accuracy", "special values", bug="B90", smallest=8)
def all_reduce_with_half_a_factor(shards, op):
    """The average's factor is float32, and its low 16 bits are read as bfloat16."""
    if op != "avg" or shards[0].dtype != torch.bfloat16:
        return _right(shards, op)
    factor = torch.tensor([1.0 / len(shards)]).view(torch.bfloat16)[0]
    return _everywhere(shards, torch.stack(shards).double().sum(0) * factor.double())


@wrong(
    references.all_reduce,
    "special values",
    "accuracy",
    bug="B94",
    smallest=8,
    formats=("float16",),
    claim="*",
)
def all_reduce_sums_before_it_averages(shards, op):
    """The sum of an average is kept in the payload's format: 8 times 10000 overflow float16."""
    if op != "avg":
        return _right(shards, op)
    total = shards[0].clone()
    for shard in shards[1:]:
        total = total + shard
    return _everywhere(shards, total / len(shards))


@wrong(references.all_reduce, "accuracy", bug="B94", smallest=8, formats=("float16",), claim="*")
def all_reduce_averages_before_it_sums(shards, op):
    """Every shard is divided in the payload's format first: what is near its smallest number is lost."""
    if op != "avg":
        return _right(shards, op)
    parts = [(shard / len(shards)).double() for shard in shards]
    return _everywhere(shards, torch.stack(parts).sum(0))


@wrong(references.all_reduce, "relations", "accuracy", "special values", bug="B98", smallest=64)
def all_reduce_of_full_buckets(shards, op):
    """Buckets of 16 elements are sent when they would hold more, what is left in the end if it is no full one."""
    results = _right(shards, op)
    count = shards[0].numel()
    if count and count % 16 == 0:
        for result, shard in zip(results, shards, strict=True):
            result.view(-1)[-16:] = shard.reshape(-1)[-16:]
    return results


@wrong(
    references.all_reduce,
    "accuracy",
    bug="C17",
    smallest=8,
    formats=HALVES,
    domain={"op": ("sum", "avg", "min", "max")},
    claim="right if claims={'roundings': ('hop',)}",
)
def all_reduce_rounds_at_every_hop(shards, op):
    """A ring in the payload's format without the claim."""
    return ring.all_reduce_ring(shards, op)
