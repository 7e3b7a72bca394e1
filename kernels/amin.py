"""Smallest element along one axis, with NaN counted beside it.

    least[i, j] = min(x[i, j], x[i, j + BLOCK_N], …)
    nans[i, j]  = how many of these are NaN
    out[i]      = NaN if any nans[i, :], else tl.min(least[i, :])

`tl.minimum` and `tl.min` drop NaN, so a second accumulator remembers it: the way for combine functions
that have no `propagate_nan`. (`amax` does without the second reduction.) Masked lanes hold +inf. The
result is one of the inputs, so it is exact.

Cost: reads each element once; n comparisons, n tests for NaN and two reductions a row.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=SIZES)
def amin_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    least = tl.full([BLOCK_M, BLOCK_N], float("inf"), ACC)
    nans = tl.zeros([BLOCK_M, BLOCK_N], tl.int32)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        address = first[:, None] + column[None, :] * step
        x = tl.load(address, mask=inside, other=float("inf")).to(ACC)
        least = tl.minimum(least, x)
        nans += (x != x).to(tl.int32)
    any_nan = tl.sum(nans, axis=1) > 0
    tl.store(out_ptr + row, tl.where(any_nan, float("nan"), tl.min(least, axis=1)), mask=row < rows)


@subject(
    references.amin,
    mutants={
        # [1, NaN, 2]: 1
        "nan-dropped": ("> 0", "> n"),
        # NaN, then 299 zeros: the second block forgets it
        "nan-of-last-block": ("nans += (x", "nans = (x"),
        # [NaN, 1, 2]: 1, while an all-NaN row passes
        "nan-if-all": ("tl.sum(nans, axis=1) > 0", "tl.sum(nans, axis=1) >= n"),
        # [1, 2, 3]: 0
        "pad-zero": ('other=float("inf")', "other=0.0"),
        # [1, 2, 3]: 0
        "starts-at-zero": ('BLOCK_N], float("inf"), ACC', "BLOCK_N], 0.0, ACC"),
        # 1, then 299 twos: the second block replaces the first
        "last-block-only": ("tl.minimum(least, x)", "x"),
        # [1, 2, 3]: inf, since no block is whole
        "lost-tail": ("range(0, n, BLOCK_N)", "range(0, n - BLOCK_N + 1, BLOCK_N)"),
        # [3, 2, 1]: 2
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[4, 5, 6], [1, 2, 3]], dim 1: 1 instead of 4
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # x[:, ::2]
        "unit-stride": (" * step", ""),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (9, 200), dim 1: out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # shape (2, 3), dim −1: the smallest along axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def amin(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Smallest element of x [1 to 4 dims, any strides] along `dim`; NaN where the row holds one."""
    view = rows_of(x, dim)
    out = torch.empty(view.shape, dtype=x.dtype, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        amin_rows[grid](x, out, *view.arguments, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
