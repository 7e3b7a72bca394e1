"""A row as exact numbers of a format, from the name of its family, a seed and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.contracts import Contract
from harness.errors import HarnessError, nearest
from harness.formats import Format, format_of, from_hex, round_to
from harness.values.counter import Floats, Stream
from harness.values.family import LITERAL, MAX_ABS
from harness.values.selection import find
from harness.values.whole import FILLS, Range, fill_range


def raw_row(
    contract: Contract,
    family: str,
    seed: int,
    n: int,
    fmt: Format | Range,
    params: Mapping[str, float],
    values: Sequence[str] = (),
) -> Floats:
    """A row before rounding, float64 [n]: the family's values, or ``values`` and zeros if it is a literal.

    Raises HarnessError for an unknown family or parameter, and for a family of the other kind of number.
    """
    if family == LITERAL:
        row = np.zeros(n)
        given = [from_hex(text) for text in values[:n]]
        row[: len(given)] = given
    else:
        rule = find(contract, family)
        if isinstance(fmt, Range):
            rule = FILLS.get(family, rule)
        if ("whole" in rule.tags) != isinstance(fmt, Range):
            kind = "integers" if isinstance(fmt, Range) else "floating-point numbers"
            raise HarnessError(f"family {family!r} makes no {kind}")
        names = [param.name for param in rule.params]
        for name in params:
            if name not in names and name != MAX_ABS:
                known = ", ".join([*names, MAX_ABS])
                raise HarnessError(
                    f"family {family!r} has no parameter {name!r}; {nearest(name, names)}known: {known}"
                )
        if isinstance(fmt, Range):
            return fill_range(rule, Stream(seed), n, fmt, params)
        row = rule.fill(Stream(seed), n, fmt, params)
    if MAX_ABS in params and not isinstance(fmt, Range):
        limit = round_to(float(params[MAX_ABS]), fmt, mode="toward-zero")
        row = np.where(np.isfinite(row), np.clip(row, -limit, limit), row)
    return row


def round_rows(rows: Floats, fmt: Format | Range) -> Floats:
    """Rows clipped to the range of the format and rounded into it once; infinities and NaN stay.

    In a format without infinities an infinity becomes NaN. Integers stay as they are.
    """
    if isinstance(fmt, Range):
        return rows
    within = np.where(np.isfinite(rows), np.clip(rows, -fmt.max, fmt.max), rows)
    return round_to(within, fmt)


def row_values(
    contract: Contract,
    family: str,
    seed: int,
    n: int,
    fmt: Format | str,
    params: Mapping[str, float] | None = None,
    values: Sequence[str] = (),
) -> Floats:
    """One row as exact values of ``fmt``, float64 [n]."""
    given = format_of(fmt)
    return round_rows(raw_row(contract, family, seed, n, given, params or {}, values), given)
