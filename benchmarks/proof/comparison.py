"""A reading of a definition held against the same definition at 300 bits of mpmath: its values, and what it allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mpmath
import numpy as np
import torch

from benchmarks.proof.launches import Launch, launches
from benchmarks.proof.readings import READINGS, Read
from harness import oracle
from harness.contracts import Contract
from harness.formats import FLOAT64
from harness.numbers import Answer
from harness.numbers.double import Double
from harness.numbers.multiprecision import Multiprecision
from harness.numbers.number import FAR, LOST, NAN, NINF, PINF, SPANNED, UNSPECIFIED, Reading
from harness.numbers.pieces import NotInPieces
from harness.numbers.radius import terms
from harness.numbers.read import _evaluate

BITS = 300

PATIENCE = 40
"""How many times as many outputs are looked at as are to be compared, before a contract is given up; and how many
launches a reading may decline before it has taken one."""

ERRORS_OF_ERRORS, UNDERFLOWS = 2.0**-30, 8 * FLOAT64.eta
"""What float64 may lose of an allowed error: a share of it and, as every operation that may underflow is allowed a
whole eta and errs by half of one, some of those."""

FEW_DIGITS = 2.0**40 * FLOAT64.tiny
"""Allowed errors below this may be subnormal numbers times a factor, as a mean's error over a small deviation: they
have fewer digits than ERRORS_OF_ERRORS asks for, and only their values are compared."""


class Values(Multiprecision):
    """mpmath numbers whose magnitudes, which allowed errors are made of, are floats: of those few digits are asked."""

    def __init__(self) -> None:
        super().__init__(BITS)
        self.context.mpf.__abs__ = lambda number: np.float64(mpmath.libmp.to_float(number._mpf_)).__abs__()

    def absolute(self, a: np.ndarray) -> np.ndarray:
        return self.where(a < 0, -a, a)


WIDE = Values()


@dataclass
class Found:
    """What a comparison found: outputs compared; lost, which go up a tier; open, where anything is right, or all
    that t spans; outside the radius, or allowed less than the same rules allow at 300 bits; the largest error in the
    radius; example: the first outside, in words; declined: launches that cannot be read in pieces."""

    compared: int = 0
    lost: int = 0
    open: int = 0
    outside: int = 0
    largest: float = 0.0
    example: str = ""
    declined: int = 0

    @property
    def outputs(self) -> int:
        """All that were looked at."""
        return self.compared + self.lost + self.open

    @property
    def refused(self) -> bool:
        """Whether the contract is none for this reading."""
        return not self.outputs and self.declined >= PATIENCE


def compare(contract: Contract, reading: str, outputs: int, seed: int = 0) -> Found:
    """Hold a reading against mpmath on so many outputs of one contract, beside those that it gives up."""
    how, found = READINGS[reading], Found()
    for launch in launches(contract, how.whole, how.tier, seed):
        if oracle.first_tier(launch.model, terms(launch.arguments.values())) <= how.tier:
            try:
                answers = _both(launch, how.read)
            except NotInPieces:
                answers, found.declined = [], found.declined + 1
            for output, three in zip(launch.contract.outputs, answers, strict=False):
                _count(found, *three, f"{output.name} of launch {launch.number}, seed {seed}")
        if found.refused or found.compared >= outputs or found.outputs >= PATIENCE * outputs:
            return found
    raise AssertionError("launches are endless")


def _both(launch: Launch, read: Read) -> list[tuple[Answer, np.ndarray, np.ndarray]]:
    """The answers of a reading, and the same definition's values and allowed errors at 300 bits."""
    definition, count = launch.contract.definition, len(launch.contract.outputs)
    answers, both = read(definition, launch.arguments, launch.model, [None] * count), []
    with np.errstate(all="ignore"):
        numbers = _evaluate(definition, launch.arguments, Reading(WIDE, launch.model), count)
    for answer, number in zip(answers, numbers, strict=True):
        shape, v = tuple(answer.t.shape), np.asarray(number.v)
        both.append((answer, v.reshape(shape), WIDE.filled(number.t, v).reshape(shape)))
    return both


def _count(found: Found, answer: Answer, exact: np.ndarray, allowed: np.ndarray, where: str) -> None:
    value = answer.value
    high, low = (value.hi, value.lo) if isinstance(value, Double) else (value, torch.zeros_like(value))
    share = _CONTEXT.mpf(answer.radius) / (1 + _CONTEXT.mpf(answer.radius))
    columns = (high, low, answer.t, answer.may)
    rows = zip(*(column.reshape(-1).tolist() for column in columns), exact.flat, allowed.flat, strict=True)
    for place, (h, l, t, may, right, least) in enumerate(rows):
        if may & LOST:
            found.lost += 1
            continue
        if may & UNSPECIFIED or math.isinf(t):
            found.open += 1
            continue
        spanned = bool(may & SPANNED)
        found.open, found.compared = found.open + spanned, found.compared + (not spanned)
        ratio = 0.0 if may & _kind(right) else _ratio(h, l, t if spanned else t * share, right)
        found.largest = max(found.largest, 0.0 if spanned else ratio)
        enough = t * (1 + ERRORS_OF_ERRORS) + UNDERFLOWS
        short = math.isfinite(h) and not spanned and max(enough, FEW_DIGITS) < least < math.inf
        if short or not ratio <= 1:
            found.outside += 1
            value, error = (
                f"{h!r} + {l!r}, exactly {mpmath.nstr(right, 40)}",
                f"t {t:.4g}, exactly {float(least):.4g}",
            )
            found.example = found.example or f"element {place} of {where}: {value}; {error}"


def _kind(right: mpmath.mpf) -> int:
    """The flag under which a reading admits a value that is no number: whatever its own value is."""
    return NAN if mpmath.isnan(right) else 0 if mpmath.isfinite(right) else PINF if right > 0 else NINF


def _ratio(high: float, low: float, radius: mpmath.mpf, right: mpmath.mpf) -> float:
    """The error of a value over the radius that it may have: infinite where it is of another kind.

    An infinite value may stand for what is finite, but farther than any format that it judges.
    """
    if math.isfinite(high) and mpmath.isfinite(right):
        error = abs(_CONTEXT.mpf(high) + _CONTEXT.mpf(low) - right)
        return float(error / radius) if error and radius else math.inf if error else 0.0
    if mpmath.isnan(right) or math.isnan(high):
        return 0.0 if mpmath.isnan(right) and math.isnan(high) else math.inf
    beyond = math.isinf(high) and right * math.copysign(1, high) >= FAR
    return 0.0 if beyond else math.inf


_CONTEXT = mpmath.MPContext()
_CONTEXT.prec = BITS
