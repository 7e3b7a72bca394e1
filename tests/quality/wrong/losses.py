"""Wrong losses, groups and indices: what the contracts beside sums and softmaxes must show."""

from __future__ import annotations

import torch
from torch.nn import functional

import references
from quality.declare import wrong


@wrong(references.cross_entropy, "accuracy", "special values", smallest=None)
def cross_entropy_target_beyond_full_blocks(logits, target, ignore_index, reduction):
    """The target's logit is picked up in whole blocks of 64 only: beyond them it stays 0."""
    kept = target != ignore_index
    v = logits.double()
    n = v.shape[1]
    if not v.numel():
        return functional.cross_entropy(v, target, ignore_index=ignore_index, reduction=reduction).to(
            logits.dtype
        )
    label = torch.where(kept, target, 0)
    picked = v.gather(1, label[:, None])[:, 0]
    if n > 64:
        picked = torch.where(label >= n - n % 64, 0.0, picked)
    losses = torch.where(kept, v.logsumexp(1) - picked, 0.0)
    if reduction != "none":
        losses = losses.sum() / (1 if reduction == "sum" else kept.sum())
    return losses.to(logits.dtype)


@wrong(references.cross_entropy, "special values", "accuracy", smallest=4)
def cross_entropy_ignored_times_zero(logits, target, ignore_index, reduction):
    """Ignored rows are multiplied by 0: a NaN in one spoils the mean."""
    kept = target != ignore_index
    v = logits.double()
    if not v.numel():
        return functional.cross_entropy(v, target, ignore_index=ignore_index, reduction=reduction).to(
            logits.dtype
        )
    losses = functional.cross_entropy(v, torch.where(kept, target, 0), reduction="none") * kept
    if reduction != "none":
        losses = losses.sum() / (1 if reduction == "sum" else kept.sum())
    return losses.to(logits.dtype)


@wrong(references.group_norm, "accuracy", "special values", smallest=8)
def group_norm_by_remainder(x, num_groups, weight, bias, eps):
    """Channel c is taken for one of group c % groups."""
    if not x.numel():
        return torch.empty_like(x)
    channels = x.shape[1]
    order = torch.arange(channels).reshape(-1, num_groups).t().reshape(-1)
    v = x.double()[:, order]
    groups = v.reshape(len(v), num_groups, -1)
    centred = groups - groups.mean(-1, keepdim=True)
    y = torch.empty_like(v)
    y[:, order] = (centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)).reshape(v.shape)
    shape = (channels, *(1 for _ in x.shape[2:]))
    y = y if weight is None else y * weight.double().reshape(shape)
    return (y if bias is None else y + bias.double().reshape(shape)).to(x.dtype)


@wrong(references.argmax, "accuracy", smallest=None)
def argmax_of_the_last_block(x, dim):
    """Blocks of 64: a later one with an equal maximum wins."""
    best, index = None, None
    for number, part in enumerate(x.split(64, dim)):
        value, at = part.amax(dim), part.argmax(dim) + 64 * number
        if best is None:
            best, index = value, at
            continue
        better = ((value >= best) | value.isnan()) & ~best.isnan()
        best, index = torch.where(better, value, best), torch.where(better, at, index)
    return index


@wrong(references.linear, "accuracy", "special values", smallest=None)
def linear_bias_in_every_block(x, weight, bias, activation):
    """The accumulator of each block of 64 of K starts from the bias."""
    v = functional.linear(x.double(), weight.double())
    if bias is not None:
        v = v + bias.double() * max(1, -(-weight.shape[1] // 64))
    act = {"gelu": functional.gelu, "silu": functional.silu, "relu": torch.relu}.get(activation, lambda y: y)
    return act(v).to(x.dtype)


@wrong(references.vector_norm, "accuracy", "special values", smallest=1)
def vector_norm_by_logarithms(x, dim):
    """Squares as exp2(2 log2 |x|) in float32: 13 ulp off where the exponent is large."""
    return torch.exp2(2 * torch.log2(x.float().abs())).sum(dim).sqrt().to(x.dtype)
