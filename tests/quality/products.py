"""A matrix product in one tile, of tl.dot's default precision."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


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
