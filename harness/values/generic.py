"""The generic value families, which every contract can draw, and the fills that replace other rows."""

from __future__ import annotations

import numpy as np

from harness.values.decisive import DECISIVE
from harness.values.exponentials import EXPONENTIALS
from harness.values.family import Family
from harness.values.ordinary import EDGES, ORDINARY
from harness.values.products import PRODUCTS
from harness.values.scales import SCALES
from harness.values.sums import SUMS
from harness.values.vectors import VECTORS

_FILLS = (
    Family("fill:nan", lambda s, n, fmt: np.full(n, np.nan), tags=frozenset({"poison", "special"})),
    Family("fill:+large", lambda s, n, fmt: np.full(n, fmt.max / 10), tags=frozenset({"poison", "range"})),
    Family("fill:-large", lambda s, n, fmt: np.full(n, -fmt.max / 10), tags=frozenset({"poison", "range"})),
)

FAMILIES: dict[str, Family] = {
    found.name: found
    for found in (
        *(*ORDINARY, *SCALES, *SUMS, *DECISIVE, *EXPONENTIALS, *PRODUCTS, *VECTORS, *EDGES, *_FILLS),
    )
}
"""By name, simplest first."""
