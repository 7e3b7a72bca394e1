"""Wrong softmaxes and their kin."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

import references
from quality.contracts import biased_softmax, residual_softmax, scaled_softmax, temperature_softmax
from quality.declare import wrong
from quality.rows import restored, rows_of


@wrong(references.softmax, "special values", "accuracy", smallest=2)
def softmax_without_max(x, dim):
    """exp(x) / Σ exp(x)."""
    e = x.float().exp()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


@wrong(references.logsumexp, "special values", "accuracy", smallest=2)
def logsumexp_without_max(x, dim):
    """log Σ exp(x)."""
    return x.float().exp().sum(dim).log().to(x.dtype)


@triton.jit
def _softmax_zero_padded(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    e = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * n + columns, (e / tl.sum(e, axis=0)).to(out.dtype.element_ty), mask=columns < n)


@wrong(references.softmax, "accuracy", "special values", bug="B24")
def softmax_padded_with_zero(x, dim):
    """Lanes beyond the row are 0 in the maximum and in the sum."""
    rows = rows_of(x, dim)
    out = torch.empty_like(rows)
    if rows.numel():
        _softmax_zero_padded[(len(rows),)](
            rows, out, rows.shape[1], BLOCK=triton.next_power_of_2(rows.shape[1])
        )
    return restored(out, x, dim)


@triton.jit
def _softmax_sums_padding(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=-1e30).to(tl.float32)
    m = tl.max(values, axis=0)
    e = tl.exp(tl.where(columns < n, values - m, 0.0))
    tl.store(out + row * n + columns, (e / tl.sum(e, axis=0)).to(out.dtype.element_ty), mask=columns < n)


@wrong(references.softmax, "accuracy")
def softmax_sums_padding(x, dim):
    """Masked lanes count as exp(0) in the sum."""
    rows = rows_of(x, dim)
    out = torch.empty_like(rows)
    if rows.numel():
        _softmax_sums_padding[(len(rows),)](
            rows, out, rows.shape[1], BLOCK=triton.next_power_of_2(rows.shape[1])
        )
    return restored(out, x, dim)


@wrong(references.logsumexp, "special values", bug="B26", smallest=1)
def logsumexp_shifted_by_inf(x, dim):
    """Subtracts an infinite maximum: inf - inf."""
    if x.shape[dim] == 0:
        return torch.full_like(x.sum(dim), -math.inf)
    m = x.double().amax(dim, keepdim=True)
    return ((x.double() - m).exp().sum(dim).log() + m.squeeze(dim)).to(x.dtype)


def _online(x, dim, block, start, rescale, finish):
    """An online softmax over blocks; what the mistakes differ in are the arguments."""
    v = x.float()
    m = torch.full_like(v.sum(dim, keepdim=True), start)
    total = torch.zeros_like(m)
    for part in v.split(block, dim) if v.shape[dim] else ():
        new = torch.maximum(m, part.amax(dim, keepdim=True))
        total = rescale(total, m, new) + (part - new).exp().sum(dim, keepdim=True)
        m = new
    return finish(v, m, total).to(x.dtype)


def _divide(v, m, total):
    return (v - m).exp() / total


def _proper(total, old, new):
    return torch.where(total == 0, 0.0, total * (old - new).exp())


@wrong(references.softmax, "accuracy", smallest=40)
def softmax_online_not_rescaled(x, dim):
    """The sum so far stays as it is when the maximum grows."""
    return _online(x, dim, 16, -math.inf, lambda total, old, new: total, _divide)


@wrong(references.softmax, "accuracy", "special values", smallest=40)
def softmax_online_rescaled_the_wrong_way(x, dim):
    """The sum so far is multiplied by exp(new - old)."""
    return _online(
        x,
        dim,
        16,
        -math.inf,
        lambda total, old, new: torch.where(total == 0, 0.0, total * (new - old).exp()),
        _divide,
    )


@wrong(references.softmax, "special values", "accuracy", smallest=2)
def softmax_online_starts_from_zero(x, dim):
    """The running maximum starts from 0: rows far below it underflow."""
    return _online(x, dim, 16, 0.0, _proper, _divide)


@wrong(references.logsumexp, "special values", smallest=2)
def logsumexp_online_starts_from_1e4(x, dim):
    """The running maximum starts from -1e4."""
    return _online(x, dim, 16, -1e4, _proper, lambda v, m, total: (m + total.log()).squeeze(dim))


@wrong(references.softmax, "special values", bug="B60", smallest=40)
def softmax_online_masked_first_block(x, dim):
    """A first block of -inf: exp(-inf - -inf) is NaN and stays."""
    return _online(x, dim, 16, -math.inf, lambda total, old, new: total * (old - new).exp(), _divide)


@wrong(references.softmax, "special values", smallest=1)
def softmax_of_masked_row_is_zero(x, dim):
    """Rows of -inf give 0, where the contract says NaN."""
    return torch.where((x == -math.inf).all(dim, keepdim=True), 0.0, torch.softmax(x.double(), dim)).to(
        x.dtype
    )


@wrong(references.softmax, "accuracy", smallest=8, claim="right if claims={'roundings': ('shifted',)}")
def softmax_of_rounded_differences(x, dim):
    """x - max in the input's format: off by up to half an ulp of a large difference."""
    if x.shape[dim] == 0:
        return torch.empty_like(x)
    e = (x - x.amax(dim, keepdim=True)).float().exp()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


@wrong(references.softmax, "accuracy", smallest=8, claim="*")
def softmax_in_the_input_format(x, dim):
    """Every step is rounded to the input's format."""
    if x.shape[dim] == 0:
        return torch.empty_like(x)
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


@wrong(references.log_softmax, "special values", "accuracy", smallest=2)
def log_softmax_as_log_of_softmax(x, dim):
    """log(softmax(x)): -inf where softmax underflows."""
    return torch.softmax(x.float(), dim).log().to(x.dtype)


@wrong(references.logsumexp, "accuracy", smallest=None, domain={"max_elements": 3000})
def logsumexp_stagnates(x, dim):
    """Exponentials are added one by one in float16."""
    if x.shape[dim] == 0:
        return torch.full_like(x.sum(dim), -math.inf)
    m = x.float().amax(dim, keepdim=True)
    shift = torch.where(m.isfinite(), m, 0.0)
    total = torch.zeros_like(shift.squeeze(dim), dtype=torch.float16)
    for part in (x.float() - shift).exp().half().unbind(dim):
        total = total + part
    return (total.float().log() + shift.squeeze(dim)).to(x.dtype)


@wrong(references.softmax, "accuracy", smallest=4)
def softmax_on_another_axis(x, dim):
    """Negative axes other than the last are taken for the last."""
    return torch.softmax(x.double(), x.ndim - 1 if dim < 0 else dim).to(x.dtype)


def _exp_cubic(x):
    """2^(x log2 e) with a cubic for the fraction: 1e-4 off."""
    t = x * 1.4426950408889634
    whole = t.floor()
    f = t - whole
    return torch.ldexp(1 + f * (0.6951 + f * (0.2276 + 0.0773 * f)), whole.clamp(-200, 200).int())


@wrong(references.softmax, "accuracy", smallest=8)
def softmax_cubic_exp(x, dim):
    """exp by a cubic polynomial."""
    if x.shape[dim] == 0:
        return torch.empty_like(x)
    e = torch.where(
        x.isfinite() & x.float().amax(dim, keepdim=True).isfinite(),
        _exp_cubic(torch.nan_to_num(x.float() - x.float().amax(dim, keepdim=True))),
        torch.exp(x.float() - x.float().amax(dim, keepdim=True)),
    )
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


@wrong(references.softmax, "accuracy", smallest=8)
def softmax_estimated_reciprocal(x, dim):
    """1/Σ kept to 12 bits, without a Newton step."""
    e = torch.softmax(x.double(), dim)
    if x.shape[dim] == 0:
        return torch.empty_like(x)
    v = x.double()
    e = (v - v.amax(dim, keepdim=True)).exp()
    inverse = (1 / e.sum(dim, keepdim=True)).float()
    return (e * ((inverse.view(torch.int32) + 0x400) & ~0x7FF).view(torch.float32)).to(x.dtype)


@wrong(references.softmax, "accuracy", smallest=8)
def softmax_with_epsilon(x, dim):
    """e / (Σ + 1e-6)."""
    if x.shape[dim] == 0:
        return torch.empty_like(x)
    v = x.double()
    e = (v - v.amax(dim, keepdim=True)).exp()
    return (e / (e.sum(dim, keepdim=True) + 1e-6)).to(x.dtype)


@wrong(references.log_softmax, "special values", "accuracy", smallest=2)
def log_softmax_clamped(x, dim):
    """Results are clamped at -1e4."""
    return torch.log_softmax(x.double(), dim).clamp(min=-1e4).to(x.dtype)


@wrong(references.softmax, "accuracy", smallest=2)
def softmax_short_log2e(x, dim):
    """exp2(x · 1.4427)."""
    if x.shape[dim] == 0:
        return torch.empty_like(x)
    v = x.double()
    e = ((v - v.amax(dim, keepdim=True)) * 1.4427).exp2()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


@wrong(references.softmax, "accuracy", smallest=8, claim="right if claims={'exp': 'scaled'}")
def softmax_scaled_exponents(x, dim):
    """exp2(x·c - m·c) in float32, without claiming it."""
    if x.shape[dim] == 0:
        return torch.empty_like(x)
    z = x.float() * 1.4426950408889634
    e = (z - z.amax(dim, keepdim=True)).exp2()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


@wrong(references.logsumexp, "accuracy", smallest=2)
def logsumexp_in_base_two(x, dim):
    """max + log2 Σ."""
    if x.shape[dim] == 0:
        return torch.full_like(x.sum(dim), -math.inf)
    m = x.double().amax(dim, keepdim=True)
    shift = torch.where(m.isfinite(), m, 0.0)
    return ((x.double() - shift).exp().sum(dim).log2() + shift.squeeze(dim)).to(x.dtype)


@wrong(references.log_softmax, "accuracy", smallest=8, claim="*", domain={"finite": True})
def log_softmax_from_lse(x, dim):
    """x - logsumexp(x), in float32: the cancellation of a large offset."""
    v = x.float()
    return (v - v.logsumexp(dim, keepdim=True)).to(x.dtype) if x.shape[dim] else torch.empty_like(x)


@wrong(references.softmax, "rows independent", "accuracy", "special values", smallest=8)
def softmax_shifted_by_global_max(x, dim):
    """Subtracts the maximum of the whole tensor: rows far below it underflow."""
    if x.numel() == 0:
        return torch.empty_like(x)
    e = (x.float() - x.float().amax()).exp()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


@wrong(references.softmax, "accuracy", "special values", smallest=None)
def softmax_skips_partial_block(x, dim):
    """The online pass covers whole blocks of 32 only, unless there is just one."""
    n = x.shape[dim]
    seen = x.double().narrow(dim, 0, n - n % 32 if n > 32 else n)
    return (x.double() - seen.logsumexp(dim, keepdim=True)).exp().to(x.dtype)


@wrong(references.softmax, "accuracy", "special values", smallest=8)
def softmax_divided_in_half(x, dim):
    """Numerator and denominator are rounded to float16 before the division."""
    if x.shape[dim] == 0:
        return torch.empty_like(x)
    v = x.float()
    e = (v - v.amax(dim, keepdim=True)).exp()
    return (e.half() / e.sum(dim, keepdim=True).half()).to(x.dtype)


@wrong(references.softmax, "special values", smallest=8)
def softmax_without_inf(x, dim):
    """+inf is taken for the largest finite number: rows with one give 1 instead of NaN."""
    return torch.softmax(torch.nan_to_num(x, nan=math.nan, neginf=-math.inf).double(), dim).to(x.dtype)


@wrong(biased_softmax, "special values", "accuracy", smallest=4)
def biased_softmax_max_before_bias(x, bias):
    """The maximum is taken before the bias is added: exp overflows where the bias is large."""
    if x.shape[-1] == 0:
        return torch.empty_like(x)
    v = x.float()
    e = (v - v.amax(-1, keepdim=True) + bias.float()).exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


@wrong(biased_softmax, "accuracy", "special values", smallest=8, claim="*")
def biased_softmax_rounded_sum(x, bias):
    """x + bias is rounded to the input's format."""
    return torch.softmax((x + bias).double(), -1).to(x.dtype)


@wrong(biased_softmax, "layout", "surroundings", "accuracy", "special values", bug="B20", smallest=8)
def biased_softmax_dense_bias(x, bias):
    """The bias is read as if its elements lay side by side."""
    dense = bias.as_strided(bias.shape, (1,))
    return torch.softmax(x.double() + dense.double(), -1).to(x.dtype)


@wrong(scaled_softmax, "special values", "accuracy", smallest=8)
def scaled_softmax_scale_after_max(x, scale):
    """(x - max)·scale: a negative scale turns the maximum into the minimum."""
    if x.shape[-1] == 0:
        return torch.empty_like(x)
    v = x.float()
    e = ((v - v.amax(-1, keepdim=True)) * scale).exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


@wrong(temperature_softmax, "accuracy", smallest=8)
def temperature_softmax_multiplied(x, temperature):
    """x·temperature."""
    return torch.softmax(x.double() * temperature, -1).to(x.dtype)


@wrong(temperature_softmax, "accuracy", smallest=8)
def temperature_softmax_integer(x, temperature):
    """The temperature is cut to an integer, at least 1."""
    return torch.softmax(x.double() / max(int(temperature), 1), -1).to(x.dtype)


@wrong(residual_softmax, "accuracy", "special values", smallest=8, claim="*")
def residual_softmax_rounded_sum(x, residual):
    """x + residual is rounded to the input's format."""
    return torch.softmax((x + residual).double(), -1).to(x.dtype)


@wrong(references.logsumexp, "accuracy", smallest=8)
def logsumexp_cuts_off_small_terms(x, dim):
    """Terms below exp(-10) of the largest are left out."""
    if x.shape[dim] == 0:
        return torch.full_like(x.sum(dim), -math.inf)
    v = x.double()
    m = v.amax(dim, keepdim=True)
    return torch.where((v < m - 10) & m.isfinite(), -math.inf, v).logsumexp(dim).to(x.dtype)


@wrong(references.softmax, "accuracy", smallest=8)
def softmax_at_least_1e_7(x, dim):
    """Probabilities are clamped at 1e-7, for the logarithm that may follow."""
    return torch.softmax(x.double(), dim).clamp(min=1e-7).to(x.dtype)


@wrong(references.softmax, "accuracy", smallest=8, claim="")
def softmax_through_half(x, dim):
    """Results pass through float16, also those of float32 and bfloat16."""
    return torch.softmax(x.double(), dim).half().to(x.dtype)


@wrong(references.softmax, "accuracy", smallest=None, claims={"depth": "sequential"})
def softmax_rescaled_lazily(x, dim):
    """Maxima that rise by less than 1/1000 do not rescale what is summed up so far, though they shift what follows."""
    rows = x.movedim(dim, -1).double()
    top = torch.full(rows.shape[:-1], -torch.inf, dtype=torch.float64)
    total = torch.zeros_like(top)
    for tile in rows.split(256, -1):
        rising = torch.maximum(top, tile.amax(-1)) if tile.shape[-1] else top
        scale = torch.where(rising - top < 1e-3, 1.0, torch.exp(top - rising))
        total = total * scale + torch.exp(tile - rising[..., None]).sum(-1)
        top = rising
    p = torch.exp(rows - top[..., None]) / total[..., None]
    finite = rows.isfinite().all(-1, keepdim=True)
    return torch.where(finite, p, torch.softmax(rows, -1)).movedim(-1, dim).to(x.dtype)
