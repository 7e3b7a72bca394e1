"""How a device adds the products of a dot, bit by bit as far as measured (H200, Triton 3.6.0)."""

from __future__ import annotations

import numpy as np

from .casts import Array, bits_of
from .operations import fma
from .profile import TensorCore


def chain(a: Array, b: Array, acc: Array) -> Array:
    """ieee: one FMA after the other, along K."""
    for k in range(a.shape[-1]):
        acc = fma(a[..., :, k, None], b[..., None, k, :], acc)
    return acc


def blocks(a: Array, b: Array, acc: Array, core: TensorCore) -> Array:
    """Blocks of products, each added together with the running sum.

    All terms are aligned to the largest exponent and cut to ``core.fraction`` bits behind its first; their
    sum, exact, is cut to fp32, and to ``core.kept`` bits of its fraction. A product's exponent is the sum of
    its factors'. Infinities and NaN go the plain way.
    """
    depth = a.shape[-1]
    for start in range(0, depth, core.products):
        part = slice(start, min(depth, start + core.products))
        x, y = a[..., :, part, None].astype(np.float64), b[..., None, part, :].astype(np.float64)
        products = x * y
        acc = _cut(_step(products, _exponent(x) + _exponent(y), acc, core.fraction), core.kept)
    return acc


def _step(products: Array, exponents: Array, acc: Array, fraction: int) -> Array:
    """products [.., M, block, N], acc [.., M, N]"""
    start = acc.astype(np.float64)
    largest = np.maximum(np.maximum(exponents.max(axis=-2), _exponent(start)), -200)
    unit = np.ldexp(1.0, (largest - fraction).astype(np.int32))
    with np.errstate(all="ignore"):
        total = np.trunc(products / unit[..., None, :]).sum(axis=-2) + np.trunc(start / unit)
        exact = _toward_zero(total * unit)
        plain = (products.sum(axis=-2) + start).astype(np.float32)
    return np.where(np.isfinite(plain), exact, plain)


def _cut(x: Array, kept: int) -> Array:
    """fp32 with the first bits of its fraction only."""
    dropped = np.uint32((1 << (23 - kept)) - 1)
    return np.where(np.isfinite(x), (bits_of(np.ascontiguousarray(x)) & ~dropped).view(np.float32), x)


def _exponent(x: Array) -> Array:
    """floor(log2 |x|); for 0 and what is not finite, too small to matter."""
    exponent = np.frexp(x)[1].astype(np.int64) - 1
    return np.where((x == 0) | ~np.isfinite(x), -25_000, exponent)


def _toward_zero(x: Array) -> Array:
    """fp64 to fp32, cut."""
    nearest = x.astype(np.float32)
    beyond = np.abs(nearest.astype(np.float64)) > np.abs(x)
    return np.where(beyond, np.nextafter(nearest, np.float32(0)), nearest)
