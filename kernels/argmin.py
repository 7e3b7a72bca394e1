"""Index of the smallest element along one axis; NaN counts as smallest, the first of ties wins.

Block by block, each row keeps the best value so far, its index, and whether it was NaN:

    hit   = NaN where the block has one, else where x is the block's minimum
    index = the first hit, taken if the block beats what is kept: NaN beats numbers, ties do not beat

tl.min drops NaN, so NaN is counted apart. The index starts at 0, which a row of +inf keeps.

Cost: reads each element once; three reductions a block.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=SIZES)
def argmin_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    best = tl.full([BLOCK_M], float("inf"), ACC)
    index = tl.zeros([BLOCK_M], tl.int64)
    undefined = tl.zeros([BLOCK_M], tl.int32)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        address = first[:, None] + column[None, :] * step
        x = tl.load(address, mask=inside, other=float("inf")).to(ACC)
        nan = (x != x) & inside
        any_nan = tl.max(nan.to(tl.int32), axis=1)
        top = tl.min(tl.where(nan, float("inf"), x), axis=1)
        hit = tl.where(any_nan[:, None] > 0, nan, (x == top[:, None]) & inside)
        place = tl.min(tl.where(hit, column[None, :], n), axis=1)
        better = (undefined == 0) & ((any_nan > 0) | (top < best))
        index = tl.where(better, place, index)
        best = tl.where(better, top, best)
        undefined = tl.maximum(undefined, any_nan)
    tl.store(out_ptr + row, index, mask=row < rows)


@subject(
    references.argmin,
    dtypes=("float32", "float16", "bfloat16", "float64"),
    mutants={
        # [1, NaN, −2]: 2
        "nan-ignored": ("nan = (x != x) & inside", "nan = (x != x) & (x == x)"),
        # [1, NaN, 0, NaN]: 3
        "last-nan": (
            "tl.min(tl.where(hit, column[None, :], n), axis=1)",
            "tl.max(tl.where(hit, column[None, :], -1), axis=1)",
        ),
        # 256 of 0, then 44 of 0: 256
        "later-ties-win": ("(top < best)", "(top <= best)"),
        # NaN, 255 of 0, then 44 with NaN among them: the second NaN
        "later-nan-wins": ("(undefined == 0) & (", "(undefined >= 0) & ("),
        # NaN, 255 of 0, then −1: 256, since a NaN is forgotten after its block
        "nan-of-block-only": ("undefined = tl.maximum(undefined, any_nan)", "undefined = any_nan"),
        # [1, 1, 1]: index 3, a padded lane
        "pad-zero": ('mask=inside, other=float("inf")', "mask=inside, other=0.0"),
        # [inf, inf]: −1
        "index-unset": ("tl.zeros([BLOCK_M], tl.int64)", "tl.full([BLOCK_M], -1, tl.int64)"),
        # index within its block
        "index-in-block": ("tl.where(hit, column[None, :], n)", "tl.where(hit, lane[None, :], n)"),
        # 300 elements, the smallest at 280: found among the first 256
        "lost-tail": ("range(0, n, BLOCK_N)", "range(0, n - BLOCK_N + 1, BLOCK_N)"),
        # the smallest last
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # the first of the next row
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # x[:, ::2]
        "unit-stride": (" * step", ""),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (9, 200), dim 1: out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # shape (2, 3), dim −1: reduces axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
        # an index of int32
        "narrow-index": ("dtype=torch.int64", "dtype=torch.int32"),
    },
)
def argmin(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Index, int64, of the smallest element of x [1 to 4 dims, any strides] along `dim`, not empty."""
    view = rows_of(x, dim)
    out = torch.empty(view.shape, dtype=torch.int64, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        argmin_rows[grid](x, out, *view.arguments, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
