"""Layouts and rows of a launch's tensors: which recipes fill it, and where the decisive positions lie."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from harness import layouts
from harness.case import Grid, Recipe, Row
from harness.contracts import Contract
from harness.domain import Domain
from harness.errors import HarnessError
from harness.formats import Format, dtype_name, format_of, is_integer
from harness.layouts import Layout
from harness.strategies.cost import Fitted
from harness.values import Family, in_turn, max_abs_params
from harness.values.whole import bounds

POSITIONS = ("first", "last", "before-last", "middle", "before-edge", "edge")
"""Classes of decisive positions; an edge is a power of two."""


def positions(kind: str, n: int) -> list[int]:
    """The positions of this class in a row of n elements, the largest edges first; there may be none.

    "last" and "before-last" count from the end.
    """
    if kind in ("edge", "before-edge"):
        edges = [2**k for k in range(20, 0, -1) if 2**k < n]
        return edges if kind == "edge" else [edge - 1 for edge in edges]
    at, least = {"first": (0, 1), "last": (-1, 2), "before-last": (-2, 3), "middle": (n // 2, 4)}[kind]
    return [at] if n >= least else []


def formats(contract: Contract, domain: Domain, fmt: Format | str) -> dict[str, str]:
    """The format or integer dtype of each tensor: the domain's, else the contract's, else the one under test.

    Raises HarnessError for an integer dtype under test that the contract does not name, and for an integer
    tensor without a range.
    """
    tested = fmt if isinstance(fmt, str) else fmt.name
    if is_integer(tested) and tested not in contract.formats:
        known = ", ".join(contract.formats) or "floating-point ones"
        raise HarnessError(f"contract {contract.name} is not judged in {tested}; its formats: {known}")
    given = dict(domain.dtypes)
    found = {}
    for name, spec in contract.tensors.items():
        found[name] = dtype_name(given.get(name) or spec.dtype or tested)
        if is_integer(found[name]):
            bounds(contract, name, found[name])
    return found


def tested_format(fmt: Format | str) -> Format | str:
    """A format under test, or the name of an integer dtype; HarnessError for neither."""
    return dtype_name(fmt) if isinstance(fmt, str) and is_integer(fmt) else format_of(fmt)


def grid_of(contract: Contract, fitted: Fitted, name: str) -> Grid:
    """How a tensor of a launch divides into rows; the contract's lists are written out."""
    written = contract.tensors[name].shape
    return Grid(
        contract.shape(written, fitted.sizes, fitted.scalars),
        contract.row_axes(written, fitted.sizes, fitted.scalars),
    )


def placement(contract: Contract, domain: Domain, name: str) -> Domain:
    """The domain for the layout of one tensor: one that is written to has no element twice."""
    if name not in contract.mutated:
        return domain
    distinct = tuple(item for item in layouts.allowed(domain.layouts) if item != "broadcast")
    return replace(domain, layouts=distinct)


def layout(
    domain: Domain, wanted: str, shape: tuple[int, ...], turn: int = 0, rows: tuple[int, ...] = ()
) -> Layout:
    """A layout of the wanted name, one of its variants in turn; expanding one of the row axes, if ``rows`` has any,
    or all axes.

    Where the domain or the shape rules the name out, another feasible one takes its place.
    """
    by_name: dict[str, list[Layout]] = {}
    for name in layouts.near(domain.layouts):
        found = [item for item in layouts.variants(name, shape) if layouts.permits(domain.layouts, item)]
        fitting = [item for item in found if set(item.expand) <= set(rows)]
        found = [*fitting, *(item for item in found if len(item.expand) > 1)] if fitting else found
        if found:
            by_name[name] = found
    if wanted == "contiguous" or not by_name:
        return Layout.contiguous(len(shape))
    if wanted not in by_name:
        strided = [name for name in by_name if name not in ("contiguous", "size1", "broadcast")]
        wanted = (strided or list(by_name))[turn % len(strided or by_name)]
    return layouts.taking_turns(by_name[wanted], turn)


@dataclass(frozen=True)
class Demand:
    """A row that a search wants to see: a family, at a class of positions, in rows of some least length.

    params: those that are not left to the row's seed.
    """

    family: Family
    where: str | None = None
    least: int = 1
    params: tuple[tuple[str, int | float], ...] = ()

    def row(
        self,
        seed: int,
        cells: Grid,
        domain: Domain,
        turn: int = 0,
        met: Collection[int] | None = None,
        n: int | None = None,
    ) -> Row | None:
        """The recipe for a row of a tensor, None if the row is too short for it.

        n: the elements that it fills, as `extent` says. Of several positions of its
        class it takes one in turn, or the first that was not ``met`` yet; vectors are those of an inner axis, as the seed has it.
        """
        n = cells.length if n is None else n
        if n < self.least:
            return None
        params = self.params
        free = [name for name in self.family.positions if name not in dict(params)]
        if free:
            possible = positions(self.where or POSITIONS[turn % len(POSITIONS)], n)
            if not possible and self.where is not None:
                return None
            at = possible[turn % len(possible)] if possible else 0
            if met is not None:
                at = next((fresh for fresh in possible if fresh not in met), at)
            # Parts of a row do not know its end.
            at = at if cells.content_axes else at % max(n, 1)
            params += tuple((name, at) for name in free)
        if self.family.inner and cells.inner:
            params += tuple((name, cells.inner[seed % len(cells.inner)]) for name in self.family.inner)
        limit = () if "whole" in self.family.tags else max_abs_params(domain)
        return Row(self.family.name, seed, params + limit, start=None if cells.content_axes else 0)


def mixed(families: Sequence[Family], seed: int, inner: int, cells: Grid, domain: Domain) -> Row:
    """A row of vectors of length ``inner``, of one family each.

    For a launch that is one situation: a matrix of logits that a single mean comes of has many rows, too.
    """
    rule = in_turn(families[: -(-cells.length // inner)])
    return Row(rule.name, seed, (("inner", inner), *max_abs_params(domain)))


def recipe(fmt: str, layout: Layout, cells: Grid, rows: Sequence[Row]) -> Recipe:
    """A tensor whose distinct rows are ``rows`` in turn; rows expanded with stride 0 repeat one another."""
    if not set(layout.expand) & set(cells.row_axes):
        return Recipe(fmt, layout, tuple(rows))
    supply = Recipe(fmt, layout, tuple(rows))
    chosen: dict[int, Row] = {}
    pinned = [int(number) for number in cells.pinned(layout.expand, content=False)]
    for number in pinned:
        if number not in chosen:
            chosen[number] = supply.row(len(chosen))
    return Recipe(fmt, layout, tuple(chosen[number] for number in pinned) or supply.rows)


def distinct_rows(layout: Layout, cells: Grid) -> int:
    """How many rows of a tensor can differ, given the axes its layout expands."""
    count = 1
    for axis in cells.row_axes:
        count *= min(1, cells.shape[axis]) if axis in layout.expand else cells.shape[axis]
    return count


def extent(layout: Layout, cells: Grid, recipes: int) -> int:
    """Elements that a recipe fills with one row of its family, where so many recipes take turns.

    Those of a row that can differ; where every element is a row of its own, those of every repetition.
    """
    if cells.content_axes:
        return visible(layout, cells)
    return -(-distinct_rows(layout, cells) // max(1, recipes))


def visible(layout: Layout, cells: Grid) -> int:
    """Elements of a row that can differ, given the axes its layout expands."""
    count = 1
    for axis in cells.content_axes:
        count *= min(1, cells.shape[axis]) if axis in layout.expand else cells.shape[axis]
    return count
