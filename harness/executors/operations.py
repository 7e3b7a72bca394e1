"""Elementwise operations on NumPy arrays, as a GPU computes them.

Every function takes and returns arrays of Triton's element types (bf16 and fp8 from ml_dtypes). Where NumPy's
own function is right (IEEE +, ×, ÷, comparisons), the builder calls it directly; here is what NumPy lacks or
does otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from .casts import BFLOAT16, Array, bits_of, convert


def maximum(x: Array, y: Array, *, propagate_nan: bool = False) -> Array:
    """Max.f32: drops a NaN unless asked to keep it; max(−0, +0) = +0."""
    return _extreme(np.maximum if propagate_nan else np.fmax, x, y, 1)


def minimum(x: Array, y: Array, *, propagate_nan: bool = False) -> Array:
    """Min.f32: drops a NaN unless asked to keep it; min(−0, +0) = −0."""
    return _extreme(np.minimum if propagate_nan else np.fmin, x, y, -1)


def _extreme(ufunc: np.ufunc, x: Array, y: Array, sign: int) -> Array:
    if x.dtype == BFLOAT16:
        return _extreme(ufunc, x.astype(np.float32), y.astype(np.float32), sign).astype(BFLOAT16)
    result = ufunc(quiet(x), quiet(y))
    if (result == 0).any():
        # (−0) + (+0) = +0; for the minimum, the same with every sign turned.
        result = np.where((x == 0) & (y == 0), x + y if sign > 0 else -(-x + -y), result)
    return np.asarray(result)


def quiet(x: Array) -> Array:
    """Every NaN as a quiet one: NumPy's fmax and fmin lose what they meet before a signalling one."""
    nan = np.isnan(x)
    return np.where(nan, x.dtype.type(np.nan), x) if nan.any() else x


def maximum_or_nan(x: Array, y: Array) -> Array:
    return maximum(x, y, propagate_nan=True)


def minimum_or_nan(x: Array, y: Array) -> Array:
    return minimum(x, y, propagate_nan=True)


def clamp(x: Array, low: Array, high: Array) -> Array:
    """A NaN gives the lower bound; between −b and b, but for bf16, b with its sign (min.xorsign.abs)."""
    if x.dtype != BFLOAT16 and (low == -high).all():
        return np.copysign(minimum(np.abs(x), high), x)
    return minimum(maximum(x, low), high)


def clamp_or_nan(x: Array, low: Array, high: Array) -> Array:
    return np.where(np.isnan(x), x, clamp(x, low, high))


def absolute(x: Array) -> Array:
    """|x| by clearing the sign bit, NaN's too."""
    return (bits_of(x) & ((1 << (8 * x.dtype.itemsize - 1)) - 1)).view(x.dtype)


def negate(x: Array) -> Array:
    return (bits_of(x) ^ (1 << (8 * x.dtype.itemsize - 1))).view(x.dtype)


def fma(x: Array, y: Array, z: Array) -> Array:
    """x·y + z, rounded once."""
    if x.dtype == np.float64:
        return _fma64(x, y, z)
    product = x.astype(np.float64) * y.astype(np.float64)
    return convert(_add_to_odd(product, z.astype(np.float64)), x.dtype)


def _add_to_odd(x: Array, y: Array) -> Array:
    """x + y in fp64, rounded to odd, so that rounding the result to fp32 or less rounds the exact sum."""
    total, error = _two_sum(x, y)
    even = (bits_of(total) & 1) == 0
    toward = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(even & (error != 0) & np.isfinite(total), toward, total)


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """Knuth's TwoSum: x + y = sum + error exactly."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def _two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """Dekker's TwoProduct with Veltkamp's split: x·y = product + error exactly, barring overflow."""
    product = x * y

    def split(v: Array) -> tuple[Array, Array]:
        high = v * 134217729.0
        high = high - (high - v)
        return high, v - high

    (xh, xl), (yh, yl) = split(x), split(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def _fma64(x: Array, y: Array, z: Array) -> Array:
    """Algorithm Fma of Boldo and Melquiond (doi:10.1109/TC.2007.70819); plain where a split overflows."""
    product, low = _two_product(x, y)
    high, lower = _two_sum(z, low)
    total, middle = _two_sum(product, high)
    result = total + _add_to_odd(middle, lower)
    return np.where(np.isfinite(result), result, x * y + z)


def remainder(x: Array, y: Array) -> Array:
    """x % y of floats: x − trunc(x / y)·y by one FMA, which is far off where x / y is large."""
    if x.dtype.itemsize < 4:
        return convert(remainder(x.astype(np.float32), y.astype(np.float32)), x.dtype)
    return np.where(np.isinf(y), x, fma(-np.trunc(x / y), y, x))


def divide_integers(x: Array, y: Array) -> Array:
    """C's division: toward zero."""
    quotient = x // y
    if x.dtype.kind == "i":
        quotient = quotient + ((x % y != 0) & ((x < 0) != (y < 0)))
    return quotient.astype(x.dtype)


def multiply_high(x: Array, y: Array) -> Array:
    """The upper half of the product of two unsigned integers, of the bits of signed ones."""
    a, b = bits_of(x), bits_of(y)
    bits = 8 * x.dtype.itemsize
    if bits < 64:
        high = (a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(bits)
    else:
        low_mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
        al, ah, bl, bh = a & low_mask, a >> half, b & low_mask, b >> half
        middle = ah * bl + ((al * bl) >> half)
        other = al * bh + (middle & low_mask)
        high = ah * bh + (middle >> half) + (other >> half)
    return high.astype(a.dtype).view(x.dtype)


def shift_right(x: Array, y: Array, *, arithmetic: bool) -> Array:
    kind = "i" if arithmetic else "u"
    shifted: Array = np.right_shift(x.view(f"{kind}{x.dtype.itemsize}"), y.view(f"{kind}{y.dtype.itemsize}"))
    return shifted.view(x.dtype)


def _in_double(function: Callable[..., Any]) -> Callable[..., Array]:
    """Evaluate in fp64 and round once to the first argument's type."""

    def evaluate(*arguments: Array) -> Array:
        return convert(np.asarray(function(*(x.astype(np.float64) for x in arguments))), arguments[0].dtype)

    return evaluate


def _by_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    def evaluate(x: Array) -> Array:
        with _disable_current_modes():
            return np.asarray(function(torch.from_numpy(np.array(x))).numpy())

    return evaluate


_LOG2_E: Final = np.float32(1.4426950408889634)


def exp(x: Array) -> Array:
    """exp(x) as exp2(x · log2 e), the product rounded to fp32 (ex2.approx, without flushing)."""
    return np.asarray(np.exp2(x * _LOG2_E) if x.dtype == np.float32 else np.exp(x))


erf: Final = _in_double(_by_torch(torch.special.erf))

UNARY: Final[dict[str, Callable[[Array], Array]]] = {
    "exp": exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "sqrt": np.sqrt,
    "precise_sqrt": np.sqrt,
    "rsqrt": _in_double(lambda x: 1 / np.sqrt(x)),
    "erf": erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "iabs": np.abs,
    "fabs": absolute,
    "fneg": negate,
}

# CUDA's libdevice without its prefix __nv_ and its suffix f; computed in fp64 and rounded once.
_IN_DOUBLE: Final[dict[str, Callable[..., Any]]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil, "copysign": np.copysign,
    "cos": np.cos, "cosh": np.cosh, "ddiv_rn": np.divide, "drcp_rn": np.reciprocal, "dsqrt_rn": np.sqrt,
    "erf": _by_torch(torch.special.erf), "erfc": _by_torch(torch.special.erfc),
    "erfinv": _by_torch(torch.special.erfinv), "exp": np.exp, "exp10": lambda x: np.power(10.0, x),
    "exp2": np.exp2, "expm1": np.expm1, "fabs": np.abs, "fast_cos": np.cos, "fast_exp": np.exp,
    "fast_fdivide": np.divide, "fast_log": np.log, "fast_log2": np.log2, "fast_pow": np.power,
    "fast_sin": np.sin, "fdiv_rn": np.divide, "finite": np.isfinite, "floor": np.floor, "fmax": np.fmax,
    "fmin": np.fmin, "fmod": np.fmod, "frcp_rn": np.reciprocal, "fsqrt_rn": np.sqrt, "hypot": np.hypot,
    "isinf": np.isinf, "isnan": np.isnan, "lgamma": _by_torch(torch.special.gammaln), "log": np.log,
    "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "nearbyint": np.rint, "pow": np.power,
    "rint": np.rint, "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rsqrt": lambda x: 1 / np.sqrt(x), "signbit": np.signbit, "sin": np.sin, "sinh": np.sinh,
    "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
}  # fmt: skip
LIBDEVICE: Final = {name: _in_double(function) for name, function in _IN_DOUBLE.items()}
