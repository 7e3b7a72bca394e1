"""Wrong norms and other fused kernels."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

import references
from quality.contracts import (
    add_rms_norm,
    blend,
    column_norm,
    layer_norm,
    masked_fill,
    quantize,
    rms_norm,
    sgd,
    softcap,
    swiglu,
)
from quality.declare import wrong


def _affine(y, weight, bias):
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@triton.jit
def _layer_norm(x, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / n
    d = values - mean
    var = tl.sum(d * d, axis=0) / n
    tl.store(out + row * n + columns, d * tl.rsqrt(var + eps), mask=columns < n)


@wrong(layer_norm, "accuracy", "special values", bug="B30", smallest=8)
def layer_norm_padding_in_variance(x, weight, bias, eps):
    """Lanes beyond the row are 0 - mean in the sum of squares."""
    rows = x.contiguous().reshape(-1, x.shape[-1])
    y = torch.empty(rows.shape, dtype=torch.float32)
    if len(rows):
        _layer_norm[(len(rows),)](rows, y, rows.shape[1], eps, BLOCK=triton.next_power_of_2(rows.shape[1]))
    return _affine(y.reshape(x.shape), weight, bias).to(x.dtype)


@wrong(
    layer_norm,
    "accuracy",
    "special values",
    bug="B32",
    smallest=None,
    claim="right if claims={'variance': 'textbook'}",
)
def layer_norm_in_one_pass(x, weight, bias, eps):
    """var = E[x²] - E[x]² in float32."""
    v = x.float()
    m = v.mean(-1, keepdim=True)
    var = (v * v).mean(-1, keepdim=True) - m * m
    return _affine((v - m) * torch.rsqrt(var.clamp(min=0.0) + eps), weight, bias).to(x.dtype)


@wrong(layer_norm, "accuracy", "special values", bug="B06", smallest=8)
def layer_norm_unbiased(x, weight, bias, eps):
    """The variance divides by n - 1."""
    v = x.double()
    return _affine(
        (v - v.mean(-1, keepdim=True)) * torch.rsqrt(v.var(-1, keepdim=True) + eps), weight, bias
    ).to(x.dtype)


@wrong(layer_norm, "accuracy", "special values", smallest=8)
def layer_norm_bias_before_weight(x, weight, bias, eps):
    """(y + bias)·weight."""
    v = x.double()
    y = (v - v.mean(-1, keepdim=True)) * torch.rsqrt(v.var(-1, keepdim=True, correction=0) + eps)
    y = y if bias is None else y + bias
    return (y if weight is None else y * weight).to(x.dtype)


@wrong(layer_norm, "raises", smallest=8)
def layer_norm_needs_a_bias(x, weight, bias, eps):
    """A missing bias is not handled."""
    v = x.double()
    y = (v - v.mean(-1, keepdim=True)) * torch.rsqrt(v.var(-1, keepdim=True, correction=0) + eps)
    return ((y if weight is None else y * weight) + bias).to(x.dtype)


@wrong(rms_norm, "special values", "accuracy", bug="B42", smallest=8, claim="*")
def rms_norm_squares_in_the_input_format(x, weight, eps):
    """x² overflows in float16."""
    ms = (x * x).float().mean(-1, keepdim=True)
    return (x.float() * torch.rsqrt(ms + eps) * weight.float()).to(x.dtype)


@wrong(rms_norm, "accuracy", smallest=8)
def rms_norm_eps_outside(x, weight, eps):
    """x / (sqrt(mean x²) + eps)."""
    v = x.double()
    return (v / ((v * v).mean(-1, keepdim=True).sqrt() + eps) * weight).to(x.dtype)


@wrong(rms_norm, "accuracy", smallest=8)
def rms_norm_fixed_eps(x, weight, eps):
    """eps is 1e-6 whatever is asked for."""
    v = x.double()
    return (v * torch.rsqrt((v * v).mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)


@wrong(rms_norm, "accuracy", "special values", smallest=8)
def rms_norm_one_plus_weight(x, weight, eps):
    """The weight is taken for an offset from 1."""
    v = x.double()
    return (v * torch.rsqrt((v * v).mean(-1, keepdim=True) + eps) * (1 + weight.double())).to(x.dtype)


@wrong(rms_norm, "accuracy", "special values", smallest=8, claim="*")
def rms_norm_rounded_before_weight(x, weight, eps):
    """x·rsqrt is rounded to the input's format, then multiplied, as some models do: nobody claimed it."""
    v = x.double()
    return (v * torch.rsqrt((v * v).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


@wrong(rms_norm, "accuracy", "special values", smallest=8)
def rms_norm_fast_inverse_root(x, weight, eps):
    """The bit trick with one Newton step: 2e-3 off."""
    v = x.double()
    ms = ((v * v).mean(-1, keepdim=True) + eps).float()
    guess = (0x5F3759DF - (ms.view(torch.int32) >> 1)).view(torch.float32)
    y = guess * (1.5 - 0.5 * ms * guess * guess)
    y = torch.where((ms > 0) & ms.isfinite(), y, torch.rsqrt(ms))
    return (v * y * weight).to(x.dtype)


@wrong(rms_norm, "layout", "accuracy", "special values", "surroundings", bug="B40", smallest=8)
def rms_norm_strides_only_in_statistics(x, weight, eps):
    """The first pass follows the strides, the second reads elements side by side."""
    ms = x.double().square().mean(-1, keepdim=True)
    strides = (*x.stride()[:-1], 1)
    dense = x.as_strided(x.shape, strides)
    return (dense.double() * torch.rsqrt(ms + eps) * weight).to(x.dtype)


@wrong(rms_norm, "accuracy", "special values", "rows independent", bug="B44", smallest=None)
def rms_norm_8_bit_row(x, weight, eps):
    """The row number is kept in 8 bits: row 256 is row 0 again."""
    rows = x.reshape(-1, x.shape[-1]).double()
    at = torch.arange(len(rows)) % 256
    y = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + eps) * weight
    return y[at].to(x.dtype).reshape(x.shape)


@wrong(add_rms_norm, "accuracy", "special values", smallest=8)
def add_rms_norm_of_x(x, residual, weight, eps):
    """The residual is added to the second result only."""
    v = x.double()
    y = v * torch.rsqrt((v * v).mean(-1, keepdim=True) + eps) * weight
    return y.to(x.dtype), (v + residual.double()).to(x.dtype)


@wrong(add_rms_norm, "accuracy", "special values", smallest=8)
def add_rms_norm_swapped(x, residual, weight, eps):
    """The results come in the other order."""
    total = (x.double() + residual.double()).to(x.dtype)
    v = total.double()
    y = v * torch.rsqrt((v * v).mean(-1, keepdim=True) + eps) * weight
    return total, y.to(x.dtype)


@wrong(blend, "special values", bug="B54", smallest=1)
def blend_always_multiplies(c, a, beta, alpha):
    """alpha·a + 0·c is NaN where c is."""
    return (alpha * a.double() + beta * c.double()).to(c.dtype)


@wrong(blend, "accuracy", smallest=2)
def blend_ignores_alpha(c, a, beta, alpha):
    """alpha is 1."""
    return (a.double() if beta == 0 else a.double() + beta * c.double()).to(c.dtype)


@triton.jit
def _swiglu(gate, up, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    g = tl.load(gate + row * n + columns, mask=inside).to(tl.float32)
    u = tl.load(up + row * n + columns, mask=inside).to(tl.float32)
    tl.store(out + columns, (g * tl.sigmoid(g) * u).to(out.dtype.element_ty), mask=inside)


@wrong(swiglu, "race", "written", bug="B104", smallest=4)
def swiglu_output_not_advanced(gate, up):
    """Every row is stored to the first one."""
    a, b = gate.contiguous(), up.contiguous()
    out = torch.empty(gate.shape, dtype=gate.dtype)
    n = gate.shape[-1]
    if gate.numel():
        _swiglu[(gate.numel() // n,)](a, b, out, n, BLOCK=triton.next_power_of_2(n))
    return out


@wrong(swiglu, "accuracy", "special values", smallest=2)
def swiglu_swapped(gate, up):
    """gate·silu(up)."""
    return (gate.double() * torch.nn.functional.silu(up.double())).to(gate.dtype)


@wrong(swiglu, "special values", "accuracy", smallest=2)
def swiglu_exp_over_exp(gate, up):
    """sigmoid as exp(x) / (1 + exp(x)): NaN for large x."""
    g = gate.float()
    return (g * (g.exp() / (1 + g.exp())) * up.float()).to(gate.dtype)


@wrong(swiglu, "accuracy", "special values", smallest=2, claim="*")
def swiglu_rounded_silu(gate, up):
    """silu is rounded to the input's format before it is multiplied."""
    return torch.nn.functional.silu(gate.double()).to(gate.dtype) * up


@wrong(softcap, "accuracy", "special values", smallest=1)
def softcap_by_exponentials(x, cap):
    """(exp(2z) - 1) / (exp(2z) + 1): NaN for large z, 0 for small."""
    e = (2 * x.float() / cap).exp()
    return (cap * (e - 1) / (e + 1)).to(x.dtype)


@wrong(column_norm, "special values", "accuracy", smallest=8)
def column_norm_along_rows(x):
    """Norms of rows where the matrix is square."""
    return x.double().norm(dim=1 if x.shape[0] == x.shape[1] else 0).to(x.dtype)


@wrong(column_norm, "accuracy", smallest=8)
def column_norm_plus_eps(x):
    """sqrt(Σ + 1e-12)."""
    return (x.double().square().sum(0) + 1e-12).sqrt().to(x.dtype)


@wrong(sgd, "accuracy", "special values", smallest=2)
def sgd_climbs(param, grad, lr):
    """param + lr·grad."""
    param.copy_((param.double() + lr * grad.double()).to(param.dtype))


@wrong(sgd, "inputs unchanged", smallest=2)
def sgd_clears_the_gradient(param, grad, lr):
    """The gradient is set to 0 on the way."""
    param.copy_((param.double() - lr * grad.double()).to(param.dtype))
    grad.zero_()


@wrong(sgd, "accuracy", "special values", smallest=2)
def sgd_out_of_place(param, grad, lr):
    """The new parameters are returned, and the old ones stay."""
    return (param.double() - lr * grad.double()).to(param.dtype)


@wrong(sgd, "accuracy", bug="B84", smallest=2, claim="*")
def sgd_rounded_step(param, grad, lr):
    """lr·grad is rounded to the parameter's format first."""
    param.sub_(grad * lr)


@wrong(masked_fill, "accuracy", smallest=2)
def masked_fill_at_zero(x, y):
    """y >= 0."""
    return torch.where(y >= 0, x, 0.0).to(x.dtype)


@wrong(masked_fill, "special values", smallest=2)
def masked_fill_by_multiplication(x, y):
    """x·(y > 0): NaN and inf survive the mask."""
    return x * (y > 0)


@wrong(layer_norm, "accuracy", "special values", smallest=8)
def layer_norm_larger_of_variance_and_eps(x, weight, bias, eps):
    """rsqrt(max(var, eps)) instead of rsqrt(var + eps)."""
    v = x.double()
    var = v.var(-1, keepdim=True, correction=0)
    return _affine(
        (v - v.mean(-1, keepdim=True)) * torch.rsqrt(torch.where(var < eps, eps, var)), weight, bias
    ).to(x.dtype)


@wrong(layer_norm, "accuracy", "special values", smallest=8)
def layer_norm_bias_needs_weight(x, weight, bias, eps):
    """The bias is added only where there is a weight."""
    v = x.double()
    y = (v - v.mean(-1, keepdim=True)) * torch.rsqrt(v.var(-1, keepdim=True, correction=0) + eps)
    return (y if weight is None else _affine(y, weight, bias)).to(x.dtype)


@wrong(rms_norm, "accuracy", smallest=8)
def rms_norm_half_eps(x, weight, eps):
    """eps is rounded to float16: 1e-6 becomes 1.01e-6."""
    v = x.double()
    rounded = float(torch.tensor(eps, dtype=torch.float16))
    return (v * torch.rsqrt((v * v).mean(-1, keepdim=True) + rounded) * weight).to(x.dtype)


@wrong(sgd, "accuracy", smallest=2)
def sgd_rounded_rate(param, grad, lr):
    """lr is rounded to bfloat16."""
    rate = float(torch.tensor(lr, dtype=torch.bfloat16))
    param.copy_((param.double() - rate * grad.double()).to(param.dtype))


@wrong(sgd, "layout", smallest=4)
def sgd_updates_a_copy(param, grad, lr):
    """A parameter that is not contiguous is copied, and the copy is updated."""
    dense = param.contiguous()
    dense.copy_((dense.double() - lr * grad.double()).to(param.dtype))


@wrong(sgd, "inputs unchanged", smallest=2)
def sgd_replaces_storage(param, grad, lr):
    """The parameter is pointed at new memory: views of the old one keep the old values."""
    param.set_((param.double() - lr * grad.double()).to(param.dtype))


@wrong(quantize, "accuracy", smallest=2, bug="B124", domain={"finite": True})
def quantize_truncates(x, scale):
    """Rounds towards 0."""
    return (x.double() / scale).clamp(-127, 127).trunc().to(torch.int8)


@wrong(quantize, "accuracy", smallest=2, bug="B124", domain={"finite": True})
def quantize_rounds_half_away(x, scale):
    """Ties go away from 0."""
    y = x.double() / scale
    return (y.abs() + 0.5).floor().mul(y.sign()).clamp(-127, 127).to(torch.int8)


@wrong(quantize, "accuracy", "special values", smallest=2, bug="B124", domain={"finite": True})
def quantize_wraps(x, scale):
    """No clamp: 128 becomes -128."""
    return torch.nan_to_num(x.double() / scale).round().clamp(-1e9, 1e9).long().to(torch.int8)


@wrong(quantize, "accuracy", smallest=2, bug="B128", domain={"finite": True})
def quantize_times_reciprocal(x, scale):
    """x · fl16(1/scale)."""
    inverse = float(torch.tensor(1 / scale, dtype=torch.float16))
    return (x.double() * inverse).round().clamp(-127, 127).to(torch.int8)


@wrong(layer_norm, "accuracy", "special values", smallest=None)
def layer_norm_weight_of_1024(x, weight, bias, eps):
    """The weight's elements beyond 1024 are taken to be 1."""
    v = x.double()
    y = (v - v.mean(-1, keepdim=True)) * torch.rsqrt(v.var(-1, keepdim=True, correction=0) + eps)
    if weight is not None:
        weight = torch.cat([weight[:1024], torch.ones_like(weight[1024:])])
    return _affine(y, weight, bias).to(x.dtype)


@wrong(swiglu, "accuracy", "special values", smallest=2)
def swiglu_clamps_beside_large_gates(gate, up):
    """Where gate exceeds 100, up is kept within ±100."""
    bounded = torch.where(gate.double() > 100, up.double().clamp(-100, 100), up.double())
    return (torch.nn.functional.silu(gate.double()) * bounded).to(gate.dtype)


@wrong(references.vector_norm, "special values", smallest=1)
def vector_norm_scaled_by_maximum(x, dim):
    """m·sqrt Σ(x/m)², which no square overflows: 0/0 in a row of zeros."""
    if x.shape[dim] == 0:
        return x.sum(dim)
    v = x.double()
    m = v.abs().amax(dim, keepdim=True)
    y = torch.where(m.isinf(), m, m * (v / m).square().sum(dim, keepdim=True).sqrt())
    return torch.where(v.isnan().any(dim, keepdim=True), torch.nan, y).squeeze(dim).to(x.dtype)
