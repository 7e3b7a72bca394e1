"""Wrong quantisers and activations with a policy of their own for small numbers."""

from __future__ import annotations

import torch

import references
from harness.formats import format_of, next_up, round_to
from quality.declare import wrong


@wrong(references.quantize_fp8, "accuracy", bug="B122", smallest=2)
def quantize_fp8_ties_away(x, dtype):
    """What lies half way between two codes goes to the larger one."""
    fmt = format_of(dtype)
    scale = (x.double().abs().amax(-1) / fmt.max).float()
    z = torch.where(x == 0, 0.0, x.double() / scale.double()[..., None])
    size = z.abs().nan_to_num(nan=0.0, posinf=fmt.max).clamp(max=fmt.max)
    low = round_to(size, fmt, mode="down")
    high = next_up(low, fmt)
    away = torch.where(size - low >= high - size, high, low).clamp(max=fmt.max)
    return torch.where(z.isnan(), z, torch.copysign(away, z)).float().to(dtype), scale


@wrong(references.quantize_int8, "accuracy", "special values", bug="B126", smallest=2)
def quantize_int8_multiplies_by_the_inverse(x):
    """x·(127 / amax): the factor of a small row is infinite, and its codes are all ±127 or 0."""
    amax = x.float().abs().amax(-1)
    q = torch.round(x.float() * (127.0 / amax)[..., None]).nan_to_num().clamp(-127, 127)
    return q.to(torch.int8), amax / 127.0


@wrong(references.kmeans_assign, "accuracy", smallest=None)
def kmeans_assign_within_a_tile(x, codebook):
    """Tiles of 128 codes: the index of the nearest one within its tile."""
    distance = (x.double()[:, None] - codebook.double()).square().sum(-1)
    return distance.argmin(1) % 128


@wrong(
    references.silu,
    "accuracy",
    bug="B106",
    smallest=1,
    formats=("float32", "bfloat16"),
    claim="right if claims={'flush': 'all'}",
)
def silu_flushes_subnormal_results(x):
    """Results below the smallest normal number are 0."""
    y = torch.nn.functional.silu(x.double()).to(x.dtype)
    return torch.where(y.abs() < torch.finfo(x.dtype).tiny, 0.0, y)


@wrong(references.logsumexp, "special values", bug="B28", smallest=2)
def logsumexp_picks_the_maximum_by_a_product(x, dim):
    """The maximum is Σ mask·x: 0·inf where another element is infinite."""
    wide = x.double()
    first = torch.zeros_like(wide)
    if x.shape[dim]:
        first.scatter_(dim, wide.argmax(dim, keepdim=True), 1.0)
    top = (first * wide).sum(dim, keepdim=True)
    top = torch.where(top.isinf(), 0.0, top)
    return (torch.exp(wide - top).sum(dim).log() + top.squeeze(dim)).to(x.dtype)
