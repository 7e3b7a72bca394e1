"""Variance along one axis in one pass: Welford's recurrence in every lane, then Chan's merge of the lanes.

    count += 1;   δ = x − mean;   mean += δ / count;   m2 += δ · (x − mean)      (Welford 1962, by lanes)
    merge:  δ = mean_b − mean_a;   mean = mean_a + δ · n_b/n;   m2 = m2_a + m2_b + δ² · n_a · n_b/n

(Chan, Golub and LeVeque 1983, doi:10.1080/00031305.1983.10483115.) An empty lane has weight 0, where n_b/n
would be 0/0.

Cost: reads each element once, where two passes read it twice; a division an element.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit
def merge(count_a, mean_a, m2_a, count_b, mean_b, m2_b):
    count = count_a + count_b
    weight = tl.where(count == 0, 0.0, count_b / count)
    delta = mean_b - mean_a
    return count, mean_a + delta * weight, m2_a + m2_b + delta * delta * count_a * weight


@triton.jit(do_not_specialize=(*SIZES, "correction"))
def welford_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step, correction,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    count = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    mean = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    m2 = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        x = tl.load(first[:, None] + column[None, :] * step, mask=inside, other=0.0).to(ACC)
        count += tl.where(inside, 1.0, 0.0)
        delta = tl.where(inside, x - mean, 0.0)
        mean += delta / tl.maximum(count, 1.0)
        m2 += tl.where(inside, delta * (x - mean), 0.0)
    count, mean, m2 = tl.reduce((count, mean, m2), 1, merge)
    tl.store(out_ptr + row, m2 / tl.maximum(n - correction, 0), mask=row < rows)


@subject(
    references.var,
    mutants={
        # [1, 5]: the lanes' means differ, and their distance counts
        "no-distance-term": ("m2_a + m2_b + delta * delta * count_a * weight", "m2_a + m2_b"),
        # [1, 5]: 16 · 2 instead of 16 · 1/2
        "merge-weight": ("delta * delta * count_a * weight", "delta * delta * count_a * count_b"),
        # [1, 4, 4, 4, 4] over unequal lanes: the mean of means
        "plain-average-of-means": ("mean_a + delta * weight", "mean_a + delta * 0.5"),
        # 300 elements: lanes of two elements
        "old-mean-twice": ("delta * (x - mean), 0.0)", "delta * delta, 0.0)"),
        # [1, 2, 3]: an empty lane is 0 / 0
        "empty-lanes": ("tl.where(count == 0, 0.0, count_b / count)", "count_b / count"),
        # [1, 1, 1]: padded lanes are elements of 0
        "padding-counts": ("tl.where(inside, 1.0, 0.0)", "1.0"),
        # [1, 2, 3, 4, 5], correction 1
        "correction-ignored": ("tl.maximum(n - correction, 0)", "n"),
        # the same row, correction 0
        "always-unbiased": ("tl.maximum(n - correction, 0)", "tl.maximum(n - 1, 0)"),
        # 100 + 0.01·normal: the mean keeps 11 bits
        "float16-mean": (
            "delta / tl.maximum(count, 1.0)",
            "(delta / tl.maximum(count, 1.0)).to(tl.float16).to(ACC)",
        ),
        # 300 elements, the last 44 different
        "lost-tail": ("range(0, n, BLOCK_N)", "range(0, n - BLOCK_N + 1, BLOCK_N)"),
        # [0, 0, 3]
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[0, 0, 0], [5, 0, 0]], dim 1
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # x[:, ::2]
        "unit-stride": (" * step, mask", ", mask"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (9, 200), dim 1: out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # shape (3, 0), dim 1: three NaN are never written
        "empty-axis-unwritten": ("if view.rows:", "if x.numel():"),
    },
)
def var_welford(x: torch.Tensor, dim: int, correction: int) -> torch.Tensor:
    """Variance of x [1 to 4 dims, any strides] along `dim`; NaN where n <= correction."""
    view = rows_of(x, dim)
    out = torch.empty(view.shape, dtype=x.dtype, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        welford_rows[grid](x, out, *view.arguments, correction, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
