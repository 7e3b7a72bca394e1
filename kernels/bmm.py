"""Products of a batch of matrices, one program for each tile of each product.

    acc += a[i, tile_m, k : k + BLOCK_K] @ b[i, k : k + BLOCK_K, tile_n]      (float32; float64 for float64)

Cost: 2BMNK operations; reads a N / BLOCK_N times and b M / BLOCK_M times, less what the L2 cache keeps.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._tiles import SIZES, tile


@triton.jit(do_not_specialize=SIZES)
def bmm_tiles(
    a_ptr, b_ptr, out_ptr, M, N, K,
    stride_ab, stride_am, stride_ak, stride_bb, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if a_ptr.dtype.element_ty == tl.float64 else tl.float32
    batch = (tl.program_id(0) // tl.cdiv(M, BLOCK_M)).to(tl.int64)
    m = (tl.program_id(0) % tl.cdiv(M, BLOCK_M)).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    a_first = a_ptr + batch * stride_ab + m[:, None] * stride_am
    b_first = b_ptr + batch * stride_bb + n[None, :] * stride_bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K).to(tl.int64)
        a = tl.load(a_first + k[None, :] * stride_ak, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        b = tl.load(b_first + k[:, None] * stride_bk, mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee", out_dtype=ACC)
    out = out_ptr + batch * M * N + m[:, None] * N + n[None, :]
    tl.store(out, acc, mask=(m < M)[:, None] & (n < N)[None, :])


@subject(
    references.bmm,
    mutants={
        # shape (2, 1, 1): the second product is the first
        "batch-of-a-ignored": ("batch * stride_ab + ", ""),
        # b transposed between its matrices: shape (2, K, N) of a permuted layout
        "batches-of-b-contiguous": ("batch * stride_bb + ", "batch * K * N + "),
        # M = 17: the rows of the second tile belong to the next matrix
        "batch-by-tiles-of-n": (
            "tl.program_id(0) // tl.cdiv(M, BLOCK_M)",
            "tl.program_id(0) // tl.cdiv(N, BLOCK_N)",
        ),
        # shape (2, 2, 1): matrices of the result overlap
        "output-matrices-overlap": ("batch * M * N", "batch * N"),
        # K = 17: 0 · NaN
        "k-unmasked-in-b": ("(k < K)[:, None] & (n < N)[None, :]", "(n < N)[None, :]"),
        # 1 + 2^-10 of all ones
        "tf32": ('"ieee"', '"tf32"'),
        # 2048 + 1 + 1 + …: 2048
        "float16-accumulator": (
            'acc = tl.dot(a, b, acc, input_precision="ieee", out_dtype=ACC)',
            'acc += tl.dot(a, b, input_precision="ieee", out_dtype=ACC).to(tl.float16).to(ACC)',
        ),
        # K = 33: the second tile has only one column
        "last-k-tile-lost": ("range(0, K, BLOCK_K)", "range(0, K - 1, BLOCK_K)"),
        # shape (0, 1, 1) launches nothing, and (3, 1, 1) one matrix
        "one-matrix": ("grid = (batches * ", "grid = ("),
    },
)
def bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [B, M, K] @ b [B, K, N], any strides."""
    (batches, m, k), n = a.shape, b.shape[2]
    out = torch.empty((batches, m, n), dtype=a.dtype, device=a.device)
    if out.numel():
        block_m, block_n, block_k = tile(m, n, k)
        grid = (batches * triton.cdiv(m, block_m), triton.cdiv(n, block_n))
        bmm_tiles[grid](
            a, b, out, m, n, k, *a.stride(), *b.stride(), BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k
        )
    return out
