"""Product along one axis: lanes multiply down the row, then `tl.reduce` with a combine function of our own.

    acc[i, j] = x[i, j] · x[i, j + BLOCK_N] · …         (float32; float64 for float64)
    out[i]    = tl.reduce(acc[i, :], multiply)

Masked lanes hold 1. The order of the factors is not left to right, so a partial product may overflow or
underflow where another order would not: such rows have no one right answer.

Cost: reads each element once, n multiplications a row.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit(do_not_specialize=SIZES)
def prod_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    acc = tl.full([BLOCK_M, BLOCK_N], 1.0, ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        acc *= tl.load(first[:, None] + column[None, :] * step, mask=inside, other=1.0).to(ACC)
    tl.store(out_ptr + row, tl.reduce(acc, 1, multiply), mask=row < rows)


@subject(
    references.prod,
    mutants={
        # [2, 2, 2]: 0
        "pad-zero": ("other=1.0", "other=0.0"),
        # [2, 2, 2]: 1, since no block is whole
        "lost-tail": ("range(0, n, BLOCK_N)", "range(0, n - BLOCK_N + 1, BLOCK_N)"),
        # [2, 2, 3]: 4
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[2, 2, 2], [3, 1, 1]], dim 1: 24 instead of 8
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # [2, then 299 ones]: the second block replaces the first
        "last-block-only": ("acc *= tl.load", "acc = tl.load"),
        # [512, 512]: inf; in float16, where inf is right, 1 + i/64 for i = 0 … 19
        "float16-accumulator": ("else tl.float32", "else tl.float16"),
        # 1 + i/64 for i = 0 … 19
        "bfloat16-accumulator": ("else tl.float32", "else tl.bfloat16"),
        # [2, 2, 2]: 6 and the padding
        "adds": ("return a * b", "return a + b"),
        # [-1, 1, 1]: the sign of a negative product is lost
        "sign-lost": ("return a * b", "return tl.abs(a * b)"),
        # x[:, ::2]
        "unit-stride": (" * step, mask", ", mask"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (9, 200), dim 1: out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # shape (3, 0), dim 1: three ones are never written
        "empty-axis-unwritten": ("if view.rows:", "if x.numel():"),
        # shape (2, 3), dim −1: multiplies along axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def prod(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Product of x [1 to 4 dims, any strides] along `dim`; 1 for an empty axis."""
    view = rows_of(x, dim)
    out = torch.empty(view.shape, dtype=x.dtype, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        prod_rows[grid](x, out, *view.arguments, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
