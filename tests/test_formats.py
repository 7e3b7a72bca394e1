"""Formats against an independent definition: bit fields read as Fractions, neighbours compared exactly."""

from __future__ import annotations

import bisect
import dataclasses
import math
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
import torch

from harness.errors import HarnessError
from harness.formats import (
    BFLOAT16,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FORMATS,
    TF32,
    Format,
    Mode,
    decode,
    encode,
    format_of,
    from_hex,
    from_ordinal,
    half_ulp,
    next_down,
    next_up,
    ordinal,
    round_mp,
    round_to,
    to_hex,
    ulp,
)

ALL = list(FORMATS.values())
SMALL = [FLOAT16, BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2]  # every value is tried
MODES: tuple[Mode, ...] = ("nearest-even", "toward-zero", "down", "up")
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
FIELDS = {  # exponent bits, fraction bits: IEEE 754, the OCP 8-bit specification, the PTX manual
    "float64": (11, 52),
    "float32": (8, 23),
    "tf32": (8, 10),
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float8_e4m3fn": (4, 3),
    "float8_e5m2": (5, 2),
}
STORAGE: dict[str, tuple[Any, Any]] = {
    "float16": (np.uint16, np.float16),
    "bfloat16": (np.uint16, ml_dtypes.bfloat16),
    "float8_e4m3fn": (np.uint8, ml_dtypes.float8_e4m3fn),
    "float8_e5m2": (np.uint8, ml_dtypes.float8_e5m2),
}
by_name = pytest.mark.parametrize("fmt", ALL, ids=lambda fmt: fmt.name)
small_by_name = pytest.mark.parametrize("fmt", SMALL, ids=lambda fmt: fmt.name)


def field_value(pattern: int, name: str) -> Fraction | float:
    """The value of a bit pattern, read field by field."""
    exponent_bits, fraction_bits = FIELDS[name]
    sign = -1 if pattern >> (exponent_bits + fraction_bits) else 1
    exponent = (pattern >> fraction_bits) & ((1 << exponent_bits) - 1)
    fraction = pattern & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if name == "float8_e4m3fn":
        if exponent == 15 and fraction == 7:
            return math.nan
    elif exponent == (1 << exponent_bits) - 1:
        return math.nan if fraction else sign * math.inf
    significand = Fraction(fraction, 1 << fraction_bits) + (1 if exponent else 0)
    return sign * significand * Fraction(2) ** (max(exponent, 1) - bias)


@dataclass(frozen=True)
class Grid:
    """The finite values >= 0 of a format, by pattern, and one more that stands for what overflows."""

    exact: list[Fraction]
    values: list[float]

    @property
    def omega(self) -> float:
        return self.values[-2]

    def neighbours(self, x: Fraction) -> tuple[int, int, int]:
        """Patterns of x >= 0 rounded down, up, and to nearest even (the smaller neighbour on an even tie)."""
        low = bisect.bisect_right(self.exact, x) - 1
        if self.exact[low] == x or low == len(self.exact) - 1:
            return low, low, low
        high = low + 1
        below, above = x - self.exact[low], self.exact[high] - x
        even = low if low % 2 == 0 else high
        return low, high, even if below == above else low if below < above else high

    def answer(self, pattern: int, overflow: float) -> float:
        return overflow if pattern == len(self.values) - 1 else self.values[pattern]


@cache
def grid(name: str) -> Grid:
    exact: list[Fraction] = []
    while isinstance(value := field_value(len(exact), name), Fraction):
        exact.append(value)
    exact.append(2 * exact[-1] - exact[-2])
    return Grid(exact, [float(value) for value in exact])


def hard_points(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Values, the midpoints to their successors, and both float64 neighbours of each."""
    spacings = values[1:] - values[:-1]  # of pairs far apart: harmless further points
    with np.errstate(over="ignore"):
        centres = np.concatenate([values, values[:-1] + spacings / 2])
        around = [centres, np.nextafter(centres, np.inf), np.nextafter(centres, -np.inf)]
    return np.concatenate([*around, [1e-310, 5e-324, 1e300, 1.7976931348623157e308, 0.0]])


def sampled_points(fmt: Format, count: int) -> np.ndarray[Any, Any]:
    """Hard points of either sign around random values of a format, and the special ones."""
    positions = np.random.default_rng(7).integers(0, fmt.last_ordinal, count)
    near = np.concatenate([positions, [0, 1, 2, fmt.last_ordinal - 2, fmt.last_ordinal - 1]])
    lower, upper = from_ordinal(near, fmt), from_ordinal(near + 1, fmt)
    points = hard_points(np.stack([lower, upper], 1).reshape(-1))
    with np.errstate(over="ignore"):
        edge = np.array([fmt.overflow_threshold, 2.0 * fmt.max])
    points = np.concatenate([points, edge, np.nextafter(edge, 0.0), [np.inf, np.nan]])
    return np.concatenate([points, -points])


def same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
    """Equal bit for bit, except that any NaN equals any NaN."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    wrong = (a.view(np.int64) != b.view(np.int64)) & ~(np.isnan(a) & np.isnan(b))
    assert not wrong.any(), (int(wrong.sum()), np.flatnonzero(wrong)[:5], a[wrong][:5], b[wrong][:5])


def past_omega(fmt: Format) -> float:
    return math.inf if fmt.infinities else math.nan


class TestConstants:
    @by_name
    def test_agree_with_the_bit_fields(self, fmt: Format) -> None:
        exponent_bits, fraction_bits = FIELDS[fmt.name]
        assert (fmt.precision, fmt.bits) == (fraction_bits + 1, 1 + exponent_bits + fraction_bits)
        assert Fraction(fmt.eta) == field_value(1, fmt.name)
        assert Fraction(fmt.tiny) == field_value(1 << fraction_bits, fmt.name)
        assert Fraction(fmt.max) == field_value(fmt.last_ordinal, fmt.name)
        after = field_value(fmt.last_ordinal + 1, fmt.name)
        assert after == math.inf if fmt.infinities else math.isnan(after)
        one = ((1 << (exponent_bits - 1)) - 1) << fraction_bits
        above_one = field_value(one + 1, fmt.name)
        assert isinstance(above_one, Fraction) and field_value(one, fmt.name) == 1
        assert above_one == 1 + 2 * Fraction(fmt.u)
        assert math.floor(math.log2(fmt.max)) == fmt.emax or fmt is FLOAT64
        assert fmt.tiny == 2.0**fmt.emin

    @pytest.mark.parametrize(
        ("fmt", "threshold"),
        [
            (FLOAT64, math.inf),
            (FLOAT32, 2.0**128 - 2.0**103),
            (FLOAT16, 65520.0),
            (BFLOAT16, 2.0**128 - 2.0**119),
            (FLOAT8_E4M3FN, 464.0),
            (FLOAT8_E5M2, 61440.0),
        ],
    )
    def test_overflow_threshold(self, fmt: Format, threshold: float) -> None:
        assert fmt.overflow_threshold == threshold

    def test_dtype(self) -> None:
        assert TF32.dtype is None
        for fmt in ALL:
            if fmt is not TF32:
                assert fmt.dtype is not None and format_of(fmt.dtype) is fmt


class TestFormatOf:
    @pytest.mark.parametrize(
        ("given", "fmt"),
        [
            ("float16", FLOAT16),
            ("torch.float16", FLOAT16),
            ("bf16", BFLOAT16),
            (torch.float8_e5m2, FLOAT8_E5M2),
            (np.dtype("float64"), FLOAT64),
            (np.dtype(ml_dtypes.bfloat16), BFLOAT16),
            (TF32, TF32),
        ],
    )
    def test_known(self, given: object, fmt: Format) -> None:
        assert format_of(given) is fmt

    @pytest.mark.parametrize(
        ("given", "hint"),
        [("flaot16", "'float16'"), (torch.int32, "known: float64"), ("float8_e4m3", "'float8_e4m3fn'")],
    )
    def test_unknown_names_the_nearest(self, given: object, hint: str) -> None:
        with pytest.raises(HarnessError, match=hint):
            format_of(given)


def test_importing_formats_imports_no_torch() -> None:
    code = "import sys, harness.formats; assert not {'torch', 'mpmath'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


class TestRoundTo:
    @small_by_name
    def test_every_value_and_midpoint_in_every_mode(self, fmt: Format) -> None:
        known = grid(fmt.name)
        points = hard_points(np.array(known.values))
        points = points[points >= 0]
        answers = [known.neighbours(Fraction(x)) for x in points.tolist()]
        overflow: dict[Mode, float] = {"toward-zero": fmt.max, "down": fmt.max}
        which = {"nearest-even": 2, "toward-zero": 0, "down": 0, "up": 1}
        mirrored: dict[Mode, Mode] = {"down": "up", "up": "down"}
        for mode in MODES:
            past = overflow.get(mode, past_omega(fmt))
            expected = np.array([known.answer(answer[which[mode]], past) for answer in answers])
            same(round_to(points, fmt, mode=mode), expected)
            same(round_to(-points, fmt, mode=mirrored.get(mode, mode)), -expected)
            capped = np.array([known.answer(answer[which[mode]], fmt.max) for answer in answers])
            same(round_to(points, fmt, mode=mode, saturate=True), capped)
            same(round_to(-points, fmt, mode=mirrored.get(mode, mode), saturate=True), -capped)

    @pytest.mark.parametrize("mode", MODES)
    def test_float32_against_numpy(self, mode: Mode) -> None:
        rng = np.random.default_rng(3)
        anything = rng.integers(-(2**63), 2**63 - 1, 100_000).view(np.float64)
        points = np.concatenate([sampled_points(FLOAT32, 20_000), anything])
        assert len(points) > 300_000
        with np.errstate(all="ignore"):
            near = points.astype(np.float32)
            wide, finite = near.astype(np.float64), np.isfinite(points)
            lower = np.where((wide > points) & finite, np.nextafter(near, np.float32(-np.inf)), near)
            upper = np.where((wide < points) & finite, np.nextafter(near, np.float32(np.inf)), near)
        expected = {
            "nearest-even": near,
            "toward-zero": np.where(np.signbit(points), upper, lower),
            "down": lower,
            "up": upper,
        }[mode]
        same(round_to(points, FLOAT32, mode=mode), np.copysign(expected.astype(np.float64), points))

    def test_tf32_keeps_eleven_bits(self) -> None:
        points = sampled_points(TF32, 300)
        points = points[np.isfinite(points) & (points != 0) & (np.abs(points) < TF32.overflow_threshold)]
        for x, got in zip(points.tolist(), round_to(points, TF32).tolist(), strict=True):
            exponent = max(math.frexp(x)[1] - 1, -126)
            spacing = Fraction(2) ** (exponent - 10)
            assert Fraction(got) == round(Fraction(x) / spacing) * spacing  # round: ties to even

    def test_float64_is_the_identity(self) -> None:
        points = sampled_points(FLOAT64, 100)
        for mode in MODES:
            got = round_to(points, FLOAT64, mode=mode)
            same(got, points)
            assert not np.shares_memory(got, points)
        same(round_to(points, FLOAT64, saturate=True), np.clip(points, -FLOAT64.max, FLOAT64.max))
        same(round_to(points, dataclasses.replace(FLOAT64)), points)  # as it comes from another process

    @pytest.mark.parametrize(
        ("x", "fmt", "expected"),
        [
            (1 + 2**-8 + 2**-40, BFLOAT16, 1.0078125),  # 1.0 where float32 lies between
            (1 + 2**-11 + 2**-40, FLOAT16, 1 + 2**-10),
            (1.0625001, FLOAT8_E4M3FN, 1.125),
            (136.002075, FLOAT8_E4M3FN, 144.0),
            (400.199585, FLOAT8_E4M3FN, 416.0),
            (464.0, FLOAT8_E4M3FN, 448.0),
            (65519.999999, FLOAT16, 65504.0),
            (65520.0, FLOAT16, math.inf),
            (61439.999999, FLOAT8_E5M2, 57344.0),
            (61440.0, FLOAT8_E5M2, math.inf),
            (-(2.0**128 - 2.0**119), BFLOAT16, -math.inf),
            (2.0**-134, BFLOAT16, 0.0),
            (2.0**-134 + 2.0**-180, BFLOAT16, 2.0**-133),
        ],
    )
    def test_known_answers(self, x: float, fmt: Format, expected: float) -> None:
        assert round_to(x, fmt) == expected
        assert round_mp(mpmath.mpf(x), fmt) == expected

    @pytest.mark.parametrize("mode", MODES)
    @by_name
    def test_special_values(self, fmt: Format, mode: Mode) -> None:
        special = np.array([0.0, -0.0, math.nan, math.inf, -math.inf])
        infinity = past_omega(fmt)
        same(round_to(special, fmt, mode=mode), np.array([0.0, -0.0, math.nan, infinity, -infinity]))
        saturated = np.array([0.0, -0.0, math.nan, fmt.max, -fmt.max])
        same(round_to(special, fmt, mode=mode, saturate=True), saturated)

    @pytest.mark.parametrize("device", DEVICES)
    @pytest.mark.parametrize("saturate", [False, True])
    @by_name
    def test_torch_and_numpy_agree_bit_for_bit(self, fmt: Format, saturate: bool, device: str) -> None:
        points = sampled_points(fmt, 500)
        for mode in MODES:
            got = round_to(torch.from_numpy(points).to(device), fmt, mode=mode, saturate=saturate)
            assert got.dtype == torch.float64 and got.device.type == device
            same(got.cpu().numpy(), round_to(points, fmt, mode=mode, saturate=saturate))

    def test_shape_and_kind_are_kept(self) -> None:
        table = np.linspace(-3, 3, 24).reshape(4, 6)
        flat = round_to(table.copy().reshape(-1), FLOAT16)
        same(round_to(table, FLOAT16), flat.reshape(4, 6))
        same(round_to(table.T[::-1], FLOAT16), flat.reshape(4, 6).T[::-1])
        tensor = torch.from_numpy(table).requires_grad_()
        same(round_to(tensor.T[:, ::2], FLOAT16).numpy(), flat.reshape(4, 6).T[:, ::2])
        expanded = torch.tensor(0.1, dtype=torch.float64).expand(3)
        same(round_to(expanded, FLOAT16).numpy(), np.full(3, 0.0999755859375))
        for shape in [(), (0,), (3, 0)]:
            assert round_to(np.ones(shape), FLOAT16).shape == shape
            assert round_to(torch.ones(shape, dtype=torch.float64), FLOAT16).shape == shape
        assert type(round_to(0.1, FLOAT16)) is float and type(round_to(np.array(0.1), FLOAT16)) is np.ndarray

    def test_only_float64_is_taken(self) -> None:
        for wrong in (np.ones(2, np.float32), torch.ones(2), [1.0], 1):
            with pytest.raises(HarnessError, match="float64"):
                round_to(wrong, FLOAT16)  # type: ignore[type-var]
        with pytest.raises(HarnessError, match="did you mean 'down'"):
            round_to(1.0, FLOAT16, mode="dwon")  # type: ignore[arg-type]


class TestRoundMp:
    @pytest.mark.parametrize("saturate", [False, True])
    @by_name
    def test_agrees_with_round_to_on_float64(self, fmt: Format, saturate: bool) -> None:
        points = sampled_points(fmt, 60)
        points = points[(points != 0) | ~np.signbit(points)]  # mpmath has no -0.0
        for mode in MODES:
            got = [round_mp(mpmath.mpf(x), fmt, mode=mode, saturate=saturate) for x in points.tolist()]
            same(np.array(got), round_to(points, fmt, mode=mode, saturate=saturate))

    @small_by_name
    def test_longer_numbers_against_fractions(self, fmt: Format) -> None:
        known, context = grid(fmt.name), mpmath.MPContext()
        context.prec = 600
        chosen = range(0, len(known.values) - 1, max(1, len(known.values) // 250))
        for pattern in [*chosen, len(known.values) - 2]:
            middle = (known.exact[pattern] + known.exact[pattern + 1]) / 2
            for centre in (middle, known.exact[pattern]):
                for offset in (-(Fraction(2) ** -300), 0, Fraction(2) ** -300):
                    exact = centre + offset
                    if exact < 0:
                        continue
                    x = context.mpf(exact.numerator) / exact.denominator  # a power of two: exact
                    low, high, nearest = known.neighbours(exact)
                    past = past_omega(fmt)
                    answers: list[tuple[Mode, Mode, float]] = [
                        ("nearest-even", "nearest-even", known.answer(nearest, past)),
                        ("toward-zero", "toward-zero", known.answer(low, fmt.max)),
                        ("down", "up", known.answer(low, fmt.max)),
                        ("up", "down", known.answer(high, past)),
                    ]
                    for mode, mirrored, expected in answers:
                        same(np.array(round_mp(x, fmt, mode=mode)), np.array(expected))
                        if exact:  # mpmath has no -0.0
                            same(np.array(round_mp(-x, fmt, mode=mirrored)), np.array(-expected))

    def test_float64_against_fractions(self) -> None:
        context = mpmath.MPContext()
        context.prec = 1400
        rng = np.random.default_rng(5)
        bits = np.concatenate([rng.integers(0, 0x7FE << 52, 300), rng.integers(0, 1 << 53, 300), [0, 1, 2]])
        for value in bits.view(np.float64).tolist():
            middle = Fraction(value) + (Fraction(math.nextafter(value, math.inf)) - Fraction(value)) / 2
            for offset in (-(Fraction(2) ** -1300), 0, Fraction(2) ** -1300):
                exact = middle * (1 + offset)
                x = context.mpf(exact.numerator) / exact.denominator
                got = round_mp(x, FLOAT64)
                assert got == exact.numerator / exact.denominator  # int / int is rounded once
                assert round_mp(x, FLOAT64, mode="down") == value
                assert round_mp(x, FLOAT64, mode="up") == math.nextafter(value, math.inf)
                assert round_mp(-x, FLOAT64, mode="toward-zero") == -value

    def test_far_outside_the_range(self) -> None:
        huge, minute = mpmath.ldexp(1, 10**12), mpmath.ldexp(-1, -(10**12))
        assert round_mp(huge, FLOAT32) == math.inf
        assert round_mp(huge, FLOAT32, mode="down") == FLOAT32.max
        assert math.isnan(round_mp(huge, FLOAT8_E4M3FN))
        assert to_hex(round_mp(minute, FLOAT32)) == "-0x0p+0"
        assert round_mp(minute, FLOAT32, mode="down") == -FLOAT32.eta

    def test_context_is_not_read(self) -> None:
        context = mpmath.MPContext()
        context.prec = 200
        x = context.mpf(1) + context.ldexp(1, -8) + context.ldexp(1, -190)
        context.prec = 5
        assert round_mp(x, BFLOAT16) == 1.0078125

    def test_only_mpf_is_taken(self) -> None:
        with pytest.raises(HarnessError, match=r"mpf\(0.1\)"):
            round_mp(0.1, FLOAT16)


class TestUlp:
    @small_by_name
    def test_is_the_distance_to_the_next_value(self, fmt: Format) -> None:
        values = np.array(grid(fmt.name).values)
        spacing = np.diff(values)
        for x in (values[:-1], -values[:-1], (values[:-1] + values[1:]) / 2, np.nextafter(values[1:], 0)):
            same(ulp(x, fmt), spacing)
            same(half_ulp(x, fmt), spacing / 2)

    @by_name
    def test_ends(self, fmt: Format) -> None:
        top = fmt.max - from_ordinal(fmt.last_ordinal - 1, fmt)
        ends = np.array([0.0, -0.0, 5e-324, fmt.tiny, fmt.max, 1.7e308, math.inf, -math.inf, math.nan])
        expected = np.array([fmt.eta] * 4 + [top] * 2 + [math.inf] * 2 + [math.nan])
        same(ulp(ends, fmt), expected)
        same(half_ulp(ends, fmt), np.maximum(expected / 2, 5e-324))
        same(ulp(torch.from_numpy(ends), fmt).numpy(), expected)

    def test_float64(self) -> None:
        points = np.abs(sampled_points(FLOAT64, 200))
        points = points[points <= FLOAT64.max]
        same(ulp(points, FLOAT64), np.array([math.ulp(x) for x in points.tolist()]))
        assert half_ulp(1.0, FLOAT64) == 2.0**-53
        assert half_ulp(2.0**-1021, FLOAT64) == half_ulp(0.0, FLOAT64) == 5e-324

    def test_long_arrays(self) -> None:
        x = 2.0 ** np.resize(np.arange(-30, 20), 300_000)
        x[200_000] = math.inf
        same(ulp(x, FLOAT32), x * 2.0**-23)
        same(ulp(torch.from_numpy(x), FLOAT32).numpy(), x * 2.0**-23)

    def test_shape_and_kind_are_kept(self) -> None:
        assert type(ulp(1.0, FLOAT16)) is float and ulp(np.array(1.0), FLOAT16).shape == ()
        assert type(half_ulp(np.array(1.0), FLOAT64)) is np.ndarray
        assert ulp(torch.ones(2, 3, dtype=torch.float64).T, FLOAT16).shape == (3, 2)


class TestOrdinal:
    @pytest.mark.parametrize("device", DEVICES)
    @small_by_name
    def test_is_the_bit_pattern(self, fmt: Format, device: str) -> None:
        values = np.array(grid(fmt.name).values[:-1] + [math.inf] * fmt.infinities)
        positions = np.arange(len(values))
        assert fmt.last_ordinal + 1 + fmt.infinities == len(values)
        for sign in (1, -1):
            got = ordinal(sign * values, fmt)
            assert got.dtype == np.int64 and np.array_equal(got, sign * positions)
            on_device = ordinal(torch.from_numpy(sign * values).to(device), fmt)
            assert on_device.dtype == torch.int64 and np.array_equal(on_device.cpu().numpy(), got)
            same(from_ordinal(got, fmt), sign * values + 0.0)
            same(from_ordinal(on_device, fmt).cpu().numpy(), sign * values + 0.0)

    @pytest.mark.parametrize("fmt", [FLOAT32, FLOAT64], ids=lambda fmt: fmt.name)
    def test_against_numpy(self, fmt: Format) -> None:
        rng = np.random.default_rng(11)
        patterns = rng.integers(0, fmt.last_ordinal, 2000).astype(f"i{fmt.bits // 8}")
        native = np.concatenate(
            [patterns.view(fmt.name), from_ordinal(np.arange(-3, 4), fmt).astype(fmt.name)]
        )
        native = np.concatenate([native, -native, np.array([fmt.max, np.inf], fmt.name)])
        values = native.astype(np.float64)
        with np.errstate(over="ignore"):
            same(next_up(values, fmt), np.nextafter(native, np.array(np.inf, fmt.name)))
            same(next_down(values, fmt), np.nextafter(native, np.array(-np.inf, fmt.name)))
        assert np.array_equal(ordinal(values[:2000], fmt), patterns)

    @small_by_name
    def test_neighbours(self, fmt: Format) -> None:
        values = np.array(grid(fmt.name).values[:-1])
        same(next_up(values[:-1], fmt), values[1:])
        same(next_up(-values[1:], fmt), -values[:-1])
        same(next_down(values[1:], fmt), values[:-1])
        same(next_down(-values[:-1], fmt), -values[1:])
        same(next_up(torch.from_numpy(values), fmt).numpy(), np.append(values[1:], past_omega(fmt)))
        assert next_up(-0.0, fmt) == fmt.eta and next_down(0.0, fmt) == -fmt.eta
        assert next_up(np.array(1.0), fmt).shape == next_down(np.array(1.0), fmt).shape == ()
        if fmt.infinities:
            assert next_up(math.inf, fmt) == math.inf and next_up(-math.inf, fmt) == -fmt.max

    def test_shape_and_kind_are_kept(self) -> None:
        values = np.array([[1.0, 2.0, -3.0]]).T
        positions = ordinal(values, FLOAT16)
        assert positions.shape == values.shape and ordinal(np.array(1.0), FLOAT16).shape == ()
        same(from_ordinal(positions, FLOAT16), values)
        same(next_down(next_up(values, FLOAT16), FLOAT16), values)
        same(from_ordinal(torch.from_numpy(positions), FLOAT16).numpy(), values)
        assert ordinal(1.0, FLOAT8_E4M3FN) == 0x38 and type(ordinal(1.0, FLOAT16)) is int
        assert type(from_ordinal(1, FLOAT16)) is float
        with pytest.raises(HarnessError, match="int64"):
            from_ordinal(values, FLOAT16)

    def test_what_has_no_ordinal(self) -> None:
        with pytest.raises(HarnessError, match=r"0\.1 .*at index \(1, 0\) is not a value of float16"):
            ordinal(np.array([[1.0, 2.0], [0.1, 0.2]]), FLOAT16)
        for x, fmt in ((math.nan, FLOAT16), (math.inf, FLOAT8_E4M3FN), (65520.0, FLOAT16)):
            with pytest.raises(HarnessError):
                ordinal(x, fmt)
        assert from_ordinal(-126, FLOAT8_E4M3FN) == -448.0
        for i, fmt in ((127, FLOAT8_E4M3FN), (-125, FLOAT8_E5M2), (-(2**63), FLOAT64)):
            with pytest.raises(HarnessError, match="past"):
                from_ordinal(i, fmt)


class TestStorage:
    @pytest.mark.parametrize("device", DEVICES)
    @small_by_name
    def test_every_bit_pattern(self, fmt: Format, device: str) -> None:
        unsigned, witness = STORAGE[fmt.name]
        patterns = np.arange(1 << fmt.bits, dtype=unsigned)
        fields = np.array([float(field_value(int(pattern), fmt.name)) for pattern in patterns])
        fields = np.where(patterns >> (fmt.bits - 1), -np.abs(fields), fields)  # Fraction has no -0
        with np.errstate(invalid="ignore"):
            same(patterns.view(witness).astype(np.float64), fields)
        signed = patterns.view(f"i{fmt.bits // 8}")
        assert fmt.dtype is not None
        stored = torch.from_numpy(signed).view(fmt.dtype).to(device)
        same(decode(stored).cpu().numpy(), fields)

        numbers = ~np.isnan(fields)
        for given in (fields, torch.from_numpy(fields), torch.from_numpy(fields).to(device)):
            tensor = encode(given, fmt, device)
            assert tensor.dtype == fmt.dtype and tensor.device.type == device
            bits = tensor.cpu().view(torch.from_numpy(signed).dtype).numpy()
            assert np.array_equal(bits[numbers], signed[numbers])
            assert np.isnan(decode(tensor).cpu().numpy()[~numbers]).all()
        for start in range(0, len(fields) - 3, max(1, len(fields) // 64)):  # short vectors take scalar code
            part = slice(start, start + 3)
            same(decode(encode(fields[part], fmt)).numpy(), fields[part])

    @pytest.mark.parametrize("fmt", [FLOAT32, FLOAT64], ids=lambda fmt: fmt.name)
    def test_wider_formats(self, fmt: Format) -> None:
        native = f"i{fmt.bits // 8}"
        anywhere = np.random.default_rng(2).integers(0, fmt.last_ordinal, 50_000)
        patterns = np.concatenate([anywhere, np.arange(100), fmt.last_ordinal + np.arange(-3, 2)])
        for sign in (1, -1):
            stored = np.copysign(patterns.astype(native).view(fmt.name), sign).astype(fmt.name)
            values = stored.astype(np.float64)
            bits = encode(values, fmt).numpy().view(native)
            assert np.array_equal(bits, stored.view(native))
            same(decode(encode(values, fmt)).numpy(), values)

    def test_the_first_value_that_is_not_exact_is_named(self) -> None:
        values = np.array([[1.0, math.nan, 0.5], [2.0, 1 + 2**-8, 0.1]])
        with pytest.raises(HarnessError, match=r"1\.00390625 \(0x1\.01p\+0\) at index \(1, 1\).*bfloat16"):
            encode(values, BFLOAT16)
        with pytest.raises(HarnessError, match=r"index \(1, 1\)"):
            encode(torch.from_numpy(values), BFLOAT16)
        for x in (math.inf, 464.0, 2.0**-10):
            with pytest.raises(HarnessError, match="e4m3fn"):
                encode(np.array([x]), FLOAT8_E4M3FN)

    def test_what_has_no_storage(self) -> None:
        with pytest.raises(HarnessError, match="float32"):
            encode(np.ones(1), TF32)
        with pytest.raises(HarnessError, match=r"torch\.int64"):
            decode(torch.ones(1, dtype=torch.int64))


class TestHex:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (1.5, "0x1.8p+0"),
            (-1.0, "-0x1p+0"),
            (0.0, "0x0p+0"),
            (-0.0, "-0x0p+0"),
            (2.0**-149, "0x1p-149"),
            (0.1, "0x1.999999999999ap-4"),
            (5e-324, "0x0.0000000000001p-1022"),
            (math.inf, "inf"),
            (-math.inf, "-inf"),
            (math.nan, "nan"),
            (np.float64(16.0), "0x1p+4"),
        ],
    )
    def test_text(self, value: float, text: str) -> None:
        assert to_hex(value) == text
        same(np.array(from_hex(text)), np.array(value))

    def test_round_trip(self) -> None:
        values = np.random.default_rng(9).integers(-(2**63), 2**63 - 1, 2000).view(np.float64)
        same(np.array([from_hex(to_hex(value)) for value in values.tolist()]), values)

    @pytest.mark.parametrize("text", ["1.5", "10", "", "0xzp+0", "0x1p+2000", "infinity"])
    def test_other_text_raises(self, text: str) -> None:
        with pytest.raises(HarnessError, match="hexadecimal"):
            from_hex(text)
