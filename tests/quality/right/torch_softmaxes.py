"""Right softmaxes and their kin on torch tensors."""

from __future__ import annotations

import math

import torch

import harness
import references
from quality.contracts import biased_softmax, residual_softmax, scaled_softmax, temperature_softmax
from quality.declare import right

LOG2E = 1.4426950408889634


def _shifted(x, dim):
    """x - max in float32, and the max; the max of an empty axis is 0."""
    v = x.float()
    m = v.amax(dim, keepdim=True) if x.shape[dim] else torch.zeros_like(v.sum(dim, keepdim=True))
    return v - m, m


@right(references.softmax)
def softmax_in_float32(x, dim):
    """Shift, exp, sum, divide."""
    e = _shifted(x, dim)[0].exp()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


@right(
    references.softmax,
    formats=("float64", "float16"),
    claims={"depth": "sequential"},
    why="torch adds up one by one along another axis than the last",
)
def softmax_in_float64(x, dim):
    """torch's own in float64."""
    return torch.softmax(x.double(), dim).to(x.dtype)


@right(references.softmax)
def softmax_times_reciprocal(x, dim):
    """e · (1/Σ)."""
    e = _shifted(x, dim)[0].exp()
    return (e * e.sum(dim, keepdim=True).reciprocal()).to(x.dtype)


@right(references.softmax)
def softmax_exp2_of_difference(x, dim):
    """exp2((x - m)·log2 e)."""
    e = (_shifted(x, dim)[0] * LOG2E).exp2()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


@right(references.softmax, claims={"exp": "scaled"}, why="exp2(x·c - m·c)")
def softmax_exp2_scaled(x, dim):
    """exp2(x·c - m·c), as in flash attention."""
    if x.shape[dim] == 0:
        return torch.empty_like(x)
    z = x.float() * LOG2E
    e = (z - z.amax(dim, keepdim=True)).exp2()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


@right(references.softmax)
def softmax_online(x, dim):
    """Blocks of 32, the sum rescaled whenever the maximum grows."""
    v = x.float()
    m = torch.full_like(v.sum(dim, keepdim=True), -math.inf)
    total = torch.zeros_like(m)
    for part in v.split(32, dim) if x.shape[dim] else ():
        new = torch.maximum(m, part.amax(dim, keepdim=True))
        safe = torch.where(new == -math.inf, 0.0, new)
        total = total * (m - safe).exp() + (part - safe).exp().sum(dim, keepdim=True)
        m = new
    return ((v - m).exp() / total).to(x.dtype)


@right(
    references.softmax, claims={"roundings": ("shifted", "exponentials", "total")}, why="rounds at every step"
)
def softmax_rounding_everywhere(x, dim):
    """Every step in the input's format."""
    if x.shape[dim] == 0:
        return torch.empty_like(x)
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


@right(references.softmax, domain={"dim": "last", "finite": True})
def softmax_last_finite(x, dim):
    """Last axis and finite inputs only, in place on its own copy."""
    v = x.float().clone()
    if v.numel() == 0:
        return torch.empty_like(x)
    v.sub_(v.amax(-1, keepdim=True)).exp_()
    v.div_(v.sum(-1, keepdim=True))
    return v.to(x.dtype)


@right(references.softmax)
def softmax_by_lse(x, dim):
    """exp((x - m) - log Σ)."""
    s, _ = _shifted(x, dim)
    return (s.double() - s.double().exp().sum(dim, keepdim=True).log()).exp().to(x.dtype)


@right(references.softmax)
def softmax_transposed_result(x, dim):
    """The result is a view of a tensor whose first axis is ``dim``."""
    moved = x.movedim(dim, 0).contiguous()
    return torch.softmax(moved.double(), 0).to(x.dtype).movedim(0, dim)


@right(references.softmax)
def softmax_column_major_result(x, dim):
    """The result has reversed strides."""
    out = torch.empty(x.shape[::-1], dtype=x.dtype).permute(*range(x.ndim - 1, -1, -1))
    return out.copy_(torch.softmax(x.double(), dim))


@right(references.softmax)
def softmax_talks(x, dim):
    """Prints on every call."""
    print("softmax of", tuple(x.shape))
    return torch.softmax(x.double(), dim).to(x.dtype)


@right(references.softmax)
def softmax_declines(x, dim):
    """Raises harness.Unsupported for 4-D inputs and empty axes."""
    if x.ndim == 4 or x.shape[dim] == 0:
        raise harness.Unsupported("1 to 3 axes, none of them empty")
    return torch.softmax(x.double(), dim).to(x.dtype)


@right(references.softmax, domain={"max_elements": 4096, "layouts": ("contiguous", "offset")})
def softmax_small_contiguous(x, dim):
    """At most 4096 elements, contiguous."""
    assert x.numel() <= 4096 and x.is_contiguous()
    return torch.softmax(x.view(x.shape).double(), dim).to(x.dtype)


@right(references.softmax, domain={"max_abs": 80.0, "finite": True})
def softmax_without_max(x, dim):
    """Small inputs need no shift."""
    e = x.double().exp()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


@right(references.log_softmax)
def log_softmax_in_float32(x, dim):
    """(x - m) - log Σ."""
    s, _ = _shifted(x, dim)
    return (s - s.exp().sum(dim, keepdim=True).log()).to(x.dtype)


@right(references.log_softmax, claims={"roundings": "lse"}, why="x - (m + log Σ)", domain={"finite": True})
def log_softmax_from_lse(x, dim):
    """x - logsumexp(x): the claimed rounding of the bracket."""
    v = x.float()
    return (v - v.logsumexp(dim, keepdim=True)).to(x.dtype)


@right(references.log_softmax)
def log_softmax_in_base_two(x, dim):
    """((x - m)·log2 e - log2 Σ)·ln 2, in float64 for the two products that cancel."""
    s, _ = _shifted(x, dim)
    z = s.double() * LOG2E
    return ((z - z.exp2().sum(dim, keepdim=True).log2()) / LOG2E).to(x.dtype)


@right(references.logsumexp)
def logsumexp_in_float32(x, dim):
    """m + log Σ, with infinite maxima replaced by 0 in the shift."""
    if x.shape[dim] == 0:
        return torch.full_like(x.sum(dim), -math.inf)
    m = x.float().amax(dim, keepdim=True)
    shift = torch.where(m.isfinite(), m, 0.0)
    return ((x.float() - shift).exp().sum(dim).log() + shift.squeeze(dim)).to(x.dtype)


@right(references.logsumexp)
def logsumexp_pairwise(x, dim):
    """logaddexp of halves, in float64."""
    v = x.double()
    if v.shape[dim] == 0:
        return torch.full_like(x.sum(dim), -math.inf)
    while v.shape[dim] > 1:
        n = v.shape[dim]
        folded = torch.logaddexp(v.narrow(dim, 0, n // 2), v.narrow(dim, n // 2, n // 2))
        v = torch.cat([folded, v.narrow(dim, 2 * (n // 2), n % 2)], dim)
    return v.squeeze(dim).to(x.dtype)


@right(references.logsumexp)
def logsumexp_without_the_largest(x, dim):
    """m + log1p(Σ of the others)."""
    if x.shape[dim] == 0:
        return torch.full_like(x.sum(dim), -math.inf)
    v = x.float()
    m, at = v.max(dim, keepdim=True)
    shift = torch.where(m.isfinite(), m, 0.0)
    e = (v - shift).exp()
    rest = torch.where(torch.zeros_like(e, dtype=torch.bool).scatter_(dim, at, True), 0.0, e).sum(dim)
    return torch.where(m.isfinite().squeeze(dim), rest.log1p() + shift.squeeze(dim), m.squeeze(dim)).to(
        x.dtype
    )


@right(biased_softmax)
def biased_softmax_in_float32(x, bias):
    """softmax(x + bias)."""
    return torch.softmax(x.float() + bias.float(), -1).to(x.dtype)


@right(scaled_softmax)
def scaled_softmax_in_float32(x, scale):
    """softmax(scale·x)."""
    return torch.softmax(x.float() * scale, -1).to(x.dtype)


@right(scaled_softmax)
def scaled_softmax_of_difference(x, scale):
    """|scale|·(x - m), m the maximum of ±x."""
    if x.shape[-1] == 0:
        return torch.empty_like(x)
    v = x.float() if scale > 0 else -x.float()
    e = ((v - v.amax(-1, keepdim=True)) * abs(scale)).exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


@right(temperature_softmax)
def temperature_softmax_divided(x, temperature):
    """softmax(x / temperature) in float32."""
    return torch.softmax(x.float() / temperature, -1).to(x.dtype)


@right(temperature_softmax)
def temperature_softmax_by_reciprocal(x, temperature):
    """softmax(x · (1/temperature)) in float32."""
    return torch.softmax(x.float() * (1.0 / temperature), -1).to(x.dtype)


@right(residual_softmax)
def residual_softmax_in_float32(x, residual):
    """softmax(x + residual)."""
    return torch.softmax(x.float() + residual.float(), -1).to(x.dtype)


@right(references.softmax)
def softmax_of_one_is_expanded(x, dim):
    """Rows of one finite element: a view of a single 1."""
    if x.shape[dim] == 1 and bool(x.isfinite().all()):
        return torch.ones(1, dtype=x.dtype).expand(x.shape)
    return torch.softmax(x.double(), dim).to(x.dtype)
