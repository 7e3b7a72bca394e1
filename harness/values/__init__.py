"""Values: a counter-based generator, the families of rows, and rows as exact numbers of a format."""

from harness.values.counter import Stream
from harness.values.family import INNER, LITERAL, MAX_ABS, POSITION, TAGS, Family, Param, Setting, family
from harness.values.generic import FAMILIES
from harness.values.rows import raw_row, round_rows, row_values
from harness.values.selection import (
    SEVERAL,
    SPECIAL,
    Pool,
    admits,
    available,
    find,
    in_turn,
    max_abs_params,
    one,
    pool,
    special_applies,
    specials,
    stressed,
)
from harness.values.whole import DTYPES, WHOLE, Range, range_of

__all__ = [
    "DTYPES",
    "FAMILIES",
    "INNER",
    "LITERAL",
    "MAX_ABS",
    "POSITION",
    "SEVERAL",
    "SPECIAL",
    "TAGS",
    "WHOLE",
    "Family",
    "Param",
    "Pool",
    "Range",
    "Setting",
    "Stream",
    "admits",
    "available",
    "family",
    "find",
    "in_turn",
    "max_abs_params",
    "one",
    "pool",
    "range_of",
    "raw_row",
    "round_rows",
    "row_values",
    "special_applies",
    "specials",
    "stressed",
]
