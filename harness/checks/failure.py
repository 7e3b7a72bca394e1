"""What a check reports: its name, the element, and the words. One exception class per check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Check = Literal[
    "accuracy",
    "special values",
    "relations",
    "shape",
    "dtype",
    "device",
    "returns",
    "raises",
    "hangs",
    "crashes",
    "inputs unchanged",
    "written",
    "undefined values",
    "race",
    "offset overflow",
    "out of bounds",
    "surroundings",
    "repeatable",
    "rows independent",
    "layout",
]
CHECKS: tuple[str, ...] = get_args(Check)


@dataclass(frozen=True)
class Failure:
    """One failed check of one launch. element and output say where, if it is about an element."""

    check: Check
    message: str
    element: tuple[int, ...] | None = None
    output: int = 0
    situation: int | None = None
    severity: float = 0.0


class CheckFailed(AssertionError):
    """A check failed. Each check raises its own subclass, so that a search tells several bugs apart."""


CLASSES: dict[str, type[CheckFailed]] = {
    name: type(
        name.title().replace(" ", "") + "Failed", (CheckFailed,), {"__doc__": f"The check {name!r} failed."}
    )
    for name in CHECKS
}
