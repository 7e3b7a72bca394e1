"""tl.dot on NumPy arrays: inputs as the tensor cores of the profile read them, sums in the accumulator's
format.

What is not imitated: the alignment and truncation inside one tensor-core instruction (two guard bits for
fp16, bf16 and tf32; a 13-bit accumulator for fp8 on Hopper). Sums are fp32 here, in the order of the BLAS.
"""

from __future__ import annotations

import numpy as np

from .casts import BFLOAT16, Array, bits_of, convert
from .profile import Profile

PRODUCTS_PER_STEP = 16
"""Products that are added to an fp16 accumulator before it is rounded."""


def dot(a: Array, b: Array, acc: Array, precision: str, profile: Profile) -> Array:
    """a [.., M, K] · b [.., K, N] + acc [.., M, N], in acc's format.

    ``precision`` is Triton's ``input_precision`` in lower case and concerns fp32 inputs only.
    """
    if acc.dtype.kind in "iu":
        return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(acc.dtype) + acc)
    if a.dtype == np.float64:
        return np.asarray(np.matmul(a, b) + acc)
    if a.dtype != np.float32:
        return _accumulate(a.astype(np.float32), b.astype(np.float32), acc)
    if precision == "ieee":
        return _accumulate(a, b, acc)
    if precision == "tf32":
        return _accumulate(profile.tf32(a), profile.tf32(b), acc)
    if precision == "tf32x3":
        return _split(_tf32_parts(a), _tf32_parts(b), acc, orders=2)
    terms = {"bf16x3": 2, "bf16x6": 3}[precision]
    return _split(_bfloat16_parts(a, terms), _bfloat16_parts(b, terms), acc, orders=terms)


def _accumulate(a: Array, b: Array, acc: Array) -> Array:
    if acc.dtype != np.float16:
        return np.asarray(np.matmul(a, b) + acc)
    for start in range(0, a.shape[-1], PRODUCTS_PER_STEP):
        part = slice(start, start + PRODUCTS_PER_STEP)
        acc = (np.matmul(a[..., part], b[..., part, :]) + acc.astype(np.float32)).astype(np.float16)
    return acc


def _split(a: list[Array], b: list[Array], acc: Array, *, orders: int) -> Array:
    """The products of the parts whose orders add up to less than ``orders``, smallest first."""
    for order in reversed(range(orders)):
        for i in range(order + 1):
            acc = _accumulate(a[i], b[order - i], acc)
    return acc


def _tf32_parts(x: Array) -> list[Array]:
    """High and low part by cvt.rna.tf32: to nearest, ties away from zero."""

    def nearest_away(v: Array) -> Array:
        rounded = ((bits_of(v) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
        return np.where(np.isfinite(v), rounded, v)

    high = nearest_away(np.ascontiguousarray(x))
    return [high, nearest_away(np.where(np.isfinite(high), x - high, np.float32(0)))]


def _bfloat16_parts(x: Array, terms: int) -> list[Array]:
    parts = []
    for _ in range(terms):
        part = convert(x, BFLOAT16).astype(np.float32)
        parts.append(part)
        x = np.where(np.isfinite(part), x - part, np.float32(0))
    return parts
