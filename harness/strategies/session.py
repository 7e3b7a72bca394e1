"""Hypothesis sessions: cases drawn for a search that runs them itself, and climbing with a database."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.strategies import SearchStrategy

from harness.case import Case
from harness.contracts import Contract
from harness.domain import Domain
from harness.formats import Format
from harness.strategies.drawing import cases

CHUNK = 50
_CHECKS = [
    HealthCheck.too_slow,
    HealthCheck.filter_too_much,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
]


def drawn(contract: Contract, fmt: Format | str, domain: Domain, *, seed: int) -> Iterator[Case]:
    """Endless random cases; the same seed and Hypothesis version give the same ones."""
    strategy = cases(contract, fmt, domain)
    for chunk in itertools.count():
        yield from _chunk(strategy, seed * 1_000_003 + chunk)


def _chunk(strategy: SearchStrategy[Case], seed: int) -> list[Case]:
    found: list[Case] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=CHUNK,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=_CHECKS,
        report_multiple_bugs=False,
    )
    @given(strategy)
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found


def climb(
    contract: Contract,
    fmt: Format | str,
    domain: Domain,
    judge: Callable[[Case], float],
    *,
    examples: int,
    seed: int,
    folder: Path,
) -> None:
    """Draw cases and climb what ``judge`` returns; an exception it raises ends the session and is raised.

    Failing and high-scoring examples are kept in ``folder`` and tried first next time.
    """

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        phases=[Phase.reuse, Phase.generate, Phase.target],
        database=DirectoryBasedExampleDatabase(folder),
        deadline=None,
        suppress_health_check=_CHECKS,
        report_multiple_bugs=False,
    )
    @given(cases(contract, fmt, domain))
    def session(case: Case) -> None:
        hypothesis.target(judge(case), label="largest ratio")

    session.hypothesis.inner_test.__qualname__ = f"climb-{contract.name}-{getattr(fmt, 'name', fmt)}"  # type: ignore[attr-defined]
    session()
