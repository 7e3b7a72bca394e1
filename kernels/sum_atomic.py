"""Sum along one axis by atomic additions: every program adds its chunk of a row to the row's total.

    total[i] = 0;   total[i] += sum of chunk c of row i, for every c in the order in which programs finish

The total is float32 (float64 for float64) and rounded to x's format at the end: float16 atomics would round
at every chunk. Results differ from run to run in the last bits, which the any-order bound allows. Atomic
additions of float32 flush subnormal numbers (seen on an H200: a total of 4e-39 is 0), so that this is claimed.

Cost: reads each element once; one atomic a chunk and row. The totals are written twice more.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile

BLOCKS = 2
"""Blocks of a row that one program adds."""


@triton.jit(do_not_specialize=SIZES)
def add_chunks(
    x_ptr, total_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    BLOCKS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.program_id(1).to(tl.int64) * (BLOCKS * BLOCK_N) + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for block in range(BLOCKS):
        column = block * BLOCK_N + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        acc += tl.load(first[:, None] + column[None, :] * step, mask=inside, other=0.0).to(ACC)
    tl.atomic_add(total_ptr + row, tl.sum(acc, axis=1), mask=row < rows)


@subject(
    references.sum,
    claims={"flush": "all"},
    mutants={
        # any row: what the allocation held is added
        "not-initialised": ("torch.zeros(", "torch.empty("),
        # 600 of 1: the last chunk alone
        "store-for-atomic": (
            "tl.atomic_add(total_ptr + row, tl.sum(acc, axis=1)",
            "tl.store(total_ptr + row, tl.sum(acc, axis=1)",
        ),
        # 2048 and ones: lost in the total
        "float16-total": ("else torch.float32", "else torch.float16"),
        # the same row
        "bfloat16-chunk": ("tl.sum(acc, axis=1)", "tl.sum(acc.to(tl.bfloat16), axis=1).to(ACC)"),
        # 300 of 1: chunks of one block overlap
        "chunks-overlap": ("(BLOCKS * BLOCK_N) + tl", "BLOCK_N + tl"),
        # 300 of 1: 256
        "first-block-of-chunk": ("range(BLOCKS)", "range(1)"),
        # 600 of 1: 512
        "last-chunk-lost": ("triton.cdiv(view.n, BLOCKS * block_n)", "max(1, view.n // (BLOCKS * block_n))"),
        # two rows: both totals in the first
        "one-total": ("total_ptr + row,", "total_ptr + row * 0,"),
        # shape (9, 200), dim 1: total[8] stays 0
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # [1, 2, 4]: 3
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[1, 2, 4], [8, 16, 32]], dim 1: 15 instead of 7
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # x[:, ::2]
        "unit-stride": (" * step, mask", ", mask"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (2, 3), dim −1: adds along axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def sum_atomic(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Sum of x [1 to 4 dims, any strides] along `dim`; 0 for an empty axis."""
    view = rows_of(x, dim)
    accumulator = torch.float64 if x.dtype == torch.float64 else torch.float32
    total = torch.zeros(view.shape, dtype=accumulator, device=x.device)
    if x.numel():
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m), triton.cdiv(view.n, BLOCKS * block_n))
        add_chunks[grid](x, total, *view.arguments, BLOCKS=BLOCKS, BLOCK_M=block_m, BLOCK_N=block_n)
    return total.to(x.dtype)
