"""The same values elsewhere in memory: a case in other layouts, by whose answers the first ones are held."""

from __future__ import annotations

from harness import layouts
from harness.case import Case, shape_of
from harness.contracts import Contract
from harness.domain import Domain
from harness.layouts import Layout
from harness.simplify import with_layout


def rearranged(contract: Contract, case: Case, domain: Domain, number: int) -> Case:
    """The case with each tensor in another layout that the domain admits, one of them for each ``number``.

    The values are the same. A tensor with an axis expanded stays as it is, and none gets one: its elements
    would repeat one another. The case itself where no tensor has another layout.
    """
    for place, (name, recipe) in enumerate(case.tensors.items()):
        if recipe is None or recipe.layout.expand:
            continue
        shape = shape_of(contract, case, name)
        options = [found for found in _options(shape, domain) if found != recipe.layout]
        by_name: dict[str, list[Layout]] = {}
        for layout in options:
            by_name.setdefault(layout.name, []).append(layout)
        if not by_name:
            continue
        names, turn = list(by_name), number // 101
        chosen = by_name[names[(number + place) % len(names)]]
        case = with_layout(contract, case, name, layouts.taking_turns(chosen, turn))
    return case


def _options(shape: tuple[int, ...], domain: Domain) -> list[Layout]:
    """The layouts that a domain admits for a tensor of this shape, without expanded and far ones."""
    found = (layout for name in layouts.near(domain.layouts) for layout in layouts.variants(name, shape))
    return [layout for layout in found if not layout.expand and layouts.permits(domain.layouts, layout)]
