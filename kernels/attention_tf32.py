"""Attention whose products are TF32 where the inputs are float32: both passes over the keys on tensor cores.

Two passes instead of rescaling: the first finds the largest score of every query, the second adds up

    l = Σ exp(z − m);    acc = Σ exp(z − m).to(v's format) @ v;    out = acc / l

The operands of both products are truncated to 11 bits, q and k as well as exp(z − m) and v: the claim. As both
passes compute the same scores, exp(z − m) is at most 1 whatever their errors.

Cost: 2·S·T·(2D + DV) operations a head, and k twice from memory.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._heads import SIZES, alignment, check, tiles, visible


@triton.jit
def scores(q, k_head, start, i, d, scale, T, D, last, window, stride_kt, stride_kd,
           CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    """Scores of a tile of keys from ``start`` on, −∞ where masked, and the numbers of the keys."""
    j = start + tl.arange(0, BLOCK_N)
    k_inside = (j < T)[:, None] & (d < D)[None, :]
    k_tile = k_head + j.to(tl.int64)[:, None] * stride_kt + d[None, :] * stride_kd
    k = tl.load(k_tile, mask=k_inside, other=0.0)
    z = tl.dot(q, tl.trans(k), input_precision="tf32") * scale
    return tl.where(visible(i, j, T, last, window, CAUSAL, WINDOWED), z, -float("inf")), j


@triton.jit(do_not_specialize=SIZES)
def attention_tf32_tiles(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, H, G, S, T, D, DV, last, window,
    stride_qb, stride_qh, stride_qs, stride_qd, stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_vd,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
):  # fmt: skip
    b = (tl.program_id(2)).to(tl.int64)
    h = (tl.program_id(1)).to(tl.int64)
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D).to(tl.int64)
    dv = tl.arange(0, BLOCK_DV).to(tl.int64)
    q_tile = (
        q_ptr + b * stride_qb + h * stride_qh + i[:, None].to(tl.int64) * stride_qs + d[None, :] * stride_qd
    )
    q = tl.load(q_tile, mask=(i < S)[:, None] & (d < D)[None, :], other=0.0)
    k_head = k_ptr + b * stride_kb + h // G * stride_kh
    v_head = v_ptr + b * stride_vb + h // G * stride_vh

    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    for start in range(0, T, BLOCK_N):
        z, _ = scores(
            q, k_head, start, i, d, scale, T, D, last, window, stride_kt, stride_kd, CAUSAL, WINDOWED, BLOCK_N
        )
        m = tl.maximum(m, tl.max(z, axis=1))
    m = tl.where(m == -float("inf"), 0.0, m)

    l = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_DV], tl.float32)
    for start in range(0, T, BLOCK_N):
        z, j = scores(
            q, k_head, start, i, d, scale, T, D, last, window, stride_kt, stride_kd, CAUSAL, WINDOWED, BLOCK_N
        )
        p = tl.exp(z - m[:, None])
        l += tl.sum(p, axis=1)
        v_inside = (j < T)[:, None] & (dv < DV)[None, :]
        v_tile = v_head + j.to(tl.int64)[:, None] * stride_vt + dv[None, :] * stride_vd
        v = tl.load(v_tile, mask=v_inside, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="tf32")

    out = acc / tl.where(l == 0.0, 1.0, l)[:, None]
    place = (b * H + h) * S + i
    tl.store(out_ptr + place[:, None] * DV + dv[None, :], out, mask=(i < S)[:, None] & (dv < DV)[None, :])


@subject(
    references.attention,
    claims={"dot": "tf32"},
    mutants={
        # 1 + 2^-9 in q and k
        "bfloat16-queries": (
            "tl.dot(q, tl.trans(k), ",
            "tl.dot(q.to(tl.bfloat16), tl.trans(k).to(tl.bfloat16), ",
        ),
        # the same in v
        "bfloat16-values": (
            "tl.dot(p.to(v.dtype), v, acc",
            "tl.dot(p.to(tl.bfloat16), v.to(tl.bfloat16), acc",
        ),
        # T = 33, ascending scores: exp overflows
        "maximum-of-the-first-tile": (
            "m = tl.maximum(m, tl.max(z, axis=1))",
            "m = tl.where(start == 0, tl.max(z, axis=1), m)",
        ),
        # scores of 200
        "no-maximum": ("m = tl.maximum(m, tl.max(z, axis=1))", "m = tl.maximum(m * 0.0, 0.0)"),
        # the largest of the tile: other rows are 0 / 0
        "maximum-of-the-tile": ("m = tl.maximum(m, tl.max(z, axis=1))", "m = tl.maximum(m, tl.max(z))"),
        # a query without a key: −∞ − −∞
        "no-key-shifted": ('m = tl.where(m == -float("inf"), 0.0, m)\n', ""),
        # the same: 0 / 0
        "no-key-divided": ("tl.where(l == 0.0, 1.0, l)", "l"),
        # the same: mean(v)
        "finite-mask": ('z, -float("inf")), j', "z, -1.0e4), j"),
        # T = 17
        "tail-keys-unmasked": ("visible(i, j, T, last", "visible(i, j, T + BLOCK_N, last"),
        # T = 17
        "tail-of-v-unmasked": ("v_inside = (j < T)[:, None] & ", "v_inside = "),
        # D = 24: NaN
        "d-unmasked": ("(j < T)[:, None] & (d < D)[None, :]", "(j < T)[:, None]"),
        # v = 2^18
        "float16-accumulator": (
            "tl.dot(p.to(v.dtype), v, acc,",
            "tl.dot(p.to(v.dtype), v, acc.to(tl.float16).to(tl.float32),",
        ),
        # H = 4, Hkv = 2
        "heads-interleaved": ("h // G * stride_vh", "h % (H // G) * stride_vh"),
        # window 1: none
        "window-one-less": ("visible(i, j, T, last, window,", "visible(i, j, T, last, window - 1,"),
        # bottom-right
        "alignment-lost": ('constants.pop("last")', '0 * constants.pop("last")'),
        # k transposed
        "contiguous-k": ("j.to(tl.int64)[:, None] * stride_kt", "j.to(tl.int64)[:, None] * D"),
        # B = 2
        "batch-stride-of-k": ("b * stride_vb", "b * stride_kb"),
    },
)
def attention_tf32(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float, causal: str | None, window: int | None
) -> torch.Tensor:
    """softmax(scale·q kᵀ) v for q [B, H, S, D], k [B, Hkv, T, D], v [B, Hkv, T, DV], any strides."""
    check(q, k, v)
    (batch, h, s, d), (t, dv) = q.shape, v.shape[2:]
    out = torch.empty((batch, h, s, dv), dtype=q.dtype, device=q.device)
    if out.numel():
        constants = {**alignment(s, t, causal, window), **tiles(s, d, dv)}
        grid = (triton.cdiv(s, constants["BLOCK_M"]), h, batch)
        attention_tf32_tiles[grid](
            q, k, v, out, scale, h, h // k.shape[1], s, t, d, dv, constants.pop("last"),
            constants.pop("window"), *q.stride(), *k.stride(), *v.stride(), **constants,
        )  # fmt: skip
    return out
