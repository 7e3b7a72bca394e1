"""Heads of attention: tile sizes, and the keys that a query sees."""

import torch
import triton
import triton.language as tl

from harness import Unsupported

SIZES = ("H", "G", "S", "T", "D", "DV", "last", "window")
"""Kernel arguments that no load depends on for its alignment: one compilation serves all their values."""

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453


def tiles(queries: int, d: int, dv: int) -> dict[str, int]:
    """Constants of a launch: rows of queries and keys in a tile, and both head dimensions padded."""
    return {
        "BLOCK_M": 16 if queries <= 16 else 32,
        "BLOCK_N": 32,
        "BLOCK_D": max(16, triton.next_power_of_2(d)),
        "BLOCK_DV": max(16, triton.next_power_of_2(dv)),
    }


def alignment(s: int, t: int, causal: str | None, window: int | None) -> dict[str, int | bool]:
    """``last``, the key that query 0 sees last, and the window, with whether a kernel must look at them."""
    return {
        "last": t - s if causal == "bottom-right" else 0,
        "window": 0 if window is None else window,
        "CAUSAL": causal is not None or window is not None,
        "WINDOWED": window is not None,
    }


def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raise ValueError for shapes that do not go together, Unsupported for float64: sums are float32 here."""
    if q.dtype == torch.float64:
        raise Unsupported("float64 would be accumulated in float32")
    if q.shape[1] % k.shape[1] or q.shape[3] != k.shape[3] or k.shape[:3] != v.shape[:3]:
        raise ValueError(f"q {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)} do not go together")


@triton.jit
def visible(i, j, T, last, window, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr):
    """Mask [M, N]: which of the keys j [N] the queries i [M] see."""
    distance = i[:, None] + last - j[None, :]
    mask = (i >= 0)[:, None] & (j < T)[None, :]
    if CAUSAL:
        mask = mask & (distance >= 0)
    if WINDOWED:
        mask = mask & (distance < window)
    return mask
