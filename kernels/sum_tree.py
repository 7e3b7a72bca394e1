"""Sum along one axis in one pass: a tile of accumulators walks the rows, then a tree adds each row's lanes.

    acc[i, j] = x[i, j] + x[i, j + BLOCK_N] + x[i, j + 2·BLOCK_N] + …     (float32; float64 for float64)
    out[i]    = tl.sum(acc[i, :])

Keeping BLOCK_N partial sums to the end makes the longest chain of additions ⌈n / BLOCK_N⌉ − 1 plus the
depth of tl.sum, where one scalar accumulator would make it n − 1. Tiles are cast before they are added,
since a GPU adds a float16 tile in float16.

Cost: reads each element once, n additions a row. A program holds BLOCK_M whole rows, so a few very long
rows leave most of a GPU idle: those are for `sum_two_stage`.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=SIZES)
def sum_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        acc += tl.load(first[:, None] + column[None, :] * step, mask=inside, other=0.0).to(ACC)
    tl.store(out_ptr + row, tl.sum(acc, axis=1), mask=row < rows)


@subject(
    references.sum,
    mutants={
        # [1, 1, 1]: no whole block, so nothing is added
        "lost-tail": ("range(0, n, BLOCK_N)", "range(0, n - BLOCK_N + 1, BLOCK_N)"),
        # [1, 2, 4]: 3 instead of 7
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[1, 2, 4], [8, 16, 32]], dim 1: 15 instead of 7
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # 300 ones: the second block replaces the first
        "last-block-only": ("acc += tl.load", "acc = tl.load"),
        # [1, 4096, −4096]: 1 + 4096 is 4096, so the sum is 0
        "float16-accumulator": ("else tl.float32", "else tl.float16"),
        # the same row
        "bfloat16-accumulator": ("else tl.float32", "else tl.bfloat16"),
        # x[:, ::2]
        "unit-stride": (" * step, mask", ", mask"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (2, 2, 2, 3), dim 3: the second half repeats the first
        "outermost-axis-ignored": ("size2, stride0, stride1, stride2)", "size2, 0, stride1, stride2)"),
        # shape (9, 200), dim 1: out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # shape (5, 200), dim 1: out[5] is written
        "store-past-the-end": ("mask=row < rows)", "mask=row <= rows)"),
        # shape (3, 0), dim 1: three zeros are never written
        "empty-axis-unwritten": ("if view.rows:", "if x.numel():"),
        # shape (2, 3), dim −1: adds along axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def sum_tree(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Sum of x [1 to 4 dims, any strides] along `dim`; 0 for an empty axis."""
    view = rows_of(x, dim)
    out = torch.empty(view.shape, dtype=x.dtype, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        sum_rows[grid](x, out, *view.arguments, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
