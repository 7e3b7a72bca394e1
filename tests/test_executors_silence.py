"""Right kernels of which the CPU executor must find nothing to say."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from harness.executors import execute
from harness.memory import allocate


def guarded(*shape):
    block = allocate(shape, torch.empty(shape).stride(), torch.float32, "cpu", fill="nan")
    block.view.copy_(torch.arange(float(block.view.numel())).reshape(shape) % 4)
    return block.view


@triton.jit
def argmax_atomic(x, key, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=float("-inf"))
    m, a = tl.max(v, 0, return_indices=True)
    tl.atomic_max(key, (m * 1000).to(tl.int64) * 100000 + (tl.program_id(0) * BLOCK + a))


@triton.jit
def histo(x, h, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.atomic_add(h + v.to(tl.int32), 1, mask=i < n)


@triton.jit
def compact(x, out, count, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    keep = (v > 0) & (i < n)
    k = keep.to(tl.int32)
    pos = tl.cumsum(k, 0) - k
    base = tl.atomic_add(count, tl.sum(k, 0))
    tl.store(out + base + pos, v, mask=keep)


@triton.jit
def found_inf(x, y, flag, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    bad = tl.max((tl.abs(v) == float("inf")).to(tl.int32), 0)
    if bad > 0:
        tl.store(flag, 1.0)
    tl.store(y + i, v, mask=i < n)


@triton.jit
def desc(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    b = tl.make_tensor_descriptor(y, [M, N], [N, 1], [BM, BN])
    b.store(
        [tl.program_id(0) * BM, tl.program_id(1) * BN], a.load([tl.program_id(0) * BM, tl.program_id(1) * BN])
    )


@triton.jit
def rope(q, cos, sin, n, H: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, H)
    a = tl.load(q + p * 2 * H + i)
    b = tl.load(q + p * 2 * H + H + i)
    c = tl.load(cos + p * H + i)
    s = tl.load(sin + p * H + i)
    tl.store(q + p * 2 * H + i, a * c - b * s)
    tl.store(q + p * 2 * H + H + i, b * c + a * s)


@triton.jit
def gqa(q, k, o, G: tl.constexpr, D: tl.constexpr):
    h = tl.program_id(0)
    d = tl.arange(0, D)
    tl.store(o + h * D + d, tl.load(q + h * D + d) * tl.load(k + (h // G) * D + d))


@triton.jit
def masked_rows(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.arange(0, BN)
    rr = r % M  # wrap rows as Triton's tutorial does
    v = tl.load(x + rr[:, None] * N + c[None, :], mask=c[None, :] < N, other=0.0)
    tl.store(y + r[:, None] * N + c[None, :], v, mask=(r[:, None] < M) & (c[None, :] < N))


def largest(x):
    key = torch.full((1,), -(2**60))
    argmax_atomic[(4,)](x, key, len(x), BLOCK=8)
    return key % 100000


def counts(x):
    h = torch.zeros(4, dtype=torch.int32)
    histo[(4,)](x, h, len(x), BLOCK=8)
    return h


def compacted(x):
    out, count = torch.empty(30), torch.zeros(1, dtype=torch.int32)
    compact[(4,)](x, out, count, len(x), BLOCK=8)
    return out[: int(count)]


def flagged(x):
    x = x.clone()
    x[3] = x[20] = float("inf")
    y, flag = torch.empty_like(x), torch.zeros(1)
    found_inf[(4,)](x, y, flag, len(x), BLOCK=8)
    return flag


def copied(x):
    y = torch.empty(5, 8)
    desc[(3, 2)](x, y, 5, 8, BM=2, BN=4)
    return y


def rotated(x):
    rope[(3,)](x, torch.ones(3, 4), torch.zeros(3, 4), 3, H=4)
    return x


def grouped(x):
    keys, out = torch.ones(2, 8), torch.empty(3, 8)
    gqa[(3,)](x, keys, out, G=2, D=8)
    return out


def wrapped(x):
    y = torch.empty(5, 6)
    masked_rows[(3,)](x, y, 5, 6, BM=2, BN=8)
    return y


RIGHT = {
    largest: ((30,), lambda x: torch.tensor([27])),
    counts: ((30,), lambda x: torch.bincount(x.int(), minlength=4).int()),
    compacted: ((30,), lambda x: x[x > 0]),
    flagged: ((30,), lambda x: torch.ones(1)),
    copied: ((5, 8), lambda x: x),
    rotated: ((3, 8), lambda x: x),
    grouped: ((3, 8), lambda x: x),
    wrapped: ((5, 6), lambda x: x),
}


@pytest.mark.parametrize("fn", RIGHT, ids=lambda fn: fn.__name__)
def test_a_right_kernel_has_no_findings(fn):
    shape, expected = RIGHT[fn]
    x = guarded(*shape)
    wanted = expected(x).clone()
    execution = execute(fn, (x,), timeout=20)
    assert execution.outcome == "returned", execution.where()
    assert torch.equal(execution.value, wanted) and execution.findings == []
