"""Assignment to the nearest of a set of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness import numbers
from harness.contracts import Output, Tensor
from harness.declaration import contract
from harness.formats import Format
from harness.numbers import Number
from harness.values import FAMILIES, Family, Param, Stream
from harness.values.family import INNER

_NEIGHBOURS = Family(
    "neighbours", lambda s, n, fmt: 1.0 + 2.0**-4 * s.uniform(n), tags=frozenset({"structured"})
)
"""Vectors near one another and far from 0: reduced products confuse them."""
_FAR = Family("far", lambda s, n, fmt: 100.0 + s.normal(n), tags=frozenset({"structured", "cancellation"}))
"""Vectors far from a codebook: what tells its distances apart is small beside their errors."""


def _codes(name: str) -> Family:
    """A generic family with other numbers of the same seed: a vector seldom is one of its own codes."""
    base = FAMILIES[name]

    def make(s: Stream, n: int, fmt: Format, **params: float) -> Any:
        return base.make(Stream(s.number(977)), n, fmt, **params)

    return Family(f"{name}-codes", make, base.params, base.tags)


def _twins(s: Stream, n: int, fmt: Format, inner: float) -> Any:
    number, place = np.divmod(np.arange(n), int(inner))
    pair = (number // 2) * int(inner) + place
    of_pair = int(pair.max(initial=0)) + 1
    code = np.ldexp(1024.0 + s.integers(of_pair, 0, 1023), -13)[pair]
    return code + np.where(number % 2, np.ldexp(0.25 + 0.5 * s.uniform(of_pair, 1), -13)[pair], 0.0)


_TWINS = Family("twin-codes", _twins, (INNER,), frozenset({"structured"}))
"""Codes of 11 bits between 1/8 and 1/4, each followed by one a little larger, that TF32 truncates to the first.

Of a vector beyond them, the second is the nearer one by far more than float32 errs; products that lose what is
truncated take the first, of the smaller square.
"""


def _rising(s: Stream, n: int, fmt: Format, inner: float, sign: float) -> Any:
    number, _ = np.divmod(np.arange(n), int(inner))
    return sign * 2.0**-6 * (number + 1.0)


_RISING = Family("rising-codes", _rising, (INNER, Param("sign", (1, -1))), frozenset({"structured"}))
"""Codes from near 0 on, one a little further than the other: of vectors beyond them all the last is the nearest."""

_CODEBOOKS = (
    _TWINS,
    _RISING,
    _codes("small-integers"),
    _NEIGHBOURS,
    _codes("gaussian"),
    _codes("positive-integers"),
    _codes("positive"),
)
_VECTORS = (
    "small-integers",
    _NEIGHBOURS,
    "gaussian",
    "positive-integers",
    "positive",
    "signs",
    "decisive-large",
    "decisive-one-hot",
    "equal",
    "signed-zeros",
    _FAR,
)


@contract(
    args={"x": Tensor("N D", families=_VECTORS), "codebook": Tensor("K D", families=_CODEBOOKS)},
    returns=Output("N", kind="choice", dtype="int64"),
    rows="N",
    nonempty=("K",),
    sizes={"K": (17, 33, 5, 257, 64, 100, 16, 7, 129, 31, 9, 48, 2, 65, 1)},
)
def kmeans_assign(x: Number, codebook: Number) -> Number:
    """The squared distances Σ(x - c)² [N, K], whose least the index of each row of x [N, D] names.

    An index is right if its distance may be the least under the errors of the distances, computed as they
    stand or, as is usual, as Σc² - 2·x@c.T, whose error is larger where x is far from 0 and near to c. Where
    everything is whole numbers small enough for every sum to be exact, the first of equal distances is right.
    """
    difference = numbers.unsqueeze(x, 1) - numbers.unsqueeze(codebook, 0)
    distance = numbers.reshape(numbers.sum(difference**2, 2), (x.shape[0], codebook.shape[0]))
    squares = numbers.transpose(numbers.sum(codebook**2, 1))
    score = squares - 2.0 * numbers.matmul(x, numbers.transpose(codebook))
    size = numbers.absolute(numbers.unsqueeze(x, 1)) + numbers.absolute(numbers.unsqueeze(codebook, 0))
    largest = numbers.reshape(numbers.sum(size**2, 2), (x.shape[0], codebook.shape[0]))
    whole = numbers.whole(x, 1) & numbers.whole(codebook, 1).reshape(1, -1)
    return numbers.exact_where(whole, numbers.looser(distance, score), largest)
