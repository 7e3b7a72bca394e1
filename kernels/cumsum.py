"""Running sum along one axis: a scan of each block, and a carry from block to block.

    out[i, j] = carry + x[i, start] + … + x[i, j];   carry = out[i, last of the block]

in float32 (float64 for float64), rounded once to x's format; the carry is not rounded.

Blocks are cast before they are scanned, since a GPU scans a float16 block in float16. A prefix is at most
log2(BLOCK_N) additions deep within its block, and one more for each block before it.

Cost: reads and writes each element once; log2(BLOCK_N) additions an element.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=SIZES)
def cumsum_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step, inner,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    out = out_ptr + row // inner * (n * inner) + row % inner
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    carry = tl.zeros([BLOCK_M], ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        x = tl.load(first[:, None] + column[None, :] * step, mask=inside, other=0.0).to(ACC)
        y = carry[:, None] + tl.cumsum(x, axis=1)
        tl.store(out[:, None] + column[None, :] * inner, y, mask=inside)
        carry = tl.sum(tl.where(lane[None, :] == BLOCK_N - 1, y, 0.0), axis=1)


@subject(
    references.cumsum,
    mutants={
        # 300 of 1: out[256] is 1
        "no-carry": ("carry[:, None] + tl.cumsum", "tl.cumsum"),
        # 600 of 1: out[512] is 257
        "carry-of-block": (
            "carry = tl.sum(tl.where(lane[None, :] == BLOCK_N - 1, y, 0.0), axis=1)",
            "carry = tl.sum(x, axis=1)",
        ),
        # 300 of 1: out[256] is 256, the carry of the element before the last
        "carry-too-early": ("lane[None, :] == BLOCK_N - 1", "lane[None, :] == BLOCK_N - 2"),
        # [1, 2, 3]: 0, 1, 3
        "exclusive": ("tl.cumsum(x, axis=1)", "tl.cumsum(x, axis=1) - x"),
        # [1, 2, 3]: 6, 5, 3
        "from-the-end": ("tl.cumsum(x, axis=1)", "tl.cumsum(x, axis=1, reverse=True)"),
        # 4096 and ones: lost in 11 bits
        "float16-carry": (
            "BLOCK_N - 1, y, 0.0), axis=1)",
            "BLOCK_N - 1, y, 0.0), axis=1).to(tl.float16).to(ACC)",
        ),
        # the same row
        "bfloat16-scan": ("tl.cumsum(x, axis=1)", "tl.cumsum(x.to(tl.bfloat16), axis=1).to(ACC)"),
        # two rows: the second starts with the first's carry
        "carry-of-the-tile": (
            "BLOCK_N - 1, y, 0.0), axis=1)",
            "BLOCK_N - 1, y, 0.0)) + tl.zeros([BLOCK_M], ACC)",
        ),
        # 300 of 1: out[256] is never written
        "lost-tail": ("range(0, n, BLOCK_N)", "range(0, n - BLOCK_N + 1, BLOCK_N)"),
        # [1, 2, 3]: out[2] is never written
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[1, 2, 3], [4, 5, 6]], dim 1: out[3] is written twice
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # x[:, ::2]
        "unit-stride": (" * step, mask", ", mask"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (3, 2), dim 0: written along the rows
        "output-along-last-axis": ("column[None, :] * inner", "column[None, :]"),
        # shape (9, 200), dim 1: out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # shape (2, 3), dim −1: runs along axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def cumsum(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Running sums of x [1 to 4 dims, any strides] along `dim`."""
    view = rows_of(x, dim)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        cumsum_rows[grid](x, out, *view.arguments, view.inner, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
