"""Matrix product of int8 operands in int32, exactly, and of fp8 operands in float32.

    acc += a[tile_m, k : k + BLOCK_K] @ b[k : k + BLOCK_K, tile_n]      (int32 or float32)

Products of two fp8 numbers are exact in float32. On an H200 the tensor cores add fp8 products with 13 bits
only, unless `max_num_imprecise_acc` says how many of them may go together: 32 here, K for each tile, added
in float32 after that. A sum of int8 products wraps around beyond K = 2^17.

Cost: 2MNK operations; reads a N / BLOCK_N times and b M / BLOCK_M times, less what the L2 cache keeps.
"""

import torch
import triton
import triton.language as tl

import references
from harness import Unsupported, subject
from kernels._tiles import SIZES, tile

RESULTS = {torch.int8: torch.int32, torch.float8_e4m3fn: torch.float32, torch.float8_e5m2: torch.float32}


@triton.jit(do_not_specialize=SIZES)
def matmul_quantized_tiles(
    a_ptr, b_ptr, out_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = out_ptr.dtype.element_ty
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K).to(tl.int64)
        a_inside = (m < M)[:, None] & (k < K)[None, :]
        b_inside = (k < K)[:, None] & (n < N)[None, :]
        a = tl.load(a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak, mask=a_inside, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn, mask=b_inside, other=0.0)
        acc = tl.dot(a, b, acc, max_num_imprecise_acc=32, out_dtype=ACC)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@subject(
    references.matmul,
    dtypes=("int8", "float8_e4m3fn", "float8_e5m2"),
    mutants={
        # [[−44, −20], [−126, 6]] @ [[24, −75], [127, −101]]: −3596 does not fit
        "stored-through-int8": ("n[None, :], acc, mask", "n[None, :], acc.to(tl.int8), mask"),
        # the same product
        "stored-through-float16": ("n[None, :], acc, mask", "n[None, :], acc.to(tl.float16), mask"),
        # K = 17: whatever stands behind the last column
        "k-unmasked": ("(m < M)[:, None] & (k < K)[None, :]", "(m < M)[:, None]"),
        # K = 17 of fp8: 0 · NaN
        "k-unmasked-in-b": ("(k < K)[:, None] & (n < N)[None, :]", "(n < N)[None, :]"),
        # K = 33
        "last-k-tile-lost": ("range(0, K, BLOCK_K)", "range(0, K - K % BLOCK_K, BLOCK_K)"),
        # a transposed
        "a-contiguous": ("m[:, None] * stride_am + k[None, :] * stride_ak", "m[:, None] * K + k[None, :]"),
        # 1 + 2^-9 …: partial sums of bfloat16; and of int8, 257
        "bfloat16-partials": (
            "acc = tl.dot(a, b, acc, max_num_imprecise_acc=32, out_dtype=ACC)",
            "acc += tl.dot(a, b, max_num_imprecise_acc=32, out_dtype=ACC).to(tl.bfloat16).to(ACC)",
        ),
        # shape (3, 2)
        "m-for-n-in-the-output": ("m[:, None] * N + n[None, :], acc", "m[:, None] * M + n[None, :], acc"),
        # any product of int8: the dtype
        "result-of-the-operands-dtype": ("dtype=RESULTS[a.dtype]", "dtype=a.dtype"),
    },
)
def matmul_quantized(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [M, K] @ b [K, N], any strides: int32 of int8 operands, float32 of fp8 operands."""
    if a.dtype not in RESULTS:
        raise Unsupported(f"int8 or fp8 operands; got {a.dtype}")
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), dtype=RESULTS[a.dtype], device=a.device)
    if out.numel():
        block_m, block_n, block_k = tile(m, n, k)
        grid = (triton.cdiv(m, block_m), triton.cdiv(n, block_n))
        matmul_quantized_tiles[grid](
            a, b, out, m, n, k, *a.stride(), *b.stride(), BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k
        )
    return out
