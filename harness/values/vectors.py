"""Rows that consist of vectors, as the keys of a head do: patterns from one vector to the next.

``inner`` is the length of a vector: vector j holds the elements from j·inner to (j + 1)·inner - 1.
"""

from __future__ import annotations

import numpy as np

from harness.formats import Format
from harness.values.counter import Floats, Integers, Stream
from harness.values.family import INNER, Param, family, powers


def _split(n: int, inner: float) -> tuple[Integers, Integers]:
    """The number of the vector that each element is in, and its place there, [n] each."""
    number, place = np.divmod(np.arange(n), int(inner))
    return number, place


@family("factor-vectors", "vectors", params=(INNER, Param("spread", (4, 1, 8))))
def factor_vectors(s: Stream, n: int, fmt: Format, inner: float, spread: float) -> Floats:
    """Bell-shaped, each vector times a power of two of its own: one that is read for another shows."""
    number, _ = _split(n, inner)
    spread = min(spread, fmt.emax - 3)
    return s.normal(n) * powers(s.integers(n, -int(spread), int(spread), 5)[number])


@family("ascending-vectors", "vectors", params=(INNER, Param("step", (0.25, 1.0, -0.25, 2.0**-13))))
def ascending_vectors(s: Stream, n: int, fmt: Format, inner: float, step: float) -> Floats:
    """One vector, j + 1 steps long in vector j: products with another vector rise or fall with j."""
    number, place = _split(n, inner)
    return s.normal(min(n, int(inner)))[place] * (step * (number + 1))


@family("identical-vectors", "vectors", "flat", params=(INNER, Param("scale", (1.0, 8.0))))
def identical_vectors(s: Stream, n: int, fmt: Format, inner: float, scale: float) -> Floats:
    """The same vector over and over: equal scores, equal distances, ties."""
    _, place = _split(n, inner)
    return s.normal(min(n, int(inner)))[place] * scale


@family(
    "one-hot-vectors",
    "vectors",
    "exact",
    params=(INNER, Param("permuted", (0, 1)), Param("height", (1.0, 16.0))),
)
def one_hot_vectors(s: Stream, n: int, fmt: Format, inner: float, permuted: float, height: float) -> Floats:
    """Vector j is 0 but for its j-th element (over again, or in random order): tags that sums keep apart.

    The height differs from one round to the next, so that keys a round apart are told apart too.
    """
    number, place = _split(n, inner)
    order = np.argsort(s.uniform(int(inner), 3)) if permuted else np.arange(int(inner))
    lap, at = np.divmod(number, int(inner))
    return np.where(place == order[at], height * (1 + lap % 4), 0.0)


@family("numbered-vectors", "vectors", "exact", params=(INNER, Param("start", (0, 1))))
def numbered_vectors(s: Stream, n: int, fmt: Format, inner: float, start: float) -> Floats:
    """Every element of vector j is start + j, exact, over again at 2**p: row numbers."""
    number, _ = _split(n, inner)
    return (start + number.astype(np.float64)) % 2.0**fmt.precision


VECTORS = (factor_vectors, ascending_vectors, identical_vectors, one_hot_vectors, numbered_vectors)
