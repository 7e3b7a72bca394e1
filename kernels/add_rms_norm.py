"""A residual connection and its RMS norm in one kernel, as every transformer block needs them.

    total = x + residual, rounded to x's format and returned
    y     = total · rsqrt(Σ total² / n + eps) · weight             (float32; float64 for float64)

y is computed from the *rounded* total, since that is what the next layer sees. The second pass adds and
rounds again instead of reading total back, which other threads may have written.

Cost: reads x and residual twice, writes both results once; 6 operations an element.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=(*SIZES, "eps"))
def add_rms_norm_rows(
    x_ptr, residual_ptr, weight_ptr, y_ptr, total_ptr, rows, n, size1, size2,
    x_stride0, x_stride1, x_stride2, x_step, stride0, stride1, stride2, step, weight_step, eps,
    HAS_WEIGHT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    FORMAT: tl.constexpr = x_ptr.dtype.element_ty
    ACC: tl.constexpr = tl.float64 if FORMAT == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    x_first = x_ptr + row_offset(row, size1, size2, x_stride0, x_stride1, x_stride2)
    first = residual_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    squares = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        counted = (row < rows)[:, None] & (column < n)[None, :]
        x = tl.load(x_first[:, None] + column[None, :] * x_step, mask=counted, other=0.0).to(ACC)
        residual = tl.load(first[:, None] + column[None, :] * step, mask=counted, other=0.0).to(ACC)
        total = (x + residual).to(FORMAT)
        tl.store(total_ptr + row[:, None] * n + column[None, :], total, mask=counted)
        squares += total.to(ACC) * total.to(ACC)
    scale = tl.rsqrt(tl.sum(squares, axis=1) / n + eps)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        present = (row < rows)[:, None] & (column < n)[None, :]
        a = tl.load(x_first[:, None] + column[None, :] * x_step, mask=present, other=0.0).to(ACC)
        b = tl.load(first[:, None] + column[None, :] * step, mask=present, other=0.0).to(ACC)
        y = (a + b).to(FORMAT).to(ACC) * scale[:, None]
        if HAS_WEIGHT:
            y *= tl.load(weight_ptr + column * weight_step, mask=column < n, other=0.0).to(ACC)[None, :]
        tl.store(y_ptr + row[:, None] * n + column[None, :], y, mask=present)


@subject(
    references.add_rms_norm,
    mutants={
        # 1 + 2^-9 in bfloat16: y of the sum before it was rounded
        "unrounded-total": ("(a + b).to(FORMAT).to(ACC) * scale", "(a + b) * scale"),
        # x = −residual: y of x
        "residual-not-normalised": ("y = (a + b).to(FORMAT)", "y = a.to(FORMAT)"),
        # total is x
        "residual-not-added": ("total = (x + residual).to(FORMAT)", "total = x.to(FORMAT)"),
        # y is returned twice
        "results-swapped": ("return y, total", "return total, y"),
        # the residual is overwritten, and returned
        "in-place-residual": (
            "total = torch.empty(x.shape, dtype=x.dtype, device=x.device)",
            "total = residual",
        ),
        # [300]: inf in float16
        "squares-in-input-format": ("total.to(ACC) * total.to(ACC)", "(total * total).to(ACC)"),
        # [1, 1, 1]
        "padded-length": ("axis=1) / n + eps", "axis=1) / BLOCK_N + eps"),
        # ±√eps
        "eps-outside-the-root": (
            "tl.rsqrt(tl.sum(squares, axis=1) / n + eps)",
            "1.0 / (tl.sqrt(tl.sum(squares, axis=1) / n) + eps)",
        ),
        # ±√eps
        "no-eps": ("axis=1) / n + eps)", "axis=1) / n)"),
        # 300 elements: the last 44 alone
        "last-block-only": ("squares += total", "squares = total"),
        # x and residual of unlike strides
        "strides-of-x": (
            "first = residual_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)",
            "first = residual_ptr + row_offset(row, size1, size2, x_stride0, x_stride1, x_stride2)",
        ),
        # x[:, ::2]: right statistics, wrong elements
        "unit-stride-of-output-pass": (" * x_step, mask=present", ", mask=present"),
        # a strided weight
        "weight-unit-stride": ("column * weight_step", "column"),
        # shape (9, 200): the last row is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
    },
)
def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(rms_norm of total over the last axis, total = x + residual); both [1 to 4 dims, any strides]."""
    view, other = rows_of(x, -1), rows_of(residual, -1)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    total = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        add_rms_norm_rows[grid](
            x, residual, x if weight is None else weight, y, total, *view.arguments, *other.arguments[4:],
            0 if weight is None else weight.stride(0), eps,
            HAS_WEIGHT=weight is not None, BLOCK_M=block_m, BLOCK_N=block_n,
        )  # fmt: skip
    return y, total
