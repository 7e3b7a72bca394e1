"""Variance along one axis in two passes: the mean, then the sum of squared deviations from it.

    mean   = Σ x / n
    out[i] = Σ (x − mean)² / max(n − correction, 0)                (float32; float64 for float64)

The rounding error of the mean enters only squared, so a large mean beside a small spread does no harm; in
E[x²] − E[x]² it cancels against the squares. Masked lanes deviate by 0, not by −mean. Where no degree of
freedom is left, and for an empty axis, 0 / 0 is NaN.

Cost: reads each element twice, the second time from cache where the row fits; 3 operations an element.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=(*SIZES, "correction"))
def var_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step, correction,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
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
    variance = tl.sum(squares, axis=1) / tl.maximum(n - correction, 0)
    tl.store(out_ptr + row, variance, mask=row < rows)


@subject(
    references.var,
    claims={"variance": "two-pass"},
    mutants={
        # [1, 1, 1]: 13 padded lanes deviate by −1
        "padding-deviates": ("tl.where(counted, x - mean[:, None], 0.0)", "x - mean[:, None]"),
        # [1, 2, 3, 4, 5], correction 1: 2 instead of 2.5
        "correction-ignored": ("tl.maximum(n - correction, 0)", "n"),
        # the same row, correction 0: 2.5 instead of 2
        "always-unbiased": ("tl.maximum(n - correction, 0)", "tl.maximum(n - 1, 0)"),
        # the same row: 1.25, squares averaged over n before they are divided again
        "divided-twice": ("squares += deviation * deviation", "squares += deviation * deviation / n"),
        # 1000 ± 1 in float32: E[x²] and E[x]² share their first 20 bits
        "one-pass": (
            """deviation = tl.where(counted, x - mean[:, None], 0.0)
        squares += deviation * deviation
    variance = tl.sum(squares, axis=1) / tl.maximum(n - correction, 0)""",
            """squares += x * x
    spread = tl.sum(squares, axis=1) - n * mean * mean
    variance = spread / tl.maximum(n - correction, 0)""",
        ),
        # [1, 1, 1]: the mean is 3/16
        "padded-length": ("axis=1) / n\n", "axis=1) / BLOCK_N\n"),
        # ±300: 90000 is inf in float16
        "float16-squares": (
            "squares += deviation * deviation",
            "squares += (deviation.to(tl.float16) * deviation.to(tl.float16)).to(ACC)",
        ),
        # 1/3: the mean keeps 8 bits
        "bfloat16-mean": ("axis=1) / n\n", "axis=1).to(tl.bfloat16).to(ACC) / n\n"),
        # 300 elements, the last 44 of them 1: their deviations are left out
        "first-block-of-squares": ("squares += deviation", "squares = deviation"),
        # [0, 0, 3]: an element more
        "one-past-the-end": (
            "counted = (row < rows)[:, None] & (column < n)",
            "counted = (row < rows)[:, None] & (column <= n)",
        ),
        # [0, 0, 3]
        "last-element-lost": (
            "inside = (row < rows)[:, None] & (column < n)",
            "inside = (row < rows)[:, None] & (column < n - 1)",
        ),
        # x[:, ::2], in the second pass only
        "unit-stride-of-squares": (" * step, mask=counted", ", mask=counted"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (9, 200), dim 1: out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # shape (3, 0), dim 1: three NaN are never written
        "empty-axis-unwritten": ("if view.rows:", "if x.numel():"),
        # shape (2, 3), dim −1: reduces axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def var(x: torch.Tensor, dim: int, correction: int) -> torch.Tensor:
    """Variance of x [1 to 4 dims, any strides] along `dim`; NaN where n <= correction."""
    view = rows_of(x, dim)
    out = torch.empty(view.shape, dtype=x.dtype, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        var_rows[grid](x, out, *view.arguments, correction, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
