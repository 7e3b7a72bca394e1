"""Softmax along one axis with the whole row in registers: one read, one write.

    e = exp(x − max(x));   out = e / Σ e                (float32; float64 for float64)

Masked lanes hold −inf, so that they neither win the maximum nor add to the sum. A row with +inf or NaN,
and a row of −inf, is NaN throughout, as inf − inf is.

Cost: reads and writes each element once, one exp and one division (2 ulp on NVIDIA devices) an element. A
row takes the next power of two in lanes, so long rows spill: above MAX_COLUMNS use `softmax_online`.
"""

import torch
import triton
import triton.language as tl

import references
from harness import Unsupported, subject
from kernels._launch import SIZES, row_offset, rows_of

MAX_COLUMNS = 32768


@triton.jit(do_not_specialize=SIZES)
def softmax_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step, inner,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    column = tl.arange(0, BLOCK_N).to(tl.int64)
    inside = (row < rows)[:, None] & (column < n)[None, :]
    x = tl.load(first[:, None] + column[None, :] * step, mask=inside, other=-float("inf")).to(ACC)
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    y = e / tl.sum(e, axis=1)[:, None]
    out = out_ptr + row // inner * (n * inner) + row % inner
    tl.store(out[:, None] + column[None, :] * inner, y, mask=inside)


@subject(
    references.softmax,
    mutants={
        # [100, 100]: inf / inf, and [−200, −200]: 0 / 0
        "no-max-shift": ("tl.exp(x - tl.max(x, axis=1)[:, None])", "tl.exp(x)"),
        # [−10, −10, −10]: 13 padded lanes of exp(0)
        "pad-zero": ('other=-float("inf")', "other=0.0"),
        # [[0, 0, 0], [−200, −200, −200]], dim 1: the second row is 0 / 0
        "maximum-of-the-tile": ("tl.max(x, axis=1)", "(tl.max(x) + tl.zeros([BLOCK_M], ACC))"),
        # −4 + (37i mod 300)/75 for i = 0 … 299: nearly every element is off
        "float16-sum": ("tl.sum(e, axis=1)", "tl.sum(e.to(tl.float16), axis=1).to(ACC)"),
        # the same row
        "bfloat16-sum": ("tl.sum(e, axis=1)", "tl.sum(e.to(tl.bfloat16), axis=1).to(ACC)"),
        # [0, 0, 0]: 1 each
        "not-normalised": ("e / tl.sum(e, axis=1)[:, None]", "e"),
        # shape (2, 3) of zeros, dim 1: 1/6 each
        "sum-of-the-tile": ("tl.sum(e, axis=1)[:, None]", "tl.sum(tl.where(inside, e, 0.0))"),
        # [0, 0, 0]: 1/2, 1/2 and an element never written
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[0, 0, 0], [5, 0, 0]], dim 1, and out[6] is written
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # x[:, ::2]
        "unit-stride": (" * step, mask", ", mask"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (3, 2), dim 0: written along the rows
        "output-along-last-axis": ("column[None, :] * inner", "column[None, :]"),
        # shape (2, 3, 2), dim 1: the second slice is written over the first
        "output-slices-overlap": ("row // inner * (n * inner)", "row // inner * n"),
        # any x: it is overwritten
        "in-place": ("torch.empty(x.shape, dtype=x.dtype, device=x.device)", "x"),
        # shape (9, 200), dim 1: out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # shape (2, 3), dim −1: normalises axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Softmax of x [1 to 4 dims, any strides, at most MAX_COLUMNS elements along `dim`]."""
    view = rows_of(x, dim)
    if view.n > MAX_COLUMNS:
        raise Unsupported(f"a row of at most {MAX_COLUMNS} elements; got {view.n}")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        block_n = max(16, triton.next_power_of_2(view.n))
        block_m = max(1, 2048 // block_n)
        warps = min(16, max(4, block_n // 1024))
        grid = (triton.cdiv(view.rows, block_m),)
        softmax_rows[grid](
            x, out, *view.arguments, view.inner, BLOCK_M=block_m, BLOCK_N=block_n, num_warps=warps
        )
    return out
