"""One large launch: its tensors made, the function called once, everything it returned judged in pieces.

Accuracy, special values, shape, dtype, device, inputs unchanged, no write outside. Reruns with other fills, other
rows and other layouts are left to small launches: what new allocations hold before they are written, and what
surrounds them, is NaN.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from harness import interrupt, journal, oracle
from harness.case import Case, check, situation_of
from harness.checks.agreement import wrong_elements
from harness.checks.failure import Check, Failure
from harness.checks.ownership import seen_by_executor, shared_with_arguments, written_outside
from harness.checks.structure import mismatch, returned_tensors
from harness.counting import MOST_COUNTED
from harness.errors import HarnessError
from harness.executors import Execution, MemoryFault, execute
from harness.large.contents import Contents, bits_of
from harness.large.judging import Large, Open, Piece
from harness.limits import memory
from harness.memory import Block
from harness.numbers.pieces import NotInPieces
from harness.trial import Subject, Trial

STEP = 1 << 22
"""Elements that are made, or compared, at a time."""


def run_large(subject: Subject, case: Case) -> Trial:
    """Judge one large case. What cannot be judged in pieces is counted as declined, with the reason."""
    interrupt.again()
    check(subject.contract, case)
    trial = Trial(case)
    try:
        _Run(subject, case, trial).run()
    except (NotInPieces, HarnessError) as reason:
        trial = Trial(case)
        trial.tally.declined[f"a large launch is not judged: {reason}"] += 1
    return trial


UNJUDGED = "situations of large launches that nobody judged"


@dataclass
class _Run:
    subject: Subject
    case: Case
    trial: Trial

    def run(self) -> None:
        contract, case, device = self.subject.contract.at(self.case.sizes), self.case, self.subject.device
        contents = {
            name: None if recipe is None else Contents(contract, case, name, device)
            for name, recipe in case.tensors.items()
        }
        if device == "cpu" and sum(held.bytes for held in contents.values() if held is not None) > memory():
            raise MemoryError("the tensors of a large launch")
        start = time.perf_counter()
        blocks = {
            name: held.block(salt, STEP)
            for salt, (name, held) in enumerate(contents.items())
            if held is not None
        }
        self._took("inputs", start)
        named = {name: contract.scalar(name, case.sizes, case.scalars) for name in contract.scalars}
        named |= {name: blocks[name].view if name in blocks else None for name in contents}
        args, kwargs = contract.bind(named)
        self.trial.tally.launches = 1
        execution = self._launch(args, kwargs)
        tensors = self._returned(execution, named)
        for recipe in case.tensors.values():
            if recipe is not None:
                self.trial.tally.layouts[recipe.layout.name] += 1
                self.trial.tally.families.update(row.family for row in recipe.rows)
        if tensors is None:
            return
        dtypes = tuple(str(tensor.dtype).removeprefix("torch.") for tensor in tensors)
        start = time.perf_counter()
        self._memory(execution, contents, blocks, tensors)
        self._took("checks", start)
        start = time.perf_counter()
        whole = Large(contract, self.subject.arithmetic, case, contents, tensors, dtypes, device)
        for piece in whole.pieces():
            if isinstance(piece, Open):
                self.trial.tally.notes[f"{UNJUDGED}: {piece.reason}"] += piece.rows
                continue
            if piece.device != device:
                self.trial.tally.notes["situations of large launches read again on the CPU"] += piece.rows
            self._count(piece)
            if not all(judged.right_everywhere for judged in piece.outputs):
                self.trial.failures += self._wrong(piece, dtypes)
                break
        self._took("oracle", start)
        self.trial.tally.plain_situations, self.trial.tally.decisive_situations = self._capped()
        if contract.relations:
            self.trial.tally.notes["relations are not checked in large launches"] += 1

    def _took(self, what: str, start: float) -> None:
        self.trial.tally.seconds[what] += time.perf_counter() - start  # type: ignore[assignment]

    def _launch(self, args: list[object], kwargs: dict[str, object]) -> Execution:
        journal.note(self.case.to_json())
        start = time.perf_counter()
        try:
            subject = self.subject
            return execute(
                subject.function, args, kwargs, device=subject.device, fill="nan", timeout=subject.timeout
            )
        finally:
            self._took("kernel", start)
            journal.done()

    def _returned(self, execution: Execution, named: dict[str, object]) -> list[torch.Tensor] | None:
        """What the launch returned; None, with a failure or a count, where there is nothing to judge."""
        contract, tally, failures = self.subject.contract.at(self.case.sizes), self.trial.tally, []
        if execution.outcome == "declined":
            tally.launches = 0
            tally.declined[execution.reason()] += 1
        elif execution.outcome != "returned":
            kinds: dict[str, Check] = {"raised": "raises", "hung": "hangs"}
            fault = isinstance(execution.error, MemoryFault)
            failures.append(
                Failure("out of bounds" if fault else kinds[execution.outcome], execution.where())
            )
            failures += seen_by_executor(execution, {failure.check for failure in failures})
        else:
            tensors = returned_tensors(execution.value, contract.outputs, named)
            if isinstance(tensors, Failure):
                failures.append(tensors)
            else:
                wanted = zip(
                    tensors, contract.outputs, oracle.output_dtypes(contract, self.case), strict=True
                )
                for number, (tensor, output, dtypes) in enumerate(wanted):
                    shape = contract.shape(output.shape, self.case.sizes, self.case.scalars)
                    wrong = mismatch(tensor, output.name, shape, dtypes, self.subject.device, number)
                    failures += [wrong] if wrong else []
                if not failures:
                    return tensors
        self.trial.failures += failures
        return None

    def _memory(
        self,
        execution: Execution,
        contents: dict[str, Contents | None],
        blocks: dict[str, Block],
        tensors: list[torch.Tensor],
    ) -> None:
        outputs = self.subject.contract.at(self.case.sizes).outputs
        mutated = {output.argument for output in outputs}
        self.trial.failures += written_outside(blocks, execution)
        self.trial.failures += seen_by_executor(execution, {f.check for f in self.trial.failures})
        self.trial.failures += shared_with_arguments(tensors, outputs, blocks)
        for name, block in blocks.items():
            held = contents[name]
            if name not in mutated and held is not None:
                self.trial.failures += _changed(name, held, block)

    def _count(self, piece: Piece) -> None:
        tally = self.trial.tally
        tally.situations += piece.rows
        decisive = torch.zeros(piece.rows, dtype=torch.bool)
        telling = torch.zeros_like(decisive)
        for judged in piece.outputs:
            tally.elements += judged.right.numel()
            tally.unspecified += int(judged.unspecified.sum())
            tally.unbounded += int(judged.unbounded.sum())
            ratio = judged.largest_ratio
            if ratio > tally.largest_ratio:
                tally.largest_ratio, tally.largest_ratio_case = ratio, self.case
            if judged.right.numel() % piece.rows == 0:
                decisive |= judged.decisive.reshape(piece.rows, -1).any(1).cpu()
                telling |= ~judged.only_zero.reshape(piece.rows, -1).all(1).cpu()
        tally.plain_situations += int(telling.sum())
        tally.decisive_situations += int((decisive & telling).sum())

    def _capped(self) -> tuple[int, int]:
        """As of any launch, few of its situations count: they repeat a few recipes."""
        count, found = self.trial.tally.plain_situations, self.trial.tally.decisive_situations
        return min(count, MOST_COUNTED), round(found * min(1.0, MOST_COUNTED / max(count, 1)))

    def _wrong(self, piece: Piece, dtypes: tuple[str, ...]) -> Iterator[Failure]:
        """The worst wrong elements of a piece, by their place in the whole output."""
        contract = self.subject.contract.at(self.case.sizes)
        formats = [t.fmt for t in oracle.targets(contract, self.subject.arithmetic, self.case, list(dtypes))]
        names = [output.name for output in contract.outputs]
        owners = [torch.full(tensor.shape, -1) for tensor in piece.got]
        nothing = [torch.zeros(tensor.shape, dtype=torch.bool) for tensor in piece.got]
        for failure in wrong_elements(piece.got, piece.outputs, names, formats, owners, nothing):
            local = failure.element or ()
            place = [
                at + (piece.start if axis == piece.axes[failure.output] else 0)
                for axis, at in enumerate(local)
            ]
            text = failure.message.replace(
                f"[{', '.join(map(str, local))}]", f"[{', '.join(map(str, place))}]", 1
            )
            text += f" in these {piece.rows} of {self.trial.tally.situations} situations judged so far"
            situation = situation_of(contract, self.case, contract.outputs[failure.output])
            number = int(situation[tuple(place)]) if local and situation.ndim else 0
            yield Failure(failure.check, text, tuple(place), failure.output, number, failure.severity)


def _changed(name: str, held: Contents, block: Block) -> Iterator[Failure]:
    """Whether an argument still holds what it was given."""
    if not block.intact:
        yield Failure("inputs unchanged", f"argument {name} itself was changed: its shape or strides")
        return
    flat = bits_of(block.view.view(-1))
    for start in range(0, held.count, STEP):
        stop = min(start + STEP, held.count)
        if not torch.equal(flat[start:stop], bits_of(held.stored(start, stop))):
            differs = (flat[start:stop] != bits_of(held.stored(start, stop))).nonzero()
            text = f"argument {name} was written to, at element {start + int(differs[0])} of {held.count}"
            yield Failure("inputs unchanged", text)
            return
