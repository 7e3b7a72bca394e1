"""Matrix product with K cut into parts, one program each, for results too small to fill the device.

    partials[s] = a[:, part s] @ b[part s, :]      (float32; float64 for float64)
    out         = sum of partials over s           (the one rounding to the inputs' format)

The partials stay in the accumulator's format: in float16 each would cost up to half an ulp, and one above
65504 would be infinite. There are no atomics, so that results have the same bits every time.

Cost: 2MNK operations; writes and reads SPLITS·MN partials.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._tiles import SIZES, tile

SPLITS = 4


@triton.jit(do_not_specialize=SIZES)
def matmul_parts(
    a_ptr, b_ptr, partials_ptr, M, N, K, part, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if a_ptr.dtype.element_ty == tl.float64 else tl.float32
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    split = tl.program_id(2).to(tl.int64)
    last = tl.minimum(K, (split + 1) * part)
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, part, BLOCK_K):
        k = split * part + start + tl.arange(0, BLOCK_K)
        a_inside = (m < M)[:, None] & (k < last)[None, :]
        b_inside = (k < last)[:, None] & (n < N)[None, :]
        a = tl.load(a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak, mask=a_inside, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn, mask=b_inside, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee", out_dtype=ACC)
    place = split * M * N + m[:, None] * N + n[None, :]
    tl.store(partials_ptr + place, acc, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit(do_not_specialize=("size",))
def add_parts(partials_ptr, out_ptr, size, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(partials_ptr + i, mask=i < size, other=0.0)
    for split in range(1, SPLITS):
        total += tl.load(partials_ptr + split * size.to(tl.int64) + i, mask=i < size, other=0.0)
    tl.store(out_ptr + i, total, mask=i < size)


@subject(
    references.matmul,
    mutants={
        # 1 + 2^-9 and 255 parts as large: each loses it
        "bfloat16-partials": ("else torch.float32", "else torch.bfloat16"),
        # [2^16] @ [1] of float32: infinite
        "float16-partials": ("else torch.float32", "else torch.float16"),
        # K = 64 of ones: 48
        "last-split-lost": ("range(1, SPLITS)", "range(1, SPLITS - 1)"),
        # K = 64 of ones: 80
        "first-split-twice": ("range(1, SPLITS)", "range(0, SPLITS)"),
        # K = 100: parts of 25 are read up to 32
        "parts-overlap": ("last = tl.minimum(K, (split + 1) * part)", "last = K"),
        # K = 5: parts of 1, the fifth is lost
        "part-rounded-down": ("part = max(1, triton.cdiv(k, SPLITS))", "part = max(1, k // SPLITS)"),
        # 1 + 2^-10 of all ones
        "tf32": ('"ieee"', '"tf32"'),
        # K = 160: parts of 40, of which 32 are added
        "first-tile-of-each-part": ("range(0, part, BLOCK_K)", "range(0, BLOCK_K, BLOCK_K)"),
        # M = 2: partials of one split overwrite the next one's
        "partials-collide": ("split * M * N + m[:, None] * N", "split * N + m[:, None] * N"),
        # K = 0: garbage is added
        "parts-never-computed": ("    matmul_parts[", "    if k: matmul_parts["),
        # a transposed
        "a-contiguous": ("m[:, None] * stride_am + k[None, :] * stride_ak", "m[:, None] * K + k[None, :]"),
    },
)
def matmul_split_k(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [M, K] @ b [K, N], any strides."""
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    if not out.numel():
        return out
    block_m, block_n, block_k = tile(m, n, k)
    accumulator = torch.float64 if a.dtype == torch.float64 else torch.float32
    partials = torch.empty((SPLITS, m, n), dtype=accumulator, device=a.device)
    part = max(1, triton.cdiv(k, SPLITS))
    grid = (triton.cdiv(m, block_m), triton.cdiv(n, block_n), SPLITS)
    matmul_parts[grid](
        a, b, partials, m, n, k, part, *a.stride(), *b.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
    )  # fmt: skip
    add_parts[(triton.cdiv(out.numel(), 1024),)](partials, out, out.numel(), SPLITS=SPLITS, BLOCK=1024)
    return out
