"""Layer norm over the last axis: mean, then variance about it, then one pass that normalises.

    mean = Σ x / n;   var = Σ (x − mean)² / n;   out = (x − mean) · rsqrt(var + eps) · weight + bias

in float32 (float64 for float64), rounded once. Padded lanes deviate by 0, not by −mean. A row that fits one
block is read three times all the same; it lies in cache.

Cost: reads x three times and writes it once; about 10 operations an element.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=(*SIZES, "eps"))
def layer_norm_rows(
    x_ptr, weight_ptr, bias_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    weight_step, bias_step, eps,
    HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    total = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        total += tl.load(first[:, None] + column[None, :] * step, mask=inside, other=0.0).to(ACC)
    mean = tl.sum(total, axis=1) / n
    squares = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        counted = (row < rows)[:, None] & (column < n)[None, :]
        x = tl.load(first[:, None] + column[None, :] * step, mask=counted, other=0.0).to(ACC)
        deviation = tl.where(counted, x - mean[:, None], 0.0)
        squares += deviation * deviation
    scale = tl.rsqrt(tl.sum(squares, axis=1) / n + eps)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        present = (row < rows)[:, None] & (column < n)[None, :]
        value = tl.load(first[:, None] + column[None, :] * step, mask=present, other=0.0).to(ACC)
        y = (value - mean[:, None]) * scale[:, None]
        if HAS_WEIGHT:
            y *= tl.load(weight_ptr + column * weight_step, mask=column < n, other=0.0).to(ACC)[None, :]
        if HAS_BIAS:
            y += tl.load(bias_ptr + column * bias_step, mask=column < n, other=0.0).to(ACC)[None, :]
        tl.store(out_ptr + row[:, None] * n + column[None, :], y, mask=present)


@subject(
    references.layer_norm,
    claims={"variance": "two-pass"},
    mutants={
        # [1, 1, 2]: 13 padded lanes deviate by −4/3
        "padding-deviates": ("tl.where(counted, x - mean[:, None], 0.0)", "x - mean[:, None]"),
        # [1, 2]: the mean is 3/16
        "padded-length": ("tl.sum(total, axis=1) / n", "tl.sum(total, axis=1) / BLOCK_N"),
        # [0, 1]: ±0.707 instead of ±1
        "unbiased-variance": ("tl.sum(squares, axis=1) / n", "tl.sum(squares, axis=1) / (n - 1)"),
        # ±√eps: ±0.997 instead of ±0.707
        "eps-outside-the-root": (
            "tl.rsqrt(tl.sum(squares, axis=1) / n + eps)",
            "1.0 / (tl.sqrt(tl.sum(squares, axis=1) / n) + eps)",
        ),
        # ±√eps: ±1
        "no-eps": ("/ n + eps)", "/ n)"),
        # ±√eps: as if eps were 1e-5 always
        "fixed-eps": ("/ n + eps)", "/ n + 1e-5)"),
        # the row is divided by the variance
        "no-root": (
            "tl.rsqrt(tl.sum(squares, axis=1) / n + eps)",
            "1.0 / (tl.sum(squares, axis=1) / n + eps)",
        ),
        # 1000 ± 1 in float32: E[x²] and E[x]² share their first 20 bits
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
        # 100 ± 1: the mean is off by up to 1/4
        "bfloat16-mean": (
            "mean = tl.sum(total, axis=1) / n",
            "mean = (tl.sum(total, axis=1) / n).to(tl.bfloat16).to(ACC)",
        ),
        # 300 elements: the last 44 alone
        "last-block-of-squares": ("squares += deviation", "squares = deviation"),
        # a view's stride taken for the parameters' too
        "weight-unit-stride": ("column * weight_step", "column"),
        "bias-unit-stride": ("column * bias_step", "column"),
        # the weight of the first element for all
        "weight-of-first": ("weight_ptr + column * weight_step", "weight_ptr + column * 0"),
        # bias before weight
        "bias-ignored": ("if HAS_BIAS:", "if HAS_BIAS and HAS_WEIGHT:"),
        # x[:, ::2]: right statistics, wrong elements
        "unit-stride-of-output-pass": (" * step, mask=present", ", mask=present"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # 300 elements: 44 never written
        "lost-tail": (
            "present = (row < rows)[:, None] & (column < n)",
            "present = (row < rows)[:, None] & (column < n // BLOCK_N * BLOCK_N)",
        ),
        # [[1, 2], [3, 4]]
        "one-past-the-end": (
            "inside = (row < rows)[:, None] & (column < n)",
            "inside = (row < rows)[:, None] & (column <= n)",
        ),
        # shape (9, 200): out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
    },
)
def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> torch.Tensor:
    """x [1 to 4 dims, any strides] normalised over its last axis; weight and bias [n, any stride] or None."""
    view = rows_of(x, -1)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        layer_norm_rows[grid](
            x, x if weight is None else weight, x if bias is None else bias, out, *view.arguments,
            0 if weight is None else weight.stride(0), 0 if bias is None else bias.stride(0), eps,
            HAS_WEIGHT=weight is not None, HAS_BIAS=bias is not None, BLOCK_M=block_m, BLOCK_N=block_n,
        )  # fmt: skip
    return out
