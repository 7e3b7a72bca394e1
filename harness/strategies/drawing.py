"""Hypothesis strategies: random cases that shrink towards small, contiguous and simple ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from harness import layouts
from harness.admission import narrowed
from harness.case import Case, Grid, Recipe, Row
from harness.contracts import Choice, Contract, Dim
from harness.domain import Domain
from harness.formats import Format, is_integer
from harness.layouts import Layout
from harness.strategies import contents, shapes
from harness.strategies.contents import POSITIONS, Demand
from harness.strategies.cost import Budget
from harness.strategies.options import dimensions
from harness.strategies.shapes import Wish
from harness.strategies.supply import mixture
from harness.values import Family, Pool, max_abs_params, pool, special_applies, specials

T = TypeVar("T")

_LENGTHS = (
    *sorted({*range(1, 34), *shapes.EDGES, *shapes.PRIMES, 100, 200, 300, 600, 2047, 2048, 2049, 4097}),
    0,
)
"""Lengths of the main axis, ascending, so that they shrink one after the other; empty axes last."""

_LONGER: tuple[Sequence[int], ...] = ((0,), range(400), range(0, 1200, 8))
"""What two of three lengths are longer by, so that any rest of the width of a vector load or an unrolled loop is met."""

_ROWS = (1, 2, 3, 5, 8, 16, 24, 0, 64)
"""Numbers of situations, simplest first."""

_MORE_ROWS: tuple[Sequence[int], ...] = ((0,), (0,), range(50), range(600))
"""How many more there are in every other case, some of them beyond a block of programs."""


def cases(
    contract: Contract, fmt: Format | str, domain: Domain | None = None, *, budget: Budget | None = None
) -> SearchStrategy[Case]:
    """Random cases of a contract in a format, within a domain and a budget (default: the format's usual one).

    They shrink towards one row, short axes, contiguous layouts and simple families. Mostly one tensor of a
    case holds anything but ordinary data. fmt: a format, or an integer dtype that the contract names. Raises
    HarnessError if the domain admits no case.
    """
    given = narrowed(contract, domain or Domain())
    tested = contents.tested_format(fmt)
    spend = budget or Budget.of(tested)
    dtypes = contents.formats(contract, given, tested)
    ndims = dimensions(contract, given)
    pools = {name: pool(contract, given, name, whole=is_integer(dtype)) for name, dtype in dtypes.items()}
    orders = {name: _simplest_first(found) for name, found in pools.items()}
    first = next(iter(contract.tensors))
    kinds = {type(spec) for spec in contract.scalars.values()}
    turns = given.allowed or Choice in kinds or any(spec.many for spec in contract.tensors.values())
    sides = len(contract.size_names) > 1 or not contract.rows
    rows = {
        family.name: row
        for family, row in zip(specials(contract, given), _special_rows(contract, given), strict=True)
    }

    @st.composite
    def draw_case(draw: DrawFn) -> Case:
        pick = _picker(draw)
        content, longer = pick(_LENGTHS), pick(pick(_LONGER))
        count, more = pick(_ROWS), pick(pick(_MORE_ROWS))
        wish = Wish(
            content=content and content + longer,
            rows=count and count + more,
            ndim=pick(ndims),
            axis=pick(range(12)) if Dim in kinds else 0,
            choice=pick(range(64)) if turns else 0,
            spread=pick(range(12)),
            units=bool(contract.rows) and pick((False, False, False, True)),
            main=pick(range(6)) if sides else 0,
            square=pick((*(False,) * 7, True)),
            beyond=pick((0, 0, 0, *shapes.BEYOND)) if sides else 0,
        )
        fitted = shapes.fit(contract, given, spend, wish)
        whole = contract.at(fitted.sizes)
        focus = pick(range(len(whole.tensors)))
        mild = len(whole.tensors) > 1 and pick((True, True, True, False))
        # One NaN or infinity is all that is left of a result of everything: half of such cases have none.
        alone = not whole.row_labels(fitted.sizes, fitted.scalars)
        calm = alone and not isinstance(contract.rows or None, str) and pick((True, False))
        tensors: dict[str, Recipe | None] = {}
        for place, (name, spec) in enumerate(whole.tensors.items()):
            base = name.partition("[")[0]
            if spec.optional and pick((False, False, True)):
                tensors[name] = None
                continue
            cells = contents.grid_of(whole, fitted, name)
            layout = _layout(pick, contents.placement(whole, given, name), cells)
            usable: Sequence[Family] = orders[base]
            if mild and place != focus:
                usable = [family for family in usable if "ordinary" in family.tags] or usable
            elif base == first and rows and not is_integer(dtypes[base]):
                n = contents.visible(layout, cells)
                fitting = (f for f in specials(contract, given) if special_applies(rows[f.name], n))
                usable = (*usable, *fitting)
            if calm:
                usable = [family for family in usable if "special" not in family.tags] or usable
            drawn = None
            if alone and cells.inner and place == focus and not is_integer(dtypes[base]):
                drawn = _mixture(pick, given, cells, pools[base], 0 if calm else pick((0, 1, 3)))
            drawn = drawn or _rows(pick, given, layout, cells, usable)
            tensors[name] = contents.recipe(dtypes[base], layout, cells, drawn)
        return Case(fitted.sizes, fitted.scalars, tensors)

    return draw_case()


def _simplest_first(given: Pool) -> tuple[Family, ...]:
    """The families of a tensor as often as they are to be drawn: the listed ones twice as often."""
    return (*given.every[:4], *given.listed, *given.listed, *given.every[4:])


def _special_rows(contract: Contract, domain: Domain) -> list[Any]:
    admitted = {family.name for family in specials(contract, domain)}
    return [row for row in contract.special if f"special:{row.name}" in admitted]


def _picker(draw: DrawFn) -> Callable[[Sequence[T]], T]:
    """Draw one of several options, shrinking towards the first."""

    def pick(options: Sequence[T]) -> T:
        return options[draw(st.integers(0, len(options) - 1))] if len(options) > 1 else options[0]

    return pick


def _layout(pick: Callable[[Sequence[Any]], Any], domain: Domain, cells: Grid) -> Layout:
    if not pick((False, True)):
        return Layout.contiguous(len(cells.shape))
    names = [name for name in layouts.near(domain.layouts) if layouts.feasible(name, cells.shape)]
    found = contents.layout(domain, pick(names or ["contiguous"]), cells.shape, pick(range(12)))
    return found


def _mixture(
    pick: Callable[[Sequence[Any]], Any], domain: Domain, cells: Grid, given: Pool, wild: int
) -> list[Row] | None:
    """For a contract without rows, in every other case: vectors of a family each, ``wild`` of them wild."""
    if not pick((False, True)):
        return None
    inner = pick(cells.inner)
    families = mixture(given, pick(range(24)), pick(range(1, 7)), wild, inner)
    return [contents.mixed(families, pick(range(1 << 16)), inner, cells, domain)] if families else None


def _rows(
    pick: Callable[[Sequence[Any]], Any],
    domain: Domain,
    layout: Layout,
    cells: Grid,
    families: Sequence[Family],
) -> list[Row]:
    rows = []
    count = min(pick(range(1, 7)), max(contents.distinct_rows(layout, cells), 1))
    n = contents.extent(layout, cells, count)
    for _ in range(count):
        family = pick(families)
        where = pick(POSITIONS) if family.positions else None
        turn = pick(range(12)) if where in ("edge", "before-edge") else 0
        seed = pick(range(1 << 16))
        row = Demand(family, where).row(seed, cells, domain, turn, n=n)
        whole = "whole" in family.tags
        rows.append(row or Row(family.name, seed, () if whole else max_abs_params(domain)))
    return rows
