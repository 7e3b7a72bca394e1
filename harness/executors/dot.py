"""tl.dot on NumPy arrays: inputs as the tensor cores of the profile read them, sums in the accumulator's
format.

At the level `fast` sums are fp64, in the order of the BLAS, and rounded at the end: in fp32 that order would
show, since it depends on where in a tile an element lies, and tiles that overlap would disagree. At `bitwise`
sums are as `tensor_core` has them.
"""

from __future__ import annotations

import numpy as np

from . import tensor_core
from .casts import BFLOAT16, FP8, Array, bits_of, convert
from .profile import Profile, TensorCore

PRODUCTS_PER_STEP = 16
"""Products that are added to an fp16 accumulator before it is rounded."""

PAIRED = tuple(sorted(range(32), key=lambda k: k % 4 // 2))
"""Of 32 fp8 products of a warp's instruction: the first 16 that are added, then the others."""


def dot(
    a: Array, b: Array, acc: Array, precision: str, imprecise: int | None, warps: int, profile: Profile
) -> Array:
    """a [.., M, K] · b [.., K, N] + acc [.., M, N], in acc's format.

    ``precision`` is Triton's ``input_precision`` in lower case and concerns fp32 inputs only.
    """
    if acc.dtype.kind in "iu":
        return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(acc.dtype) + acc)
    if a.dtype == np.float64:
        return np.asarray(np.matmul(a, b) + acc)
    if a.dtype != np.float32:
        by_one_warp = imprecise == 0 or not _by_warp_groups(acc, warps)
        if profile.bitwise and a.dtype in FP8 and by_one_warp and a.shape[-1] % 32 == 0:
            order = np.arange(a.shape[-1]).reshape(-1, 32)[:, PAIRED].reshape(-1)
            a, b = a[..., order].astype(np.float16), b[..., order, :].astype(np.float16)
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
        return _split(
            _tf32_parts(a, profile), _tf32_parts(b, profile), acc, 2, core if profile.bitwise else None
        )
    terms, core = {"bf16x3": 2, "bf16x6": 3}[precision], profile.cores["bf16"]
    parts = _bfloat16_parts(a, terms), _bfloat16_parts(b, terms)
    return _split(*parts, acc, terms, core if profile.bitwise else None)


def _by_warp_groups(acc: Array, warps: int) -> bool:
    """Whether Triton has four warps work together on the dot (wgmma), for acc [M, N]."""
    *batch, _, rows, columns = acc.shape
    return not batch and warps % 4 == 0 and rows % 64 == 0 and columns % 8 == 0


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
    left, right = a.astype(np.float64), b.astype(np.float64)
    if acc.dtype != np.float16:
        return np.asarray((np.matmul(left, right) + acc).astype(acc.dtype))
    for start in range(0, a.shape[-1], PRODUCTS_PER_STEP):
        part = slice(start, start + PRODUCTS_PER_STEP)
        acc = convert(np.matmul(left[..., part], right[..., part, :]) + acc.astype(np.float64), acc.dtype)
    return acc


def _split(a: list[Array], b: list[Array], acc: Array, orders: int, core: TensorCore | None) -> Array:
    """The products of the parts whose orders add up to less than ``orders``, smallest first, then acc.

    As Triton lowers it: what an infinite operand makes NaN of in the small products is 0.
    """
    total = np.zeros_like(acc)
    for order in reversed(range(1, orders)):
        for i in range(order + 1):
            total = _accumulate(a[order - i], b[i], total, core)
    total = np.where(np.isnan(total), np.zeros((), total.dtype), total)
    return np.asarray(_accumulate(a[0], b[0], total, core) + acc)


def _tf32_parts(x: Array, profile: Profile) -> list[Array]:
    """High part by cvt.rna.tf32, to nearest, ties away from zero; low part as the tensor core reads it."""
    x = np.ascontiguousarray(x)
    rounded = ((bits_of(x) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    high = np.where(np.isfinite(x), rounded, x)
    return [high, profile.tf32(np.where(np.isfinite(high), x - high, np.float32(0)))]


def _bfloat16_parts(x: Array, terms: int) -> list[Array]:
    parts = []
    for _ in range(terms):
        part = convert(x, BFLOAT16).astype(np.float32)
        parts.append(part)
        x = np.where(np.isfinite(part), x - part, np.float32(0))
    return parts
