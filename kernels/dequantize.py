"""Codes times the scale of their row, in float32: exact factors, one rounding.

Cost: reads a byte and writes a float32 for each element.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=SIZES)
def dequantize_rows(
    q_ptr, scale_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    scale0, scale1, scale2, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row < rows)[:, None] & (column < n)[None, :]
    first = q_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    q = tl.load(first[:, None] + column[None, :] * step, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(
        scale_ptr + row_offset(row, size1, size2, scale0, scale1, scale2), mask=row < rows, other=0.0
    )
    tl.store(out_ptr + row[:, None] * n + column[None, :], q * scale[:, None], mask=inside)


@subject(
    references.dequantize,
    dtypes=("int8", "float8_e4m3fn", "float8_e5m2"),
    mutants={
        # [[1], [1]] with scales [1, 2]
        "first-scale-for-all": ("row_offset(row, size1, size2, scale0, scale1, scale2)", "row * 0"),
        # scale[::2]
        "scale-contiguous": ("row_offset(row, size1, size2, scale0, scale1, scale2)", "row"),
        # q transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # 3 · 0.1
        "product-in-bfloat16": ("q * scale[:, None]", "(q * scale[:, None]).to(tl.bfloat16)"),
        # 3 · 0.1
        "scale-in-float16": ("q * scale[:, None]", "q * scale.to(tl.float16).to(tl.float32)[:, None]"),
        # 3 with scale 0.1: 30
        "divided": ("q * scale[:, None]", "q / scale[:, None]"),
        # −1 of int8: 255
        "unsigned": ("other=0.0).to(tl.float32)\n", "other=0.0).to(tl.uint8).to(tl.float32)\n"),
        # n = 3
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # q[:, ::2]
        "unit-stride": ("column[None, :] * step", "column[None, :]"),
    },
)
def dequantize(q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """q [..., n] · scale [...] in float32, any strides."""
    view = rows_of(q, -1)
    out = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    if out.numel():
        block_m, block_n = tile(view.n)
        strides = (0,) * (3 - scale.ndim) + scale.stride()
        grid = (triton.cdiv(view.rows, block_m), triton.cdiv(view.n, block_n))
        dequantize_rows[grid](q, scale, out, *view.arguments, *strides, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
