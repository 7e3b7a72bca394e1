"""Whether what a claim about a narrow format would explain is wrong in float32, too, on the same values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import prod

from harness import formats, oracle
from harness.arithmetic import Arithmetic
from harness.case import Case, shape_of
from harness.errors import HarnessError
from harness.executors import lost
from harness.formats import name_of
from harness.simplify import literal
from harness.trial import Subject, Trial, run_trial

WIDE = formats.FLOAT32

MOST_ELEMENTS = 1 << 16
"""Elements of one tensor of a case that is run in float32, at the most."""

MOST_LAUNCHED = 8
"""Cases that are run in float32, at the most."""


class Wider:
    """The same function on the same values in float32, run when a claim is about a narrower format.

    A float32 sum in a 16-bit kernel becomes a 16-bit sum by a claim, which covers much else: the other formula
    of gelu is within it. In float32 nothing is narrow any more, and a wrong formula is as wrong as before.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._run: dict[Case, Trial | None] = {}

    def refutes(self, looser: Arithmetic, wrong: Iterable[Trial]) -> bool:
        """Whether one of these inputs is wrong in float32 under any claim but that of a narrow accumulator.

        Roundings stay: in float32 they are to float32. So does every form that a result of 16 bits hides and
        one of float32 shows, such as a sequential sum, or products in TF32. A function that cannot be called
        in float32, or that fails there otherwise than by a wrong answer, refutes nothing.
        """
        claim = self.subject.arithmetic
        if (looser.accumulator, looser.roundings) == (claim.accumulator, claim.roundings):
            return False
        loosest = replace(
            looser,
            accumulator=claim.accumulator,
            depth="sequential" if looser.depth is None else looser.depth,
            dot="bf16" if looser.dot == "bf16" else "tf32",
            variance="textbook",
            exp="scaled",
            flush="all",
        )
        return any(self._wrong(loosest, trial) for trial in self._trials(wrong))

    @property
    def lost(self) -> bool:
        """Whether the device answers no more, as after a kernel that cannot be called in float32."""
        return self.subject.device != "cpu" and lost()

    def _trials(self, wrong: Iterable[Trial]) -> Iterator[Trial]:
        for trial in wrong:
            case = trial.case
            if case not in self._run and len(self._run) < MOST_LAUNCHED and not self.lost:
                self._run[case] = self._launched(case)
            found = self._run.get(case)
            if found is not None:
                yield found

    def _launched(self, case: Case) -> Trial | None:
        """The trial of a case in float32; None where there is none, or it returned nothing to judge."""
        own = self.subject.contract.formats
        if own and WIDE.name not in own:
            return None
        try:
            wide = in_float32(self.subject, case)
            if wide is None:
                return None
            trial = run_trial(self.subject, wide, thorough=False)
        except HarnessError:
            return None
        except RuntimeError:
            if self.lost:
                return None
            raise
        return trial if trial.judgements else None

    def _wrong(self, arithmetic: Arithmetic, trial: Trial) -> bool:
        contract = self.subject.contract.at(trial.case.sizes)
        judged = oracle.judge_case(contract, arithmetic, trial.case, trial.exact, trial.got, trial.dtypes)
        return not all(output.right_everywhere for output in judged.outputs)


def in_float32(subject: Subject, case: Case) -> Case | None:
    """The same values in float32; None if they are many, or of no narrower format.

    Tensors whose dtype the contract writes down keep it.
    """
    tested = oracle.dtype_under_test(subject.contract, case)
    if formats.is_integer(tested) or formats.format_of(tested).bits >= WIDE.bits:
        return None
    specs = subject.contract.at(case.sizes).tensors
    for name, recipe in case.tensors.items():
        if recipe is None or specs[name].dtype or recipe.format != tested:
            continue
        if prod(shape_of(subject.contract, case, name)) > MOST_ELEMENTS:
            return None
        case = literal(subject.contract, case, name)
        held = case.tensors[name]
        assert held is not None
        case = replace(case, tensors={**case.tensors, name: replace(held, format=name_of(WIDE))})
    return case
