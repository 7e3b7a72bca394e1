"""All-gather: every rank's result is the shards one after the other along the first axis.

Shards may differ in their first length, which may be 0: each is copied to where the ones before it end.
Cost: reads each shard `world` times and writes each result once.
"""

import torch

import references
from harness import subject
from kernels._shards import copy


@subject(
    references.all_gather,
    mutants={
        # 2 and 1 rows: places for shards of one length
        "equal-shards-assumed": ("start += len(shard)", "start += len(shards[0])"),
        # 0, 2 and 1 rows: as many as the longest, and only the end is cut off
        "padded-to-the-longest": (
            "start += len(shard)",
            "start += min(max(map(len, shards)), rows - start - len(shard))",
        ),
        # the last shard's place is never written
        "last-rank-dropped": ("for shard in shards:", "for shard in shards[:-1]:"),
        # an empty shard ends the loop
        "stops-at-an-empty-shard": (
            "            copy(shard,",
            "            if not len(shard):\n                break\n            copy(shard,",
        ),
        # two ranks of one row: 1 0 instead of 0 1
        "in-reverse": ("for shard in shards:", "for shard in reversed(shards):"),
        # rank 1 starts with its own shard
        "own-shard-first": (
            "for shard in shards:",
            "for shard in sorted(shards, key=lambda x: x is not own):",
        ),
        # 2^-30 in float32
        "through-float16": ("copy(shard, result", "copy(shard.to(torch.float16), result"),
        # every rank gets only its own shard, again and again
        "own-shard-for-everyone": ("copy(shard, result", "copy(own, result"),
    },
)
def all_gather(shards: list[torch.Tensor]) -> list[torch.Tensor]:
    """For every rank, the shards [k₀, …], [k₁, …], … [1 to 4 dims, any strides each] as [Σ k, …]."""
    rows = sum(len(shard) for shard in shards)
    results = []
    for own in shards:
        result = torch.empty((rows, *own.shape[1:]), dtype=own.dtype, device=own.device)
        start = 0
        for shard in shards:
            copy(shard, result[start : start + len(shard)])
            start += len(shard)
        results.append(result)
    return results
