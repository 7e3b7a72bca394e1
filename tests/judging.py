"""The judge of the error rules: formulas written again, naively, in mpmath at 300 bits."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import torch

import references
from harness.arithmetic import Arithmetic
from harness.contracts import Contract
from harness.formats import FLOAT32, Format
from harness.numbers import Answer, Model, read_float64
from harness.numbers.number import NAN, NINF, PINF, UNSPECIFIED
from harness.numbers.read import ORACLE_SHARE

Array = np.ndarray
mp = mpmath.MPContext()
mp.prec = 300


@dataclass(frozen=True)
class Truth:
    """Exact values as unevaluated pairs hi + lo of float64 arrays."""

    hi: Array
    lo: Array

    def error(self, held: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return abs((held - self.hi) - self.lo)


def truth(formula: Callable[..., Any], *rows: Array) -> Truth:
    """``formula`` of every row: it takes a list of mpf per array [R, n] and returns one mpf or a list."""
    results = []
    for parts in zip(*rows, strict=True):
        result = formula(*([mp.mpf(float(v)) for v in np.atleast_1d(part)] for part in parts))
        results.append(result if isinstance(result, list) else [result])
    hi = [[float(v) for v in row] for row in results]
    lo = [
        [float(v - mp.mpf(h)) if math.isfinite(h) else 0.0 for v, h in zip(row, highs, strict=True)]
        for row, highs in zip(results, hi, strict=True)
    ]
    return Truth(np.array(hi), np.array(lo))


def elementwise(formula: Callable[..., Any], *operands: Array) -> Truth:
    """``formula`` of mpf of every element of arrays [N]."""
    found = truth(lambda *parts: formula(*(part[0] for part in parts)), *(a[:, None] for a in operands))
    return Truth(found.hi[:, 0], found.lo[:, 0])


def model(fmt: Format = FLOAT32, contract: Contract = references.sum, **claims: Any) -> Model:
    """The model of a kernel whose accumulator is ``fmt``, under further claims."""
    return Arithmetic(**{"accumulator": fmt.name, **claims}).model(contract, fmt)


def narrower(held_to: Model, by: float = 4.0) -> Model:
    """A model whose unit roundoff is too small: right implementations must break its bounds."""
    return dataclasses.replace(held_to, u=held_to.u / by)


def attack(
    definition: Callable[..., Any],
    arguments: Mapping[str, Any],
    exact: Truth,
    implementations: Mapping[Any, Array],
    held_to: Model,
) -> float:
    """Assert that the rule allows what every implementation holds; print and return the largest ratio."""
    answer = _read(definition, arguments, held_to, exact)
    largest = 0.0
    for name, held in implementations.items():
        ratio = _worst_ratio(answer, exact, held)
        assert ratio <= 1, f"{name} is right, and {ratio:.6g} times the allowed error away"
        largest = max(largest, ratio)
    print(f"largest ratio {largest:.3f}")
    return largest


def rejected(
    definition: Callable[..., Any],
    arguments: Mapping[str, Any],
    exact: Truth,
    implementations: Mapping[Any, Array],
    held_to: Model,
    times: float = 1.0,
) -> bool:
    """Whether the rule rejects what some implementation holds, by so many times the allowed error."""
    answer = _read(definition, arguments, held_to, exact)
    return max(_worst_ratio(answer, exact, held) for held in implementations.values()) > times


def _read(
    definition: Callable[..., Any], arguments: Mapping[str, Any], held_to: Model, exact: Truth
) -> Answer:
    """The float64 reading, checked: no allowed error is NaN or negative, values lie within their share."""
    tensors = {
        name: torch.from_numpy(v.copy()) if isinstance(v, np.ndarray) else v for name, v in arguments.items()
    }
    answer = read_float64(definition, tensors, held_to, [exact.hi.shape])[0]
    assert not torch.isnan(answer.t).any()
    assert (answer.t >= 0).all()
    value, t = answer.value.numpy(), answer.t.numpy()
    assert (exact.error(value) <= ORACLE_SHARE * t)[np.isfinite(value)].all()
    return answer


def _worst_ratio(answer: Answer, exact: Truth, held: Array) -> float:
    """Largest |held - exact| / t of all elements; inf where an infinity or NaN is not allowed."""
    value, t, may = answer.value.numpy(), answer.t.numpy(), answer.may.numpy()
    assert held.shape == value.shape
    error = exact.error(held)
    with np.errstate(all="ignore"):
        ratio = np.where(error == 0, 0.0, error / t)
    ratio = np.where(np.isfinite(held) & np.isfinite(value), ratio, np.inf)
    allowed = ~np.isfinite(value) & ((held == value) | (np.isnan(held) & np.isnan(value)))
    for flag, answered in ((PINF, held == np.inf), (NINF, held == -np.inf), (NAN, np.isnan(held))):
        allowed |= ((may & flag) != 0) & answered
    allowed |= (may & UNSPECIFIED) != 0
    return float(np.where(allowed, 0.0, ratio).max(initial=0.0))
