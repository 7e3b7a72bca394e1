"""The builder's elementwise operations, conversions and constants: arithmetic that sees no memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import ml_dtypes
import numpy as np
import triton.language as tl

from . import blocks, operations
from .casts import BFLOAT16, FP8, Array, convert, is_float
from .context import Context
from .dot import dot
from .faults import NotSimulated
from .handles import Handle
from .profile import Profile
from .trace import Run, Tracer
from .value import Value, either, exact_or_wrapped, undefined, wrapped

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


@functools.cache
def lifted(function: Callable[..., Array]) -> Run:
    """A function of arrays, on values: undefined where any operand is."""

    def run(context: Context, *values: Value) -> Value:
        data = function(*[value.data for value in values])
        return Value(data, undefined(values), wrapped(values) if data.dtype.kind in "iu" else None)

    return run


class Elementwise:
    """``create_*`` for values of equal shape; `profile` says how the device computes them."""

    profile: Profile
    tracer: Tracer
    options: SimpleNamespace
    """What Triton's typing rules ask of a builder, and the launch's number of warps."""

    @property
    def warps(self) -> int:
        """Of the launch."""
        return int(self.options.num_warps)

    def _pure(
        self, run: Run, inputs: tuple[Handle, ...], dtype: Any = None, shape: tuple[int, ...] | None = None
    ) -> Handle:
        """A value that depends on its inputs only, by default of the first one's type and shape."""
        first = inputs[0]
        return self.tracer.emit(
            run,
            inputs,
            first.shape if shape is None else shape,
            first.dtype if dtype is None else dtype,
            pure=True,
        )

    def _constant(self, data: Array, ty: Any, shape: tuple[int, ...] = ()) -> Handle:
        return self.tracer.emit(blocks.constant(data), (), shape, ty, pure=True)

    # types and constants

    def get_int32_ty(self) -> Any:
        return tl.int32

    def get_int64_ty(self) -> Any:
        return tl.int64

    def get_null_value(self, ty: Any) -> Handle:
        return self._constant(np.zeros(1, numpy_type(ty)), ty.scalar)

    def get_all_ones_value(self, ty: Any) -> Handle:
        dtype = numpy_type(ty)
        ones = np.ones(1, bool) if dtype == np.bool_ else (~np.zeros(1, f"u{dtype.itemsize}")).view(dtype)
        return self._constant(ones, ty.scalar)

    # conversions

    def create_fp_to_fp(self, src: Handle, ty: Any, rounding: Any = None) -> Handle:
        dtype = numpy_type(ty)
        if src.dtype == tl.float64 and dtype in FP8:
            raise TypeError(f"Triton compiles no cast from fp64 to {ty.scalar}: cast to fp32 first")
        return self._pure(_converted(dtype, str(rounding).endswith("RTZ")), (src,), ty.scalar)

    def create_int_cast(self, src: Handle, ty: Any, is_signed: bool) -> Handle:
        return self._pure(_integer_cast(numpy_type(ty)), (src,), ty.scalar)

    def create_bitcast(self, src: Handle, ty: Any) -> Handle:
        """A pointer keeps its origin as long as its elements keep their size."""
        scalar = ty.scalar
        if scalar.is_ptr() and src.origin is not None and element_bytes(scalar) == element_bytes(src.dtype):
            return self.tracer.emit(_same, (src,), src.shape, scalar, src.origin)
        return self._pure(_viewed(numpy_type(ty)), (self._absolute(src),), scalar)

    def _absolute(self, src: Handle) -> Handle:
        """A pointer as addresses."""
        if src.origin is None:
            return src
        return self.tracer.emit(
            _addresses(src.origin, element_bytes(src.dtype)), (src,), src.shape, src.dtype
        )

    # integers

    def create_ashr(self, x: Handle, y: Handle) -> Handle:
        return self._pure(lifted(_ashr), (x, y))

    def create_lshr(self, x: Handle, y: Handle) -> Handle:
        return self._pure(lifted(_lshr), (x, y))

    # floats

    def create_maxnumf(self, x: Handle, y: Handle) -> Handle:
        return self._pure(lifted(operations.maximum), (x, y))

    def create_maximumf(self, x: Handle, y: Handle) -> Handle:
        return self._pure(lifted(operations.maximum_or_nan), (x, y))

    def create_minnumf(self, x: Handle, y: Handle) -> Handle:
        return self._pure(lifted(operations.minimum), (x, y))

    def create_minimumf(self, x: Handle, y: Handle) -> Handle:
        return self._pure(lifted(operations.minimum_or_nan), (x, y))

    def create_clampf(self, x: Handle, low: Handle, high: Handle, propagate_nan: Any) -> Handle:
        clamp = operations.clamp_or_nan if str(propagate_nan).endswith("ALL") else operations.clamp
        return self._pure(lifted(clamp), (x, low, high))

    def create_fma(self, x: Handle, y: Handle, z: Handle) -> Handle:
        return self._pure(lifted(operations.fma), (x, y, z))

    def _negated(self, x: Handle) -> Handle:
        return self._pure(lifted(operations.negate), (x,))

    def create_dot(self, a: Handle, b: Handle, acc: Handle, precision: Any, imprecise: int) -> Handle:
        name = str(precision).rpartition(".")[2].lower()
        return self._pure(_dot(name, imprecise, self.warps, self.profile), (a, b, acc), acc.dtype, acc.shape)

    def create_extern_elementwise(
        self, library: str, path: str, symbol: str, arguments: list[Handle], ty: Any, is_pure: bool
    ) -> Handle:
        name = symbol.removeprefix("__nv_")
        known = operations.LIBDEVICE
        function: Any
        if name in ("fma", "fmaf", "fma_rn", "fmaf_rn"):
            function = operations.fma
        else:
            function = (
                known.get(name) or known.get(name.removesuffix("f")) or known.get(name.removesuffix("d"))
            )
        if function is None or not all(is_float(numpy_type(x.dtype)) for x in arguments):
            raise NotSimulated(f"the CPU executor has no libdevice function {symbol}")
        dtype = numpy_type(ty)
        shape = max((each.shape for each in arguments), key=len)
        run = _flushing(name.removesuffix("f"), function, self.profile)

        def converted(context: Context, *values: Value) -> Value:
            value: Value = run(context, *values)
            return Value(convert(value.data, dtype), value.undef)

        return self._pure(converted, tuple(arguments), ty.scalar, shape)


def element_bytes(pointer: Any) -> int:
    return max(1, int(pointer.scalar.element_ty.primitive_bitwidth) // 8)


def _same(context: Context, x: Value) -> Value:
    return x


def _addresses(origin: str, size: int) -> Run:
    def run(context: Context, ptr: Value) -> Value:
        base = context.windows[origin].region.base
        return Value((ptr.data * size + base).view(np.uint64), ptr.undef, ptr.wrap)

    return run


@functools.cache
def _viewed(dtype: np.dtype[Any]) -> Run:
    return lambda context, x: Value(x.data.view(dtype), x.undef)


@functools.cache
def _converted(dtype: np.dtype[Any], toward_zero: bool) -> Run:
    return lambda context, x: Value(convert(x.data, dtype, toward_zero=toward_zero), x.undef)


@functools.cache
def _integer_cast(dtype: np.dtype[Any]) -> Run:
    """Widening keeps what is known of the values."""

    def run(context: Context, x: Value) -> Value:
        wider = dtype.kind in "iu" and x.data.dtype.kind == "i" and dtype.itemsize >= x.data.dtype.itemsize
        keep = wider and (dtype.kind == "i" or (x.span is not None and x.span[0] >= 0))
        return Value(convert(x.data, dtype), x.undef, x.wrap, x.span if keep else None)

    return run


def _ashr(x: Array, y: Array) -> Array:
    return operations.shift_right(x, y, arithmetic=True)


def _lshr(x: Array, y: Array) -> Array:
    return operations.shift_right(x, y, arithmetic=False)


def _dot(precision: str, imprecise: int | None, warps: int, profile: Profile) -> Run:
    def run(context: Context, a: Value, b: Value, acc: Value) -> Value:
        data = dot(a.data, b.data, acc.data, precision, imprecise, warps, profile)
        undef = acc.undef
        if a.undef is not None:
            rows = np.broadcast_to(a.undef, a.data.shape).any(axis=-1, keepdims=True)
            undef = either(undef, np.asarray(rows))
        if b.undef is not None:
            columns = np.broadcast_to(b.undef, b.data.shape).any(axis=-2, keepdims=True)
            undef = either(undef, np.asarray(columns))
        return Value(data, undef)

    return run


def _arithmetic(function: Callable[..., Array]) -> Callable[[Elementwise, Handle, Handle], Handle]:
    """An operation on two values of one type. int1 wraps like any integer; fp8 has no arithmetic."""

    def of_bool(x: Array, y: Array) -> Array:
        return (function(x.astype(np.int8), y.astype(np.int8)) & 1).astype(bool)

    plain, boolean = lifted(function), lifted(of_bool)

    def create(self: Elementwise, x: Handle, y: Handle) -> Handle:
        if x.dtype == tl.int1:
            return self._pure(boolean, (x, y))
        if x.dtype.is_fp8():
            raise TypeError(f"Triton compiles no arithmetic on {x.dtype}: cast to a wider format first")
        return self._pure(plain, (x, y))

    return create


def _counted(name: str, function: np.ufunc) -> Callable[[Elementwise, Handle, Handle], Handle]:
    """Integer +, −, ×: int32 results keep their bounds, and remember where they wrapped."""
    other, both = _arithmetic(function), _deciding(np.bitwise_and, False)

    def run(context: Context, x: Value, y: Value) -> Value:
        a, b = x.bounds(), y.bounds()
        if name == "mul":
            corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
            span = (min(corners), max(corners))
        else:
            span = (a[0] + b[0], a[1] + b[1]) if name == "add" else (a[0] - b[1], a[1] - b[0])
        value = exact_or_wrapped(function(x.data, y.data), x, y, span, function)
        if name == "mul" and value.undef is not None:
            value.undef = _still_undefined(value.undef, x, y, 0)
        return value

    def create(self: Elementwise, x: Handle, y: Handle) -> Handle:
        if name == "mul" and x.dtype == tl.int1:  # a product of masks
            return self._pure(both, (x, y))
        return self._pure(run, (x, y)) if x.dtype == tl.int32 else other(self, x, y)

    return create


def _logical(function: np.ufunc, decides: bool) -> Callable[[Elementwise, Handle, Handle], Handle]:
    run = _deciding(function, decides)
    return lambda self, x, y: self._pure(run, (x, y))


def _deciding(function: np.ufunc, decides: bool) -> Run:
    """``and``, ``or``: a defined operand that decides the result makes it defined.

    The lower bits of a result that wrapped around are those of the exact one: ``h & 1023`` is right.
    """
    plain = lifted(function)

    def run(context: Context, x: Value, y: Value) -> Value:
        value: Value = plain(context, x, y)
        if value.wrap is not None and not decides and any(_lower_bits(side) for side in (x, y)):
            value.wrap = None
        if value.undef is not None:
            deciding = -1 if decides and value.data.dtype.kind == "i" else int(decides)
            if value.data.dtype.kind != "u" or not decides:
                value.undef = _still_undefined(value.undef, x, y, deciding)
        return value

    return run


def _still_undefined(undef: Array, x: Value, y: Value, deciding: int) -> Array:
    """Where neither operand is defined and the number that decides the result."""
    for side in (x, y):
        sure = side.data == deciding
        undef = undef & ~(sure if side.undef is None else sure & ~side.undef)
    return undef


def _lower_bits(mask: Value) -> bool:
    """Whether it leaves out the sign bit, and is what it should be."""
    return mask.wrap is None and mask.bounds()[0] >= 0


def _comparison(function: np.ufunc) -> Callable[[Elementwise, Handle, Handle], Handle]:
    run = lifted(function)

    def create(self: Elementwise, x: Handle, y: Handle) -> Handle:
        if x.dtype.is_ptr():
            x, y = self._absolute(x), self._absolute(y)
        return self._pure(run, (x, y), tl.int1)

    return create


def _unary(name: str, function: Callable[[Array], Array]) -> Callable[[Elementwise, Handle], Handle]:
    return lambda self, x: self._pure(_flushing(name, function, self.profile), (x,))


@functools.cache
def _flushing(name: str, function: Callable[..., Array], profile: Profile) -> Run:
    """Subnormal arguments and results are zeros where the function flushes on the device."""
    if name not in profile.flushed:
        return lifted(lambda *x: function(*map(np.ascontiguousarray, x)))
    flush = functools.partial(profile.flush, name)
    return lifted(lambda *x: flush(function(*(flush(np.ascontiguousarray(each)) for each in x))))


def _literal(name: str) -> Callable[[Elementwise, Any], Handle]:
    spelled = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "bf16": "bfloat16"}.get(name, name)
    dtype, ty = _NUMPY[name], getattr(tl, spelled)

    def get(self: Elementwise, value: Any) -> Handle:
        if is_float(dtype):
            return self._constant(convert(np.array([value], np.float64), dtype), ty)
        return self._constant(np.array([int(value)]).astype(dtype), ty)

    return get


def _contracting(name: str, function: np.ufunc) -> Callable[[Elementwise, Handle, Handle], Handle]:
    """Floating-point +, −, ×: at the level `bitwise` a product and a sum are one FMA, as compiled."""
    plain = _arithmetic(function)

    def create(self: Elementwise, x: Handle, y: Handle) -> Handle:
        if not (self.profile.bitwise and self.profile.contracts):
            return plain(self, x, y)
        if name == "fmul":
            made = plain(self, x, y)
            made.factors = (x, y)
            return made
        if x.factors is not None:
            return self.create_fma(*x.factors, y if name == "fadd" else self._negated(y))
        if y.factors is not None:
            a, b = y.factors
            return self.create_fma(a if name == "fadd" else self._negated(a), b, x)
        return plain(self, x, y)

    return create


_ARITHMETIC: Final[dict[str, Callable[..., Array]]] = {
    "fdiv": np.divide, "precise_divf": np.divide,
    "approx_divf": np.divide, "frem": operations.remainder,
    "sdiv": operations.divide_integers, "udiv": operations.divide_integers, "srem": np.fmod, "urem": np.fmod,
    "shl": np.left_shift, "xor": np.bitwise_xor,
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
for _name, _ufunc in (("fadd", np.add), ("fsub", np.subtract), ("fmul", np.multiply)):
    setattr(Elementwise, f"create_{_name}", _contracting(_name, _ufunc))
for _name, _ufunc in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
    setattr(Elementwise, f"create_{_name}", _counted(_name, _ufunc))
setattr(Elementwise, "create_and", _logical(np.bitwise_and, False))  # noqa: B010
setattr(Elementwise, "create_or", _logical(np.bitwise_or, True))  # noqa: B010
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
    setattr(Elementwise, f"get_{_name}", _literal(_name))
