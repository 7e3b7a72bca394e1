"""The programs of the folder benchmarks are what the code is now: they begin, and name what exists."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
PROGRAMS = sorted(
    path.stem for path in FOLDER.iterdir() if path.suffix == ".py" or (path / "__main__.py").exists()
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_benchmark_can_be_started(name: str) -> None:
    assert importlib.import_module(f"benchmarks.{name}").__doc__


def test_every_rule_of_the_page_is_told_by_the_code() -> None:
    page = importlib.import_module("benchmarks.rules_page")
    assert {name for name, (function, _) in page.RULES.items() if not inspect.getdoc(function)} == set()
