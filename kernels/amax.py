"""Largest element along one axis, with NaN propagated by the combine function.

    best[i, j] = larger(x[i, j], x[i, j + BLOCK_N], …)
    out[i]     = tl.reduce(best[i, :], larger)

`tl.maximum` and `tl.max` drop NaN by default; `propagate_nan` makes `larger` symmetric in it (max.NaN on
NVIDIA devices), which a comparison such as `where(a > b, a, b)` is not. Masked lanes hold −inf. The
result is one of the inputs, so it is exact; the tile is widened to float32 only because max.NaN exists
there.

Cost: reads each element once, n comparisons a row.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit
def larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit(do_not_specialize=SIZES)
def amax_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    best = tl.full([BLOCK_M, BLOCK_N], -float("inf"), ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        address = first[:, None] + column[None, :] * step
        x = tl.load(address, mask=inside, other=-float("inf")).to(ACC)
        best = larger(best, x)
    tl.store(out_ptr + row, tl.reduce(best, 1, larger), mask=row < rows)


@subject(
    references.amax,
    mutants={
        # [1, NaN, 2]: 2
        "nan-dropped": ("propagate_nan=tl.PropagateNan.ALL", "propagate_nan=tl.PropagateNan.NONE"),
        # [1, NaN, 2] or [NaN, 1, 2], whichever meets the comparison the wrong way round
        "nan-by-comparison": ("tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)", "tl.where(a > b, a, b)"),
        # [−1, −2, −3]: 0
        "pad-zero": ('other=-float("inf")', "other=0.0"),
        # [−1, −2, −3]: 0
        "starts-at-zero": ('BLOCK_N], -float("inf"), ACC', "BLOCK_N], 0.0, ACC"),
        # [−1, −2, −3]: 3
        "largest-magnitude": ("tl.maximum(a, b,", "tl.maximum(tl.abs(a), tl.abs(b),"),
        # [1, 2, 3]: −inf, since no block is whole
        "lost-tail": ("range(0, n, BLOCK_N)", "range(0, n - BLOCK_N + 1, BLOCK_N)"),
        # [1, 2, 3]: 2
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[1, 2, 3], [4, 5, 6]], dim 1: 4 instead of 3
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # 1, then 299 zeros: the second block replaces the first
        "last-block-only": ("larger(best, x)", "x"),
        # x[:, ::2]
        "unit-stride": (" * step", ""),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (9, 200), dim 1: out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # shape (2, 3), dim −1: the largest along axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def amax(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Largest element of x [1 to 4 dims, any strides] along `dim`; NaN where the row holds one."""
    view = rows_of(x, dim)
    out = torch.empty(view.shape, dtype=x.dtype, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        amax_rows[grid](x, out, *view.arguments, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
