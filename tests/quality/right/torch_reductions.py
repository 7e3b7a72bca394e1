"""Right sums, means, products and extremes on torch tensors."""

from __future__ import annotations

import math

import torch

import references
from quality.contracts import cumsum, variance
from quality.declare import right
from quality.rows import reduced, rows_of


@right(references.sum)
def sum_in_float32(x, dim):
    """One cast at each end."""
    return x.float().sum(dim).to(x.dtype)


@right(references.sum, formats=("float64", "float32", "float16", "bfloat16"))
def sum_in_float64(x, dim):
    """float64 accumulators for all formats."""
    return x.double().sum(dim).to(x.dtype)


@right(references.sum, claims={"depth": "sequential"}, why="one accumulator", domain={"max_elements": 1000})
def sum_one_by_one(x, dim):
    """A Python loop over slices."""
    total = torch.zeros_like(x.sum(dim), dtype=torch.float32)
    for part in x.float().unbind(dim):
        total = total + part
    return total.to(x.dtype)


@right(references.sum, claims={"depth": 64})
def sum_by_halves(x, dim):
    """Pairwise: the first half is added to the second until one is left; depth log2 n."""
    v = x.float()
    while v.shape[dim] > 1:
        n = v.shape[dim]
        half = n // 2
        folded = v.narrow(dim, 0, half) + v.narrow(dim, half, half)
        v = torch.cat([folded, v.narrow(dim, 2 * half, n - 2 * half)], dim)
    return (v.squeeze(dim).clone() if v.shape[dim] else v.sum(dim)).to(x.dtype)


@right(
    references.sum,
    claims={"depth": 3},
    domain={"finite": True, "max_elements": 1000},
    why="a compensated sum; inf - inf is NaN in it",
)
def sum_compensated(x, dim):
    """Neumaier's compensated sum (ZAMM 54, 1974)."""
    total = torch.zeros_like(x.sum(dim), dtype=torch.float32)
    lost = torch.zeros_like(total)
    for part in x.float().unbind(dim):
        new = total + part
        lost = lost + torch.where(total.abs() >= part.abs(), (total - new) + part, (part - new) + total)
        total = new
    return torch.where(total.isfinite(), total + lost, total).to(x.dtype)


@right(references.sum, claims={"depth": "sequential"}, why="a dot product is one chain of FMAs")
def sum_by_product_with_ones(x, dim):
    """A float32 matrix product with a vector of ones."""
    return torch.matmul(x.movedim(dim, -1).float(), torch.ones(x.shape[dim])).to(x.dtype)


@right(references.sum)
def sum_by_einsum(x, dim):
    """einsum in float64."""
    names = "abcd"[: x.ndim]
    return torch.einsum(f"{names}->{names.replace(names[dim], '')}", x.double()).to(x.dtype)


@right(references.sum)
def sum_of_last_running_sum(x, dim):
    """The last element of a float64 cumulative sum."""
    n = x.shape[dim]
    return x.double().cumsum(dim).select(dim, n - 1).to(x.dtype) if n else x.sum(dim)


@right(references.sum)
def sum_in_chunks(x, dim):
    """Partial sums of 100 columns, stacked and added in float32."""
    parts = [part.float().sum(dim) for part in x.split(100, dim)] if x.shape[dim] else [x.float().sum(dim)]
    return torch.stack(parts).sum(0).to(x.dtype)


@right(references.sum)
def sum_by_index_add(x, dim):
    """Scattered adds of 16 lanes into zeros."""
    rows = rows_of(x, dim).float()
    lanes = torch.zeros(len(rows), 16)
    lanes.index_add_(1, torch.arange(rows.shape[1]) % 16, rows)
    return reduced(lanes.sum(1).to(x.dtype), x, dim)


@right(references.sum, domain={"ndim": 2, "dim": "last"})
def sum_of_matrix_rows(x, dim):
    """2-D only, last axis only."""
    return torch.stack([row.double().sum() for row in x]).to(x.dtype) if len(x) else x.sum(1)


@right(references.sum, claims={"roundings": "partials"}, why="partial sums are stored in the input's format")
def sum_of_stored_partials(x, dim):
    """Blocks of 256 are rounded to the input's format before they are added."""
    if x.shape[dim] == 0:
        return x.sum(dim)
    return (
        torch.stack([part.float().sum(dim).to(x.dtype) for part in x.split(256, dim)])
        .float()
        .sum(0)
        .to(x.dtype)
    )


@right(references.sum, claims={"flush": "all"}, why="runs on units that flush subnormals")
def sum_flushing(x, dim):
    """Subnormal float32 inputs and results are 0."""
    v = x.float()
    v = torch.where(v.abs() < 2.0**-126, 0.0, v).double().sum(dim).float()
    return torch.where(v.abs() < 2.0**-126, 0.0, v).to(x.dtype)


@right(references.mean)
def mean_in_float32(x, dim):
    """Sum, then one division."""
    return (x.float().sum(dim) / x.shape[dim] if x.shape[dim] else x.float().mean(dim)).to(x.dtype)


@right(references.mean)
def mean_by_reciprocal(x, dim):
    """Σ · fl32(1/n)."""
    n = x.shape[dim]
    return (x.float().sum(dim) * (1.0 / n if n else math.nan)).to(x.dtype)


@right(references.mean, why="one torch call for each element", domain={"max_elements": 1000})
def mean_running(x, dim):
    """m += (x - m)/k in float64, which float32 inputs do not exhaust."""
    if x.shape[dim] == 0:
        return x.mean(dim)
    if not bool(x.isfinite().all()):
        return x.double().mean(dim).to(x.dtype)
    m = torch.zeros_like(x.sum(dim), dtype=torch.float64)
    for count, part in enumerate(x.double().unbind(dim), 1):
        m = m + (part - m) / count
    return m.to(x.dtype)


@right(references.prod)
def product_in_float32(x, dim):
    """float32 products of any order."""
    return x.float().prod(dim).to(x.dtype)


@right(references.prod)
def product_by_halves(x, dim):
    """Pairwise products."""
    v = x.float()
    while v.shape[dim] > 1:
        n = v.shape[dim]
        folded = v.narrow(dim, 0, n // 2) * v.narrow(dim, n // 2, n // 2)
        v = torch.cat([folded, v.narrow(dim, 2 * (n // 2), n % 2)], dim)
    return (v.squeeze(dim).clone() if v.shape[dim] else v.prod(dim)).to(x.dtype)


@right(references.prod, formats=("float64",), why="float64 alone")
def product_in_float64(x, dim):
    """float64 products."""
    return x.prod(dim)


@right(references.amax)
def amax_by_sorting(x, dim):
    """The last of the sorted row; NaN sorts last."""
    return x.sort(dim).values.select(dim, -1).clone()


@right(references.amax, domain={"max_elements": 1000})
def amax_by_folding(x, dim):
    """torch.maximum over slices."""
    best, *rest = x.unbind(dim)
    best = best.clone()
    for part in rest:
        torch.maximum(best, part, out=best)
    return best


@right(references.amin)
def amin_as_negated_max(x, dim):
    """-max(-x)."""
    return -((-x).amax(dim))


@right(references.amin)
def amin_by_cumulative_minimum(x, dim):
    """The last of the running minima."""
    return x.cummin(dim).values.select(dim, -1).clone()


@right(references.amax)
def amax_of_ordered_integers(x, dim):
    """Float bits as integers in the order of the numbers, NaN on top."""
    bits = x.float().contiguous().view(torch.int32)
    keys = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    keys = torch.where(x.isnan(), 0x7FC00000, keys)
    best = keys.amax(dim)
    return torch.where(best < 0, best ^ 0x7FFFFFFF, best).view(torch.float32).to(x.dtype)


@right(cumsum)
def cumsum_in_float32(x, dim):
    """torch's own scan, in float32."""
    return x.float().cumsum(dim).to(x.dtype)


@right(cumsum)
def cumsum_of_blocks(x, dim):
    """Blocks of 32 with a carry, in float64."""
    if x.shape[dim] == 0:
        return x.clone()
    carry, parts = 0.0, []
    for block in x.double().split(32, dim):
        parts.append(carry + block.cumsum(dim))
        carry = parts[-1].narrow(dim, block.shape[dim] - 1, 1)
    return torch.cat(parts, dim).to(x.dtype)


@right(variance)
def variance_two_pass(x, dim, correction):
    """float32, the mean first."""
    v, n = x.float(), x.shape[dim]
    d = v - v.mean(dim, keepdim=True)
    return ((d * d).sum(dim) / (n - correction) if n > correction else (d * d).sum(dim) * math.nan).to(
        x.dtype
    )


@right(
    variance,
    claims={"depth": "sequential"},
    why="Welford's recurrence, one element after the other",
    domain={"max_elements": 1000},
)
def variance_welford(x, dim, correction):
    """Welford's recurrence in float32."""
    mean = torch.zeros_like(x.sum(dim), dtype=torch.float32)
    m2 = torch.zeros_like(mean)
    for count, part in enumerate(x.float().unbind(dim), 1):
        d = part - mean
        mean = mean + d / count
        m2 = m2 + d * (part - mean)
    n = x.shape[dim]
    return (m2 / (n - correction) if n > correction else m2 * math.nan).to(x.dtype)


@right(variance)
def variance_of_merged_halves(x, dim, correction):
    """Chan's merge of two halves, each two-pass in float32."""
    v, n = x.float(), x.shape[dim]
    if n < 2:
        return (v.sum(dim) * 0 + (0.0 if correction < n else math.nan)).to(x.dtype)
    (ma, sa, na), (mb, sb, nb) = (
        (p.mean(dim), (p - p.mean(dim, keepdim=True)).square().sum(dim), p.shape[dim])
        for p in (v.narrow(dim, 0, n // 2), v.narrow(dim, n // 2, n - n // 2))
    )
    d = mb - ma
    return ((sa + sb + d * d * (na * nb / n)) / max(n - correction, 0)).to(x.dtype)
