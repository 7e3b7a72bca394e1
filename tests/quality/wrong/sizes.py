"""Kernels that are wrong for some sizes, formats or magnitudes only."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

import references
from quality.contracts import add_relu, quantize, rms_norm
from quality.declare import wrong
from quality.rows import reduced, restored, rows_of


def _sum_first(x, dim, keep):
    return x.narrow(dim, 0, keep).double().sum(dim).to(x.dtype)


@wrong(references.sum, "accuracy", smallest=None)
def sum_up_to_1024(x, dim):
    """Elements beyond 1024 are left out."""
    return _sum_first(x, dim, min(x.shape[dim], 1024))


@wrong(references.sum, "accuracy", smallest=128)
def sum_of_exactly_one_block(x, dim):
    """n == 128: the number of blocks is computed as (n - 1) // 128."""
    return _sum_first(x, dim, 0 if x.shape[dim] == 128 else x.shape[dim])


@wrong(references.softmax, "accuracy", smallest=1)
def softmax_of_one(x, dim):
    """n == 1 returns 0."""
    return torch.softmax(x.double(), dim).mul(x.shape[dim] != 1).to(x.dtype)


@wrong(references.amax, "accuracy", "special values", "rows independent", smallest=None)
def amax_rows_beyond_128(x, dim):
    """Rows from the 129th on hold the answer of the first."""
    rows = rows_of(x, dim)
    out = rows.amax(1)
    out[128:] = out[:1].expand(max(len(rows) - 128, 0))
    return reduced(out, x, dim)


@wrong(references.sum, "accuracy", "rows independent", "special values", smallest=8)
def sum_of_last_row_only(x, dim):
    """The last row is added to the first one."""
    rows = rows_of(x, dim).double()
    out = rows.sum(1)
    if len(rows) > 2:
        out[0] += out[-1]
    return reduced(out.to(x.dtype), x, dim)


@wrong(references.prod, "accuracy", "special values", smallest=2)
def product_of_single_row(x, dim):
    """A single row takes a path that starts from 2."""
    rows = rows_of(x, dim).double()
    return reduced((rows.prod(1) * (2 if len(rows) == 1 else 1)).to(x.dtype), x, dim)


@wrong(references.sum, "accuracy", smallest=None)
def sum_vector_width_by_dtype(x, dim):
    """16-byte vectors: the tail of n % (4 or 8) elements is left out from 16 on."""
    n, width = x.shape[dim], 16 // x.element_size()
    return _sum_first(x, dim, n - n % width if n > 16 else n)


@wrong(references.logsumexp, "accuracy", smallest=8)
def logsumexp_only_float32_wrong(x, dim):
    """A float16 exponential for float32 inputs."""
    if x.dtype is torch.float32 and x.shape[dim]:
        m = x.amax(dim, keepdim=True)
        shift = torch.where(m.isfinite(), m, 0.0)
        return (x - shift).half().exp().float().sum(dim).log() + shift.squeeze(dim)
    return x.double().logsumexp(dim).to(x.dtype)


@wrong(references.sum, "accuracy", smallest=8, formats=("float64",))
def sum_of_float64_in_float32(x, dim):
    """float64 is summed in float32."""
    return x.float().sum(dim).to(x.dtype)


@wrong(references.softmax, "accuracy", "special values", smallest=8, formats=("float64",))
def softmax_of_float64_with_float32_exp(x, dim):
    """exp in float32 for float64 inputs."""
    if x.shape[dim] == 0:
        return torch.empty_like(x)
    e = (x - x.amax(dim, keepdim=True)).float().exp().double()
    return e / e.sum(dim, keepdim=True)


@wrong(references.sum, "special values", "accuracy", smallest=None, claim="*")
def sum_intermediate_overflows(x, dim):
    """Pairs are added in the input's format first: large ones overflow."""
    n = x.shape[dim]
    if n % 2 or n == 0:
        return x.double().sum(dim).to(x.dtype)
    a, b = x.narrow(dim, 0, n // 2), x.narrow(dim, n // 2, n // 2)
    return (a + b).double().sum(dim).to(x.dtype)


@wrong(references.mean, "accuracy", smallest=None)
def mean_beyond_64k_elements(x, dim):
    """From 2^16 elements on, the last one is left out."""
    n = x.shape[dim]
    return (x.narrow(dim, 0, n - (n > 65536)).double().sum(dim) / n).to(x.dtype) if n else x.mean(dim)


@triton.jit
def _grouped_rows(x, out, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (columns[None, :] < n)
    values = tl.load(x + row[:, None] * n + columns[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row, tl.sum(values, axis=1).to(out.dtype.element_ty))


@wrong(references.sum, "out of bounds", smallest=8)
def sum_last_group_unmasked(x, dim):
    """Four rows for each program; the last one stores four whatever is left."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if out.numel():
        n = rows.shape[1]
        _grouped_rows[(triton.cdiv(len(rows), 4),)](
            rows, out, len(rows), n, ROWS=4, BLOCK=triton.next_power_of_2(max(n, 1))
        )
    return reduced(out, x, dim)


@triton.jit
def _persistent(x, out, rows, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    for step in range(0, rows // PROGRAMS):
        row = first + step * PROGRAMS
        values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
        tl.store(out + row, tl.sum(values, axis=0).to(out.dtype.element_ty))


@wrong(references.sum, "written", smallest=None)
def sum_persistent_remainder(x, dim):
    """Eight persistent programs; rows beyond the last multiple of 8 are left out."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if out.numel():
        n = rows.shape[1]
        _persistent[(8,)](rows, out, len(rows), n, PROGRAMS=8, BLOCK=triton.next_power_of_2(max(n, 1)))
    return reduced(out, x, dim)


@triton.jit
def _softmax_two_loops(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    m = -float("inf")
    for start in range(0, n, BLOCK):
        values = tl.load(x + row * n + start + columns, mask=start + columns < n, other=-float("inf"))
        m = tl.maximum(m, tl.max(values.to(tl.float32), axis=0))
    total = 0.0
    for start in range(0, n - BLOCK + 1, BLOCK):
        values = tl.load(x + row * n + start + columns, mask=start + columns < n, other=-float("inf"))
        total += tl.sum(tl.exp(values.to(tl.float32) - m), axis=0)
    for start in range(0, n, BLOCK):
        inside = start + columns < n
        values = tl.load(x + row * n + start + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(
            out + row * n + start + columns,
            (tl.exp(values - m) / total).to(out.dtype.element_ty),
            mask=inside,
        )


@wrong(references.softmax, "accuracy", "special values", smallest=8)
def softmax_sum_loop_ends_early(x, dim):
    """The loop of the sum stops before the partial block."""
    rows = rows_of(x, dim)
    out = torch.empty_like(rows)
    if rows.numel():
        _softmax_two_loops[(len(rows),)](rows, out, rows.shape[1], BLOCK=128)
    return restored(out, x, dim)


@wrong(add_relu, "accuracy", "special values", smallest=2)
def add_relu_large_becomes_1e4(x, y):
    """Results are clamped at 1e4."""
    return (x.double() + y.double()).clamp(0.0, 1e4).to(x.dtype)


@wrong(rms_norm, "accuracy", "special values", smallest=None)
def rms_norm_wide_rows(x, weight, eps):
    """Rows wider than 512 are normalised in halves."""
    v = x.double()
    n = v.shape[-1]
    parts = [v] if n <= 512 else [v[..., : n // 2], v[..., n // 2 :]]
    y = torch.cat([p * torch.rsqrt((p * p).mean(-1, keepdim=True) + eps) for p in parts], -1)
    return (y * weight).to(x.dtype)


@wrong(references.amin, "accuracy", smallest=None)
def amin_of_long_rows_by_sampling(x, dim):
    """Rows of more than 2048 elements: every second block of 32 is skipped."""
    n = x.shape[dim]
    if n <= 2048:
        return x.amin(dim)
    kept = (torch.arange(n) // 32) % 2 == 0
    return x.index_select(dim, kept.nonzero().flatten()).amin(dim)


@wrong(references.log_softmax, "accuracy", smallest=None)
def log_softmax_of_exactly_1024(x, dim):
    """n == 1024, the block's size: the last column takes its neighbour's value."""
    y = torch.log_softmax(x.double(), dim)
    if x.shape[dim] == 1024:
        y.select(dim, 1023).copy_(y.select(dim, 1022))
    return y.to(x.dtype)


@wrong(references.sum, "accuracy", "special values", smallest=None)
def sum_split_path_drops_tail(x, dim):
    """Few long rows take a path of 8 equal splits: n % 8 elements are left out."""
    rows = rows_of(x, dim).double()
    n = rows.shape[1]
    kept = n - n % 8 if len(rows) <= 4 and n >= 1024 else n
    return reduced(rows[:, :kept].sum(1).to(x.dtype), x, dim)


@wrong(references.softmax, "written", "accuracy", "special values", smallest=None)
def softmax_inner_tail_unwritten(x, dim):
    """Along another axis than the last, whole groups of 8 columns only are written, if there are more than 8."""
    value = torch.softmax(x.double(), dim).to(x.dtype)
    out = torch.empty(x.shape, dtype=x.dtype)
    inner = x.shape[-1]
    if dim % x.ndim == x.ndim - 1 or inner <= 8:
        return out.copy_(value)
    done = inner - inner % 8
    out[..., :done] = value[..., :done]
    return out


@wrong(references.sum, "accuracy", "special values", smallest=None)
def sum_blocks_overlap(x, dim):
    """Blocks of 64 start 63 apart: every 64th element counts twice."""
    n = x.shape[dim]
    starts = range(0, n, 63) if n > 64 else [0]
    parts = [x.narrow(dim, at, min(64, n - at)).double().sum(dim) for at in starts]
    return torch.stack(parts).sum(0).to(x.dtype)


@wrong(references.sum, "accuracy", "special values", smallest=None)
def sum_half_for_long_rows(x, dim):
    """Rows of more than 512 elements are summed in blocks of 32 that are stored in float16."""
    if x.shape[dim] <= 512:
        return x.double().sum(dim).to(x.dtype)
    return torch.stack([p.double().sum(dim).half() for p in x.split(32, dim)]).double().sum(0).to(x.dtype)


@wrong(references.mean, "accuracy", smallest=None)
def mean_over_half_count(x, dim):
    """n is kept in float16: odd lengths beyond 2048 are off."""
    n = float(torch.tensor(float(x.shape[dim]), dtype=torch.float16))
    return (x.double().sum(dim) / n).to(x.dtype) if n else x.mean(dim)


@wrong(references.prod, "accuracy", "special values", smallest=None)
def product_counts_signs_in_8_bits(x, dim):
    """The number of negative factors is kept in a signed byte that saturates at 127."""
    v = x.double()
    negative = (v < 0).sum(dim).clamp(max=127) % 2
    size = v.abs().prod(dim)
    return (size * (1 - 2 * negative)).to(x.dtype)


@wrong(references.amin, "accuracy", "special values", "rows independent", smallest=8)
def amin_of_first_row(x, dim):
    """The first of several rows is skipped, as program 0 was assumed to be positive."""
    rows = rows_of(x, dim)
    out = rows.amin(1)
    if len(rows) > 1:
        out[0] = 0
    return reduced(out, x, dim)


@wrong(add_relu, "accuracy", "special values", smallest=None)
def add_relu_of_one_block(x, y):
    """The grid has one program of 1024 elements: those beyond are 0."""
    out = (x.double() + y.double()).relu().to(x.dtype).flatten()
    out[1024:] = 0
    return out.reshape(x.shape)


@wrong(quantize, "accuracy", smallest=None, domain={"finite": True})
def quantize_last_of_odd_count(x, scale):
    """An odd number of elements from 129 on: the last one is not rounded but cut."""
    y = (x.double() / scale).clamp(-127, 127)
    code = y.round().flatten()
    if x.numel() % 2 and x.numel() > 128:
        code[-1] = y.flatten()[-1].trunc() - 1
    return code.to(torch.int8).reshape(x.shape)


@wrong(references.sum, "accuracy", "special values", smallest=None)
def sum_short_tail_of_96(x, dim):
    """Blocks of 96: a tail of fewer than 8 elements is left out."""
    n = x.shape[dim]
    return _sum_first(x, dim, n - n % 96 if n > 96 and n % 96 < 8 else n)


@wrong(add_relu, "accuracy", "special values", smallest=None)
def add_relu_beyond_64k(x, y):
    """Elements from 2^16 on hold x."""
    out = (x.double() + y.double()).relu().to(x.dtype).flatten()
    out[65536:] = x.flatten()[65536:]
    return out.reshape(x.shape)


@wrong(references.softmax, "special values", "accuracy", smallest=None)
def softmax_max_of_first_1536(x, dim):
    """The maximum is that of the first 1536 elements: a later one overflows."""
    if x.shape[dim] <= 1536:
        return torch.softmax(x.double(), dim).to(x.dtype)
    e = (x.float() - x.narrow(dim, 0, 1536).amax(dim, keepdim=True).float()).exp()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


@wrong(references.rope, "accuracy", "special values", smallest=None)
def rope_third_block_of_positions(x, cos, sin, interleaved):
    """Blocks of 64 positions: those of the third block are read one too early."""
    at = torch.arange(x.shape[2])
    at[128:] -= 1
    c, s = cos.double()[at], sin.double()[at]
    halves = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    a, b = (half.double() for half in halves)
    turned = a * c - b * s, b * c + a * s
    return (torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)).to(x.dtype)


@wrong(references.softmax, "accuracy", "special values", smallest=None)
def softmax_of_exactly_256(x, dim):
    """n == 256, another path: the last column is not divided."""
    y = torch.softmax(x.double(), dim)
    if x.shape[dim] == 256:
        v = x.double()
        y.select(dim, -1).copy_((v.select(dim, -1) - v.amax(dim)).exp())
    return y.to(x.dtype)


@wrong(references.sum, "accuracy", "special values", smallest=None)
def sum_unrolled_by_32(x, dim):
    """Four loads of 8 in turn: where 24 of 32 are left, the last 8 of them are not added."""
    n = x.shape[dim]
    return _sum_first(x, dim, n - 8 if n > 64 and n % 32 == 24 else n)


@wrong(references.sum, "accuracy", "special values", smallest=None)
def sum_of_four_rows_a_program(x, dim):
    """Beyond 300 rows, where two are left of the last four, the last gets its neighbour's sum."""
    y = x.double().sum(dim)
    rows = y.reshape(-1).clone()
    if len(rows) > 300 and len(rows) % 4 == 2:
        rows[-1] = rows[-2]
    return rows.reshape(y.shape).to(x.dtype)


@wrong(references.matmul, "accuracy", "special values", smallest=None)
def matmul_of_tiles_that_are_first_nowhere(a, b):
    """Tiles of 64 that are the second along M, N and K at once lose their first product."""
    y = a.double() @ b.double()
    if min(*a.shape, b.shape[1]) > 64:
        y[64:, 64:] -= a[64:, 64:65].double() @ b[64:65, 64:].double()
    return y.to(a.dtype)


@wrong(references.sum, "accuracy", smallest=None)
def sum_of_128_partials(x, dim):
    """The second stage holds 128 partial sums of 1024: what lies beyond 2^17 is left out."""
    return _sum_first(x, dim, min(x.shape[dim], 1 << 17))


@wrong(references.matmul, "accuracy", smallest=None)
def product_that_needs_two_of_a_tail(a, b):
    """Beyond two tiles of 32 the last of K is left out where all but one of a tile are left over."""
    k = a.shape[1]
    k -= k > 64 and k % 32 == 31
    return (a[:, :k].double() @ b[:k].double()).to(a.dtype)


@wrong(references.var, "special values", smallest=1)
def variance_of_one_is_zero(x, dim, correction):
    """A row of one element is not looked at, though it may be NaN."""
    if x.shape[dim] == 1 and correction == 0:
        return torch.zeros_like(x.select(dim, 0))
    return x.double().var(dim, correction=correction).to(x.dtype)
