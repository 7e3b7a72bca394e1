"""Wrong attentions, and a sum over picked rows, as of sparse attention."""

from __future__ import annotations

import torch

import references
from quality.contracts import picked_sum
from quality.declare import wrong


def _scores(q, k, scale, causal, window):
    """float64 scores [B, H, S, T], -inf where a key is not seen."""
    k = k.double().repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = scale * (q.double() @ k.mT)
    if causal is None and window is None:
        return scores
    s, t = scores.shape[2:]
    last = t - s if causal == "bottom-right" else 0
    distance = torch.arange(s)[:, None] + last - torch.arange(t)
    seen = (distance >= 0) & (distance < (window or s + t))
    return scores.masked_fill(~seen, -torch.inf)


def _attention(q, k, v, scale, causal, window, numerator):
    """Softmax over the scores, the exponentials passed through ``numerator`` where they meet v."""
    if not k.shape[2]:
        return q.new_zeros((*q.shape[:3], v.shape[3]))
    scores = _scores(q, k, scale, causal, window)
    top = scores.amax(-1, keepdim=True)
    p = torch.exp(scores - top.masked_fill(top == -torch.inf, 0.0))
    total = p.sum(-1, keepdim=True)
    out = numerator(p) @ v.double().repeat_interleave(q.shape[1] // v.shape[1], 1)
    return torch.where(total == 0, 0.0, out / total).to(q.dtype)


@wrong(references.attention, "accuracy", bug="B70", smallest=128)
def attention_of_fp8_probabilities(q, k, v, *, scale, causal, window):
    """exp(scores - max) is rounded to float8_e4m3fn for the product with v, not for its sum."""

    def fp8(p):
        return p.float().to(torch.float8_e4m3fn).double()

    return _attention(q, k, v, scale, causal, window, fp8)


@wrong(references.attention, "special values", "accuracy", bug="B58", smallest=64)
def attention_masked_by_a_finite_number(q, k, v, *, scale, causal, window):
    """Masked scores are the lowest finite number, so that a row that sees no key averages all of v."""
    if not k.shape[2]:
        return q.new_zeros((*q.shape[:3], v.shape[3]))
    scores = _scores(q, k, scale, causal, window)
    p = torch.softmax(scores.masked_fill(scores == -torch.inf, -3.4e38), -1)
    return (p @ v.double().repeat_interleave(q.shape[1] // v.shape[1], 1)).to(q.dtype)


@wrong(references.attention, "accuracy", "special values", smallest=None)
def attention_ends_as_the_first_tile(q, k, v, *, scale, causal, window):
    """Tiles of 128 queries, of which each looks at as many keys as the first one sees."""
    out = _attention(q, k, v, scale, causal, window, lambda p: p)
    last = k.shape[2] - q.shape[2] if causal == "bottom-right" else 0
    if causal and q.shape[2] > 128 and 0 < 128 + last < k.shape[2]:
        scores = _scores(q, k, scale, causal, window)[..., : 128 + last]
        p = torch.softmax(scores, -1).nan_to_num(0.0)
        seen = v[:, :, : 128 + last].double().repeat_interleave(q.shape[1] // v.shape[1], 1)
        out[:, :, 128:] = (p @ seen).to(q.dtype)[:, :, 128:]
    return out


@wrong(references.attention, "accuracy", "special values", smallest=None)
def attention_of_wide_heads_in_halves(q, k, v, *, scale, causal, window):
    """Heads of more than 96 are taken in two halves, the second of which is not scaled."""
    if q.shape[3] > 96:
        q = torch.cat([q[..., :64].double(), q[..., 64:].double() / scale], -1)
    return _attention(q, k, v, scale, causal, window, lambda p: p).to(v.dtype)


@wrong(references.attention, "accuracy", "special values", smallest=128)
def attention_of_one_key_from_the_left(q, k, v, *, scale, causal, window):
    """A window of 1 is aligned top-left whatever causal says."""
    causal = "top-left" if window == 1 else causal
    return _attention(q, k, v, scale, causal, window, lambda p: p)


@wrong(references.attention, "accuracy", "special values", smallest=None)
def attention_of_keys_in_whole_blocks_before(q, k, v, *, scale, causal, window):
    """Tiles of 16 queries end at a block of 32 keys, counted as if T - S were a multiple of 32."""
    before = k.shape[2] - q.shape[2]
    if causal != "bottom-right" or before <= 0:
        return _attention(q, k, v, scale, causal, window, lambda p: p)
    end = (torch.arange(q.shape[2]) // 16 + 1) * 16 + before // 32 * 32
    unread = torch.arange(k.shape[2]) >= (-(-end // 32) * 32)[:, None]
    p = torch.softmax(_scores(q, k, scale, causal, window).masked_fill(unread, -torch.inf), -1).nan_to_num(
        0.0
    )
    return (p @ v.double().repeat_interleave(q.shape[1] // v.shape[1], 1)).to(q.dtype)


@wrong(picked_sum, "accuracy", "special values", bug="B76", smallest=4)
def picked_sum_wraps_the_padding(x, index):
    """An index of -1 reads the last element."""
    return x.double()[index].sum(-1).to(x.dtype)


@wrong(references.attention, "accuracy", smallest=128)
def attention_of_one_query_sees_all(q, k, v, *, scale, causal, window):
    """A single query, the last of a sequence, sees every key: its window is forgotten."""
    if q.shape[2] == 1 and causal == "bottom-right":
        causal = window = None
    return _attention(q, k, v, scale, causal, window, lambda p: p)


@wrong(references.attention, "accuracy", smallest=None)
def attention_averages_its_halves(q, k, v, *, scale, causal, window):
    """Many keys for many queries are worked on in halves, whose results are averaged without their sums."""
    half = k.shape[2] // 2
    if causal is None and window is None and k.shape[2] > 128 and q.shape[2] > 64:
        parts = ((k[:, :, at], v[:, :, at]) for at in (slice(half), slice(half, None)))
        found = [_attention(q, *part, scale, None, None, lambda p: p).double() for part in parts]
        return (sum(found) / 2).to(q.dtype)
    return _attention(q, k, v, scale, causal, window, lambda p: p)
