"""No cast of a library turns float64 into a narrow format in the oracle, in bounds or in expected values.

torch and ml_dtypes round float64 to bfloat16, float16 and float8 twice, through float32.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import references
from harness import oracle
from harness.arithmetic import Arithmetic
from harness.case import materialise
from harness.contracts import Contract
from harness.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Format
from harness.strategies import cover

ROOT = Path(__file__).parents[1]
NARROW = {
    torch.float32, torch.float16, torch.bfloat16,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
}  # fmt: skip
CONTRACTS = [getattr(references, name) for name in references.__all__]


class Casts(TorchDispatchMode):
    """Notes every operation that makes a narrow floating-point tensor of a float64 one."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        given = [a.dtype for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
        made = [a.dtype for a in tree_leaves(result) if isinstance(a, torch.Tensor)]
        if torch.float64 in given and any(dtype in NARROW for dtype in made):
            self.found.append(f"{function}: {given} to {made}")
        return result


def test_casts_are_noted() -> None:
    x = torch.ones(3, dtype=torch.float64)
    with Casts() as casts:
        x.to(torch.bfloat16)
        x.half()
        torch.empty(3, dtype=torch.float8_e5m2).copy_(x)
        torch.add(x, x, out=torch.empty(3))
    assert len(casts.found) == 4


def _formats(contract: Contract) -> list[Any]:
    usual: list[Format] = [FLOAT64, FLOAT32, FLOAT16, BFLOAT16]
    return list(contract.formats) or usual


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
def test_judging_casts_no_float64_to_a_narrow_format(contract: Contract) -> None:
    claims = Arithmetic(roundings=tuple(contract.roundings), dot="tf32")
    for fmt in _formats(contract):
        for case, arithmetic in zip(
            itertools.islice(cover(contract, fmt), 3), (Arithmetic(), claims, Arithmetic()), strict=False
        ):
            ranked = contract.at(case.sizes)
            exact = materialise(contract, case).exact
            got = [
                torch.zeros(ranked.shape(output.shape, case.sizes, case.scalars), dtype=torch.float64)
                for output in ranked.outputs
            ]
            with Casts() as casts:
                oracle.judge_case(ranked, arithmetic, case, exact, got)
            assert not casts.found, (fmt, casts.found)


JUDGING = (
    *sorted((ROOT / "harness" / "numbers").glob("*.py")),
    *sorted((ROOT / "harness" / "checks").glob("*.py")),
    *(ROOT / "harness" / f"{name}.py" for name in ("oracle", "parts", "arithmetic", "contracts", "shapes")),
    *sorted((ROOT / "references").glob("*.py")),
)
EXPECTED = sorted(
    path for path in (ROOT / "tests").glob("*.py") if not path.name.startswith(("test_executors", "tutorial"))
)
"""Where tests make what they expect. tests/quality holds kernels, and executors compute as kernels do."""

KERNELS = {
    "an_int8_product_through_float16_is_wrong": "an int8 product through float16, which is wrong",
    "reciprocal_rounded": "a wrong kernel",
    "fp8_by_torch_is_right_and_a_double_rounding_is_not": "the kernel of a double rounding, which is wrong",
    "casts_are_noted": "casts for this file to find",
}
"""Functions of the tests that are kernels, or wrong on purpose, by their names without test_."""


def casts_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines of calls that name a narrow format of torch or ml_dtypes as what to make of a value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.removeprefix("test_") in KERNELS:
            for inner in ast.walk(node):
                inner.excused = True  # type: ignore[attr-defined]
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        names = {
            part.attr
            for a in (*node.args, *node.keywords)
            for part in ast.walk(a)
            if isinstance(part, ast.Attribute)
        }
        narrow = any(name.startswith(("float16", "bfloat16", "float8", "half")) for name in names)
        cast = node.func.attr in ("half", "bfloat16") and not node.args
        if cast or (node.func.attr in ("to", "type", "astype") and narrow and not _numpy(node)):
            yield node.lineno, ast.unparse(node)


def _numpy(call: ast.Call) -> bool:
    """Whether a cast is NumPy's own, which rounds once: not that of the types of ml_dtypes."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "astype" and "np." in ast.unparse(call)


def _found(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    found = list(casts_in(tree))
    excused = {
        node.lineno for node in ast.walk(tree) if getattr(node, "excused", False) and hasattr(node, "lineno")
    }
    return [f"{path.name}:{line} {text}" for line, text in found if line not in excused]


def test_the_source_of_what_judges_names_no_cast() -> None:
    assert not [text for path in JUDGING for text in _found(path)]
    assert "ml_dtypes" not in "".join(path.read_text() for path in JUDGING)


def test_the_tests_expect_nothing_that_a_library_cast() -> None:
    assert not [text for path in EXPECTED for text in _found(path)]


def test_source_checks_see_a_cast() -> None:
    text = "x.to(torch.bfloat16)\ny.half()\nz.astype(ml_dtypes.bfloat16)\nok.to(torch.float64)\nn.astype(np.float16)"
    assert [line for line, _ in casts_in(ast.parse(text))] == [1, 2, 3]
