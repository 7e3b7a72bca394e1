"""The sentence: an output is right when it is the claimed rounding of some real within t of the exact value.

    rnd(exact - t) <= got <= rnd(exact + t)

Rounding is monotone, so that the sentence also covers overflow, saturation, subnormals, fp8 and integer codes
(of NaN, which no integer is the rounding of, any code is right, and counted as unspecified; of infinities the
clamp). Where the output has the accumulator's format there is no final rounding and it is the interval itself.
Overflow adds answers by flags (see :mod:`harness.numbers.number`); an element that the oracle does not know is left open,
and counted as unbounded. Comparisons are written so that NaN lands in wrong.
"""

from __future__ import annotations

import numpy as np
import torch

from harness import formats
from harness.checks.judgement import Judgement, Ordinary, Target, accepts, chosen
from harness.numbers import Answer
from harness.numbers.double import Double
from harness.numbers.double_backend import DoubleDouble
from harness.numbers.double_rounding import downward, ends, round_double, to_odd, upward
from harness.numbers.number import LOST, NAN, NINF, PINF, SPANNED, UNSPECIFIED

_OTHERS = 0xFF ^ SPANNED
"""Flags that add answers."""


def judge(got: torch.Tensor, answer: Answer, target: Target) -> Judgement:
    """Judge ``got`` (float64 values of the output's format or integer dtype) by an answer of the same shape."""
    if target.kind == "choice":
        return _judge_choice(got, answer)
    ordinary = _judge_ordinary(got, answer, target)
    if ordinary is not None:
        return ordinary
    low_word: torch.Tensor | float = 0.0
    if isinstance(answer.value, torch.Tensor):
        value, t, may = answer.value, answer.t, answer.may
        lo, hi = _range(value, t, target)
    elif isinstance(answer.value, Double):
        value, low_word, t, may = answer.value.hi, answer.value.lo, answer.t, answer.may
        lo, hi = _double_range(answer.value, t, target)
    else:
        lo, hi, value, t = _exact_range(answer, target)
        may = torch.from_numpy(np.array(answer.may, dtype=np.uint8).reshape(answer.value.shape))
    if target.kind == "exact":
        lo, hi, t, may = value, value, torch.zeros_like(value), may & LOST
    largest = target.fmt.max if target.saturate and target.fmt is not None else torch.inf
    extremes = (-largest, largest)
    if target.kind == "code" and target.fmt is None:
        extremes = target.clamp or extremes
        without = NAN if target.clamp else NAN | PINF | NINF
        may = torch.where(torch.isnan(value) | ((may & without) != 0), may | UNSPECIFIED, may)
    if target.kind == "code" and target.fmt is not None and not target.saturate:
        # A code beyond the largest, of a scale that is too small, may be clamped to it as well as overflow.
        finite, most = torch.isfinite(value), target.fmt.max
        lo = torch.where(finite & (lo > most), most, lo)
        hi = torch.where(finite & (hi < -most), -most, hi)
    lost = (may & LOST) != 0
    right = accepts(got, lo, hi, may, extremes)
    allowed = _allowed(value, t, target)
    ratio = _ratio(got - value - low_word, got, value, allowed, right, target)
    ratio = torch.where(right & ~((lo <= got) & (got <= hi)), 0.0, ratio)
    return Judgement(
        right=right,
        lo=lo,
        hi=hi,
        ratio=ratio,
        allowed=allowed,
        value=value,
        t=t,
        may=may,
        unspecified=(((may & UNSPECIFIED) != 0) | (((may & _OTHERS) != 0) & ~torch.isnan(value))) & ~lost,
        unbounded=torch.isinf(t) | lost,
        decisive=~accepts(torch.zeros_like(got), lo, hi, may, extremes),
        extremes=extremes,
    )


def _judge_ordinary(got: torch.Tensor, answer: Answer, target: Target) -> Judgement | None:
    """The same in fewer steps, for floating-point numbers that are all finite, without flags, far from overflow."""
    fmt = target.fmt
    if target.kind != "number" or fmt is None or answer.flagged or not isinstance(answer.value, torch.Tensor):
        return None
    if not answer.most < fmt.max:
        return None
    judged = Ordinary(got, answer, target, fmt)
    return judged if judged.right_everywhere or _magnitude(got) <= fmt.max else None


def _magnitude(a: torch.Tensor) -> float:
    """The largest |a|; NaN where there is one."""
    if a.numel() == 0:
        return 0.0
    low, high = float(a.amin()), float(a.amax())
    return max(high, -low) if low <= high else float("nan")


def _allowed(value: torch.Tensor, t: torch.Tensor, target: Target) -> torch.Tensor:
    """t, and half an ulp at |exact| + t where a final rounding follows."""
    if target.kind == "code" and target.fmt is None:
        return t + 0.5
    if target.rounds and target.fmt is not None:
        return t + formats.half_ulp(value.abs() + t, target.fmt)
    return t


def _ratio(
    error: torch.Tensor,
    got: torch.Tensor,
    value: torch.Tensor,
    allowed: torch.Tensor,
    right: torch.Tensor,
    target: Target,
) -> torch.Tensor:
    """|error| / allowed; inf where it is wrong and not a number, 0 where right."""
    error = error.abs()
    ratio = torch.where(error == 0, 0.0, error / allowed)
    known = torch.isfinite(got) & torch.isfinite(value)
    if target.kind == "code" and target.clamp is not None:
        known &= (value >= target.clamp[0]) & (value <= target.clamp[1])
    if target.saturate and target.fmt is not None:
        known &= value.abs() <= target.fmt.max
    ratio = torch.where(known, ratio, torch.where(right, 0.0, torch.inf))
    return torch.nan_to_num(ratio, nan=torch.inf, posinf=torch.inf)


def _judge_choice(got: torch.Tensor, answer: Answer) -> Judgement:
    """Any index whose score may be the least is right; the first of those that tie without error."""
    value, t = answer.value, answer.t
    if isinstance(value, Double):
        low, high = ends(value, t)
        candidates = low <= _least(high)
        least = value == _least(value)
        best = least.to(torch.uint8).argmax(-1).to(torch.float64)
    else:
        if not isinstance(value, torch.Tensor):
            value = torch.from_numpy(np.array(value, dtype=np.float64))
            t = torch.from_numpy(np.array(t, dtype=np.float64))
        candidates = value - t <= (value + t).amin(-1, keepdim=True)
        least = value == value.amin(-1, keepdim=True)
        best = value.argmin(-1).to(torch.float64)
    exact = candidates & least & (t == 0)
    later = exact & (exact.cumsum(-1) > 1)
    candidates &= ~later
    right = chosen(got, candidates)
    zeros = torch.zeros_like(best)
    return Judgement(
        right=right,
        lo=best,
        hi=best,
        ratio=torch.where(right, zeros, torch.inf),
        allowed=zeros,
        value=best,
        t=zeros,
        may=zeros.to(torch.uint8),
        unspecified=zeros.bool(),
        unbounded=zeros.bool(),
        decisive=~chosen(zeros, candidates),
        candidates=candidates,
    )


def _least(x: Double) -> Double:
    least: Double = -DoubleDouble().amax(-x, x.ndim - 1)
    return least


def _range(value: torch.Tensor, t: torch.Tensor, target: Target) -> tuple[torch.Tensor, torch.Tensor]:
    lo, hi, fmt = value - t, value + t, target.fmt
    if fmt is None:
        return _integer(lo, target), _integer(hi, target)
    if target.rounds or target.saturate:
        return formats.round_to(lo, fmt, saturate=target.saturate), formats.round_to(
            hi, fmt, saturate=target.saturate
        )
    limit = fmt.overflow_threshold
    lo = torch.where(lo <= -limit, -torch.inf, torch.where(lo >= limit, torch.inf, lo))
    hi = torch.where(hi >= limit, torch.inf, torch.where(hi <= -limit, -torch.inf, hi))
    return lo, hi


def _double_range(value: Double, t: torch.Tensor, target: Target) -> tuple[torch.Tensor, torch.Tensor]:
    """The same from double-doubles; without a final rounding, the outermost float64 of the interval."""
    least, most = ends(value, t)
    fmt, saturate = target.fmt, target.saturate
    if fmt is None:
        return _integer(to_odd(least), target), _integer(to_odd(most), target)
    if target.rounds:
        return round_double(least, fmt, saturate=saturate), round_double(most, fmt, saturate=saturate)
    lo, hi = upward(least), downward(most)
    nearest = (lo > hi) | (value.hi.abs() + t > fmt.max)
    lo = torch.where(nearest, round_double(least, fmt, saturate=saturate), lo)
    hi = torch.where(nearest, round_double(most, fmt, saturate=saturate), hi)
    return lo, hi


def _integer(x: torch.Tensor, target: Target) -> torch.Tensor:
    """The nearest integer, ties to even, within the clamp."""
    rounded = torch.round(x)
    return rounded if target.clamp is None else rounded.clamp(*target.clamp)


def _exact_range(answer: Answer, target: Target) -> tuple[torch.Tensor, ...]:
    """The same from mpmath values; without a final rounding, the outermost format values of the interval."""
    shape, fmt, saturate = answer.value.shape, target.fmt or formats.FLOAT64, target.saturate
    final = target.rounds and target.fmt is not None
    bounds = np.empty((4, answer.value.size))
    for i, (exact, error) in enumerate(zip(answer.value.flat, answer.t.flat, strict=True)):
        least, most = exact - error, exact + error
        low = formats.round_mp(least, fmt, mode="nearest-even" if final else "up", saturate=saturate)
        high = formats.round_mp(most, fmt, mode="nearest-even" if final else "down", saturate=saturate)
        if not final and (low > high or abs(exact) + error > fmt.max):
            low = formats.round_mp(least, fmt, saturate=saturate)
            high = formats.round_mp(most, fmt, saturate=saturate)
        bounds[:, i] = low, high, float(exact), float(error)
    lo, hi, value, t = (torch.from_numpy(row.copy()).reshape(shape) for row in bounds)
    if target.fmt is None:
        return _integer(lo, target), _integer(hi, target), value, t
    return lo, hi, value, t
