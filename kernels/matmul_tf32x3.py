"""Matrix product of float32 operands as three TF32 products: high·high + high·low + low·high.

    x = high + low,   high = tf32(x),   low = tf32(x − high)            (22 of the 24 bits)

The product low·low, 2^-22 of the whole, is left out. About as exact as `ieee` while K is large, three times
the work of `tf32`.

Cost: 6MNK operations; reads a N / BLOCK_N times and b M / BLOCK_M times, less what the L2 cache keeps.
"""

import torch
import triton
import triton.language as tl

import references
from harness import Unsupported, subject
from kernels._tiles import SIZES, tile


@triton.jit(do_not_specialize=SIZES)
def matmul_tf32x3_tiles(
    a_ptr, b_ptr, out_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K).to(tl.int64)
        a_inside = (m < M)[:, None] & (k < K)[None, :]
        b_inside = (k < K)[:, None] & (n < N)[None, :]
        a = tl.load(a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak, mask=a_inside, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn, mask=b_inside, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@subject(
    references.matmul,
    claims={"dot": "tf32x3"},
    dtypes=("float32",),
    mutants={
        # 1 + 2^-10 of all ones: truncated to 1
        "one-product": ('input_precision="tf32x3"', 'input_precision="tf32"'),
        # 1 + 2^-13 of all ones
        "low-part-of-a-lost": (
            'tl.dot(a, b, acc, input_precision="tf32x3")',
            'tl.dot(a.to(tl.float16).to(tl.float32), b, acc, input_precision="tf32x3")',
        ),
        # 1 + 2^-9 of all ones
        "bfloat16-b": (
            'tl.dot(a, b, acc, input_precision="tf32x3")',
            'tl.dot(a, b.to(tl.bfloat16).to(tl.float32), acc, input_precision="tf32x3")',
        ),
        # K = 17: NaN behind the last column
        "k-unmasked-in-a": ("(m < M)[:, None] & (k < K)[None, :]", "(m < M)[:, None]"),
        # K = 17: 0 · NaN
        "k-unmasked-in-b": ("(k < K)[:, None] & (n < N)[None, :]", "(n < N)[None, :]"),
        # K = 33: the last product is lost
        "last-k-tile-lost": ("range(0, K, BLOCK_K)", "range(0, K - K % BLOCK_K, BLOCK_K)"),
        # a transposed
        "a-contiguous": ("m[:, None] * stride_am + k[None, :] * stride_ak", "m[:, None] * K + k[None, :]"),
        # shape (3, 2): rows of the result leave gaps, and out of bounds
        "m-for-n-in-the-output": ("m[:, None] * N + n[None, :], acc", "m[:, None] * M + n[None, :], acc"),
    },
)
def matmul_tf32x3(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [M, K] @ b [K, N] of float32, any strides."""
    if a.dtype != torch.float32:
        raise Unsupported(f"float32 operands; got {a.dtype}")
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    if out.numel():
        block_m, block_n, block_k = tile(m, n, k)
        grid = (triton.cdiv(m, block_m), triton.cdiv(n, block_n))
        matmul_tf32x3_tiles[grid](
            a, b, out, m, n, k, *a.stride(), *b.stride(), BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k
        )
    return out
