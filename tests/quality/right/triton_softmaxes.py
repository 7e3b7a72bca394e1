"""Right softmaxes and fused kernels in Triton."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

import references
from quality.contracts import add_relu, biased_softmax, clamp, layer_norm, masked_mean, rms_norm, sgd, swiglu
from quality.declare import right
from quality.rows import reduced, restored, rows_of

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _nan_if_any(values, inside):
    return tl.sum(tl.where(inside & (values != values), 1, 0), axis=0) > 0


@triton.jit
def _one_block(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    values = tl.load(x + row * n + columns, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * n + columns, (e / tl.sum(e, axis=0)).to(out.dtype.element_ty), mask=inside)


@right(references.softmax)
def softmax_one_block(x, dim):
    """The whole row in one block; NaN comes back in through the exponentials."""
    rows = rows_of(x, dim)
    out = torch.empty_like(rows)
    if rows.numel():
        n = rows.shape[1]
        _one_block[(len(rows),)](rows, out, n, BLOCK=triton.next_power_of_2(n), num_warps=1)
    return restored(out, x, dim)


@triton.jit
def _builtin(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
    tl.store(out + row * n + columns, tl.softmax(values).to(out.dtype.element_ty), mask=columns < n)


@right(references.softmax)
def softmax_builtin(x, dim):
    """tl.softmax."""
    rows = rows_of(x, dim)
    out = torch.empty_like(rows)
    if rows.numel():
        n = rows.shape[1]
        _builtin[(len(rows),)](rows, out, n, BLOCK=triton.next_power_of_2(n))
    return restored(out, x, dim)


@triton.jit
def _online_statistics(x, n, BLOCK: tl.constexpr):
    m = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(x + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(values, axis=0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(m - safe) + tl.sum(tl.exp(values - safe), axis=0)
        m = new
    return m, total


@triton.jit
def _online(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m, total = _online_statistics(x + row * n, n, BLOCK)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
        y = tl.exp(values - m) / total
        tl.store(out + row * n + columns, y.to(out.dtype.element_ty), mask=columns < n)


@right(references.softmax)
def softmax_online(x, dim):
    """One scalar maximum and sum, blocks of 64, a nested helper."""
    rows = rows_of(x, dim)
    out = torch.empty_like(rows)
    if rows.numel():
        _online[(len(rows),)](rows, out, rows.shape[1], BLOCK=64)
    return restored(out, x, dim)


@triton.jit
def _online_lanes(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, values)
        safe = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp2((m - safe) * LOG2E) + tl.exp2((values - safe) * LOG2E)
        m = new
    top = tl.max(m, axis=0)
    safe = tl.where(top == -float("inf"), 0.0, top)
    whole = tl.sum(total * tl.exp2((m - safe) * LOG2E), axis=0)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
        y = tl.exp2((values - top) * LOG2E) * (1.0 / whole)
        tl.store(out + row * n + columns, y.to(out.dtype.element_ty), mask=columns < n)


@right(references.softmax)
def softmax_online_lanes(x, dim):
    """A maximum and a sum for each of 32 lanes, exp2."""
    rows = rows_of(x, dim)
    out = torch.empty_like(rows)
    if rows.numel():
        _online_lanes[(len(rows),)](rows, out, rows.shape[1], BLOCK=32)
    return restored(out, x, dim)


@triton.jit
def _strided(x, out, outer, n, inner, BLOCK: tl.constexpr, INNER: tl.constexpr):
    lead, block = tl.program_id(0), tl.program_id(1)
    column = block * INNER + tl.arange(0, INNER)
    row = tl.arange(0, BLOCK)
    inside = (row < n)[:, None] & (column < inner)[None, :]
    at = lead * n * inner + row[:, None] * inner + column[None, :]
    values = tl.load(x + at, mask=inside, other=-float("inf")).to(tl.float32)
    values = tl.where((column < inner)[None, :], values, 0.0)
    e = tl.exp(values - tl.max(values, axis=0)[None, :])
    tl.store(out + at, (e / tl.sum(e, axis=0)[None, :]).to(out.dtype.element_ty), mask=inside)


@right(references.softmax)
def softmax_along_any_axis(x, dim):
    """Tiles of [n, 16], or fewer columns of long ones, along an inner axis, nothing transposed."""
    v = x.contiguous()
    dim %= x.ndim
    n = v.shape[dim]
    inner, outer = v.shape[dim + 1 :].numel(), v.shape[:dim].numel()
    out = torch.empty_like(v)
    if v.numel():
        block = triton.next_power_of_2(n)
        width = max(1, min(16, 2**20 // block))  # Triton's largest tile
        _strided[outer, triton.cdiv(inner, width)](v, out, outer, n, inner, BLOCK=block, INNER=width)
    return out


@triton.jit
def _log_or_lse(x, out, n, LOGARITHM: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m, total = _online_statistics(x + row * n, n, BLOCK)
    if LOGARITHM:
        for start in range(0, n, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
            tl.store(
                out + row * n + columns,
                (values - m - tl.log(total)).to(out.dtype.element_ty),
                mask=columns < n,
            )
    else:
        tl.store(out + row, (m + tl.log(total)).to(out.dtype.element_ty))


@right(references.log_softmax)
def log_softmax_online(x, dim):
    """A constexpr flag chooses between log_softmax and logsumexp."""
    rows = rows_of(x, dim)
    out = torch.empty_like(rows)
    if rows.numel():
        _log_or_lse[(len(rows),)](rows, out, rows.shape[1], LOGARITHM=True, BLOCK=128)
    return restored(out, x, dim)


@triton.jit
def _lse(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
    m = tl.max(values, axis=0)
    shift = tl.where(tl.abs(m) == float("inf"), 0.0, m)
    tl.store(out + row, (shift + tl.log(tl.sum(tl.exp(values - shift), axis=0))).to(out.dtype.element_ty))


@right(references.logsumexp)
def logsumexp_one_block(x, dim):
    """An infinite maximum is not subtracted."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        n = rows.shape[1]
        _lse[(len(rows),)](rows, out, n, BLOCK=triton.next_power_of_2(max(n, 1)))
    return reduced(out, x, dim)


@triton.jit
def _biased(x, bias, out, n, x_row, x_column, bias_step, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    z = tl.load(x + row * x_row + columns * x_column, mask=inside, other=-float("inf")).to(tl.float32)
    z += tl.load(bias + columns * bias_step, mask=inside, other=0.0).to(tl.float32)
    e = tl.exp(z - tl.max(z, axis=0))
    tl.store(out + row * n + columns, (e / tl.sum(e, axis=0)).to(out.dtype.element_ty), mask=inside)


@right(biased_softmax)
def biased_softmax_fused(x, bias):
    """One block, strides passed."""
    n = x.shape[-1]
    flat = x.reshape(x.shape[:-1].numel(), n)
    out = torch.empty(x.shape, dtype=x.dtype)
    if x.numel():
        block = triton.next_power_of_2(n)
        _biased[(len(flat),)](flat, bias, out, n, *flat.stride(), bias.stride(0), BLOCK=block)
    return out


@triton.jit
def _layer_norm(x, weight, bias, out, n, eps, WEIGHT: tl.constexpr, BIAS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
        d = tl.where(columns < n, values - mean, 0.0)
        squares += d * d
    scale = tl.rsqrt(tl.sum(squares, axis=0) / n + eps)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < n
        y = (tl.load(x + row * n + columns, mask=inside, other=0.0).to(tl.float32) - mean) * scale
        if WEIGHT:
            y *= tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
        if BIAS:
            y += tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + row * n + columns, y.to(out.dtype.element_ty), mask=inside)


@right(layer_norm)
def layer_norm_two_pass(x, weight, bias, eps):
    """Three loops, as in Triton's tutorial."""
    n = x.shape[-1]
    rows = x.reshape(x.shape[:-1].numel(), n).contiguous()
    out = torch.empty(x.shape, dtype=x.dtype)
    if x.numel():
        w = None if weight is None else weight.contiguous()
        b = None if bias is None else bias.contiguous()
        _layer_norm[(len(rows),)](
            rows, w, b, out, n, eps, WEIGHT=w is not None, BIAS=b is not None, BLOCK=128
        )
    return out


@triton.jit
def _rms_norm(x, weight, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    values = tl.load(x + row * n + columns, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt_rn(tl.sum(values * values, axis=0) / n + eps)
    tl.store(out + row * n + columns, (values * scale * w).to(out.dtype.element_ty), mask=inside)


@right(rms_norm)
def rms_norm_one_block(x, weight, eps):
    """1 / sqrt_rn."""
    n = x.shape[-1]
    rows = x.reshape(x.shape[:-1].numel(), n).contiguous()
    out = torch.empty(x.shape, dtype=x.dtype)
    if x.numel():
        block = triton.next_power_of_2(n)
        _rms_norm[(len(rows),)](rows, weight.contiguous(), out, n, eps, BLOCK=block)
    return out


@triton.jit
def _elementwise(x, y, out, n, OPERATION: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    b = tl.load(y + at, mask=at < n, other=0.0).to(tl.float32)
    if OPERATION == "add_relu":
        c = a + b
        c = tl.where(c < 0.0, 0.0, c)
    else:
        c = a * tl.sigmoid(a) * b
    tl.store(out + at, c.to(out.dtype.element_ty), mask=at < n)


def _pairwise(x, y, operation, block):
    out = torch.empty(x.shape, dtype=x.dtype)
    if x.numel():
        grid = (triton.cdiv(x.numel(), block),)
        _elementwise[grid](x.contiguous(), y.contiguous(), out, x.numel(), OPERATION=operation, BLOCK=block)
    return out


@right(add_relu)
def add_relu_flat(x, y):
    """Flat blocks of 256; a comparison that keeps NaN."""
    return _pairwise(x, y, "add_relu", 256)


@right(swiglu)
def swiglu_flat(gate, up):
    """Flat blocks of 1024 with tl.sigmoid."""
    return _pairwise(gate, up, "swiglu", 1024)


@triton.jit
def _clamp(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n).to(tl.float32)
    y = tl.clamp(values, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + at, y.to(out.dtype.element_ty), mask=at < n)


@right(clamp, bug="C21")
def clamp_propagating(x):
    """tl.clamp with propagate_nan; loads without `other`, whose lanes are not stored."""
    out = torch.empty(x.shape, dtype=x.dtype)
    if x.numel():
        _clamp[(triton.cdiv(x.numel(), 64),)](x.contiguous(), out, x.numel(), BLOCK=64)
    return out


@triton.jit
def _masked_mean(x, mask, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    count = tl.zeros([BLOCK], tl.int32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        kept = tl.load(mask + row * n + columns, mask=columns < n, other=0) != 0
        total += tl.load(x + row * n + columns, mask=kept, other=0.0).to(tl.float32)
        count += kept.to(tl.int32)
    tl.store(out + row, (tl.sum(total, axis=0) / tl.sum(count, axis=0)).to(out.dtype.element_ty))


@right(masked_mean)
def masked_mean_masked_loads(x, mask):
    """The mask of the mean is the mask of the load."""
    n = x.shape[-1]
    rows = x.reshape(x.shape[:-1].numel(), n).contiguous()
    kept = mask.reshape(rows.shape).contiguous()
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        _masked_mean[(len(rows),)](rows, kept, out, n, BLOCK=64)
    return out.reshape(x.shape[:-1])


@triton.jit
def _sgd(param, grad, lr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p = tl.load(param + at, mask=at < n, other=0.0).to(tl.float32)
    g = tl.load(grad + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(param + at, (p - lr * g).to(param.dtype.element_ty), mask=at < n)


@right(sgd)
def sgd_on_a_copy(param, grad, lr):
    """Updates a contiguous copy and copies it back."""
    p = param.clone(memory_format=torch.contiguous_format)
    if p.numel():
        _sgd[(triton.cdiv(p.numel(), 128),)](p, grad.contiguous(), lr, p.numel(), BLOCK=128)
    param.copy_(p)
