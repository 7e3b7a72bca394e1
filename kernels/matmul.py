"""Matrix product in tiles, a loop over K, float32 operands as they are (`ieee`: one FMA chain).

    acc += a[tile_m, k : k + BLOCK_K] @ b[k : k + BLOCK_K, tile_n]      (float32; float64 for float64)
    out  = acc                                                          (rounded to the inputs' format)

Programs go through the tiles in groups of GROUP rows of tiles, column by column within a group, so that
those that run at the same time share tiles of both operands in the L2 cache; the last group has the rows
that are left. Both operands are masked along K, since what lies behind the last column of a is not zero,
and neither is what lies below b: 0 · NaN is NaN. Offsets are 64-bit.

Cost: 2MNK operations; reads a N / BLOCK_N times and b M / BLOCK_M times, less what the L2 cache keeps.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._tiles import SIZES, tile

GROUP = 4
"""Rows of tiles in a group."""


@triton.jit(do_not_specialize=SIZES)
def matmul_tiles(
    a_ptr, b_ptr, out_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if a_ptr.dtype.element_ty == tl.float64 else tl.float32
    columns = tl.cdiv(N, BLOCK_N)
    first = tl.program_id(0) // (GROUP * columns) * GROUP
    rows = tl.minimum(tl.cdiv(M, BLOCK_M) - first, GROUP)
    inside = tl.program_id(0) % (GROUP * columns)
    m = (first + inside % rows).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = (inside // rows).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K).to(tl.int64)
        a_inside = (m < M)[:, None] & (k < K)[None, :]
        b_inside = (k < K)[:, None] & (n < N)[None, :]
        a = tl.load(a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak, mask=a_inside, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn, mask=b_inside, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee", out_dtype=ACC)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@subject(
    references.matmul,
    mutants={
        # K = 17: 15 columns behind a, and rows below b, are added
        "k-unmasked-in-a": ("(m < M)[:, None] & (k < K)[None, :]", "(m < M)[:, None]"),
        # K = 17, a masked: 0 · NaN of the rows below b
        "k-unmasked-in-b": ("(k < K)[:, None] & (n < N)[None, :]", "(n < N)[None, :]"),
        # M = 1: fifteen rows below a are read
        "m-unmasked": ("a_inside = (m < M)[:, None] & ", "a_inside = "),
        # 1 + 2^-10 of all ones: truncated to 1
        "tf32": ('"ieee"', '"tf32"'),
        # 2048 + 1 + 1 + …: 2048
        "float16-accumulator": (
            'acc = tl.dot(a, b, acc, input_precision="ieee", out_dtype=ACC)',
            'acc += tl.dot(a, b, input_precision="ieee", out_dtype=ACC).to(tl.float16).to(ACC)',
        ),
        # the same sum
        "bfloat16-partials": (
            'acc = tl.dot(a, b, acc, input_precision="ieee", out_dtype=ACC)',
            'acc += tl.dot(a, b, input_precision="ieee", out_dtype=ACC).to(tl.bfloat16).to(ACC)',
        ),
        # K = 33: the last column of a and row of b are lost
        "last-k-tile-lost": ("range(0, K, BLOCK_K)", "range(0, K - K % BLOCK_K, BLOCK_K)"),
        # K = 2: 1 column
        "last-k-lost": ("(k < K)[None, :]", "(k < K - 1)[None, :]"),
        # M = 80, N = 32: five rows of tiles in groups of 4; tile (4, 1) is computed by no program
        "last-group-as-the-others": ("tl.minimum(tl.cdiv(M, BLOCK_M) - first, GROUP)", "GROUP"),
        # b transposed
        "b-contiguous": ("k[:, None] * stride_bk + n[None, :] * stride_bn", "k[:, None] * N + n[None, :]"),
        # b contiguous, and square enough to stay inside
        "b-strides-swapped": (
            "k[:, None] * stride_bk + n[None, :] * stride_bn",
            "k[:, None] * stride_bn + n[None, :] * stride_bk",
        ),
        # a[:, ::2]
        "unit-stride-of-a": ("k[None, :] * stride_ak", "k[None, :]"),
        # shape (2, 3): rows of the result overlap
        "m-for-n-in-the-output": ("m[:, None] * N + n[None, :], acc", "m[:, None] * M + n[None, :], acc"),
        # M = 17: the second row of tiles is never written
        "tiles-rounded-down": ("triton.cdiv(m, block_m) *", "max(1, m // block_m) *"),
        # K = 0: nothing is written
        "nothing-for-k-0": ("if out.numel():", "if out.numel() and k:"),
        # K = 40, from the second tile on: the first tile again
        "same-tile-of-a": ("k[None, :] * stride_ak", "(k - start)[None, :] * stride_ak"),
    },
)
def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [M, K] @ b [K, N], any strides."""
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    if out.numel():
        block_m, block_n, block_k = tile(m, n, k)
        grid = (triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)
        matmul_tiles[grid](
            a, b, out, m, n, k, *a.stride(), *b.stride(),
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=GROUP,
        )  # fmt: skip
    return out
