"""Scatter: rank r's result is part r, along the first axis, of the root's shard.

Cost: reads and writes the root's shard once; those of the other ranks are not read.
"""

import torch

import references
from harness import subject
from kernels._shards import copy


@subject(
    references.scatter,
    mutants={
        # root 1
        "root-ignored": ("copy(shards[root][", "copy(shards[0]["),
        # parts of the rank's own shard
        "own-part": ("copy(shards[root][", "copy(shards[rank]["),
        # part 0 for everyone
        "part-0-for-everyone": ("rank * rows : (rank + 1) * rows", ":rows"),
        # root 1: the root gets part 0
        "ranks-from-the-root": (
            "rank * rows : (rank + 1) * rows",
            "(rank - root) % len(shards) * rows :][:rows",
        ),
        # rows 0, 2, … for rank 0 of two
        "interleaved": ("[rank * rows : (rank + 1) * rows]", "[rank :: len(shards)]"),
        # the last rank's result is never written
        "last-rank-dropped": (
            "        copy(shards",
            "        if rank < len(shards) - 1:\n            copy(shards",
        ),
        # parts cut along the last axis of a transposed shard
        "laid-out-as-contiguous": ("copy(shards[root][", "copy(shards[root].mT.reshape(shards[root].shape)["),
    },
)
def scatter(shards: list[torch.Tensor], root: int) -> list[torch.Tensor]:
    """Part r [k, …] of the root's shard for each rank r; shards [world·k, …; 1 to 4 dims, any strides]."""
    length, *rest = shards[root].shape
    rows = length // len(shards)
    results = []
    for rank, shard in enumerate(shards):
        result = torch.empty((rows, *rest), dtype=shard.dtype, device=shard.device)
        copy(shards[root][rank * rows : (rank + 1) * rows], result)
        results.append(result)
    return results
