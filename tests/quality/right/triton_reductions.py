"""Right sums, products and extremes in Triton."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

import harness
import references
from quality.contracts import column_norm, cumsum, variance, weighted_sum
from quality.declare import right
from quality.rows import reduced, restored, rows_of


@triton.jit
def _one_block(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    tl.store(out + row, tl.sum(values, axis=0).to(out.dtype.element_ty))


@right(references.sum)
def sum_one_block(x, dim):
    """The whole row in one block."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        n = rows.shape[1]
        _one_block[(len(rows),)](rows, out, n, BLOCK=triton.next_power_of_2(max(n, 1)), num_warps=8)
    return reduced(out, x, dim)


@triton.jit
def _looping(x, out, n, row_stride, column_stride, ACCUMULATOR: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    acc = tl.zeros([BLOCK], dtype=ACCUMULATOR)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * row_stride + columns * column_stride, mask=columns < n, other=0)
        acc += values.to(ACCUMULATOR)
    tl.store(out + row, tl.sum(acc, axis=0).to(out.dtype.element_ty))


def _looped(x, dim, block, accumulator=tl.float32, num_warps=4):
    flat = x.movedim(dim, -1)
    shape, n = flat.shape[:-1], flat.shape[-1]
    flat = flat.reshape(shape.numel(), n)
    out = torch.empty(shape.numel(), dtype=x.dtype)
    if out.numel():
        _looping[(out.numel(),)](
            flat, out, n, *flat.stride(), ACCUMULATOR=accumulator, BLOCK=block, num_warps=num_warps
        )
    return out.reshape(shape)


@right(references.sum)
def sum_blocks_of_16(x, dim):
    """Lanes of 16, with strides."""
    return _looped(x, dim, 16, num_warps=1)


@right(references.sum)
def sum_blocks_of_4096(x, dim):
    """Lanes of 4096."""
    return _looped(x, dim, 4096, num_warps=16)


@right(references.sum, formats=("float64", "float32", "bfloat16"))
def sum_float64_accumulator(x, dim):
    """float64 lanes."""
    return _looped(x, dim, 128, tl.float64)


@triton.autotune(
    [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((64, 2), (512, 4))], key=["n"]
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def _tuned(x, out, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = (
            tl.load(x + row * n + columns)
            if EVEN
            else tl.load(x + row * n + columns, mask=columns < n, other=0.0)
        )
        acc += values.to(tl.float32)
    tl.store(out + row, tl.sum(acc, axis=0).to(out.dtype.element_ty))


@right(references.sum)
def sum_autotuned(x, dim):
    """autotune over heuristics, unmasked loads where the blocks fit."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        _tuned[(len(rows),)](rows, out, rows.shape[1])
    return reduced(out, x, dim)


@triton.jit
def _partial(x, partials, n, blocks, BLOCK: tl.constexpr):
    row, block = tl.program_id(1), tl.program_id(0)
    columns = block * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    tl.store(partials + row * blocks + block, tl.sum(values, axis=0))


@right(references.sum)
def sum_two_stage(x, dim):
    """Partial sums of blocks of 64 in float32, added by a second launch."""
    rows = rows_of(x, dim)
    blocks = max(triton.cdiv(rows.shape[1], 64), 1)
    partials = torch.empty(len(rows), blocks, dtype=torch.float32)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        _partial[(blocks, len(rows))](rows, partials, rows.shape[1], blocks, BLOCK=64)
        _one_block[(len(rows),)](partials, out, blocks, BLOCK=triton.next_power_of_2(blocks))
    return reduced(out, x, dim)


@triton.jit
def _atomic(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    tl.atomic_add(out + row, tl.sum(values, axis=0), sem="relaxed")


@right(references.sum)
def sum_split_with_atomics(x, dim):
    """Blocks of 128 added atomically to zeros."""
    rows = rows_of(x, dim)
    out = torch.zeros(len(rows), dtype=torch.float32)
    if rows.numel():
        _atomic[(len(rows), triton.cdiv(rows.shape[1], 128))](rows, out, rows.shape[1], BLOCK=128)
    return reduced(out.to(x.dtype), x, dim)


@triton.jit
def _persistent(x, out, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)
        columns = tl.arange(0, BLOCK)
        inside = (row < rows)[:, None] & (columns < n)[None, :]
        values = tl.load(x + row[:, None] * n + columns[None, :], mask=inside, other=0.0).to(tl.float32)
        tl.store(out + row, tl.sum(values, axis=1).to(out.dtype.element_ty), mask=row < rows)


@right(references.sum)
def sum_persistent(x, dim):
    """Three programs walk over groups of four rows."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        n = rows.shape[1]
        _persistent[(3,)](rows, out, len(rows), n, ROWS=4, BLOCK=triton.next_power_of_2(max(n, 1)))
    return reduced(out, x, dim)


@triton.jit
def _columns(x, out, m, n, row_stride, column_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    acc = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for start in range(0, m, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < m)[:, None] & (column < n)[None, :]
        values = tl.load(
            x + row[:, None] * row_stride + column[None, :] * column_stride, mask=inside, other=0.0
        )
        values = values.to(tl.float32)
        acc += values * values
    tl.store(out + column, tl.sqrt(tl.sum(acc, axis=0)).to(out.dtype.element_ty), mask=column < n)


@right(column_norm)
def column_norm_tiles(x):
    """Tiles of 8 x 32, reduced over rows."""
    m, n = x.shape
    out = torch.empty(n, dtype=x.dtype)
    if n:
        _columns[(triton.cdiv(n, 32),)](x, out, m, n, x.stride(0), x.stride(1), ROWS=8, COLUMNS=32)
    return out


@triton.jit
def _multiplied(a, b):
    return a * b


@triton.jit
def _product(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=1.0).to(tl.float32)
    tl.store(out + row, tl.reduce(values, 0, _multiplied).to(out.dtype.element_ty))


@right(references.prod)
def product_by_reduce(x, dim):
    """tl.reduce with a product, padded with 1."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        n = rows.shape[1]
        _product[(len(rows),)](rows, out, n, BLOCK=triton.next_power_of_2(max(n, 1)))
    return reduced(out, x, dim)


@triton.jit
def _larger(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def _extreme(x, out, n, SIGN: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + columns, mask=columns < n, other=-SIGN * float("inf")).to(tl.float32)
        best = _larger(best, SIGN * values)
    tl.store(out + row, (SIGN * tl.reduce(best, 0, _larger)).to(out.dtype.element_ty))


def _extreme_of(x, dim, sign):
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        _extreme[(len(rows),)](rows, out, rows.shape[1], SIGN=sign, BLOCK=64)
    return reduced(out, x, dim)


@right(references.amax)
def amax_keeping_nan(x, dim):
    """A combine function that lets NaN win."""
    return _extreme_of(x, dim, 1.0)


@right(references.amin)
def amin_keeping_nan(x, dim):
    """The same on -x."""
    return _extreme_of(x, dim, -1.0)


@triton.jit
def _propagating(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = tl.full([1], -float("inf"), tl.float32)
    for column in range(n):
        value = tl.load(x + row * n + column + tl.arange(0, 1)).to(tl.float32)
        best = tl.maximum(best, value, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + row + tl.arange(0, 1), best.to(out.dtype.element_ty))


@right(references.amax, domain={"max_elements": 2000}, why="one element at a time is slow")
def amax_propagating(x, dim):
    """tl.maximum with propagate_nan, one element after the other."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        _propagating[(len(rows),)](rows, out, rows.shape[1], BLOCK=1)
    return reduced(out, x, dim)


@right(references.amax, domain={"finite": True})
def amax_of_finite(x, dim):
    """tl.max, which drops NaN: finite inputs only."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        n = rows.shape[1]
        _dropping[(len(rows),)](rows, out, n, BLOCK=triton.next_power_of_2(n))
    return reduced(out, x, dim)


@triton.jit
def _dropping(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf"))
    tl.store(out + row, tl.max(values, axis=0))


@triton.jit
def _added(a, b):
    return a + b


@triton.jit
def _scan(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
        running = carry + tl.associative_scan(values, 0, _added)
        tl.store(out + row * n + columns, running.to(out.dtype.element_ty), mask=columns < n)
        carry += tl.sum(values, axis=0)


@right(cumsum)
def cumsum_by_scan(x, dim):
    """associative_scan in blocks of 64 with a carry."""
    rows = rows_of(x, dim)
    out = torch.empty_like(rows)
    if rows.numel():
        _scan[(len(rows),)](rows, out, rows.shape[1], BLOCK=64)
    return restored(out, x, dim)


@triton.jit
def _merged(mean_a, m2_a, weight_a, mean_b, m2_b, weight_b):
    weight = weight_a + weight_b
    share = tl.where(weight == 0.0, 0.0, weight_b / weight)
    delta = mean_b - mean_a
    return mean_a + delta * share, m2_a + m2_b + delta * delta * weight_a * share, weight


@triton.jit
def _welford(x, out, n, degrees, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    mean = tl.zeros([BLOCK], dtype=tl.float32)
    m2 = tl.zeros([BLOCK], dtype=tl.float32)
    weight = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < n
        values = tl.load(x + row * n + columns, mask=inside, other=0.0).to(tl.float32)
        count = weight + 1.0
        delta = values - mean
        new = mean + delta / count
        m2 = tl.where(inside, m2 + delta * (values - new), m2)
        mean = tl.where(inside, new, mean)
        weight = tl.where(inside, count, weight)
    _, total, _ = tl.reduce((mean, m2, weight), 0, _merged)
    tl.store(out + row, (total / degrees).to(out.dtype.element_ty))


@right(
    variance,
    domain={"finite": True},
    why="0·inf in the merge of an empty lane gives NaN where inf is right too",
)
def variance_by_lanes(x, dim, correction):
    """Welford's recurrence in 32 lanes, merged as Inductor does."""
    rows = rows_of(x, dim)
    n = rows.shape[1]
    if n <= correction:
        raise harness.Unsupported("n > correction")
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        _welford[(len(rows),)](rows, out, n, float(n - correction), BLOCK=32)
    return reduced(out, x, dim)


@triton.jit
def _dotted(x, w, out, n, x_row, x_column, w_step, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for start in tl.range(0, n, BLOCK, num_stages=2):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < n
        a = tl.load(x + row * x_row + columns * x_column, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(w + columns * w_step, mask=inside, other=0.0).to(tl.float32)
        acc = tl.fma(a, b, acc)
    tl.store(out + row, tl.sum(acc, axis=0).to(out.dtype.element_ty))


@right(weighted_sum)
def weighted_sum_by_fma(x, w):
    """FMA lanes of 64."""
    shape, n = x.shape[:-1], x.shape[-1]
    flat = x.reshape(shape.numel(), n)
    out = torch.empty(shape.numel(), dtype=x.dtype)
    if out.numel():
        _dotted[(out.numel(),)](flat, w, out, n, *flat.stride(), w.stride(0), BLOCK=64)
    return out.reshape(shape)


@triton.jit
def _pointers(x, out, m, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    block = tl.make_block_ptr(x, (m, n), (n, 1), (row, 0), (1, BLOCK), (1, 0))
    acc = tl.zeros([1, BLOCK], dtype=tl.float32)
    for _ in range(0, n, BLOCK):
        acc += tl.load(block, boundary_check=(1,), padding_option="zero").to(tl.float32)
        block = tl.advance(block, (0, BLOCK))
    tl.store(out + row + tl.arange(0, 1), tl.sum(acc, axis=1).to(out.dtype.element_ty))


@right(references.sum)
def sum_by_block_pointers(x, dim):
    """make_block_ptr and advance, padded with zeros."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        _pointers[(len(rows),)](rows, out, len(rows), rows.shape[1], BLOCK=64)
    return reduced(out, x, dim)
