"""Typical mistakes, each as what a kernel that makes it computes: the same definition of other arguments.

A kernel that drops the last element of a row answers as if that were 0; one that ignores strides, as if the
storage had been read in order. None of this knows a contract by name: suspects follow from its declaration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness import formats, oracle
from harness.case import Case, materialise
from harness.contracts import Choice, Contract, Dim
from harness.shapes import AxisLabel, names, resized
from harness.trial import Subject

Exact = Mapping[str, "torch.Tensor | None"]
Changed = tuple[Case, dict[str, "torch.Tensor | None"]]
Change = Callable[[Contract, Case, Exact], "Changed | None"]

BLOCKS = (1024, 512, 256, 128, 64, 32, 16, 8, 4)
"""Lengths of blocks by which kernels divide a row."""

NARROW = ("bfloat16", "float16")


@dataclass(frozen=True)
class Suspect:
    """A mistake: words, after "as if"; change: the launch whose right answer a kernel gives that makes it, None where
    it changes nothing; undone: what was returned, with the mistake undone; always: a kernel that makes it makes it
    whatever the sizes, scalars and strides are."""

    words: str
    change: Change
    undone: Callable[[torch.Tensor], torch.Tensor] = lambda got: got
    always: bool = False


def suspects(subject: Subject) -> Iterator[Suspect]:
    """All that may be suspected of a kernel of this contract, the plainest first."""
    contract = subject.contract
    floating = [
        name
        for name, spec in contract.tensors.items()
        if not spec.many
        and (spec.dtype is None or not formats.is_integer(spec.dtype))
        and name not in contract.given
    ]
    yield from _other_scalars(contract)
    for name, spec in contract.tensors.items():
        if spec.optional:
            yield Suspect(f"{name} were left out", _with(name, lambda _: None))
    yield from _exchanged(contract, floating)
    returned = " and ".join(output.name for output in contract.outputs)
    yield Suspect(f"{returned} were transposed", _same, _transposed)
    yield Suspect(f"{returned} were negated", _same, torch.neg)
    for name in floating:
        yield Suspect(f"{name} were contiguous, whatever its strides", _in_storage(name, _contiguous))
        yield Suspect(f"the last stride of {name} were 1", _in_storage(name, _dense_last))
        for other in floating:
            if other != name:
                yield Suspect(f"{name} had the strides of {other}", _in_storage(name, _strides_of(other)))
    for name in floating:
        yield from _special_values(name)
    for name in floating:
        for word in _words_within_rows(contract, name):
            yield from _shortened(contract, name, word)
            yield from _padded(contract, name, word)
    for name in floating:
        for narrow in NARROW:
            yield Suspect(
                f"{name} were rounded to {narrow} first", _with(name, _rounded_to(narrow)), always=True
            )


def _other_scalars(contract: Contract) -> Iterator[Suspect]:
    """Each scalar another one of its values, the last axis, or 0 or 1."""
    for name, spec in contract.scalars.items():
        if isinstance(spec, Dim):
            yield Suspect(f"{name} were the last axis", _with_scalar(name, _always(-1)))
            yield Suspect(f"{name} were the first axis", _with_scalar(name, _always(0)))
            yield from _one_beside(name)
        elif isinstance(spec, Choice):
            numbers = [
                value
                for value in spec.values
                if isinstance(value, int | float) and not isinstance(value, bool)
            ]
            plain = (
                [float(value) if isinstance(numbers[0], float) else value for value in (0, 1)]
                if numbers
                else []
            )
            for value in dict.fromkeys([*plain, *spec.values]):
                yield Suspect(f"{name} were {value!r}", _with_scalar(name, _always(value)))
            if any(isinstance(value, int) for value in numbers):
                yield from _one_beside(name)


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def _one_beside(name: str) -> Iterator[Suspect]:
    yield Suspect(f"{name} were one more", _with_scalar(name, lambda value: _moved(value, 1)))
    yield Suspect(f"{name} were one less", _with_scalar(name, lambda value: _moved(value, -1)))


def _moved(value: Any, by: int) -> Any:
    return value + by if isinstance(value, int) and not isinstance(value, bool) else value


def _exchanged(contract: Contract, names_: list[str]) -> Iterator[Suspect]:
    """Tensors of one written shape for each other, and matrices for their transposes."""
    for i, first in enumerate(names_):
        for second in names_[i + 1 :]:
            if contract.tensors[first].shape == contract.tensors[second].shape:
                yield Suspect(f"{first} and {second} were exchanged", _exchange(first, second))
    for name in names_:
        yield Suspect(f"{name} were transposed", _with(name, _transposed))


def _exchange(first: str, second: str) -> Change:
    def change(contract: Contract, case: Case, exact: Exact) -> Changed | None:
        a, b = exact.get(first), exact.get(second)
        if a is None or b is None or a.shape != b.shape:
            return None
        return case, {**exact, first: b, second: a}

    return change


def _same(contract: Contract, case: Case, exact: Exact) -> Changed:
    return case, dict(exact)


def _transposed(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(-1, -2) if x.ndim > 1 and x.shape[-1] == x.shape[-2] else x


def _special_values(name: str) -> Iterator[Suspect]:
    for fill in (0.0, -math.inf, math.inf):
        yield Suspect(f"NaN in {name} were {fill:g}", _with(name, _where(torch.isnan, fill)), always=True)
    yield Suspect(f"infinities in {name} were 0", _with(name, _where(torch.isinf, 0.0)), always=True)
    yield Suspect(f"infinities in {name} were NaN", _with(name, _where(torch.isinf, math.nan)), always=True)
    yield Suspect(f"{name} were never negative", _with(name, torch.abs), always=True)


def _where(
    mask: Callable[[torch.Tensor], torch.Tensor], fill: float
) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: torch.where(mask(x), torch.tensor(fill, dtype=torch.float64), x)


def _rounded_to(narrow: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: formats.round_to(x, formats.format_of(narrow))


def _words_within_rows(contract: Contract, name: str) -> list[str]:
    """The sizes of a tensor along which it has more than one element of a row, if they are plain."""
    written = contract.tensors[name].shape
    rows = contract.rows if isinstance(contract.rows, str) else ""
    return [
        word
        for word in dict.fromkeys(names(written))
        if word not in names(rows) or rows.startswith("all but")
    ]


def _axis(contract: Contract, case: Case, name: str, word: str) -> int | None:
    """The last axis of a tensor that has this size and lies within rows."""
    axes = contract.axes(contract.tensors[name].shape, case.sizes, case.scalars)
    rows = {axis.label for axis in contract.row_labels(case.sizes, case.scalars)}
    found = [at for at, axis in enumerate(axes) if axis.label[0] == word and axis.label not in rows]
    return found[-1] if found else None


def _named(contract: Contract, word: str) -> str:
    """An axis of a row in words: of a pack, the one that a scalar names, or the last."""
    if not word.startswith("*"):
        return word
    return next((name for name, spec in contract.scalars.items() if isinstance(spec, Dim)), "the last axis")


def _shortened(contract: Contract, name: str, word: str) -> Iterator[Suspect]:
    """Elements that are not there: the last, the first, those after the last whole block, or after the first block."""
    where = f"along {_named(contract, word)}"
    for fill in (0.0, -math.inf, math.inf):
        is_ = f"were {fill:g}"
        yield Suspect(
            f"the last element of {name} {where} {is_}", _ended(name, word, lambda n: (n - 1, n), fill)
        )
        yield Suspect(
            f"the first element of {name} {where} {is_}", _ended(name, word, lambda n: (0, 1), fill)
        )
        for block in BLOCKS:
            yield Suspect(
                f"the elements of {name} {where} after its last {block} in whole {is_}",
                _ended(name, word, _after_whole(block), fill),
            )
            yield Suspect(
                f"the elements of {name} {where} after its first {block} {is_}",
                _ended(name, word, _after(block), fill),
            )


def _after_whole(block: int) -> Callable[[int], tuple[int, int]]:
    return lambda n: (n // block * block, n)


def _after(block: int) -> Callable[[int], tuple[int, int]]:
    return lambda n: (block, n)


def _ended(name: str, word: str, span: Callable[[int], tuple[int, int]], fill: float) -> Change:
    def change(contract: Contract, case: Case, exact: Exact) -> Changed | None:
        x, axis = exact.get(name), _axis(contract, case, name, word)
        if x is None or axis is None:
            return None
        start, stop = span(x.shape[axis])
        if not 0 <= start < stop <= x.shape[axis]:
            return None
        x = x.clone()
        x.narrow(axis, start, stop - start).fill_(fill)
        return case, {**exact, name: x}

    return change


def _padded(contract: Contract, name: str, word: str) -> Iterator[Suspect]:
    """Rows that are longer, filled up with 0 to whole blocks or a power of two."""
    where = f"{name} were filled up with 0 along {_named(contract, word)}"
    yield Suspect(
        f"{name} had one 0 more along {_named(contract, word)}", _longer(name, word, lambda n: n + 1)
    )
    yield Suspect(
        f"{where} to a power of two", _longer(name, word, lambda n: 1 << max(n - 1, 0).bit_length())
    )
    for block in reversed(BLOCKS):
        yield Suspect(
            f"{where} to whole blocks of {block}",
            _longer(name, word, _whole(block)),
        )


def _whole(block: int) -> Callable[[int], int]:
    return lambda n: -(-n // block) * block


def _longer(name: str, word: str, length: Callable[[int], int]) -> Change:
    def change(contract: Contract, case: Case, exact: Exact) -> Changed | None:
        x, axis = exact.get(name), _axis(contract, case, name, word)
        if x is None or axis is None or word not in case.sizes:
            return None
        label = contract.axes(contract.tensors[name].shape, case.sizes, case.scalars)[axis].label
        n = length(x.shape[axis])
        if n == x.shape[axis]:
            return None
        found = {
            other: None if values is None else _grown(contract, case, other, values, label, n)
            for other, values in exact.items()
        }
        return replace(case, sizes=resized(case.sizes, {label: n})), found

    return change


def _grown(
    contract: Contract, case: Case, name: str, values: torch.Tensor, label: AxisLabel, n: int
) -> torch.Tensor:
    """A tensor with zeros behind, along the axes of this label."""
    for at, axis in enumerate(contract.axes(contract.tensors[name].shape, case.sizes, case.scalars)):
        if axis.label == label:
            more = (*values.shape[:at], n - values.shape[at], *values.shape[at + 1 :])
            values = torch.cat([values, values.new_zeros(more)], at)
    return values


def _with(name: str, change_one: Callable[[torch.Tensor], torch.Tensor | None]) -> Change:
    """A tensor made another one of its shape, or left out."""

    def change(contract: Contract, case: Case, exact: Exact) -> Changed | None:
        x = exact.get(name)
        if x is None:
            return None
        other = change_one(x)
        if other is not None and torch.equal(other.nan_to_num(nan=-7.0), x.nan_to_num(nan=-7.0)):
            return None
        return case, {**exact, name: other}

    return change


def _with_scalar(name: str, other: Callable[[Any], Any]) -> Change:
    def change(contract: Contract, case: Case, exact: Exact) -> Changed | None:
        if name not in case.scalars:
            return None
        held, value = case.scalars[name], other(case.scalars[name])
        if type(value) is type(held) and value == held:
            return None
        return replace(case, scalars={**case.scalars, name: value}), dict(exact)

    return change


Views = Mapping[str, torch.Tensor]
Strides = Callable[[str, Views], "tuple[int, ...]"]


def _in_storage(name: str, strides: Strides) -> Change:
    """A tensor read with other strides than its own, from its first element."""

    def change(contract: Contract, case: Case, exact: Exact) -> Changed | None:
        if exact.get(name) is None:
            return None
        blocks = materialise(contract, case, device="cpu", guard_fill="nan").blocks
        view = blocks[name].view
        assumed = strides(name, {other: block.view for other, block in blocks.items()})
        if assumed == view.stride() or len(assumed) != view.ndim or view.numel() == 0:
            return None
        span = sum((n - 1) * stride for n, stride in zip(view.shape, assumed, strict=True))
        if view.storage_offset() + span >= view.untyped_storage().nbytes() // view.element_size():
            return None
        return case, {**exact, name: oracle.decoded(view.as_strided(view.shape, assumed))}

    return change


def _contiguous(name: str, views: Views) -> tuple[int, ...]:
    return torch.empty(views[name].shape, device="meta").stride()


def _dense_last(name: str, views: Views) -> tuple[int, ...]:
    return (*views[name].stride()[:-1], 1) if views[name].ndim else ()


def _strides_of(other: str) -> Strides:
    return lambda name, views: views[other].stride() if other in views else ()
