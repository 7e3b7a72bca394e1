"""Right norms, elementwise and in-place kernels on torch tensors."""

from __future__ import annotations

import torch

import references
from quality.contracts import (
    add_relu,
    add_rms_norm,
    blend,
    clamp,
    column_norm,
    larger,
    layer_norm,
    masked_fill,
    masked_mean,
    quantize,
    rms_norm,
    sgd,
    softcap,
    squared_error,
    swiglu,
    weighted_sum,
)
from quality.declare import right


def _affine(y, weight, bias):
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@right(layer_norm)
def layer_norm_two_pass(x, weight, bias, eps):
    """float32, the mean first."""
    v = x.float()
    d = v - v.mean(-1, keepdim=True)
    return _affine(d * torch.rsqrt((d * d).mean(-1, keepdim=True) + eps), weight, bias).to(x.dtype)


@right(layer_norm)
def layer_norm_by_division(x, weight, bias, eps):
    """d / sqrt(var + eps), Welford's variance of torch."""
    v = x.float()
    var, mean = torch.var_mean(v, -1, keepdim=True, correction=0)
    return _affine((v - mean) / (var + eps).sqrt(), weight, bias).to(x.dtype)


@right(layer_norm)
def layer_norm_in_float64(x, weight, bias, eps):
    """float64 inside."""
    v = x.double()
    d = v - v.mean(-1, keepdim=True)
    return _affine(d / ((d * d).mean(-1, keepdim=True) + eps).sqrt(), weight, bias).to(x.dtype)


@right(rms_norm)
def rms_norm_in_float32(x, weight, eps):
    """x·rsqrt(mean x² + eps)·weight."""
    v = x.float()
    return (v * torch.rsqrt((v * v).mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


@right(rms_norm)
def rms_norm_weight_first(x, weight, eps):
    """(x·weight) / sqrt(Σ x²/n + eps)."""
    v = x.double()
    return (v * weight.double() / ((v * v).sum(-1, keepdim=True) / x.shape[-1] + eps).sqrt()).to(x.dtype)


@right(add_rms_norm)
def add_rms_norm_of_returned(x, residual, weight, eps):
    """The norm of the sum as returned."""
    total = (x.float() + residual.float()).to(x.dtype)
    v = total.float()
    y = v * torch.rsqrt((v * v).mean(-1, keepdim=True) + eps) * weight.float()
    return y.to(x.dtype), total


@right(add_relu)
def add_relu_in_float32(x, y):
    """relu(x + y)."""
    return (x.float() + y.float()).relu().to(x.dtype)


@right(add_relu)
def add_relu_in_the_input_format(x, y):
    """The sum rounded once is the sum rounded."""
    return (x + y).clamp(min=0)


@right(clamp)
def clamp_itself(x):
    """torch.clamp."""
    return x.clamp(-1.0, 1.0)


@right(clamp)
def clamp_by_masks(x):
    """Copies what lies within, fills what does not."""
    out = x.clone(memory_format=torch.contiguous_format)
    out[x > 1] = 1.0
    out[x < -1] = -1.0
    return out


@right(larger)
def larger_itself(x, y):
    """torch.maximum."""
    return torch.maximum(x, y)


@right(larger)
def larger_by_where(x, y):
    """where(x > y or x is NaN, x, y)."""
    return torch.where((x > y) | x.isnan(), x, y)


@right(swiglu)
def swiglu_in_float32(gate, up):
    """silu(gate)·up."""
    return (torch.nn.functional.silu(gate.float()) * up.float()).to(gate.dtype)


@right(swiglu)
def swiglu_by_division(gate, up):
    """gate·up / (1 + exp(-gate)) in float64."""
    g = gate.double()
    return (g * (1 / (1 + (-g).exp())) * up.double()).to(gate.dtype)


@right(softcap)
def softcap_in_float32(x, cap):
    """cap·tanh(x/cap)."""
    return (cap * torch.tanh(x.float() / cap)).to(x.dtype)


@right(squared_error)
def squared_error_in_float32(x, y):
    """mean (x - y)²."""
    return (x.float() - y.float()).square().mean(-1).to(x.dtype)


@right(weighted_sum)
def weighted_sum_by_matmul(x, w):
    """A float32 matrix-vector product."""
    return torch.matmul(x.float(), w.float()).to(x.dtype)


@right(weighted_sum)
def weighted_sum_of_products(x, w):
    """Products in float64, then their sum."""
    return (x.double() * w.double()).sum(-1).to(x.dtype)


@right(masked_mean)
def masked_mean_by_where(x, mask):
    """Σ where / count."""
    kept = mask != 0
    return (torch.where(kept, x.float(), 0.0).sum(-1) / kept.sum(-1)).to(x.dtype)


@right(column_norm)
def column_norm_in_float32(x):
    """sqrt Σ x²."""
    return x.float().square().sum(0).sqrt().to(x.dtype)


@right(blend)
def blend_in_float32(c, a, beta, alpha):
    """alpha·a + beta·c."""
    v = alpha * a.float()
    return (v if beta == 0 else v + beta * c.float()).to(c.dtype)


@right(sgd)
def sgd_in_place(param, grad, lr):
    """param -= lr·grad in float32, rounded once."""
    param.copy_((param.float() - lr * grad.float()).to(param.dtype))


@right(masked_fill)
def masked_fill_by_where(x, y):
    """where(y > 0, x, 0)."""
    return torch.where(y > 0, x, torch.zeros_like(x))


@right(sgd)
def sgd_returning_its_parameter(param, grad, lr):
    """As torch's in-place methods do."""
    return param.copy_((param.double() - lr * grad.double()).to(param.dtype))


@right(quantize, domain={"finite": True}, why="NaN and infinities have no code")
def quantize_nearest(x, scale):
    """torch.round, then the clamp."""
    return (x.double() / scale).round().clamp(-127, 127).to(torch.int8)


@right(quantize, domain={"finite": True}, why="NaN and infinities have no code")
def quantize_clamped_first(x, scale):
    """A clamp at ±127 commutes with rounding."""
    return (x.float() / scale).clamp(-127, 127).round().to(torch.int8)


@right(references.attention)
def attention_of_pytorch(q, k, v, *, scale, causal, window):
    """scaled_dot_product_attention in float32, which adds -inf to the scores; rows without a key are put to 0."""
    i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
    distance = i + (k.shape[2] - q.shape[2] if causal == "bottom-right" else 0) - j
    masked = causal is not None or window is not None
    seen = (
        (distance >= 0) & (distance < (window or 1 << 30))
        if masked
        else torch.ones_like(distance, dtype=torch.bool)
    )
    wide = [tensor.float() for tensor in (q, k, v)]
    out = torch.nn.functional.scaled_dot_product_attention(
        *wide, attn_mask=seen, scale=scale, enable_gqa=True
    )
    return torch.where(seen.any(-1)[:, None], out, 0.0).to(q.dtype)
