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
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, get_args, get_type_hints

from harness import kinds, shapes
from harness.errors import HarnessError, nearest
from harness.formats import dtype_name, format_of
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
    "contract",
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


_P = ParamSpec("_P")
_R = TypeVar("_R")

_WRITE = "write @harness.contract(args={'x': '*shape'}, returns='*shape')"


def _described(build: Callable[_P, _R]) -> Callable[_P, _R]:
    """Raise HarnessError for keywords that the function does not have, that it lacks, and for no parentheses."""
    parameters = inspect.signature(build).parameters

    @functools.wraps(build)
    def described(*positional: _P.args, **keywords: _P.kwargs) -> _R:
        if positional:
            name = getattr(positional[0], "__name__", repr(positional[0]))
            raise HarnessError(f"harness.contract takes keywords only; {_WRITE} above {name}")
        for key in keywords:
            if key not in parameters:
                raise HarnessError(
                    f"harness.contract has no argument {key!r}; {nearest(key, parameters)}known: {', '.join(parameters)}"
                )
        for key, parameter in parameters.items():
            if parameter.default is parameter.empty and key not in keywords:
                raise HarnessError(f"harness.contract is not given {key}; {_WRITE}")
        return build(*positional, **keywords)

    return described


@_described
def contract(
    *,
    args: Mapping[str, Any],
    returns: str | Output | tuple[Output, ...],
    rows: Written = "",
    nonempty: tuple[str, ...] = (),
    families: tuple[str | ValueFamily, ...] = (),
    special: tuple[SpecialRow, ...] = (),
    roundings: Mapping[str, str] | None = None,
    usual: tuple[str, ...] = (),
    online: bool = False,
    given: tuple[str, ...] = (),
    relations: Mapping[str, Relation] | None = None,
    sizes: Mapping[str, tuple[Any, ...]] | None = None,
    formats: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Contract]:
    """Turn a definition over abstract numbers into a contract.

    args: for every parameter, a shape (``"*shape"``), a :class:`Tensor`, a :class:`Dim` or a tuple of
    allowed values. returns: the shape of the result, an :class:`Output` or several. rows: axes along which
    results are independent: ``"all but dim"``, ``"all but last"``, a shape of named axes, or "" for none; or a
    function of the scalars that writes it.
    nonempty: sizes and Dim scalars whose axis is never empty. families: names of generic value families to
    stress, and the contract's own. special: rows of special values with their answers. roundings: places
    in the definition (see :func:`harness.numbers.rounded`) whose rounding an author may claim; usual: those
    allowed without a claim. online: an online softmax is a usual form, so that the default depth of sums
    doubles. given: outputs, as *returned*, that the definition receives in a dict ``given`` to compute later
    ones from. relations: exact predicates on what was returned, by name. sizes: values that named sizes are
    drawn from, where any length will not do (the number of ranks, a head dimension). formats: those that
    the contract is judged in, integer dtypes among them, where they are not the usual floating-point ones.

    Raises HarnessError when a parameter is not described or a description has no parameter.
    """

    _check_mappings(
        {"args": args, "roundings": roundings, "relations": relations, "sizes": sizes},
        {
            **{"nonempty": nonempty, "families": families, "special": special},
            **{"usual": usual, "given": given, "formats": formats},
        },
    )

    def build(definition: Callable[..., Any]) -> Contract:
        if not callable(definition):
            raise HarnessError(f"a contract decorates its definition, a function, not {definition!r}")
        parameters = [name for name in inspect.signature(definition).parameters if name != "given"]
        name = getattr(definition, "__name__", "contract")
        _same_names(name, parameters, list(args))
        described = {key: _argument(key, args[key]) for key in parameters}
        if not any(isinstance(spec, Tensor) for spec in described.values()):
            raise HarnessError(
                f"contract {name}: no argument is a tensor; describe one by its shape, as x='*shape'"
            )
        if isinstance(returns, str):
            outputs: tuple[Output, ...] = (Output(returns),)
        elif isinstance(returns, Output):
            outputs = (returns,)
        elif all(isinstance(item, Output) for item in _items(returns)) and _items(returns):
            outputs = _items(returns)
        else:
            raise HarnessError(
                f"contract {name}: returns={returns!r}; give a shape, or an Output(shape, name=…) for each result"
            )
        made = Contract(
            name=name,
            definition=definition,
            args=described,
            outputs=outputs,
            rows=rows,
            nonempty=tuple(nonempty),
            families=tuple(families),
            special=tuple(special),
            roundings=dict(roundings or {}),
            usual=tuple(usual),
            online=online,
            given=tuple(given),
            relations=dict(relations or {}),
            sizes=dict(sizes or {}),
            formats=tuple(formats),
        )
        _check_kinds(made)
        _check_shapes(made)
        _check_names(made)
        _check_sizes(made)
        return made

    return build


def _argument(name: str, given: Any) -> Tensor | Scalar:
    if isinstance(given, Tensor | Dim | Choice | SizeOf):
        return given
    if isinstance(given, str):
        return Tensor(given)
    if isinstance(given, tuple) and given:
        return Choice(given)
    raise HarnessError(
        f"argument {name!r} is described by {given!r}; give a shape such as '*shape', a Tensor, a Dim or a tuple of values"
    )


def _same_names(contract_name: str, parameters: list[str], described: list[str]) -> None:
    for name in parameters:
        if name not in described:
            raise HarnessError(f"contract {contract_name}: parameter {name!r} is not described in args")
    for name in described:
        if name not in parameters:
            raise HarnessError(
                f"contract {contract_name}: args describes {name!r}, which is no parameter; {nearest(name, parameters)}"
                f"parameters: {', '.join(parameters)}"
            )


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


def _check_mappings(mappings: Mapping[str, Any], tuples: Mapping[str, Any]) -> None:
    for name, given in mappings.items():
        if given is not None and not isinstance(given, Mapping):
            raise HarnessError(f"contract {name}={given!r}: give a dict, by name")
    for name, given in tuples.items():
        if not isinstance(given, tuple | list):
            raise HarnessError(f"contract {name}={given!r}: give a tuple, such as ({given!r},)")


def _items(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, tuple | list) else ()


def _check_names(made: Contract) -> None:
    """What is named must be there: axes, tensors, sizes, dtypes, kinds, roundings."""
    for rounding in made.usual:
        if rounding not in made.roundings:
            raise HarnessError(f"contract {made.name}: usual rounding {rounding!r} is not among roundings")
    sizes = {name.strip("*@") for name in made.size_names}
    axes = sizes | {name for name, spec in made.scalars.items() if isinstance(spec, Dim)}
    for name in made.nonempty:
        if name.strip("*@") not in axes:
            raise HarnessError(
                f"contract {made.name}: nonempty names {name!r}; {nearest(name, axes)}sizes: {', '.join(sorted(axes))}"
            )
    for name, spec in made.scalars.items():
        if isinstance(spec, Dim) and spec.of not in made.tensors:
            raise HarnessError(
                f"contract {made.name}: {name} is Dim({spec.of!r}), which is no tensor; "
                f"{nearest(spec.of, made.tensors)}tensors: {', '.join(made.tensors)}"
            )
        if isinstance(spec, SizeOf) and spec.size not in sizes:
            raise HarnessError(
                f"contract {made.name}: {name} is SizeOf({spec.size!r}), which is no size; "
                f"{nearest(spec.size, sizes)}sizes: {', '.join(sorted(sizes))}"
            )
    kinds = get_args(get_type_hints(Output)["kind"])
    for output in made.outputs:
        if output.kind not in kinds:
            raise HarnessError(
                f"contract {made.name}: kind={output.kind!r} of output {output.name!r}; "
                f"{nearest(output.kind, kinds)}kinds: {', '.join(kinds)}"
            )
    named: list[Any] = [*made.formats, *(spec.dtype for spec in made.tensors.values())]
    for spec in made.scalars.values():
        named += spec.values if isinstance(spec, Dtype) else ()
    for output in made.outputs:
        named += output.dtype if isinstance(output.dtype, tuple) else (output.dtype,)
    for dtype in named:
        if isinstance(dtype, str):
            dtype_name(dtype)


def _check_sizes(made: Contract) -> None:
    """What sizes are drawn from, and what bounds integers, must be there too."""
    sizes = [name.lstrip("*") for name in made.size_names]
    lengths = kinds.Kind(kinds.all_of(kinds.is_length, least=1), "a tuple of lengths, such as (64, 128)")
    for name in made.sizes:
        if name not in sizes:
            raise HarnessError(
                f"contract {made.name}: sizes names {name!r}; {nearest(name, sizes)}sizes: {', '.join(sorted(sizes))}"
            )
        kinds.check(f"contract {made.name}: sizes ", {name: lengths}, made.sizes)
    known = {*made.size_names, *made.scalars}
    for argument, tensor in made.tensors.items():
        whole = tensor.whole
        for key, bound in {"low": whole.low, "high": whole.high}.items() if whole else ():
            if isinstance(bound, str) and bound not in known:
                raise HarnessError(
                    f"contract {made.name}: Whole {key}={bound!r} of argument {argument!r} is no size or scalar; "
                    f"{nearest(bound, known)}known: {', '.join(sorted(known))}"
                )


_SHAPE = kinds.Kind(kinds.is_text, "a shape, such as '*batch N'")
_FAMILIES = kinds.Kind(
    kinds.all_of(lambda item: isinstance(item, str) or hasattr(item, "tags")),
    "names of value families, or Family objects, in a tuple",
)
_VALUES = kinds.Kind(kinds.all_of(lambda item: True, least=1), "a tuple of values")
_FIELDS: dict[type, dict[str, kinds.Kind]] = {
    Tensor: {
        "shape": _SHAPE,
        "dtype": kinds.Kind(kinds.is_optional_text, "the name of a format, or None"),
        "optional": kinds.TRUTH,
        "whole": kinds.Kind(lambda item: item is None or isinstance(item, Whole), "Whole(low, high)"),
        "families": _FAMILIES,
        "many": kinds.SIZE,
    },
    Whole: {
        "low": kinds.BOUND,
        "high": kinds.BOUND,
        "planted": kinds.Kind(
            kinds.all_of(kinds.is_bound), "a tuple of whole numbers, or of names of scalars"
        ),
    },
    Dim: {"of": kinds.TENSOR},
    SizeOf: {"size": kinds.SIZE},
    Choice: {"values": _VALUES},
    Dtype: {
        "values": kinds.Kind(kinds.all_of(kinds.is_text, least=1), "names of formats, such as ('float32',)")
    },
    Output: {
        "shape": kinds.Kind(kinds.is_written, "a shape, such as '*batch N', or a function of the scalars"),
        "dtype": kinds.Kind(
            lambda item: item is None or kinds.is_written(item) or isinstance(item, tuple | list),
            "the name of a format, a function of the scalars that writes it, or several",
        ),
        "name": kinds.NAME,
        "argument": kinds.TENSOR,
        "many": kinds.SIZE,
        "clamp": kinds.Kind(
            lambda item: item is None or (kinds.all_of(kinds.is_bound, least=2)(item) and len(item) == 2),
            "(lowest, highest)",
        ),
    },
    SpecialRow: {
        "name": kinds.NAME,
        "lead": kinds.NUMBERS,
        "rest": kinds.NUMBERS,
        "answer": kinds.NUMBER,
    },
    Contract: {
        "rows": kinds.Kind(
            kinds.is_written,
            "the row axes as a shape, such as '*batch', or a function of the scalars that writes it",
        ),
        "online": kinds.TRUTH,
        "nonempty": kinds.NAMES,
        "usual": kinds.NAMES,
        "given": kinds.NAMES,
        "formats": kinds.NAMES,
        "families": _FAMILIES,
        "special": kinds.Kind(
            kinds.all_of(lambda item: isinstance(item, SpecialRow)),
            "a SpecialRow(name, lead, rest, answer) for each",
        ),
        "roundings": kinds.Kind(kinds.each_of(kinds.is_text), "what each place is, in words"),
        "relations": kinds.Kind(kinds.each_of(callable), "a function for each name"),
    },
}
"""Of what kind the fields of a description are."""


def _check_kinds(made: Contract) -> None:
    """Each field is of its kind, and no two special rows have one name."""
    where = f"contract {made.name}"
    kinds.check(f"{where}: ", _FIELDS[Contract], vars(made))
    described: list[tuple[str, Any]] = [(f", argument {name!r}", spec) for name, spec in made.args.items()]
    described += [(f", argument {name!r}", spec.whole) for name, spec in made.tensors.items() if spec.whole]
    described += [("", item) for item in (*made.outputs, *made.special)]
    for of, item in described:
        kind = next(base for base in type(item).__mro__ if base in _FIELDS)
        kinds.check(f"{where}{of}: {kind.__name__} ", _FIELDS[kind], vars(item))
    names = [row.name for row in made.special]
    for name in names:
        if names.count(name) > 1:
            raise HarnessError(f"{where}: two special rows are named {name!r}; give each a name of its own")


def _check_shapes(made: Contract) -> None:
    for name, tensor in made.tensors.items():
        shapes.check(tensor.shape, f"contract {made.name}, argument {name!r}")
    for output in made.outputs:
        if isinstance(output.shape, str):
            shapes.check(output.shape, f"contract {made.name}, output {output.name!r}")
    if isinstance(made.rows, str) and not made.rows.startswith("all but "):
        shapes.check(made.rows, f"contract {made.name}, rows")
    known = set(made.size_names)
    for output in made.outputs:
        if output.argument and output.argument not in made.tensors:
            raise HarnessError(
                f"contract {made.name}: output argument {output.argument!r} is no tensor argument"
            )
        if not isinstance(output.shape, str):
            continue
        for name in shapes.names(output.shape):
            if name not in known:
                raise HarnessError(
                    f"contract {made.name}: output size {name!r} appears in no tensor argument"
                )
        for removed in shapes.removed_scalars(output.shape):
            if not isinstance(made.args.get(removed), Dim):
                raise HarnessError(
                    f"contract {made.name}: {output.shape!r} removes {removed!r}, which is no Dim argument"
                )
    for name in made.given:
        if name not in {output.name for output in made.outputs}:
            raise HarnessError(f"contract {made.name}: given={name!r} is no output")
    if not isinstance(made.rows, str):
        return
    if made.rows.startswith("all but "):
        what = made.rows.removeprefix("all but ")
        if what != "last" and not isinstance(made.args.get(what), Dim):
            raise HarnessError(f"contract {made.name}: rows={made.rows!r}, but {what!r} is no Dim argument")
    elif made.rows and set(shapes.names(made.rows)) - known:
        raise HarnessError(f"contract {made.name}: rows={made.rows!r} names sizes of no tensor argument")
