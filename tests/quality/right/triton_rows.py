"""Right Triton kernels for indices of extremes, rotations, losses and activations, written in less usual ways."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

import harness
import references
from quality.declare import right
from quality.rows import reduced, rows_of


@triton.jit
def _less(a, i, b, j):
    a_nan, b_nan = a != a, b != b
    first = i < j
    tie = (a == b) | (a_nan & b_nan)
    keep = tl.where(tie, first, a_nan | ((a < b) & (b_nan == 0)))
    return tl.where(keep, a, b), tl.where(keep, i, j)


@triton.jit
def _argmin(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=float("inf")).to(tl.float32)
    _, index = tl.reduce((values, tl.where(columns < n, columns, 2147483647)), 0, _less)
    tl.store(out + row, index.to(tl.int64))


@right(references.argmin)
def argmin_by_reduce(x, dim):
    """tl.reduce over pairs of a value and its index, with a combine function that knows ties and NaN."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=torch.int64)
    if len(rows):
        _argmin[(len(rows),)](rows, out, rows.shape[1], BLOCK=triton.next_power_of_2(rows.shape[1]))
    return reduced(out, x, dim)


@triton.jit
def _argmax(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
    rank = tl.where(values != values, 2, tl.where(values == float("inf"), 1, 0))
    highest = tl.max(rank, axis=0)
    score = tl.where(highest > 0, 0.0, values)
    score = tl.where((rank == highest) & (columns < n), score, -float("inf"))
    _, index = tl.max(score, 0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(out + row, index.to(tl.int64))


@right(references.argmax)
def argmax_of_returned_indices(x, dim):
    """tl.max with return_indices, NaN and infinities ranked beforehand."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=torch.int64)
    if len(rows):
        _argmax[(len(rows),)](rows, out, rows.shape[1], BLOCK=triton.next_power_of_2(rows.shape[1]))
    return reduced(out, x, dim)


@triton.jit
def _rotate(x, cos, sin, out, positions, INTERLEAVED: tl.constexpr, HALF: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, 2 * HALF)
    values = tl.load(x + row * 2 * HALF + at).to(tl.float32)
    if INTERLEAVED:
        first, second = tl.split(tl.reshape(values, (HALF, 2)))
    else:
        first, second = tl.split(tl.permute(tl.reshape(values, (2, HALF)), (1, 0)))
    angle = (row % positions) * HALF + tl.arange(0, HALF)
    c, s = tl.load(cos + angle).to(tl.float32), tl.load(sin + angle).to(tl.float32)
    a, b = tl.fma(first, c, -second * s), tl.fma(second, c, first * s)
    pairs = tl.join(a, b)
    turned = tl.reshape(pairs if INTERLEAVED else tl.trans(pairs), (2 * HALF,))
    tl.store(out + row * 2 * HALF + at, turned.to(out.dtype.element_ty))


@right(references.rope)
def rope_by_split_and_join(x, cos, sin, interleaved):
    """One load of the pair: tl.split, tl.permute, tl.join, tl.trans. Powers of two only."""
    batch, heads, positions, width = x.shape
    if width & (width - 1):
        raise harness.Unsupported("widths that are no power of two")
    values = x.contiguous()
    out = torch.empty_like(values)
    if values.numel():
        table = cos.contiguous(), sin.contiguous()
        grid = (batch * heads * positions,)
        _rotate[grid](values, *table, out, positions, INTERLEAVED=interleaved, HALF=width // 2)
    return out


@triton.jit
def _loss(logits, target, losses, n, ignored, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(target + row)
    loss = 0.0
    if label != ignored:
        m = -float("inf")
        total = 0.0
        for start in range(0, n, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            values = tl.load(logits + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
            new = tl.maximum(m, tl.max(values, axis=0))
            shift = tl.where(new == -float("inf"), 0.0, new)
            total = total * tl.exp(m - shift) + tl.sum(tl.exp(values - shift), axis=0)
            m = new
        loss = tl.log(total) - (tl.load(logits + row * n + label).to(tl.float32) - m)
    tl.store(losses + row, loss)


@right(references.cross_entropy)
def cross_entropy_online(logits, target, ignore_index, reduction):
    """An online softmax in blocks of 128; ignored rows are not read."""
    rows, labels = logits.contiguous(), target.contiguous()
    losses = torch.empty(len(rows), dtype=torch.float32)
    if len(rows):
        _loss[(len(rows),)](rows, labels, losses, rows.shape[1], ignore_index, BLOCK=128)
    if reduction == "none":
        return losses.to(logits.dtype)
    total = losses.sum()
    return (total if reduction == "sum" else total / (target != ignore_index).sum()).to(logits.dtype)


@triton.jit
def _gelu(x, out, n, TANH: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    if TANH:
        y = values * tl.sigmoid(1.5957691216057308 * (values + 0.044715 * values * values * values))
        y = tl.where(values == -float("inf"), float("nan"), y)
    else:
        y = 0.5 * values * libdevice.erfc(-values * 0.7071067811865476)
    tl.store(out + at, y.to(out.dtype.element_ty), mask=at < n)


@right(references.gelu)
def gelu_with_exact_tails(x, approximate):
    """erfc, and a sigmoid for the tanh: neither cancels for negative x."""
    values = x.contiguous()
    out = torch.empty_like(values)
    if values.numel():
        grid = (triton.cdiv(values.numel(), 256),)
        _gelu[grid](values, out, values.numel(), TANH=approximate == "tanh", BLOCK=256)
    return out
