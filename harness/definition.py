"""A definition held to what its contract declares: the shapes, the independent rows, the stated answers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import torch

from harness import formats
from harness.arithmetic import Arithmetic
from harness.case import Case
from harness.contracts import Contract, Output, SpecialRow, written
from harness.errors import HarnessError
from harness.numbers import Answer
from harness.numbers.model import Model
from harness.oracle import arguments, model_for, read_definition, written_at
from harness.parts import Part, situation


def check_shapes(
    contract: Contract, arithmetic: Arithmetic, case: Case, exact: Mapping[str, torch.Tensor | None]
) -> None:
    """Raise HarnessError where the definition returns another shape than its contract declares.

    Axes of length 1 do not count: reductions keep theirs.
    """
    contract = contract.at(case.sizes)
    shapes = [contract.shape(output.shape, case.sizes, case.scalars) for output in contract.outputs]
    answers = _unlaunched(contract, model_for(contract, arithmetic, case), case, exact)
    for output, answer, shape in zip(contract.outputs, answers, shapes, strict=True):
        returned = list(answer.value.shape)
        if output.kind != "choice" and _long(returned) != _long(shape):
            what = f"returned {output.name} of shape {returned}"
            declared = f"{written(output.shape, case.scalars)!r}, here {list(shape)}"
            raise HarnessError(
                f"the definition of contract {contract.name} {what}, and the contract declares {declared}: "
                "correct the one or the other"
            )


def check_rows(contract: Contract, case: Case, exact: Mapping[str, torch.Tensor | None]) -> None:
    """Raise HarnessError where the definition gives a situation something else beside others than alone.

    Situations are what a contract's ``rows`` says is independent: checks change all but one, and the oracle reads
    one alone. Of the first and the last, by the float64 reading, whose radius is small beside float32's errors.
    """
    contract = contract.at(case.sizes)
    model = Arithmetic().model(contract, formats.FLOAT32)
    count = contract.situations(case.sizes, case.scalars)
    beside = _unlaunched(contract, model, case, exact)
    for number in (0, count - 1):
        part = situation(contract, case, number, numbered=beside[0].numbered)
        alone = _unlaunched(contract, model, case, exact, part)
        for output, *answers in zip(contract.outputs, beside, alone, strict=True):
            if output.kind != "choice" and part.has(output.shape):
                shape = contract.shape(output.shape, case.sizes, case.scalars)
                _check_alone(contract, *(_within(part, output, shape, answer) for answer in answers))


def check_answer(
    contract: Contract,
    arithmetic: Arithmetic,
    case: Case,
    exact: Mapping[str, torch.Tensor | None],
    special: SpecialRow,
) -> None:
    """Raise HarnessError where the definition gives something else than what is stated of a special row.

    exact: of rows that all are this one. What an implementation may answer is no contradiction.
    """
    assert special.answer is not None
    stated = formats.number_of(special.answer)
    contract = contract.at(case.sizes)
    for answer in _unlaunched(contract, model_for(contract, arithmetic, case), case, exact):
        value, t = answer.value, answer.t
        same = (value == stated) | (torch.isnan(value) & math.isnan(stated)) | ((value - stated).abs() <= t)
        wrong = ~same & (answer.may == 0)
        if bool(wrong.any()):
            raise HarnessError(
                f"the definition of contract {contract.name}{written_at(contract)} gives {float(value[wrong][0]):.9g} for "
                f"the special row {special.name!r}, which says {special.answer}: correct the one or the other"
            )


def _unlaunched(
    contract: Contract,
    model: Model,
    case: Case,
    exact: Mapping[str, torch.Tensor | None],
    part: Part | None = None,
) -> list[Answer]:
    """The float64 reading of a case or a part, in the definition's own shapes, as if zeros had been returned."""
    part = part or Part(contract, case)
    shapes = [contract.shape(output.shape, case.sizes, case.scalars) for output in contract.outputs]
    zeros = part.outputs([torch.zeros(shape, dtype=torch.float64) for shape in shapes])
    call = arguments(contract, case, part.inputs(exact), zeros)
    return read_definition(contract, call, model, [None] * len(shapes), 0)


def _long(shape: Sequence[int]) -> list[int]:
    return [length for length in shape if length != 1]


def _within(part: Part, output: Output, shape: tuple[int, ...], answer: Answer) -> Answer:
    """The elements of an answer that belong to a part, in a row; all of one that is of the part alone."""

    def row(tensor: torch.Tensor) -> torch.Tensor:
        whole = tensor.numel() == math.prod(shape)
        return (part.of(output.shape, tensor.reshape(shape)) if whole else tensor).reshape(-1)

    return dataclasses.replace(answer, value=row(answer.value), t=row(answer.t), may=row(answer.may))


def _check_alone(contract: Contract, beside: Answer, alone: Answer) -> None:
    """Raise HarnessError where two readings of one situation are further apart than their radii."""
    a, b = beside.value, alone.value
    near = (a - b).abs() <= beside.radius * beside.t + alone.radius * alone.t
    wrong = ~(near | (a == b) | (a.isnan() & b.isnan())) & (beside.may == 0) & (alone.may == 0)
    if bool(wrong.any()):
        raise HarnessError(
            f"the definition of contract {contract.name}{written_at(contract)} gives {float(a[wrong][0]):.9g} for an "
            f"element beside others and {float(b[wrong][0]):.9g} for the same alone, and rows={contract.rows!r} says "
            "that they are independent: correct the one or the other"
        )
