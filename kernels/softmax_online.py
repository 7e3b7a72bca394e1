"""Softmax along one axis of any length in two passes: statistics, then the quotients.

The first pass keeps a running maximum m and sum s, as `logsumexp` does (Milakov and Gimelshein 2018,
arXiv:1805.02867, algorithm 3 by blocks):

    m' = max(m, max(block));   s = s · exp(m − m') + Σ exp(block − m')

and the second writes exp(x − m) / s. While m' is −inf nothing has been seen and 0 is subtracted in its
place, or −inf − −inf would make s NaN for good. At the end m is −inf only for a row of −inf, which is
NaN, as a row with +inf or NaN is.

Cost: reads each element twice and writes it once; two exp and one division an element, and
two reductions a block.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=SIZES)
def softmax_online_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step, inner,
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
        x = tl.load(first[:, None] + column[None, :] * step, mask=inside, other=-float("inf")).to(ACC)
        m_new = tl.maximum(m, tl.max(x, axis=1))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        s = s * tl.exp(m - shift) + tl.sum(tl.exp(x - shift[:, None]), axis=1)
        m = m_new

    out = out_ptr + row // inner * (n * inner) + row % inner
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        x = tl.load(first[:, None] + column[None, :] * step, mask=inside).to(ACC)
        y = tl.exp(x - m[:, None]) / s[:, None]
        tl.store(out[:, None] + column[None, :] * inner, y, mask=inside)


@subject(
    references.softmax,
    mutants={
        # [100, 100]: inf / inf, and [−200, −200]: 0 / 0
        "no-max-shift": ("tl.maximum(m, tl.max(x, axis=1))", "tl.zeros([BLOCK_M], ACC)"),
        # 256 zeros, then 44 of 200: the second block overflows
        "max-of-first-block": (
            "tl.maximum(m, tl.max(x, axis=1))",
            "tl.where(start == 0, tl.max(x, axis=1), m)",
        ),
        # 256 of 200, then 44 zeros: the second block replaces the maximum, and exp(200) overflows
        "max-of-last-block": ("tl.maximum(m, tl.max(x, axis=1))", "tl.max(x, axis=1)"),
        # 256 zeros, then 44 of 5: the first block counts exp(5) times too much
        "no-rescale": ("s * tl.exp(m - shift)", "s"),
        # 256 of −inf, then 44 zeros: NaN
        "minus-inf-block-nan": ('tl.where(m_new == -float("inf"), 0.0, m_new)', "m_new"),
        # 256 of −inf, then 44 of −200: 0 / 0
        "shift-kept-as-maximum": ("m = m_new", "m = shift"),
        # [−200, −200]: 0 / 0
        "max-starts-at-zero": ('BLOCK_M], -float("inf"), ACC', "BLOCK_M], 0.0, ACC"),
        # [−10, −10, −10]: 13 padded lanes of exp(0)
        "pad-zero": ('other=-float("inf")', "other=0.0"),
        # [[0, 0, 0], [−200, −200, −200]], dim 1: the second row is 0 / 0
        "maximum-of-the-tile": ("tl.max(x, axis=1)", "tl.max(x) + tl.zeros([BLOCK_M], ACC)"),
        # −4 + (37i mod 300)/75 for i = 0 … 299: nearly every element is off
        "float16-sum": ("tl.exp(x - shift[:, None]),", "tl.exp(x - shift[:, None]).to(tl.float16),"),
        # the same row
        "bfloat16-sum": ("tl.exp(x - shift[:, None]),", "tl.exp(x - shift[:, None]).to(tl.bfloat16),"),
        # 300 zeros: 1/256 each
        "lost-tail-of-sum": (
            "s = tl.zeros([BLOCK_M], ACC)\n    for start in range(0, n, BLOCK_N)",
            "s = tl.zeros([BLOCK_M], ACC)\n    for start in range(0, n - BLOCK_N + 1, BLOCK_N)",
        ),
        # 300 zeros: the last 44 are never written
        "lost-tail-of-output": (
            "% inner\n    for start in range(0, n, BLOCK_N)",
            "% inner\n    for start in range(0, n - BLOCK_N + 1, BLOCK_N)",
        ),
        # x[:, ::2]: right statistics, wrong output
        "unit-stride-second-pass": (" * step, mask=inside).to", ", mask=inside).to"),
        # x transposed
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # shape (3, 2), dim 0: written along the rows
        "output-along-last-axis": ("column[None, :] * inner", "column[None, :]"),
        # shape (2, 3, 2), dim 1: the second slice is written over the first
        "output-slices-overlap": ("row // inner * (n * inner)", "row // inner * n"),
        # any x: it is overwritten
        "in-place": ("torch.empty(x.shape, dtype=x.dtype, device=x.device)", "x"),
        # shape (9, 200), dim 1: out[8] is never written
        "unwritten-rows": ("triton.cdiv(view.rows, block_m)", "view.rows // block_m"),
        # shape (2, 3), dim −1: normalises axis 0
        "negative-dim": ("rows_of(x, dim)", "rows_of(x, max(dim, 0))"),
    },
)
def softmax_online(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Softmax of x [1 to 4 dims, any strides] along `dim`."""
    view = rows_of(x, dim)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        softmax_online_rows[grid](x, out, *view.arguments, view.inner, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
