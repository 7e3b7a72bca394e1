"""Proof by test: no reading is further from mpmath at 300 bits than the radius that it claims.

    python -m benchmarks.proof [OUTPUTS]        20000 outputs of each contract by default: minutes

Rows are adversarial: sums and dots that cancel to condition numbers of 1e60 (Ogita, Rump & Oishi,
doi:10.1137/030601818, §6), half ulps, values near overflow, subnormals, means large beside the spread, long
rows. One line per contract and reading: outputs, how many the reading gave up (LOST: they go up a tier), the
largest error over the radius, and how many lay outside, which must be none. The exit status says so.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import torch

import references
from harness.arithmetic import Arithmetic
from harness.contracts import Contract
from harness.formats import FLOAT32, FLOAT64, Format, round_to
from harness.numbers import Answer, read_double, read_float64
from harness.numbers.backend import Multiprecision
from harness.numbers.double import Double
from harness.numbers.number import LOST, Reading

BITS = 300
OUTPUTS = 20_000
WIDTH = 24
"""Terms of a usual row; one row in every batch of a reduction has LONG."""
LONG = 4_001

Array = np.ndarray
Read = Callable[..., list[Answer]]
READINGS: dict[str, tuple[Read, Format]] = {
    "float64": (read_float64, FLOAT32),
    "double-double": (read_double, FLOAT64),
}
"""Each reading, and the format whose kernels it judges."""


@dataclass(frozen=True)
class Subject:
    """A contract, and how to make arguments of it from a source of rows."""

    contract: Contract
    arguments: Callable[[Source], dict[str, Any]]


@dataclass
class Found:
    """What a comparison found."""

    outputs: int = 0
    lost: int = 0
    outside: int = 0
    largest: float = 0.0


class Source:
    """Adversarial rows of a format, as float64 arrays."""

    def __init__(self, fmt: Format, seed: int) -> None:
        self.fmt = fmt
        self.random = np.random.default_rng(seed)

    def rows(self, count: int, n: int, *, moderate: bool = False) -> torch.Tensor:
        """[count, n], each row of one of the families; moderate: none whose squares or exponentials overflow."""
        kinds = [self._cancelling, self._half_ulps, self._spread, self._large_mean, self._equal, self._normal]
        kinds += [] if moderate else [self._near_overflow, self._subnormal, self._ill_conditioned]
        found = [kinds[int(self.random.integers(len(kinds)))](n) for _ in range(count)]
        return torch.from_numpy(round_to(np.stack(found), self.fmt))

    def _normal(self, n: int) -> Array:
        return self.random.standard_normal(n) * 10.0 ** self.random.uniform(-3, 2)

    def _equal(self, n: int) -> Array:
        return np.full(n, self.random.standard_normal())

    def _cancelling(self, n: int) -> Array:
        row = self.random.standard_normal(n)
        half = n // 2
        row[half : 2 * half] = -row[:half] * (1 + self.fmt.u * self.random.integers(-4, 5, half))
        return self.random.permutation(row)

    def _half_ulps(self, n: int) -> Array:
        row = np.full(n, 2.0 ** (8 - self.fmt.precision))
        row[self.random.integers(n)] = 2.0**8
        return row

    def _spread(self, n: int) -> Array:
        return self.random.choice([-1.0, 1.0], n) * np.exp2(self.random.uniform(-40, 6, n))

    def _large_mean(self, n: int) -> Array:
        return 10.0 ** self.random.uniform(1, 3) + self.random.standard_normal(n) * self.random.choice(
            [1, 1e-3]
        )

    def _near_overflow(self, n: int) -> Array:
        row = self.random.choice([-1.0, 1.0], n) * self.fmt.max * self.random.uniform(0.5, 1.0, n)
        return row / self.random.choice([1.0, 2.0, 2.0 * n])

    def _subnormal(self, n: int) -> Array:
        return self.fmt.eta * self.random.integers(-9, 10, n).astype(np.float64)

    def _ill_conditioned(self, n: int) -> Array:
        """A ramp up to 2^100 (2^200 in float64), then cancelled term by term: condition numbers to 1e60."""
        top = int(self.random.integers(20, 101 if self.fmt is FLOAT32 else 201))
        half = n // 2
        exponents = self.random.integers(0, top + 1, half)
        exponents[0], exponents[-1] = top, 0
        row = list(round_to(np.ldexp(2 * self.random.random(half) - 1, exponents), self.fmt))
        total = sum((Fraction(v) for v in row), Fraction(0))
        for e in np.linspace(top, 0, n - half).round().astype(int):
            term = Fraction(math.ldexp(2 * self.random.random() - 1, int(e))) - total
            row.append(float(round_to(float(term), self.fmt)))
            total += Fraction(row[-1])
        return self.random.permutation(np.array(row))


def _along(contract: Contract, *, moderate: bool = False) -> Subject:
    """A contract of x and dim."""

    def arguments(source: Source) -> dict[str, Any]:
        long = source.random.random() < 0.02 and contract.outputs[0].shape != "*shape"
        rows, n = (1, LONG) if long else (64, WIDTH)
        return {"x": source.rows(rows, n, moderate=moderate), "dim": -1}

    return Subject(contract, arguments)


def _matrices(source: Source) -> dict[str, Any]:
    """Rows and columns of two families each; where a column is powers of two, dots keep a row's condition."""
    b = source.rows(20, WIDTH, moderate=True)
    b[::2] = torch.exp2(torch.from_numpy(source.random.integers(-3, 4, (10, WIDTH)).astype(np.float64)))
    return {"a": source.rows(30, WIDTH), "b": b.T.contiguous()}


def _attended(source: Source) -> dict[str, Any]:
    q, k, v = (source.rows(n, 8, moderate=True).reshape(1, 1, n, 8) for n in (12, 10, 10))
    causal = (None, "top-left", "bottom-right")[int(source.random.integers(3))]
    return {"q": q, "k": k, "v": v, "scale": 0.3, "causal": causal, "window": None}


def _normalised(source: Source) -> dict[str, Any]:
    weight, bias = source.rows(2, WIDTH, moderate=True)
    return {"x": source.rows(64, WIDTH, moderate=True), "weight": weight, "bias": bias, "eps": 1e-5}


def _scaled(source: Source) -> dict[str, Any]:
    found = _normalised(source)
    return {name: found[name] for name in ("x", "weight", "eps")}


def _elementwise(**scalars: Any) -> Callable[[Source], dict[str, Any]]:
    return lambda source: {"x": source.rows(64, WIDTH), **scalars}


SUBJECTS = (
    _along(references.sum),
    _along(references.mean),
    _along(references.prod, moderate=True),
    _along(references.cumsum),
    _along(references.amax),
    _along(references.softmax),
    _along(references.log_softmax),
    _along(references.logsumexp),
    _along(references.vector_norm, moderate=True),
    Subject(
        references.var, lambda s: {**_along(references.var, moderate=True).arguments(s), "correction": 1}
    ),
    Subject(references.matmul, _matrices),
    Subject(references.layer_norm, _normalised),
    Subject(references.rms_norm, _scaled),
    Subject(references.attention, _attended),
    Subject(references.gelu, _elementwise(approximate="none")),
    Subject(references.silu, _elementwise()),
)


def compare(subject: Subject, reading: str, outputs: int = OUTPUTS, seed: int = 0) -> Found:
    """Hold a reading against mpmath on so many outputs of one contract."""
    read, fmt = READINGS[reading]
    source, found = Source(fmt, seed), Found()
    while found.outputs - found.lost < outputs:
        arguments = subject.arguments(source)
        for answer, exact in _both(subject.contract, read, fmt, arguments):
            _count(found, answer, exact)
    return found


def _both(
    contract: Contract, read: Read, fmt: Format, arguments: Mapping[str, Any]
) -> Iterator[tuple[Answer, Array]]:
    """The answers of a reading, and the same definition's values at 300 bits."""
    model = Arithmetic(flush="none").model(contract, fmt)
    wide = Reading(Multiprecision(BITS), model)
    call = {
        name: wide.exact(wide.backend.leaf(value)) if isinstance(value, torch.Tensor) else value
        for name, value in arguments.items()
    }
    numbers = contract.definition(**call)
    numbers = numbers if isinstance(numbers, tuple) else (numbers,)
    answers = read(contract.definition, arguments, model, [None] * len(numbers))
    for answer, number in zip(answers, numbers, strict=True):
        yield answer, np.broadcast_to(number.v, tuple(answer.t.shape))


def _count(found: Found, answer: Answer, exact: Array) -> None:
    value = answer.value
    high, low = (value.hi, value.lo) if isinstance(value, Double) else (value, torch.zeros_like(value))
    share = _CONTEXT.mpf(answer.radius) / (1 + _CONTEXT.mpf(answer.radius))
    columns = (high, low, answer.t, answer.may & LOST)
    rows = zip(*(column.reshape(-1).tolist() for column in columns), exact.flat, strict=True)
    for h, l, t, lost, right in rows:
        found.outputs += 1
        if lost:
            found.lost += 1
            continue
        if not (math.isfinite(h) and mpmath.isfinite(right)):
            same = str(float(right)) == str(h) or (math.isinf(h) and right * math.copysign(1, h) > 0)
            found.outside += not (same or math.isinf(t))
            continue
        error = abs(_CONTEXT.mpf(h) + _CONTEXT.mpf(l) - right)
        if error:
            ratio = float(error / (t * share)) if t else math.inf
            found.largest = max(found.largest, ratio)
            found.outside += not ratio <= 1


_CONTEXT = mpmath.MPContext()
_CONTEXT.prec = BITS


def main(outputs: int = OUTPUTS) -> int:
    outside = 0
    for subject in SUBJECTS:
        for reading in READINGS:
            found = compare(subject, reading, outputs)
            outside += found.outside
            print(
                f"{subject.contract.name:12} {reading:14} {found.outputs:7} outputs  {found.lost:6} lost  "
                f"largest error/radius {found.largest:9.3g}  outside {found.outside}",
                flush=True,
            )
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:2])))
