"""A verdict from jobs, also when one of them takes its process down."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from harness import records
from harness.case import Case
from harness.errors import HarnessError
from harness.jobs.messages import (
    Check,
    Describe,
    Event,
    Found,
    Fuzz,
    Judged,
    Moved,
    Plan,
    Planned,
    Replay,
    UnderTest,
)
from harness.jobs.runner import Died, InternalError, Runner, Watch
from harness.limits import check_budget
from harness.records import VerdictRecord
from harness.verdict import Finding, Tally, Verdict

DEPENDS_ON_CALLS = (
    "a new process given this case alone is right: the answer depends on earlier calls, or on chance"
)


@dataclass(frozen=True)
class Budget:
    """How long to search: as ``harness.check`` takes it, or, with a folder, as ``harness.search.fuzz``."""

    examples: int | None = None
    seconds: float | None = None
    seed: int = 0
    folder: str = ""
    shrink: bool = True

    def __post_init__(self) -> None:
        check_budget(self.examples, self.seconds, self.seed)


def plan(runner: Runner, under: UnderTest, dtypes: tuple[str, ...] = ()) -> Planned:
    """Resolve and validate what is to be judged; raises HarnessError."""
    answers: list[Planned] = []

    def watch(event: Event) -> None:
        if isinstance(event, Planned):
            answers.append(event)

    try:
        runner.run(Plan(under=under, dtypes=dtypes), watch)
    except (Died, HarnessError, InternalError) as error:  # an import may make anything of an interrupt
        if runner.interrupted:
            raise KeyboardInterrupt from error
        if isinstance(error, Died):
            raise HarnessError(f"importing {under.target} failed: {error}") from error
        raise
    if runner.interrupted:
        raise KeyboardInterrupt
    return answers[0]


def judge(runner: Runner, planned: Planned, budget: Budget, watch: Watch) -> VerdictRecord:
    """Judge every planned format, and replay what was found.

    A check is one job, so that one claim may explain the failures of all formats. If it takes its process
    down, the format that did so is judged, and each of the others in a job of its own. A fuzzing session is
    a job for each format.
    """
    verdict = _verdict(runner, planned, budget, watch)
    return _record(planned, _replayed(runner, planned, budget, verdict), budget.seed)


def _verdict(runner: Runner, planned: Planned, budget: Budget, watch: Watch) -> Verdict:
    verdicts: dict[str, Verdict] = {}
    if not budget.folder:
        seen = _Seen(planned, watch)
        death = seen.run(runner, _job(planned, budget, planned.formats))
        if death is None or death.interrupted:
            return seen.verdict(*seen.tallies or planned.formats[:1])
        fmt = seen.format_of(death)
        verdicts[fmt] = _ended(runner, seen, fmt, death)
    for fmt in planned.formats:
        if fmt in verdicts:
            continue
        seen = _Seen(planned, watch)
        death = seen.run(runner, _job(planned, budget, (fmt,)))
        verdicts[fmt] = _ended(runner, seen, fmt, death)
        if runner.interrupted or verdicts[fmt].interrupted:
            break
    verdict = records.joined(verdicts[fmt] for fmt in planned.formats if fmt in verdicts)
    if len(verdicts) < len(planned.formats):
        verdict = replace(verdict, interrupted=True)
        next(reversed(verdict.tallies.values())).interrupted = True
    return verdict


def _replayed(runner: Runner, planned: Planned, budget: Budget, verdict: Verdict) -> Verdict:
    """A verdict that tells which findings a new process does not show, given their cases alone.

    What a function keeps of earlier calls, as a buffer, makes such findings, whose replays would pass. Cases of
    launches that do not end are left out, and all of them where findings are not explained.
    """
    told = [found for found in verdict.findings if found.check not in ("hangs", "crashes")]
    cases = dict.fromkeys(found.case.to_json() for found in told)
    if not budget.shrink or not cases or verdict.interrupted or runner.interrupted or not runner.renew():
        return verdict
    right = set()
    for text in cases:
        with contextlib.suppress(Died, HarnessError, InternalError):
            alone = judge_case(runner, planned, Case.from_json(text)).verdict()
            launched = any(tally.launches for tally in alone.tallies.values())
            if launched and not alone.findings and not runner.interrupted:
                right.add(text)
    findings = tuple(
        replace(found, explanation=DEPENDS_ON_CALLS) if found.case.to_json() in right else found
        for found in verdict.findings
    )
    return replace(verdict, findings=findings)


def judge_case(runner: Runner, planned: Planned, case: Case) -> VerdictRecord:
    """Judge one case."""
    fmt = next((recipe.format for recipe in case.tensors.values() if recipe is not None), "")
    seen = _Seen(planned, lambda event: None)
    death = seen.run(runner, Replay(under=planned.under, case=case))
    return _record(planned, _ended(runner, seen, fmt, death), 0)


def _job(planned: Planned, budget: Budget, formats: tuple[str, ...]) -> Check | Fuzz:
    """The job on some formats, with the share of the time that one call for all gives them."""
    share = None if budget.seconds is None else budget.seconds * len(formats) / len(planned.formats)
    if budget.folder:
        (fmt,) = formats
        return Fuzz(
            under=planned.under, format=fmt, seconds=share or 0.0, seed=budget.seed, folder=budget.folder
        )
    return Check(
        under=planned.under,
        formats=formats,
        examples=budget.examples,
        seconds=share,
        seed=budget.seed,
        shrink=budget.shrink,
    )


class _Seen:
    """What a job told before it ended, or before its process died."""

    def __init__(self, planned: Planned, watch: Watch) -> None:
        self.planned = planned
        self.watch = watch
        self.judged: Verdict | None = None
        self.findings: list[Finding] = []
        self.tallies: dict[str, Tally] = {}
        self.interrupted = False

    def run(self, runner: Runner, job: Check | Fuzz | Replay) -> Died | None:
        """Run a job; how its process died, if it did."""
        try:
            runner.run(job, self._note)
        except Died as death:
            if not death.interrupted and not death.case:
                raise InternalError(f"{death}, before any launch", "") from death
            self.interrupted = death.interrupted
            return death
        return None

    def _note(self, event: Event) -> None:
        if isinstance(event, Judged):
            self.judged = event.record.verdict()
        elif isinstance(event, Found):
            self.findings.append(records.finding(event.finding, event.format))
        elif isinstance(event, Moved):
            self.tallies[event.format] = Tally(
                situations=event.situations,
                launches=event.launches,
                largest_ratio=float(event.largest_ratio),
            )
        self.watch(event)

    def format_of(self, death: Died) -> str:
        """The format that was being judged: that of the case, else the last one heard of."""
        case = Case.from_json(death.case)
        written = [recipe.format for recipe in case.tensors.values() if recipe is not None]
        known = [fmt for fmt in (*written, *reversed(self.tallies)) if fmt in self.planned.formats]
        return known[0] if known else self.planned.formats[0]

    def verdict(self, *formats: str, fatal: Finding | None = None) -> Verdict:
        """The verdict, or what can be said of some formats after the process died."""
        if self.judged is not None:
            return self.judged
        tallies = {fmt: self.tallies.get(fmt, Tally()) for fmt in formats}
        for tally in tallies.values():
            tally.interrupted, tally.cut_short = self.interrupted, not self.interrupted
        found = [finding for finding in self.findings if finding.format in tallies]
        if fatal is not None:
            tallies[fatal.format].launches += 1
            found.append(fatal)
        return Verdict(
            subject=self.planned.subject,
            contract=self.planned.under.contract,
            device=self.planned.under.device,
            findings=tuple(found),
            tallies=tallies,
            claims=self.planned.under.claims or {},
            excluded=self.planned.excluded,
            interrupted=self.interrupted,
        )


def _ended(runner: Runner, seen: _Seen, fmt: str, death: Died | None) -> Verdict:
    """The verdict on a format whose job has ended."""
    if death is None or death.interrupted:
        return seen.verdict(fmt)
    return seen.verdict(fmt, fatal=_fatal(runner, seen.planned.under, fmt, death))


def _record(planned: Planned, verdict: Verdict, seed: int) -> VerdictRecord:
    return records.record(replace(verdict, seed=seed), planned.under.domain, planned.environment)


def _fatal(runner: Runner, under: UnderTest, fmt: str, death: Died) -> Finding:
    """The finding of a death; a new process gives its snippet and tells whether it dies again."""
    case = Case.from_json(death.case)
    found = [Finding(death.check, str(death), case, format=fmt)]

    def note(event: Event) -> None:
        if isinstance(event, Found):
            found.append(records.finding(event.finding, event.format))

    with contextlib.suppress(Died, HarnessError, InternalError):
        runner.run(Describe(under=under, case=case, check=death.check, message=str(death)), note)
    if death.check != "crashes" or runner.interrupted:
        return replace(found[-1], format=fmt)
    again = "survives"
    try:
        runner.run(Replay(under=under, case=case), lambda event: None)
    except Died:
        again = "dies too"
    message = f"{death}; a new process given this case alone {again}"
    return replace(found[-1], message=message, format=fmt)
