"""A failure as a person needs it: the smallest input as Python to paste, and a command that replays it."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import torch

from harness import oracle
from harness.case import Case, materialise, shape_of
from harness.checks.failure import Failure
from harness.contracts import Contract
from harness.subjects import contract_names, load_contract, spec_of
from harness.trial import Subject
from harness.verdict import Finding

LONGEST_SNIPPET = 256
"""Elements of storage that a snippet writes out."""


MEMORY = frozenset(
    {"surroundings", "written", "undefined values", "out of bounds", "race", "repeatable", "offset overflow"}
)
"""Checks whose failures a plain call need not show: the harness fills and guards memory, and launches again."""


def finding(subject: Subject, failure: Failure, case: Case, explanation: str = "") -> Finding:
    """The finding of one failure on its smallest case."""
    contract = subject.contract.at(case.sizes)
    output = contract.outputs[failure.output].name if contract.outputs else "out"
    return Finding(
        check=failure.check,
        message=failure.message + _empty_axes(subject, failure, case),
        case=case,
        element=failure.element,
        format=oracle.dtype_under_test(contract, case),
        replay=replay_command(subject, case),
        snippet=_with_warning(snippet(subject, case), failure),
        explanation=explanation,
        output=output,
    )


def _with_warning(code: str, failure: Failure) -> str:
    """A snippet, with a word where what fails depends on more than its values."""
    if not code or failure.check not in MEMORY:
        return code
    return f"{code}\n# may look right when pasted: replay it, as what the memory around and under tensors holds matters"


def _empty_axes(subject: Subject, failure: Failure, case: Case) -> str:
    """What to write where a kernel raises because an axis has no element; "" elsewhere."""
    empty = [name.strip("*@") for name, size in case.sizes.items() if size == 0 or _holds_zero(size)]
    if failure.check != "raises" or not empty:
        return ""
    declined = "a kernel that does not support it raises harness.Unsupported before it launches anything"
    if _of_references(subject.contract):
        return f"; {' and '.join(empty)} is empty here; {declined}"
    names = ", ".join(map(repr, empty)) + ("," if len(empty) == 1 else "")
    return (
        f"; {' and '.join(empty)} is empty here; where the operation has no answer for that, give its contract "
        f"nonempty=({names}); {declined}"
    )


def too_large(passed: int, failing: int) -> str:
    """What to write where a kernel raises on more elements than all that it took; "" elsewhere."""
    if not 0 < passed < failing:
        return ""
    return (
        f"; tensors of up to {passed} elements passed: where more are not supported, raise harness.Unsupported "
        f"before anything is launched, or say --domain max_elements={passed}"
    )


def _holds_zero(size: int | tuple[int, ...]) -> bool:
    return isinstance(size, tuple) and 0 in size


def replay_command(subject: Subject, case: Case) -> str:
    """One shell line that judges the case again in a new process."""
    target = subject.target or "FILE.py:FUNCTION"
    words = ["harness", "replay", target, "--as", contract_spec(subject.contract)]
    if subject.device != "cpu":
        words += ["--device", subject.device]
    claims = subject.arithmetic.claimed()
    if claims:
        words += ["--claims", json.dumps(claims)]
    domain = {key: value for key, value in subject.domain.written().items() if key != "large"}
    if domain:
        words += ["--domain", json.dumps(domain)]
    words += ["--case", case.to_json()]
    return " ".join(shlex.quote(word) for word in words)


def contract_spec(contract: Contract) -> str:
    """The name by which the command line finds a contract."""
    if _of_references(contract):
        return contract.name
    found = spec_of(contract.definition, contract)
    return found or contract.name


def _of_references(contract: Contract) -> bool:
    return contract.name in contract_names() and load_contract(contract.name) is contract


def snippet(subject: Subject, case: Case) -> str:
    """Python lines that rebuild the tensors, strides included, and call the function; "" if they are long."""
    contract = subject.contract.at(case.sizes)
    for name, recipe in case.tensors.items():
        if recipe is not None and recipe.layout.span(shape_of(contract, case, name)) > LONGEST_SNIPPET:
            return ""
    inputs = materialise(contract, case, device="cpu", guard_fill="nan")
    lines = []
    for name, value in inputs.named.items():
        if isinstance(value, torch.Tensor):
            lines.append(f"{name} = {_tensor(value, inputs.exact[name])}")
    if any("inf" in line or "nan" in line for line in lines):
        lines.insert(0, "from math import inf, nan")
    call = {
        name: name if isinstance(value, torch.Tensor) else repr(value) for name, value in inputs.named.items()
    }
    lines = [_variable(line) for line in lines]
    positional, keywords = contract.bind({name: _variable(word) for name, word in call.items()})
    words = [*map(_argument, positional), *(f"{key}={_argument(value)}" for key, value in keywords.items())]
    return "\n".join(["import torch", *lines, f"{subject.name}({', '.join(words)})"])


def _argument(word: Any) -> str:
    """An argument as written in a call; a list of tensors as a list of names."""
    return f"[{', '.join(word)}]" if isinstance(word, list) else str(word)


def _variable(text: str) -> str:
    """A name such as ``shards[0]`` at the start of a text as a Python variable."""
    return re.sub(r"^(\w+)\[(\d+)\]", r"\1_\2", text)


def _tensor(value: torch.Tensor, exact: torch.Tensor) -> str:
    dtype = f"dtype={value.dtype}"
    if value.is_contiguous():
        if value.numel() == 0:
            return f"torch.empty({list(value.shape)}, {dtype})"
        return f"torch.tensor({_listed(exact.tolist())}, {dtype})"
    span = 1 + sum((n - 1) * stride for n, stride in zip(value.shape, value.stride(), strict=True))
    if value.numel() == 0:
        return f"torch.empty(0, {dtype}).as_strided({tuple(value.shape)}, {value.stride()})"
    storage = torch.full((span,), torch.nan, dtype=torch.float64)
    for index in (
        torch.cartesian_prod(*(torch.arange(n) for n in value.shape)).reshape(-1, value.ndim).tolist()
    ):
        storage[sum(i * stride for i, stride in zip(index, value.stride(), strict=True))] = exact[
            tuple(index)
        ]
    return f"torch.tensor({_listed(storage.tolist())}, {dtype}).as_strided({tuple(value.shape)}, {value.stride()})"


def _listed(values: Any) -> str:
    if isinstance(values, list):
        return "[" + ", ".join(_listed(value) for value in values) + "]"
    return f"{values:g}" if values == float(f"{values:g}") or values != values else repr(values)
