"""Tells kernel authors whether their GPU kernels are numerically right.

``harness.check(fn, references.softmax)`` judges an implementation; ``@harness.conforms(...)`` makes a pytest
test of it; ``@harness.contract(...)`` turns a definition of one's own into a contract. Names are imported
when first used, so that importing the package loads neither torch nor triton.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Arithmetic": "harness.arithmetic",
    "Case": "harness.case",
    "Choice": "harness.contracts",
    "Contract": "harness.contracts",
    "Dim": "harness.contracts",
    "Domain": "harness.domain",
    "Finding": "harness.verdict",
    "HarnessError": "harness.errors",
    "Output": "harness.contracts",
    "SpecialRow": "harness.contracts",
    "Tensor": "harness.contracts",
    "Unsupported": "harness.errors",
    "Verdict": "harness.verdict",
    "check": "harness.search",
    "conforms": "harness.conform",
    "contract": "harness.declaration",
    "cpu": "harness.executors",
    "subject": "harness.subjects",
}

__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'harness' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
