"""A contract that is well formed: its fields of their kinds, and what they name there."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from harness import kinds, shapes
from harness.contracts import Choice, Contract, Dim, Dtype, Output, SizeOf, SpecialRow, Tensor, Whole
from harness.errors import HarnessError, nearest
from harness.formats import dtype_name


def check(made: Contract) -> None:
    """Raise HarnessError, naming the field, its value and what to write, for the first that cannot be."""
    _check_kinds(made)
    _check_shapes(made)
    _check_names(made)
    _check_sizes(made)


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
