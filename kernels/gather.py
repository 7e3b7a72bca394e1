"""Gather: the root's result is the shards one after the other along the first axis; the others keep theirs.

Cost: reads and writes each shard once.
"""

import torch

import references
from harness import subject
from kernels._shards import copy


@subject(
    references.gather,
    mutants={
        # root 1: rank 0 has them
        "root-ignored": ("results[root] = result", "results[0] = result"),
        # the last rank's rows are never written
        "last-rank-dropped": ("in enumerate(shards):", "in enumerate(shards[:-1]):"),
        # root 1: starts with shard 1
        "root-first": ("in enumerate(shards):", "in enumerate(shards[root:] + shards[:root]):"),
        # two ranks: 1 0 instead of 0 1
        "in-reverse": ("in enumerate(shards):", "in enumerate(reversed(shards)):"),
        # shard 0 is there for every rank
        "own-shard-for-everyone": ("copy(shard, ", "copy(shards[root], "),
        # rows of the ranks interleaved
        "interleaved": ("result[rank * rows : (rank + 1) * rows]", "result[rank :: len(shards)]"),
        # every rank has them
        "all-gather": ("results = list(shards)", "results = [result] * len(shards)"),
    },
)
def gather(shards: list[torch.Tensor], root: int) -> list[torch.Tensor]:
    """The shards [k, …; 1 to 4 dims, any strides each] as [world·k, …] at the root, the shards elsewhere."""
    rows, *rest = shards[root].shape
    shape = (len(shards) * rows, *rest)
    result = torch.empty(shape, dtype=shards[root].dtype, device=shards[root].device)
    for rank, shard in enumerate(shards):
        copy(shard, result[rank * rows : (rank + 1) * rows])
    results = list(shards)
    results[root] = result
    return results
