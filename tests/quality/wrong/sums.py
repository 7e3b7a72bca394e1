"""Wrong sums, means and products."""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

import references
from quality.contracts import cumsum, masked_mean, squared_error, variance, weighted_sum
from quality.declare import wrong
from quality.rows import reduced, rows_of


@triton.jit
def _sum_as_loaded(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=0.0)
    tl.store(out + row, tl.sum(values, axis=0))


@wrong(
    references.sum,
    "accuracy",
    "special values",
    bug="B02",
    smallest=None,
    claim="in float16 right if claims={'accumulator': 'float16'}; in bfloat16 right if claims={'accumulator': 'bfloat16'}",
)
def sum_in_the_input_format(x, dim):
    """The tile is summed in float16 or bfloat16, as loaded."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        _sum_as_loaded[(len(rows),)](
            rows, out, rows.shape[1], BLOCK=triton.next_power_of_2(max(rows.shape[1], 1))
        )
    return reduced(out, x, dim)


def _running_total(x, dim):
    """One float32 accumulator along the axis: np.cumsum adds one element after the other."""
    totals = np.cumsum(x.float().numpy(), axis=dim, dtype=np.float32)
    return torch.from_numpy(totals).select(dim, x.shape[dim] - 1)


@wrong(references.sum, "accuracy", bug="B04", smallest=None, claim="right if claims={'depth': 'sequential'}")
def sum_in_one_scalar(x, dim):
    """One float32 accumulator walks along the whole row."""
    return _running_total(x, dim).to(x.dtype) if x.shape[dim] else x.sum(dim)


@wrong(references.mean, "accuracy", bug="B04", smallest=None, claim="right if claims={'depth': 'sequential'}")
def mean_of_running_total(x, dim):
    """A running float32 total, read off at the row's end."""
    n = x.shape[dim]
    return (_running_total(x, dim) / n).to(x.dtype) if n else x.mean(dim)


@triton.jit
def _atomic_blocks(x, out, n, BLOCK: tl.constexpr):
    row, block = tl.program_id(0), tl.program_id(1)
    columns = block * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    tl.atomic_add(out + row, tl.sum(values, axis=0))


@wrong(references.sum, "undefined values", "written", bug="B16")
def sum_by_atomics_on_nothing(x, dim):
    """Blocks are added atomically to a buffer that nobody set to 0."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=torch.float32)
    if out.numel():
        _atomic_blocks[(len(rows), triton.cdiv(rows.shape[1], 64))](rows, out, rows.shape[1], BLOCK=64)
    return reduced(out.to(x.dtype), x, dim)


@wrong(references.sum, "accuracy", smallest=None)
def sum_drops_partial_block(x, dim):
    """The grid is rounded down: the last n % 64 elements are left out."""
    rows = rows_of(x, dim)
    out = torch.zeros(len(rows), dtype=torch.float32)
    if out.numel() and rows.shape[1]:
        _atomic_blocks[(len(rows), max(rows.shape[1] // 64, 1))](rows, out, rows.shape[1], BLOCK=64)
    return reduced(out.to(x.dtype), x, dim)


@triton.jit
def _split_stores(x, out, n, BLOCK: tl.constexpr):
    row, block = tl.program_id(0), tl.program_id(1)
    columns = block * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    tl.store(out + row, tl.sum(values, axis=0))


@wrong(references.sum, "race", "accuracy", "special values", "repeatable", smallest=None)
def sum_by_racing_stores(x, dim):
    """Every block stores its partial sum to the same place: the last one wins."""
    rows = rows_of(x, dim)
    out = torch.zeros(len(rows), dtype=torch.float32)
    if out.numel() and rows.shape[1]:
        _split_stores[(len(rows), triton.cdiv(rows.shape[1], 32))](rows, out, rows.shape[1], BLOCK=32)
    return reduced(out.to(x.dtype), x, dim)


@wrong(references.sum, "written", bug="B18", smallest=0)
def sum_of_nothing_is_empty(x, dim):
    """An input without elements returns memory that nobody wrote."""
    if x.numel() == 0:
        shape = list(x.shape)
        del shape[dim]
        return torch.empty(shape, dtype=x.dtype)
    return x.float().sum(dim).to(x.dtype)


@wrong(references.prod, "accuracy", bug="B18", smallest=0)
def product_of_nothing_is_zero(x, dim):
    """Products start from 0 where the axis is empty."""
    if x.shape[dim] == 0:
        return x.sum(dim)
    return x.double().prod(dim).to(x.dtype)


@wrong(references.mean, "special values", bug="B18", smallest=0)
def mean_of_nothing_is_zero(x, dim):
    """Σ / max(n, 1): an empty axis gives 0."""
    return (x.double().sum(dim) / max(x.shape[dim], 1)).to(x.dtype)


@triton.jit
def _mean_over_block(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    tl.store(out + row, (tl.sum(values, axis=0) / BLOCK).to(out.dtype.element_ty))


@wrong(references.mean, "accuracy")
def mean_over_the_block(x, dim):
    """The sum is divided by the block's size instead of the row's length."""
    rows = rows_of(x, dim)
    n = rows.shape[1]
    if n == 0:
        return reduced(torch.full((len(rows),), torch.nan, dtype=x.dtype), x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        _mean_over_block[(len(rows),)](rows, out, n, BLOCK=triton.next_power_of_2(n))
    return reduced(out, x, dim)


@wrong(references.mean, "accuracy", "special values", claim="*")
def mean_divides_first(x, dim):
    """Every element is divided by n in the input's format, then added."""
    return (x / max(x.shape[dim], 1)).float().sum(dim).to(x.dtype) if x.shape[dim] else x.mean(dim)


@wrong(references.mean, "special values", "accuracy", claim="*", smallest=16)
def mean_of_rounded_sum(x, dim):
    """The sum is rounded to the input's format, and may overflow, before it is divided."""
    return x.float().sum(dim).to(x.dtype) / x.shape[dim] if x.shape[dim] else x.mean(dim)


@wrong(references.mean, "accuracy", smallest=16)
def mean_by_rounded_reciprocal(x, dim):
    """1/n is rounded to float16 before it multiplies the sum."""
    n = x.shape[dim]
    if n == 0:
        return x.mean(dim)
    return (x.double().sum(dim) * float(torch.tensor(1 / n, dtype=torch.float16))).to(x.dtype)


@wrong(references.sum, "accuracy", smallest=None)
def sum_bfloat16_every_fourth_block(x, dim):
    """The running total passes through bfloat16 after every fourth block of 16."""
    total = torch.zeros_like(x.select(dim, 0) if x.shape[dim] else x.sum(dim), dtype=torch.float32)
    for number, block in enumerate(x.float().split(16, dim) if x.shape[dim] else ()):
        total = total + block.sum(dim)
        if number % 4 == 3:
            total = total.bfloat16().float()
    return total.to(x.dtype)


@wrong(
    references.sum,
    "accuracy",
    smallest=None,
    claims={"depth": 2},
    domain={"max_elements": 3000},
    claim="right if claims={'depth': 'sequential'}",
)
def sum_claims_compensation(x, dim):
    """Claims the depth of a compensated sum; the compiler has simplified the compensation away."""
    total = torch.zeros_like(x.sum(dim), dtype=torch.float32)
    for part in x.float().unbind(dim):
        total = total + part
    return total.to(x.dtype)


@wrong(references.sum, "accuracy", smallest=8)
def sum_truncates_on_store(x, dim):
    """float32 to bfloat16 by dropping the low 16 bits."""
    total = x.double().sum(dim).float()
    if x.dtype is not torch.bfloat16:
        return total.to(x.dtype)
    return (total.view(torch.int32) & ~0xFFFF).view(torch.float32).to(x.dtype)


@wrong(references.sum, "accuracy", "special values")
def sum_rounds_twice(x, dim):
    """The sum passes through float16 on its way to bfloat16."""
    total = x.double().sum(dim).float()
    return (total.half() if x.dtype is torch.bfloat16 else total).to(x.dtype)


@wrong(references.sum, "special values")
def sum_without_nan(x, dim):
    """NaN is taken for a missing value."""
    return x.float().nansum(dim).to(x.dtype)


@wrong(references.mean, "special values", "accuracy")
def mean_of_finite(x, dim):
    """Infinities are replaced by 0 before the sum."""
    return torch.nan_to_num(x.double(), nan=torch.nan, posinf=0.0, neginf=0.0).mean(dim).to(x.dtype)


@wrong(references.sum, "accuracy", claim="*")
def sum_flushes_subnormals(x, dim):
    """Subnormal inputs are read as 0."""
    tiny = torch.finfo(x.dtype).tiny
    return torch.where(x.abs() < tiny, 0.0, x.float()).sum(dim).to(x.dtype)


@wrong(references.sum, "accuracy")
def sum_of_non_zero(x, dim):
    """1e-6 is added, as against a division by 0 that nobody does here."""
    return (x.float().sum(dim) + 1e-6).to(x.dtype)


@wrong(references.sum, "accuracy", smallest=None)
def sum_of_16_bit_index(x, dim):
    """Columns beyond 65535 are out of a 16-bit index's reach."""
    return x.narrow(dim, 0, min(x.shape[dim], 65536)).float().sum(dim).to(x.dtype)


@wrong(references.sum, "special values", "accuracy")
def sum_clamps(x, dim):
    """Inputs are clamped to ±1e4 'for stability'."""
    return x.float().clamp(-1e4, 1e4).sum(dim).to(x.dtype)


@wrong(references.prod, "accuracy", "special values")
def product_by_logarithms(x, dim):
    """exp(Σ log|x|) with the sign apart."""
    v = x.float()
    negative = (v < 0).sum(dim) % 2
    return (v.abs().log().sum(dim).exp() * (1 - 2 * negative)).to(x.dtype)


@triton.jit
def _product(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    product = tl.reduce(values, 0, _times)
    tl.store(out + row, product.to(out.dtype.element_ty))


@triton.jit
def _times(a, b):
    return a * b


@wrong(references.prod, "accuracy")
def product_padded_with_zero(x, dim):
    """Lanes beyond the row are 0 instead of 1."""
    rows = rows_of(x, dim)
    if rows.shape[1] == 0:
        return reduced(torch.ones(len(rows), dtype=x.dtype), x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        _product[(len(rows),)](rows, out, rows.shape[1], BLOCK=triton.next_power_of_2(rows.shape[1]))
    return reduced(out, x, dim)


@wrong(references.prod, "special values")
def product_stops_at_zero(x, dim):
    """A row with a 0 gives 0, whatever else it holds."""
    return torch.where((x == 0).any(dim), 0.0, x.double().prod(dim)).to(x.dtype)


@wrong(
    references.prod,
    "accuracy",
    "special values",
    smallest=8,
    domain={"max_elements": 3000},
    claim="in float16 right if claims={'accumulator': 'float16'}; in bfloat16 right if claims={'accumulator': 'bfloat16'}",
)
def product_in_the_input_format(x, dim):
    """Every partial product is rounded to the input's format."""
    out = torch.ones_like(x.sum(dim))
    for part in x.unbind(dim):
        out = out * part
    return out


@wrong(cumsum, "accuracy", bug="B14", smallest=None)
def cumsum_loses_a_carry(x, dim):
    """The second of every four blocks of 8 starts without the total so far."""
    total, parts = 0.0, []
    if x.shape[dim] == 0:
        return torch.empty_like(x)
    for number, block in enumerate(x.float().split(8, dim)):
        running = block.cumsum(dim)
        parts.append(running if number % 4 == 1 else running + total)
        total = total + running.narrow(dim, running.shape[dim] - 1, 1)
    return torch.cat(parts, dim).to(x.dtype)


@wrong(cumsum, "accuracy", bug="B12")
def cumsum_from_the_end(x, dim):
    """The scan runs from the row's end."""
    return x.flip(dim).float().cumsum(dim).flip(dim).to(x.dtype)


@wrong(cumsum, "accuracy", bug="B14")
def cumsum_exclusive(x, dim):
    """Element i holds the sum of those before it."""
    v = x.float()
    return (v.cumsum(dim) - v).to(x.dtype)


@wrong(cumsum, "accuracy", "special values", smallest=None, domain={"max_elements": 3000}, claim="*")
def cumsum_in_the_input_format(x, dim):
    """Every running sum is rounded to the input's format before the next element is added."""
    running, parts = torch.zeros_like(x.sum(dim)), []
    for part in x.unbind(dim):
        running = running + part
        parts.append(running)
    return torch.stack(parts, dim) if parts else torch.empty_like(x)


@wrong(weighted_sum, "accuracy", "special values", claim="*")
def weighted_sum_of_rounded_products(x, w):
    """Products are rounded to the input's format before they are added."""
    return (x * w).float().sum(-1).to(x.dtype)


@wrong(masked_mean, "accuracy", "special values")
def masked_mean_over_all(x, mask):
    """The sum of the masked elements is divided by the row's length."""
    return torch.where(mask != 0, x.double(), 0.0).mean(-1).to(x.dtype)


@wrong(masked_mean, "special values")
def masked_mean_by_multiplication(x, mask):
    """The mask multiplies: 0·inf and 0·NaN reach the sum."""
    return ((x.double() * mask).sum(-1) / mask.double().sum(-1)).to(x.dtype)


@wrong(squared_error, "accuracy", "special values")
def squared_error_expanded(x, y):
    """mean x² - 2 mean xy + mean y²."""
    a, b = x.float(), y.float()
    return ((a * a).mean(-1) - 2 * (a * b).mean(-1) + (b * b).mean(-1)).to(x.dtype)


@wrong(squared_error, "accuracy")
def squared_error_of_the_mean(x, y):
    """(mean (x - y))²."""
    return ((x.double() - y.double()).mean(-1) ** 2).to(x.dtype)


@wrong(variance, "accuracy", bug="B32", smallest=None, claim="right if claims={'variance': 'textbook'}")
def variance_in_one_pass(x, dim, correction):
    """E[x²] - E[x]² in float32, clamped at 0."""
    v, n = x.float(), x.shape[dim]
    m = v.mean(dim)
    centred = (v * v).mean(dim) - m * m
    return (
        torch.where(centred < 0, 0.0, centred) * (n / max(n - correction, 0) if n > correction else torch.nan)
    ).to(x.dtype)


@wrong(variance, "accuracy", bug="B22", domain={"max_elements": 3000})
def variance_welford_new_mean_twice(x, dim, correction):
    """M2 += (x - new mean)² instead of (x - old mean)(x - new mean)."""
    mean, m2, n = torch.zeros_like(x.sum(dim), dtype=torch.float64), 0.0, x.shape[dim]
    for count, part in enumerate(x.double().unbind(dim), 1):
        mean = mean + (part - mean) / count
        m2 = m2 + (part - mean) ** 2
    return (m2 / max(n - correction, 0) if n > correction else m2 * torch.nan).to(x.dtype)


@wrong(variance, "accuracy", "special values", bug="B06")
def variance_ignores_correction(x, dim, correction):
    """Divides by n whatever the correction."""
    return x.double().var(dim, correction=0).to(x.dtype)


@wrong(references.sum, "accuracy", smallest=8)
def sum_skips_small(x, dim):
    """Elements below 1e-7 count as 0."""
    return torch.where(x.abs() < 1e-7, 0.0, x.double()).sum(dim).to(x.dtype)
