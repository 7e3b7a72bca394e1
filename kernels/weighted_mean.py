"""The mean over everything that the ranks counted, from each rank's sum and count, in one program.

    out = Σ sums / Σ counts                                  (float32; float64 for float64; rounded once)

Counts are added as integers. A mean of each rank's mean would weigh a rank with one element as much as one
with a thousand, and be NaN as soon as a rank counted nothing. Cost: reads two numbers of each rank.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject


@triton.jit(do_not_specialize=("ranks",))
def weighted_mean_of_ranks(
    sums_ptr, counts_ptr, out_ptr, ranks, sum_step, count_step, BLOCK: tl.constexpr
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if sums_ptr.dtype.element_ty == tl.float64 else tl.float32
    total = tl.zeros([BLOCK], ACC)
    counted = tl.zeros([BLOCK], tl.int64)
    for start in range(0, ranks, BLOCK):
        rank = start + tl.arange(0, BLOCK).to(tl.int64)
        total += tl.load(sums_ptr + rank * sum_step, mask=rank < ranks, other=0.0).to(ACC)
        counted += tl.load(counts_ptr + rank * count_step, mask=rank < ranks, other=0)
    tl.store(out_ptr, tl.sum(total, axis=0) / tl.sum(counted, axis=0).to(ACC))


@subject(
    references.weighted_mean,
    mutants={
        # sums [1, 12], counts [1, 4]: 2 instead of 2.6
        "mean-of-means": (
            "tl.sum(total, axis=0) / tl.sum(counted, axis=0).to(ACC)",
            "tl.sum(tl.where(counted > 0, total / counted.to(ACC), 0.0), axis=0) / ranks",
        ),
        # the same case: 6.5
        "over-the-ranks": ("tl.sum(counted, axis=0).to(ACC)", "ranks"),
        # counts [0, 4]: divided by 5
        "at-least-one-each": (
            "counted += tl.load(",
            "counted += tl.maximum(1, 0 * rank) * (rank < ranks) + tl.load(",
        ),
        # nobody counted anything: 0 where it is NaN
        "nothing-counted": (
            "tl.sum(counted, axis=0).to(ACC)",
            "tl.maximum(tl.sum(counted, axis=0), 1).to(ACC)",
        ),
        # sums of 60000
        "float16-sum": (
            "total = tl.zeros([BLOCK], ACC)",
            "ACC: tl.constexpr = tl.float16\n    total = tl.zeros([BLOCK], ACC)",
        ),
        # counts of 1000 each: 257 is not a bfloat16
        "counts-in-bfloat16": (
            "tl.sum(counted, axis=0).to(ACC)",
            "tl.sum(counted, axis=0).to(tl.bfloat16).to(ACC)",
        ),
        # the count of the last rank is lost
        "last-count-lost": ("mask=rank < ranks, other=0)", "mask=rank < ranks - 1, other=0)"),
        # lanes that stand for no rank count one
        "padded-counts": ("mask=rank < ranks, other=0)", "mask=rank < ranks, other=1)"),
        # sums[::2]
        "unit-stride": ("rank * sum_step", "rank"),
        # counts[::2]
        "unit-stride-of-counts": ("rank * count_step", "rank"),
    },
)
def weighted_mean(sums: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Σ sums / Σ counts [a scalar] of sums and integer counts [1 dim, not empty, any strides each]."""
    out = torch.empty((), dtype=sums.dtype, device=sums.device)
    weighted_mean_of_ranks[(1,)](sums, counts, out, sums.numel(), sums.stride(0), counts.stride(0), BLOCK=64)
    return out
