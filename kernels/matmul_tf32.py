"""Matrix product of float32 operands on tensor cores, as TF32: their last 13 bits are dropped.

    acc += tf32(a[tile_m, k : k + BLOCK_K]) @ tf32(b[k : k + BLOCK_K, tile_n])      (float32)

tf32(x) truncates x to 11 significant bits on an H200, so that each operand may err by 2^-10 of itself. That
is `tl.dot`'s default and some eight times as fast as `ieee`; float16 and bfloat16 operands lose nothing.

Cost: 2MNK operations; reads a N / BLOCK_N times and b M / BLOCK_M times, less what the L2 cache keeps.
"""

import torch
import triton
import triton.language as tl

import references
from harness import Unsupported, subject
from kernels._tiles import SIZES, tile


@triton.jit(do_not_specialize=SIZES)
def matmul_tf32_tiles(
    a_ptr, b_ptr, out_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K).to(tl.int64)
    ahead = tl.full((), BLOCK_K, tl.int64)
    a_tile = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    b_tile = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        left = k < K - start
        a = tl.load(a_tile, mask=(m < M)[:, None] & left[None, :], other=0.0)
        b = tl.load(b_tile, mask=left[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision="tf32")
        a_tile += ahead * stride_ak
        b_tile += ahead * stride_bk
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@subject(
    references.matmul,
    claims={"dot": "tf32"},
    mutants={
        # 1 + 2^-9 of all ones: bfloat16 has 8 bits
        "bfloat16-operands": ("tl.dot(a, b, acc", "tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16), acc"),
        # 2048 + 1 + 1 + …: 2048
        "float16-accumulator": (
            'acc = tl.dot(a, b, acc, input_precision="tf32")',
            'acc += tl.dot(a, b, input_precision="tf32").to(tl.float16).to(tl.float32)',
        ),
        # K = 17: NaN behind the last column
        "k-unmasked-in-a": ("(m < M)[:, None] & left[None, :]", "(m < M)[:, None]"),
        # K = 17: 0 · NaN
        "k-unmasked-in-b": ("left[:, None] & (n < N)[None, :]", "(n < N)[None, :]"),
        # K = 40: columns 8 to 39 in place of 32 to 39
        "mask-of-the-first-tile": ("left = k < K - start", "left = k < K"),
        # K = 40: the first tile of b twice
        "b-stands-still": ("        b_tile += ahead * stride_bk\n", ""),
        # b transposed
        "advance-by-the-wrong-stride": ("b_tile += ahead * stride_bk", "b_tile += ahead * stride_bn"),
        # K = 64: the second tile is lost
        "one-tile-short": ("range(0, K, BLOCK_K)", "range(0, tl.maximum(K - BLOCK_K, 1), BLOCK_K)"),
        # N = 17: the second column of tiles is never written
        "tiles-rounded-down": ("triton.cdiv(n, block_n))", "max(1, n // block_n))"),
    },
)
def matmul_tf32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [M, K] @ b [K, N], any strides; operands of float32 are truncated to TF32."""
    if a.dtype == torch.float64:
        raise Unsupported("float64 has no TF32 product; use matmul")
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    if out.numel():
        block_m, block_n, block_k = tile(m, n, k)
        grid = (triton.cdiv(m, block_m), triton.cdiv(n, block_n))
        matmul_tf32_tiles[grid](
            a, b, out, m, n, k, *a.stride(), *b.stride(), BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k
        )
    return out
