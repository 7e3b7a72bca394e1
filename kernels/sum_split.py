"""Split sum along one axis: programs add chunks of a row, and store them in x's own format.

    partials[i, c] = sum of chunk c of row i, rounded to x's format
    out[i]         = sum of partials[i, :], in float32 (float64 for float64), rounded once more

The partials take no more room than x's own, and each costs up to half an ulp of it: that is the claim
roundings='partials', which `sum_two_stage`, with float32 partials, does not need. In float16 a chunk above
65504 is infinite even where the whole sum is not.

Cost: reads each element once; writes and reads a partial for each 512 elements.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile

BLOCKS = 2
"""Blocks of a row that one program adds."""


@triton.jit(do_not_specialize=(*SIZES, "chunks"))
def sum_chunks(
    x_ptr, partials_ptr, rows, n, size1, size2, stride0, stride1, stride2, step, chunks,
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
    tl.store(partials_ptr + row * chunks + tl.program_id(1), tl.sum(acc, axis=1), mask=row < rows)


@triton.jit(do_not_specialize=("rows", "chunks"))
def sum_partials(partials_ptr, out_ptr, rows, chunks, BLOCK_M: tl.constexpr, BLOCK_C: tl.constexpr):
    ACC: tl.constexpr = tl.float64 if partials_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    acc = tl.zeros([BLOCK_M, BLOCK_C], ACC)
    for start in range(0, chunks, BLOCK_C):
        c = start + tl.arange(0, BLOCK_C)
        held = (row < rows)[:, None] & (c < chunks)[None, :]
        acc += tl.load(partials_ptr + row[:, None] * chunks + c[None, :], mask=held, other=0.0).to(ACC)
    tl.store(out_ptr + row, tl.sum(acc, axis=1), mask=row < rows)


@subject(
    references.sum,
    claims={"roundings": ("partials",)},
    mutants={
        # 256 and 500 of 1/4 in bfloat16: each block's sum is rounded, not each chunk's once
        "accumulator-in-input-format": (
            "acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)\n    for block",
            "ACC: tl.constexpr = tl.bfloat16\n    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)\n    for block",
        ),
        # partials narrower than x
        "bfloat16-partials": (
            "dtype=x.dtype, device=x.device)\n        grid",
            "dtype=torch.bfloat16, device=x.device)\n        grid",
        ),
        # the partials are added in float16
        "partials-added-in-float16": (
            "mask=held, other=0.0).to(ACC)",
            "mask=held, other=0.0).to(tl.float16)",
        ),
        # 600 of 1: 512
        "last-chunk-lost": ("(c < chunks)", "(c < chunks - 1)"),
        # 600 of 1: chunks of one block overlap
        "chunks-overlap": ("(BLOCKS * BLOCK_N) + tl", "BLOCK_N + tl"),
        # 300 of 1: 256
        "first-block-of-chunk": ("range(BLOCKS)", "range(1)"),
        # partials of one row overwrite the next row's
        "partials-collide": ("row * chunks + tl", "row + tl"),
        # [1, 2, 4]: 3
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[1, 2, 4], [8, 16, 32]], dim 1: 15 instead of 7
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # x[:, ::2]
        "unit-stride": (" * step, mask", ", mask"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (3, 0), dim 1: three zeros are never written
        "empty-axis-unwritten": ("if view.rows:", "if x.numel():"),
        # shape (2, 3), dim −1: adds along axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def sum_split(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Sum of x [1 to 4 dims, any strides] along `dim`; 0 for an empty axis."""
    view = rows_of(x, dim)
    out = torch.empty(view.shape, dtype=x.dtype, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        chunks = max(1, triton.cdiv(view.n, BLOCKS * block_n))
        partials = torch.empty((view.rows, chunks), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(view.rows, block_m), chunks)
        sum_chunks[grid](
            x, partials, *view.arguments, chunks, BLOCKS=BLOCKS, BLOCK_M=block_m, BLOCK_N=block_n
        )
        sum_partials[(triton.cdiv(view.rows, 32),)](partials, out, view.rows, chunks, BLOCK_M=32, BLOCK_C=64)
    return out
