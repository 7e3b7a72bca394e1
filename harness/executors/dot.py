"""tl.dot on NumPy arrays: inputs as the tensor cores of the profile read them, sums in the accumulator's
format.

At the level `fast` sums are fp32, in the order of the BLAS; at `bitwise` as `tensor_core` has them, except
for the splits of tf32x3 and bf16x3.
"""

from __future__ import annotations

import numpy as np

from . import tensor_core
from .casts import BFLOAT16, FP8, Array, bits_of, convert
from .profile import Profile, TensorCore

PRODUCTS_PER_STEP = 16
"""Products that are added to an fp16 accumulator before it is rounded."""


def dot(a: Array, b: Array, acc: Array, precision: str, imprecise: int | None, profile: Profile) -> Array:
    """a [.., M, K] · b [.., K, N] + acc [.., M, N], in acc's format.

    ``precision`` is Triton's ``input_precision`` in lower case and concerns fp32 inputs only.
    """
    if acc.dtype.kind in "iu":
        return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(acc.dtype) + acc)
    if a.dtype == np.float64:
        return np.asarray(np.matmul(a, b) + acc)
    if a.dtype != np.float32:
        core = profile.cores[_core_of(a, imprecise)]
        if profile.bitwise and a.dtype in FP8 and imprecise and acc.dtype == np.float32:
            return _in_parts(a.astype(np.float32), b.astype(np.float32), acc, core, imprecise)
        return _accumulate(a.astype(np.float32), b.astype(np.float32), acc, core if profile.bitwise else None)
    if precision == "ieee":
        return tensor_core.chain(a, b, acc) if profile.bitwise else _accumulate(a, b, acc)
    core = profile.cores["tf32"]
    if precision == "tf32":
        return _accumulate(profile.tf32(a), profile.tf32(b), acc, core if profile.bitwise else None)
    if precision == "tf32x3":
        return _split(_tf32_parts(a), _tf32_parts(b), acc, orders=2)
    terms = {"bf16x3": 2, "bf16x6": 3}[precision]
    return _split(_bfloat16_parts(a, terms), _bfloat16_parts(b, terms), acc, orders=terms)


def _core_of(a: Array, imprecise: int | None) -> str:
    """fp8 products are added as fp16 ones where no imprecise addition is allowed."""
    if a.dtype in FP8:
        return "fp16" if imprecise == 0 else "fp8"
    return "bf16" if a.dtype == BFLOAT16 else "fp16"


def _in_parts(a: Array, b: Array, acc: Array, core: TensorCore, length: int) -> Array:
    """fp8: the short accumulator is added to the fp32 one after every ``length`` products."""
    if length >= a.shape[-1]:
        return tensor_core.blocks(a, b, acc, core)
    for start in range(0, a.shape[-1], length):
        part = slice(start, start + length)
        acc = acc + tensor_core.blocks(a[..., part], b[..., part, :], np.zeros_like(acc), core)
    return acc


def _accumulate(a: Array, b: Array, acc: Array, core: TensorCore | None = None) -> Array:
    if core is not None and acc.dtype == np.float32:
        return tensor_core.blocks(a, b, acc, core)
    if acc.dtype != np.float16:
        return np.asarray(np.matmul(a, b) + acc)
    for start in range(0, a.shape[-1], PRODUCTS_PER_STEP):
        part = slice(start, start + PRODUCTS_PER_STEP)
        acc = (np.matmul(a[..., part], b[..., part, :]) + acc.astype(np.float32)).astype(np.float16)
    return acc


def _split(a: list[Array], b: list[Array], acc: Array, *, orders: int) -> Array:
    """The products of the parts whose orders add up to less than ``orders``, smallest first, then acc.

    As Triton lowers it: what an infinite operand makes NaN of in the small products is 0.
    """
    total = np.zeros_like(acc)
    for order in reversed(range(1, orders)):
        for i in range(order + 1):
            total = _accumulate(a[i], b[order - i], total)
    total = np.where(np.isnan(total), np.zeros((), total.dtype), total)
    return np.asarray(_accumulate(a[0], b[0], total) + acc)


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
