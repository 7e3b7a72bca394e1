"""Reduce: the root's result is the reduction of all shards; the other ranks keep what they have.

The reduction is that of `all_reduce`: in float32 (float64 for float64), divided for avg, rounded once.

Cost: reads each shard once and a buffer of its size 2·world times.
"""

import torch

import references
from harness import subject
from kernels._shards import copy
from kernels.all_reduce import reduced


@subject(
    references.reduce,
    mutants={
        # root 1: rank 0 has it
        "root-ignored": ("results[root] = result", "results[0] = result"),
        # the ranks are counted from the root
        "root-is-relative": ("results[root] = result", "results[-root] = result"),
        # every rank has it
        "result-for-everyone": ("results = list(shards)", "results = [result] * len(shards)"),
        # {2, 3, 5}: without the root's own
        "root-left-out": (
            "reduced(shards, op)",
            "reduced([x for i, x in enumerate(shards) if i != root], op)",
        ),
        # {2, 3, 5}: 5 is missing
        "last-rank-dropped": ("reduced(shards, op)", "reduced(shards[:-1], op)"),
        # {2, 3, 5}: 10
        "average-is-a-sum": ('len(shards) if op == "avg" else 1', "1"),
        # SUM where MAX was asked for
        "always-a-sum": ("reduced(shards, op)", 'reduced(shards, "sum")'),
        # the root's shard is overwritten
        "in-place": ("result = torch.empty_like(total, dtype=shards[root].dtype)", "result = shards[root]"),
        # 60000 + 60000 in float16, averaged
        "float16-sum": ("copy(total, result, divisor)", "copy(total.to(torch.float16), result, divisor)"),
    },
)
def reduce(shards: list[torch.Tensor], root: int, op: str) -> list[torch.Tensor]:
    """The reduction of shards [one shape of 1 to 4 dims, any strides] at the root, the shards elsewhere."""
    divisor = len(shards) if op == "avg" else 1
    total = reduced(shards, op)
    result = torch.empty_like(total, dtype=shards[root].dtype)
    copy(total, result, divisor)
    results = list(shards)
    results[root] = result
    return results
