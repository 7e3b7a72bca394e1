"""The tiers of the oracle: float64, double-double, mpmath, each where the one before is not exact enough.

Accumulators up to float32 are judged by float64, whose radius is a share of t that the ratio of the unit
roundoffs settles, those of float64 by double-double, and by mpmath what no share settles: a claim that allows
no error. Situations in which a reading left its own range, or a code or a choice lies within its radius of
a boundary, go up alone.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from harness import formats
from harness.arithmetic import Arithmetic
from harness.case import Case, situation_of
from harness.checks.judgement import Joined, Judgement, Later, Ordinary, Target
from harness.checks.sentence import judge
from harness.contracts import Contract, written
from harness.errors import HarnessError
from harness.executors.origin import locate, short
from harness.formats import Format
from harness.numbers import Answer, read_double, read_exactly, read_float64
from harness.numbers.misuse import instead
from harness.numbers.model import Model
from harness.numbers.number import LOST
from harness.numbers.radius import DOUBLE_U, FLOAT64_U, SMALL_ENOUGH, share, terms
from harness.numbers.read import WrongResults
from harness.parts import Part, parts, situation

MOST_ESCALATED = 64
"""Situations of one launch that are read again; lost elements of the others count as unbounded."""

TIERS = ("float64", "double-double", "mpmath")
DOUBLE, MPMATH = 1, 2
_READINGS = (read_float64, read_double, read_exactly)


@dataclasses.dataclass(frozen=True)
class Judged:
    """The judgement of every output, and how many elements each tier beyond float64 judged."""

    outputs: tuple[Judgement, ...]
    escalated: Counter[str]


def model_for(contract: Contract, arithmetic: Arithmetic, case: Case) -> Model:
    """The error model of a case: that of the format under test."""
    return arithmetic.model(contract, format_under_test(contract, case))


def dtype_under_test(contract: Contract, case: Case) -> str:
    """The format or integer dtype of the first tensor whose dtype the contract leaves open."""
    for name, spec in contract.at(case.sizes).tensors.items():
        recipe = case.tensors.get(name)
        if recipe is not None and not spec.dtype:
            return recipe.format
    return "float32"


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
    """Judge the outputs of one launch, [each its shape] as exact float64 values of their dtypes.

    By the least exact reading whose radius is a small share of t; the situations whose elements it leaves
    open, by the next.
    """
    model = model_for(contract, arithmetic, case)
    launch = _Launch(contract, case, exact, got, model, targets(contract, arithmetic, case, dtypes))
    return launch.judged(first_tier(model, terms(exact.values())))


def judge_as(
    contract: Contract,
    arithmetic: Arithmetic,
    case: Case,
    exact: Mapping[str, torch.Tensor | None],
    got: Sequence[torch.Tensor],
    dtypes: Sequence[str],
) -> list[Judgement] | None:
    """Judge outputs as those of another launch than the one that gave them.

    Of a larger launch whose outputs begin alike, their beginning. None where its outputs have other shapes.
    """
    model = model_for(contract, arithmetic, case)
    shapes = [contract.shape(output.shape, case.sizes, case.scalars) for output in contract.outputs]
    if any(
        len(shape) != tensor.ndim or any(n < m for n, m in zip(shape, tensor.shape, strict=True))
        for shape, tensor in zip(shapes, got, strict=True)
    ):
        return None
    call = arguments(contract, case, exact, got)
    wanted = targets(contract, arithmetic, case, dtypes)
    whole: list[tuple[int, ...] | None] = [
        None if target.kind == "choice" else shape for target, shape in zip(wanted, shapes, strict=True)
    ]
    answers = read_definition(contract, call, model, whole, first_tier(model, terms(exact.values())))
    return [
        judge(tensor, _beginning(answer, tensor), target)
        for tensor, answer, target in zip(got, answers, wanted, strict=True)
    ]


def _beginning(answer: Answer, like: torch.Tensor) -> Answer:
    """The part of an answer that a smaller output has."""
    part = tuple(slice(0, n) for n in like.shape)
    return dataclasses.replace(answer, value=answer.value[part], t=answer.t[part], may=answer.may[part])


def first_tier(model: Model, count: int) -> int:
    """The first of TIERS whose radius over at most ``count`` terms is small enough."""
    for tier, u in enumerate((FLOAT64_U, DOUBLE_U)):
        if share(model, u, count) <= SMALL_ENOUGH:
            return tier
    return MPMATH


def read_definition(
    contract: Contract,
    call: Mapping[str, Any],
    model: Model,
    shapes: list[tuple[int, ...] | None],
    tier: int,
    *,
    brief: bool = False,
) -> list[Answer]:
    """Read a definition; what it raises is the definition's mistake, not the kernel's."""
    try:
        if brief:
            return read_float64(contract.definition, call, model, shapes, brief=True)
        return _READINGS[tier](contract.definition, call, model, shapes)
    except WrongResults as error:
        raise HarnessError(
            f"the definition of contract {contract.name}{written_at(contract)} {error}"
        ) from error
    except (HarnessError, MemoryError):
        raise
    except Exception as error:
        raise HarnessError(
            f"the definition of contract {contract.name} failed: {locate(error, instead(error))}"
        ) from error


def written_at(contract: Contract) -> str:
    """Where a definition is written, " (file:line)"; "" of what has no source."""
    code = getattr(contract.definition, "__code__", None)
    return f" ({short(code.co_filename)}:{code.co_firstlineno})" if code is not None else ""


@dataclasses.dataclass(frozen=True)
class _Reading:
    """What one reading says of a part of a launch, and the situations that it leaves open."""

    outputs: list[Judgement]
    lost: set[int]
    doubtful: set[int]
    numbered: bool = False


@dataclasses.dataclass(frozen=True)
class _Launch:
    """One launch and how its outputs are judged."""

    contract: Contract
    case: Case
    exact: Mapping[str, torch.Tensor | None]
    got: Sequence[torch.Tensor]
    model: Model
    wanted: Sequence[Target]

    def judged(self, tier: int) -> Judged:
        """Every element by a reading; what it leaves open by more exact ones.

        Lost elements go to mpmath, which has no range, doubtful ones to the next tier.
        """
        count = sum(tensor.numel() for tensor in self.got)
        escalated = Counter({TIERS[tier]: count} if tier else {})
        pieces = parts(self.contract, self.case, self.exact, self.got)
        readings = [self._reading(part, tier) for part in pieces]
        outputs = [self._whole(number, pieces, readings) for number in range(len(self.got))]
        lost = sorted(set().union(*(reading.lost for reading in readings)))
        doubtful = sorted(set().union(*(reading.doubtful for reading in readings)) - set(lost))
        if tier == DOUBLE and len(lost) > MOST_ESCALATED:
            escalated[TIERS[MPMATH]] += count
            return Judged(tuple(self._reading(Part(self.contract, self.case), MPMATH).outputs), escalated)
        numbered = any(reading.numbered for reading in readings)
        for numbers, next_tier in ((doubtful, tier + 1), (lost, MPMATH)):
            for part in self._situations(numbers[:MOST_ESCALATED], numbered):
                self._again(outputs, part, next_tier, escalated)
        return Judged(tuple(outputs), escalated)

    @functools.cached_property
    def _owners(self) -> list[torch.Tensor]:
        return [situation_of(self.contract, self.case, output) for output in self.contract.outputs]

    def _reading(self, part: Part, tier: int) -> _Reading:
        """Read and judge a part."""
        got = part.outputs(self.got)
        shapes = [
            None if target.kind == "choice" else tuple(tensor.shape)
            for target, tensor in zip(self.wanted, got, strict=True)
        ]
        call = arguments(self.contract, self.case, part.inputs(self.exact), got)
        read = functools.partial(read_definition, self.contract, call, self.model, shapes, tier)
        answers = read(brief=tier == 0)
        if any(answer.shortened for answer in answers):
            judgements = self._judged_briefly(got, answers, read)
            if judgements is not None:
                return _Reading(judgements, set(), set(), any(answer.numbered for answer in answers))
            answers = read()
        found = _Reading([], set(), set(), any(answer.numbered for answer in answers))
        for i, of in enumerate(zip(got, answers, self.wanted, strict=True)):
            found.outputs.append(judge(*of))
            for open_, mask in (
                (found.lost, _lost(answers[i])),
                (found.doubtful, _doubtful(*of, found.outputs[i])),
            ):
                if mask is not None and bool(mask.any()):
                    owner = part.of(self.contract.outputs[i].shape, self._owners[i])
                    open_.update(owner[(mask if mask.ndim == owner.ndim else mask.any(-1)).cpu()].tolist())
        return found

    def _judged_briefly(
        self, got: Sequence[torch.Tensor], answers: Sequence[Answer], read: Callable[[], list[Answer]]
    ) -> list[Judgement] | None:
        """What is right everywhere by shortened answers is right; the rest of the judgement is read in full for
        who asks. None where some element is not right, or something else may be said of it."""
        brief = [judge(*of) for of in zip(got, answers, self.wanted, strict=True)]
        if not all(isinstance(judged, Ordinary) and judged.right_everywhere for judged in brief):
            return None

        @functools.cache
        def full() -> list[Judgement]:
            return [judge(*of) for of in zip(got, read(), self.wanted, strict=True)]

        return [Later(tensor.shape, full, number) for number, tensor in enumerate(got)]

    def _whole(self, number: int, pieces: Sequence[Part], readings: Sequence[_Reading]) -> Judgement:
        """The judgement of one output from those of its parts."""
        if len(pieces) == 1:
            return readings[0].outputs[number]
        axis = pieces[0].axis(self.contract.outputs[number].shape)
        return Joined([reading.outputs[number] for reading in readings], axis)

    def _situations(self, numbers: Sequence[int], numbered: bool) -> list[Part]:
        """The parts of some situations, each once."""
        found = {}
        for number in numbers:
            part = situation(self.contract, self.case, number, numbered=numbered)
            found[tuple(part.ranges.items())] = part
        return list(found.values())

    def _again(self, outputs: list[Judgement], part: Part, tier: int, escalated: Counter[str]) -> None:
        """A part judged by a reading, and by the next where that too leaves some of it open."""
        reading = self._reading(part, tier)
        for i, piece in enumerate(reading.outputs):
            shape = self.contract.outputs[i].shape
            if part.has(shape):
                escalated[TIERS[tier]] += piece.right.numel()
                outputs[i] = _patched(outputs[i], part.mask(shape, self._owners[i]), piece)
        if tier < MPMATH and (reading.lost or reading.doubtful):
            self._again(outputs, part, tier + 1, escalated)


def _lost(answer: Answer) -> torch.Tensor | None:
    """Mask of elements in which a reading left its own range; None where there are none."""
    return (answer.may & LOST) != 0 if answer.context is None and answer.lost else None


def _doubtful(got: torch.Tensor, answer: Answer, target: Target, judged: Judgement) -> torch.Tensor | None:
    """Mask of codes and choices that are right only because t includes the reading's radius."""
    if target.kind == "number" or answer.context is not None or not answer.radius:
        return None
    if target.kind == "exact":
        inexact: torch.Tensor = answer.t > 0
        return inexact
    narrow = dataclasses.replace(answer, t=answer.t * (1 - 2 * answer.radius))
    differs: torch.Tensor = judge(got, narrow, target).right != judged.right
    return differs


def _patched(whole: Judgement, mask: torch.Tensor, piece: Judgement) -> Judgement:
    fields = {}
    for item in dataclasses.fields(Judgement):
        value = getattr(whole, item.name)
        if isinstance(value, torch.Tensor):
            value = value.clone()
            value[mask] = getattr(piece, item.name).reshape(-1, *value.shape[mask.ndim :])
        fields[item.name] = value
    return Judgement(**fields)
