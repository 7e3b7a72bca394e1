"""Matrix products that need a claim: tl.dot's default precision, and fp8 on Hopper."""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

from harness.executors.profile import TensorCore
from harness.executors.tensor_core import blocks


@triton.jit
def _tile(
    a, b, out, M, N, K, am, ak, bk, bn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    m, n = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(
            a + m[:, None] * am + k[None, :] * ak, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0
        )
        y = tl.load(
            b + k[:, None] * bk + n[None, :] * bn, mask=(k < K)[:, None] & (n < N)[None, :], other=0.0
        )
        acc = tl.dot(x, y, acc)
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


def one_tile(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [M, K] @ b [K, N] by one program."""
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype)
    if m and n:
        side_m, side_n = (max(16, triton.next_power_of_2(side)) for side in (m, n))
        strides = *a.stride(), *b.stride()
        _tile[(1,)](a, b, out, m, n, k, *strides, BLOCK_M=side_m, BLOCK_N=side_n, BLOCK_K=32)
    return out


def short_accumulator(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """fp8 a [M, K] @ b [K, N] in float32, as an H200 adds it: 32 products at a time, 13 bits behind the largest."""
    zeros = np.zeros((a.shape[0], b.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        return torch.from_numpy(blocks(a.float().numpy(), b.float().numpy(), zeros, TensorCore(32, 13)))
