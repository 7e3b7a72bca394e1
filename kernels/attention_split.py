"""Attention of few queries to many keys, the keys split among programs (flash decoding), and a merge.

Part s of the keys gives a normalised result and its logsumexp, both float32, in base 2:

    o_s = Σ p @ v / Σ p;    e_s = m + log2 Σ p                       0 and −∞ where it has no visible key
    out = Σ_s 2^(e_s − max e)·o_s / Σ_s 2^(e_s − max e)

All query heads that read one key head are rows of the same tile, G·S of them, so that a key is loaded once
for all. The parts are whole tiles of keys, so that none is empty but the last ones.

Cost: 2·S·T·(D + DV) operations a head; k and v are read once for G·S <= BLOCK_M queries; PARTS·(DV + 1)
float32 a query written and read again.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._heads import LOG2E, SIZES, alignment, check, tiles, visible

PARTS = 4
"""Parts of the keys, at most: one for each program of a key head."""


@triton.jit(do_not_specialize=(*SIZES, "part"))
def attention_parts(
    q_ptr, k_ptr, v_ptr, partial_ptr, lse_ptr, scale, H, G, S, T, D, DV, part, last, window,
    stride_qb, stride_qh, stride_qs, stride_qd, stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_vd,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
):  # fmt: skip
    b = (tl.program_id(0) // (H // G)).to(tl.int64)
    head = (tl.program_id(0) % (H // G)).to(tl.int64)
    row = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = row < G * S
    h = head * G + row // S
    i = row % S
    d = tl.arange(0, BLOCK_D).to(tl.int64)
    dv = tl.arange(0, BLOCK_DV).to(tl.int64)
    q_row = q_ptr + b * stride_qb + h * stride_qh + i.to(tl.int64) * stride_qs
    q = tl.load(q_row[:, None] + d[None, :] * stride_qd, mask=inside[:, None] & (d < D)[None, :], other=0.0)
    k_head = k_ptr + b * stride_kb + head * stride_kh
    v_head = v_ptr + b * stride_vb + head * stride_vh

    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_DV], tl.float32)
    first = tl.program_id(2) * part
    for start in range(first, tl.minimum(first + part, T), BLOCK_N):
        j = start + tl.arange(0, BLOCK_N)
        key = j.to(tl.int64)
        k_inside = (j < T)[None, :] & (d < D)[:, None]
        k = tl.load(k_head + key[None, :] * stride_kt + d[:, None] * stride_kd, mask=k_inside, other=0.0)
        z = tl.dot(q, k, input_precision="ieee") * scale
        z = tl.where(visible(i, j, T, last, window, CAUSAL, WINDOWED), z, -float("inf"))
        m_new = tl.maximum(m, tl.max(z, axis=1))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        alpha = tl.exp2(m - shift)
        p = tl.exp2(z - shift[:, None])
        l = l * alpha + tl.sum(p, axis=1)
        v_inside = (j < T)[:, None] & (dv < DV)[None, :]
        v = tl.load(v_head + key[:, None] * stride_vt + dv[None, :] * stride_vd, mask=v_inside, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
        m = m_new

    total = tl.where(l == 0.0, 1.0, l)
    place = (tl.program_id(2).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)) * G * S + row
    tl.store(partial_ptr + place[:, None] * DV + dv[None, :], acc / total[:, None],
             mask=inside[:, None] & (dv < DV)[None, :])  # fmt: skip
    tl.store(lse_ptr + place, m + tl.log2(total), mask=inside)


@triton.jit(do_not_specialize=("rows", "DV"))
def attention_merge(
    partial_ptr, lse_ptr, out_ptr, rows, DV,
    PARTS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_DV: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    dv = tl.arange(0, BLOCK_DV).to(tl.int64)
    inside = (row < rows)[:, None] & (dv < DV)[None, :]
    highest = tl.full([BLOCK_M], -float("inf"), tl.float32)
    for s in range(PARTS):
        highest = tl.maximum(highest, tl.load(lse_ptr + s * rows + row, mask=row < rows, other=-float("inf")))
    shift = tl.where(highest == -float("inf"), 0.0, highest)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_DV], tl.float32)
    for s in range(PARTS):
        weight = tl.exp2(tl.load(lse_ptr + s * rows + row, mask=row < rows, other=-float("inf")) - shift)
        part = tl.load(partial_ptr + (s * rows + row)[:, None] * DV + dv[None, :], mask=inside, other=0.0)
        total += weight
        acc += weight[:, None] * part
    out = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out_ptr + row[:, None] * DV + dv[None, :], out, mask=inside)


@subject(
    references.attention,
    mutants={
        # T = 65: parts counted as equal
        "parts-not-weighted": ("acc += weight[:, None] * part", "acc += part"),
        # the same: divided by the number of parts
        "merge-divides-by-the-parts": (
            "tl.where(total == 0.0, 1.0, total)[:, None]\n    tl.store(out_ptr",
            "PARTS\n    tl.store(out_ptr",
        ),
        # scores of 200: 2^288
        "merge-without-the-maximum": ('tl.where(highest == -float("inf"), 0.0, highest)', "highest * 0.0"),
        # bottom-right, S = 33, T = 32, row 0: −∞ − −∞
        "merge-shifts-by-minus-infinity": ('tl.where(highest == -float("inf"), 0.0, highest)', "highest"),
        # the same row: 0 / 0
        "no-key-divided": ("tl.where(total == 0.0, 1.0, total)", "total"),
        # a part that causal hides from a row: −∞ − −∞
        "no-key-in-a-tile": ('tl.where(m_new == -float("inf"), 0.0, m_new)', "m_new"),
        # the same: 0 / 0
        "no-key-in-a-part": ("tl.where(l == 0.0, 1.0, l)", "l"),
        # B60: such a tile, then scores of −200
        "guard-kept-as-maximum": ("m = m_new", "m = shift"),
        # T = 17: e natural, 2 to the power of it
        "lse-in-two-bases": ("m + tl.log2(total)", "m + tl.log(total)"),
        # the sum is lost
        "lse-without-the-sum": ("m + tl.log2(total)", "m"),
        # B68: parts of other rows
        "lse-of-another-part": (
            "tl.store(lse_ptr + place",
            "tl.store(lse_ptr + place // (G * S) * (G * S) + row % S",
        ),
        # T = 129: the last part is lost
        "one-part-fewer": (
            "    for s in range(PARTS):\n        weight",
            "    for s in range(PARTS - 1):\n        weight",
        ),
        # T = 129: keys of the next part twice
        "parts-overlap": ("tl.minimum(first + part, T)", "tl.minimum(first + part + BLOCK_N, T)"),
        # T = 65: parts of 17 keys in tiles of 32 overlap
        "parts-of-broken-tiles": (
            'triton.cdiv(triton.cdiv(t, constants["BLOCK_N"]), PARTS) * constants["BLOCK_N"]',
            "triton.cdiv(t, PARTS)",
        ),
        # T = 129, ascending scores
        "acc-not-rescaled": ("v, acc * alpha[:, None],", "v, acc,"),
        # the same
        "l-not-rescaled": ("l = l * alpha", "l = l"),
        # T = 17
        "tail-keys-unmasked": ("visible(i, j, T, last", "visible(i, j, T + BLOCK_N, last"),
        # T = 17: 0 · NaN
        "tail-of-v-unmasked": ("v_inside = (j < T)[:, None] & ", "v_inside = "),
        # G = 3: query heads h % Hkv
        "heads-interleaved": ("h = head * G + row // S", "h = head + row // S * (H // G)"),
        # G = 3, S = 5: the queries of the second head are taken for later ones
        "row-as-position": ("visible(i, j, T", "visible(row, j, T"),
        # G · S = 33: the last row is never written
        "rows-rounded-down": ("triton.cdiv(group * s, ", "max(1, group * s // "),
        # partial results of 8 bits
        "bfloat16-partials": ("acc / total[:, None]", "(acc / total[:, None]).to(tl.bfloat16)"),
        # D = 16, DV = 48
        "dv-masked-by-d": (
            "v_inside = (j < T)[:, None] & (dv < DV)",
            "v_inside = (j < T)[:, None] & (dv < D)",
        ),
        # causal ignored
        "mask-nothing": ("last, window, CAUSAL, WINDOWED), z", "last, window, False, WINDOWED), z"),
    },
)
def attention_split(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float, causal: str | None, window: int | None
) -> torch.Tensor:
    """softmax(scale·q kᵀ) v for q [B, H, S, D], k [B, Hkv, T, D], v [B, Hkv, T, DV], any strides."""
    check(q, k, v)
    (batch, h, s, d), (heads, t, dv) = q.shape, v.shape[1:]
    group = h // heads
    out = torch.empty((batch, h, s, dv), dtype=q.dtype, device=q.device)
    if out.numel():
        constants = {**alignment(s, t, causal, window), **tiles(group * s, d, dv)}
        part = triton.cdiv(triton.cdiv(t, constants["BLOCK_N"]), PARTS) * constants["BLOCK_N"]
        rows = batch * h * s
        partial = torch.empty((PARTS, rows, dv), dtype=torch.float32, device=q.device)
        lse = torch.empty((PARTS, rows), dtype=torch.float32, device=q.device)
        attention_parts[(batch * heads, triton.cdiv(group * s, constants["BLOCK_M"]), PARTS)](
            q, k, v, partial, lse, scale * LOG2E, h, group, s, t, d, dv, part, constants.pop("last"),
            constants.pop("window"), *q.stride(), *k.stride(), *v.stride(), **constants,
        )  # fmt: skip
        attention_merge[(triton.cdiv(rows, 16),)](
            partial, lse, out, rows, dv, PARTS=PARTS, BLOCK_M=16, BLOCK_DV=constants["BLOCK_DV"]
        )
    return out
