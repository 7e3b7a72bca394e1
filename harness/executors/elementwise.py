"""The builder's elementwise operations, conversions and constants: arithmetic that sees no memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import triton.language as tl

from . import operations
from .casts import BFLOAT16, FP8, Array, convert, is_float
from .dot import dot
from .faults import NotSimulated
from .handles import Handle
from .profile import Profile

_NUMPY: Final[dict[str, np.dtype[Any]]] = {
    "int1": np.dtype(bool), "int8": np.dtype("i1"), "int16": np.dtype("i2"), "int32": np.dtype("i4"),
    "int64": np.dtype("i8"), "uint8": np.dtype("u1"), "uint16": np.dtype("u2"), "uint32": np.dtype("u4"),
    "uint64": np.dtype("u8"), "fp16": np.dtype(np.float16), "fp32": np.dtype(np.float32),
    "fp64": np.dtype(np.float64), "bf16": BFLOAT16, "fp8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8e5": np.dtype(ml_dtypes.float8_e5m2), "fp8e4b8": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "fp8e5b16": np.dtype(ml_dtypes.float8_e5m2fnuz),
}  # fmt: skip


def numpy_type(ty: Any) -> np.dtype[Any]:
    """The NumPy type of a Triton element type; pointers are addresses."""
    scalar = ty.scalar
    if scalar.is_ptr():
        return np.dtype("u8")
    if scalar.name not in _NUMPY:
        raise NotSimulated(f"the CPU executor has no {scalar.name}")
    return _NUMPY[scalar.name]


class Elementwise:
    """``create_*`` for values of equal shape; `profile` says how the device computes them."""

    profile: Profile

    # types and constants

    def get_int32_ty(self) -> Any:
        return tl.int32

    def get_int64_ty(self) -> Any:
        return tl.int64

    def get_null_value(self, ty: Any) -> Handle:
        return Handle(np.zeros(1, numpy_type(ty)), ty.scalar)

    def get_all_ones_value(self, ty: Any) -> Handle:
        dtype = numpy_type(ty)
        ones = np.ones(1, bool) if dtype == np.bool_ else (~np.zeros(1, f"u{dtype.itemsize}")).view(dtype)
        return Handle(ones, ty.scalar)

    # conversions

    def create_fp_to_fp(self, src: Handle, ty: Any, rounding: Any = None) -> Handle:
        dtype = numpy_type(ty)
        if src.data.dtype == np.float64 and dtype in FP8:
            raise TypeError(f"Triton compiles no cast from fp64 to {ty.scalar}: cast to fp32 first")
        return Handle(convert(src.data, dtype, toward_zero=str(rounding).endswith("RTZ")), ty.scalar)

    def create_int_cast(self, src: Handle, ty: Any, is_signed: bool) -> Handle:
        return Handle(convert(src.data, numpy_type(ty)), ty.scalar)

    def create_bitcast(self, src: Handle, ty: Any) -> Handle:
        region = src.region if ty.scalar.is_ptr() else None
        return Handle(src.data.view(numpy_type(ty)), ty.scalar, region)

    # integers

    def create_ashr(self, x: Handle, y: Handle) -> Handle:
        return x.like(operations.shift_right(x.data, y.data, arithmetic=True))

    def create_lshr(self, x: Handle, y: Handle) -> Handle:
        return x.like(operations.shift_right(x.data, y.data, arithmetic=False))

    # floats

    def create_maxnumf(self, x: Handle, y: Handle) -> Handle:
        return x.like(operations.maximum(x.data, y.data))

    def create_maximumf(self, x: Handle, y: Handle) -> Handle:
        return x.like(operations.maximum(x.data, y.data, propagate_nan=True))

    def create_minnumf(self, x: Handle, y: Handle) -> Handle:
        return x.like(operations.minimum(x.data, y.data))

    def create_minimumf(self, x: Handle, y: Handle) -> Handle:
        return x.like(operations.minimum(x.data, y.data, propagate_nan=True))

    def create_clampf(self, x: Handle, low: Handle, high: Handle, propagate_nan: Any) -> Handle:
        keep = str(propagate_nan).endswith("ALL")
        return x.like(operations.clamp(x.data, low.data, high.data, propagate_nan=keep))

    def create_fma(self, x: Handle, y: Handle, z: Handle) -> Handle:
        return x.like(operations.fma(x.data, y.data, z.data))

    def create_dot(self, a: Handle, b: Handle, acc: Handle, precision: Any, imprecise: int) -> Handle:
        name = str(precision).rpartition(".")[2].lower()
        return acc.like(dot(a.data, b.data, acc.data, name, self.profile))

    def create_extern_elementwise(
        self, library: str, path: str, symbol: str, arguments: list[Handle], ty: Any, is_pure: bool
    ) -> Handle:
        name = symbol.removeprefix("__nv_")
        data = [argument.data for argument in arguments]
        if name in ("fma", "fmaf", "fma_rn", "fmaf_rn"):
            return Handle(operations.fma(*data), ty.scalar)
        known = operations.LIBDEVICE
        function = known.get(name) or known.get(name.removesuffix("f")) or known.get(name.removesuffix("d"))
        if function is None or not all(is_float(x.dtype) for x in data):
            raise NotSimulated(f"the CPU executor has no libdevice function {symbol}")
        return Handle(convert(function(*data), numpy_type(ty)), ty.scalar)


def _arithmetic(function: Callable[..., Array]) -> Callable[[Elementwise, Handle, Handle], Handle]:
    """An operation on two values of one type. int1 wraps like any integer; fp8 has no arithmetic."""

    def create(self: Elementwise, x: Handle, y: Handle) -> Handle:
        if x.data.dtype == np.bool_:
            return x.like((function(x.data.astype(np.int8), y.data.astype(np.int8)) & 1).astype(bool))
        if x.data.dtype in FP8:
            raise TypeError(f"Triton compiles no arithmetic on {x.dtype}: cast to a wider format first")
        return x.like(function(x.data, y.data))

    return create


def _comparison(function: np.ufunc) -> Callable[[Elementwise, Handle, Handle], Handle]:
    def create(self: Elementwise, x: Handle, y: Handle) -> Handle:
        return Handle(function(x.data, y.data), tl.int1)

    return create


def _unary(name: str, function: Callable[[Array], Array]) -> Callable[[Elementwise, Handle], Handle]:
    def create(self: Elementwise, x: Handle) -> Handle:
        flush = self.profile.flush
        return x.like(flush(name, function(flush(name, x.data))))

    return create


def _constant(name: str) -> Callable[[Elementwise, Any], Handle]:
    def get(self: Elementwise, value: Any) -> Handle:
        dtype, ty = (
            _NUMPY[name],
            getattr(
                tl,
                {"fp16": "float16", "fp32": "float32", "fp64": "float64", "bf16": "bfloat16"}.get(name, name),
            ),
        )
        if is_float(dtype):
            return Handle(convert(np.array([value], np.float64), dtype), ty)
        return Handle(np.array([int(value)]).astype(dtype), ty)

    return get


_ARITHMETIC: Final[dict[str, Callable[..., Array]]] = {
    "fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": np.divide, "precise_divf": np.divide,
    "approx_divf": np.divide, "frem": np.fmod, "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "sdiv": operations.divide_integers, "udiv": operations.divide_integers, "srem": np.fmod, "urem": np.fmod,
    "shl": np.left_shift, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "minsi": np.minimum, "minui": np.minimum, "maxsi": np.maximum, "maxui": np.maximum,
    "umulhi": operations.multiply_high,
}  # fmt: skip
_COMPARISONS: Final = {
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
}

for _name, _function in _ARITHMETIC.items():
    setattr(Elementwise, f"create_{_name}", _arithmetic(_function))
for _name, _function in _COMPARISONS.items():
    for _prefix in ("icmp", "icmpS", "icmpU", "fcmpO", "fcmpU"):
        setattr(Elementwise, f"create_{_prefix}{_name}", _comparison(_function))
for _name, _function in operations.UNARY.items():
    setattr(Elementwise, f"create_{_name}", _unary(_name, _function))
for _name in ("fp_ext", "fp_trunc", "si_to_fp", "ui_to_fp", "fp_to_si", "fp_to_ui"):
    setattr(Elementwise, f"create_{_name}", Elementwise.create_fp_to_fp)
for _name in ("int_to_ptr", "ptr_to_int"):
    setattr(Elementwise, f"create_{_name}", Elementwise.create_bitcast)
for _name in (
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "fp16",
    "bf16",
    "fp32",
    "fp64",
):
    setattr(Elementwise, f"get_{_name}", _constant(_name))
