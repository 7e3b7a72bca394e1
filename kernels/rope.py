"""Rotary position embedding: every pair of x is turned by the angle of its position and its number.

    first' = first · cos − second · sin;   second' = second · cos + first · sin   (in float32, or float64)

Pair i of a row is (2i, 2i + 1) where interleaved (GPT-J), else (i, i + D/2) (GPT-NeoX); cos and sin [S, D/2]
are of the row's position. A program turns BLOCK_M rows, whatever their strides.

Cost: reads and writes x once; 4 multiplications a pair. The table is read once for each batch and head.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject

BLOCK_M, BLOCK_D = 16, 32


@triton.jit(do_not_specialize=("rows", "heads", "length", "half"))
def rope_rows(
    x_ptr, cos_ptr, sin_ptr, out_ptr, rows, heads, length, half,
    batch_step, head_step, row_step, step, cos_row, cos_step, sin_row, sin_step,
    INTERLEAVED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    position = row % length
    base = row // length // heads * batch_step + row // length % heads * head_step + position * row_step
    for start in range(0, half, BLOCK_D):
        pair = (start + tl.arange(0, BLOCK_D)).to(tl.int64)[None, :]
        inside = (row < rows)[:, None] & (pair < half)
        one = 2 * pair if INTERLEAVED else pair
        two = one + (1 if INTERLEAVED else half)
        first = tl.load(x_ptr + base[:, None] + one * step, mask=inside, other=0.0).to(ACC)
        second = tl.load(x_ptr + base[:, None] + two * step, mask=inside, other=0.0).to(ACC)
        cos = tl.load(cos_ptr + position[:, None] * cos_row + pair * cos_step, mask=inside, other=0.0).to(ACC)
        sin = tl.load(sin_ptr + position[:, None] * sin_row + pair * sin_step, mask=inside, other=0.0).to(ACC)
        out = out_ptr + row[:, None] * (2 * half)
        tl.store(out + one, first * cos - second * sin, mask=inside)
        tl.store(out + two, second * cos + first * sin, mask=inside)


@subject(
    references.rope,
    mutants={
        # x = [1, 0, 0, 0]: out[2] instead of out[1]
        "interleaved-ignored": ("INTERLEAVED=interleaved", "INTERLEAVED=False"),
        # the other way
        "always-interleaved": ("INTERLEAVED=interleaved", "INTERLEAVED=True"),
        # pairs read interleaved, halves written
        "halves-written": ("tl.store(out + one,", "tl.store(out + pair,"),
        # turned backwards
        "minus-sine": ("first * cos - second * sin", "first * cos + second * sin"),
        # the second of a pair turned backwards
        "second-minus-sine": ("second * cos + first * sin", "second * cos - first * sin"),
        # cos for sin
        "sine-of-cosine": ("tl.load(sin_ptr + position", "tl.load(cos_ptr + position"),
        # the position of the first row for all
        "position-of-tile": ("position = row % length", "position = row % length // BLOCK_M * BLOCK_M"),
        # the number of the row, over heads and batches
        "position-of-head": (
            "row // length % heads * head_step + position",
            "row // length % heads * head_step * 0 + position",
        ),
        # row of the batch for the position
        "batch-for-position": ("position = row % length", "position = row // heads % length"),
        # D/2 = 33: the last pair
        "lost-tail": ("range(0, half, BLOCK_D)", "range(0, half - BLOCK_D + 1, BLOCK_D)"),
        # D/2 = 33: only the last block
        "products-in-input-format": (
            "first * cos - second * sin",
            "(first * cos).to(tl.bfloat16).to(ACC) - (second * sin).to(tl.bfloat16).to(ACC)",
        ),
        # a strided table
        "table-unit-stride": ("pair * cos_step", "pair"),
        # cos and sin of unlike strides
        "strides-of-cosine": ("position[:, None] * sin_row", "position[:, None] * cos_row"),
        # x of (B, S, H, D) seen as (B, H, S, D)
        "heads-adjoin": ("% heads * head_step", "% heads * (length * row_step)"),
        # 17 rows: the last is never written
        "unwritten-rows": ("triton.cdiv(rows, BLOCK_M)", "rows // BLOCK_M"),
        # D/2 = 33: one pair more
        "one-past-the-end": ("(pair < half)", "(pair <= half)"),
    },
)
def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """x (B, H, S, D), any strides, turned by the table cos, sin (S, D/2), any strides."""
    batches, heads, length, features = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        rows = batches * heads * length
        grid = (triton.cdiv(rows, BLOCK_M),)
        rope_rows[grid](
            x, cos, sin, out, rows, heads, length, features // 2, *x.stride(), *cos.stride(), *sin.stride(),
            INTERLEAVED=interleaved, BLOCK_M=BLOCK_M, BLOCK_D=BLOCK_D,
        )  # fmt: skip
    return out
