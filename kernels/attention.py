"""Attention in one pass over the keys, tile by tile, with an online softmax (FlashAttention-2, arXiv:2307.08691).

    z   = (q @ kᵀ) · scale·log2 e,  −∞ where masked                           base 2, for exp2
    m'  = max(m, max z);   α = 2^(m − m');   p = 2^(z − m')
    l   = l·α + Σ p;       acc = acc·α + p.to(v's format) @ v;                m = m'
    out = acc / l

While m' is −∞ a row has seen no key, and 0 is subtracted in its place: −∞ − −∞ is NaN. Such a row has
l = 0 and acc = 0 at the end, and gives 0. Keys behind the last one are masked in z, and loaded as 0 in v, since
0 · NaN is NaN. Tiles that no query of the block sees, because of causal or window, are not visited.

Cost: 2·S·T·(D + DV) operations a head, S/BLOCK_M times k and v from memory.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._heads import LOG2E, SIZES, alignment, check, tiles, visible


@triton.jit(do_not_specialize=SIZES)
def attention_tiles(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, H, G, S, T, D, DV, last, window,
    stride_qb, stride_qh, stride_qs, stride_qd, stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_vd,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
):  # fmt: skip
    b = (tl.program_id(1) // H).to(tl.int64)
    h = (tl.program_id(1) % H).to(tl.int64)
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D).to(tl.int64)
    dv = tl.arange(0, BLOCK_DV).to(tl.int64)
    q_tile = (
        q_ptr + b * stride_qb + h * stride_qh + i[:, None].to(tl.int64) * stride_qs + d[None, :] * stride_qd
    )
    q = tl.load(q_tile, mask=(i < S)[:, None] & (d < D)[None, :], other=0.0)
    k_head = k_ptr + b * stride_kb + h // G * stride_kh
    v_head = v_ptr + b * stride_vb + h // G * stride_vh

    begin = 0
    end = T
    if CAUSAL:
        end = tl.minimum(T, tl.program_id(0) * BLOCK_M + BLOCK_M + last)
    if WINDOWED:
        begin = tl.maximum(0, tl.program_id(0) * BLOCK_M + last - window + 1) // BLOCK_N * BLOCK_N
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_DV], tl.float32)
    for start in range(begin, end, BLOCK_N):
        j = start + tl.arange(0, BLOCK_N)
        row = j.to(tl.int64)
        k_inside = (j < T)[None, :] & (d < D)[:, None]
        k = tl.load(k_head + row[None, :] * stride_kt + d[:, None] * stride_kd, mask=k_inside, other=0.0)
        z = tl.dot(q, k, input_precision="ieee") * scale
        z = tl.where(visible(i, j, T, last, window, CAUSAL, WINDOWED), z, -float("inf"))
        m_new = tl.maximum(m, tl.max(z, axis=1))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        alpha = tl.exp2(m - shift)
        p = tl.exp2(z - shift[:, None])
        l = l * alpha + tl.sum(p, axis=1)
        v_inside = (j < T)[:, None] & (dv < DV)[None, :]
        v = tl.load(v_head + row[:, None] * stride_vt + dv[None, :] * stride_vd, mask=v_inside, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
        m = m_new

    out = acc / tl.where(l == 0.0, 1.0, l)[:, None]
    out_row = out_ptr + (tl.program_id(1).to(tl.int64) * S + i[:, None]) * DV
    tl.store(out_row + dv[None, :], out, mask=(i < S)[:, None] & (dv < DV)[None, :])


@subject(
    references.attention,
    mutants={
        # T = 33, ascending scores: the first tile counts too much
        "acc-not-rescaled": ("v, acc * alpha[:, None],", "v, acc,"),
        # the same: a normaliser too large
        "l-not-rescaled": ("l = l * alpha", "l = l"),
        # T = 17: fifteen keys with score 0
        "tail-keys-unmasked": (
            "visible(i, j, T, last, window, CAUSAL, WINDOWED)",
            "visible(i, j, T + BLOCK_N, last, window, CAUSAL, WINDOWED)",
        ),
        # T = 17: 0 · NaN
        "tail-of-v-unmasked": ("v_inside = (j < T)[:, None] & ", "v_inside = "),
        # bottom-right, S = 33, T = 32: the first row sees no key, and gets the mean of v
        "finite-mask": (
            'CAUSAL, WINDOWED), z, -float("inf")',
            "CAUSAL, WINDOWED), z, -1.0e4",
        ),
        # B58, the same row
        "largest-finite-mask": (
            'CAUSAL, WINDOWED), z, -float("inf")',
            "CAUSAL, WINDOWED), z, -3.4028234663852886e38",
        ),
        # the same row: 0 / 0
        "no-key-divided": ("tl.where(l == 0.0, 1.0, l)", "l"),
        # the same row: −∞ − −∞
        "no-key-shifted": ('tl.where(m_new == -float("inf"), 0.0, m_new)', "m_new"),
        # B60: window 5, bottom-right: a first tile without keys, then scores of −200
        "guard-kept-as-maximum": ("m = m_new", "m = shift"),
        # scores of −200: 0 / 0
        "maximum-starts-at-zero": ('BLOCK_M], -float("inf"), tl.float32', "BLOCK_M], 0.0, tl.float32"),
        # B64, window 1: two keys
        "window-includes-one-more": (
            "visible(i, j, T, last, window, CAUSAL",
            "visible(i, j, T, last, window + 1, CAUSAL",
        ),
        # causal, S = 2: query 0 sees no key
        "causal-strict": (
            "visible(i, j, T, last, window, CAUSAL",
            "visible(i, j, T, last - 1, window, CAUSAL",
        ),
        # bottom-right, S = 5, T = 7: as top-left
        "always-top-left": (
            "**alignment(s, t, causal, window)",
            "**{**alignment(s, t, causal, window), 'last': 0}",
        ),
        # bottom-right: the tiles of top-left are visited
        "end-forgets-the-alignment": ("BLOCK_M + BLOCK_M + last)", "BLOCK_M + BLOCK_M)"),
        # window 5, bottom-right: starts in the wrong tile
        "begin-one-tile-late": ("last - window + 1) // BLOCK_N", "last - window + BLOCK_N) // BLOCK_N"),
        # window without causal: every earlier and later key
        "window-needs-causal": ("causal, window), **tiles", "causal, window if causal else None), **tiles"),
        # H = 4, Hkv = 2: heads 1 and 2 exchanged
        "heads-interleaved": (
            "b * stride_vb + h // G * stride_vh",
            "b * stride_vb + h % (H // G) * stride_vh",
        ),
        # H = 4, Hkv = 2
        "keys-of-the-query-head": ("b * stride_kb + h // G * stride_kh", "b * stride_kb + h * stride_kh"),
        # D = 16, DV = 48: B66
        "dv-masked-by-d": (
            "v_inside = (j < T)[:, None] & (dv < DV)",
            "v_inside = (j < T)[:, None] & (dv < D)",
        ),
        # D = 24: NaN of eight columns behind q
        "d-unmasked": ("(i < S)[:, None] & (d < D)[None, :]", "(i < S)[:, None]"),
        # D = 64: B74
        "first-16-of-d": ("tiles(s, d, dv)", "tiles(s, min(d, 16), dv)"),
        # scores of q·k
        "scale-missing": ("scale * LOG2E", "LOG2E"),
        # scale = 0.125: 1/64
        "scale-twice": ("scale * LOG2E", "scale * scale * LOG2E"),
        # 2^(q·k)
        "base-2": ("scale * LOG2E", "scale"),
        # 1 + 2^-10 in q and k
        "tf32": ('tl.dot(q, k, input_precision="ieee")', 'tl.dot(q, k, input_precision="tf32")'),
        # v = 2^18
        "float16-accumulator": (
            "acc * alpha[:, None], input",
            "(acc * alpha[:, None]).to(tl.float16).to(tl.float32), input",
        ),
        # every float32 row
        "bfloat16-probabilities": ("tl.dot(p.to(v.dtype), v,", "tl.dot(p.to(tl.bfloat16).to(v.dtype), v,"),
        # v in (B, T, H, D) order, k contiguous
        "strides-of-k-for-v": (
            "row[:, None] * stride_vt + dv[None, :] * stride_vd",
            "row[:, None] * stride_kt + dv[None, :] * stride_kd",
        ),
        # q transposed
        "contiguous-q": ("i[:, None].to(tl.int64) * stride_qs", "i[:, None].to(tl.int64) * D"),
        # S = 33: the last row is never written
        "rows-rounded-down": ("(triton.cdiv(s, constants", "(max(1, s // constants"),
    },
)
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float, causal: str | None, window: int | None
) -> torch.Tensor:
    """softmax(scale·q kᵀ) v for q [B, H, S, D], k [B, Hkv, T, D], v [B, Hkv, T, DV], any strides."""
    check(q, k, v)
    (batch, h, s, d), (t, dv) = q.shape, v.shape[2:]
    out = torch.empty((batch, h, s, dv), dtype=q.dtype, device=q.device)
    if out.numel():
        constants = {**alignment(s, t, causal, window), **tiles(s, d, dv)}
        grid = (triton.cdiv(s, constants["BLOCK_M"]), batch * h)
        attention_tiles[grid](
            q, k, v, out, scale * LOG2E, h, h // k.shape[1], s, t, d, dv, constants.pop("last"),
            constants.pop("window"), *q.stride(), *k.stride(), *v.stride(), **constants,
        )  # fmt: skip
    return out
