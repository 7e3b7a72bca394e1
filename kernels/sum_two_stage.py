"""Sum along one axis in two launches, for rows long enough to be worth several programs each.

    partials[i, c] = sum of chunk c of row i            (one program for each c; float32, float64 for float64)
    out[i]         = sum of partials[i, :]              (the one rounding to x's format)

A row is cut into at most MAX_CHUNKS chunks of two blocks or more, so that the second launch adds a single
tile. The partials stay in the accumulator's format: in float16 each would cost up to half an ulp, and one
above 65504 would be infinite. There are no atomics, so additions have the same order, and results the
same bits, every time.

Cost: reads each element once, n + MAX_CHUNKS additions a row; writes and reads MAX_CHUNKS partials a row.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile

MAX_CHUNKS = 64


@triton.jit(do_not_specialize=(*SIZES, "chunks"))
def sum_chunks(
    x_ptr, partials_ptr, rows, n, size1, size2, stride0, stride1, stride2, step, chunk, chunks,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.program_id(1).to(tl.int64) * chunk + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, chunk, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        acc += tl.load(first[:, None] + column[None, :] * step, mask=inside, other=0.0).to(ACC)
    tl.store(partials_ptr + row * chunks + tl.program_id(1), tl.sum(acc, axis=1), mask=row < rows)


@triton.jit(do_not_specialize=("rows", "chunks"))
def sum_partials(partials_ptr, out_ptr, rows, chunks, BLOCK_M: tl.constexpr, BLOCK_C: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_C)
    inside = (row < rows)[:, None] & (c < chunks)[None, :]
    partials = tl.load(partials_ptr + row[:, None] * chunks + c[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + row, tl.sum(partials, axis=1), mask=row < rows)


@subject(
    references.sum,
    mutants={
        # 1 and 511 of 16, then 511 of −16: partials 8177 and −8176, where float16 holds multiples of 4 only
        "float16-partials": ("else torch.float32", "else torch.float16"),
        # the same row
        "bfloat16-partials": ("else torch.float32", "else torch.bfloat16"),
        # [1, 4096, −4096]: 1 + 4096 is 4096, so the sum is 0
        "float16-accumulator": ("else tl.float32", "else tl.float16"),
        # 600 ones: 512
        "last-chunk-lost": ("(c < chunks)", "(c < chunks - 1)"),
        # 511 zeros, 1, 88 zeros: the 1 is added twice
        "chunks-overlap": ("* chunk + tl.arange", "* (chunk - 1) + tl.arange"),
        # 300 ones: 256
        "first-block-of-chunk": ("range(0, chunk, BLOCK_N)", "range(0, BLOCK_N, BLOCK_N)"),
        # [[1] * 600] * 3: partials of one row overwrite the next row's
        "partials-collide": ("row * chunks + tl", "row + tl"),
        # [1, 2, 4]: 3
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[1, 2, 4], [8, 16, 32]], dim 1: 15 instead of 7
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # x[:, ::2]
        "unit-stride": (" * step, mask", ", mask"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (33, 3), dim 1: out[32] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, 32)", "view.rows // 32"),
        # shape (3, 0), dim 1: three zeros are never written
        "empty-axis-unwritten": ("if view.rows:", "if x.numel():"),
        # shape (2, 3), dim −1: adds along axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def sum_two_stage(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Sum of x [1 to 4 dims, any strides] along `dim`; 0 for an empty axis."""
    view = rows_of(x, dim)
    out = torch.empty(view.shape, dtype=x.dtype, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        blocks = max(1, triton.cdiv(view.n, block_n))
        chunk = max(2, triton.cdiv(blocks, MAX_CHUNKS)) * block_n
        chunks = triton.cdiv(blocks * block_n, chunk)
        accumulator = torch.float64 if x.dtype == torch.float64 else torch.float32
        partials = torch.empty((view.rows, chunks), dtype=accumulator, device=x.device)
        grid = (triton.cdiv(view.rows, block_m), chunks)
        sum_chunks[grid](x, partials, *view.arguments, chunk, chunks, BLOCK_M=block_m, BLOCK_N=block_n)
        grid = (triton.cdiv(view.rows, 32),)
        sum_partials[grid](partials, out, view.rows, chunks, BLOCK_M=32, BLOCK_C=MAX_CHUNKS)
    return out
