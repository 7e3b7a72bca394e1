"""The double-double reading of a definition: kernels that accumulate in float64 are judged by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from harness.numbers.double import Double
from harness.numbers.double_backend import DoubleDouble
from harness.numbers.model import Model
from harness.numbers.number import LOST, Number, Reading, joined
from harness.numbers.radius import DOUBLE_U, held, share, terms
from harness.numbers.read import Answer, _evaluate


def read_double(
    definition: Callable[..., Any],
    arguments: Mapping[str, Any],
    model: Model,
    shapes: Sequence[tuple[int, ...] | None],
) -> list[Answer]:
    """Value (a Double) and t of every output over double-doubles, as :func:`harness.numbers.read_float64`.

    t includes the reading's own radius. Elements whose digits were lost on the way, by underflow of a low
    word or an overflow in between, are flagged LOST: they need mpmath.
    """
    reading = Reading(DoubleDouble(), model)
    radius = held(share(model, DOUBLE_U, terms(arguments.values())))
    numbers = _evaluate(definition, arguments, reading, len(shapes))
    return [_answer(number, radius, shape) for number, shape in zip(numbers, shapes, strict=True)]


def _answer(number: Number, radius: float, shape: tuple[int, ...] | None) -> Answer:
    xp, v = number.reading.backend, number.v
    assert isinstance(v, Double)
    t = number.t.hi if isinstance(number.t, Double) else xp.filled(number.t, v)
    t = t * (1 + radius + 2.0**-50)
    may = torch.zeros_like(v.hi, dtype=torch.uint8) if number.may is None else number.may
    lost = v.unknown | torch.isnan(t)
    if bool(lost.any()):
        may = joined(may, xp.flags(lost, LOST))
        t = torch.where(lost, torch.inf, t)
    shape = tuple(v.shape) if shape is None else shape
    numbered = bool(number.reading.numbered)
    return Answer(v.reshape(shape), t.reshape(shape), may.reshape(shape), radius=radius, numbered=numbered)
