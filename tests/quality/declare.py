"""How a quality subject is declared: beside its function, what it is held to and what the harness must say."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import quality.right
import quality.wrong
from harness.contracts import Contract
from harness.subjects import FORMATS, Target

Function = Callable[..., Any]


@dataclass(frozen=True)
class Expected:
    """What a subject is judged as, and the verdict it must get.

    checks: names of which the first finding of some format must bear one; none for a right subject. bug: its entry
    in the list of real bugs. smallest: elements of the largest tensor of the smallest input, at most; rows:
    situations of it. claim: the verdict's first line, of a kernel that is right under a claim; "*" for any.
    why: of a right kernel, why formats or claims are not the defaults. stateful: a call depends on those before
    it, so that the smallest input alone need not fail in a new process.
    """

    contract: Contract
    checks: tuple[str, ...] = ()
    bug: str = ""
    smallest: int | None = None
    rows: int | None = None
    claim: str = ""
    formats: tuple[str, ...] = FORMATS
    claims: Mapping[str, Any] | None = None
    domain: Mapping[str, Any] | None = None
    timeout: float = 60.0
    why: str = ""
    slow: bool = False
    stateful: bool = False


@dataclass(frozen=True)
class Subject:
    """A declared function with the name by which another process finds it. found: of a kernel's mutant."""

    function: Function
    expected: Expected
    found: Target | None = None

    @property
    def name(self) -> str:
        if self.found is not None:
            return self.found.spec.rpartition("/")[2].replace(".py:", ":")
        return f"{self.function.__module__.rpartition('.')[2]}:{self.function.__name__}"

    @property
    def mistake(self) -> str:
        """The first line of the function's docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    @property
    def target(self) -> Target:
        if self.found is not None:
            return self.found
        folder = self.function.__module__.partition(".")[2].replace(".", "/")
        return Target(self.function, f"tests/quality/{folder}.py:{self.function.__name__}")


def wrong(
    contract: Contract, *checks: str, smallest: int | None = 8, **more: Any
) -> Callable[[Function], Function]:
    """Declare a wrong kernel: the harness must find it, by one of ``checks`` where it is clear which."""
    return _declared(Expected(contract, checks, smallest=smallest, **more))


def right(contract: Contract, **more: Any) -> Callable[[Function], Function]:
    """Declare a right kernel: the verdict must be PASS."""
    return _declared(Expected(contract, **more))


def subjects(kind: str) -> Iterator[Subject]:
    """The subjects of a package, "wrong" or "right", in order of their files and places."""
    package = {"wrong": quality.wrong, "right": quality.right}[kind]
    for item in sorted(pkgutil.iter_modules(package.__path__), key=lambda item: item.name):
        module = importlib.import_module(f"{package.__name__}.{item.name}")
        for value in list(vars(module).values()):
            if getattr(value, "__module__", None) == module.__name__ and hasattr(value, "__expected__"):
                yield Subject(value, value.__expected__)


def _declared(expected: Expected) -> Callable[[Function], Function]:
    def declare(function: Function) -> Function:
        function.__expected__ = expected  # type: ignore[attr-defined]
        return function

    return declare
