"""Right kernels in Triton of unusual forms, as an author may well write them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

import references
from kernels._heads import SIZES, alignment, tiles, visible
from quality.declare import right
from quality.rows import reduced, restored, rows_of

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
HALVES = ("float16", "bfloat16")


@triton.jit
def _persistent(x, out, rows, n, BLOCK: tl.constexpr):
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        acc = tl.zeros([BLOCK], tl.float32)
        for start in range(0, n, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            acc += tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
        tl.store(out + row, tl.sum(acc, axis=0).to(out.dtype.element_ty))


@right(references.sum)
def sum_by_persistent_programs(x, dim):
    """Three programs take turns at the rows."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        _persistent[(min(3, len(rows)),)](rows, out, len(rows), rows.shape[1], BLOCK=64)
    return reduced(out, x, dim)


@triton.jit
def _split_k(
    a,
    b,
    out,
    M,
    N,
    K,
    am,
    ak,
    bk,
    bn,
    part,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    first = tl.program_id(2) * part
    for start in range(first, tl.minimum(first + part, K), BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        inside = k < tl.minimum(first + part, K)
        x = tl.load(a + m[:, None] * am + k[None, :] * ak, mask=(m < M)[:, None] & inside[None, :], other=0.0)
        y = tl.load(b + k[:, None] * bk + n[None, :] * bn, mask=inside[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
    tl.atomic_add(out + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@right(references.matmul)
def matmul_split_k_by_atomics(a, b):
    """Three parts of K, added atomically into float32, which is cast in the end."""
    (m, k), n = a.shape, b.shape[1]
    total = torch.zeros((m, n), dtype=torch.float32)
    if m and n:
        grid = (triton.cdiv(m, 16), triton.cdiv(n, 16), 3)
        strides = *a.stride(), *b.stride()
        _split_k[grid](a, b, total, m, n, k, *strides, -(-k // 3), BLOCK_M=16, BLOCK_N=16, BLOCK_K=16)
    return total.to(a.dtype)


@triton.jit
def _base_two(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m = tl.full([1], -float("inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        z = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32) * LOG2E
        new = tl.maximum(m, tl.max(z, axis=0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp2(m - safe) + tl.sum(tl.exp2(z - safe), axis=0)
        m = new
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        z = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32) * LOG2E
        tl.store(out + row * n + columns, (tl.exp2(z - m) / total).to(out.dtype.element_ty), mask=columns < n)


@right(
    references.softmax, claims={"exp": "scaled"}, why="x·log2 e is rounded before the maximum is subtracted"
)
def softmax_in_base_two(x, dim):
    """An online softmax of x·log2 e, all of it in base 2."""
    rows = rows_of(x, dim)
    out = torch.empty_like(rows)
    if rows.numel():
        _base_two[(len(rows),)](rows, out, rows.shape[1], BLOCK=64)
    return restored(out, x, dim)


@triton.jit
def _welford(x, weight, bias, out, n, eps, W: tl.constexpr, B: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    mean = tl.zeros([BLOCK], tl.float32)
    m2 = tl.zeros([BLOCK], tl.float32)
    count = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < n
        value = tl.load(x + row * n + columns, mask=inside, other=0.0).to(tl.float32)
        count += inside.to(tl.float32)
        before = value - mean
        mean = tl.where(inside, mean + before / count, mean)
        m2 = tl.where(inside, m2 + before * (value - mean), m2)
    of_row = tl.sum(mean * count, axis=0) / n
    between = mean - of_row
    variance = tl.sum(m2 + tl.where(count > 0.0, between * between * count, 0.0), axis=0) / n
    scale = 1.0 / tl.sqrt_rn(variance + eps)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < n
        y = (tl.load(x + row * n + columns, mask=inside, other=0.0).to(tl.float32) - of_row) * scale
        if W:
            y *= tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
        if B:
            y += tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + row * n + columns, y.to(out.dtype.element_ty), mask=inside)


@right(references.layer_norm)
def layer_norm_by_welford(x, weight, bias, eps):
    """A running mean for each of 32 lanes, merged by Chan's formula."""
    n = x.shape[-1]
    rows = x.reshape(x.shape[:-1].numel(), n).contiguous()
    out = torch.empty(x.shape, dtype=x.dtype)
    if x.numel():
        w, b = (None if v is None else v.contiguous() for v in (weight, bias))
        _welford[(len(rows),)](rows, w, b, out, n, eps, W=w is not None, B=b is not None, BLOCK=32)
    return out


@triton.jit
def _rotate(x, cos, sin, out, S, D, INTERLEAVED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    d = tl.arange(0, BLOCK)
    inside = d < D
    if INTERLEAVED:
        partner, pair, sign = d ^ 1, d // 2, tl.where(d % 2 == 0, -1.0, 1.0)
    else:
        partner, pair, sign = (d + D // 2) % D, d % (D // 2), tl.where(d < D // 2, -1.0, 1.0)
    own = tl.load(x + row * D + d, mask=inside, other=0.0).to(tl.float32)
    other = tl.load(x + row * D + partner, mask=inside, other=0.0).to(tl.float32)
    at = (row % S) * (D // 2) + pair
    c = tl.load(cos + at, mask=inside, other=0.0).to(tl.float32)
    s = tl.load(sin + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * D + d, (own * c + sign * (other * s)).to(out.dtype.element_ty), mask=inside)


@right(references.rope)
def rope_by_half_rotations(x, cos, sin, interleaved):
    """x·cos + rotated(x)·sin, each element with its partner."""
    out = torch.empty(x.shape, dtype=x.dtype)
    if x.numel():
        (*_, s, d) = x.shape
        constants = {"INTERLEAVED": interleaved, "BLOCK": triton.next_power_of_2(d)}
        _rotate[(x.numel() // d,)](x.contiguous(), cos.contiguous(), sin.contiguous(), out, s, d, **constants)
    return out


@triton.jit(do_not_specialize=SIZES)
def _flash(
    q, k, v, out, lse, scale, H, G, S, T, D, DV, last, window,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64)
    shared = head // H * (H // G) + head % H // G
    i = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    d, e = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    queries = tl.load(
        q + (head * S + i[:, None]) * D + d[None, :], mask=(i < S)[:, None] & (d < D)[None, :], other=0.0
    )
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_DV], tl.float32)
    for start in range(0, T, BLOCK_N):
        j = start + tl.arange(0, BLOCK_N)
        keys = tl.load(
            k + (shared * T + j[:, None]) * D + d[None, :],
            mask=(j < T)[:, None] & (d < D)[None, :],
            other=0.0,
        )
        z = tl.dot(queries, tl.trans(keys), input_precision="ieee") * (scale * LOG2E)
        z = tl.where(visible(i, j, T, last, window, CAUSAL, WINDOWED), z, -float("inf"))
        new = tl.maximum(m, tl.max(z, axis=1))
        safe = tl.where(new == -float("inf"), 0.0, new)
        alpha = tl.exp2(m - safe)
        p = tl.exp2(z - safe[:, None])
        total = total * alpha + tl.sum(p, axis=1)
        values = tl.load(
            v + (shared * T + j[:, None]) * DV + e[None, :],
            mask=(j < T)[:, None] & (e < DV)[None, :],
            other=0.0,
        )
        acc = acc * alpha[:, None] + tl.dot(p.to(values.dtype), values, input_precision="ieee")
        m = new
    mask = (i < S)[:, None] & (e < DV)[None, :]
    result = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out + (head * S + i[:, None]) * DV + e[None, :], result.to(out.dtype.element_ty), mask=mask)
    natural = tl.where(total == 0.0, -float("inf"), (m + tl.log2(total)) * LN2)
    tl.store(lse + head * S + i, natural.to(lse.dtype.element_ty), mask=i < S)


def _attention(q, k, v, scale, causal, window, kind):
    (b, h, s, d), (t, dv) = q.shape, v.shape[2:]
    out = torch.empty((b, h, s, dv), dtype=q.dtype)
    lse = torch.empty((b, h, s), dtype=kind)
    if out.numel():
        constants = {**alignment(s, t, causal, window), **tiles(s, d, dv)}
        last, width = constants.pop("last"), constants.pop("window")
        grid = (b * h, triton.cdiv(s, constants["BLOCK_M"]))
        tensors = [tensor.contiguous() for tensor in (q, k, v)]
        _flash[grid](*tensors, out, lse, scale, h, h // k.shape[1], s, t, d, dv, last, width, **constants)
    return out, lse


@right(references.attention_lse, claims={"exp": "scaled"}, why="scores are in base 2")
def attention_in_base_two(q, k, v, *, scale, causal, window):
    """Scores times scale·log2 e; the logsumexp is converted to natural in the end, in q's format."""
    return _attention(q, k, v, scale, causal, window, q.dtype)


@triton.jit
def _whole_dot(a, b, out, M, N, K, BLOCK: tl.constexpr):
    m, n = tl.program_id(0) * 16 + tl.arange(0, 16), tl.program_id(1) * 16 + tl.arange(0, 16)
    acc = tl.zeros([16, 16], tl.int32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0)
        y = tl.load(b + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0)
        acc += tl.dot(x, y)
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@right(references.matmul, formats=("int8",), why="a kernel of integers")
def matmul_of_int8_by_dot(a, b):
    """tl.dot of int8 into int32."""
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), dtype=torch.int32)
    if m and n:
        grid = (triton.cdiv(m, 16), triton.cdiv(n, 16))
        _whole_dot[grid](a.contiguous(), b.contiguous(), out, m, n, k, BLOCK=32)
    return out


@triton.jit
def _to_fp8(x, q, scales, n, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    amax = tl.zeros([BLOCK], tl.float32)
    undefined = tl.zeros([BLOCK], tl.int32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
        undefined |= (value != value).to(tl.int32)
        amax = tl.maximum(amax, tl.abs(value))
    top = tl.where(tl.max(undefined, axis=0) > 0, float("nan"), tl.max(amax, axis=0))
    scale = tl.div_rn(top, LARGEST)
    tl.store(scales + row, scale)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
        code = tl.where(scale == 0.0, 0.0, tl.div_rn(value, scale))
        code = tl.clamp(code, -LARGEST, LARGEST, propagate_nan=tl.PropagateNan.ALL)
        tl.store(q + row * n + columns, code.to(q.dtype.element_ty), mask=columns < n)


@right(references.quantize_fp8)
def quantize_fp8_by_correct_divisions(x, dtype):
    """div_rn twice, blocks of 64."""
    n = x.shape[-1]
    rows = x.reshape(x.shape[:-1].numel(), n).contiguous()
    q, scales = torch.empty(x.shape, dtype=dtype), torch.empty(x.shape[:-1], dtype=torch.float32)
    if x.numel():
        _to_fp8[(len(rows),)](rows, q, scales, n, LARGEST=torch.finfo(dtype).max, BLOCK=64)
    return q, scales


@triton.jit
def _merge(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    share = tl.where(n == 0.0, 0.0, n_b / n)
    d = mean_b - mean_a
    return mean_a + d * share, m2_a + m2_b + d * d * n_a * share, n


@triton.jit
def _variance(x, out, n, correction, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    value = tl.load(x + row * n + columns, mask=inside, other=0.0).to(tl.float32)
    count = inside.to(tl.float32)
    mean, m2, _ = tl.reduce((value, tl.zeros_like(value), count), 0, _merge)
    m2 += mean - mean  # NaN where an element is infinite
    tl.store(out + row, (m2 / tl.maximum(n - correction, 0)).to(out.dtype.element_ty))


@right(references.var, domain={"max_elements": 3000}, why="a row in one block")
def var_by_merges(x, dim, correction):
    """tl.reduce with Chan's merge of (mean, M2, count), padding lanes counting 0."""
    rows = rows_of(x, dim)
    out = torch.empty(len(rows), dtype=x.dtype)
    if len(rows):
        n = rows.shape[1]
        _variance[(len(rows),)](rows, out, n, correction, BLOCK=triton.next_power_of_2(max(n, 2)))
    return reduced(out, x, dim)


@triton.jit
def _shifted(
    x, weight, bias, out, count, each, groups, eps, W: tl.constexpr, B: tl.constexpr, BLOCK: tl.constexpr
):
    group = tl.program_id(0)
    lead = tl.arange(0, BLOCK)
    head = tl.load(x + group * count + lead, mask=lead < count, other=0.0).to(tl.float32)
    shift = tl.sum(head, axis=0) / tl.minimum(count, BLOCK)
    first, second = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        d = tl.load(x + group * count + at, mask=at < count, other=0.0).to(tl.float32) - shift
        d = tl.where(at < count, d, 0.0)
        first += d
        second += d * d
    mean = tl.sum(first, axis=0) / count
    variance = tl.sum(second, axis=0) / count - mean * mean
    scale = tl.rsqrt(tl.where(variance < 0.0, 0.0, variance) + eps)
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        y = (
            tl.load(x + group * count + at, mask=at < count, other=0.0).to(tl.float32) - shift - mean
        ) * scale
        channel = group % groups * (count // each) + at // each
        if W:
            y *= tl.load(weight + channel, mask=at < count, other=0.0).to(tl.float32)
        if B:
            y += tl.load(bias + channel, mask=at < count, other=0.0).to(tl.float32)
        tl.store(out + group * count + at, y.to(out.dtype.element_ty), mask=at < count)


@right(references.group_norm)
def group_norm_in_one_shifted_pass(x, num_groups, weight, bias, eps):
    """Both moments in one pass, of the distance from the mean of the group's first elements."""
    out = torch.empty(x.shape, dtype=x.dtype)
    if x.numel():
        samples, channels, *spatial = x.shape
        each = torch.Size(spatial).numel()
        w, b = (None if v is None else v.contiguous() for v in (weight, bias))
        _shifted[(samples * num_groups,)](
            x.contiguous(), w, b, out, channels // num_groups * each, each, num_groups, eps,
            W=w is not None, B=b is not None, BLOCK=64,
        )  # fmt: skip
    return out
