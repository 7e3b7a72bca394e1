"""What a report holds. report.json is this record; the pages are made from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from harness import records
from harness.case import Case
from harness.records import Environment, FormatRecord, Strict, VerdictRecord
from harness.verdict import EXIT_STATUS, Outcome

BROKEN = 3
"""Exit status where something could not be judged at all."""


class MutantRecord(Strict, frozen=True):
    """A mutant of a subject: a wrong kernel that a good harness catches."""

    subject: str
    """The kernel that the mutant is made of."""
    contract: str
    name: str
    caught_by: str
    """The first check that failed; "" if the mutant survived."""
    format: str
    """The format in which it was caught, or the last one tried."""
    message: str
    """What the check said, or why nothing was judged."""
    case: Case | None
    """An input that shows it: the smallest found with --reduce-mutants, else the first."""
    elements: int | None
    """Elements of that input, all tensors together."""
    situations: int
    """Situations judged until then, in all formats tried."""
    seconds: float
    replay: str

    @property
    def survived(self) -> bool:
        """Whether no check failed."""
        return not self.caught_by


class Problem(Strict, frozen=True):
    """Something that was not judged."""

    where: str
    message: str
    traceback: str = ""


class Report(Strict, frozen=True):
    """A run over a folder."""

    schema: Literal[1]
    folder: str
    started: str
    """ISO 8601, UTC."""
    seconds: float
    command: str
    commit: str
    """Of the folder's repository, with "+" if files were changed; "" outside one."""
    environment: Environment
    device: str
    verdicts: tuple[VerdictRecord, ...]
    mutants: tuple[MutantRecord, ...]
    mutants_judged: bool
    """False if mutants were left out on purpose."""
    omitted: tuple[str, ...]
    """What was left out, and why."""
    problems: tuple[Problem, ...]
    interrupted: bool

    def rows(self) -> Iterator[tuple[VerdictRecord, FormatRecord]]:
        """Every format of every subject."""
        for verdict in self.verdicts:
            for each in verdict.formats:
                yield verdict, each

    def outcomes(self) -> Counter[Outcome]:
        """How many formats ended how."""
        return Counter(each.outcome for _, each in self.rows())

    def survivors(self) -> list[MutantRecord]:
        """The mutants that nothing caught."""
        return [mutant for mutant in self.mutants if mutant.survived]

    def headline(self) -> list[str]:
        """The result in a few lines."""
        counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes().items()))
        lines = [f"subjects: {len(self.verdicts)}", f"verdicts by format: {counts or 'none'}"]
        if self.mutants:
            caught = len(self.mutants) - len(self.survivors())
            lines.append(f"mutants: {caught} of {len(self.mutants)} caught")
        elif not self.mutants_judged:
            lines.append("mutants: left out (--no-mutants)")
        lines += [f"survived: {mutant.subject}@{mutant.name}" for mutant in self.survivors()]
        lines += [f"not judged: {problem.where}: {problem.message}" for problem in self.problems]
        if self.interrupted:
            lines.append("interrupted: only what ran is here")
        return lines


def exit_status(report: Report) -> int:
    """By the worst: 3 if something was not judged, 1 for a failure or a survivor, 2 if it is open, 0."""
    if report.problems:
        return BROKEN
    found = {EXIT_STATUS[each.outcome] for _, each in report.rows()}
    if report.survivors():
        found.add(EXIT_STATUS["FAIL"])
    if report.interrupted or not report.verdicts:
        found.add(EXIT_STATUS["INCONCLUSIVE"])
    return next((status for status in (1, 2) if status in found), 0)


def elements(case: Case | None) -> int | None:
    """The elements of a case's tensors, as far as its sizes tell them: the product of all sizes."""
    if case is None:
        return None
    count = 1
    for size in case.sizes.values():
        for length in (size,) if isinstance(size, int) else size:
            count *= length
    return count


def load(path: Path) -> Report:
    """A report from report.json."""
    return records.read(path, Report)
