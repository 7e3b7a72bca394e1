"""log(Σ exp(x)) along one axis in one pass: a running maximum m and a running sum s, rescaled when m grows.

For each block of the row (Milakov and Gimelshein 2018, arXiv:1805.02867, algorithm 3 by blocks):

    m' = max(m, max(block));   s = s · exp(m − m') + Σ exp(block − m')          out = m + log(s)

Where m' is infinite, 0 is subtracted in its place, since inf − inf is NaN: a row of −inf then gives s = 0
and −inf + log(0) = −inf, and a row with +inf gives s = inf and +inf. The state keeps the true m', not the
0: a row whose first block is all −inf still shifts by the maximum that comes later. NaN is dropped by
tl.max and comes in again through exp. An empty axis leaves (−inf, 0), hence −inf.

Cost: reads each element once; one exp and one addition an element, two reductions a block.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=SIZES)
def logsumexp_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)
    m = tl.full([BLOCK_M], -float("inf"), ACC)
    s = tl.zeros([BLOCK_M], ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        address = first[:, None] + column[None, :] * step
        x = tl.load(address, mask=inside, other=-float("inf")).to(ACC)
        m_new = tl.maximum(m, tl.max(x, axis=1))
        shift = tl.where(tl.abs(m_new) == float("inf"), 0.0, m_new)
        e = tl.exp(x - shift[:, None])
        s = s * tl.exp(m - shift) + tl.sum(e, axis=1)
        m = m_new
    tl.store(out_ptr + row, m + tl.log(s), mask=row < rows)


@subject(
    references.logsumexp,
    mutants={
        # [1, 1, 1]: the maximum is added without having been subtracted
        "no-max-shift": ("tl.exp(x - shift[:, None])", "tl.exp(x)"),
        # [−200, −200, −200]: every exp underflows, −inf
        "max-starts-at-zero": ('BLOCK_M], -float("inf"), ACC', "BLOCK_M], 0.0, ACC"),
        # 256 zeros, then 44 of 200: the second block overflows
        "max-of-first-block": (
            "tl.maximum(m, tl.max(x, axis=1))",
            "tl.where(start == 0, tl.max(x, axis=1), m)",
        ),
        # 256 zeros, then 44 of 5: the first block counts exp(5) times too much
        "no-rescale": ("s * tl.exp(m - shift)", "s"),
        # [−inf, −inf]: NaN
        "all-minus-inf-nan": ('tl.where(tl.abs(m_new) == float("inf"), 0.0, m_new)', "m_new"),
        # [inf, 0]: NaN
        "plus-inf-nan": ('tl.abs(m_new) == float("inf")', 'm_new == -float("inf")'),
        # 256 of −inf, then 44 of −200: −inf
        "shift-kept-as-maximum": ("m = m_new", "m = shift"),
        # [−5, −5, −5]: 13 padded lanes of exp(0 − shift)
        "pad-zero": ('other=-float("inf")', "other=0.0"),
        # shape (2, 3), rows of 0 and of −200, dim 1: the second row underflows
        "maximum-of-the-tile": ("tl.max(x, axis=1)", "tl.max(x) + tl.zeros([BLOCK_M], ACC)"),
        # 300 zeros: log(256)
        "lost-tail": ("range(0, n, BLOCK_N)", "range(0, n - BLOCK_N + 1, BLOCK_N)"),
        # [0, 0, 5]
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # [[0, 0, 0], [5, 0, 0]], dim 1
        "one-past-the-end": ("(column < n)", "(column <= n)"),
        # 0 and 31 of −8: s = 1.0104 is rounded to 11 bits, the answer is 0.0103
        "float16-sum": ("tl.sum(e, axis=1)", "tl.sum(e.to(tl.float16), axis=1)"),
        # the same row
        "bfloat16-sum": ("tl.sum(e, axis=1)", "tl.sum(e.to(tl.bfloat16), axis=1)"),
        # x[:, ::2]
        "unit-stride": (" * step", ""),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (9, 200), dim 1: out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # shape (3, 0), dim 1: three −inf are never written
        "empty-axis-unwritten": ("if view.rows:", "if x.numel():"),
        # shape (2, 3), dim −1: reduces axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def logsumexp(x: torch.Tensor, dim: int) -> torch.Tensor:
    """log(Σ exp(x)) of x [1 to 4 dims, any strides] along `dim`; −inf for an empty axis."""
    view = rows_of(x, dim)
    out = torch.empty(view.shape, dtype=x.dtype, device=x.device)
    if view.rows:
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        logsumexp_rows[grid](x, out, *view.arguments, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
