"""Of what kind each field of a description must be, and what to write where it is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessError
from harness.formats import number_of


@dataclass(frozen=True)
class Kind:
    """A test of a value, and what to give in place of one that fails it."""

    holds: Callable[[Any], bool]
    wanted: str


def check(where: str, fields: Mapping[str, Kind], values: Mapping[str, Any]) -> None:
    """Raise HarnessError, naming the field and its value, for the first value that is not of its kind."""
    for name, kind in fields.items():
        if not kind.holds(values[name]):
            raise HarnessError(f"{where}{name}={values[name]!r}: give {kind.wanted}")


def is_text(value: Any) -> bool:
    """Whether it is a string."""
    return isinstance(value, str)


def is_optional_text(value: Any) -> bool:
    """Whether it is a string or None."""
    return value is None or is_text(value)


def is_written(value: Any) -> bool:
    """Whether it is a string, or a function that writes one."""
    return is_text(value) or callable(value)


def is_truth(value: Any) -> bool:
    """Whether it is True or False."""
    return isinstance(value, bool)


def is_bound(value: Any) -> bool:
    """Whether it is a whole number, or the name of one."""
    return type(value) is int or is_text(value)


def is_length(value: Any) -> bool:
    """Whether it is a length, or the lengths of a pack."""
    return all(type(n) is int and n >= 0 for n in (value if isinstance(value, tuple | list) else (value,)))


def is_number(value: Any) -> bool:
    """Whether it is a string that a number can be read from."""
    if not is_text(value):
        return False
    try:
        number_of(value)
    except HarnessError:
        return False
    return True


def all_of(holds: Callable[[Any], bool], *, least: int = 0) -> Callable[[Any], bool]:
    """Whether a value is a tuple or list, of so many items at least, all of a kind."""
    return lambda value: isinstance(value, tuple | list) and len(value) >= least and all(map(holds, value))


def each_of(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Whether a value is a dict of strings to values of a kind."""
    return lambda value: (
        isinstance(value, Mapping) and all(map(is_text, value)) and all(map(holds, value.values()))
    )


def tuples(value: Any) -> Any:
    """Lists, as JSON has them, as tuples, in dicts and tuples too."""
    if isinstance(value, Mapping):
        return {key: tuples(item) for key, item in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list | tuple) else value


TRUTH = Kind(is_truth, "True or False")
NAME = Kind(is_text, "a name")
NAMES = Kind(all_of(is_text), "names, such as ('N',)")
SIZE = Kind(is_text, "the name of a size")
TENSOR = Kind(is_text, "the name of a tensor argument")
NUMBERS = Kind(all_of(is_number), "numbers as text, such as ('0', 'nan')")
NUMBER = Kind(lambda value: value is None or is_number(value), "a number as text, such as '0', or None")
BOUND = Kind(is_bound, "a whole number, or the name of a size or scalar")
