"""log(softmax(x)) along one axis of any length in two passes, never through the softmax itself.

The first pass keeps a running maximum m and a running sum s for every lane of the row, without a
reduction in the loop; the lanes are then merged once:

    m'[j] = max(m[j], x[j]);   s[j] = s[j] · exp(m[j] − m'[j]) + exp(x[j] − m'[j])
    M = max(m);                S = Σ s[j] · exp(m[j] − M)

The second writes (x − M) − log(S): the log of a quotient would be −inf wherever the quotient underflows,
where x − M is still exact to a rounding. A lane that has seen only −inf subtracts 0 in its place. Rows of
−inf, and rows with +inf or NaN, are NaN throughout.

Cost: reads each element twice and writes it once; two exp an element, and two reductions a row.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of, tile


@triton.jit(do_not_specialize=SIZES)
def log_softmax_rows(
    x_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step, inner,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    lane = tl.arange(0, BLOCK_N).to(tl.int64)

    m = tl.full([BLOCK_M, BLOCK_N], -float("inf"), ACC)
    s = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        x = tl.load(first[:, None] + column[None, :] * step, mask=inside, other=-float("inf")).to(ACC)
        m_new = tl.maximum(m, x)
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        s = s * tl.exp(m - shift) + tl.exp(x - shift)
        m = m_new
    row_max = tl.max(m, axis=1)
    s *= tl.exp(m - row_max[:, None])
    total = tl.sum(s, axis=1)

    out = out_ptr + row // inner * (n * inner) + row % inner
    for start in range(0, n, BLOCK_N):
        column = start + lane
        inside = (row < rows)[:, None] & (column < n)[None, :]
        x = tl.load(first[:, None] + column[None, :] * step, mask=inside).to(ACC)
        y = (x - row_max[:, None]) - tl.log(total)[:, None]
        tl.store(out[:, None] + column[None, :] * inner, y, mask=inside)


@subject(
    references.log_softmax,
    mutants={
        # [100, 100]: −inf, and [−200, −200]: inf
        "no-max-shift": ("tl.maximum(m, x)", "tl.zeros([BLOCK_M, BLOCK_N], ACC)"),
        # 256 of 200, then 44 zeros: the second block replaces the maximum, and exp(200) overflows
        "max-of-last-block": ("tl.maximum(m, x)", "x"),
        # [0, −200]: −inf for the second
        "log-of-softmax": (
            "(x - row_max[:, None]) - tl.log(total)[:, None]",
            "tl.log(tl.exp(x - row_max[:, None]) / total[:, None])",
        ),
        # [0, 0, 0]: −log2(3)
        "log2": ("tl.log(total)", "tl.log2(total)"),
        # [0, 0, 0]: 0
        "not-normalised": (" - tl.log(total)[:, None]", ""),
        # 256 zeros, then 44 of 5: the first block counts exp(5) times too much
        "no-rescale": ("s * tl.exp(m - shift)", "s"),
        # [0, 5, 5]: the first lane counts exp(5) times too much
        "lanes-not-rescaled": ("s *= tl.exp(m - row_max[:, None])", "s *= 1.0"),
        # [0, 0, 0]: NaN from the padded lanes, which have only seen −inf
        "minus-inf-lane-nan": ('tl.where(m_new == -float("inf"), 0.0, m_new)', "m_new"),
        # 256 of −inf, then 44 of −200: −inf − −inf, since every sum underflows
        "shift-kept-as-maximum": ("m = m_new", "m = shift"),
        # [−5, −5, −5]: 13 padded lanes of exp(0)
        "pad-zero": ('other=-float("inf")', "other=0.0"),
        # [[0, 0, 0], [−200, −200, −200]], dim 1: −inf in the second row
        "maximum-of-the-tile": ("tl.max(m, axis=1)", "tl.max(m) + tl.zeros([BLOCK_M], ACC)"),
        # 0 and 31 of −8: the sum 1.0104 is rounded to 11 bits, out[0] is −0.0103
        "float16-sum": ("tl.sum(s, axis=1)", "tl.sum(s.to(tl.float16), axis=1).to(ACC)"),
        # the same row
        "bfloat16-sum": ("tl.sum(s, axis=1)", "tl.sum(s.to(tl.bfloat16), axis=1).to(ACC)"),
        # 300 zeros: −log(256)
        "lost-tail-of-sum": (
            "s = tl.zeros([BLOCK_M, BLOCK_N], ACC)\n    for start in range(0, n, BLOCK_N)",
            "s = tl.zeros([BLOCK_M, BLOCK_N], ACC)\n    for start in range(0, n - BLOCK_N + 1, BLOCK_N)",
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
def log_softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    """log(softmax(x)) of x [1 to 4 dims, any strides] along `dim`."""
    view = rows_of(x, dim)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        block_m, block_n = tile(view.n)
        grid = (triton.cdiv(view.rows, block_m),)
        log_softmax_rows[grid](x, out, *view.arguments, view.inner, BLOCK_M=block_m, BLOCK_N=block_n)
    return out
