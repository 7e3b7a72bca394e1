"""Contracts: what a kernel promises, as one definition and the shape of its arguments.

A contract is the mathematics of an operation, written once over an abstract number type, plus what a
search needs to call an implementation of it: the shapes of its tensors, the values of its scalars, which
axes hold independent situations, the rows and families of values that expose its typical bugs, and the
names of the intermediate roundings that an author may claim.

Shapes are written in the language of :mod:`harness.shapes`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from harness import shapes
from harness.formats import format_of
from harness.shapes import Axis, AxisLabel, Sizes

__all__ = [
    "Axis",
    "AxisLabel",
    "Choice",
    "Contract",
    "Dim",
    "Dtype",
    "Output",
    "SizeOf",
    "Sizes",
    "SpecialRow",
    "Tensor",
    "ValueFamily",
    "Whole",
]


@dataclass(frozen=True)
class Whole:
    """Values of an integer tensor: low <= value < high, each a number, or the name of a size or scalar.

    planted: values (or names of scalars) that some elements take instead, such as an ignored label.
    """

    low: int | str
    high: int | str
    planted: tuple[int | str, ...] = ()


@dataclass(frozen=True)
class Tensor:
    """A tensor argument: its shape, and its dtype where that is not the dtype under test.

    whole: values of an integer tensor. families: value families it draws from, in place of the
    contract's. many: the name of a size: the argument is a list of that many tensors.
    """

    shape: str
    dtype: str | None = None
    optional: bool = False
    whole: Whole | None = None
    families: tuple[str | ValueFamily, ...] = ()
    many: str = ""


@dataclass(frozen=True)
class Dim:
    """A scalar argument that names one axis of tensor ``of``, in [-ndim, ndim)."""

    of: str


@dataclass(frozen=True)
class Choice:
    """A scalar argument with a finite set of values."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Dtype(Choice):
    """A scalar argument that is a torch dtype: one of these names, which cases hold in its place."""


@dataclass(frozen=True)
class SizeOf:
    """A scalar argument that is a named size, as the number of groups."""

    size: str


Scalar = Dim | Choice | SizeOf
Written = str | Callable[[Mapping[str, Any]], str]
"""Something written down, or a function of the scalars that writes it; a dtype also sees ``format``, the
name of the format under test."""
Relation = Callable[[Mapping[str, Any], "list[Any]"], "str | None"]
"""Of the arguments as they were and the returned tensors: what is wrong, or None."""


@dataclass(frozen=True)
class Output:
    """One result: its shape, its kind, and its dtype where that is not the dtype under test.

    kind: a *number* is judged by the rounding of some real within t; a *code* by the same sentence on the
    grid of its integer dtype, clamped to ``clamp``; an *exact* output (indices, flags, copied bits) must
    equal the definition's value; a *choice* is an index into scores that the definition returns along a
    last axis: any whose score may be the least. dtype: several are a choice of the function's, None standing
    for the dtype under test; it is judged by the one it returns. argument: the argument that holds the result after the
    call (in-place contracts). many: the name of a size: a list of that many tensors is returned.
    """

    shape: Written
    kind: Literal["number", "code", "exact", "choice"] = "number"
    dtype: Written | tuple[Written | None, ...] | None = None
    name: str = "out"
    argument: str = ""
    many: str = ""
    clamp: tuple[int, int] | None = None


@dataclass(frozen=True)
class SpecialRow:
    """A row of special values with its right answer.

    The row is ``lead`` followed by ``rest`` repeated to the row's length; values are written as
    ``float.fromhex`` or ``float`` reads them. ``answer`` is the value of every output element of the row.
    """

    name: str
    lead: tuple[str, ...]
    rest: tuple[str, ...]
    answer: str | None = None


class ValueFamily(Protocol):
    """What a contract may list beside the generic families: see :class:`harness.values.Family`."""

    @property
    def name(self) -> str: ...

    @property
    def tags(self) -> frozenset[str]: ...


@dataclass(frozen=True, eq=False)
class Contract:
    """A definition with everything needed to call, feed and judge an implementation. Call it to read it."""

    name: str
    definition: Callable[..., Any]
    args: dict[str, Tensor | Scalar]
    outputs: tuple[Output, ...]
    rows: Written
    nonempty: tuple[str, ...] = ()
    families: tuple[str | ValueFamily, ...] = ()
    special: tuple[SpecialRow, ...] = ()
    roundings: dict[str, str] = field(default_factory=dict)
    usual: tuple[str, ...] = ()
    online: bool = False
    given: tuple[str, ...] = ()
    relations: dict[str, Relation] = field(default_factory=dict)
    sizes: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    formats: tuple[str, ...] = ()
    lists: dict[str, int] = field(default_factory=dict)
    counts: tuple[str, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the definition on numbers of any reading."""
        return self.definition(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<contract {self.name}{inspect.signature(self.definition)}>"

    @functools.cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The tensor arguments, in signature order."""
        return {name: spec for name, spec in self.args.items() if isinstance(spec, Tensor)}

    @functools.cached_property
    def scalars(self) -> dict[str, Scalar]:
        """The scalar arguments, in signature order."""
        return {name: spec for name, spec in self.args.items() if not isinstance(spec, Tensor)}

    @property
    def mutated(self) -> frozenset[str]:
        """The tensor arguments that hold results after the call."""
        return frozenset(output.argument for output in self.outputs if output.argument)

    @property
    def size_names(self) -> tuple[str, ...]:
        """Names of sizes in order of appearance; packs carry their star, lengths of lists their @."""
        found: dict[str, None] = {}
        for tensor in self.tensors.values():
            found.update(dict.fromkeys(shapes.names(tensor.shape)))
            if tensor.many:
                found.setdefault(tensor.many)
        found.update(dict.fromkeys(self.counts))
        return tuple(found)

    @functools.cached_property
    def _many(self) -> list[str]:
        return [spec.many for spec in self.tensors.values()] + [output.many for output in self.outputs]

    def at(self, sizes: Sizes) -> Contract:
        """The contract with its lists of tensors written out, as ``shards[0]``, ``shards[1]``, …

        A contract without lists is itself.
        """
        counts = self._many
        if not any(counts):
            return self
        args: dict[str, Tensor | Scalar] = {}
        lists: dict[str, int] = {}
        for name, spec in self.args.items():
            if isinstance(spec, Tensor) and spec.many:
                lists[name] = _count(sizes, spec.many)
                for rank in range(lists[name]):
                    ranked = spec.shape.replace("@", f"@{rank}")
                    args[f"{name}[{rank}]"] = dataclasses.replace(spec, shape=ranked, many="")
            else:
                args[name] = spec
        outputs: list[Output] = []
        for output in self.outputs:
            if not output.many:
                outputs.append(output)
                continue
            for rank in range(_count(sizes, output.many)):
                argument = f"{output.argument}[{rank}]" if output.argument else ""
                shape = _ranked(output.shape, rank)
                changed = dataclasses.replace(output, shape=shape, many="", argument=argument)
                outputs.append(dataclasses.replace(changed, name=f"{output.name}[{rank}]"))
        named = tuple(dict.fromkeys(filter(None, counts)))
        return dataclasses.replace(self, args=args, outputs=tuple(outputs), lists=lists, counts=named)

    def grouped(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Named arguments with the tensors of each list put together again."""
        found: dict[str, Any] = {}
        for name, value in arguments.items():
            base = name.partition("[")[0]
            if base in self.lists:
                found.setdefault(base, []).append(value)
            else:
                found[name] = value
        for name in self.lists:
            found.setdefault(name, [])
        return found

    def bind(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Split named arguments into the positional and keyword parts of a call."""
        named = self.grouped(arguments)
        positional, keywords = [], {}
        for name, parameter in inspect.signature(self.definition).parameters.items():
            if name == "given":
                continue
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                keywords[name] = named[name]
            else:
                positional.append(named[name])
        return positional, keywords

    def scalar(self, name: str, sizes: Sizes, scalars: Mapping[str, Any]) -> Any:
        """The value of a scalar argument: of one that is a size from the sizes, of a dtype by its name."""
        spec = self.args[name]
        if isinstance(spec, Dtype):
            return format_of(scalars[name]).dtype
        return sizes[spec.size] if isinstance(spec, SizeOf) else scalars[name]

    def axes(self, shape: Written, sizes: Sizes, scalars: Mapping[str, Any]) -> tuple[Axis, ...]:
        """Resolve a written shape into its axes."""
        return shapes.resolve(written(shape, scalars), sizes, scalars)

    def shape(self, shape: Written, sizes: Sizes, scalars: Mapping[str, Any]) -> tuple[int, ...]:
        """The lengths of a written shape."""
        return tuple(axis.length for axis in self.axes(shape, sizes, scalars))

    def row_labels(self, sizes: Sizes, scalars: Mapping[str, Any]) -> tuple[Axis, ...]:
        """The axes along which results are independent, in the order in which situations are numbered."""
        rows = written(self.rows, scalars)
        if rows.startswith("all but "):
            return self._all_but(rows.removeprefix("all but "), sizes, scalars)
        return self.axes(rows, sizes, scalars)

    def _all_but(self, what: str, sizes: Sizes, scalars: Mapping[str, Any]) -> tuple[Axis, ...]:
        first = next(iter(self.tensors.values()))
        if what == "last":
            return self.axes(first.shape, sizes, scalars)[:-1]
        spec = self.args[what]
        assert isinstance(spec, Dim)
        axes = list(self.axes(self.tensors[spec.of].shape, sizes, scalars))
        del axes[scalars[what] % len(axes)]
        return tuple(axes)

    def situations(self, sizes: Sizes, scalars: Mapping[str, Any]) -> int:
        """How many independent situations one launch with these sizes holds."""
        count = 1
        for axis in self.row_labels(sizes, scalars):
            count *= axis.length
        return count

    def row_axes(self, shape: Written, sizes: Sizes, scalars: Mapping[str, Any]) -> tuple[int, ...]:
        """Positions, in a tensor of this written shape, of the row axes, in situation order."""
        labels = [axis.label for axis in self.axes(shape, sizes, scalars)]
        rows = [axis.label for axis in self.row_labels(sizes, scalars)]
        return tuple(labels.index(label) for label in rows if label in labels)


def written(what: Written, scalars: Mapping[str, Any]) -> str:
    """What is written, or what the scalars make of it."""
    return what if isinstance(what, str) else what(scalars)


def _ranked(shape: Written, rank: int) -> Written:
    if isinstance(shape, str):
        return shape.replace("@", f"@{rank}")
    return lambda scalars: shape({**scalars, "rank": rank}).replace("@", f"@{rank}")


def _count(sizes: Sizes, name: str) -> int:
    count = sizes[name]
    assert isinstance(count, int)
    return count
