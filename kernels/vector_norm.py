"""Euclidean norm along one axis: the root of the sum of squares, in one pass.

    out[i] = √ Σ x²                                                (float32; float64 for float64)

The squares of float16 elements above 255 overflow float16, so elements are cast before they are squared.
Nothing is scaled: in float32 elements above 1.8e19 have an infinite norm, and below 1e-23 no share in it.

Cost: reads each element once, one FMA an element, one square root (1 ulp on NVIDIA devices) a row.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=SIZES)
def norm_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        x = tl.load(first[:, None] + column[None, :] * step, mask=inside, other=0.0)
        acc += x.to(ACC) * x.to(ACC)
    tl.store(out_ptr + row, tl.sqrt(tl.sum(acc, axis=1)), mask=row < rows)


@subject(
    references.vector_norm,
    mutants={
        # [300]: inf in float16
        "squares-in-input-format": ("x.to(ACC) * x.to(ACC)", "(x * x).to(ACC)"),
        # [3, 4]: 7
        "sum-of-magnitudes": ("x.to(ACC) * x.to(ACC)", "tl.abs(x.to(ACC))"),
        # [3, 4]: 25
        "no-root": ("tl.sqrt(tl.sum(acc, axis=1))", "tl.sum(acc, axis=1)"),
        # [3, 4]: √12.5
        "root-mean-square": ("tl.sum(acc, axis=1)", "tl.sum(acc, axis=1) / tl.maximum(n, 1)"),
        # [1e-4]: 1.05e-4
        "eps-under-the-root": ("tl.sum(acc, axis=1)", "tl.sum(acc, axis=1) + 1e-9"),
        # 300 of 1: √44
        "last-block-only": ("acc += x", "acc = x"),
        # 48 and 300 of 1: 2304 + 1 is 2304 in 11 bits
        "float16-accumulator": (
            "acc += x.to(ACC) * x.to(ACC)",
            "acc = (acc + x.to(ACC) * x.to(ACC)).to(tl.float16).to(ACC)",
        ),
        # [1, 1, 1]
        "pad-one": ("other=0.0", "other=1.0"),
        # [1, 1, 1]
        "lost-tail": ("range(0, n, BLOCK_N)", "range(0, n - BLOCK_N + 1, BLOCK_N)"),
        # [0, 0, 3]
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[0, 0, 0], [5, 0, 0]], dim 1
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # x[:, ::2]
        "unit-stride": (" * step, mask", ", mask"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (9, 200), dim 1: out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # shape (3, 0), dim 1: three zeros are never written
        "empty-axis-unwritten": ("if view.rows:", "if x.numel():"),
    },
)
def vector_norm(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Euclidean norm of x [1 to 4 dims, any strides] along `dim`; 0 for an empty axis."""
    view = rows_of(x, dim)
    out = torch.empty(view.shape, dtype=x.dtype, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        norm_rows[grid](x, out, *view.arguments, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
