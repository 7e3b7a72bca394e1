"""Mean along one axis: the sum of `sum_tree`, divided once by n before the one rounding to x's format.

    acc[i, j] = x[i, j] + x[i, j + BLOCK_N] + …         (float32; float64 for float64)
    out[i]    = tl.sum(acc[i, :]) / n

Masked lanes add 0 to the sum and must not add 1 to the count: the divisor is n, never the padded length.
An empty axis gives 0 / 0 = NaN.

Cost: reads each element once; n additions and one division (2 ulp on NVIDIA devices) a row.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=SIZES)
def mean_rows(
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
        acc += tl.load(first[:, None] + column[None, :] * step, mask=inside, other=0.0).to(ACC)
    tl.store(out_ptr + row, tl.sum(acc, axis=1) / n, mask=row < rows)


@subject(
    references.mean,
    mutants={
        # [1, 1, 1]: 3/16
        "padded-length": ("axis=1) / n", "axis=1) / BLOCK_N"),
        # [1, 1, 1]: 1.5
        "n-minus-one": ("axis=1) / n", "axis=1) / (n - 1)"),
        # shape (3, 0), dim 1: 0 instead of NaN
        "empty-axis-zero": ("axis=1) / n", "axis=1) / tl.maximum(n, 1)"),
        # 300 ones: 256/300
        "lost-tail": ("range(0, n, BLOCK_N)", "range(0, n - BLOCK_N + 1, BLOCK_N)"),
        # [0, 0, 3]: 0
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[1, 1, 1], [9, 1, 1]], dim 1: 4 instead of 1
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # [1, 1, 1]: the padding counts as 1 each
        "pad-one": ("other=0.0", "other=1.0"),
        # [1, 4096, −4096]: 1 + 4096 is 4096, so the sum is 0
        "float16-accumulator": ("else tl.float32", "else tl.float16"),
        # the same row
        "bfloat16-accumulator": ("else tl.float32", "else tl.bfloat16"),
        # x[:, ::2]
        "unit-stride": (" * step, mask", ", mask"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (9, 200), dim 1: out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # shape (3, 0), dim 1: three NaN are never written
        "empty-axis-unwritten": ("if view.rows:", "if x.numel():"),
        # shape (2, 3), dim −1: averages along axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def mean(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Mean of x [1 to 4 dims, any strides] along `dim`; NaN for an empty axis."""
    view = rows_of(x, dim)
    out = torch.empty(view.shape, dtype=x.dtype, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        mean_rows[grid](x, out, *view.arguments, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
