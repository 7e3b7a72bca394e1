"""Rows of integer tensors: labels, row numbers, counts and int8 data within the range that a tensor has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.contracts import Contract, Sizes, Whole
from harness.errors import HarnessError
from harness.values.counter import Floats, Stream
from harness.values.family import POSITION, Family, Param, family, place

LIMITS = {"bool": (0, 2), "int8": (-128, 128), "uint8": (0, 256), "int16": (-(2**15), 2**15)}
"""What a tensor of a narrow dtype may hold where its contract says nothing: low <= value < high."""

DTYPES = (*LIMITS, "int32", "int64")


@dataclass(frozen=True)
class Range:
    """The values that an integer tensor may hold: low <= value < high, and ``planted`` ones beside them."""

    dtype: str
    low: int
    high: int
    planted: tuple[int, ...] = ()

    def holds(self, values: Floats) -> Any:
        """Bool [shape of values]: which of them the tensor may hold."""
        within = (values >= self.low) & (values < self.high) & (values == np.floor(values))
        return within | np.isin(values, self.planted)

    def __str__(self) -> str:
        beside = f" or {', '.join(map(str, self.planted))}" if self.planted else ""
        return f"{self.dtype} in [{self.low}, {self.high}){beside}"


def bounds(contract: Contract, name: str, dtype: str) -> Whole:
    """What an integer tensor may hold, as written: what its contract says, else all that its dtype holds.

    Raises HarnessError for an unknown dtype, and for a wide one whose contract says nothing.
    """
    if dtype not in DTYPES:
        raise HarnessError(f"tensor {name!r} is of dtype {dtype}; integer dtypes: {', '.join(DTYPES)}")
    whole = contract.tensors[name].whole
    if whole is None and dtype not in LIMITS:
        raise HarnessError(f"tensor {name!r} of {dtype} needs its range: Tensor(..., whole=Whole(low, high))")
    return whole or Whole(*LIMITS[dtype])


def range_of(contract: Contract, name: str, dtype: str, sizes: Sizes, scalars: Mapping[str, Any]) -> Range:
    """The range of an integer tensor of a case; raises as `bounds` does, and for a bound that is None."""
    whole = bounds(contract, name, dtype)

    def value(of: int | str) -> int | None:
        found: Any = of
        if isinstance(of, str):
            found = sizes[of] if of in sizes else contract.scalar(of, sizes, scalars)
        return None if found is None else int(found)

    low, high = value(whole.low), value(whole.high)
    if low is None or high is None:
        raise HarnessError(f"tensor {name!r}: {whole} names a scalar that is None")
    return Range(dtype, low, high, tuple(v for v in map(value, whole.planted) if v is not None))


@family("whole-uniform", "whole", "generic")
def uniform(s: Stream, n: int, of: Range) -> Floats:
    """Every value of the range as likely as any other."""
    return s.integers(n, of.low, of.high - 1).astype(np.float64)


@family("whole-ascending", "whole", params=(Param("start", (0, 1, 2)),))
def ascending(s: Stream, n: int, of: Range, start: float) -> Floats:
    """Counting up from ``start`` above the lowest value, over again at the end of the range: row numbers."""
    return of.low + (start + np.arange(n, dtype=np.float64)) % (of.high - of.low)


@family("whole-equal", "whole", params=(Param("which", (0, 1, 2)),))
def equal(s: Stream, n: int, of: Range, which: float) -> Floats:
    """All the lowest value, the highest, or the one in the middle (``which`` 0 to 2)."""
    return np.full(n, (of.low, of.high - 1, (of.low + of.high - 1) // 2)[int(which)], dtype=np.float64)


@family("whole-extremes", "whole")
def extremes(s: Stream, n: int, of: Range) -> Floats:
    """The lowest and the highest value, at random: an index that is one too small or too large leaves."""
    return np.where(s.signs(n) < 0, float(of.low), float(of.high - 1))


@family("whole-planted", "whole", params=(Param("every", (3, 1, 8)),))
def planted(s: Stream, n: int, of: Range, every: float) -> Floats:
    """About one element in ``every`` is a planted value (all of them for 1), the others any of the range."""
    row = uniform.make(s, n, of) if of.high > of.low else np.zeros(n)
    if not of.planted:
        return row
    values = np.array(of.planted, dtype=np.float64)
    chosen = values[s.integers(n, 0, len(values) - 1, 1)]
    return np.where(s.integers(n, 1, int(every), 2) == 1, chosen, row)


@family("whole-small", "whole", "generic", "exact")
def small(s: Stream, n: int, of: Range) -> Floats:
    """Integers in [-8, 8], as far as the range has them: products and sums are small."""
    low = max(of.low, min(-8, of.high - 1))
    return s.integers(n, low, max(low, min(of.high - 1, 8))).astype(np.float64)


@family("whole-decisive", "whole", "decisive", params=(POSITION,))
def decisive(s: Stream, n: int, of: Range, position: float) -> Floats:
    """All 0 (or the lowest value), and the highest at one position."""
    return place(np.full(n, float(max(of.low, min(0, of.high - 1)))), position, float(of.high - 1))


@family("whole-large", "whole", "everywhere")
def large(s: Stream, n: int, of: Range) -> Floats:
    """The highest value and those of its parity in the upper quarter: in sums of products each bit counts."""
    steps = max(1, (of.high - max(of.low, 0)) // 8)
    return (of.high - 1 - 2 * s.integers(n, 0, steps - 1)).astype(np.float64)


def _middle(s: Stream, n: int, of: Range) -> Floats:
    return np.full(n, of.planted[0] if of.planted else (of.low + of.high - 1) // 2, dtype=np.float64)


WHOLE: dict[str, Family] = {
    found.name: found for found in (uniform, small, ascending, equal, extremes, planted, decisive, large)
}
"""The families of integer tensors by name, simplest first."""

FILLS: dict[str, Family] = {
    "fill:nan": Family("fill:nan", _middle, tags=frozenset({"whole", "poison"})),
    "fill:+large": Family(
        "fill:+large", lambda s, n, of: np.full(n, float(of.high - 1)), tags=frozenset({"whole", "poison"})
    ),
    "fill:-large": Family(
        "fill:-large", lambda s, n, of: np.full(n, float(of.low)), tags=frozenset({"whole", "poison"})
    ),
}
"""What takes the place of other rows: a planted value or the middle, the highest value, the lowest."""


def fill_range(rule: Family, stream: Stream, n: int, of: Range, params: Mapping[str, float]) -> Floats:
    """A row of integers, float64 [n]; an empty range gives its planted value.

    Raises HarnessError where there is nothing the row could hold.
    """
    if of.high > of.low:
        return rule.fill(stream, n, of, params)
    if n and not of.planted:
        raise HarnessError(f"an integer tensor has no value to hold: {of}; say nonempty=(...) of its range")
    return np.full(n, float(of.planted[0]) if of.planted else 0.0)
