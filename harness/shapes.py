"""The language in which shapes are written, and the axes that a written shape stands for.

Words are separated by blanks::

    B H S D          four axes
    *batch N         a pack of axes whose number is drawn, then one axis
    *shape-dim       the pack without the axis that the scalar ``dim`` names
    Hkv*G   2*D2     one axis whose length is a product of sizes and numbers
    N/block          one axis whose length is a size over a scalar or number, rounded up
    k@               in a list of tensors: the length that belongs to each of them; k@2 is that of the third
    +k               the sum of those lengths
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessError

Sizes = Mapping[str, "int | tuple[int, ...]"]
AxisLabel = tuple[str, int]


@dataclass(frozen=True)
class Axis:
    """One axis of a resolved shape: the size it comes from (with its place in a pack) and its length."""

    label: AxisLabel
    length: int


def resolve(written: str, sizes: Sizes, scalars: Mapping[str, Any]) -> tuple[Axis, ...]:
    """The axes of a written shape."""
    found: list[Axis] = []
    for word in written.split():
        if word.startswith("*"):
            base, _, removed = word.partition("-")
            pack = [Axis((base, i), n) for i, n in enumerate(_many(sizes[base]))]
            if removed:
                del pack[scalars[removed] % len(pack)]
            found += pack
        elif word.startswith("+"):
            found.append(Axis((word, 0), sum(_many(sizes[word[1:] + "@"]))))
        elif "@" in word:
            base, _, rank = word.partition("@")
            found.append(Axis((base + "@", int(rank)), _many(sizes[base + "@"])[int(rank)]))
        else:
            found.append(Axis((word, 0), _length(word, sizes, scalars)))
    return tuple(found)


def slots(label: AxisLabel, sizes: Sizes) -> tuple[AxisLabel, ...]:
    """The numbers of ``sizes`` that an axis has its length from: several where it is a product or a sum.

    Each is named as the axis would be if it were that number alone: (name, place in a pack or a list).
    """
    word, _ = label
    if word.startswith("*") or word.endswith("@"):
        return (label,)
    if word.startswith("+"):
        return tuple((word[1:] + "@", rank) for rank in range(len(_many(sizes[word[1:] + "@"]))))
    factors = word.partition("/")[0].split("*")
    return tuple((factor, 0) for factor in dict.fromkeys(factors) if not factor.isdigit())


def coefficient(label: AxisLabel) -> int:
    """The product of the numbers written in an axis: 2 for ``2*D2``."""
    word, _ = label
    factors = [] if word.startswith("*") else word.partition("/")[0].split("*")
    return math.prod(int(factor) for factor in factors if factor.isdigit())


def kept(
    label: AxisLabel, slot: AxisLabel, keep: Sequence[int], sizes: Sizes, scalars: Mapping[str, Any]
) -> list[int] | None:
    """The indices of an axis that stay, in order, where only ``keep`` stay of one of its slots.

    None if the axis does not depend on the slot. The first factor of a product is the slowest; an element of
    a quotient stands for a block, and the one of the first index that a new block holds stays.
    """
    if slot not in slots(label, sizes):
        return None
    word, _ = label
    if word.startswith("*") or word.endswith("@"):
        return list(keep)
    if word.startswith("+"):
        lengths = _many(sizes[slot[0]])
        start = sum(lengths[: slot[1]])
        after = range(start + lengths[slot[1]], sum(lengths))
        return [*range(start), *(start + i for i in keep), *after]
    product, _, divisor = word.partition("/")
    indices = [0]
    for factor in product.split("*"):
        length = int(factor) if factor.isdigit() else _one(sizes[factor])
        inner = keep if factor == slot[0] else range(length)
        indices = [i * length + j for i in indices for j in inner]
    if not divisor:
        return indices
    by = int(divisor) if divisor.isdigit() else int(scalars[divisor])
    return [i // by for i in indices[::by]]


def coordinates(
    label: AxisLabel, index: int, sizes: Sizes, scalars: Mapping[str, Any]
) -> dict[AxisLabel, set[int]]:
    """The indices, along each slot of an axis, that one index of the axis stands for."""
    word, _ = label
    if word.startswith("*") or word.endswith("@"):
        return {label: {index}}
    found: dict[AxisLabel, set[int]] = {slot: set() for slot in slots(label, sizes)}
    if word.startswith("+"):
        for slot in found:
            length = _many(sizes[slot[0]])[slot[1]]
            found[slot] |= {index} if 0 <= index < length else set()
            index -= length
        return found
    product, _, divisor = word.partition("/")
    by = 1 if not divisor else int(divisor) if divisor.isdigit() else int(scalars[divisor])
    factors = product.split("*")
    lengths = [int(factor) if factor.isdigit() else _one(sizes[factor]) for factor in factors]
    for flat in range(index * by, min((index + 1) * by, math.prod(lengths))):
        rest = flat
        for factor, length in zip(reversed(factors), reversed(lengths), strict=True):
            rest, at = divmod(rest, length)
            if not factor.isdigit():
                found[(factor, 0)].add(at)
    return found


def resized(sizes: Sizes, lengths: Mapping[AxisLabel, int]) -> dict[str, int | tuple[int, ...]]:
    """``sizes`` with other numbers in these slots."""
    found = dict(sizes)
    for (name, place), length in lengths.items():
        size = found[name]
        found[name] = (*size[:place], length, *size[place + 1 :]) if isinstance(size, tuple) else length
    return found


_NAME = r"[A-Za-z_]\w*"
_WORDS = (
    rf"\*{_NAME}(-{_NAME})?",
    rf"({_NAME}|\d+)(\*({_NAME}|\d+))*(/({_NAME}|\d+))?",
    rf"{_NAME}@\d*",
    rf"\+{_NAME}",
)
_TYPES = ("float", "int", "bool", "str", "Tensor")


def check(written: str, where: str) -> None:
    """Raise HarnessError, naming ``where``, for a word that is none of this language, or that names a type."""
    for word in written.split():
        if not any(re.fullmatch(form, word) for form in _WORDS):
            raise HarnessError(
                f"{where}: {word!r} in shape {written!r} is no axis; write a name (N), a pack of axes (*batch), "
                "a pack without one (*shape-dim), a product (H*D) or a quotient (N/block)"
            )
        if word in _TYPES:
            raise HarnessError(
                f"{where}: shape {written!r} would be an axis named {word!r}; a scalar is given by a tuple of "
                "its values, such as (1e-5, 0.1) or (True, False), and a tensor by its shape"
            )


def packs(written: str) -> list[str]:
    """The packs of a written shape, with their star."""
    return [word.partition("-")[0] for word in written.split() if word.startswith("*")]


def names(written: str) -> Iterator[str]:
    """The keys of sizes that a written shape uses; packs carry their star, lengths of a list their @."""
    for word in written.split():
        if word.startswith("*"):
            yield word.partition("-")[0]
        elif word.startswith("+"):
            yield word[1:] + "@"
        elif "@" in word:
            yield word.partition("@")[0] + "@"
        else:
            product, _, _ = word.partition("/")
            yield from (factor for factor in product.split("*") if not factor.isdigit())


def removed_scalars(written: str) -> Iterator[str]:
    """The scalars that name an axis which a written shape lacks."""
    for word in written.split():
        if word.startswith("*") and "-" in word:
            yield word.partition("-")[2]


def divisors(written: str) -> Iterator[str]:
    """The scalars by which a written shape divides."""
    for word in written.split():
        divisor = word.partition("/")[2]
        if divisor and not divisor.isdigit():
            yield divisor


def _length(word: str, sizes: Sizes, scalars: Mapping[str, Any]) -> int:
    product, _, divisor = word.partition("/")
    factors = product.split("*")
    length = math.prod(int(factor) if factor.isdigit() else _one(sizes[factor]) for factor in factors)
    if not divisor:
        return length
    by = int(divisor) if divisor.isdigit() else int(scalars[divisor])
    return -(-length // by)


def _one(size: int | tuple[int, ...]) -> int:
    assert isinstance(size, int)
    return size


def _many(size: int | tuple[int, ...]) -> tuple[int, ...]:
    assert not isinstance(size, int)
    return tuple(size)
