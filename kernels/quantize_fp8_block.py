"""fp8 with one scale for each block of a row: scale = max|x| / (largest finite value), q = x / scale.

A block is loaded once, its largest magnitude found, and divided. The last block of
a row may be shorter; what lies behind it is masked. A block of zeros, or one so small that its scale
underflows, gets the scale 1.

Cost: reads x once, writes a byte for each element and a float32 for each block.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of


@triton.jit(do_not_specialize=(*SIZES, "blocks"))
def quantize_fp8_blocks(
    x_ptr, q_ptr, scale_ptr, rows, n, size1, size2, stride0, stride1, stride2, step, blocks, block,
    LARGEST: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    row = part // blocks
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    column = (part % blocks * block)[:, None] + lane[None, :]
    inside = (row < rows)[:, None] & (lane < block)[None, :] & (column < n)
    x = tl.load(first[:, None] + column * step, mask=inside, other=0.0).to(tl.float32)
    nan = tl.sum((x != x).to(tl.int32), axis=1) > 0
    scale = tl.max(tl.abs(x), axis=1) / LARGEST
    scale = tl.where(scale == 0, 1.0, scale)
    scale = tl.where(nan, float("nan"), scale)
    tl.store(scale_ptr + part, scale, mask=row < rows)
    quotient = x / scale[:, None]
    tl.store(q_ptr + row[:, None] * n + column, quotient.to(q_ptr.dtype.element_ty), mask=inside)


@subject(
    references.quantize_fp8_block,
    mutants={
        # block 7 of 8 lanes: the next block's first element counts
        "lane-unmasked": (" & (lane < block)[None, :]", ""),
        # n = 13, block 16: what lies behind the row
        "maximum-over-padding": (
            "mask=inside, other=0.0)",
            "mask=(row < rows)[:, None] & (lane < block)[None, :], other=0.0)",
        ),
        # n = 40, block 32: two scales a row, and here one
        "blocks-rounded-down": ("triton.cdiv(view.n, block)", "max(1, view.n // block)"),
        # n = 40, block 32: the row's second scale is the first of the next row
        "one-scale-a-row": ("part % blocks * block", "part % 1 * block"),
        # [448, 1.0625001] as e4m3: 1.0 for 1.125
        "through-float16": ("quotient.to(q_ptr", "quotient.to(tl.float16).to(q_ptr"),
        # zeros
        "scale-of-zeros": ("tl.where(scale == 0, 1.0, scale)", "scale"),
        # e5m2
        "largest-of-e4m3": ("LARGEST=torch.finfo(dtype).max", "LARGEST=448.0"),
        # [−448, 1]
        "signed-maximum": ("tl.max(tl.abs(x), axis=1)", "tl.max(x, axis=1)"),
        # subnormal blocks
        "reciprocal": ("quotient = x / scale[:, None]", "quotient = x * (1.0 / scale[:, None])"),
        # x[..., ::2]
        "unit-stride": ("column * step", "column"),
    },
)
def quantize_fp8_block(x: torch.Tensor, dtype: torch.dtype, block: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(q [x's shape] of an fp8 dtype, scale float32 [..., ⌈n / block⌉]) of x [..., n], any strides."""
    view = rows_of(x, -1)
    blocks = triton.cdiv(view.n, block)
    q = torch.empty(x.shape, dtype=dtype, device=x.device)
    scale = torch.empty((*view.shape, blocks), dtype=torch.float32, device=x.device)
    if scale.numel():
        block_n = triton.next_power_of_2(block)
        block_m = max(1, 2048 // block_n)
        grid = (triton.cdiv(view.rows * blocks, block_m),)
        quantize_fp8_blocks[grid](
            x, q, scale, *view.arguments, blocks, block,
            LARGEST=torch.finfo(dtype).max, BLOCK_M=block_m, BLOCK_N=block_n,
        )  # fmt: skip
    return q, scale
