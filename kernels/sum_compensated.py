"""Compensated sum along one axis: the result is as if added in twice the precision, however long the row.

    t = s + x;   error = (s − (t − e)) + (x − e), e = t − s;   s = t;   c += error      (Knuth's TwoSum)

in every lane (Neumaier 1974, doi:10.1002/zamm.19740540106), and the lanes merge by the same step, their
errors added. Only c's own roundings are lost, of second order: the result s + c is off by u·|Σx| and about
n/256·log2(n)·u²·Σ|x|, so that the claim is a depth of 2 at any length, where `sum_tree` needs n/256.
An error is inf − inf where s overflowed: it is taken as 0, so that the sum stays infinite.

Cost: reads each element once; 7 additions an element, which a GPU hides behind the memory.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit
def two_sum(a, b):
    """a + b, rounded, and the exact error of it; 0 where the sum is not finite."""
    t = a + b
    e = t - a
    error = (a - (t - e)) + (b - e)
    return t, tl.where(tl.abs(t) < float("inf"), error, 0.0)


@triton.jit
def merge(s_a, c_a, s_b, c_b):
    s, error = two_sum(s_a, s_b)
    return s, c_a + c_b + error


@triton.jit(do_not_specialize=SIZES)
def sum_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    s = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    c = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        x = tl.load(first[:, None] + column[None, :] * step, mask=inside, other=0.0).to(ACC)
        s, error = two_sum(s, x)
        c += error
    s, c = tl.reduce((s, c), 1, merge)
    tl.store(out_ptr + row, s + c, mask=row < rows)


@subject(
    references.sum,
    claims={"depth": 2},
    mutants={
        # 2^15 and 200 of 2^-9: every half ulp is lost
        "no-compensation": ("out_ptr + row, s + c", "out_ptr + row, s"),
        # the errors of the lanes alone
        "errors-of-merges-lost": ("c_a + c_b + error", "c_a + c_b"),
        # the errors of one half
        "errors-of-half-lost": ("c_a + c_b + error", "c_a + error"),
        # the sign of the error
        "error-subtracted": ("two_sum(s, x)\n        c += error", "two_sum(s, x)\n        c -= error"),
        # the errors of the last block
        "last-errors-only": ("two_sum(s, x)\n        c += error", "two_sum(s, x)\n        c = error"),
        # [inf, 1]: inf − inf
        "infinite-error": ("""tl.where(tl.abs(t) < float("inf"), error, 0.0)""", "error"),
        # 300 of 1: 256
        "lost-tail": ("range(0, n, BLOCK_N)", "range(0, n - BLOCK_N + 1, BLOCK_N)"),
        # [1, 2, 4]: 3
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[1, 2, 4], [8, 16, 32]], dim 1: 15 instead of 7
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # x[:, ::2]
        "unit-stride": (" * step, mask", ", mask"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (3, 0), dim 1: three zeros are never written
        "empty-axis-unwritten": ("if view.rows:", "if x.numel():"),
        # shape (2, 3), dim −1: adds along axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def sum_compensated(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Sum of x [1 to 4 dims, any strides] along `dim`; 0 for an empty axis."""
    view = rows_of(x, dim)
    out = torch.empty(view.shape, dtype=x.dtype, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        sum_rows[grid](x, out, *view.arguments, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
