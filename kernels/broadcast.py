"""Broadcast: every rank's result is a copy of the root's shard. Cost: reads and writes world shards."""

import torch

import references
from harness import subject
from kernels._shards import copy


@subject(
    references.broadcast,
    mutants={
        # root 1
        "root-ignored": ("copy(shards[root], result)", "copy(shards[0], result)"),
        # root 0
        "from-the-last-rank": ("copy(shards[root], result)", "copy(shards[-1], result)"),
        # the neighbour's of the root
        "root-from-one": ("copy(shards[root], result)", "copy(shards[root - 1], result)"),
        # every rank has its own
        "not-sent": ("copy(shards[root], result)", "copy(shard, result)"),
        # the last rank's result is never written
        "last-rank-dropped": (
            "        copy(shards",
            "        if len(results) < len(shards) - 1:\n            copy(shards",
        ),
        # root 1: the ranks before it keep what they had
        "only-to-higher-ranks": (
            "copy(shards[root], result)",
            "copy(shards[root] if len(results) >= root else shard, result)",
        ),
        # 2^-30 in float32
        "through-float16": ("copy(shards[root], result)", "copy(shards[root].to(torch.float16), result)"),
    },
)
def broadcast(shards: list[torch.Tensor], root: int) -> list[torch.Tensor]:
    """For every rank, the root's shard; shards [one shape of 1 to 4 dims, any strides each]."""
    results = []
    for shard in shards:
        result = torch.empty_like(shard, memory_format=torch.contiguous_format)
        copy(shards[root], result)
        results.append(result)
    return results
