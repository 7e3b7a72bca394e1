"""All-reduce in one shot: every rank's shard is read by everyone and accumulated in a wide buffer.

    total = shard₀;   total = total ∘ shardᵣ for r = 1, 2, …   (float32; float64 for float64)
    out   = total, or total / world for avg                    (rounded once, the same bits for every rank)

∘ is +, ·, min or max, the last two NaN if either side is. Sums of 16-bit shards neither overflow nor stall
before they are averaged, which dividing afterwards or before in 16 bits would let them do.

Cost: reads each shard once and the buffer 2·world times; a chain of world − 1 operations an element.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._elements import SHAPE, element_offset, shape_of, strides_of
from kernels._shards import BLOCK, copy

OPERATIONS = {"sum": 0, "avg": 0, "prod": 1, "min": 2, "max": 3}
"""By the number that the kernel knows them by: avg is a sum until it is divided."""


@triton.jit(do_not_specialize=("count", *SHAPE))
def accumulate_elements(
    shard_ptr, total_ptr, count, size1, size2, size3, stride0, stride1, stride2, stride3,
    OPERATION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = element_offset(i, size1, size2, size3, stride0, stride1, stride2, stride3)
    total = tl.load(total_ptr + i, mask=i < count, other=0.0)
    x = tl.load(shard_ptr + there, mask=i < count, other=0.0).to(total.dtype)
    if OPERATION == 0:
        total += x
    elif OPERATION == 1:
        total *= x
    elif OPERATION == 2:
        total = tl.minimum(total, x, propagate_nan=tl.PropagateNan.ALL)
    else:
        total = tl.maximum(total, x, propagate_nan=tl.PropagateNan.ALL)
    tl.store(total_ptr + i, total, mask=i < count)


def reduced(shards: list[torch.Tensor], op: str) -> torch.Tensor:
    """The shards [one shape of 1 to 4 dims, any strides] under op, in a wide format; avg is to be divided."""
    wide = torch.float64 if shards[0].dtype == torch.float64 else torch.float32
    total = torch.empty(shards[0].shape, dtype=wide, device=shards[0].device)
    copy(shards[0], total)
    for shard in shards[1:]:
        if shard.numel():
            grid = (triton.cdiv(shard.numel(), BLOCK),)
            accumulate_elements[grid](
                shard, total, shard.numel(), *shape_of(shard), *strides_of(shard),
                OPERATION=OPERATIONS[op], BLOCK=BLOCK,
            )  # fmt: skip
    return total


@subject(
    references.all_reduce,
    mutants={
        # {2, 3, 5}: SUM 30, PROD 10
        "operations-in-another-order": ('"sum": 0, "avg": 0, "prod": 1', '"sum": 1, "avg": 0, "prod": 0'),
        # {2, 3, 5}: MIN 5
        "min-and-max-swapped": ('"min": 2, "max": 3', '"min": 3, "max": 2'),
        # {NaN, 1}, min: 1
        "nan-lost-in-min": (
            "tl.minimum(total, x, propagate_nan=tl.PropagateNan.ALL)",
            "tl.where(total < x, total, x)",
        ),
        # {1, NaN}, max: 1
        "nan-lost-in-max": (
            "tl.maximum(total, x, propagate_nan=tl.PropagateNan.ALL)",
            "tl.where(x > total, x, total)",
        ),
        # 60000 + 60000 − 60000, and the average of 8 ranks of 10000, are infinite
        "float16-sum": ("else torch.float32", "else torch.float16"),
        # 8 ranks of half ulps
        "bfloat16-sum": ("else torch.float32", "else torch.bfloat16"),
        # {2, 3, 5}: the third rank is missing
        "last-rank-dropped": ("for shard in shards[1:]:", "for shard in shards[1:-1]:"),
        # {2, 3, 5}: 2 counts twice
        "first-rank-twice": ("for shard in shards[1:]:", "for shard in shards:"),
        # {2, 3, 5}: 10
        "average-is-a-sum": ('len(shards) if op == "avg" else 1', "1"),
        # three ranks: divided by two
        "average-over-the-others": ('len(shards) if op == "avg"', 'max(1, len(shards) - 1) if op == "avg"'),
        # every rank but the first keeps what it had
        "rank-0-only": (
            "copy(total, result, divisor)",
            "copy(total if not results else shard, result, divisor)",
        ),
        # 1/3 in bfloat16, and only for the last rank
        "ranks-with-different-bits": (
            "copy(total, result, divisor)",
            "copy(total * (1 + 2.0**-11 * len(results)), result, divisor)",
        ),
        # the shards are overwritten
        "in-place": ("result = torch.empty_like(total, dtype=shard.dtype)", "result = shard"),
        # 1027 elements: the last three are those of rank 0
        "remainder-not-reduced": (
            "grid = (triton.cdiv(shard.numel(), BLOCK),)",
            "grid = (max(1, shard.numel() // BLOCK),)",
        ),
        # shards of unlike strides
        "strides-of-rank-0": ("*strides_of(shard)", "*strides_of(shards[0])"),
    },
)
def all_reduce(shards: list[torch.Tensor], op: str) -> list[torch.Tensor]:
    """For every rank, the reduction of the shards [one shape of 1 to 4 dims, any strides each]."""
    total = reduced(shards, op)
    divisor = len(shards) if op == "avg" else 1
    results = []
    for shard in shards:
        result = torch.empty_like(total, dtype=shard.dtype)
        copy(total, result, divisor)
        results.append(result)
    return results
