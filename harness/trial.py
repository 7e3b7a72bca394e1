"""One trial: a case is materialised, the function launched a few times, and everything it did is checked.

The first launch is judged by the sentence. Reruns with other surroundings, other initial contents of the
memory it allocates, other rows and a contiguous copy tell what a wrong or moving answer depends on.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from harness import interrupt, journal, oracle
from harness.admission import objection
from harness.arithmetic import Arithmetic
from harness.case import Case, Inputs, materialise, situation_of
from harness.checks.agreement import same_bits, wrong_elements
from harness.checks.failure import Check, Failure
from harness.checks.judgement import Judgement
from harness.checks.ownership import (
    Before,
    changed_inputs,
    seen_by_executor,
    shared_between_calls,
    shared_with_arguments,
    written_outside,
)
from harness.checks.structure import mismatch, returned_tensors
from harness.checks.wording import element_text
from harness.contracts import Contract
from harness.counting import count_judged, plain_situations
from harness.definition import check_shapes
from harness.domain import Domain
from harness.executors import Execution, MemoryFault, execute
from harness.formats import Format
from harness.memory import allocate
from harness.rearrange import rearranged
from harness.simplify import FILLS, changed_others, contiguous, of_domain
from harness.verdict import Tally

LARGE = ("+large", "-large")

MOST_CONFIGS = 8
"""Configurations of autotuned kernels, beside the first, that one trial judges."""


@dataclass(frozen=True)
class Subject:
    """A function under test with everything it is judged by. target: how another process finds it.

    every_config: each trial judges all configurations of an autotuned kernel, rather than the first and
    `MOST_CONFIGS` others in turn.
    """

    function: Callable[..., Any]
    name: str
    contract: Contract
    arithmetic: Arithmetic = field(default_factory=Arithmetic)
    domain: Domain = field(default_factory=Domain)
    device: str = "cpu"
    target: str = ""
    timeout: float = 60.0
    every_config: bool = False


@dataclass
class Trial:
    """What one case showed: failures (none: right), counts, and the judged outputs of the first launch.

    plain: by output, the elements of situations whose values come from no cancellation family. dtypes: of the
    outputs, as returned.
    """

    case: Case
    failures: list[Failure] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    exact: dict[str, torch.Tensor] = field(default_factory=dict)
    got: list[torch.Tensor] = field(default_factory=list)
    judgements: tuple[Judgement, ...] = ()
    plain: tuple[torch.Tensor, ...] = ()
    dtypes: tuple[str, ...] = ()

    @property
    def elements(self) -> int:
        """Elements of the largest input."""
        return max((tensor.numel() for tensor in self.exact.values()), default=0)

    @property
    def passed(self) -> bool:
        """Whether something was launched, and nothing failed."""
        return not self.failures and self.tally.launches > 0


def run_trial(subject: Subject, case: Case, *, thorough: bool = True) -> Trial:
    """Judge one case. thorough: also change the other rows, and surround with the third fill."""
    interrupt.again()
    return _Bench(subject, case).run(thorough)


class _Bench:
    """The launches of one case and what they are compared with."""

    def __init__(self, subject: Subject, case: Case) -> None:
        self.subject = subject
        self.contract = subject.contract.at(case.sizes)
        self.case = case
        self.trial = Trial(case)
        self.names = [output.name for output in self.contract.outputs]
        self.dtypes = oracle.output_dtypes(self.contract, case)
        self.formats: list[Format | None] = []
        # What a rank neither sends nor receives may be its input (lists of tensors: collectives).
        self.may_return_arguments = any(output.many for output in subject.contract.outputs)
        self.mutated = {output.argument for output in self.contract.outputs if output.argument}
        self.owners = [situation_of(self.contract, case, output) for output in self.contract.outputs]
        self.turn = int(case.digest, 16)

    def run(self, thorough: bool, *, alone: bool = False) -> Trial:
        """alone: without launches of the same values in other layouts."""
        with self._timed("inputs"):
            self.inputs = materialise(self.contract, self.case, device=self.subject.device, guard_fill="nan")
            self.trial.exact = self.inputs.exact
            self.before = {name: Before.of(block) for name, block in self.inputs.blocks.items()}
        self.trial.tally.launches = 1
        elsewhere = not alone and (thorough or self.subject.arithmetic.layout_invariant)
        first_elsewhere = elsewhere and thorough and self.turn % 2 == 1
        if first_elsewhere:
            # What a function keeps of its first call, as a plan by shapes, is then met by tensors laid out otherwise.
            _ = self._elsewhere
            if self.trial.failures or self.trial.tally.declined:
                self.trial.tally.launches = int(bool(self.trial.failures))
                return self.trial
        first = self._launch(self.inputs, "nan", "nan")
        got = self._outputs(first, self.inputs)
        self._count_inputs(got)
        if got is None:
            self.trial.tally.launches = int(first.outcome != "declined")
            return self.trial
        self._memory(first)
        self.trial.got = got
        self._settle_dtypes(first.value)
        if all(tensor.numel() == 0 for tensor in got):
            self.trial.tally.empty_launches = 1
            return self.trial
        with self._timed("oracle"):
            judged = self._judged(self.case, self.inputs, got)
        self.trial.judgements = judged.outputs
        self.trial.tally.escalated = judged.escalated
        unwritten = self._compare_surroundings(first, got, LARGE[self.turn % 2])
        if thorough and not self.trial.failures:
            self._compare_surroundings(first, got, LARGE[(self.turn + 1) % 2])
        with self._timed("checks"):
            wrong = wrong_elements(got, judged.outputs, self.names, self.formats, self.owners, unwritten)
        if not self.trial.failures:
            self._relations(first)
        moving = {failure.check for failure in self.trial.failures} & {
            "surroundings",
            "written",
            "repeatable",
        }
        if wrong and not moving:
            self.trial.failures += self._blame_layout(wrong)
        if not self.trial.failures:
            self._judge_configs(first)
        if thorough and not self.trial.failures:
            self._compare_rows(got)
        differs = False
        if elsewhere and not self.trial.failures and (values := self._elsewhere) is not None:
            differs = self._compare_layouts(got, values, "before" if first_elsewhere else "after")
        self._count_judged(judged.outputs)
        return self._by_itself() if differs else self.trial

    def answer(self) -> list[torch.Tensor] | None:
        """What one launch returns, and what it does to memory; nothing is judged."""
        self.inputs = materialise(self.contract, self.case, device=self.subject.device, guard_fill="nan")
        self.before = {name: Before.of(block) for name, block in self.inputs.blocks.items()}
        self.trial.tally.launches = 1
        execution = self._launch(self.inputs, "nan", "nan")
        got = self._outputs(execution, self.inputs)
        if got is not None:
            self._memory(execution)
        return got

    def _launch(
        self, inputs: Inputs, surroundings: str, poison: str, configs: Mapping[str, int] | None = None
    ) -> Execution:
        for name, block in inputs.blocks.items():
            if block.fill != surroundings:
                block.surround(surroundings)
            if inputs is self.inputs and block.changed(self.before[name].bits):
                block.restore(self.before[name].bits)
        journal.note(self.case.to_json())
        try:
            with self._timed("kernel"):
                return execute(
                    self.subject.function,
                    inputs.args,
                    inputs.kwargs,
                    device=self.subject.device,
                    fill=poison,
                    timeout=self.subject.timeout,
                    configs=configs,
                )
        finally:
            journal.done()

    def _outputs(self, execution: Execution, inputs: Inputs) -> list[torch.Tensor] | None:
        """The float64 values of what a launch returned; None, with a failure or a count, if there are none."""
        failures = self.trial.failures
        if execution.outcome == "declined":
            self.trial.tally.declined[execution.reason()] += 1
            return None
        if execution.outcome == "raised":
            check: Check = "out of bounds" if isinstance(execution.error, MemoryFault) else "raises"
            failures.append(Failure(check, execution.where()))
            failures += seen_by_executor(execution, self._failed())
            return None
        if execution.outcome == "hung":
            failures.append(Failure("hangs", execution.where()))
            return None
        tensors = returned_tensors(execution.value, self.contract.outputs, inputs.named)
        if isinstance(tensors, Failure):
            failures.append(tensors)
            return None
        execution.value = tensors
        for number, (tensor, output) in enumerate(zip(tensors, self.contract.outputs, strict=True)):
            shape = self.contract.shape(output.shape, self.case.sizes, self.case.scalars)
            wrong = mismatch(tensor, output.name, shape, self.dtypes[number], self.subject.device, number)
            if wrong:
                check_shapes(self.contract, self.subject.arithmetic, self.case, self.trial.exact)
                failures.append(wrong)
                return None
        return [oracle.decoded(tensor) for tensor in tensors]

    def _settle_dtypes(self, tensors: Sequence[torch.Tensor]) -> None:
        """Where a function may choose a dtype, that of its first launch is the one it is held to."""
        self.trial.dtypes = tuple(str(tensor.dtype).removeprefix("torch.") for tensor in tensors)
        self.dtypes = [(name,) for name in self.trial.dtypes]
        targets = oracle.targets(self.contract, self.subject.arithmetic, self.case, self.trial.dtypes)
        self.formats = [target.fmt for target in targets]

    def _memory(self, execution: Execution) -> None:
        """Inputs unchanged, nothing written outside any view, results in memory of their own."""
        blocks = self.inputs.blocks
        self.trial.failures += changed_inputs(blocks, self.before, self.mutated)
        self.trial.failures += written_outside(blocks, execution)
        self.trial.failures += seen_by_executor(execution, self._failed())
        # A kernel that works in place and returns its argument does one thing wrong, not two.
        if not self.may_return_arguments and "inputs unchanged" not in self._failed():
            self.trial.failures += shared_with_arguments(execution.value, self.contract.outputs, blocks)

    def _compare_surroundings(
        self, first: Execution, got: list[torch.Tensor], fill: str
    ) -> list[torch.Tensor]:
        """Launch again with other surroundings and poison; say what a difference depends on.

        Returns, by output, the mask of elements that nobody wrote.
        """
        nothing = [torch.zeros(tensor.shape, dtype=torch.bool) for tensor in got]
        second, values = self._again(fill, fill)
        if values is None:
            return nothing
        if not self.may_return_arguments and not self.trial.failures:
            self.trial.failures += shared_between_calls(first.value, second.value, self.contract.outputs)
        unwritten = [
            _untouched(first, i) & _untouched(second, i) if tensor.numel() else nothing[i]
            for i, tensor in enumerate(got)
        ]
        for i, mask in enumerate(unwritten):
            if bool(mask.any()) and "written" not in self._failed():
                element = tuple(int(j) for j in mask.nonzero()[0])
                self.trial.failures.append(
                    Failure(
                        "written",
                        f"{self.names[i]}{list(element)} was never written ({int(mask.sum())} of {mask.numel()} elements)",
                        element,
                        i,
                        int(self.owners[i][element]),
                    )
                )
        moved = [~same_bits(a, b) & ~mask for a, b, mask in zip(got, values, unwritten, strict=True)]
        serious = [self._serious(i, got[i], values[i]) & mask for i, mask in enumerate(moved)]
        if any(bool(mask.any()) for mask in serious):
            self.trial.failures.append(self._cause(got, values, serious, fill))
        elif any(bool(mask.any()) for mask in moved):
            self._differs("repeatable", "bits differ between two launches", "deterministic", got, moved)
        return unwritten

    def _differs(
        self, check: Check, what: str, claim: str, got: Sequence[torch.Tensor], moved: Sequence[torch.Tensor]
    ) -> None:
        """Bits differ while both answers are right: a note, and a failure under the claim that they may not."""
        if not getattr(self.subject.arithmetic, claim):
            self.trial.tally.notes[what] += 1
            return
        i = next(i for i, mask in enumerate(moved) if bool(mask.any()))
        element = tuple(int(j) for j in moved[i].nonzero()[0])
        text = f"{what}, against the claim {claim}=True: {self.names[i]}{list(element)} was {float(got[i][element]):.9g}"
        self.trial.failures.append(Failure(check, text, element, i, int(self.owners[i][element])))

    def _again(self, surroundings: str, poison: str) -> tuple[Execution, list[torch.Tensor] | None]:
        self.trial.tally.reruns += 1
        execution = self._launch(self.inputs, surroundings, poison)
        return execution, self._outputs(execution, self.inputs)

    def _serious(self, i: int, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Mask of elements of which one of two answers is wrong.

        Two right answers differ in kind (finite, infinite, NaN) only where an overflow makes both right.
        """
        return ~self._accepts(i, a) | ~self._accepts(i, b)

    def _accepts(self, i: int, got: torch.Tensor) -> torch.Tensor:
        return self.trial.judgements[i].accepts(got)

    def _cause(
        self, got: list[torch.Tensor], values: list[torch.Tensor], moved: Sequence[torch.Tensor], fill: str
    ) -> Failure:
        """What a moving answer depends on: chance, its own memory, or what surrounds its inputs."""
        i = next(i for i, mask in enumerate(moved) if bool(mask.any()))
        element = tuple(int(j) for j in moved[i].nonzero()[0])
        where = (element, i, int(self.owners[i][element]))
        text = f"{self.names[i]}{list(element)} is {float(got[i][element]):.9g}, then {float(values[i][element]):.9g}"
        if not self._twice("nan", "nan", i, lambda again: bool(same_bits(again, got[i])[moved[i]].all())):
            return Failure("repeatable", f"{text}, on the same input: it differs from run to run", *where)

        def moves(again: torch.Tensor) -> bool:
            return bool(same_bits(again, values[i])[moved[i]].any())

        if self._twice("nan", fill, i, moves):
            return Failure(
                "written",
                f"{text}, when memory that holds nothing yet (new allocations, masked-off lanes loaded "
                f"without `other`) holds NaN, then {fill}: the answer depends on it",
                *where,
            )
        if not self._twice(fill, fill, i, moves):
            return Failure("repeatable", f"{text}, on the same input: it differs from call to call", *where)
        return Failure(
            "surroundings", f"{text}, when what lies outside the inputs' views is NaN, then {fill}", *where
        )

    def _twice(self, surroundings: str, poison: str, i: int, agrees: Callable[[torch.Tensor], bool]) -> bool:
        """Whether output i agrees in two more launches: what holds in every other call only is no cause."""
        for _ in range(2):
            _, values = self._again(surroundings, poison)
            if values is None or not agrees(values[i]):
                return False
        return True

    def _judge_configs(self, first: Execution) -> None:
        """Each configuration of an autotuned kernel is a kernel of its own: the others are judged too."""
        others = [
            (kernel, number, text)
            for kernel, configs in first.configs.items()
            for number, text in enumerate(configs)
            if number
        ]
        if len(others) > MOST_CONFIGS and not self.subject.every_config:
            start = self.turn % len(others)
            others = (others[start:] + others[:start])[:MOST_CONFIGS]
        for kernel, number, text in others:
            self.trial.tally.reruns += 1
            execution = self._launch(self.inputs, "nan", "nan", {kernel: number})
            self._judge_again(execution)
            if self.trial.failures:
                where = f"in configuration {number} of {kernel} ({text}): "
                self.trial.failures = [replace(f, message=where + f.message) for f in self.trial.failures]
                return

    def _judged(self, case: Case, inputs: Inputs, values: Sequence[torch.Tensor]) -> oracle.Judged:
        """The judgement of what was returned, in the dtypes of the first launch."""
        arithmetic, dtypes = self.subject.arithmetic, self.trial.dtypes
        return oracle.judge_case(self.contract, arithmetic, case, inputs.exact, values, dtypes)

    def _judge_again(self, execution: Execution) -> None:
        """Judge a launch beside the first one, which was right, by its answer and by what the executor saw."""
        values = self._outputs(execution, self.inputs)
        if values is None:
            return
        self._memory(execution)
        self.trial.failures += [
            Failure("written", fault.message) for fault in execution.findings if fault.kind == "written"
        ]
        if all(bool(self._accepts(i, tensor).all()) for i, tensor in enumerate(values)):
            self._relations(execution)
            return
        judged = self._judged(self.case, self.inputs, values).outputs
        self.trial.got, self.trial.judgements = values, judged
        unwritten = [torch.zeros(tensor.shape, dtype=torch.bool) for tensor in values]
        if "written" not in self._failed():
            self.trial.failures += wrong_elements(
                values, judged, self.names, self.formats, self.owners, unwritten
            )

    def _relations(self, execution: Execution) -> None:
        """The contract's exact predicates on what was returned."""
        for name, predicate in self.contract.relations.items():
            wrong = predicate(
                self.contract.grouped({**self.case.scalars, **self.inputs.exact}), execution.value
            )
            if wrong:
                self.trial.failures.append(Failure("relations", f"{name}: {wrong}"))

    @functools.cached_property
    def _contiguous(self) -> list[torch.Tensor] | None:
        """The outputs for contiguous copies of the inputs; None where every input is contiguous already."""
        if self._contiguous_already():
            return None
        blocks = {}
        for salt, (name, block) in enumerate(self.inputs.blocks.items()):
            shape = self.inputs.exact[name].shape
            strides = torch.empty(shape, device="meta").stride()
            copy = allocate(shape, strides, block.view.dtype, self.subject.device, fill="nan", salt=salt)
            block.restore(self.before[name].bits)
            copy.view.copy_(block.view)
            blocks[name] = copy
        named = {**self.inputs.named, **{name: block.view for name, block in blocks.items()}}
        args, kwargs = self.contract.bind(named)
        inputs = replace(self.inputs, args=args, kwargs=kwargs, named=named, blocks=blocks)
        self.trial.tally.reruns += 1
        return self._outputs(self._launch(inputs, "nan", "nan"), inputs)

    def _blame_layout(self, wrong: list[Failure]) -> list[Failure]:
        """Wrong answers that a contiguous copy of the same inputs gets right are about the layout.

        A copy may be right by chance, where another order of summation stays just within the bound: its error
        must be less than a 16th.
        """
        values = self._contiguous
        if values is None:
            return wrong
        blamed = []
        for failure in wrong:
            i, element = failure.output, failure.element
            if element is not None and bool(self._accepts(i, values[i])[element]):
                exact = self.trial.judgements[i].value[element]
                error, others = (abs(float(got[i][element] - exact)) for got in (self.trial.got, values))
                if not 16 * others >= error:
                    text = f"{failure.message}; a contiguous copy is right (layout: {_layouts(self.case)})"
                    failure = replace(failure, check="layout", message=text)
            blamed.append(failure)
        return blamed

    @functools.cached_property
    def _moved(self) -> Case | None:
        """The case in other layouts, for contiguous tensors, and in every other case for others; None where
        contiguous copies take its place."""
        copied = self.turn // 2 % 2 or self.subject.arithmetic.layout_invariant
        if copied and not self._contiguous_already():
            return None
        moved = rearranged(self.subject.contract, self.case, self.subject.domain, self.turn // 4)
        return None if moved == self.case else moved

    @functools.cached_property
    def _elsewhere(self) -> list[torch.Tensor] | None:
        """The outputs for the same values in other layouts; None where there are none.

        What fails in that launch is told of the case there.
        """
        if self._moved is None:
            values = self._contiguous
        else:
            bench = _Bench(self.subject, self._moved)
            values = bench.answer()
            self.trial.tally.reruns += 1
            self.trial.tally.seconds.update(bench.trial.tally.seconds)
            self.trial.failures += bench.trial.failures
        if self.trial.failures:
            self.trial.case = self._case_elsewhere()
        return None if self.trial.failures else values

    def _case_elsewhere(self) -> Case:
        """The case in the other layouts; the case itself where contiguous copies are of expanded tensors."""
        if self._moved is not None:
            return self._moved
        if any(recipe is not None and recipe.layout.expand for recipe in self.case.tensors.values()):
            return self.case
        return contiguous(self.subject.contract, self.case)

    def _by_itself(self) -> Trial:
        """The trial of the case in the other layouts, if that one is wrong by itself; else this trial."""
        other = self._case_elsewhere()
        if other == self.case:
            return self.trial
        own = _Bench(self.subject, other).run(thorough=False, alone=True)
        if not own.failures:
            return self.trial
        own.tally.add(self.trial.tally)
        return own

    def _compare_layouts(self, got: list[torch.Tensor], values: list[torch.Tensor], turn: str) -> bool:
        """Whether the answer for other layouts, asked for before or after the first, is wrong, or differs against a
        claim."""
        there = "contiguous copies" if self._moved is None else f"other layouts ({_layouts(self._moved)})"
        for i, (a, b) in enumerate(zip(got, values, strict=True)):
            serious = ~same_bits(a, b) & self._serious(i, a, b)
            if bool(serious.any()):
                when = f"for {there}, {turn} the same values in these ({_layouts(self.case)})"
                self.trial.failures.append(self._differing("layout", when, i, serious, b))
                return True
        moved = [~same_bits(a, b) for a, b in zip(got, values, strict=True)]
        if any(bool(mask.any()) for mask in moved):
            whose = "of a contiguous copy" if self._moved is None else "in other layouts"
            self._differs("layout", f"bits differ from those {whose}", "layout_invariant", got, moved)
        return bool(self.trial.failures)

    def _contiguous_already(self) -> bool:
        return all(
            recipe is None or recipe.layout.name == "contiguous" for recipe in self.case.tensors.values()
        )

    def _differing(
        self, check: Check, when: str, i: int, mask: torch.Tensor, values: torch.Tensor
    ) -> Failure:
        """The failure of output i at the first element of a mask, where another launch gave other values."""
        element = tuple(int(j) for j in mask.nonzero()[0])
        judgement = self.trial.judgements[i]
        text = element_text(self.names[i], element, float(values[element]), judgement, self.formats[i])
        return Failure(check, f"{when}: {text}", element, i, int(self.owners[i][element]))

    def _compare_rows(self, got: list[torch.Tensor]) -> None:
        """The answer for one situation may not change with the contents of the others."""
        if self.inputs.rows < 2:
            return
        kept = self.turn % self.inputs.rows
        kind = FILLS[self.turn // 7 % 3]
        domain = self.subject.domain
        other = changed_others(self.contract, self.case, kept, kind, domain)
        if other == self.case:
            return
        inputs = materialise(self.contract, other, device=self.subject.device, guard_fill="nan")
        if self.turn // 21 % 2:
            inputs = self._in_place(inputs)
        self.trial.tally.reruns += 1
        values = self._outputs(self._launch(inputs, "nan", "nan"), inputs)
        if values is None:
            return
        admitted = kind != "nan" and objection(self.contract, other, domain) is None
        if admitted and self._answers_again(got, values, other, inputs):
            return
        for i, (a, b) in enumerate(zip(got, values, strict=True)):
            moved = ~same_bits(a, b) & (self.owners[i] == kept)
            serious = moved & self._serious(i, a, b)
            if bool(serious.any()):
                others = f"with every other row {of_domain(kind, domain)}"
                self.trial.failures.append(self._differing("rows independent", others, i, serious, b))
                return
            if bool(moved.any()):
                what = "bits of a row differ when other rows change"
                self._differs("rows independent", what, "batch_invariant", [a], [moved])

    def _in_place(self, other: Inputs) -> Inputs:
        """Other values in the memory of the inputs: what a function keeps by their addresses is out of date."""
        for name, block in self.inputs.blocks.items():
            block.restore(Before.of(other.blocks[name]).bits)
        return replace(self.inputs, exact=other.exact)

    def _answers_again(
        self, got: list[torch.Tensor], values: list[torch.Tensor], other: Case, inputs: Inputs
    ) -> bool:
        """Whether other values got the answer of the launch before, as of a result kept by shape or address.

        Of numbers and codes; the least score may be of the same index.
        """
        if not all(bool(same_bits(a, b).all()) for a, b in zip(got, values, strict=True)):
            return False
        judged = self._judged(other, inputs, values).outputs
        nothing = [torch.zeros(tensor.shape, dtype=torch.bool) for tensor in values]
        for failure in wrong_elements(values, judged, self.names, self.formats, self.owners, nothing):
            if self.contract.outputs[failure.output].kind in ("number", "code"):
                text = f"other values of the same shape get the answer of the call before: {failure.message}"
                self.trial.failures.append(replace(failure, check="repeatable", message=text))
                return True
        return False

    def _failed(self) -> set[str]:
        return {failure.check for failure in self.trial.failures}

    def _count_inputs(self, got: list[torch.Tensor] | None) -> None:
        tally = self.trial.tally
        for recipe in self.case.tensors.values():
            if recipe is not None:
                tally.layouts[recipe.layout.name] += 1
        if got is not None and any(tensor.numel() for tensor in got):
            tally.situations = self.inputs.rows

    def _count_judged(self, judgements: Sequence[Judgement]) -> None:
        tally = self.trial.tally
        plain = plain_situations(self.contract, self.case, self.inputs.rows, tally.families)
        self.trial.plain = tuple(plain[owner.clamp(min=0)] for owner in self.owners)
        count_judged(tally, self.case, judgements, self.owners, plain)

    @contextmanager
    def _timed(self, what: str) -> Any:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.trial.tally.seconds[what] += time.perf_counter() - start  # type: ignore[assignment]


def _layouts(case: Case) -> str:
    return ", ".join(f"{name} {r.layout.name}" for name, r in case.tensors.items() if r is not None)


def _untouched(execution: Execution, number: int) -> torch.Tensor:
    """Mask of elements of a returned tensor that still hold the fill of the memory it lies in."""
    tensor = execution.value[number]
    for block in execution.blocks:
        if block.holds(tensor):
            return block.untouched(tensor).cpu()
    return torch.zeros(tensor.shape, dtype=torch.bool)
