"""Smaller cases out of cases: pure functions that a reducer tries one after the other.

Each keeps the values of what it leaves in place, unless its docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness import shapes
from harness.case import Case, Grid, Recipe, Row, grid, logical_values, used_rows
from harness.contracts import AxisLabel, Contract, Dim, SizeOf, Tensor
from harness.domain import Domain
from harness.errors import HarnessError, nearest
from harness.formats import is_integer, to_hex
from harness.layouts import Layout
from harness.values import LITERAL, max_abs_params
from harness.values.counter import Floats


def axes(contract: Contract, case: Case) -> dict[AxisLabel, int]:
    """What can be shortened, with its length: every number of the sizes, in order of appearance.

    A plain axis is named as itself; one that is a product or a quotient is shortened by the sizes in it. Last
    come the counts of lists: shortening one leaves tensors out.
    """
    found: dict[AxisLabel, int] = {}
    whole = contract.at(case.sizes)
    for tensor in whole.tensors.values():
        for axis in whole.axes(tensor.shape, case.sizes, case.scalars):
            for name, place in shapes.slots(axis.label, case.sizes):
                size = case.sizes[name]
                found[name, place] = size[place] if isinstance(size, tuple) else size
    for count in _counts(contract) | set(whole.counts):
        found.pop((count, 0), None)
    for count in sorted(_counts(contract)):
        size = case.sizes[count]
        assert isinstance(size, int)
        found[count, 0] = size
    return found


def restrict(contract: Contract, case: Case, slot: AxisLabel, keep: Sequence[int]) -> Case:
    """Keep only these indices, in ascending order, of one size of the case, in every axis that has it.

    Row recipes stay as they are where they can: row axes always, the first content axis if what stays is a
    prefix. Other rows become literal. A position that counts from the end of a row stays at its end. In a
    product the first factor is the slowest. Integers that number the elements of a shortened axis follow
    them; one whose element is gone goes to the nearest before it. A tensor that a list loses takes its
    lengths with it.
    """
    lengths = axes(contract, case)
    if slot not in lengths:
        raise HarnessError(f"case has no size {slot}; sizes: {lengths}")
    if list(keep) == list(range(lengths[slot])):
        return case
    sizes = shapes.resized(case.sizes, {slot: len(keep)})
    listed = {name: spec for name, spec in contract.tensors.items() if spec.many and (spec.many, 0) == slot}
    for name in dict.fromkeys(name for spec in listed.values() for name in shapes.names(spec.shape)):
        size = sizes[name]
        if name.endswith("@") and isinstance(size, tuple):
            sizes[name] = tuple(size[rank] for rank in keep)
    smaller = replace(case, sizes=sizes)
    tensors: dict[str, Recipe | None] = {}
    for name, recipe in case.tensors.items():
        renamed = _renamed(name, listed, keep)
        if renamed is not None:
            tensors[renamed] = recipe and _restrict(contract, case, smaller, (name, renamed), slot, keep)
    return replace(smaller, tensors=tensors)


def cut(contract: Contract, case: Case, slot: AxisLabel, length: int) -> Case:
    """Keep the first ``length`` indices of one size of the case."""
    return restrict(contract, case, slot, range(length))


def only_situations(contract: Contract, case: Case, keep: Sequence[int]) -> Case:
    """Keep these situations, with the number of axes and everything else as it is.

    They come to lie along one row axis, the others having length 1. Where a tensor has some row axes and
    lacks others, or a row axis is a product, all combinations of the kept coordinates stay; an axis that
    shares a size with a row axis is shortened with it.
    """
    whole = contract.at(case.sizes)
    rows = whole.row_labels(case.sizes, case.scalars)
    if not rows or not keep:
        return case
    along = _shared_row_axis(whole, case)
    if along is not None and len(keep) > 1:
        return _gather(whole, case, sorted(keep), along)
    coordinates = np.unravel_index(np.asarray(keep), [axis.length for axis in rows])
    needed: dict[AxisLabel, set[int]] = {}
    for axis, indices in zip(rows, coordinates, strict=True):
        for index in np.unique(indices):
            for slot, at in shapes.coordinates(axis.label, int(index), case.sizes, case.scalars).items():
                needed.setdefault(slot, set()).update(at)
    for slot, at in needed.items():
        case = restrict(contract, case, slot, sorted(at))
    return case


def literal(contract: Contract, case: Case, name: str, rows: Sequence[int] | None = None) -> Case:
    """Write out the values of a tensor's rows (default: all of them), so that none depends on a family."""
    recipe = _recipe(case, name)
    cells = grid(contract, case, name)
    values = cells.split(logical_values(contract, case, name))
    chosen = set(range(cells.rows) if rows is None else rows)
    written = [
        _literal(values[number]) if number in chosen else recipe.row(number) for number in range(cells.rows)
    ]
    return _with(case, name, replace(recipe, rows=_once(written) or recipe.rows))


def with_values(contract: Contract, case: Case, name: str, values: Floats) -> Case:
    """The case with these exact values, float64 of the tensor's shape, in place of a tensor's rows."""
    cells = grid(contract, case, name)
    rows = _once([_literal(row) for row in cells.split(values)])
    return _with(case, name, replace(_recipe(case, name), rows=rows or (Row(LITERAL),)))


def with_row(contract: Contract, case: Case, name: str, number: int, row: Row) -> Case:
    """The case with another recipe for one row of a tensor."""
    recipe = _recipe(case, name)
    rows = [recipe.row(i) for i in range(grid(contract, case, name).rows)]
    rows[number] = row
    return _with(case, name, replace(recipe, rows=tuple(rows)))


def with_layout(contract: Contract, case: Case, name: str, layout: Layout) -> Case:
    """The case with a tensor in another layout; its values change along newly expanded axes only."""
    recipe = _recipe(case, name)
    cells = grid(contract, case, name)
    lost = set(recipe.layout.expand) - set(layout.expand)
    if lost & set(cells.content_axes):
        recipe = _recipe(literal(contract, case, name), name)
    elif lost:
        rows = tuple(recipe.row(int(number)) for number in cells.pinned(recipe.layout.expand, content=False))
        recipe = replace(recipe, rows=rows or recipe.rows)
    return _with(case, name, replace(recipe, layout=layout))


def with_scalar(contract: Contract, case: Case, name: str, value: Any) -> Case:
    """The case with another value of a scalar, of the same sizes.

    Tensors whose rows the scalar decides are written out, so that their values stay.
    """
    changed = replace(case, scalars={**case.scalars, name: value})
    for tensor, recipe in case.tensors.items():
        if recipe is not None and grid(contract, case, tensor) != grid(contract, changed, tensor):
            changed = with_values(contract, changed, tensor, logical_values(contract, case, tensor))
    return changed


def contiguous(contract: Contract, case: Case) -> Case:
    """The case with every tensor contiguous, of the same values."""
    for name, recipe in case.tensors.items():
        if recipe is not None and recipe.layout.name != "contiguous":
            case = with_layout(contract, case, name, Layout.contiguous(recipe.layout.ndim))
    return case


def squeeze(contract: Contract, case: Case, label: AxisLabel) -> Case | None:
    """The case without one axis, of length 1 and in a pack; None if a scalar or a whole tensor needs it."""
    name, place = label
    size = case.sizes[name]
    if not name.startswith("*") or not isinstance(size, tuple) or size[place] != 1:
        return None
    scalars = dict(case.scalars)
    for scalar, spec in contract.scalars.items():
        if not isinstance(spec, Dim):
            continue
        labels = _tensor_labels(contract, case, spec.of)
        axis = scalars[scalar] % len(labels)
        if labels[axis] == label or len(labels) == 1:
            return None
        if label in labels and scalars[scalar] >= 0:
            scalars[scalar] -= labels.index(label) < axis
        elif label in labels:
            scalars[scalar] += labels.index(label) > axis
    tensors: dict[str, Recipe | None] = {}
    for tensor, recipe in case.tensors.items():
        labels = _tensor_labels(contract, case, tensor)
        if labels == [label]:
            return None
        if recipe is not None and label in labels:
            recipe = replace(recipe, layout=recipe.layout.without(labels.index(label)))
        tensors[tensor] = recipe
    return Case({**case.sizes, name: size[:place] + size[place + 1 :]}, scalars, tensors)


FILLS = ("nan", "+large", "-large")
"""What to put in place of other rows: NaN, or a tenth of the format's largest number of either sign.

Of integers: a planted value or the middle of the range, its highest value, its lowest.
"""


def of_domain(fill: str, domain: Domain) -> str:
    """The one of FILLS that takes a fill's place in floating-point tensors: finite inputs have no NaN."""
    return "+large" if domain.finite and fill == "nan" else fill


def changed_others(
    contract: Contract, case: Case, keep_situation: int, fill: str = "nan", domain: Domain | None = None
) -> Case:
    """The case with other contents in every row that situation ``keep_situation`` does not use.

    Sizes, layouts and the kept situation's own rows are as they were, so its results must be too. ``fill``
    is one of FILLS. A domain of finite inputs has "+large" in place of NaN, and its ``max_abs`` bounds what is large:
    a kernel may refuse other contents, or clamp them.
    """
    if fill not in FILLS:
        raise HarnessError(f"unknown fill {fill!r}; {nearest(fill, FILLS)}fills: {', '.join(FILLS)}")
    domain = domain or Domain()
    whole = Row(f"fill:{fill}")
    number = Row(f"fill:{of_domain(fill, domain)}", params=max_abs_params(domain))
    tensors: dict[str, Recipe | None] = {}
    for name, recipe in case.tensors.items():
        cells = grid(contract, case, name)
        if recipe is not None and cells.row_axes:
            mine = int(used_rows(contract, case, name)[keep_situation])
            rows = [whole if is_integer(recipe.format) else number] * cells.rows
            rows[mine] = recipe.row(mine)
            recipe = replace(recipe, rows=tuple(rows))
        tensors[name] = recipe
    return replace(case, tensors=tensors)


def _restrict(
    contract: Contract,
    case: Case,
    smaller: Case,
    names: tuple[str, str],
    slot: AxisLabel,
    keep: Sequence[int],
) -> Recipe:
    """A tensor's recipe after one size of the case was restricted; its name before and after."""
    name, renamed = names
    recipe = _recipe(case, name)
    changed: dict[int, list[int]] = {}
    for axis, label in enumerate(_tensor_labels(contract, case, name)):
        indices = shapes.kept(label, slot, keep, case.sizes, case.scalars)
        if indices is not None:
            changed[axis] = indices
    cells = grid(contract, case, name)
    numbered = is_integer(recipe.format) and _numbers(contract.at(case.sizes), name) == slot
    if not numbered and _regenerates(cells, changed):
        return _trimmed(_fewer_rows(recipe, cells, changed), grid(contract, smaller, renamed).length)
    values = logical_values(contract, case, name)
    if numbered:
        before = np.searchsorted(np.asarray(keep), values, side="right") - 1
        planted = ~((values >= 0) & (values < axes(contract, case)[slot]))
        values = np.where(planted, values, np.maximum(before, 0))
    for axis, indices in changed.items():
        values = values.take(indices, axis=axis)
    rows = _once([_literal(row) for row in grid(contract, smaller, renamed).split(values)])
    return replace(recipe, rows=rows or (Row(LITERAL),))


def _regenerates(cells: Grid, changed: Mapping[int, list[int]]) -> bool:
    """Whether the same recipes give the values that stay: at most the slowest content axis is cut."""
    content = [axis for axis in changed if axis not in cells.row_axes]
    if not content:
        return True
    (axis, *others) = content
    before = cells.content_axes[: cells.content_axes.index(axis)]
    prefix = changed[axis] == list(range(len(changed[axis])))
    return not others and prefix and all(cells.shape[other] == 1 for other in before)


def _fewer_rows(recipe: Recipe, cells: Grid, changed: Mapping[int, list[int]]) -> Recipe:
    """The recipe with the rows that stay along restricted row axes."""
    numbers = np.arange(cells.rows).reshape(cells.row_shape)
    for axis, indices in changed.items():
        if axis in cells.row_axes:
            indices = [0] * len(indices) if axis in recipe.layout.expand else indices
            numbers = numbers.take(indices, axis=cells.row_axes.index(axis))
    chosen = numbers.reshape(-1).tolist()
    if chosen == list(range(len(chosen))):
        return replace(recipe, rows=recipe.rows[: max(1, len(chosen))])
    return replace(recipe, rows=tuple(recipe.row(number) for number in chosen) or recipe.rows[:1])


def _trimmed(recipe: Recipe, length: int) -> Recipe:
    """The recipe without the written values that lie beyond rows of this length."""

    def cut_off(row: Row) -> Row:
        beyond = row.family == LITERAL and row.start is None and len(row.values) > length > 0
        return replace(row, values=row.values[:length]) if beyond else row

    return replace(recipe, rows=tuple(map(cut_off, recipe.rows)))


def _numbers(contract: Contract, name: str) -> AxisLabel | None:
    """The size whose elements the integers of a tensor number, if any: they lie in [0, size)."""
    whole = contract.tensors[name].whole
    if whole is None or whole.low != 0 or not isinstance(whole.high, str):
        return None
    spec = contract.args.get(whole.high)
    return (spec.size if isinstance(spec, SizeOf) else whole.high), 0


def _counts(contract: Contract) -> set[str]:
    """The sizes that count the tensors of a list; none of a contract whose lists are written out."""
    return {spec.many for spec in contract.tensors.values() if spec.many}


def _renamed(name: str, listed: Mapping[str, Tensor], keep: Sequence[int]) -> str | None:
    """The name of a tensor once these of its list are kept; None if it is left out."""
    base, _, rank = name.partition("[")
    if base not in listed:
        return name
    number = int(rank.rstrip("]"))
    return f"{base}[{list(keep).index(number)}]" if number in keep else None


def _shared_row_axis(contract: Contract, case: Case) -> AxisLabel | None:
    """The longest row axis, if every tensor has all row axes (or none) and none of them in its content.

    None also where a row axis is a product, or expanded, since its rows repeat one another.
    """
    rows = contract.row_labels(case.sizes, case.scalars)
    wanted = sorted(axis.label for axis in rows)
    if any(shapes.slots(label, case.sizes) != (label,) for label in wanted):
        return None
    for name, recipe in case.tensors.items():
        labels = _tensor_labels(contract, case, name)
        if sorted(label for label in labels if label in wanted) not in ([], wanted):
            return None
        factors = [
            slot for label in labels if label not in wanted for slot in shapes.slots(label, case.sizes)
        ]
        if set(factors) & set(wanted):
            return None
        if recipe is not None and any(labels[axis] in wanted for axis in recipe.layout.expand):
            return None
    return max(rows, key=lambda axis: axis.length).label


def _gather(contract: Contract, case: Case, keep: Sequence[int], along: AxisLabel) -> Case:
    """Situations ``keep`` along one row axis, the other row axes at length 1."""
    rows = contract.row_labels(case.sizes, case.scalars)
    lengths = {axis.label: len(keep) if axis.label == along else 1 for axis in rows}
    case = replace(case, sizes=shapes.resized(case.sizes, lengths))
    tensors: dict[str, Recipe | None] = {}
    for name, recipe in case.tensors.items():
        if recipe is not None and grid(contract, case, name).row_axes:
            recipe = replace(recipe, rows=tuple(recipe.row(number) for number in keep))
        tensors[name] = recipe
    return replace(case, tensors=tensors)


def _tensor_labels(contract: Contract, case: Case, name: str) -> list[AxisLabel]:
    contract = contract.at(case.sizes)
    return [axis.label for axis in contract.axes(contract.tensors[name].shape, case.sizes, case.scalars)]


def _recipe(case: Case, name: str) -> Recipe:
    recipe = case.tensors.get(name)
    if recipe is None:
        raise HarnessError(f"case has no tensor {name!r}; tensors: {', '.join(case.tensors)}")
    return recipe


def _with(case: Case, name: str, recipe: Recipe) -> Case:
    return replace(case, tensors={**case.tensors, name: recipe})


def _once(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Rows as a recipe has them, which begins again after the last: equal ones written once."""
    alike = rows and rows[0].family == LITERAL and all(row == rows[0] for row in rows)
    return tuple(rows[:1] if alike else rows)


def _literal(values: Floats) -> Row:
    return Row(LITERAL, values=tuple(map(to_hex, values.tolist())))
