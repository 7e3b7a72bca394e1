"""Launches of whole large tensors: many rows, and one row that is the whole tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from harness.admission import narrowed
from harness.case import Case, Row, shape_of
from harness.contracts import Contract
from harness.domain import Domain
from harness.errors import HarnessError
from harness.formats import Format, to_hex
from harness.layouts import Layout
from harness.strategies import contents
from harness.strategies.cost import Budget
from harness.strategies.covering import Cover
from harness.strategies.schedule import Launch
from harness.strategies.shapes import Wish
from harness.values import LITERAL, one

ELEMENTS = (1 << 31) + 3 * (1 << 12) + 5
"""Elements of the largest tensor, at least, where the caller names no number."""

CONTENT = 4099
"""Elements of a row where there are many: no multiple of anything."""

NUMBERS = (2005, 2011, 2017, 2023)
"""These launches in the covering sequence: of every sixth, the lengths are as wished for products of tensors too."""

MANY = 8
"""Tensors of that size at most."""

PRODUCTS = 1 << 12
"""Products for each element of the largest tensor, at most."""


def whole(
    contract: Contract,
    fmt: Format | str,
    domain: Domain | None = None,
    seed: int = 0,
    elements: int = ELEMENTS,
) -> Iterator[Case]:
    """Cases whose largest tensor has ``elements`` elements or a little more, all contiguous, as far as there are such.

    Two of many rows; then, of contracts that reduce it, one row of zeros and of ones beside the ends and the powers of
    two of elements and bytes, of which a sum is exact; then one row of a family's values.
    """
    given = narrowed(contract, domain or Domain())
    tested = contents.tested_format(fmt)
    cover = Cover(contract, tested, given, seed)
    cover.budget = Budget(MANY * elements, MANY * elements, MANY * PRODUCTS * elements, MANY * elements)
    rows = Wish(CONTENT, rows=-(-elements // CONTENT), ndim=2)
    single = Wish(elements, rows=1, ndim=1)
    for number, wish in zip(NUMBERS, (rows, rows, single, single), strict=True):
        try:
            case = cover.case(number, Launch(wish, "contiguous"))
        except HarnessError:
            continue
        if case is None:
            continue
        case = _contiguous(case)
        if max(_counts(contract, case), default=0) < elements or (
            wish is single and not _reduces(contract, case)
        ):
            continue
        if number == NUMBERS[2]:
            case = _marked(contract, case, tested, given)
        yield case


def _counts(contract: Contract, case: Case) -> list[int]:
    at = contract.at(case.sizes)
    return [
        math.prod(shape_of(at, case, name)) for name, recipe in case.tensors.items() if recipe is not None
    ]


def _reduces(contract: Contract, case: Case) -> bool:
    """Whether a launch is one situation, whose results are small."""
    at = contract.at(case.sizes)
    shapes = [at.shape(output.shape, case.sizes, case.scalars) for output in at.outputs]
    small = all(math.prod(shape) <= CONTENT for shape in shapes)
    return small and at.situations(case.sizes, case.scalars) == 1


def _contiguous(case: Case) -> Case:
    tensors = {
        name: recipe and replace(recipe, layout=Layout.contiguous(recipe.layout.ndim))
        for name, recipe in case.tensors.items()
    }
    return Case(case.sizes, case.scalars, tensors)


def _marked(contract: Contract, case: Case, fmt: Format | str, domain: Domain) -> Case:
    """The case with zeros in its largest tensor, and ones where an index or an address of 32 bits ends.

    Where the domain admits no 1, the largest power of two that it admits stands for it.
    """
    counts = dict(
        zip((n for n, r in case.tensors.items() if r is not None), _counts(contract, case), strict=True)
    )
    name = max(counts, key=lambda key: counts[key])
    recipe, count = case.tensors[name], counts[name]
    assert recipe is not None
    item = fmt.bits // 8 if isinstance(fmt, Format) else 1
    edges = [2**power // each for power in (31, 32) for each in (1, item)]
    places = [0, count - 1, *(edge - d for edge in edges for d in (0, 1)), count // 2, 1, count - 2]
    most = 2**fmt.precision if isinstance(fmt, Format) else len(places)
    usable = list(dict.fromkeys(place for place in places if 0 <= place < count))[:most]
    mark = to_hex(1.0 if isinstance(fmt, str) else one(fmt, domain))
    row = Row(LITERAL, plant=tuple((place, mark) for place in usable))
    return Case(case.sizes, case.scalars, {**case.tensors, name: replace(recipe, rows=(row,))})
