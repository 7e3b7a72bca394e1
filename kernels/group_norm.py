"""Group norm: layer norm of each group of neighbouring channels, all their positions together.

    group g of sample s holds channels g·C/G … (g + 1)·C/G − 1 and every position of each: n elements
    out = (x − mean) · rsqrt(var + eps) · weight[channel] + bias[channel]          (two passes, as layer_norm)

Element j of a group lies in its channel j // positions, at position j % positions.

Cost: reads x three times and writes it once; about 10 operations and three 64-bit divisions an element.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import tile


@triton.jit
def offset_in_group(column, height, width, channel_step, row_step, step):
    """Offset of each element of a group; column: int64 [BLOCK_N]."""
    inner = column // width % height * row_step + column % width * step
    return column // width // height * channel_step + inner


@triton.jit(do_not_specialize=("rows", "n", "groups", "channels", "height", "width", "eps"))
def group_norm_rows(
    x_ptr, weight_ptr, bias_ptr, out_ptr, rows, n, groups, channels, height, width,
    sample_step, channel_step, row_step, step, weight_step, bias_step, eps,
    HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    channel = row % groups * channels
    first = x_ptr + row // groups * sample_step + channel * channel_step
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    total = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        place = offset_in_group(column, height, width, channel_step, row_step, step)
        total += tl.load(first[:, None] + place[None, :], mask=inside, other=0.0).to(ACC)
    mean = tl.sum(total, axis=1) / n
    squares = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        counted = (row < rows)[:, None] & (column < n)[None, :]
        place = offset_in_group(column, height, width, channel_step, row_step, step)
        x = tl.load(first[:, None] + place[None, :], mask=counted, other=0.0).to(ACC)
        deviation = tl.where(counted, x - mean[:, None], 0.0)
        squares += deviation * deviation
    scale = tl.rsqrt(tl.sum(squares, axis=1) / n + eps)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        present = (row < rows)[:, None] & (column < n)[None, :]
        place = offset_in_group(column, height, width, channel_step, row_step, step)
        value = tl.load(first[:, None] + place[None, :], mask=present, other=0.0).to(ACC)
        y = (value - mean[:, None]) * scale[:, None]
        own = channel[:, None] + (column // width // height)[None, :]
        if HAS_WEIGHT:
            y *= tl.load(weight_ptr + own * weight_step, mask=present, other=0.0).to(ACC)
        if HAS_BIAS:
            y += tl.load(bias_ptr + own * bias_step, mask=present, other=0.0).to(ACC)
        tl.store(out_ptr + row[:, None] * n + column[None, :], y, mask=present)


@subject(
    references.group_norm,
    claims={"variance": "two-pass"},
    mutants={
        # 6 channels in 2 groups: 0, 2, 4 and 1, 3, 5
        "interleaved-groups": ("row % groups * channels", "row % groups"),
        # weight by group
        "weight-of-group": ("weight_ptr + own * weight_step", "weight_ptr + channel[:, None] * weight_step"),
        # bias of the first group for all
        "bias-of-first-group": (
            "bias_ptr + own * bias_step",
            "bias_ptr + (own - channel[:, None]) * bias_step",
        ),
        # weight by position
        "weight-by-position": (
            "own = channel[:, None] + (column // width // height)",
            "own = channel[:, None] + (column % channels)",
        ),
        # [1, 1, 2]: 13 padded lanes deviate
        "padding-deviates": ("tl.where(counted, x - mean[:, None], 0.0)", "x - mean[:, None]"),
        # mean over the padded length
        "padded-length": ("tl.sum(total, axis=1) / n", "tl.sum(total, axis=1) / BLOCK_N"),
        # statistics divided by the number of channels
        "count-of-channels": ("tl.sum(squares, axis=1) / n", "tl.sum(squares, axis=1) / channels"),
        # [0, 1]
        "unbiased-variance": ("tl.sum(squares, axis=1) / n", "tl.sum(squares, axis=1) / (n - 1)"),
        # ±√eps
        "eps-outside-the-root": (
            "tl.rsqrt(tl.sum(squares, axis=1) / n + eps)",
            "1.0 / (tl.sqrt(tl.sum(squares, axis=1) / n) + eps)",
        ),
        # ±√eps
        "no-eps": ("/ n + eps)", "/ n)"),
        # 1000 ± 1 in float32
        "one-pass-variance": (
            """deviation = tl.where(counted, x - mean[:, None], 0.0)
        squares += deviation * deviation
    scale = tl.rsqrt(tl.sum(squares, axis=1) / n + eps)""",
            """squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=1) / n - mean * mean + eps)""",
        ),
        # ±300: 90000 is inf in float16
        "float16-squares": (
            "squares += deviation * deviation",
            "squares += (deviation.to(tl.float16) * deviation.to(tl.float16)).to(ACC)",
        ),
        # x[:, :, ::2]
        "unit-stride": ("column % width * step", "column % width"),
        # a transposed plane
        "rows-adjoin": ("% height * row_step", "% height * width"),
        # samples of a transposed view
        "samples-adjoin": ("row // groups * sample_step", "row // groups * (groups * n)"),
        # shape (9, 200): the last group is never written
        "unwritten-rows": ("triton.cdiv(rows, block_m)", "rows // block_m"),
    },
)
def group_norm(
    x: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    """x (N, C, *) [2 to 4 dims, any strides] normalised in num_groups groups; weight and bias [C] or None."""
    if not 2 <= x.ndim <= 4 or x.shape[1] % num_groups:
        raise ValueError(
            f"x must have 2 to 4 dims and C divisible by num_groups; got {tuple(x.shape)}, {num_groups}"
        )
    samples, channels, height, width = (*x.shape, 1, 1)[:4]
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        rows, n = samples * num_groups, channels // num_groups * height * width
        block_m, block_n = tile(n)
        grid = (triton.cdiv(rows, block_m),)
        group_norm_rows[grid](
            x, x if weight is None else weight, x if bias is None else bias, out,
            rows, n, num_groups, channels // num_groups, height, width, *(*x.stride(), 0, 0)[:4],
            0 if weight is None else weight.stride(0), 0 if bias is None else bias.stride(0), eps,
            HAS_WEIGHT=weight is not None, HAS_BIAS=bias is not None, BLOCK_M=block_m, BLOCK_N=block_n,
        )  # fmt: skip
    return out
