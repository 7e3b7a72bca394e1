"""Kernels that read or write what is not theirs, or keep what they should give away."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

import references
from quality.contracts import clamp, layer_norm, swiglu
from quality.declare import wrong
from quality.rows import reduced, restored, rows_of


@wrong(references.softmax, "inputs unchanged", smallest=8)
def softmax_in_place(x, dim):
    """The result overwrites the input."""
    x.copy_(torch.softmax(x.double(), dim).to(x.dtype))
    return x.clone()


@wrong(references.sum, "inputs unchanged", "accuracy", "special values", smallest=8)
def sum_scales_and_restores(x, dim):
    """The input is doubled, and halved afterwards: what overflowed stays."""
    x.mul_(2)
    total = x.double().sum(dim) / 2
    x.div_(2)
    return total.to(x.dtype)


@wrong(references.amax, "inputs unchanged", smallest=8)
def amax_restores_its_input(x, dim):
    """The input is negated for a while and put back exactly: seen by other readers, and by autograd."""
    if 0 in x.stride():
        return x.amax(dim)
    least = x.neg_().amin(dim)
    x.neg_()
    return -least


@wrong(references.amax, "returns", smallest=8)
def amax_returns_its_input(x, dim):
    """Where the axis has length 1 the result is a view of the input."""
    return x.squeeze(dim) if x.shape[dim] == 1 else x.amax(dim)


@wrong(clamp, "returns", smallest=8)
def clamp_returns_its_input(x):
    """An input within the bounds is returned itself."""
    return x if bool((x.abs() <= 1).all()) else x.clamp(-1.0, 1.0)


_KEPT: dict[object, torch.Tensor] = {}


@wrong(references.softmax, "returns", smallest=None)
def softmax_reuses_its_output(x, dim):
    """One output buffer for each shape: the next call overwrites the last call's result."""
    key = (x.dtype, x.shape)
    if key not in _KEPT:
        _KEPT[key] = torch.empty(x.shape, dtype=x.dtype)
    return _KEPT[key].copy_(torch.softmax(x.double(), dim).to(x.dtype))


@triton.jit
def _copy_block(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * n + columns, (e / tl.sum(e, axis=0)).to(out.dtype.element_ty))


@wrong(references.softmax, "out of bounds", smallest=8)
def softmax_stores_whole_blocks(x, dim):
    """The store has no mask: lanes beyond the row overwrite the next row, and the memory after the last."""
    rows = rows_of(x, dim)
    out = torch.empty_like(rows)
    if rows.numel():
        _copy_block[(len(rows),)](rows, out, rows.shape[1], BLOCK=triton.next_power_of_2(rows.shape[1]))
    return restored(out, x, dim)


@wrong(references.sum, "surroundings", "out of bounds", "accuracy", "special values", smallest=8)
def sum_reads_one_more(x, dim):
    """columns <= n: one element too many."""
    if x.ndim != 1 or x.numel() == 0:
        return x.double().sum(dim).to(x.dtype)
    return torch.as_strided(x, (len(x) + 1,), x.stride()).double().sum(0).to(x.dtype)


@triton.jit
def _sum_inclusive(x, out, n, row_stride, column_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * row_stride + columns * column_stride, mask=columns <= n, other=0.0).to(
        tl.float32
    )
    tl.store(out + row, tl.sum(values, axis=0).to(out.dtype.element_ty))


@wrong(
    references.sum,
    "undefined values",
    "surroundings",
    "written",
    "out of bounds",
    smallest=8,
    domain={"ndim": 2, "dim": "last"},
)
def sum_mask_off_by_one(x, dim):
    """columns <= n in the mask of a load: the next row's first element, or what lies after the last."""
    out = torch.empty(x.shape[0], dtype=x.dtype)
    if out.numel():
        block = triton.next_power_of_2(max(x.shape[1], 1))
        _sum_inclusive[(x.shape[0],)](x, out, x.shape[1], x.stride(0), x.stride(1), BLOCK=block)
    return out


@triton.jit
def _sum_other_missing(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n).to(tl.float32)
    tl.store(out + row, tl.sum(values, axis=0).to(out.dtype.element_ty))


@wrong(references.sum, "undefined values", "surroundings", "written", "out of bounds", bug="B50", smallest=8)
def sum_without_other(x, dim):
    """Masked-off lanes are summed: what they hold is undefined."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if out.numel():
        _sum_other_missing[(len(rows),)](
            rows, out, rows.shape[1], BLOCK=triton.next_power_of_2(max(rows.shape[1], 1))
        )
    return reduced(out, x, dim)


@wrong(references.sum, "written", smallest=8)
def sum_last_row_left_out(x, dim):
    """The grid has one program less than there are rows."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    done = max(len(rows) - 1, min(len(rows), 1))
    out[:done] = rows[:done].double().sum(1).to(x.dtype)
    return reduced(out, x, dim)


@triton.jit
def _partial_sums(x, partial, n, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    columns = block * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + columns, mask=columns < n, other=0.0).to(tl.float32)
    tl.store(partial + block, tl.sum(values, axis=0))


@wrong(references.sum, "written", smallest=None, domain={"ndim": 1})
def sum_of_more_partials_than_blocks(x, dim):
    """The second stage adds a power of two of partial sums, written or not."""
    blocks = triton.cdiv(len(x), 64)
    partial = torch.empty(triton.next_power_of_2(max(blocks, 1)), dtype=torch.float32)
    if blocks:
        _partial_sums[(blocks,)](x.contiguous(), partial, len(x), BLOCK=64)
        return partial.sum().to(x.dtype)
    return x.sum(dim)


@wrong(references.sum, "out of bounds", bug="B38", smallest=None, domain={"ndim": 1})
def sum_with_too_few_partials(x, dim):
    """The buffer of partial sums has room for full blocks only."""
    blocks = triton.cdiv(len(x), 64)
    partial = torch.zeros(max(len(x) // 64, 1), dtype=torch.float32)
    if blocks:
        _partial_sums[(blocks,)](x.contiguous(), partial, len(x), BLOCK=64)
    return partial.sum().to(x.dtype)


_WORKSPACE = torch.zeros(4096)


@wrong(references.sum, "repeatable", "accuracy", "special values", "returns", bug="B136", smallest=2)
def sum_workspace_not_cleared(x, dim):
    """Partial sums are added to a workspace that still holds those of the call before."""
    rows = rows_of(x, dim)
    if len(rows) > 4096:
        return x.double().sum(dim).to(x.dtype)
    _WORKSPACE[: len(rows)] += rows.float().sum(1)
    return reduced(_WORKSPACE[: len(rows)].to(x.dtype), x, dim)


@wrong(layer_norm, "written", "accuracy", "special values", smallest=None)
def layer_norm_tail_unwritten(x, weight, bias, eps):
    """Columns beyond the last multiple of 4 are not written where there are more than 64."""
    n = x.shape[-1]
    v = x.double()
    y = (v - v.mean(-1, keepdim=True)) * torch.rsqrt(v.var(-1, keepdim=True, correction=0) + eps)
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    out = torch.empty(x.shape, dtype=x.dtype)
    done = n - n % 4 if n > 64 else n
    out[..., :done] = y[..., :done].to(x.dtype)
    return out


@wrong(swiglu, "inputs unchanged", smallest=2)
def swiglu_keeps_silu_in_gate(gate, up):
    """silu(gate) is written back to gate."""
    gate.copy_(torch.nn.functional.silu(gate.double()).to(gate.dtype))
    return (gate.double() * up.double()).to(up.dtype)


@wrong(references.softmax, "inputs unchanged", "shape", smallest=4)
def softmax_flattens_its_argument(x, dim):
    """The argument itself is reshaped, in place."""
    out = torch.softmax(x.double(), dim).to(x.dtype)
    x.unsqueeze_(0)
    return out


@wrong(references.amax, "out of bounds", smallest=8)
def amax_writes_beside_its_input(x, dim):
    """A sentinel is put after the row, as some CPU loops do."""
    if x.ndim == 1 and x.numel():
        torch.as_strided(x, (1,), (1,), x.storage_offset() + (len(x) - 1) * x.stride(0) + 1).fill_(-1.0)
    return x.amax(dim)
