"""``@harness.conforms``: a pytest test that judges the decorated function, one test for each format.

    @harness.conforms(references.softmax, dtypes=("float32", "bfloat16"))
    def test_softmax(x, dim):
        return my_softmax(x, dim)

``test_softmax()`` without pytest judges all its formats and raises AssertionError with the verdict's text.
With arguments it is the function itself, so that ``harness replay FILE:test_softmax`` finds it.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from harness.contracts import Contract
from harness.domain import Domain
from harness.errors import HarnessError
from harness.formats import format_of, is_integer
from harness.subjects import FORMATS, Target, load_contract, subject

if TYPE_CHECKING:
    from harness.arithmetic import Arithmetic
    from harness.verdict import Verdict

FORMAT, RUN = "harness_format", "harness_run"
"""Parameters of the pytest test: the format that it judges, and the fixture that stands for the run."""


@dataclass(frozen=True)
class Budget:
    """How to search; None where nothing is said."""

    examples: int | None = None
    seconds: float | None = None
    device: str | None = None
    seed: int | None = None

    def replaced_by(self, other: Budget) -> Budget:
        """This budget with what ``other`` says in place of what it says."""
        return replace(self, **{name: value for name, value in vars(other).items() if value is not None})


class Run(Protocol):
    """A pytest run: what its options say, and where a verdict goes."""

    def conclude(self, conformance: Conformance, judge: Callable[[Budget], Verdict]) -> None:
        """Judge with the run's budget, keep the verdict, and fail the test unless it is PASS."""
        ...


@dataclass(frozen=True)
class Conformance:
    """What a decorated function is held to."""

    function: Callable[..., Any]
    contract: Contract
    formats: tuple[str, ...]
    claims: Arithmetic | Mapping[str, Any] | None
    domain: Domain | Mapping[str, Any] | None
    budget: Budget
    problem: str = ""
    """Why the function cannot be called as the contract calls it; told by its test, so that others run."""

    def verdict(self, owner: tuple[Any, ...], formats: tuple[str, ...], budget: Budget) -> Verdict:
        """The verdict in some formats. owner: the object of a method, or nothing."""
        if self.problem:
            raise HarnessError(self.problem)
        from harness.search import check  # loads torch, which only a test that runs needs

        code = self.function.__code__
        function = self.function.__get__(owner[0]) if owner else self.function
        path = self.function.__qualname__
        named = all(part.isidentifier() for part in path.split("."))
        spec = f"{os.path.relpath(code.co_filename)}:{path}"
        chosen = self.budget.replaced_by(budget)
        return check(
            Target(function, spec) if named else function,
            self.contract,
            formats,
            chosen.device or "cpu",
            self.claims,
            self.domain,
            chosen.examples,
            chosen.seconds,
            chosen.seed or 0,
        )


def conforms(
    contract: Contract | str,
    *,
    dtypes: tuple[Any, ...] | str = FORMATS,
    device: str = "cpu",
    claims: Arithmetic | Mapping[str, Any] | None = None,
    domain: Domain | Mapping[str, Any] | None = None,
    examples: int = 200,
    seconds: float | None = None,
    seed: int = 0,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a pytest test of a function that implements ``contract``: it fails unless the verdict is PASS.

    Arguments are those of :func:`harness.check`; examples counts situations of each format. The options
    ``--harness-examples``, ``--harness-seconds``, ``--harness-device`` and ``--harness-seed`` of a pytest
    run take their place.

    Raises HarnessError if ``contract`` is none. The test of a function whose parameters are not the contract's
    fails; further parameters need defaults.
    """
    if isinstance(contract, str):
        contract = load_contract(contract)
    if not isinstance(contract, Contract):
        raise HarnessError(
            f"conforms needs a contract, not {contract!r}; write @harness.conforms(references.<name>), "
            "or give a function of your own decorated with @harness.contract(...)"
        )
    names = (dtypes,) if isinstance(dtypes, str) or not isinstance(dtypes, tuple | list) else dtypes
    formats = tuple(dict.fromkeys(_format_name(name) for name in names))
    if not formats:
        raise HarnessError("dtypes is empty; give formats such as ('float32', 'bfloat16')")
    budget = Budget(examples, seconds, device, seed)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        owners, problem = _owners(function, contract)
        return _test(Conformance(function, contract, formats, claims, domain, budget, problem), owners)

    return decorate


def _test(conformance: Conformance, owners: tuple[str, ...]) -> Callable[..., Any]:
    """The test function: pytest sees only the parameters that it has to fill."""
    function = conformance.function

    @functools.wraps(function)
    def test(*args: Any, **keywords: Any) -> Any:
        run: Run | None = keywords.pop(RUN, None)
        __tracebackhide__ = run is None
        fmt = keywords.pop(FORMAT, None)
        owner = args[:1] if owners else ()
        if len(args) > len(owner) or keywords.keys() - set(owners):
            return function(*args, **keywords)
        owner = owner or tuple(keywords.values())
        formats = conformance.formats if fmt is None else (fmt,)
        if run is not None:
            run.conclude(conformance, lambda budget: conformance.verdict(owner, formats, budget))
            return None
        verdict = conformance.verdict(owner, formats, Budget())
        if not verdict.ok:
            raise AssertionError(str(verdict))
        return None

    shown = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in (*owners, FORMAT, RUN)
    ]
    test.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    test.__conformance__ = conformance  # type: ignore[attr-defined]
    claims, domain = conformance.claims, conformance.domain
    return subject(
        conformance.contract,
        claims=claims,  # type: ignore[arg-type]
        domain=domain,  # type: ignore[arg-type]
        dtypes=conformance.formats,
    )(test)


def _owners(function: Callable[..., Any], contract: Contract) -> tuple[tuple[str, ...], str]:
    """``("self",)`` for a method, else nothing; and what is wrong if the other parameters are not the contract's."""
    wanted = list(inspect.signature(contract.definition).parameters.values())
    given = list(inspect.signature(function).parameters.values())
    owners = tuple(item.name for item in given[:1] if item.name == "self")
    given = [item for item in given[len(owners) :] if item.default is item.empty]
    positional = [item.name for item in wanted if item.kind is not item.KEYWORD_ONLY]
    keywords = {item.name for item in wanted if item.kind is item.KEYWORD_ONLY}
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [item.name for item in given if item.kind in plain and item.name not in keywords]
    others = [item for item in given if item.kind not in plain or item.name in keywords]
    if names == positional and {item.name for item in others} == keywords:
        return owners, ""
    name = getattr(function, "__name__", repr(function))
    call = ", ".join(item.name for item in wanted)
    return owners, (
        f"{name}({', '.join(str(item) for item in given)}) does not take the parameters of contract "
        f"{contract.name}({call}); write def {name}({call}), further parameters with defaults"
    )


def _format_name(name: Any) -> str:
    written = str(name).removeprefix("torch.")
    return written if is_integer(written) else format_of(name).name
