"""Conversions between NumPy arrays of Triton's element types, rounded as a GPU rounds them: once.

bf16 and fp8 are ml_dtypes types. ml_dtypes and NumPy convert fp32 to them correctly; from fp64 and from
integers they go through fp32 and round twice, so those paths first round to odd (Boldo and Melquiond,
"Emulation of FMA and correctly rounded sums", 2008, doi:10.1109/TC.2007.70819), after which rounding to
nearest is exact.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)
_LARGEST: Final = {
    np.dtype(ml_dtypes.float8_e4m3fn): 448.0,
    np.dtype(ml_dtypes.float8_e5m2): 57344.0,
    np.dtype(ml_dtypes.float8_e4m3fnuz): 240.0,
    np.dtype(ml_dtypes.float8_e5m2fnuz): 57344.0,
}
FP8: Final = tuple(_LARGEST)
_FLOATS: Final = frozenset({np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64), BFLOAT16, *FP8})


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype in _FLOATS


def bits_of(x: Array) -> Array:
    """The same bits as unsigned integers."""
    bits: Array = x.view(f"u{x.dtype.itemsize}")
    return bits


def convert(x: Array, dtype: np.dtype[Any], *, toward_zero: bool = False) -> Array:
    """Convert between any two element types.

    Float to float: to nearest even (or toward zero), subnormals kept, overflow to inf; to fp8: saturating,
    infinities too, NaN stays NaN (cvt.rn.satfinite, measured on an H200); e5m2 to bf16: by its bits, so that
    infinities and NaN become 65536 and more. Float to integer: toward zero, saturating, NaN to 0, or, from
    fp64 or to 64 bits, to the smallest integer. Integer to integer wraps.
    """
    if x.dtype == dtype:
        return x
    if dtype == BFLOAT16 and x.dtype == FP8[1]:
        return _by_bits(x)
    if dtype == np.bool_:
        return np.asarray(x != np.zeros((), x.dtype))
    if is_float(dtype):
        rounded = _to_float(x, dtype)
        return _step_back(x, rounded) if toward_zero else rounded
    return _to_integer(x, dtype) if is_float(x.dtype) else x.astype(dtype)


def _to_float(x: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.itemsize >= 4:
        return x.astype(dtype)
    if dtype == np.float16:
        return x.astype(np.float64).astype(dtype) if x.dtype.kind in "iub" else _single(x).astype(dtype)
    if x.dtype == np.float64 or x.dtype.kind in "iu":
        x = round_to_odd(x.astype(np.float64))
    single = x.astype(np.float32)
    if dtype in FP8:
        largest = np.float32(_LARGEST[dtype])
        single = np.clip(single, -largest, largest)
    return single.astype(dtype)


def _by_bits(x: Array) -> Array:
    """E5m2 to bf16 as if the largest exponent were one like the others."""
    bits = bits_of(x)
    exponent, digits = (bits >> 2) & 31, bits & 3
    value = np.where(
        exponent == 0, np.ldexp(digits / 4.0, -14), np.ldexp(1 + digits / 4.0, exponent.astype(np.int32) - 15)
    )
    return np.where(bits >> 7, -value, value).astype(np.float32).astype(BFLOAT16)


def _single(x: Array) -> Array:
    """bf16 and fp8 widened to fp32, which NumPy converts to the rest; other floats as they are."""
    return x.astype(np.float32) if x.dtype == BFLOAT16 or x.dtype in FP8 else x


def round_to_odd(x: Array) -> Array:
    """fp64 to fp32 so that a later rounding to 22 bits or fewer is the rounding of ``x`` itself."""
    nearest = x.astype(np.float32)
    error = x - nearest.astype(np.float64)
    even = (bits_of(nearest) & 1) == 0
    toward = np.nextafter(nearest, np.where(error > 0, np.float32(np.inf), np.float32(-np.inf)))
    return np.where(even & (error != 0) & np.isfinite(nearest), toward, nearest)


def _step_back(x: Array, rounded: Array) -> Array:
    """``rounded``, one unit nearer to zero where it lies beyond ``x``."""
    beyond = np.abs(rounded.astype(np.float64)) > np.abs(x.astype(np.float64))
    bits = bits_of(rounded)
    stepped: Array = np.where(beyond, bits - beyond.astype(bits.dtype), bits).view(rounded.dtype)
    return stepped


def _to_integer(x: Array, dtype: np.dtype[Any]) -> Array:
    """cvt.rzi: PTX has it for 16 to 64 bits; Triton converts to 8 bits through 16, which wraps."""
    carrier = np.dtype(f"{dtype.kind}{max(2, dtype.itemsize)}")
    limits = np.iinfo(carrier)
    lowest = x.dtype == np.float64 or dtype.itemsize == 8
    nan = (-np.inf if dtype.kind == "i" else 2.0 ** (8 * carrier.itemsize - 1)) if lowest else 0.0
    wide = np.trunc(np.nan_to_num(x.astype(np.float64), nan=nan, posinf=np.inf, neginf=-np.inf))
    low, high = float(limits.min), float(limits.max)
    # float(2**63 - 1) is 2**63: those and everything above are set, not converted.
    whole = np.where((wide > low) & (wide < high), wide, 0.0).astype(carrier)
    whole = np.where(wide <= low, limits.min, whole)
    return np.where(wide >= high, limits.max, whole).astype(carrier).astype(dtype)
