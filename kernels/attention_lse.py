"""Attention and its logsumexp in one pass, from the last tile of keys to the first, as FlashAttention-3 goes.

    z   = scale·(q @ kᵀ),  −∞ where masked
    m'  = max(m, max z);   α = exp(m − m');   p = exp(z − m')
    l   = l·α + Σ p;       acc = acc·α + p.to(v's format) @ v;                m = m'
    out = acc / l;         lse = m + log l

The last tile is the one that causal cuts, so that a row may have seen no key after it: 0 is then subtracted in
place of m' = −∞, but m stays −∞, since later scores may lie so far below 0 that exp(z − 0) vanishes. A row
without any key gives 0, and −∞ as its logsumexp, which is float32 whatever the inputs.

Cost: as `attention`, and B·H·S more elements written.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._heads import SIZES, alignment, check, tiles, visible


@triton.jit(do_not_specialize=SIZES)
def attention_lse_tiles(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, H, G, S, T, D, DV, last, window,
    stride_qb, stride_qh, stride_qs, stride_qd, stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_vd,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
):  # fmt: skip
    b = (tl.program_id(0) // H).to(tl.int64)
    h = (tl.program_id(0) % H).to(tl.int64)
    i = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D).to(tl.int64)
    dv = tl.arange(0, BLOCK_DV).to(tl.int64)
    q_tile = (
        q_ptr + b * stride_qb + h * stride_qh + i[:, None].to(tl.int64) * stride_qs + d[None, :] * stride_qd
    )
    q = tl.load(q_tile, mask=(i < S)[:, None] & (d < D)[None, :], other=0.0)
    k_head = k_ptr + b * stride_kb + h // G * stride_kh
    v_head = v_ptr + b * stride_vb + h // G * stride_vh

    end = T
    if CAUSAL:
        end = tl.maximum(0, tl.minimum(T, tl.program_id(1) * BLOCK_M + BLOCK_M + last))
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_DV], tl.float32)
    for done in range(0, end, BLOCK_N):
        start = ((end - 1) // BLOCK_N) * BLOCK_N - done
        j = start + tl.arange(0, BLOCK_N)
        row = j.to(tl.int64)[:, None]
        k_inside = (j < T)[:, None] & (d < D)[None, :]
        k = tl.load(k_head + row * stride_kt + d[None, :] * stride_kd, mask=k_inside, other=0.0)
        z = scale * tl.dot(q, tl.trans(k), input_precision="ieee")
        z = tl.where(visible(i, j, T, last, window, CAUSAL, WINDOWED), z, -float("inf"))
        m_new = tl.maximum(m, tl.max(z, axis=1))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        alpha = tl.exp(m - shift)
        p = tl.exp(z - shift[:, None])
        l = l * alpha + tl.sum(p, axis=1)
        v_inside = (j < T)[:, None] & (dv < DV)[None, :]
        v = tl.load(v_head + row * stride_vt + dv[None, :] * stride_vd, mask=v_inside, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new

    out = acc / tl.where(l == 0.0, 1.0, l)[:, None]
    lse = tl.where(l == 0.0, -float("inf"), m + tl.log(l))
    place = tl.program_id(0).to(tl.int64) * S + i
    tl.store(out_ptr + place[:, None] * DV + dv[None, :], out, mask=(i < S)[:, None] & (dv < DV)[None, :])
    tl.store(lse_ptr + place, lse, mask=i < S)


@subject(
    references.attention_lse,
    mutants={
        # any row
        "lse-in-base-2": ("m + tl.log(l)", "(m + tl.log(l)) * 1.4426950408889634"),
        # the same with the logarithm alone
        "log2-of-the-sum": ("m + tl.log(l)", "m + tl.log2(l)"),
        # any row
        "lse-without-the-maximum": ("m + tl.log(l)", "tl.log(l)"),
        # bottom-right, S = 33, T = 32: row 0 is −69
        "lse-of-no-key-finite": (
            'tl.where(l == 0.0, -float("inf"), m + tl.log(l))',
            "tl.where(l == 0.0, 0.0, m) + tl.log(tl.maximum(l, 1e-30))",
        ),
        # the same row: 0
        "lse-of-no-key-zero": ('tl.where(l == 0.0, -float("inf"), m', "tl.where(l == 0.0, 0.0, m"),
        # B60: causal, scores of −200: the first tile, cut by causal, leaves 0 as the maximum
        "guard-kept-as-maximum": ("m = m_new", "m = shift"),
        # the same: −∞ − −∞ in the tile that causal cuts
        "no-key-shifted": ('tl.where(m_new == -float("inf"), 0.0, m_new)', "m_new"),
        # T = 64, falling scores
        "acc-not-rescaled": ("acc * alpha[:, None] +", "acc +"),
        # the same
        "l-not-rescaled": ("l = l * alpha", "l = l"),
        # the same: the factor of the next tile
        "alpha-upside-down": ("tl.exp(m - shift)", "tl.exp(tl.minimum(shift - m, 0.0))"),
        # T = 33: 31 keys with score 0
        "tail-keys-unmasked": ("visible(i, j, T, last", "visible(i, j, T + BLOCK_N, last"),
        # T = 33: 0 · NaN
        "tail-of-v-unmasked": ("v_inside = (j < T)[:, None] & ", "v_inside = "),
        # T = 33: NaN
        "tail-of-k-unmasked-and-added": (
            'tl.where(visible(i, j, T, last, window, CAUSAL, WINDOWED), z, -float("inf"))',
            'tl.where(visible(i, j, T, last, window, CAUSAL, WINDOWED), 0.0, -float("inf")) + z * (j < T + 1)[None, :]',
        ),
        # T = 33: the first tile is lost
        "one-tile-short": ("range(0, end, BLOCK_N)", "range(0, end - BLOCK_N + 1, BLOCK_N)"),
        # B64, bottom-right: one key too many
        "window-closed": ("visible(i, j, T, last, window", "visible(i, j, T, last, window + 1"),
        # bottom-right, S ≠ T
        "bottom-right-off-by-one": ("visible(i, j, T, last, window", "visible(i, j, T, last + 1, window"),
        # B68: H > 1, lse per batch only
        "lse-of-another-head": ("lse_ptr + place", "lse_ptr + b * S + i"),
        # B66: H = 4, Hkv = 2
        "heads-interleaved": ("h // G * stride_kh", "h % (H // G) * stride_kh"),
        # D = 16, DV = 48
        "dv-masked-by-d": (
            "v_inside = (j < T)[:, None] & (dv < DV)",
            "v_inside = (j < T)[:, None] & (dv < D)",
        ),
        # D = 24: eight columns behind k, NaN
        "d-unmasked": ("k_inside = (j < T)[:, None] & (d < D)[None, :]", "k_inside = (j < T)[:, None]"),
        # 0.1 as float16: 2.4e-5 of the scores
        "float16-scale": ("scale * tl.dot", "scale.to(tl.float16).to(tl.float32) * tl.dot"),
        # scores of q·k
        "scale-missing": ("z = scale * tl.dot", "z = tl.dot"),
        # sums of 33 and more equal weights
        "float16-sum": ("tl.sum(p, axis=1)", "tl.sum(p.to(tl.float16), axis=1)"),
        # lse to 8 bits
        "float16-maximum": (
            "m_new = tl.maximum(m, tl.max(z, axis=1))",
            "m_new = tl.maximum(m, tl.max(z, axis=1)).to(tl.float16).to(tl.float32)",
        ),
        # a mask of −1e4 in place of −∞
        "finite-mask": ('WINDOWED), z, -float("inf")', "WINDOWED), z, -1.0e4"),
        # S = 33: the last row of lse is never written
        "rows-rounded-down": ("triton.cdiv(s, constants", "max(1, s // constants"),
    },
)
def attention_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float, causal: str | None, window: int | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale·q kᵀ) v [B, H, S, DV], and the logsumexps [B, H, S], float32, of the scores.

    q [B, H, S, D], k [B, Hkv, T, D], v [B, Hkv, T, DV], any strides.
    """
    check(q, k, v)
    (batch, h, s, d), (t, dv) = q.shape, v.shape[2:]
    out = torch.empty((batch, h, s, dv), dtype=q.dtype, device=q.device)
    lse = torch.empty((batch, h, s), dtype=torch.float32, device=q.device)
    if out.numel():
        constants = {**alignment(s, t, causal, window), **tiles(s, d, dv)}
        grid = (batch * h, triton.cdiv(s, constants["BLOCK_M"]))
        attention_lse_tiles[grid](
            q, k, v, out, lse, scale, h, h // k.shape[1], s, t, d, dv, constants.pop("last"),
            constants.pop("window"), *q.stride(), *k.stride(), *v.stride(), **constants,
        )  # fmt: skip
    return out, lse
