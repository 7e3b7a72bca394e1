"""RMS norm over the last axis: the mean of squares, then one pass that scales.

    out = x · rsqrt(Σ x² / n + eps) · weight                       (float32; float64 for float64)

Elements are cast before they are squared: 300² is infinite in float16. There is no cancellation, so that
every element keeps its relative accuracy.

Cost: reads x twice and writes it once; 4 operations an element.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=(*SIZES, "eps"))
def rms_norm_rows(
    x_ptr, weight_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step, weight_step, eps,
    HAS_WEIGHT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    squares = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        counted = (row < rows)[:, None] & (column < n)[None, :]
        x = tl.load(first[:, None] + column[None, :] * step, mask=counted, other=0.0)
        squares += x.to(ACC) * x.to(ACC)
    scale = tl.rsqrt(tl.sum(squares, axis=1) / n + eps)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        present = (row < rows)[:, None] & (column < n)[None, :]
        y = tl.load(first[:, None] + column[None, :] * step, mask=present, other=0.0).to(ACC) * scale[:, None]
        if HAS_WEIGHT:
            y *= tl.load(weight_ptr + column * weight_step, mask=column < n, other=0.0).to(ACC)[None, :]
        tl.store(out_ptr + row[:, None] * n + column[None, :], y, mask=present)


@subject(
    references.rms_norm,
    mutants={
        # [300]: inf in float16
        "squares-in-input-format": ("x.to(ACC) * x.to(ACC)", "(x * x).to(ACC)"),
        # [1, 1, 1]: the mean square is 3/16
        "padded-length": ("axis=1) / n + eps", "axis=1) / BLOCK_N + eps"),
        # [1, 1]
        "n-minus-one": ("axis=1) / n + eps", "axis=1) / tl.maximum(n - 1, 1) + eps"),
        # [1, 1]: a sum, no mean
        "sum-of-squares": ("axis=1) / n + eps", "axis=1) + eps"),
        # ±√eps: ±0.997 instead of ±0.707
        "eps-outside-the-root": (
            "tl.rsqrt(tl.sum(squares, axis=1) / n + eps)",
            "1.0 / (tl.sqrt(tl.sum(squares, axis=1) / n) + eps)",
        ),
        # ±√eps: ±1
        "no-eps": ("axis=1) / n + eps)", "axis=1) / n)"),
        # ±√eps, with eps = 1e-3
        "fixed-eps": ("axis=1) / n + eps)", "axis=1) / n + 1e-6)"),
        # eps added to every square before the mean, padding included
        "eps-in-the-sum": ("squares += x.to(ACC) * x.to(ACC)", "squares += x.to(ACC) * x.to(ACC) + eps"),
        # gemma's weight
        "one-plus-weight": (
            "mask=column < n, other=0.0).to(ACC)[None, :]",
            "mask=column < n, other=0.0).to(ACC)[None, :] + 1.0",
        ),
        # float16 keeps 11 bits of the scale
        "float16-scale": ("/ n + eps)\n", "/ n + eps).to(tl.float16).to(ACC)\n"),
        # 300 elements: the last 44 alone
        "last-block-only": ("squares += x", "squares = x"),
        # a strided weight
        "weight-unit-stride": ("column * weight_step", "column"),
        # x[:, ::2]: right statistics, wrong elements
        "unit-stride-of-output-pass": (" * step, mask=present", ", mask=present"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # 300 elements: 44 never written
        "lost-tail": (
            "present = (row < rows)[:, None] & (column < n)",
            "present = (row < rows)[:, None] & (column < n // BLOCK_N * BLOCK_N)",
        ),
        # [0, 0, 3]
        "last-element-lost": (
            "counted = (row < rows)[:, None] & (column < n)",
            "counted = (row < rows)[:, None] & (column < n - 1)",
        ),
        # shape (9, 200): out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
    },
)
def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    """x [1 to 4 dims, any strides] over the root of its mean square along the last axis, times weight."""
    view = rows_of(x, -1)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        rms_norm_rows[grid](
            x, x if weight is None else weight, out, *view.arguments,
            0 if weight is None else weight.stride(0), eps,
            HAS_WEIGHT=weight is not None, BLOCK_M=block_m, BLOCK_N=block_n,
        )  # fmt: skip
    return out
