"""beta·c + alpha·(a @ b): the product in tiles, and c added in the epilogue.

    acc += a[tile_m, k : k + BLOCK_K] @ b[k : k + BLOCK_K, tile_n]      (float32; float64 for float64)
    out  = alpha · acc + beta · c                                        (rounded to the inputs' format)

Where beta is 0, c is not read: it may be memory that nobody has written, and 0 · NaN is NaN.

Cost: 2MNK operations; reads a N / BLOCK_N times, b M / BLOCK_M times, less what the L2 cache keeps, c once.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._tiles import SIZES, tile


@triton.jit(do_not_specialize=(*SIZES, "alpha", "beta"))
def addmm_tiles(
    c_ptr, a_ptr, b_ptr, out_ptr, alpha, beta, M, N, K,
    stride_cm, stride_cn, stride_am, stride_ak, stride_bk, stride_bn,
    WITH_C: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if a_ptr.dtype.element_ty == tl.float64 else tl.float32
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K).to(tl.int64)
        a_inside = (m < M)[:, None] & (k < K)[None, :]
        b_inside = (k < K)[:, None] & (n < N)[None, :]
        a = tl.load(a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak, mask=a_inside, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn, mask=b_inside, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee", out_dtype=ACC)
    inside = (m < M)[:, None] & (n < N)[None, :]
    result = acc * alpha
    if WITH_C:
        c = tl.load(c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn, mask=inside, other=0.0)
        result += c.to(ACC) * beta
    tl.store(out_ptr + m[:, None] * N + n[None, :], result, mask=inside)


@subject(
    references.addmm,
    mutants={
        # beta = 0, c NaN
        "beta-times-c-always": ("WITH_C=beta != 0", "WITH_C=True"),
        # beta = 1
        "c-ignored": ("WITH_C=beta != 0", "WITH_C=False"),
        # beta = 0.5
        "beta-ignored": ("c.to(ACC) * beta", "c.to(ACC)"),
        # alpha = 0.5
        "alpha-ignored": ("result = acc * alpha", "result = acc"),
        # beta = 1, alpha = 0.5
        "alpha-times-everything": (
            "        result += c.to(ACC) * beta\n",
            "        result += alpha * c.to(ACC) * beta\n",
        ),
        # c transposed
        "c-contiguous": ("m[:, None] * stride_cm + n[None, :] * stride_cn", "m[:, None] * N + n[None, :]"),
        # M = 17, N = 16 of c: rows read from the wrong place
        "c-strides-swapped": (
            "m[:, None] * stride_cm + n[None, :] * stride_cn",
            "m[:, None] * stride_cn + n[None, :] * stride_cm",
        ),
        # float16: half an ulp twice
        "product-rounded": (
            "result = acc * alpha",
            "result = (acc * alpha).to(out_ptr.dtype.element_ty).to(ACC)",
        ),
        # K = 17: 0 · NaN
        "k-unmasked-in-b": ("(k < K)[:, None] & (n < N)[None, :]", "(n < N)[None, :]"),
        # 1 + 2^-10 of all ones
        "tf32": ('"ieee"', '"tf32"'),
        # K = 0: beta·c is not written
        "nothing-for-k-0": ("if out.numel():", "if out.numel() and k:"),
    },
)
def addmm(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    """beta·c [M, N] + alpha·(a [M, K] @ b [K, N]), any strides; c is ignored where beta is 0."""
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    if out.numel():
        block_m, block_n, block_k = tile(m, n, k)
        grid = (triton.cdiv(m, block_m), triton.cdiv(n, block_n))
        addmm_tiles[grid](
            c, a, b, out, alpha, beta, m, n, k, *c.stride(), *a.stride(), *b.stride(),
            WITH_C=beta != 0, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        )  # fmt: skip
    return out
