"""Floating-point formats: their constants, one correct rounding into each, their spacing, order and bits.

A value of any format is held in float64, which contains them all. Notation: p bits of precision, unit
roundoff u = 2^-p, smallest normal N = 2^emin, smallest subnormal eta = 2^(emin-p+1), largest finite Omega.
Library casts from float64 to bfloat16, float16 and float8 round twice, through float32 (1 + 2^-8 + 2^-40
becomes 1.0 in bfloat16 instead of 1.0078125); ``round_to`` and ``round_mp`` round once.

The functions take float64 NumPy arrays, float64 torch tensors on any device, or Python floats, and return
the kind they were given. NumPy is imported, torch is not: whoever passes a tensor has it already.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args

import numpy as np

from harness.errors import HarnessError, nearest

if TYPE_CHECKING:
    import torch

Mode = Literal["nearest-even", "toward-zero", "down", "up"]
Values = TypeVar("Values", bound="np.ndarray[Any, Any] | torch.Tensor | float")
Function = TypeVar("Function", bound=Callable[..., Any])

_EXPONENT = 0x7FF << 52  # of a float64
_SIGN = -1 << 63
_CHUNK = 1 << 17  # elements; the two arrays a rounding works in stay in cache


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: {±n·2^(e-p+1) : 0 <= n < 2^p, emin <= e <= emax, magnitude <= max}."""

    name: str
    precision: int
    """p, the leading bit counted."""
    emin: int
    emax: int
    """Exponents of the smallest and the largest normal number, whose leading bit is 2^emin, 2^emax."""
    max: float
    """Omega, the largest finite value."""
    infinities: bool
    """Whether ±inf exist; where they do not, what overflows becomes NaN, or Omega if saturated."""
    bits: int
    """Of a stored element; 19 for tf32, which is stored as float32."""

    @property
    def u(self) -> float:
        """Unit roundoff 2^-p: half the spacing just above 1."""
        return math.ldexp(1.0, -self.precision)

    @property
    def tiny(self) -> float:
        """Smallest normal number, 2^emin."""
        return math.ldexp(1.0, self.emin)

    @property
    def eta(self) -> float:
        """Smallest subnormal number, 2^(emin-p+1): the spacing below ``2 * tiny``."""
        return math.ldexp(1.0, self.emin - self.precision + 1)

    @property
    def overflow_threshold(self) -> float:
        """Where rounding to nearest begins to overflow: Omega and half a spacing, 2^(emax+1)·(1 - u/2).

        The number itself is a tie, which goes to the even side: to infinity, except that the 464 of
        float8_e4m3fn goes to 448. For float64, whose threshold is no float64, it is inf.
        """
        return self.max + math.ldexp(0.5, self.emax - self.precision + 1)

    @property
    def dtype(self) -> torch.dtype | None:
        """The torch dtype; None for tf32, which has no storage of its own."""
        if self.name == "tf32":
            return None
        import torch

        return cast("torch.dtype", getattr(torch, self.name))

    @property
    def last_ordinal(self) -> int:
        """The ordinal of Omega: how many finite values are greater than 0."""
        in_top_binade = int(math.ldexp(self.max, self.precision - 1 - self.emax))
        return ((self.emax - self.emin) << (self.precision - 1)) + in_top_binade


def _ieee(name: str, precision: int, emax: int, bits: int) -> Format:
    largest = math.ldexp(2.0 - math.ldexp(1.0, 1 - precision), emax)
    return Format(name, precision, 1 - emax, emax, largest, True, bits)


FLOAT64 = _ieee("float64", 53, 1023, 64)
FLOAT32 = _ieee("float32", 24, 127, 32)
TF32 = _ieee("tf32", 11, 127, 19)
FLOAT16 = _ieee("float16", 11, 15, 16)
BFLOAT16 = _ieee("bfloat16", 8, 127, 16)
FLOAT8_E4M3FN = Format("float8_e4m3fn", 4, -6, 8, 448.0, False, 8)
FLOAT8_E5M2 = _ieee("float8_e5m2", 3, 15, 8)

FORMATS: dict[str, Format] = {
    fmt.name: fmt for fmt in (FLOAT64, FLOAT32, TF32, FLOAT16, BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2)
}
_ALIASES: dict[str, Format] = {
    "fp64": FLOAT64,
    "double": FLOAT64,
    "fp32": FLOAT32,
    "float": FLOAT32,
    "fp16": FLOAT16,
    "half": FLOAT16,
    "bf16": BFLOAT16,
    "e4m3fn": FLOAT8_E4M3FN,
    "fp8e4nv": FLOAT8_E4M3FN,
    "e5m2": FLOAT8_E5M2,
    "fp8e5": FLOAT8_E5M2,
}


def is_integer(dtype: str) -> bool:
    """Whether a dtype's name is that of an integer or of bool."""
    return dtype.removeprefix("torch.").startswith(("int", "uint", "bool"))


INTEGERS = ("bool", "int8", "uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
"""The names of torch's integer dtypes, and of bool."""


def dtype_name(dtype: object) -> str:
    """The name that recipes have for a format or an integer dtype; HarnessError for an unknown one."""
    name = str(dtype).removeprefix("torch.")
    if isinstance(dtype, Format) or not is_integer(name):
        return format_of(dtype).name
    if name not in INTEGERS:
        raise HarnessError(
            f"unknown dtype {name!r}; {nearest(name, INTEGERS)}integer dtypes: {', '.join(INTEGERS)}"
        )
    return name


def name_of(fmt: Format | str) -> str:
    """The name of a format under test, or of an integer dtype, which is its own name."""
    return fmt if isinstance(fmt, str) else fmt.name


def format_of(x: object, stored: bool = False) -> Format:
    """The format of a Format, a torch or NumPy dtype, or a name ("float16", "torch.float16", "fp16", "half").

    Raises HarnessError for anything else, with the nearest name; of one that tensors have, if ``stored``.
    """
    if isinstance(x, Format):
        return x
    name = str(x).removeprefix("torch.").lower()
    found = FORMATS.get(name) or _ALIASES.get(name)
    if found is None:
        known = {
            key: fmt for key, fmt in {**FORMATS, **_ALIASES}.items() if not stored or fmt.dtype is not None
        }
        begun = dict.fromkeys(fmt.name for key, fmt in known.items() if name and key.startswith(name))
        hint = f"did you mean {' or '.join(map(repr, begun))}? " if begun else nearest(name, known)
        raise HarnessError(f"unknown format {x!r}; {hint}known: {', '.join(known)}")
    return found


def _also_scalars(function: Function) -> Function:
    """Let a function of one array also take a Python number, and return one."""

    @functools.wraps(function)
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(x, (int, float)):
            return function(np.array([x]), *args, **kwargs)[0].item()
        return function(x, *args, **kwargs)

    return cast(Function, call)


def _array(x: Any, dtype: str = "float64") -> tuple[Any, Any]:
    """An array's library, numpy or torch, and the array; raises HarnessError unless it holds ``dtype``."""
    torch = sys.modules.get("torch")
    if not isinstance(x, np.ndarray) and not (torch and isinstance(x, torch.Tensor)):
        raise HarnessError(f"{x!r} is {type(x).__name__}; give a {dtype} NumPy array or torch tensor")
    if str(x.dtype).removeprefix("torch.") != dtype:
        raise HarnessError(f"array of {x.dtype}; give {dtype} (decode() widens a tensor exactly)")
    return (np, x) if isinstance(x, np.ndarray) else (torch, x.detach())


def _past_range(fmt: Format, mode: Mode, saturate: bool, sign: int) -> float:
    """What a finite number past ``sign * Omega`` rounds to; the mode "nearest-even" also tells for ±inf."""
    inward = mode == "toward-zero" or mode == ("down" if sign > 0 else "up")
    if saturate or inward:
        return sign * fmt.max
    return sign * math.inf if fmt.infinities else math.nan


def _check_mode(mode: Mode) -> None:
    if mode not in get_args(Mode):
        raise HarnessError(f"unknown mode {mode!r}; {nearest(mode, get_args(Mode))}known: {get_args(Mode)}")


@_also_scalars
def round_to(x: Values, fmt: Format, *, mode: Mode = "nearest-even", saturate: bool = False) -> Values:
    """``x``, float64 of any shape, rounded once into ``fmt``: float64 values of ``fmt``, same shape and kind.

    Subnormals and the sign of zero are kept, NaN stays NaN. A finite number past Omega becomes Omega where
    the mode rounds it inwards, else ±inf, or NaN in a format without infinities; ±inf stays, or becomes NaN
    there. With ``saturate`` both become ±Omega in every mode (fp32 -> fp8 casts on an H200 do that).
    The result never shares memory with ``x``. Raises HarnessError unless ``x`` is float64.
    """
    _check_mode(mode)
    xp, values = _array(x)
    flat = values.reshape(-1)
    out = xp.empty_like(flat)
    scratch = xp.empty_like(flat[: _step(xp, flat)])
    for part, rounded in zip(_chunks(xp, flat), _chunks(xp, out), strict=True):
        with np.errstate(invalid="ignore"):  # a signalling NaN is no reason to warn
            _round_flat(xp, part, rounded, scratch[: len(part)], fmt, mode, saturate)
    return cast(Values, out.reshape(values.shape))


def _step(xp: Any, flat: Any) -> int:
    """How many elements to work on at a time: few enough for the cache of a CPU, all on another device."""
    return _CHUNK if xp is np or flat.device.type == "cpu" else max(len(flat), 1)


def _chunks(xp: Any, flat: Any) -> list[Any]:
    """A vector in parts of so many elements."""
    step = _step(xp, flat)
    return (
        [flat]
        if 0 < len(flat) <= step
        else [flat[start : start + step] for start in range(0, len(flat), step)]
    )


def _round_flat(xp: Any, x: Any, out: Any, scale: Any, fmt: Format, mode: Mode, saturate: bool) -> None:
    """Round the vector ``x`` into ``out``, with ``scale`` as scratch memory of the same size.

    Adding and subtracting 1.5·2^52·q, for a power of two q >= 2^-52·|x|, rounds x to a multiple of q, ties
    to even; q is the spacing of the format at x, that of a next binade past Omega, and eta below ``tiny``.
    """
    if fmt == FLOAT64:
        out[:] = x
        if saturate:
            xp.clip(out, -fmt.max, fmt.max, out=out)
        return
    bits, out_bits, scale_bits = x.view(xp.int64), out.view(xp.int64), scale.view(xp.int64)
    top = math.ldexp(1.0, fmt.emax)
    to_magic = math.ldexp(1.5, 53 - fmt.precision)

    xp.bitwise_and(bits, _EXPONENT, out=scale_bits)
    xp.clip(scale, fmt.tiny, 2.0 * top, out=scale)
    may_overflow = float(xp.amax(scale)) >= top
    scale *= to_magic
    xp.add(x, scale, out=out)
    out -= scale
    if mode != "nearest-even":
        scale /= math.ldexp(1.5, 52)
        _turn(x, out, scale, mode)
    if may_overflow:
        _settle_overflow(xp, x, out, fmt, mode, saturate)
    xp.bitwise_and(bits, _SIGN, out=scale_bits)
    out_bits |= scale_bits


def _turn(x: Any, out: Any, spacing: Any, mode: Mode) -> None:
    """Move each nearest value of a grid that lies on the wrong side of x for ``mode`` by one spacing."""
    if mode == "up":
        out += spacing * (out < x)
        return
    out -= spacing * (out > x)
    if mode == "toward-zero":
        out += spacing * ((out < x) & (x < 0))


def _settle_overflow(xp: Any, x: Any, out: Any, fmt: Format, mode: Mode, saturate: bool) -> None:
    """Replace what lies past ±Omega in ``out``, the rounded ``x``, by what the format has there."""
    if saturate:
        xp.clip(out, -fmt.max, fmt.max, out=out)
        return
    for sign, past in ((1, out > fmt.max), (-1, out < -fmt.max)):
        if bool(past.any()):
            out[past] = _past_range(fmt, mode, False, sign)
            out[x == sign * math.inf] = _past_range(fmt, "nearest-even", False, sign)


def round_mp(x: Any, fmt: Format, *, mode: Mode = "nearest-even", saturate: bool = False) -> float:
    """An mpmath ``mpf`` of any context and length, rounded once into ``fmt``, as ``round_to`` does.

    Exact integer arithmetic on the number's own mantissa and exponent; no context's precision or rounding
    is read. A negative number too small for ``fmt`` gives -0.0. Raises HarnessError if ``x`` is no mpf.
    """
    if not hasattr(x, "_mpf_"):
        raise HarnessError(f"round_mp takes an mpmath mpf, not {x!r}; write mp.mpf({x!r})")
    _check_mode(mode)
    negative, mantissa, exponent, length = (int(part) for part in x._mpf_)
    sign = -1 if negative else 1
    if mantissa == 0:
        if exponent == 0:
            return 0.0
        if x != x:
            return math.nan
        return _past_range(fmt, "nearest-even", saturate, 1 if x > 0 else -1)
    leading = exponent + length - 1
    if leading > fmt.emax:
        return _past_range(fmt, mode, saturate, sign)
    grid = max(leading, fmt.emin) - fmt.precision + 1
    dropped = grid - exponent
    if dropped <= 0:
        kept = mantissa << -dropped
    else:
        dropped = min(dropped, length + 2)  # below eta/4 all numbers round alike
        kept, rest, half = mantissa >> dropped, mantissa & ((1 << dropped) - 1), 1 << (dropped - 1)
        if mode == "nearest-even":
            kept += rest > half or (rest == half and kept % 2 == 1)
        else:
            kept += rest > 0 and mode == ("down" if negative else "up")
    if leading == fmt.emax and kept > math.ldexp(fmt.max, -grid):
        return _past_range(fmt, mode, saturate, sign)
    return sign * math.ldexp(kept, grid)


def _spacing(x: Any, fmt: Format, times: float) -> Any:
    """``times`` the spacing of ``fmt`` at ``|x|``, but no less than the least positive float64."""
    xp, values = _array(x)
    flat = values.reshape(-1)
    out = xp.empty_like(flat)
    unit = times * 2.0 * fmt.u
    lowest, top = max(fmt.tiny, FLOAT64.eta / unit), math.ldexp(1.0, fmt.emax)
    for part, binade in zip(_chunks(xp, flat), _chunks(xp, out), strict=True):
        xp.bitwise_and(part.view(xp.int64), _EXPONENT, out=binade.view(xp.int64))
        finite = float(xp.amax(binade)) < math.inf
        xp.clip(binade, lowest, top, out=binade)
        binade *= unit
        if not finite:
            endless = ~xp.isfinite(part)
            binade[endless] = xp.abs(part[endless])
    return out.reshape(values.shape)


@_also_scalars
def ulp(x: Values, fmt: Format) -> Values:
    """The spacing of ``fmt`` at ``|x|``, float64 of x's shape: 2^(e-p+1) for 2^e <= |x| < 2^(e+1).

    eta below ``tiny``, the spacing under Omega for everything above, inf at ±inf, NaN at NaN. ``x`` need
    not be a value of ``fmt``.
    """
    return cast(Values, _spacing(x, fmt, 1.0))


@_also_scalars
def half_ulp(x: Values, fmt: Format) -> Values:
    """Half of ``ulp(x, fmt)``: the largest error of one rounding to nearest at ``|x|``, below overflow.

    For float64 below ``2 * tiny``, where half a spacing is no float64, it is the whole spacing.
    """
    return cast(Values, _spacing(x, fmt, 0.5))


def _require_members(x: Any, fmt: Format, what: str, *, nan: bool) -> None:
    """Raise HarnessError naming the first element of ``x`` that is no value of ``fmt``."""
    xp, values = _array(x)
    rounded = round_to(values, fmt)
    wrong = (rounded != values) & ~(xp.isnan(values) & nan)
    if not bool(wrong.any()):
        return
    first = int(wrong.reshape(-1).nonzero()[0][0])
    index = tuple(int(i) for i in np.unravel_index(first, tuple(values.shape)))
    value, near = float(values[index]), float(rounded[index])
    raise HarnessError(
        f"{what}: {value!r} ({to_hex(value)}) at index {index} is not a value of {fmt.name}; "
        f"round_to gives {near!r} ({to_hex(near)})"
    )


@_also_scalars
def ordinal(x: Any, fmt: Format) -> Any:
    """The position of values of ``fmt`` in their order, int64 of x's shape: 0 at ±0.0, 1 at eta, -1 at -eta.

    Neighbours differ by 1; inf comes one after Omega. The magnitude is the bit pattern without its sign.
    Raises HarnessError for NaN and for what is no value of ``fmt``.
    """
    xp, values = _array(x)
    _require_members(values, fmt, "ordinal", nan=False)
    flat = values.reshape(-1)
    magnitude = xp.abs(flat)
    subnormal = magnitude < fmt.tiny
    magnitude[subnormal] += fmt.tiny  # now float64's fraction counts them as it counts normal numbers
    position = magnitude.view(xp.int64) >> (53 - fmt.precision)
    position -= (fmt.emin + 1022) << (fmt.precision - 1)
    position[subnormal] -= 1 << (fmt.precision - 1)
    position[xp.isinf(magnitude)] = fmt.last_ordinal + 1
    return xp.where(flat < 0, -position, position).reshape(values.shape)


@_also_scalars
def from_ordinal(i: Any, fmt: Format) -> Any:
    """The values at int64 positions ``i``: float64 of i's shape; 0 gives +0.0. The inverse of ``ordinal``.

    Raises HarnessError for a position past the last value.
    """
    xp, positions = _array(i, "int64")
    flat = positions.reshape(-1)
    last = fmt.last_ordinal + fmt.infinities
    if bool(((flat > last) | (flat < -last)).any()):
        raise HarnessError(f"from_ordinal: a position past ±{last}, the last of {fmt.name}")
    position = xp.abs(flat)
    infinite, subnormal = position > fmt.last_ordinal, position < 1 << (fmt.precision - 1)
    position[subnormal] += 1 << (fmt.precision - 1)
    position += (fmt.emin + 1022) << (fmt.precision - 1)
    magnitude = (position << (53 - fmt.precision)).view(xp.float64)
    magnitude[subnormal] -= fmt.tiny
    magnitude[infinite] = math.inf
    return xp.where(flat < 0, -magnitude, magnitude).reshape(positions.shape)


@_also_scalars
def next_up(x: Values, fmt: Format) -> Values:
    """The least value of ``fmt`` above each value ``x`` of it; -eta gives -0.0, inf gives inf.

    Above Omega comes NaN in a format without infinities. Raises HarnessError as ``ordinal`` does.
    """
    _, values = _array(x)
    flat = values.reshape(-1)
    position, last = ordinal(flat, fmt) + 1, fmt.last_ordinal + fmt.infinities
    result = from_ordinal(position.clip(max=last), fmt)
    result[(result == 0) & (flat < 0)] = -0.0
    if not fmt.infinities:
        result[position > last] = math.nan
    return cast(Values, result.reshape(values.shape))


@_also_scalars
def next_down(x: Values, fmt: Format) -> Values:
    """The greatest value of ``fmt`` below each value ``x`` of it: ``-next_up(-x)``."""
    _, values = _array(x)
    return cast(Values, (-next_up(-values.reshape(-1), fmt)).reshape(values.shape))


def encode(x: Any, fmt: Format, device: torch.device | str = "cpu") -> torch.Tensor:
    """Values of ``fmt`` in float64, array or tensor of any shape, as a tensor of ``fmt.dtype`` on ``device``.

    Nothing is rounded: raises HarnessError naming the first element that is no value of ``fmt``, and for
    tf32, which has no dtype. Infinities, subnormals and the sign of zero are kept; NaN stays some NaN.
    """
    import torch

    if fmt.dtype is None:
        raise HarnessError(f"encode: {fmt.name} has no dtype of its own; store its values as float32")
    _require_members(x, fmt, "encode", nan=True)
    values = torch.from_numpy(np.array(x, order="C")) if isinstance(x, np.ndarray) else x.detach()
    return values.to(fmt.dtype).to(device)


def decode(x: torch.Tensor) -> torch.Tensor:
    """The values of a floating-point tensor as float64, exactly: same shape, same device."""
    import torch

    format_of(x.dtype)
    return x.detach().to(torch.float64)


def to_hex(value: float) -> str:
    """A float as its shortest exact hexadecimal text: "0x1.8p+0", "-0x0p+0", "inf", "-inf", "nan"."""
    if not math.isfinite(value):
        return str(float(value))
    digits, exponent = float(value).hex().split("p")
    return f"{digits.rstrip('0').removesuffix('.')}p{exponent}"


def from_hex(text: str) -> float:
    """The float that ``to_hex`` wrote as ``text``; raises HarnessError for decimal text or other mistakes."""
    if text in ("inf", "-inf", "nan"):
        return float(text)
    try:
        if "0x" not in text:  # float.fromhex reads "1.5" as 0x1.5
            raise ValueError
        return float.fromhex(text)
    except (ValueError, OverflowError):
        hint = "write 1.5 as '0x1.8p+0', or inf, -inf, nan"
        raise HarnessError(f"{text!r} is no hexadecimal float; {hint}") from None


def number_of(text: str) -> float:
    """A number as ``float.fromhex`` or ``float`` reads it; HarnessError if neither does."""
    try:
        return float.fromhex(text) if "0x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        raise HarnessError(f"{text!r} is no number; write '0.5', '0x1p-1' or 'nan'") from None
