"""The subjects of Triton's tutorials, written anew, and launchers for them: test subjects of the executor."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    tl.store(out + index, tl.load(x + index, mask=mask) + tl.load(y + index, mask=mask), mask=mask)


def vector_add(x, y):
    out = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(len(x), meta["BLOCK"]),)](x, y, out, len(x), BLOCK=64)
    return out


@triton.jit
def softmax_kernel(out, x, out_stride, stride, rows, columns, BLOCK: tl.constexpr):
    """Each program takes every num_programs-th row."""
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        index = tl.arange(0, BLOCK)
        mask = index < columns
        value = tl.load(x + row * stride + index, mask=mask, other=-float("inf"))
        value = tl.exp(value - tl.max(value, axis=0))
        tl.store(out + row * out_stride + index, value / tl.sum(value, axis=0), mask=mask)


def softmax(x):
    out = torch.empty_like(x)
    rows, columns = x.shape
    softmax_kernel[(5,)](
        out, x, out.stride(0), x.stride(0), rows, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8
    )
    return out


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


CONFIGS = [
    triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 2}, num_warps=4),
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 1}, num_warps=8),
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    """Tiles in groups of rows, so that what a group reads stays in the cache."""
    program = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    first = program // in_group * GROUP_M
    size = min(tiles_m - first, GROUP_M)
    tile_m = first + (program % in_group) % size
    tile_n = (program % in_group) // size
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    inner = tl.arange(0, BLOCK_K)
    x = a + (rows[:, None] * stride_am + inner[None, :] * stride_ak)
    y = b + (inner[:, None] * stride_bk + columns[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = tl.load(x, mask=inner[None, :] < K - k * BLOCK_K, other=0.0)
        right = tl.load(y, mask=inner[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(left, right, acc)
        x += BLOCK_K * stride_ak
        y += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        acc = leaky_relu(acc)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    target = c + stride_cm * rows[:, None] + stride_cn * columns[None, :]
    tl.store(target, acc.to(c.dtype.element_ty), mask=mask)


def matmul(a, b, activation=""):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype)
    matmul_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), ACTIVATION=activation
    )
    return c


@triton.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    kept = tl.rand(seed, index) > p
    tl.store(out + index, tl.where(kept, tl.load(x + index, mask=mask) / (1 - p), 0.0), mask=mask)


def dropout(x, p, seed):
    out = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(len(x), 128),)](x, out, len(x), p, seed, BLOCK=128)
    return out


@triton.jit
def layer_norm_kernel(x, y, w, b, mean_out, rstd_out, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    y += row * stride
    x += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        index = start + tl.arange(0, BLOCK)
        total += tl.load(x + index, mask=index < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        index = start + tl.arange(0, BLOCK)
        value = tl.load(x + index, mask=index < columns, other=0.0).to(tl.float32)
        value = tl.where(index < columns, value - mean, 0.0)
        squares += value * value
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for start in range(0, columns, BLOCK):
        index = start + tl.arange(0, BLOCK)
        mask = index < columns
        value = tl.load(x + index, mask=mask, other=0.0).to(tl.float32)
        scale, shift = tl.load(w + index, mask=mask), tl.load(b + index, mask=mask)
        tl.store(y + index, (value - mean) * rstd * scale + shift, mask=mask)


@triton.jit
def layer_norm_backward_kernel(
    dx, dy, dw, db, x, w, mean_in, rstd_in, lock, stride, columns, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):
    """dx of one row; its share of dw and db goes into one of GROUPS partial sums, under that sum's lock."""
    row, index = tl.program_id(0), tl.arange(0, BLOCK)
    mask = index < columns
    value = tl.load(x + row * stride + index, mask=mask, other=0).to(tl.float32)
    gradient = tl.load(dy + row * stride + index, mask=mask, other=0).to(tl.float32)
    scale = tl.load(w + index, mask=mask, other=0.0).to(tl.float32)
    mean, rstd = tl.load(mean_in + row), tl.load(rstd_in + row)
    normal = tl.where(mask, (value - mean) * rstd, 0.0)
    scaled = tl.where(mask, scale * gradient, 0.0)
    first = tl.sum(normal * scaled, axis=0) / columns
    second = tl.sum(scaled, axis=0) / columns
    tl.store(dx + row * stride + index, (scaled - (normal * first + second)) * rstd, mask=mask)
    group = row % GROUPS
    lock += group
    used = lock + GROUPS
    dw, db = dw + group * columns + index, db + group * columns + index
    partial_w, partial_b = gradient * normal, gradient
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(used) == 0:
        tl.atomic_xchg(used, 1)
    else:
        partial_w += tl.load(dw, mask=mask)
        partial_b += tl.load(db, mask=mask)
    tl.store(dw, partial_w, mask=mask)
    tl.store(db, partial_b, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def layer_norm_sum_kernel(
    dw, db, dw_out, db_out, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    index = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    sum_w, sum_b = tl.zeros((BLOCK_M, BLOCK_N), tl.float32), tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, rows, BLOCK_M):
        row = start + tl.arange(0, BLOCK_M)
        mask = (row[:, None] < rows) & (index[None, :] < columns)
        at = row[:, None] * columns + index[None, :]
        sum_w += tl.load(dw + at, mask=mask, other=0.0)
        sum_b += tl.load(db + at, mask=mask, other=0.0)
    tl.store(dw_out + index, tl.sum(sum_w, axis=0), mask=index < columns)
    tl.store(db_out + index, tl.sum(sum_b, axis=0), mask=index < columns)


def layer_norm(x, w, b, dy, eps=1e-5, groups=4):
    """y, dx, dw, db"""
    rows, columns = x.shape
    y, dx = torch.empty_like(x), torch.empty_like(x)
    mean, rstd = torch.empty(rows), torch.empty(rows)
    layer_norm_kernel[(rows,)](x, y, w, b, mean, rstd, x.stride(0), columns, eps, BLOCK=64)
    locks = torch.zeros(2 * groups, dtype=torch.int32)
    partial_w, partial_b = torch.zeros(groups, columns), torch.zeros(groups, columns)
    block = triton.next_power_of_2(columns)
    layer_norm_backward_kernel[(rows,)](
        dx,
        dy,
        partial_w,
        partial_b,
        x,
        w,
        mean,
        rstd,
        locks,
        x.stride(0),
        columns,
        GROUPS=groups,
        BLOCK=block,
    )
    dw, db = torch.empty_like(w), torch.empty_like(b)
    layer_norm_sum_kernel[(triton.cdiv(columns, 32),)](
        partial_w, partial_b, dw, db, min(groups, rows), columns, BLOCK_M=32, BLOCK_N=32
    )
    return y, dx, dw, db


@triton.jit
def attention_kernel(
    q, k, v, out, lse, scale, S, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    """q, k, v, out [heads, S, D]; lse [heads, S], base 2."""
    block, head = tl.program_id(0), tl.program_id(1)
    rows, axis = block * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    base = head * S * D
    at = base + rows[:, None] * D + axis[None, :]
    inside = rows < S
    query = tl.load(q + at, mask=inside[:, None], other=0.0)
    largest = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.full([BLOCK_M], 1.0, tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    scale *= 1.44269504
    stop = min((block + 1) * BLOCK_M, S) if CAUSAL else S
    for start in range(0, stop, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        key = tl.load(k + base + columns[None, :] * D + axis[:, None], mask=columns[None, :] < S, other=0.0)
        score = tl.dot(query, key, input_precision="ieee") * scale
        seen = columns[None, :] < S
        if CAUSAL:
            seen &= columns[None, :] <= rows[:, None]
        score = tl.where(seen, score, -1e30)
        new = tl.maximum(largest, tl.max(score, 1))
        p = tl.math.exp2(score - new[:, None])
        alpha = tl.math.exp2(largest - new)
        total = total * alpha + tl.sum(p, 1)
        value = tl.load(v + base + columns[:, None] * D + axis[None, :], mask=columns[:, None] < S, other=0.0)
        acc = tl.dot(p.to(value.dtype), value, acc * alpha[:, None], input_precision="ieee")
        largest = new
    tl.store(lse + head * S + rows, largest + tl.math.log2(total), mask=inside)
    tl.store(out + at, (acc / total[:, None]).to(out.dtype.element_ty), mask=inside[:, None])


@triton.jit
def attention_delta_kernel(out, do, delta, S, D: tl.constexpr, BLOCK: tl.constexpr):
    rows, axis = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    head = tl.program_id(1)
    at = head * S * D + rows[:, None] * D + axis[None, :]
    mask = rows[:, None] < S
    product = tl.load(out + at, mask=mask, other=0.0) * tl.load(do + at, mask=mask, other=0.0)
    tl.store(delta + head * S + rows, tl.sum(product, axis=1), mask=rows < S)


@triton.jit
def attention_backward_kernel(
    q, k, v, do, lse, delta, dq, dk, dv, scale, S, D: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr
):
    """dk and dv of one block of keys, and its share of every dq, added atomically."""
    block, head = tl.program_id(0), tl.program_id(1)
    columns, axis = block * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    base = head * S * D
    at = base + columns[:, None] * D + axis[None, :]
    inside = columns[:, None] < S
    key, value = tl.load(k + at, mask=inside, other=0.0), tl.load(v + at, mask=inside, other=0.0)
    grad_k, grad_v = tl.zeros([BLOCK, D], tl.float32), tl.zeros([BLOCK, D], tl.float32)
    for start in range(block * BLOCK if CAUSAL else 0, S, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        here = base + rows[:, None] * D + axis[None, :]
        mask = rows[:, None] < S
        query, grad = tl.load(q + here, mask=mask, other=0.0), tl.load(do + here, mask=mask, other=0.0)
        log_sum = tl.load(lse + head * S + rows, mask=rows < S, other=0.0)
        dots = tl.load(delta + head * S + rows, mask=rows < S, other=0.0)
        score = tl.dot(query, tl.trans(key), input_precision="ieee") * (scale * 1.44269504)
        seen = mask & (columns[None, :] < S)
        if CAUSAL:
            seen &= columns[None, :] <= rows[:, None]
        p = tl.where(seen, tl.math.exp2(score - log_sum[:, None]), 0.0)
        grad_v += tl.dot(tl.trans(p), grad, input_precision="ieee")
        ds = p * (tl.dot(grad, tl.trans(value), input_precision="ieee") - dots[:, None]) * scale
        grad_k += tl.dot(tl.trans(ds), query, input_precision="ieee")
        tl.atomic_add(dq + here, tl.dot(ds, key, input_precision="ieee"), mask=mask)
    tl.store(dk + at, grad_k, mask=inside)
    tl.store(dv + at, grad_v, mask=inside)


def attention(q, k, v, do, causal=True):
    """out, dq, dk, dv for [heads, S, D]"""
    heads, S, D = q.shape
    out, dk, dv, dq = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), torch.zeros_like(q)
    lse, delta = torch.empty(heads, S), torch.empty(heads, S)
    grid = (triton.cdiv(S, 32), heads)
    attention_kernel[grid](q, k, v, out, lse, D**-0.5, S, D=D, BLOCK_M=32, BLOCK_N=16, CAUSAL=causal)
    attention_delta_kernel[grid](out, do, delta, S, D=D, BLOCK=32)
    attention_backward_kernel[grid](
        q, k, v, do, lse, delta, dq, dk, dv, D**-0.5, S, D=D, BLOCK=32, CAUSAL=causal
    )
    return out, dq, dk, dv


@triton.jit
def grouped_kernel(
    a_table, b_table, c_table, sizes, strides, groups, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr
):
    """Tiles of many products, dealt out to a fixed number of programs."""
    tile = tl.program_id(0)
    finished = 0
    for group in range(groups):
        M, N, K = tl.load(sizes + group * 3), tl.load(sizes + group * 3 + 1), tl.load(sizes + group * 3 + 2)
        tiles_n = tl.cdiv(N, BLOCK)
        tiles = tl.cdiv(M, BLOCK) * tiles_n
        while tile >= finished and tile < finished + tiles:
            lda, ldb = tl.load(strides + group * 3), tl.load(strides + group * 3 + 1)
            ldc = tl.load(strides + group * 3 + 2)
            a = tl.load(a_table + group).to(tl.pointer_type(tl.float16))
            b = tl.load(b_table + group).to(tl.pointer_type(tl.float16))
            c = tl.load(c_table + group).to(tl.pointer_type(tl.float16))
            inside = tile - finished
            rows = inside // tiles_n * BLOCK + tl.arange(0, BLOCK)
            columns = inside % tiles_n * BLOCK + tl.arange(0, BLOCK)
            inner = tl.arange(0, BLOCK)
            acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
            for start in range(0, K, BLOCK):
                depth = start + inner
                x = tl.load(a + rows[:, None] * lda + depth[None, :],
                            mask=(rows[:, None] < M) & (depth[None, :] < K), other=0.0)  # fmt: skip
                y = tl.load(b + depth[:, None] * ldb + columns[None, :],
                            mask=(depth[:, None] < K) & (columns[None, :] < N), other=0.0)  # fmt: skip
                acc += tl.dot(x, y)
            mask = (rows[:, None] < M) & (columns[None, :] < N)
            tl.store(c + rows[:, None] * ldc + columns[None, :], acc.to(tl.float16), mask=mask)
            tile += PROGRAMS
        finished = finished + tiles


def grouped(lefts, rights):
    outs = [torch.empty(a.shape[0], b.shape[1], dtype=a.dtype) for a, b in zip(lefts, rights, strict=True)]
    tables = [torch.tensor([t.data_ptr() for t in group]) for group in (lefts, rights, outs)]
    pairs = list(zip(lefts, rights, strict=True))
    sizes = torch.tensor([[len(a), b.shape[1], a.shape[1]] for a, b in pairs], dtype=torch.int32)
    strides = [[a.stride(0), b.stride(0), c.stride(0)] for (a, b), c in zip(pairs, outs, strict=True)]
    strides = torch.tensor(strides, dtype=torch.int32)
    grouped_kernel[(3,)](*tables, sizes, strides, len(lefts), PROGRAMS=3, BLOCK=16)
    return outs
