"""The nearest of K vectors for each row of x, by |c|² − 2 x·c, the squared distance less |x|².

    score[i, j] = Σ c_j² − 2 Σ x_i c_j         in tiles over j, a loop over the vectors' elements within
    best        = (score, j), the smaller score, and of equal ones the smaller j

Masked codes have the score +inf. Products are `ieee`: what TF32 drops is more than what tells near codes
apart.

Cost: 3NKD operations; reads the codebook once for each BLOCK_N rows of x.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._tiles import tile


@triton.jit(do_not_specialize=("N", "K", "D"))
def nearest_codes(
    x_ptr, codebook_ptr, out_ptr, N, K, D, stride_xn, stride_xd, stride_ck, stride_cd,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    n = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    least = tl.full([BLOCK_N], float("inf"), ACC)
    best = tl.zeros([BLOCK_N], tl.int64)
    for first in range(0, K, BLOCK_K):
        code = first + tl.arange(0, BLOCK_K).to(tl.int64)
        products = tl.zeros([BLOCK_N, BLOCK_K], ACC)
        squares = tl.zeros([BLOCK_K], ACC)
        for start in range(0, D, BLOCK_D):
            d = start + tl.arange(0, BLOCK_D).to(tl.int64)
            x_inside = (n < N)[:, None] & (d < D)[None, :]
            c_inside = (d < D)[:, None] & (code < K)[None, :]
            x = tl.load(x_ptr + n[:, None] * stride_xn + d[None, :] * stride_xd, mask=x_inside, other=0.0)
            c = tl.load(
                codebook_ptr + code[None, :] * stride_ck + d[:, None] * stride_cd, mask=c_inside, other=0.0
            )
            products = tl.dot(x, c, products, input_precision="ieee", out_dtype=ACC)
            squares += tl.sum(c.to(ACC) * c.to(ACC), axis=0)
        score = tl.where((code < K)[None, :], squares[None, :] - 2.0 * products, float("inf"))
        tile_least = tl.min(score, axis=1)
        tile_best = first + tl.argmin(score, axis=1).to(tl.int64)
        best = tl.where(tile_least < least, tile_best, best)
        least = tl.minimum(tile_least, least)
    tl.store(out_ptr + n, best, mask=n < N)


@subject(
    references.kmeans_assign,
    mutants={
        # K = 5 of one element each, all far from 0, x = 0: eleven codes of zeros
        "codes-unmasked": ("(code < K)[None, :], squares", "(code < K + 16)[None, :], squares"),
        # x = 1, codes [1, 3]: the largest product wins
        "squares-lost": ("squares[None, :] - 2.0 * products", "-2.0 * products"),
        # x = 2, codes [1, 2]
        "product-once": ("squares[None, :] - 2.0 * products", "squares[None, :] - products"),
        # 17 equal codes: 16
        "last-tile-on-ties": ("tile_least < least", "tile_least <= least"),
        # x = −1, codes [1, −1]
        "largest": ("tl.argmin(score, axis=1)", "tl.argmax(score, axis=1)"),
        # 17 codes, the last one nearest: 0
        "index-within-the-tile": ("first + tl.argmin", "tl.argmin"),
        # 33 codes
        "last-tile-lost": ("range(0, K, BLOCK_K)", "range(0, tl.maximum(K - K % BLOCK_K, 1), BLOCK_K)"),
        # D = 33
        "last-element-lost": ("range(0, D, BLOCK_D)", "range(0, D - D % BLOCK_D, BLOCK_D)"),
        # 1 + 2^-10 against 1 and 1 + 2^-9
        "tf32": ('"ieee"', '"tf32"'),
        # codes near one another
        "bfloat16-squares": (
            "tl.sum(c.to(ACC) * c.to(ACC), axis=0)",
            "tl.sum((c * c).to(tl.bfloat16), axis=0).to(ACC)",
        ),
        # codebook transposed
        "codebook-contiguous": (
            "code[None, :] * stride_ck + d[:, None] * stride_cd",
            "code[None, :] * D + d[:, None]",
        ),
        # a running least that is never lowered
        "least-forgotten": ("least = tl.minimum(tile_least, least)", "least = tile_least"),
    },
)
def kmeans_assign(x: torch.Tensor, codebook: torch.Tensor) -> torch.Tensor:
    """int64 [N]: for each row of x [N, D], the index of the nearest row of codebook [K, D], any strides."""
    (n, d), k = x.shape, codebook.shape[0]
    out = torch.empty(n, dtype=torch.int64, device=x.device)
    if n:
        block_n, block_k, block_d = tile(n, k, d)
        nearest_codes[(triton.cdiv(n, block_n),)](
            x, codebook, out, n, k, d, *x.stride(), *codebook.stride(),
            BLOCK_N=block_n, BLOCK_K=block_k, BLOCK_D=block_d,
        )  # fmt: skip
    return out
