"""What a value family is: a named rule that fills one row, and the parameters it may be given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.formats import FLOAT32, FLOAT64, Format
from harness.values.counter import Floats, Stream

TAGS = frozenset(
    {
        *("generic", "ordinary", "structured", "decisive", "cancellation", "range", "special", "exact"),
        *("mild", "flat", "everywhere", "whole", "vectors", "poison", "edges"),
    }
)


@dataclass(frozen=True)
class Param:
    """A parameter of a family: what it may be, simplest first.

    A *position* is an index into the row: p >= 0 from its start, p < 0 from its end. One that a row does
    not give is drawn from its seed, so that repetitions of a row differ; a drawn position is one of the
    ``values``, near the start, so that cutting the row leaves the rest as it was. An *inner* length is
    that of the vectors that a row consists of, which whoever draws the row knows from its inner axes.
    """

    name: str
    values: tuple[float, ...]
    position: bool = False
    inner: bool = False


LITERAL = "literal"
"""The family of rows that are written out, value by value."""

MAX_ABS = "max_abs"
"""The parameter, known to every family, that clips magnitudes."""

POSITION = Param("position", (0, 1, 2, 3), position=True)

INNER = Param("inner", (4, 16, 3), inner=True)


@dataclass(frozen=True)
class Setting:
    """Parameters that a search must have seen together, in rows of some least length.

    where: the class of positions that ``params`` do not give, as in
    :data:`harness.strategies.contents.POSITIONS`.
    """

    params: tuple[tuple[str, float], ...]
    where: str | None = None
    least: int = 1


@dataclass(frozen=True)
class Family:
    """A rule that fills a row: ``make(stream, n, fmt, **params)`` gives float64 [n].

    Element i depends on the stream, on i and on the parameters only, never on n, unless a position counts
    from the end: a shorter row is a prefix of a longer one. The values need not be in ``fmt``; they are
    clipped to its range and rounded into it once by whoever asks for the row.

    Tags: *generic* (data that suits anything), *ordinary* (of moderate magnitude, whatever the parameters,
    so that a weight or bias of it spoils no result), *mild* (within [-1, 1), all different), *structured*
    (patterns that saturate bounds or break algorithms), *decisive* (one position moves the result by more
    than any bound), *everywhere* (all typical positions do so at once), *cancellation* (results are small
    beside their bounds), *range* (extreme magnitudes), *special* (holds inf or NaN), *exact* (partial sums
    are exact in any order), *whole* (integers of the range of an integer tensor, which ``make`` gets in
    place of ``fmt``), *flat* (all elements, or vectors, alike: which of them was read does not show), *vectors*
    (patterns along an inner axis), *edges* (every element is extreme: for rows of few elements), *poison* (used
    in place of other rows, never drawn).
    """

    name: str
    make: Callable[..., Floats]
    params: tuple[Param, ...] = ()
    tags: frozenset[str] = frozenset({"structured"})
    settings: tuple[Setting, ...] = ()

    def parameters(self, stream: Stream, given: Mapping[str, float]) -> dict[str, float]:
        """All parameters of one row: those given, the others drawn from its seed."""
        return {
            param.name: given[param.name] if param.name in given else stream.choice(param.values, 900 + lane)
            for lane, param in enumerate(self.params)
        }

    def fill(self, stream: Stream, n: int, fmt: Any, given: Mapping[str, float]) -> Floats:
        """The row, float64 [n], before it is clipped and rounded."""
        return self.make(stream, n, fmt, **self.parameters(stream, given))

    @property
    def positions(self) -> tuple[str, ...]:
        """The names of its parameters that are positions."""
        return tuple(param.name for param in self.params if param.position)

    @property
    def inner(self) -> tuple[str, ...]:
        """The names of its parameters that are lengths of vectors."""
        return tuple(param.name for param in self.params if param.inner)


def family(
    name: str, *tags: str, params: tuple[Param, ...] = (), settings: tuple[Setting, ...] = ()
) -> Callable[[Any], Family]:
    """Decorator: the function becomes the family's ``make``."""
    return lambda make: Family(name, make, params, frozenset(tags), settings)


def accumulator(fmt: Format) -> Format:
    """The accumulator of inputs of this format: float64 for float64, else float32."""
    return FLOAT64 if fmt.precision > FLOAT32.precision else FLOAT32


def place(row: Floats, position: float, value: float) -> Floats:
    """``row`` with one element replaced, in place; a position outside the row changes nothing."""
    if -len(row) <= position < len(row):
        row[int(position)] = value
    return row


def typical_positions(n: int) -> tuple[int, ...]:
    """Where a row of n elements may be decisive: its ends, its middle, both sides of every power of two."""
    edges = [2**k + d for k in range(1, max(n - 1, 0).bit_length()) for d in (-1, 0)]
    return tuple(at for at in dict.fromkeys((0, n - 1, n - 2, n // 2, *reversed(edges))) if 0 <= at < n)


def powers(exponents: Any) -> Floats:
    """2**exponents, exactly; exponents an int array."""
    return np.ldexp(1.0, np.asarray(exponents, dtype=np.int64))
