"""Reduce-scatter: rank r's result is part r, along the first axis, of the reduction of all shards.

Only the parts that a rank keeps are reduced for it, each as `all_reduce` does: in float32 (float64 for
float64), divided for avg, rounded once.

Cost: reads each shard once, and a buffer of the result's size 2·world times.
"""

import torch

import references
from harness import subject
from kernels._shards import copy
from kernels.all_reduce import reduced


@subject(
    references.reduce_scatter,
    mutants={
        # two ranks of [1, 2]: rank 1 gets part 0
        "part-0-for-everyone": ("shard[rank * length :", "shard[0:"),
        # two ranks of [1, 2]: the parts are exchanged
        "parts-rotated": (
            "rank * length : (rank + 1) * length",
            "(len(shards) - 1 - rank) * length :][:length",
        ),
        # ranks interleaved: rows 0, 2, … for rank 0 of two
        "interleaved": ("shard[rank * length : (rank + 1) * length]", "shard[rank :: len(shards)]"),
        # {2, 3, 5}: 5 is missing
        "last-rank-dropped": ("for shard in shards]", "for shard in shards[: max(1, len(shards) - 1)]]"),
        # part r of rank r alone
        "not-reduced": ("total = reduced(parts, op)", "total = reduced(parts[rank : rank + 1], op)"),
        # {2, 3, 5}: 10
        "average-is-a-sum": ('len(shards) if op == "avg" else 1', "1"),
        # averaged over the length of a part
        "average-over-the-part": ('len(shards) if op == "avg"', 'length if op == "avg"'),
        # SUM where MAX was asked for
        "always-a-sum": ("reduced(parts, op)", 'reduced(parts, "sum")'),
        # 60000 + 60000 − 60000 in float16, half ulps in the other formats
        "float16-sum": ("copy(total, result, divisor)", "copy(total.to(torch.float16), result, divisor)"),
        # the last rank's result is never written
        "last-rank-unwritten": (
            "        copy(total, result, divisor)",
            "        if rank < len(shards) - 1:\n            copy(total, result, divisor)",
        ),
    },
)
def reduce_scatter(shards: list[torch.Tensor], op: str) -> list[torch.Tensor]:
    """Part r [k, …] of the reduction of shards [world·k, …; 1 to 4 dims, any strides] for each rank r."""
    length = shards[0].shape[0] // len(shards)
    divisor = len(shards) if op == "avg" else 1
    results = []
    for rank, _ in enumerate(shards):
        parts = [shard[rank * length : (rank + 1) * length] for shard in shards]
        total = reduced(parts, op)
        result = torch.empty_like(total, dtype=shards[0].dtype)
        copy(total, result, divisor)
        results.append(result)
    return results
