"""Typical mistakes, each as what a kernel that makes it computes: the same definition of other arguments.

A kernel that drops the last element of a row answers as if that were 0; one that ignores strides, as if the
storage had been read in order. None of this knows a contract by name: suspects follow from its declaration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from harness import formats
from harness.contracts import Choice, Contract, Dim
from harness.search.changes import (
    Change,
    contiguous,
    dense_last,
    strides_of,
    unchanged,
    with_exchanged,
    with_fill,
    with_scalar,
    with_strides,
    with_tensor,
    with_zeros_behind,
)
from harness.shapes import names
from harness.trial import Subject

BLOCKS = (1024, 512, 256, 128, 64, 32, 16, 8, 4)
"""Lengths of blocks by which kernels divide a row."""

NARROW = ("bfloat16", "float16")


@dataclass(frozen=True)
class Suspect:
    """A mistake.

    words: what the answer looks like, after "as if"; change: of the launch (:mod:`harness.search.changes`); undone: what
    was returned, with the mistake undone; always: a kernel that makes it makes it whatever sizes, scalars and strides are.
    """

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
            yield Suspect(f"{name} were left out", with_tensor(name, lambda _: None))
    yield from _exchanged(contract, floating)
    returned = " and ".join(output.name for output in contract.outputs)
    yield Suspect(f"{returned} were transposed", unchanged, _transposed)
    yield Suspect(f"{returned} were negated", unchanged, torch.neg)
    for name in floating:
        yield Suspect(f"{name} were contiguous, whatever its strides", with_strides(name, contiguous))
        yield Suspect(f"the last stride of {name} were 1", with_strides(name, dense_last))
        for other in floating:
            if other != name:
                yield Suspect(f"{name} had the strides of {other}", with_strides(name, strides_of(other)))
    for name in floating:
        yield from _special_values(name)
    for name in floating:
        for word in _words_within_rows(contract, name):
            yield from _shortened(contract, name, word)
            yield from _padded(contract, name, word)
    for name in floating:
        for narrow in NARROW:
            yield Suspect(
                f"{name} were rounded to {narrow} first", with_tensor(name, _rounded_to(narrow)), always=True
            )


def _other_scalars(contract: Contract) -> Iterator[Suspect]:
    """Each scalar another one of its values, the last axis, or 0 or 1."""
    for name, spec in contract.scalars.items():
        if isinstance(spec, Dim):
            yield Suspect(f"{name} were the last axis", with_scalar(name, _always(-1)))
            yield Suspect(f"{name} were the first axis", with_scalar(name, _always(0)))
            yield from _one_beside(name)
        elif isinstance(spec, Choice):
            kinds = {type(value) for value in spec.values}
            plain = (0.0, 1.0) if float in kinds else (0, 1) if int in kinds else ()
            for value in dict.fromkeys([*plain, *spec.values]):
                yield Suspect(f"{name} were {value!r}", with_scalar(name, _always(value)))
            if int in kinds:
                yield from _one_beside(name)


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def _one_beside(name: str) -> Iterator[Suspect]:
    yield Suspect(f"{name} were one more", with_scalar(name, lambda value: _moved(value, 1)))
    yield Suspect(f"{name} were one less", with_scalar(name, lambda value: _moved(value, -1)))


def _moved(value: Any, by: int) -> Any:
    return value + by if isinstance(value, int) and not isinstance(value, bool) else value


def _exchanged(contract: Contract, tensors: list[str]) -> Iterator[Suspect]:
    """Tensors of one written shape for each other, and matrices for their transposes."""
    for i, first in enumerate(tensors):
        for second in tensors[i + 1 :]:
            if contract.tensors[first].shape == contract.tensors[second].shape:
                yield Suspect(f"{first} and {second} were exchanged", with_exchanged(first, second))
    for name in tensors:
        yield Suspect(f"{name} were transposed", with_tensor(name, _transposed))


def _transposed(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(-1, -2) if x.ndim > 1 and x.shape[-1] == x.shape[-2] else x


def _special_values(name: str) -> Iterator[Suspect]:
    for fill in (0.0, -math.inf, math.inf):
        yield Suspect(
            f"NaN in {name} were {fill:g}", with_tensor(name, _where(torch.isnan, fill)), always=True
        )
    yield Suspect(f"infinities in {name} were 0", with_tensor(name, _where(torch.isinf, 0.0)), always=True)
    yield Suspect(
        f"infinities in {name} were NaN", with_tensor(name, _where(torch.isinf, math.nan)), always=True
    )
    yield Suspect(f"{name} were never negative", with_tensor(name, torch.abs), always=True)


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
            f"the last element of {name} {where} {is_}", with_fill(name, word, lambda n: (n - 1, n), fill)
        )
        yield Suspect(
            f"the first element of {name} {where} {is_}", with_fill(name, word, lambda n: (0, 1), fill)
        )
        for block in BLOCKS:
            yield Suspect(
                f"the elements of {name} {where} beyond a whole multiple of {block} {is_}",
                with_fill(name, word, _after_whole(block), fill),
            )
            yield Suspect(
                f"the elements of {name} {where} after its first {block} {is_}",
                with_fill(name, word, _after(block), fill),
            )


def _after_whole(block: int) -> Callable[[int], tuple[int, int]]:
    return lambda n: (n // block * block, n)


def _after(block: int) -> Callable[[int], tuple[int, int]]:
    return lambda n: (block, n)


def _padded(contract: Contract, name: str, word: str) -> Iterator[Suspect]:
    """Rows that are longer, filled up with 0 to whole blocks or a power of two."""
    where = f"{name} were filled up with 0 along {_named(contract, word)}"
    yield Suspect(
        f"{name} had one 0 more along {_named(contract, word)}",
        with_zeros_behind(name, word, lambda n: n + 1),
    )
    yield Suspect(
        f"{where} to a power of two", with_zeros_behind(name, word, lambda n: 1 << max(n - 1, 0).bit_length())
    )
    for block in reversed(BLOCKS):
        yield Suspect(
            f"{where} to whole blocks of {block}",
            with_zeros_behind(name, word, _whole(block)),
        )


def _whole(block: int) -> Callable[[int], int]:
    return lambda n: -(-n // block) * block
