"""The tiers of the oracle: float64 for accumulators up to float32, mpmath beyond and where float64 is lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harness import formats
from harness.arithmetic import Arithmetic
from harness.case import Case, situation_of
from harness.checks.sentence import Judgement, Target, judge
from harness.contracts import Contract, Written, written
from harness.errors import HarnessError
from harness.formats import Format
from harness.numbers import Answer, read_exactly, read_float64
from harness.numbers.model import Model
from harness.numbers.number import LOST

MOST_ESCALATED = 64
"""Situations of one launch that are read again in mpmath; lost elements of the others count as unbounded."""


@dataclasses.dataclass(frozen=True)
class Judged:
    """The judgement of every output, and how many elements went up to mpmath."""

    outputs: tuple[Judgement, ...]
    escalated: int


def model_for(contract: Contract, arithmetic: Arithmetic, case: Case) -> Model:
    """The error model of a case: that of the format under test."""
    return arithmetic.model(contract, format_under_test(contract, case))


def dtype_under_test(contract: Contract, case: Case) -> str:
    """The format or integer dtype of the first tensor whose dtype the contract leaves open."""
    contract = contract.at(case.sizes)
    given = {name: recipe.format for name, recipe in case.tensors.items() if recipe is not None}
    return next(
        (given[name] for name, spec in contract.tensors.items() if not spec.dtype and name in given),
        "float32",
    )


def format_under_test(contract: Contract, case: Case) -> Format:
    """The format under test; float32, in which kernels scale and store them, where that is an integer dtype."""
    name = dtype_under_test(contract, case)
    return formats.FLOAT32 if formats.is_integer(name) else formats.format_of(name)


def output_dtypes(contract: Contract, case: Case) -> list[tuple[str, ...]]:
    """Names of the dtypes that each output may have: as written, of the argument it is, or under test."""
    tested = dtype_under_test(contract, case)
    found = []
    for output in contract.outputs:
        recipe = case.tensors.get(output.argument)
        usual = recipe.format if recipe is not None else tested
        many = output.dtype if isinstance(output.dtype, tuple) else (output.dtype,)
        call = {**case.scalars, "format": tested}
        found.append(tuple(dict.fromkeys(usual if one is None else written(one, call) for one in many)))
    return found


def targets(
    contract: Contract, arithmetic: Arithmetic, case: Case, dtypes: Sequence[str] | None = None
) -> list[Target]:
    """How each output of a case is judged. dtypes: those returned, by default the first that each may have."""
    accumulator = arithmetic.accumulator_for(format_under_test(contract, case))
    found = []
    dtypes = dtypes or [names[0] for names in output_dtypes(contract, case)]
    for output, dtype in zip(contract.outputs, dtypes, strict=True):
        fmt = None if formats.is_integer(dtype) else formats.format_of(dtype)
        full = (
            arithmetic.saturate if arithmetic.saturate is not None else fmt is not None and not fmt.infinities
        )
        kind = "exact" if fmt is None and output.kind == "number" else output.kind
        found.append(Target(kind, fmt, accumulator, output.clamp, full))
    return found


def decoded(tensor: torch.Tensor) -> torch.Tensor:
    """The exact float64 values of a returned tensor, on the CPU and its own no more; integers up to 2^53."""
    tensor = tensor.detach()
    if tensor.dtype is torch.float64:
        return tensor.cpu().clone()
    return (formats.decode(tensor) if tensor.dtype.is_floating_point else tensor.to(torch.float64)).cpu()


def arguments(
    contract: Contract,
    case: Case,
    exact: Mapping[str, torch.Tensor | None],
    got: Sequence[torch.Tensor] = (),
) -> dict[str, Any]:
    """The arguments of the definition by name: exact float64 tensors, scalars, and the outputs it is given."""
    scalars = {name: contract.scalar(name, case.sizes, case.scalars) for name in contract.scalars}
    call = contract.grouped({**{name: exact.get(name) for name in contract.tensors}, **scalars})
    if contract.given:
        call["given"] = {name: _returned(contract, name, got) for name in contract.given}
    return call


def _returned(contract: Contract, name: str, got: Sequence[torch.Tensor]) -> Any:
    """What was returned under a name: a tensor, or the list of them."""
    named = [(output.name, tensor) for output, tensor in zip(contract.outputs, got, strict=False)]
    listed = [tensor for found, tensor in named if found.startswith(f"{name}[")]
    return listed or dict(named).get(name)


def judge_case(
    contract: Contract,
    arithmetic: Arithmetic,
    case: Case,
    exact: Mapping[str, torch.Tensor | None],
    got: Sequence[torch.Tensor],
    dtypes: Sequence[str] | None = None,
) -> Judged:
    """Judge the outputs of one launch, [each its shape] as exact float64 values of their dtypes."""
    model = model_for(contract, arithmetic, case)
    wanted = targets(contract, arithmetic, case, dtypes)
    shapes = [_answer_shape(target, tensor) for target, tensor in zip(wanted, got, strict=True)]
    call = arguments(contract, case, exact, got)
    wide = model.u < formats.FLOAT32.u
    answers = _read(contract, call, model, shapes, wide)
    outputs = [
        judge(tensor, answer, target) for tensor, answer, target in zip(got, answers, wanted, strict=True)
    ]
    if wide:
        return Judged(tuple(outputs), sum(tensor.numel() for tensor in got))
    if not any(answer.lost for answer in answers):
        return Judged(tuple(outputs), 0)
    return _escalated(contract, model, wanted, case, exact, got, answers, outputs)


def _answer_shape(target: Target, tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The shape in which an answer is wanted; None for scores, which have one axis more."""
    return None if target.kind == "choice" else tuple(tensor.shape)


def _read(
    contract: Contract,
    call: Mapping[str, Any],
    model: Model,
    shapes: list[tuple[int, ...] | None],
    wide: bool,
) -> list[Answer]:
    """Read a definition; what it raises is the definition's mistake, not the kernel's."""
    try:
        return (read_exactly if wide else read_float64)(contract.definition, call, model, shapes)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, RuntimeError) as error:
        raise HarnessError(
            f"the definition of contract {contract.name} failed: {type(error).__name__}: {error}"
        ) from error


def _escalated(
    contract: Contract,
    model: Model,
    wanted: Sequence[Target],
    case: Case,
    exact: Mapping[str, torch.Tensor | None],
    got: Sequence[torch.Tensor],
    answers: Sequence[Answer],
    outputs: list[Judgement],
) -> Judged:
    """Judge again, in mpmath, the situations in which the float64 reading left its own range."""
    owners = [situation_of(contract, case, output) for output in contract.outputs]
    lost = sorted(
        {
            int(s)
            for owner, answer in zip(owners, answers, strict=True)
            if answer.may.shape == owner.shape
            for s in owner[(answer.may & LOST) != 0]
        }
    )
    escalated = 0
    for number in lost[:MOST_ESCALATED]:
        part = {name: _slice(contract, case, name, value, number) for name, value in exact.items()}
        masks = [(owner == number) | (number < 0) for owner in owners]
        shapes = [_part_shape(contract, case, output.shape, number) for output in contract.outputs]
        pieces = [tensor[mask].reshape(shape) for tensor, mask, shape in zip(got, masks, shapes, strict=True)]
        read = _read(contract, arguments(contract, case, part, pieces), model, list(shapes), wide=True)
        for i, answer in enumerate(read):
            piece = judge(pieces[i], answer, wanted[i])
            escalated += piece.right.numel()
            outputs[i] = _patched(outputs[i], masks[i], piece)
    return Judged(tuple(outputs), escalated)


def _coordinates(contract: Contract, case: Case, number: int) -> dict[tuple[str, int], int]:
    """The index of situation ``number`` along each row axis."""
    found = {}
    for axis in reversed(contract.row_labels(case.sizes, case.scalars)):
        number, found[axis.label] = divmod(number, axis.length)
    return found


def _slice(contract: Contract, case: Case, name: str, value: Any, number: int) -> Any:
    """The part of a tensor argument that one situation uses, its axes kept."""
    if not isinstance(value, torch.Tensor) or number < 0:
        return value
    where = _coordinates(contract, case, number)
    for at, axis in enumerate(contract.axes(contract.tensors[name].shape, case.sizes, case.scalars)):
        if axis.label in where:
            value = value.narrow(at, where[axis.label], 1)
    return value


def _part_shape(contract: Contract, case: Case, shape: Written, number: int) -> tuple[int, ...]:
    rows = set() if number < 0 else set(_coordinates(contract, case, number))
    axes = contract.axes(shape, case.sizes, case.scalars)
    return tuple(1 if axis.label in rows else axis.length for axis in axes)


def _patched(whole: Judgement, mask: torch.Tensor, piece: Judgement) -> Judgement:
    fields = {}
    for item in dataclasses.fields(Judgement):
        value = getattr(whole, item.name)
        if isinstance(value, torch.Tensor):
            value = value.clone()
            value[mask] = getattr(piece, item.name).reshape(-1)
        fields[item.name] = value
    return Judgement(**fields)
