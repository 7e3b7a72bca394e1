"""A fuzzing session: bounded by time, climbing the largest ratio, its findings reduced and saved as data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hypothesis.errors import Flaky

from harness import interrupt
from harness.arithmetic import Arithmetic
from harness.case import Case
from harness.checks.failure import CLASSES, CheckFailed
from harness.contracts import Contract
from harness.domain import Domain
from harness.executors import neutral
from harness.formats import Format, name_of
from harness.limits import check_budget
from harness.search.arguments import make_subject, wanted_formats
from harness.search.check import verdict_of
from harness.search.explain import explain
from harness.search.one_format import FormatSearch
from harness.search.progress import Watcher
from harness.strategies import climb
from harness.subjects import Target
from harness.trial import Subject, Trial, run_trial
from harness.verdict import Finding, Tally, Verdict

ROUND = 400
"""Examples of one Hypothesis session, after which the next begins with another seed."""

KEPT = 5
"""Findings of one check and format after which more of the same are only counted."""


class _TimeIsUp(BaseException):
    """Ends a Hypothesis session when its time is spent; as no Exception, it passes for no failure of the test."""


@neutral()
@interrupt.remembered()
def fuzz(
    fn: Callable[..., Any] | Target,
    contract: Contract | str,
    dtypes: Iterable[Any] | str | None = None,
    device: str = "cpu",
    claims: Arithmetic | Mapping[str, Any] | None = None,
    domain: Domain | Mapping[str, Any] | None = None,
    seconds: float | None = None,
    seed: int = 0,
    *,
    folder: str = ".harness",
    progress: Watcher | None = None,
    timeout: float = 60.0,
    found: Callable[[Finding], None] | None = None,
) -> Verdict:
    """Search for ``seconds`` (default 60), going on after a finding; Ctrl-C ends with what was found.

    folder: where the example database is kept; found: called with each finding as soon as it is reduced.
    """
    check_budget(None, seconds, seed)
    subject = make_subject(fn, contract, device, claims, domain, timeout)
    wanted = wanted_formats(subject, dtypes)
    total = 60.0 if seconds is None else seconds
    findings: list[Finding] = []
    tallies: dict[str, Tally] = {}
    interrupted = False
    for fmt in wanted:
        session = _Session(subject, fmt, seed, total / len(wanted), Path(folder), progress, found)
        try:
            session.run()
        except KeyboardInterrupt:
            interrupted = session.search.tally.interrupted = True
        tallies[name_of(fmt)] = session.search.tally
        findings += session.search.findings
        if interrupted:
            break
    return verdict_of(subject, findings, tallies, seed, interrupted)


class _Session:
    """The fuzzing of one format."""

    def __init__(
        self,
        subject: Subject,
        fmt: Format | str,
        seed: int,
        seconds: float,
        folder: Path,
        progress: Watcher | None,
        found: Callable[[Finding], None] | None,
    ) -> None:
        self.subject = subject
        self.fmt = fmt
        self.seed = seed
        self.deadline = time.monotonic() + seconds
        self.folder = folder
        self.found = found
        self.search = FormatSearch(subject, fmt, seed, None, None, progress)
        self.known: dict[str, int] = {}
        self.judged = 0
        self.failing: Trial | None = None

    def run(self) -> None:
        """Rounds of drawing and climbing until the time is spent, and one case at the least."""
        number = 0
        while not self.judged or time.monotonic() < self.deadline:
            try:
                climb(
                    self.subject.contract,
                    self.fmt,
                    self.subject.domain,
                    self._judge,
                    examples=ROUND,
                    seed=self.seed + 7919 * number,
                    folder=self.folder / "examples",
                )
            except (_TimeIsUp, CheckFailed, Flaky):
                if self.failing is not None:
                    self._conclude(self.failing)
                    self.failing = None
            number += 1

    def _judge(self, case: Case) -> float:
        """The largest ratio of a case; raises the class of a check that fails and is not known enough yet."""
        if self.judged and time.monotonic() > self.deadline:
            raise _TimeIsUp
        self.judged += 1
        trial = run_trial(self.subject, case)
        self.search.tally.add(trial.tally)
        self.search.report("searching")
        for failure in trial.failures:
            if self.known.get(failure.check, 0) >= KEPT:
                self.search.tally.notes[f"more failures of the check {failure.check!r}"] += 1
                continue
            self.failing = trial
            raise CLASSES[failure.check](failure.message)
        return min(trial.tally.largest_ratio, 1e6)

    def _conclude(self, trial: Trial) -> None:
        before = len(self.search.findings)
        self.search.failing.clear()
        self.search.conclude(trial)
        explain([self.search])
        fresh = self.search.findings[before:]
        for finding in fresh:
            self.known[finding.check] = self.known.get(finding.check, 0) + 1
        known = {earlier.case.digest for earlier in self.search.findings[:before]}
        by_case = {
            finding.case.digest: finding for finding in reversed(fresh)
        }  # a replay shows all its failures
        self.search.findings[before:] = [
            finding for digest, finding in reversed(by_case.items()) if digest not in known
        ]
        if self.found is not None:
            for finding in self.search.findings[before:]:
                self.found(finding)
