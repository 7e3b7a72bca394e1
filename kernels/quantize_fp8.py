"""fp8 with one scale for each row: scale = max|x| / (largest finite value), q = x / scale, rounded once.

A first pass finds the row's largest magnitude, a second one divides. A row of zeros, or one so small that
its scale underflows, gets the scale 1. The cast saturates, to nearest even, from float32 at once: by way of
float16 a value beside a tie would first be rounded to it.

Cost: reads x twice, writes a byte for each element and a float32 for each row.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=SIZES)
def quantize_fp8_rows(
    x_ptr, q_ptr, scale_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    LARGEST: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    largest = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, n, BLOCK_N):
        column = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside = (row < rows)[:, None] & (column < n)[None, :]
        x = tl.load(first[:, None] + column[None, :] * step, mask=inside, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(x), propagate_nan=tl.PropagateNan.ALL)
    nan = tl.sum((largest != largest).to(tl.int32), axis=1) > 0
    scale = tl.max(largest, axis=1) / LARGEST
    scale = tl.where(scale == 0, 1.0, scale)
    scale = tl.where(nan, float("nan"), scale)
    tl.store(scale_ptr + row, scale, mask=row < rows)
    for start in range(0, n, BLOCK_N):
        column = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside = (row < rows)[:, None] & (column < n)[None, :]
        x = tl.load(first[:, None] + column[None, :] * step, mask=inside, other=0.0).to(tl.float32)
        quotient = x / scale[:, None]
        tl.store(q_ptr + row[:, None] * n + column[None, :], quotient.to(q_ptr.dtype.element_ty), mask=inside)


@subject(
    references.quantize_fp8,
    mutants={
        # [448, 1.0625001] as e4m3: 1.0 for 1.125
        "through-float16": ("quotient.to(q_ptr", "quotient.to(tl.float16).to(q_ptr"),
        # the same row
        "through-bfloat16": ("quotient.to(q_ptr", "quotient.to(tl.bfloat16).to(q_ptr"),
        # zeros: 0 / 0
        "scale-of-zeros": ("tl.where(scale == 0, 1.0, scale)", "scale"),
        # [448, 1]: codes of half the size
        "scale-doubled": ("/ LARGEST\n", "/ LARGEST * 2.0\n"),
        # e5m2: its largest value is 57344
        "largest-of-e4m3": ("LARGEST=torch.finfo(dtype).max", "LARGEST=448.0"),
        # [−448, 1]
        "signed-maximum": ("tl.abs(x), propagate", "x, propagate"),
        # [[1, 2], [3, 4]]: rows share a scale
        "scale-of-the-tile": (
            "tl.max(largest, axis=1) / LARGEST",
            "(tl.max(largest) + tl.zeros([BLOCK_M], tl.float32)) / LARGEST",
        ),
        # n = 13: whatever lies behind the row
        "maximum-over-padding": (
            "mask=inside, other=0.0).to(tl.float32)\n        largest",
            "mask=(row < rows)[:, None], other=0.0).to(tl.float32)\n        largest",
        ),
        # subnormal rows: 448 / amax is infinite
        "reciprocal": ("quotient = x / scale[:, None]", "quotient = x * (1.0 / scale[:, None])"),
        # any row: scale holds what divides by it
        "inverse-scale-returned": (
            "tl.store(scale_ptr + row, scale,",
            "tl.store(scale_ptr + row, 1.0 / scale,",
        ),
        # NaN in a row
        "nan-lost": ('tl.where(nan, float("nan"), scale)', "scale"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
    },
)
def quantize_fp8(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """(q [x's shape] of an fp8 dtype, scale float32 [without the last axis]) of x [..., n], any strides."""
    view = rows_of(x, -1)
    q = torch.empty(x.shape, dtype=dtype, device=x.device)
    scale = torch.empty(view.shape, dtype=torch.float32, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        quantize_fp8_rows[grid](
            x, q, scale, *view.arguments, LARGEST=torch.finfo(dtype).max, BLOCK_M=block_m, BLOCK_N=block_n
        )
    return q, scale
