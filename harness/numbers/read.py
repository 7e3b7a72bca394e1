"""Readings of a definition: float64 tensors for every day, mpmath where float64 is not enough.

Both give an :class:`Answer`: the exact value (to a radius that is carried or settled), the allowed error t
and the flags of what else is right, for every element of one output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from harness.errors import HarnessError
from harness.numbers.backend import Float64
from harness.numbers.model import Model, oracle_model
from harness.numbers.multiprecision import Multiprecision
from harness.numbers.number import LOST, Number, Reading
from harness.numbers.pieces import Long, NotInPieces
from harness.numbers.radius import FLOAT64_U, held, share, terms

ORACLE_SHARE = 2.0**-25
"""The float64 oracle's radius for accumulators up to float32, as a share of t: (2^-53/2^-24) for one rounding
each, and 16 times that because the depth of its reductions may exceed the kernel's; t is inflated by it."""

_NO_FLAGS = torch.zeros((), dtype=torch.uint8)

PRECISIONS = (140, 280, 560, 1000)
"""Bits of the mpmath readings, tried in turn; the radius's unit roundoff is still a normal float64."""


class WrongResults(HarnessError):
    """A definition returned something else than the outputs of its contract."""


@dataclass(frozen=True)
class Answer:
    """What is right for one output, [its shape].

    value, t: float64 tensors, or mpmath numbers of ``context`` in object arrays; the value may be a Double.
    may: flags (uint8), LOST where the reading does not know the answer. t is never NaN nor negative, 0 where
    the value is not finite, and inf where nothing can be said. radius: the share of t by which the value may
    be off, which t includes; where SPANNED, t reaches every right answer however far the value is off.
    flagged: whether some may is not 0. numbered: whether the definition asked for the positions along some
    axis. most: |value| + t nowhere exceeds it, if it is known (else NaN). shortened: whether some t may be
    less than what is allowed.
    """

    value: Any
    t: Any
    may: Any
    context: Any = None
    radius: float = 0.0
    flagged: bool = True
    numbered: bool = False
    most: float = float("nan")
    shortened: bool = False

    @property
    def lost(self) -> bool:
        """Whether some element needs a wider reading."""
        return self.flagged and bool(((self.may & LOST) != 0).any())


def read_float64(
    definition: Callable[..., Any],
    arguments: Mapping[str, Any],
    model: Model,
    shapes: Sequence[tuple[int, ...] | None],
    *,
    brief: bool = False,
    backend: Float64 | None = None,
) -> list[Answer]:
    """Value and t of every output in one pass over float64 tensors.

    arguments: exact float64 tensors (or lists or dicts of them) and plain scalars by name. shapes: of the
    outputs, None for one that keeps the definition's. For accumulators up to float32; t includes the oracle's
    own radius, or, where a model allows no error somewhere and no share of t is enough, the usual one.
    brief: t may be less than what is allowed, where that is much cheaper; such answers are *shortened*.
    backend: `InPieces`, where some argument is a long array.
    """
    reading = Reading(backend or Float64(_device(arguments.values())), model, brief=brief)
    radius = max(ORACLE_SHARE, held(share(model, FLOAT64_U, terms(arguments.values()))))
    answers = []
    for number, shape in zip(_evaluate(definition, arguments, reading, len(shapes)), shapes, strict=True):
        if isinstance(number.v, Long):
            raise NotInPieces("gives a result as long as its argument")
        inflation = 1 + (radius if radius < 1 else ORACLE_SHARE)
        t = reading.backend.filled(number.t * inflation, number.v)
        may = number.may
        if may is not None and number.beyond is not None:
            may = torch.where(number.beyond, may & ~LOST, may)
        shape = tuple(number.v.shape) if shape is None else shape
        value, t = number.v.reshape(shape), t.reshape(shape)
        flags = _NO_FLAGS.to(t.device).expand(shape) if may is None else may.reshape(shape)
        flagged, numbered = may is not None, bool(reading.numbered)
        most = math.nan if flagged else reading.backend.most(number.v, number.t) * inflation
        answers.append(
            Answer(value, t, flags, None, radius, flagged, numbered, most, bool(reading.shortened))
        )
    return answers


def read_exactly(
    definition: Callable[..., Any],
    arguments: Mapping[str, Any],
    model: Model,
    shapes: Sequence[tuple[int, ...] | None],
) -> list[Answer]:
    """The same through mpmath: precision is raised until the oracle's radius is below t/1024 or 2^-100.

    Elements that the highest precision does not settle are LOST: the definition loses every digit of them.
    """
    for precision in PRECISIONS:
        xp = Multiprecision(precision)
        numbers = _evaluate(definition, arguments, Reading(xp, model), len(shapes))
        radii = _evaluate(definition, arguments, Reading(xp, oracle_model(precision - 4)), len(shapes))
        open_ = [_unsettled(xp, n, r) for n, r in zip(numbers, radii, strict=True)]
        if precision == PRECISIONS[-1] or not any(xp.any(mask) for mask in open_):
            break
    return [_answer(xp, *parts) for parts in zip(numbers, radii, open_, shapes, strict=True)]


def _evaluate(
    definition: Callable[..., Any], arguments: Mapping[str, Any], reading: Reading, outputs: int
) -> list[Number]:
    result = definition(**{name: _numbers(reading, value) for name, value in arguments.items()})
    results = _flat(result)
    if len(results) != outputs or not all(isinstance(number, Number) for number in results):
        raise WrongResults(f"returned {_told(results)}; it declares {outputs} output{'s' * (outputs != 1)}")
    return results


def _told(results: list[Any]) -> str:
    """What a definition returned, in words that hold no address and no array."""
    other = [result for result in results if not isinstance(result, Number)]
    if len(other) == len(results) == 1 and other[0] is None:
        return "None"
    if not other:
        return f"{len(results)} result{'s' * (len(results) != 1)}"
    many = "" if len(results) == 1 else f"{len(results)} results, among them "
    if str(getattr(other[0], "dtype", "")).endswith("bool"):
        return f"{many}a mask, which is no number; write where(mask, 1.0, 0.0)"
    plain = other[0] is None or isinstance(other[0], bool | int | float | str)
    return f"{many}{repr(other[0]) if plain else 'a ' + type(other[0]).__name__}, no number of the definition"


def _device(arguments: Iterable[Any]) -> torch.device:
    """Where the tensors are; the CPU where there is none."""
    for value in arguments:
        if isinstance(value, torch.Tensor):
            return value.device
        if isinstance(value, list) and value:
            return _device(value)
    return torch.device("cpu")


def _numbers(reading: Reading, value: Any) -> Any:
    """An argument with its tensors as exact numbers."""
    if isinstance(value, torch.Tensor | Long):
        return reading.exact(value if isinstance(value, Long) else reading.backend.leaf(value))
    if isinstance(value, list):
        return [_numbers(reading, item) for item in value]
    if isinstance(value, dict):
        return {name: _numbers(reading, item) for name, item in value.items()}
    return value


def _flat(result: Any) -> list[Any]:
    """What a definition returned, in the order of the outputs: lists of tensors are taken apart."""
    if not isinstance(result, tuple | list):
        return [result]
    return [number for item in result for number in _flat(item)]


def _unsettled(xp: Multiprecision, number: Number, radius: Number) -> Any:
    """Mask of elements whose value is not known well enough."""
    finite = xp.isfinite(number.v)
    if radius.exact:
        return finite & False
    r = xp.filled(radius.t, number.v)
    enough = xp.filled(number.t, number.v) * 2.0**-10 + abs(number.v) * 2.0**-100
    return finite & ~np.asarray(r <= enough, dtype=bool)


def _answer(
    xp: Multiprecision, number: Number, radius: Number, open_: Any, shape: tuple[int, ...] | None
) -> Answer:
    value = number.v
    shape = tuple(value.shape) if shape is None else shape
    t = xp.filled(number.t, value) + xp.filled(radius.t, value)
    may = np.zeros(value.shape, dtype=np.uint8) if number.may is None else number.may
    if xp.any(open_):
        t = xp.where(open_, xp.scalar(np.inf), t)
        may = may | xp.flags(open_, LOST)
    return Answer(value.reshape(shape), t.reshape(shape), may.reshape(shape), xp.context)
