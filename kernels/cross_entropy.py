"""Cross-entropy of logits against labels: an online logsumexp for each row, then one reduction over the rows.

    loss[i] = log Σ exp(x[i] − m) − (x[i, target] − m)             (float32; float64 for float64)

m is the row's maximum, rescaled as it grows (see `logsumexp`). It cancels between the two terms, and must do
so before they meet: m + log Σ − x loses every digit of a small loss under a large m. A row whose target is
ignore_index has loss 0 and does not count; if no row counts, the mean is 0 / 0 = NaN.

Cost: reads each logit once; one exp a logit, one logarithm a row; writes and reads a loss a row.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject

BLOCK_R = 1024


@triton.jit(do_not_specialize=("rows", "n", "ignore_index"))
def loss_rows(
    x_ptr, target_ptr, loss_ptr, rows, n, row_step, step, target_step, ignore_index,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = x_ptr + row * row_step
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
    target = tl.load(target_ptr + row * target_step, mask=row < rows, other=ignore_index)
    counted = target != ignore_index
    picked = tl.load(first + target * step, mask=(row < rows) & counted, other=0.0).to(ACC)
    loss = tl.where(counted, tl.log(s) - (picked - m), 0.0)
    tl.store(loss_ptr + row, loss, mask=row < rows)


@triton.jit(do_not_specialize=("rows", "ignore_index"))
def reduce_losses(
    loss_ptr, target_ptr, out_ptr, rows, target_step, ignore_index, MEAN: tl.constexpr, BLOCK_R: tl.constexpr
):
    acc = tl.zeros([BLOCK_R], loss_ptr.dtype.element_ty)
    count = tl.zeros([BLOCK_R], tl.int32)
    for start in range(0, rows, BLOCK_R):
        row = (start + tl.arange(0, BLOCK_R)).to(tl.int64)
        acc += tl.load(loss_ptr + row, mask=row < rows, other=0.0)
        target = tl.load(target_ptr + row * target_step, mask=row < rows, other=ignore_index)
        count += (target != ignore_index).to(tl.int32)
    result = tl.sum(acc, axis=0)
    if MEAN:
        result = result / tl.sum(count, axis=0)
    tl.store(out_ptr, result)


@subject(
    references.cross_entropy,
    mutants={
        # [100, 100]: inf
        "no-max-shift": ("tl.exp(x - shift[:, None])", "tl.exp(x)"),
        # 10000 and spread 1: x and the logsumexp share their first 11 bits
        "lse-minus-target": ("tl.log(s) - (picked - m)", "(m + tl.log(s)) - picked"),
        # a sum of losses over the ignored rows too
        "ignored-counted-in-sum": (
            "tl.where(counted, tl.log(s) - (picked - m), 0.0)",
            "tl.log(s) - (picked - m)",
        ),
        # two rows, one ignored: half the loss
        "ignored-counted-in-mean": ("result / tl.sum(count, axis=0)", "result / rows"),
        # all ignored: 0
        "all-ignored-zero": (
            "result / tl.sum(count, axis=0)",
            "result / tl.maximum(tl.sum(count, axis=0), 1)",
        ),
        # ignore_index 1: its rows count
        "fixed-ignore-index": ("counted = target != ignore_index", "counted = target != -100"),
        # the sum is divided too
        "mean-for-sum": ("if MEAN:", "if MEAN or not MEAN:"),
        # [−10, −10, −10]: the padding has all the weight
        "pad-zero": ('mask=inside, other=-float("inf")', "mask=inside, other=0.0"),
        # 128 zeros, then 44 of 5
        "no-rescale": ("s * tl.exp(m - shift)", "s"),
        # 128 zeros, then 44 of 200
        "max-of-first-block": (
            "tl.maximum(m, tl.max(x, axis=1))",
            "tl.where(start == 0, tl.max(x, axis=1), m)",
        ),
        # −inf in the whole first block: NaN
        "infinite-shift": ('tl.where(m_new == -float("inf"), 0.0, m_new)', "m_new"),
        # the largest logit for the target's
        "target-is-largest": ("(picked - m), 0.0)", "(picked - picked), 0.0)"),
        # x[:, ::2]: the target's logit is read as if adjoining
        "target-unit-stride": ("first + target * step", "first + target"),
        # labels that are a column of a matrix
        "labels-unit-stride": (
            "row * target_step, mask=row < rows, other=ignore_index)\n    counted",
            "row, mask=row < rows, other=ignore_index)\n    counted",
        ),
        # 300 logits: the last 44
        "lost-tail": ("range(0, n, BLOCK_N)", "range(0, n - BLOCK_N + 1, BLOCK_N)"),
        # [0, 0, 5]
        "last-element-lost": ("(column < n)", "(column < n - 1)"),
        # 32 of 1/32
        "float16-sum": (
            "tl.sum(tl.exp(x - shift[:, None]), axis=1)",
            "tl.sum(tl.exp(x - shift[:, None]).to(tl.float16), axis=1).to(ACC)",
        ),
        # no row at all: never written
        "empty-batch-unwritten": ('if reduction != "none":', 'if reduction != "none" and rows:'),
        # shape (9, 200): the last row's loss is never written
        "unwritten-rows": ("triton.cdiv(rows, block_m)", "rows // block_m"),
    },
)
def cross_entropy(
    logits: torch.Tensor, target: torch.Tensor, ignore_index: int, reduction: str
) -> torch.Tensor:
    """Loss of logits (N, V) against target (N), int64: (N) for "none", else () for "sum" and "mean"."""
    rows, n = logits.shape
    accumulator = torch.float64 if logits.dtype == torch.float64 else torch.float32
    kind = logits.dtype if reduction == "none" else accumulator
    losses = torch.empty((rows,), dtype=kind, device=logits.device)
    if rows:
        block_m, block_n = (128, 16) if n <= 128 else (16, 128)
        loss_rows[(triton.cdiv(rows, block_m),)](
            logits, target, losses, rows, n, *logits.stride(), target.stride(0), ignore_index,
            BLOCK_M=block_m, BLOCK_N=block_n,
        )  # fmt: skip
    if reduction != "none":
        out = torch.empty((), dtype=logits.dtype, device=logits.device)
        reduce_losses[(1,)](
            losses, target, out, rows, target.stride(0), ignore_index,
            MEAN=reduction == "mean", BLOCK_R=BLOCK_R,
        )  # fmt: skip
        return out
    return losses
