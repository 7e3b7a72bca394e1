"""Collectives over per-rank buffers in one process: reductions, gathers and scatters, as torch.distributed's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness import numbers
from harness.checks.agreement import identical
from harness.contracts import Output, Tensor, Whole
from harness.declaration import contract
from harness.numbers import Number, amax, amin, concatenate, prod, stack

_RANKS: dict[str, tuple[Any, ...]] = {"world": (2, 3, 4, 8, 1)}
_ROOTED: dict[str, tuple[Any, ...]] = {"world": (2, 3, 4, 8)}
_OPS = ("sum", "avg", "prod", "min", "max")
_HOP = {"hop": "the running total is rounded to the input's format at every addition"}
_PAYLOADS = (
    "small-integers",
    "positive",
    "gaussian",
    "equal",
    "half-ulps",
    "near-overflow",
    "nan-at",
    "inf-at",
)


def _reduced(shards: list[Number], op: str) -> Number:
    """The shards, of one shape, reduced over the ranks in any order."""
    every = stack(shards, 0)
    if op == "sum":
        result = numbers.sum(every, 0, hop="hop")
    elif op == "avg":
        result = numbers.sum(every, 0, hop="hop") / len(shards)
    else:
        result = {"prod": prod, "min": amin, "max": amax}[op](every, 0)
    return result[0]


def _same_bits(name: str) -> Callable[[Mapping[str, Any], list[Any]], str | None]:
    """The relation that every rank was given the same bits."""

    def differs(arguments: Mapping[str, Any], outputs: list[Any]) -> str | None:
        for rank, tensor in enumerate(outputs[1:], 1):
            if not identical(tensor, outputs[0]):
                return f"{name} of rank {rank} holds other bits than that of rank 0"
        return None

    return differs


@contract(
    args={"shards": Tensor("*shape", many="world", families=_PAYLOADS), "op": _OPS},
    returns=Output("*shape", many="world"),
    rows="all but last",
    sizes=_RANKS,
    roundings=_HOP,
    relations={"every rank holds the same bits": _same_bits("out")},
)
def all_reduce(shards: list[Number], op: str) -> list[Number]:
    """The reduction of all shards, for every rank; NaN wins min and max."""
    return [_reduced(shards, op)] * len(shards)


@contract(
    args={"shards": Tensor("world*k *rest", many="world", families=_PAYLOADS), "op": _OPS},
    returns=Output("k *rest", many="world"),
    sizes=_RANKS,
    roundings=_HOP,
)
def reduce_scatter(shards: list[Number], op: str) -> list[Number]:
    """Part r of the reduction of all shards, for rank r."""
    total = _reduced(shards, op)
    part = total.shape[0] // len(shards)
    return [total[rank * part : (rank + 1) * part] for rank in range(len(shards))]


@contract(
    args={"shards": Tensor("k@ *rest", many="world")},
    returns=Output("+k *rest", many="world"),
    sizes=_RANKS,
    relations={"every rank holds the same bits": _same_bits("out")},
)
def all_gather(shards: list[Number]) -> list[Number]:
    """The shards one after the other along the first axis, for every rank."""
    return [concatenate(shards, 0)] * len(shards)


@contract(
    args={"shards": Tensor("*shape", many="world"), "root": (0, 1)},
    returns=Output("*shape", many="world"),
    rows="all but last",
    sizes=_ROOTED,
)
def broadcast(shards: list[Number], root: int) -> list[Number]:
    """The root's shard, for every rank."""
    return [shards[root]] * len(shards)


def _gathered(scalars: Mapping[str, Any]) -> str:
    return "world*k *rest" if scalars.get("rank") == scalars["root"] else "k *rest"


@contract(
    args={"shards": Tensor("k *rest", many="world"), "root": (0, 1)},
    returns=Output(_gathered, many="world"),
    sizes=_ROOTED,
)
def gather(shards: list[Number], root: int) -> list[Number]:
    """The shards one after the other along the first axis, for the root; the others keep their own."""
    return [concatenate(shards, 0) if rank == root else shard for rank, shard in enumerate(shards)]


@contract(
    args={"shards": Tensor("world*k *rest", many="world"), "root": (0, 1)},
    returns=Output("k *rest", many="world"),
    sizes=_ROOTED,
)
def scatter(shards: list[Number], root: int) -> list[Number]:
    """Part r of the root's shard, for rank r."""
    part = shards[root].shape[0] // len(shards)
    return [shards[root][rank * part : (rank + 1) * part] for rank in range(len(shards))]


@contract(
    args={"shards": Tensor("*shape", many="world", families=_PAYLOADS), "root": (0, 1), "op": _OPS},
    returns=Output("*shape", many="world"),
    rows="all but last",
    sizes=_ROOTED,
    roundings=_HOP,
)
def reduce(shards: list[Number], root: int, op: str) -> list[Number]:
    """The reduction of all shards, for the root; the others keep their own."""
    return [_reduced(shards, op) if rank == root else shard for rank, shard in enumerate(shards)]


@contract(
    args={"sums": "R", "counts": Tensor("R", dtype="int64", whole=Whole(0, 1000))},
    returns="",
    nonempty=("R",),
    families=("half-ulps", "positive", "equal", "cancelling-pairs", "small-integers", "near-overflow"),
    roundings={"total": "Σ sums is rounded to the input's format before it is divided"},
)
def weighted_mean(sums: Number, counts: Number) -> Number:
    """Σ sums / Σ counts over the ranks: NaN where nobody counted anything and the sums are 0.

    Counts are added without error as long as the accumulator holds their sum.
    """
    return numbers.rounded(numbers.sum(sums, -1), "total") / numbers.exact_sum(counts, -1)
