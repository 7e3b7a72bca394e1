"""Judging a folder: every declared subject in every format, and every mutant until something catches it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from harness import records
from harness.errors import HarnessError
from harness.jobs import Budget, Died, InternalError, Runner, judge, plan
from harness.jobs.messages import Declared, Discover, DiscoverTorch, Event, Listed, Planned, UnderTest
from harness.records import FormatRecord, VerdictRecord
from harness.report.model import MutantRecord, Problem, Report, elements


class Show(Protocol):
    """Who watches: about is what is being judged, place how far the campaign is."""

    about: str
    place: str

    def __call__(self, event: Event) -> None: ...

    def say(self, line: str) -> None: ...


@dataclass(frozen=True)
class Campaign:
    """What to judge. folder: of kernel files, or one file; budget: of each subject and of each mutant.

    reduce_mutants: whether the inputs that catch mutants are reduced, which takes most of the time of a mutant.
    """

    folder: str
    budget: Budget = field(default_factory=Budget)
    device: str = "cpu"
    dtypes: tuple[str, ...] = ()
    timeout: float = 60.0
    mutants: bool = True
    reduce_mutants: bool = False
    torch: bool = False
    command: str = ""

    def run(self, runner: Runner, show: Show) -> Report:
        """Judge everything, and go on after whatever fails.

        Raises HarnessError if the folder is missing or declares no subject.
        """
        return _Run(self, runner, show).report()


class _Run:
    """One run of a campaign and what it has gathered."""

    def __init__(self, campaign: Campaign, runner: Runner, show: Show) -> None:
        self.campaign = campaign
        self.runner = runner
        self.show = show
        self.verdicts: list[VerdictRecord] = []
        self.mutants: list[MutantRecord] = []
        self.problems: list[Problem] = []
        self.omitted: list[str] = []
        self.environment: records.Environment | None = None
        self.interrupted = False

    def report(self) -> Report:
        """Judge and gather."""
        started, clock = datetime.now(UTC), time.monotonic()
        subjects = self._subjects()
        if not subjects and not self.problems:
            raise HarnessError(
                f"{self.campaign.folder!r} declares no subject; "
                "decorate a launcher with @harness.subject(references.<name>)"
            )
        work: list[tuple[Declared, str]] = []
        for subject in subjects:
            work += [(subject, name) for name in ("", *(subject.mutants if self.campaign.mutants else ()))]
        for number, (subject, mutant) in enumerate(work, start=1):
            if self.interrupted:
                break
            self.show.place = f"{number}/{len(work)}"
            self._one(subject, mutant)
        return Report(
            schema=records.SCHEMA,
            folder=self.campaign.folder,
            started=started.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - clock, 1),
            command=self.campaign.command,
            commit=_commit(Path(self.campaign.folder)),
            environment=self.environment or records.environment("cpu"),
            device=self.campaign.device,
            verdicts=tuple(self.verdicts),
            mutants=tuple(self.mutants),
            mutants_judged=self.campaign.mutants,
            omitted=tuple(self.omitted),
            problems=tuple(self.problems),
            interrupted=self.interrupted,
        )

    def _subjects(self) -> list[Declared]:
        found: list[Declared] = []
        jobs: list[Discover | DiscoverTorch] = [
            Discover(path=str(file)) for file in _files(self.campaign.folder)
        ]
        if self.campaign.torch:
            jobs.append(DiscoverTorch())
        for job in jobs:
            where = job.path if isinstance(job, Discover) else "torch"
            with self._problems(where):
                self.runner.run(job, lambda event: self._listed(event, found))
        return found

    def _listed(self, event: Event, found: list[Declared]) -> None:
        if isinstance(event, Listed):
            found += event.subjects
            self.omitted += event.omitted

    def _one(self, subject: Declared, mutant: str) -> None:
        target = f"{subject.target}@{mutant}" if mutant else subject.target
        self.show.about = target
        campaign = self.campaign
        under = UnderTest(
            target=target, contract=subject.contract, device=campaign.device, timeout=campaign.timeout
        )
        with self._problems(target):
            planned = plan(self.runner, under, campaign.dtypes)
            self.environment = self.environment or planned.environment
            if mutant:
                self._mutant(subject, mutant, planned)
                return
            verdict = judge(self.runner, planned, campaign.budget, self.show)
            self.verdicts.append(verdict)
            self.interrupted = verdict.interrupted or self.runner.interrupted
            self.show.say(f"{verdict.outcome} {target}")

    def _mutant(self, subject: Declared, name: str, planned: Planned) -> None:
        """Try the formats one after the other until one catches the mutant."""
        clock, situations = time.monotonic(), 0
        budget = replace(self.campaign.budget, shrink=self.campaign.reduce_mutants)
        each: FormatRecord | None = None
        for fmt in planned.formats:
            alone = msgspec.structs.replace(planned, formats=(fmt,))
            verdict = judge(self.runner, alone, budget, self.show)
            (each,) = verdict.formats
            situations += each.situations
            if verdict.interrupted or self.runner.interrupted:
                self.interrupted = True
                if not each.findings:
                    return
            if each.findings:
                break
        assert each is not None
        first = each.findings[0] if each.findings else None
        self.mutants.append(
            MutantRecord(
                subject=subject.target,
                contract=subject.contract,
                name=name,
                caught_by=first.check if first else "",
                format=each.format,
                message=first.message if first else each.reason,
                case=first.case if first else None,
                elements=elements(first.case) if first else None,
                situations=situations,
                seconds=round(time.monotonic() - clock, 2),
                replay=first.replay if first else "",
            )
        )
        self.show.say(f"{f'caught by {first.check}' if first else 'SURVIVED'} {subject.target}@{name}")

    @contextmanager
    def _problems(self, where: str) -> Iterator[None]:
        """Go on after an error, and keep it."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True
        except (HarnessError, Died) as error:
            self._problem(Problem(where=where, message=str(error)))
        except InternalError as error:
            message = f"internal error: {error}"
            self._problem(Problem(where=where, message=message, traceback=error.traceback))

    def _problem(self, problem: Problem) -> None:
        self.problems.append(problem)
        self.show.say(f"not judged: {problem.where}: {problem.message}")


def _files(folder: str) -> list[Path]:
    """The kernel files of a folder, as :func:`harness.subjects.discover` takes them."""
    path = Path(folder)
    if not path.exists():
        raise HarnessError(f"{folder!r} does not exist; give a folder of kernel files, or one file")
    if path.is_file():
        return [path]
    return sorted(file for file in path.glob("*.py") if not file.name.startswith("_"))


def _commit(folder: Path) -> str:
    """The commit that the folder is at, with "+" if files of it differ; "" where git says nothing."""
    where = folder if folder.is_dir() else folder.parent
    answers = []
    for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--", ".")):
        try:
            done = subprocess.run(
                ["git", "-C", str(where), *words], capture_output=True, text=True, timeout=20, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        answers.append(done.stdout.strip())
    return answers[0] + ("+" if answers[1] else "")
