"""Domains: what inputs a kernel supports, as its author says it, and what of that a contract can mean."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness import layouts
from harness.contracts import Choice, Contract, Dtype
from harness.errors import HarnessError, nearest
from harness.formats import dtype_name, format_of
from harness.kinds import tuples

MOST_ELEMENTS = 1 << 40
"""Elements of a tensor that nobody may ask for: the memory of no device holds so many, of a byte each."""

TOO_MANY = f"no device holds more than {MOST_ELEMENTS} elements; give fewer"


def _means(words: str, values: str) -> dict[str, str]:
    return {"words": words, "values": values}


@dataclass(frozen=True)
class Domain:
    """What inputs a kernel supports. Every restriction is shown in the verdict.

    What a field means, and the values it may have, is told with it: ``harness list domain`` prints that.
    """

    ndim: tuple[int, int] = field(
        default=(1, 4),
        metadata=_means("lowest and highest number of dimensions of a tensor of any shape", "1 to 4"),
    )
    dim: str | tuple[int, ...] = field(
        default="any",
        metadata=_means("the axes that a kernel is given", "any, last or numbers such as 0,-1"),
    )
    max_elements: int | None = field(
        default=None, metadata=_means("elements of the largest tensor", "a positive whole number")
    )
    layouts: tuple[str, ...] | None = field(
        default=None, metadata=_means("layouts of the tensors", "names: harness list layouts")
    )
    finite: bool = field(default=False, metadata=_means("whether no input holds inf or NaN", "true or false"))
    max_abs: float | None = field(
        default=None, metadata=_means("largest magnitude of an input", "a positive number")
    )
    dtypes: tuple[tuple[str, str], ...] = field(
        default=(),
        metadata=_means("fixed formats of tensors", "formats by tensor, such as {'weight': 'float32'}"),
    )
    allowed: tuple[tuple[str, tuple[Any, ...]], ...] = field(
        default=(),
        metadata=_means(
            "values allowed for the size or scalar of this name",
            "lengths such as K=64,128; shapes such as shape=((4,5),(3,)); words that the contract lists; numbers",
        ),
    )
    large: bool | int | None = field(
        default=None,
        metadata=_means(
            "whether a tensor may span 2^31 elements and more",
            "null, as without it (tried on the CPU, and what goes wrong is noted), true (it must be right, and on a GPU whole "
            "tensors of that size too), a number (whole tensors of so many elements, on any device), false (not tried)",
        ),
    )

    def allowed_values(self, name: str) -> tuple[Any, ...] | None:
        """Values the author allows for the size or scalar ``name``; None when unrestricted."""
        return dict(self.allowed).get(name)

    def written(self) -> dict[str, Any]:
        """The restrictions as the dict that gives them."""
        fields = {name: value for name, value in vars(self).items() if value != getattr(Domain(), name)}
        allowed = dict(fields.pop("allowed", ()))
        if "dtypes" in fields:
            fields["dtypes"] = dict(fields["dtypes"])
        return {**fields, **allowed}

    def exclusions(self) -> list[str]:
        """The restrictions in words, one each, for the verdict."""
        default = Domain()
        words = []
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if value == getattr(default, item.name):
                continue
            if item.name == "large" and value is not False:
                continue
            if item.name in ("dtypes", "allowed"):
                words += [f"{name}={list(v) if isinstance(v, tuple) else v}" for name, v in value]
            else:
                words.append(f"{item.name}={value}")
        return words


def domain(contract: Contract, given: Domain | Mapping[str, Any] | None) -> Domain:
    """Validate what an author says the kernel supports; unknown keys raise with the nearest name."""
    if given is None:
        return Domain()
    if isinstance(given, Domain):
        for key in ("dtypes", "allowed"):
            _check_pairs(key, getattr(given, key))
        given = given.written()
    if not isinstance(given, Mapping):
        raise HarnessError(f"domain={given!r}: give a Domain or a dict such as {{'ndim': 2}}")
    plain = _plain()
    fields: dict[str, Any] = {}
    allowed: list[tuple[str, tuple[Any, ...]]] = []
    for key, value in given.items():
        if key in plain:
            fields[key] = _domain_field(key, value)
        else:
            values = tuple(map(tuples, value)) if isinstance(value, list | tuple) else (value,)
            allowed.append((key, _allowed(contract, key, values)))
    for tensor, _ in fields.get("dtypes", ()):
        if tensor not in contract.tensors:
            raise HarnessError(
                f"domain dtypes names {tensor!r}, which is no tensor of {contract.name}; tensors: {', '.join(contract.tensors)}"
            )
    return Domain(**fields, allowed=tuple(allowed))


def _plain() -> set[str]:
    """The keys of a domain that every contract has."""
    return {item.name for item in dataclasses.fields(Domain)} - {"allowed"}


def _allowed(contract: Contract, key: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values that an author allows for a size or scalar, if the contract has it and can mean them."""
    named = {name.lstrip("*") for name in contract.size_names} | set(contract.scalars)
    if key not in named:
        known = sorted(_plain() | named)
        raise HarnessError(
            f"unknown domain key {key!r} for contract {contract.name}; {nearest(key, known)}known: {', '.join(known)}"
        )
    spec = contract.scalars.get(key)
    if not values and spec is not None:
        raise HarnessError(f"domain {key}=(): give the values that {key} may have")
    if isinstance(spec, Dtype):
        return tuple(format_of(item).name for item in values)
    if spec is None:
        _check_lengths(key, values, pack=f"*{key}" in contract.size_names)
    for value in values:
        if isinstance(spec, Choice):
            _check_choice(key, value, spec)
        elif spec is not None and type(value) is not int:
            raise HarnessError(f"domain {key}={value!r}: give whole numbers, such as (2, 4)")
    return values


def _check_choice(key: str, value: Any, choice: Choice) -> None:
    """A number or a tuple may be another than those listed; a word, a truth value or None must be listed."""
    kinds = {_kind(item) for item in choice.values}
    if _kind(value) in kinds & {int, tuple}:
        return
    if any(_kind(value) is _kind(item) and value == item for item in choice.values):
        return
    written = list(dict.fromkeys(map(repr, choice.values)))
    hint = _meant(value, choice.values) if isinstance(value, str) else ""
    other = ", or another number" if int in kinds else ""
    raise HarnessError(f"domain {key}={value!r}: {hint}values: {', '.join(written)}{other}")


def _kind(value: Any) -> type:
    """The type of a value of a scalar: int for a number that is no truth value, tuple for a list."""
    return {float: int, list: tuple}.get(type(value), type(value))


def _meant(word: str, values: tuple[Any, ...]) -> str:
    """``"did you mean None? "`` for a word that is one of the values, or near one, in another spelling."""
    for value in values:
        if str(value).lower() == ("none" if word.lower() == "null" else word.lower()):
            return f"did you mean {value!r}? "
    return nearest(word, [value for value in values if isinstance(value, str)])


def _check_lengths(key: str, values: tuple[Any, ...], pack: bool) -> None:
    wanted = "shapes, such as ((4, 5), (3,))" if pack else "lengths, such as (64, 128)"
    for value in values:
        lengths = value if pack and isinstance(value, tuple | list) else (value,)
        if not all(type(length) is int and length >= 0 for length in lengths):
            raise HarnessError(f"domain {key}={value!r}: give {wanted}")
        if max(math.prod(lengths), *lengths, 0) > MOST_ELEMENTS:
            raise HarnessError(f"domain {key}={value!r}: {TOO_MANY}")
    if not values:
        raise HarnessError(f"domain {key}=(): give {wanted}")


def _domain_field(key: str, value: Any) -> Any:
    if key == "ndim":
        ends = (value, value) if isinstance(value, int) else value
        if not isinstance(ends, list | tuple) or len(ends) != 2 or not all(type(n) is int for n in ends):
            raise HarnessError(f"domain ndim={value!r}: give a number of axes, or (lowest, highest)")
        if not 1 <= ends[0] <= ends[1] <= 4:
            raise HarnessError(f"domain ndim={value!r}: give (lowest, highest) within 1 and 4")
        return tuple(ends)
    if key == "dim":
        if value in ("any", "last"):
            return value
        values = (value,) if isinstance(value, int) else value
        if isinstance(values, list | tuple) and values and all(type(v) is int for v in values):
            return tuple(values)
        raise HarnessError(f"domain dim={value!r}: give 'any', 'last' or a tuple of axes")
    if key == "dtypes":
        return _formats(value)
    if key == "layouts":
        names = (value,) if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) for n in names):
            raise HarnessError(
                f"domain layouts={value!r}: give names of layouts, such as ('contiguous', 'step')"
            )
        layouts.allowed(tuple(names))
        return tuple(names)
    if key == "max_elements" and not (type(value) is int and value > 0):
        raise HarnessError(f"domain max_elements={value!r}: give a positive whole number")
    if key == "max_abs" and not (type(value) in (int, float) and value > 0):
        raise HarnessError(f"domain max_abs={value!r}: give a positive number")
    if key == "large":
        if not (value is None or isinstance(value, bool) or (type(value) is int and value > 0)):
            raise HarnessError(f"domain large={value!r}: give True, False or a positive number of elements")
        if value is not None and value > MOST_ELEMENTS:
            raise HarnessError(f"domain large={value!r}: {TOO_MANY}")
    if key == "finite" and not isinstance(value, bool):
        raise HarnessError(f"domain finite={value!r}: give True or False")
    return value


def _formats(value: Any) -> tuple[tuple[str, str], ...]:
    """Formats by tensor; a format's name, torch's dtype or a Format."""
    if not isinstance(value, Mapping) or any(isinstance(fmt, int | float) for fmt in value.values()):
        raise HarnessError(f"domain dtypes={value!r}: give formats by tensor, such as {{'x': 'float32'}}")
    found = {str(tensor): str(fmt) for tensor, fmt in value.items()}
    for fmt in found.values():
        dtype_name(fmt)
    return tuple(sorted(found.items()))


def _check_pairs(key: str, value: Any) -> None:
    """Raise HarnessError unless a field of a Domain is pairs of a name and what is said of it."""
    pairs = value if isinstance(value, tuple | list) else (None,)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise HarnessError(
            f"domain {key}={value!r}: give pairs of a name and what it may be, or a dict for all"
        )
