"""int8 with one scale for each row: scale = max|x| / 127, q = round(x / scale), nearest even, within ±127.

A first pass finds the row's largest magnitude, a second one divides. A row of zeros, or one so small that
its scale underflows, gets the scale 1, so that 0 / 0 does not arise. The quotient is rounded by adding and
taking away 1.5 · 2^23, which leaves a float32 below 2^22 its nearest integer, ties to even, and then clamped:
a subnormal scale may be half as large as it should be.

Cost: reads x twice, writes a byte for each element and a float32 for each row.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=SIZES)
def quantize_int8_rows(
    x_ptr, q_ptr, scale_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
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
    scale = tl.max(largest, axis=1) / 127.0
    scale = tl.where(scale == 0, 1.0, scale)
    scale = tl.where(nan, float("nan"), scale)
    tl.store(scale_ptr + row, scale, mask=row < rows)
    for start in range(0, n, BLOCK_N):
        column = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside = (row < rows)[:, None] & (column < n)[None, :]
        x = tl.load(first[:, None] + column[None, :] * step, mask=inside, other=0.0).to(tl.float32)
        quotient = x / scale[:, None]
        rounded = (quotient + 12582912.0) - 12582912.0
        code = tl.minimum(tl.maximum(rounded, -127.0), 127.0)
        tl.store(q_ptr + row[:, None] * n + column[None, :], code.to(tl.int8), mask=inside)


@subject(
    references.quantize_int8,
    mutants={
        # subnormal: 170 of the smallest number, scale 1.3 of it, that is 1
        "no-clamp": ("tl.minimum(tl.maximum(rounded, -127.0), 127.0)", "rounded"),
        # the same row: 127.6 rounds to 128, and that wraps to −128
        "clamped-before-rounding": (
            "tl.minimum(tl.maximum(rounded, -127.0), 127.0)",
            "(tl.minimum(tl.maximum(quotient, -127.6), 127.6) + 12582912.0) - 12582912.0",
        ),
        # [127, 0.5, 2.5]: 1 and 3
        "half-away-from-zero": (
            "rounded = (quotient + 12582912.0) - 12582912.0",
            "rounded = tl.where(quotient < 0, tl.ceil(quotient - 0.5), tl.floor(quotient + 0.5))",
        ),
        # [127, 0.7]: 0
        "truncated": ("rounded = (quotient + 12582912.0) - 12582912.0", "rounded = quotient"),
        # zeros: 0 / 0
        "scale-of-zeros": ("tl.where(scale == 0, 1.0, scale)", "scale"),
        # [−128, 1]: x is amax, not |x|
        "signed-maximum": ("tl.abs(x), propagate", "x, propagate"),
        # [[1, 2], [3, 4]]: rows share a scale
        "scale-of-the-tile": (
            "tl.max(largest, axis=1) / 127.0",
            "(tl.max(largest) + tl.zeros([BLOCK_M], tl.float32)) / 127.0",
        ),
        # [127]: the scale 127 / 128
        "by-128": ("axis=1) / 127.0", "axis=1) / 128.0"),
        # n = 13: whatever lies behind the row
        "maximum-over-padding": (
            "mask=inside, other=0.0).to(tl.float32)\n        largest",
            "mask=(row < rows)[:, None], other=0.0).to(tl.float32)\n        largest",
        ),
        # subnormal rows: 1 / scale is infinite
        "reciprocal": ("quotient = x / scale[:, None]", "quotient = x * (1.0 / scale[:, None])"),
        # scale 0.7: the quotient is off by more than a division may be
        "scale-rounded": ("x / scale[:, None]", "x / scale.to(tl.bfloat16).to(tl.float32)[:, None]"),
        # NaN in a row: its scale is that of the others
        "nan-lost": ('tl.where(nan, float("nan"), scale)', "scale"),
        # x[:, ::2]
        "unit-stride": (
            "column[None, :] * step, mask=inside, other=0.0).to(tl.float32)\n        quotient",
            "column[None, :], mask=inside, other=0.0).to(tl.float32)\n        quotient",
        ),
    },
)
def quantize_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(q int8 [x's shape], scale float32 [x's shape without the last axis]) of x [..., n], any strides."""
    view = rows_of(x, -1)
    q = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    scale = torch.empty(view.shape, dtype=torch.float32, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        quantize_int8_rows[grid](x, q, scale, *view.arguments, BLOCK_M=block_m, BLOCK_N=block_n)
    return q, scale
