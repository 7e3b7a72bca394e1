"""Cases: the whole input of one launch as a small recipe, and the tensors made from it.

A case names the sizes and scalars of a call and, for each tensor, its format, its layout and the recipes of
its rows. A *row* is the content of a tensor along its axes that are no row axes of the contract, in
row-major order; a tensor without row axes is one row. The tensors of a list are named ``shards[0]``,
``shards[1]``, …, as in ``Contract.at``.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from harness.contracts import Contract, Output, SizeOf, SpecialRow
from harness.errors import HarnessError, nearest
from harness.formats import Format, encode, format_of, from_hex, is_integer
from harness.layouts import Layout
from harness.shapes import names
from harness.values.counter import Floats, Integers, child
from harness.values.family import LITERAL
from harness.values.rows import raw_row, round_rows
from harness.values.selection import SPECIAL, special_applies
from harness.values.whole import Range, range_of

if TYPE_CHECKING:
    import torch

    from harness.memory import Block


REPETITIONS = 64
"""Times that the rows of a recipe are repeated with other seeds; then the same rows come again."""


@dataclass(frozen=True)
class Row:
    """How to fill one row: a value family, the seed of its numbers, its parameters, and planted values.

    ``plant`` replaces single elements: (index, hexadecimal value), an index outside the row being ignored.
    A row of family "literal" holds ``values``, hexadecimal, and zeros after them. One with a ``start`` is
    the part from there on of what its family fills, and its repetitions are the next parts: so the rows of
    one element each, where every element is a situation, hold a whole row of their family in the end.
    """

    family: str
    seed: int = 0
    params: tuple[tuple[str, int | float], ...] = ()
    plant: tuple[tuple[int, str], ...] = ()
    values: tuple[str, ...] = ()
    start: int | None = None

    def repetition(self, number: int) -> Row:
        """The same recipe with the seed of its number-th repetition, or with the start of its next part."""
        if self.start is not None:
            return dataclasses.replace(self, start=self.start + number)
        again = number % REPETITIONS
        return dataclasses.replace(self, seed=child(self.seed, again)) if again else self

    @property
    def whole(self) -> Row:
        """The row that this one is a part of, itself without a start."""
        return self if self.start is None else dataclasses.replace(self, start=0)

    def __str__(self) -> str:
        if self.family == LITERAL:
            shown = [f"{from_hex(text):g}" for text in self.values[:4]]
            text = f"[{' '.join(shown)}{' …' if len(self.values) > 4 else ''}]"
        else:
            params = ",".join(f"{name}={value:g}" for name, value in self.params)
            text = f"{self.family}#{self.seed}" + (f"({params})" if params else "")
            text += "" if self.start is None else f"@{self.start}"
        return text + "".join(f"[{index}]={from_hex(value):g}" for index, value in self.plant)


@dataclass(frozen=True)
class Recipe:
    """One tensor: its format or integer dtype, its layout, its rows.

    Row r is ``rows[r % len(rows)]``, its seed changed for each of the first REPETITIONS repetitions, or its
    start for each of them.
    """

    format: str
    layout: Layout
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise HarnessError("a recipe needs at least one row")

    def row(self, number: int) -> Row:
        """The recipe of row ``number``, its seed resolved."""
        again, which = divmod(number, len(self.rows))
        return self.rows[which].repetition(again)

    def distinct(self, numbers: Integers) -> tuple[list[Row], Integers, Integers]:
        """The recipes that these rows need, which of them each is a part of, and where its part starts."""
        again, which = np.divmod(numbers, len(self.rows))
        starts = np.array([-1 if row.start is None else row.start for row in self.rows])[which]
        starts, again = np.where(starts < 0, 0, starts + again), np.where(starts < 0, again % REPETITIONS, 0)
        used, inverse = np.unique(again * len(self.rows) + which, return_inverse=True)
        found: dict[Row, int] = {}
        places = [found.setdefault(self.row(int(number)).whole, len(found)) for number in used]
        return list(found), np.asarray(places, dtype=np.int64)[inverse.reshape(-1)], starts

    def __str__(self) -> str:
        shown = " ".join(str(row) for row in self.rows[:3])
        more = f" …{len(self.rows)} rows" if len(self.rows) > 3 else ""
        return f"{self.format} {self.layout} {shown}{more}"


@dataclass(frozen=True, eq=False)
class Case:
    """The input of one launch. Equal, and hashed, by its JSON."""

    sizes: dict[str, int | tuple[int, ...]]
    scalars: dict[str, Any]
    tensors: dict[str, Recipe | None]

    @functools.cached_property
    def _json(self) -> str:
        tensors = {name: recipe and _compact(recipe) for name, recipe in self.tensors.items()}
        fields = {"sizes": self.sizes, "scalars": self.scalars, "tensors": tensors}
        return msgspec.json.encode(fields, order="deterministic").decode()

    def to_json(self) -> str:
        """The case as one line of JSON; equal cases give equal text."""
        return self._json

    @staticmethod
    def from_json(text: str) -> Case:
        """The case that ``to_json`` wrote; raises HarnessError for anything else."""
        try:
            case = msgspec.json.decode(text, type=Case)
        except msgspec.MsgspecError as error:
            raise HarnessError(f"this is no case: {error}; give a line that Case.to_json wrote") from error
        check_fields(msgspec.json.decode(text))
        return Case(case.sizes, {name: _tuples(value) for name, value in case.scalars.items()}, case.tensors)

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name the case."""
        return hashlib.sha256(self._json.encode()).hexdigest()[:12]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and self._json == other._json

    def __hash__(self) -> int:
        return hash(self._json)

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={value}" for name, value in self.sizes.items())
        scalars = " ".join(f"{name}={value!r}" for name, value in self.scalars.items())
        tensors = "; ".join(f"{name}: {recipe}" for name, recipe in self.tensors.items())
        return " | ".join(part for part in (sizes, scalars, tensors) if part)


def check_fields(case: Mapping[str, Any]) -> None:
    """Raise HarnessError where JSON that can be read as a case has a field that no case has."""
    _known(case, Case, "this is no case: it")
    for name, recipe in case["tensors"].items():
        if recipe is not None:
            _known(recipe, Recipe, f"tensor {name!r}")
            _known(recipe["layout"], Layout, f"the layout of tensor {name!r}")
            for row in recipe["rows"]:
                _known(row, Row, f"a row of tensor {name!r}")


def _known(found: Iterable[str], kind: Any, what: str) -> None:
    names = [item.name for item in dataclasses.fields(kind)]
    for key in found:
        if key not in names:
            raise HarnessError(f"{what} has {key!r}; {nearest(key, names)}known: {', '.join(names)}")


def _compact(recipe: Recipe) -> dict[str, Any]:
    """A recipe as JSON has it: without what is as usual."""
    usual = Row("")
    names = [item.name for item in dataclasses.fields(Row)]
    return {
        "format": recipe.format,
        "layout": {"order": recipe.layout.order, **recipe.layout.departures()},
        "rows": [
            {name: getattr(row, name) for name in names if getattr(row, name) != getattr(usual, name)}
            for row in recipe.rows
        ],
    }


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Inputs:
    """The arguments of a call, made from a case.

    args, kwargs: as the contract binds them; named: the same by name (None for an absent tensor); blocks:
    the guarded allocation of each tensor; exact: each tensor's values, float64 of its logical shape, on the
    CPU; rows: the number of situations.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    named: dict[str, Any]
    blocks: dict[str, Block]
    exact: dict[str, torch.Tensor]
    rows: int


def materialise(contract: Contract, case: Case, *, device: str = "cpu", guard_fill: str = "nan") -> Inputs:
    """Make the tensors of a case, each in a guarded allocation filled with ``guard_fill``, and bind the call.

    Raises HarnessError if the case does not fit the contract.
    """
    import torch

    from harness.memory import allocate

    check(contract, case)
    contract = contract.at(case.sizes)
    named = {name: contract.scalar(name, case.sizes, case.scalars) for name in contract.scalars}
    blocks: dict[str, Block] = {}
    exact: dict[str, torch.Tensor] = {}
    for salt, (name, recipe) in enumerate(case.tensors.items()):
        if recipe is None:
            named[name] = None
            continue
        logical = torch.from_numpy(logical_values(contract, case, name))
        shape = tuple(logical.shape)
        if is_integer(recipe.format):
            stored = logical.to(getattr(torch, recipe.format)).to(device)
        else:
            stored = encode(logical, format_of(recipe.format), device)
        layout = recipe.layout
        strides = layout.strides(shape)
        block = allocate(
            shape, strides, stored.dtype, device, fill=guard_fill, offset=layout.offset, salt=salt
        )
        target, source = block.view, stored
        for axis in layout.expand:
            length = min(1, shape[axis])
            target, source = target.narrow(axis, 0, length), source.narrow(axis, 0, length)
        target.copy_(source)
        named[name], blocks[name], exact[name] = block.view, block, logical
    args, kwargs = contract.bind(named)
    return Inputs(args, kwargs, named, blocks, exact, contract.situations(case.sizes, case.scalars))


def check(contract: Contract, case: Case) -> None:
    """Raise HarnessError, naming the mismatch, if the case does not fit the contract."""
    _check_lists(contract, case)
    contract = contract.at(case.sizes)
    for what, given, wanted in (
        ("tensors", case.tensors, contract.tensors),
        ("scalars", case.scalars, drawn_scalars(contract)),
        ("sizes", case.sizes, contract.size_names),
    ):
        if set(given) != set(wanted):
            raise HarnessError(
                f"case has {what} {sorted(given)}, contract {contract.name} has {sorted(wanted)}"
            )
    for name, recipe in case.tensors.items():
        spec = contract.tensors[name]
        if recipe is None:
            if not spec.optional:
                raise HarnessError(
                    f"case leaves out tensor {name!r}, which contract {contract.name} requires"
                )
            continue
        number_kind(contract, case, name)
        ndim = len(contract.shape(spec.shape, case.sizes, case.scalars))
        if recipe.layout.ndim != ndim:
            raise HarnessError(f"tensor {name!r} has {ndim} axes, its layout {recipe.layout.ndim}")


def drawn_scalars(contract: Contract) -> list[str]:
    """The scalars that a case gives; those that are sizes come with the sizes."""
    return [name for name, spec in contract.scalars.items() if not isinstance(spec, SizeOf)]


def _check_lists(contract: Contract, case: Case) -> None:
    """Raise HarnessError unless the sizes give each list its count, and as many lengths where it has them."""
    for spec in contract.tensors.values():
        if not spec.many:
            continue
        count = case.sizes.get(spec.many)
        if not isinstance(count, int) or count < 1:
            raise HarnessError(
                f"size {spec.many}={count!r} counts the tensors of a list; give a positive integer"
            )
        for name in names(spec.shape):
            lengths = case.sizes.get(name)
            if name.endswith("@") and not (isinstance(lengths, tuple) and len(lengths) == count):
                raise HarnessError(f"size {name}={lengths!r} needs {count} lengths, one for each tensor")


def number_kind(contract: Contract, case: Case, name: str) -> Format | Range:
    """What numbers a tensor holds: those of a floating-point format, or integers of a range.

    Raises HarnessError for a format that does not exist, or an integer tensor without a range.
    """
    recipe = case.tensors[name]
    assert recipe is not None
    if is_integer(recipe.format):
        return range_of(contract.at(case.sizes), name, recipe.format, case.sizes, case.scalars)
    return format_of(recipe.format)


def shape_of(contract: Contract, case: Case, name: str) -> tuple[int, ...]:
    """The logical shape of a tensor."""
    contract = contract.at(case.sizes)
    return contract.shape(contract.tensors[name].shape, case.sizes, case.scalars)


@dataclass(frozen=True)
class Grid:
    """A tensor seen as rows: which of its axes are row axes (in situation order) and which are content."""

    shape: tuple[int, ...]
    row_axes: tuple[int, ...]

    @property
    def content_axes(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.row_axes)

    @property
    def row_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in self.row_axes)

    @property
    def content_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in self.content_axes)

    @property
    def rows(self) -> int:
        return math.prod(self.row_shape)

    @property
    def length(self) -> int:
        return math.prod(self.content_shape)

    @property
    def inner(self) -> tuple[int, ...]:
        """Lengths of the vectors that a row consists of: along its last axis, its last two, …, not all."""
        lengths = itertools.accumulate(reversed(self.content_shape[1:]), operator.mul)
        return tuple(dict.fromkeys(n for n in lengths if 1 < n < self.length))

    def pinned(self, expand: Sequence[int], content: bool) -> Integers:
        """The row [rows] or element [length] that each one repeats, where its expanded coordinates are 0."""
        axes = self.content_axes if content else self.row_axes
        numbers = np.arange(self.length if content else self.rows)
        numbers = numbers.reshape(self.content_shape if content else self.row_shape)
        for position, axis in enumerate(axes):
            if axis in expand and numbers.shape[position] > 1:
                numbers = np.repeat(numbers.take([0], axis=position), numbers.shape[position], axis=position)
        return numbers.reshape(-1)

    def arrange(self, rows: Floats) -> Floats:
        """The tensor of this shape, contiguous, from its rows [rows, length]."""
        order = (*self.row_axes, *self.content_axes)
        spread = rows.reshape([self.shape[axis] for axis in order])
        return spread.transpose(np.argsort(order)).copy(order="C")

    def split(self, tensor: Floats) -> Floats:
        """The rows [rows, length] of a tensor of this shape."""
        return tensor.transpose((*self.row_axes, *self.content_axes)).reshape(self.rows, self.length)


def grid(contract: Contract, case: Case, name: str) -> Grid:
    """How a tensor of the case divides into rows."""
    contract = contract.at(case.sizes)
    written = contract.tensors[name].shape
    return Grid(shape_of(contract, case, name), contract.row_axes(written, case.sizes, case.scalars))


def logical_values(contract: Contract, case: Case, name: str) -> Floats:
    """The exact values of a tensor, float64 of its logical shape; constant along expanded axes.

    Raises HarnessError if an integer tensor would hold what is out of its range.
    """
    contract = contract.at(case.sizes)
    recipe = case.tensors[name]
    if recipe is None:
        raise HarnessError(f"tensor {name!r} is absent from this case")
    kind, cells = number_kind(contract, case, name), grid(contract, case, name)
    expand = recipe.layout.expand
    recipes, chosen, starts = recipe.distinct(cells.pinned(expand, content=False))
    rows = _filled(contract, recipes, chosen, starts, cells.length, kind)
    if isinstance(kind, Range) and not (held := kind.holds(rows)).all():
        raise HarnessError(f"tensor {name!r} would hold {rows[~held][0]:g}; it is of {kind}")
    if expand:
        rows = rows[:, cells.pinned(expand, content=True)]
    return cells.arrange(rows)


def _filled(
    contract: Contract,
    recipes: Sequence[Row],
    chosen: Integers,
    starts: Integers,
    n: int,
    kind: Format | Range,
) -> Floats:
    """Rows of n elements, [rows, n]: the part from its start on of the recipe that each one is."""
    lengths = np.full(len(recipes), n)
    np.maximum.at(lengths, chosen, starts + n)
    filled = [
        raw_row(contract, row.family, row.seed, int(length), kind, dict(row.params), row.values)
        for row, length in zip(recipes, lengths, strict=True)
    ]
    offsets = np.cumsum(lengths) - lengths
    values = round_rows(np.concatenate([*filled, np.empty(0)]), kind)
    rows: Floats = values[(offsets[chosen] + starts)[:, None] + np.arange(n)]
    for at, row in enumerate(recipes):
        for index, text in row.plant:
            if -n <= index < n:
                rows[chosen == at, index] = from_hex(text)
    return rows


def used_rows(contract: Contract, case: Case, name: str) -> Integers:
    """The number of the row of a tensor that each situation uses, int64 [situations].

    Situations share a row where the tensor lacks one of the row axes, or expands it with stride 0.
    """
    contract = contract.at(case.sizes)
    recipe = case.tensors[name]
    cells = grid(contract, case, name)
    rows = contract.row_labels(case.sizes, case.scalars)
    axes = contract.axes(contract.tensors[name].shape, case.sizes, case.scalars)
    own = [axes[position].label for position in cells.row_axes]
    numbers = np.arange(cells.rows) if recipe is None else cells.pinned(recipe.layout.expand, content=False)
    spread = numbers.reshape([axis.length if axis.label in own else 1 for axis in rows])
    return np.broadcast_to(spread, [axis.length for axis in rows]).reshape(-1).copy()


def special_row(contract: Contract, case: Case, situation: int) -> SpecialRow | None:
    """The special row that a situation shows, whole and unchanged, in the contract's first tensor, if any.

    Its answer then holds: the row is long enough for the pattern, which is exact in the format, and nothing
    is planted in it, clipped or expanded.
    """
    contract = contract.at(case.sizes)
    name = next(iter(contract.tensors))
    recipe = case.tensors[name]
    cells = grid(contract, case, name)
    if (
        recipe is None
        or is_integer(recipe.format)
        or cells.rows != contract.situations(case.sizes, case.scalars)
    ):
        return None
    row = recipe.row(int(used_rows(contract, case, name)[situation]))
    found = next((row_ for row_ in contract.special if SPECIAL + row_.name == row.family), None)
    if found is None or row.plant or row.start is not None or not special_applies(found, cells.length):
        return None
    if any(cells.shape[axis] > 1 for axis in cells.content_axes if axis in recipe.layout.expand):
        return None
    fmt = format_of(recipe.format)
    written = raw_row(contract, row.family, row.seed, cells.length, fmt, {})
    held = round_rows(raw_row(contract, row.family, row.seed, cells.length, fmt, dict(row.params)), fmt)
    return found if np.array_equal(written, held, equal_nan=True) else None


def situation_of(contract: Contract, case: Case, output: Output) -> torch.Tensor:
    """The number of the situation that each element of an output belongs to, int64 of the output's shape (a view).

    -1 where a row axis longer than 1 is missing from the output, so that no single situation decides it.
    """
    import torch

    contract = contract.at(case.sizes)
    axes = contract.axes(output.shape, case.sizes, case.scalars)
    shape = [axis.length for axis in axes]
    numbers = torch.zeros([1] * len(axes), dtype=torch.int64)
    labels = [axis.label for axis in axes]
    pitch = 1
    for axis in reversed(contract.row_labels(case.sizes, case.scalars)):
        if axis.label in labels:
            along = [1] * len(axes)
            along[labels.index(axis.label)] = axis.length
            numbers = numbers + pitch * torch.arange(axis.length).reshape(along)
        elif axis.length != 1:
            return torch.full((), -1).expand(shape)
        pitch *= axis.length
    return numbers.expand(shape)
