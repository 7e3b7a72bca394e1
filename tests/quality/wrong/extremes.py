"""Wrong maxima, minima and clamps."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

import references
from quality.contracts import add_relu, clamp, larger
from quality.declare import wrong
from quality.rows import reduced, rows_of


@triton.jit
def _row_max(x, out, n, PAD: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=PAD)
    tl.store(out + row, tl.max(values.to(tl.float32), axis=0).to(out.dtype.element_ty))


def _max(x, dim, pad):
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        _row_max[(len(rows),)](rows, out, rows.shape[1], PAD=pad, BLOCK=triton.next_power_of_2(rows.shape[1]))
    return reduced(out, x, dim)


@wrong(references.amax, "special values", bug="B08")
def amax_drops_nan(x, dim):
    """tl.max returns the other operand of a NaN."""
    return _max(x, dim, -float("inf"))


@wrong(references.amax, "accuracy", bug="B24")
def amax_padded_with_zero(x, dim):
    """Lanes beyond the row are 0: the maximum of negative rows."""
    return torch.where(x.isnan().any(dim), torch.nan, _max(x, dim, 0.0)).to(x.dtype)


@wrong(references.amax, "accuracy", "special values", bug="B10")
def amax_padded_with_1e4(x, dim):
    """Lanes beyond the row are -1e4."""
    return torch.where(x.isnan().any(dim), torch.nan, _max(x, dim, -1e4)).to(x.dtype)


@wrong(references.amax, "special values")
def amax_starts_from_lowest(x, dim):
    """The running maximum starts from the format's lowest finite number: rows of -inf give it."""
    lowest = torch.full_like(x.sum(dim), torch.finfo(x.dtype).min)
    return torch.maximum(x.amax(dim), lowest)


@wrong(references.amin, "accuracy", "special values", bug="B10")
def amin_padded_with_zero(x, dim):
    """Lanes beyond the row are 0: the minimum of positive rows."""
    n = x.shape[dim]
    pad = torch.zeros_like(x.narrow(dim, 0, 1))
    return torch.cat([x, pad], dim).amin(dim) if n & (n - 1) else x.amin(dim)


@wrong(references.amax, "special values", bug="B08", domain={"max_elements": 3000})
def amax_by_comparison(x, dim):
    """where(a > b, a, b): a NaN in a is lost."""
    best, *rest = x.unbind(dim)
    for part in rest:
        best = torch.where(best > part, best, part)
    return best.clone()


@wrong(references.amin, "special values", bug="B08", domain={"max_elements": 3000})
def amin_keeps_first_nan(x, dim):
    """where(b < a, b, a): a NaN counts only in the first place."""
    best, *rest = x.unbind(dim)
    for part in rest:
        best = torch.where(part < best, part, best)
    return best.clone()


@wrong(references.amax, "accuracy", "special values")
def amax_of_magnitudes(x, dim):
    """The largest |x|."""
    return x.abs().amax(dim)


@wrong(references.amax, "accuracy", "special values")
def amax_through_half(x, dim):
    """Compares in float16 whatever the input: wrong for float32 and bfloat16 only."""
    return x.half().amax(dim).to(x.dtype)


@wrong(references.amax, "accuracy", "special values")
def amax_of_bits(x, dim):
    """Compares float32 bits as integers: the order of negative numbers is reversed."""
    bits = x.float().contiguous().view(torch.int32)
    best = bits.amax(dim).view(torch.float32)
    return torch.where(x.isnan().any(dim), torch.nan, best).to(x.dtype)


@wrong(references.amax, "accuracy", "special values")
def amax_of_all_but_last(x, dim):
    """Stops one element short, except in rows of one."""
    return x.narrow(dim, 0, max(x.shape[dim] - 1, 1)).amax(dim)


@wrong(references.amin, "accuracy")
def amin_starts_from_zero(x, dim):
    """The running minimum starts from 0."""
    return torch.minimum(x.amin(dim), torch.zeros_like(x.sum(dim))).to(x.dtype)


@wrong(references.amax, "accuracy")
def amax_flushes_subnormals(x, dim):
    """Subnormal maxima become 0, although nothing was computed."""
    best = x.amax(dim)
    return torch.where(best.abs() < torch.finfo(x.dtype).tiny, 0.0, best)


@wrong(larger, "special values", bug="B08")
def larger_by_comparison(x, y):
    """where(x > y, x, y): a NaN in x is lost."""
    return torch.where(x > y, x, y)


@wrong(clamp, "special values", bug="B08")
def clamp_by_comparison(x):
    """NaN becomes the lower bound."""
    return torch.where(x > -1.0, torch.where(x < 1.0, x, 1.0), -1.0).to(x.dtype)


@wrong(clamp, "accuracy")
def clamp_of_positive(x):
    """The lower bound is 0."""
    return x.clamp(0.0, 1.0)


@wrong(add_relu, "accuracy")
def relu_then_add(x, y):
    """relu(x) + y."""
    return x.float().relu().add(y).to(x.dtype)


@triton.jit
def _add_relu(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + at, mask=at < n).to(tl.float32) + tl.load(y + at, mask=at < n).to(tl.float32)
    tl.store(out + at, tl.maximum(total, 0.0).to(out.dtype.element_ty), mask=at < n)


@wrong(add_relu, "special values", bug="B08")
def add_relu_drops_nan(x, y):
    """tl.maximum(NaN, 0) is 0."""
    a, b, out = x.contiguous(), y.contiguous(), torch.empty(x.shape, dtype=x.dtype)
    if x.numel():
        _add_relu[(triton.cdiv(x.numel(), 128),)](a, b, out, x.numel(), BLOCK=128)
    return out


@wrong(add_relu, "accuracy")
def add_relu_leaky(x, y):
    """A slope of 1e-3 below 0."""
    return torch.nn.functional.leaky_relu(x.float() + y.float(), 1e-3).to(x.dtype)


@wrong(references.amax, "special values", smallest=8)
def amax_prefers_inf_to_nan(x, dim):
    """+inf ends the search, whatever else the row holds."""
    return torch.where((x == torch.inf).any(dim), torch.inf, x.amax(dim)).to(x.dtype)


@wrong(references.amin, "special values", smallest=8)
def amin_takes_inf_for_nan(x, dim):
    """What is not finite is NaN."""
    return torch.where(x.isfinite(), x, torch.nan).to(x.dtype).amin(dim)


@wrong(references.amax, "special values", smallest=8, claim="right if claims={'saturate': True}")
def amax_of_finite_numbers(x, dim):
    """nan_to_num on the result."""
    return x.amax(dim).nan_to_num(nan=torch.nan)


@wrong(references.amax, "accuracy", "special values", smallest=8)
def amax_adds_up_ties(x, dim):
    """The maximum is read off by a masked sum: ties add up."""
    m = x.amax(dim, keepdim=True)
    return torch.where(
        m.isfinite().squeeze(dim), torch.where(x == m, x, 0.0).double().sum(dim), m.squeeze(dim)
    ).to(x.dtype)


@wrong(references.amax, "special values", "accuracy", smallest=1)
def amax_largest_number_is_inf(x, dim):
    """The format's largest number, a mask elsewhere, is taken for an infinity."""
    m = x.amax(dim)
    return torch.where(m == torch.finfo(x.dtype).max, torch.inf, m)
