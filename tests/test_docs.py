"""The pages of docs/ that hold examples: the code runs, and every definition is met by its implementation."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import harness

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "contracts.md").read_text()
CODE = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
NAMES = re.findall(r"^@harness\.contract\(.*?^def (\w+)", CODE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The page's code as a file that a user would have."""
    file = tmp_path_factory.mktemp("page") / "page_of_contracts.py"
    file.write_text(CODE)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_has_examples() -> None:
    assert len(NAMES) >= 9


@pytest.mark.parametrize("name", NAMES)
def test_an_example_passes(name: str, page: ModuleType) -> None:
    verdict = harness.check(getattr(page, f"my_{name}"), getattr(page, name), examples=60)
    assert verdict.outcome == "PASS", str(verdict)


def test_a_wrong_implementation_fails(page: ModuleType) -> None:
    def wrong(*args: object, **keywords: object) -> object:
        return page.my_rms(*args, **keywords) * 1.01

    assert harness.check(wrong, page.rms, "float32", examples=40, shrink=False).outcome == "FAIL"


def test_what_the_page_names_is_there() -> None:
    from harness import contracts, numbers

    for function in re.findall(r"^- `((?:\w+ )+\w+)`", PAGE, re.MULTILINE):
        for name in function.split():
            assert name in numbers.__all__, name
    for name in ("SizeOf", "Dtype", "Whole"):
        assert hasattr(contracts, name)
    for file in re.findall(r"(?:references/)?(\w+\.py)`", PAGE):
        assert (
            any((ROOT / folder / file).exists() for folder in ("references", "tests")) or file == "my_file.py"
        ), file
