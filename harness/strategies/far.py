"""Launches of small tensors that span 2^31 elements: row times stride overflows 32 bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.admission import narrowed, objection
from harness.case import Case, shape_of
from harness.contracts import Contract
from harness.domain import Domain
from harness.formats import Format
from harness.layouts import permits, variants
from harness.strategies import contents
from harness.strategies.covering import Cover
from harness.strategies.schedule import Launch
from harness.strategies.shapes import Wish

WISHES = (
    Wish(20, rows=6, ndim=2),
    Wish(7, rows=24, ndim=3, axis=3, spread=1),
    Wish(33, rows=3, ndim=1, choice=1),
    Wish(20, rows=12, ndim=4, axis=5, choice=2),
)
"""Of few rows and short ones: each may touch a page of memory of its own."""

NUMBER = 1000
"""The first launch of these in the covering sequence: what takes turns there is at other turns."""


def far(contract: Contract, fmt: Format | str, domain: Domain | None = None, seed: int = 0) -> Iterator[Case]:
    """Cases in which one tensor spans 2^31 elements, each tensor and each of its axes that is long enough in turn.

    None where the domain leaves far layouts out. The other tensors keep theirs. First comes one of every
    tensor, then the first far layout of all, then the others.
    """
    given = narrowed(contract, domain or Domain())
    cover = Cover(contract, contents.tested_format(fmt), given, seed)
    found = []
    for number, wish in enumerate(WISHES):
        case = cover.case(NUMBER + number, Launch(wish, "contiguous"))
        for place, turn, spread in _spread_out(contract, case, given) if case is not None else ():
            found.append((turn, (number + place) % len(WISHES), place, spread))
    for *_, case in sorted(found, key=lambda item: item[:3]):
        yield case


def _spread_out(contract: Contract, case: Case, domain: Domain) -> Iterator[tuple[int, int, Case]]:
    """The case with one tensor in a far layout: which tensor, which of its layouts, and the case."""
    for place, (name, recipe) in enumerate(case.tensors.items()):
        layouts = () if recipe is None else variants("far", shape_of(contract, case, name))
        for turn, layout in enumerate(layouts):
            assert recipe is not None
            spread = Case(case.sizes, case.scalars, {**case.tensors, name: replace(recipe, layout=layout)})
            if permits(domain.layouts, layout) and objection(contract, spread, domain) is None:
                yield place, turn, spread
