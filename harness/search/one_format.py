"""The search of one format: small, far, covering, drawn and whole launches, until one is wrong."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

import torch

from harness.case import Case
from harness.counting import MOST_COUNTED
from harness.errors import HarnessError
from harness.executors import lost
from harness.formats import Format, name_of
from harness.large import is_large, run_large
from harness.search.definition import FIRST, check_definition
from harness.search.finding import finding, too_large
from harness.search.progress import Phase, Progress, Watcher
from harness.search.reduce import in_format, reduced
from harness.simplify import contiguous
from harness.strategies import cover, drawn, far, small, whole
from harness.strategies.schedule import FOLLOWING, TURNING
from harness.strategies.whole import ELEMENTS
from harness.trial import Subject, Trial, run_trial
from harness.verdict import Finding, Tally

DEFAULT_EXAMPLES = 500
"""Situations of each format when neither examples nor seconds is given: about ten seconds in all."""

LEAST_COUNTED = 4
"""What one launch counts towards the examples at least; MOST_COUNTED, at most."""

COVERING = TURNING + len(FOLLOWING) + 3
"""Launches of the covering list per DEFAULT_EXAMPLES, some of them the format's own; Hypothesis draws what follows."""

MANY_SMALL, FEW_SMALL = 48, 12
"""Launches of short axes per DEFAULT_EXAMPLES, which cost little; on a device, where kernels are compiled for each."""

CONFIRMING = 500
"""Situations that must be right under a claim before a verdict names it, at the least."""

OTHERS = 24
"""Launches of each format that a mistake must explain beside the failures, where they are wrong."""

MOST_DECLINED = 40
"""Cases declined for one and the same reason, as a format is, after which a search that launched none ends."""

MAY_LOSE_DEVICE = frozenset({"raises", "hangs", "out of bounds"})
"""Failures after which a device may answer nothing more, so that the case is reported as it is."""

CONTEXT_BROKE = "the CUDA context broke: "
"""How the message of a finding begins after which this process can launch nothing more."""

FEW_FAR, MOST_FAR = 12, 48
"""Launches of tensors that span 2^31 elements: where the domain says nothing of them, and where it asks for them."""

ASK_FOR_LARGE = "domain large=True holds it to that, large=False leaves it out"

MOST_CHECKS = 3
"""Failed checks of one launch that are reduced and reported."""


class DeviceLost(Exception):
    """A kernel broke the CUDA context in a way that only a later call of our own shows."""

    def __init__(self, case: Case, error: RuntimeError) -> None:
        super().__init__(f"{CONTEXT_BROKE}{str(error).partition(chr(10))[0]}")
        self.case = case


def judged(subject: Subject, case: Case, *, thorough: bool = True) -> Trial:
    """One trial: of a case too large to hold in float64, in pieces."""
    large = is_large(subject.contract, case)
    return run_large(subject, case) if large else run_trial(subject, case, thorough=thorough)


def _tried(subject: Subject, case: Case, *, thorough: bool) -> Trial:
    try:
        return judged(subject, case, thorough=thorough)
    except RuntimeError as error:
        if lost():
            raise DeviceLost(case, error) from error
        raise


class FormatSearch:
    """The search of one format: covering cases, then drawn ones, until a failure, which is then reduced.

    known: findings of other formats, whose smallest cases are tried first when a failure is reduced.
    """

    def __init__(
        self,
        subject: Subject,
        fmt: Format | str,
        seed: int,
        examples: int | None,
        seconds: float | None,
        progress: Watcher | None,
        shrink: bool = True,
        known: Iterable[Finding] = (),
    ) -> None:
        self.subject = subject
        self.known = tuple(known)
        self.shrink = shrink
        self.fmt = fmt
        self.seed = seed
        self.examples = examples
        self.seconds = seconds
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self.spent = 0
        self.passed = 0
        self.progress = progress
        self.tally = Tally()
        self.findings: list[Finding] = []
        self.failing: list[Trial] = []

    def run(self, before: Format | str | None = None) -> None:
        """Search until the situations are done, the time is spent, or a failure is found and reduced.

        before: a format in which the function is called first, unjudged, if it is another one: what a function
        keeps of its first call, as a buffer of the narrowest dtype, must do for all.
        """
        check_definition(self.subject, [case for _, case in islice(self._cases(self.examples), FIRST)])
        if before not in (None, self.fmt):
            with contextlib.suppress(HarnessError):
                case = next(cover(self.subject.contract, before, self.subject.domain, self.seed))
                _tried(self.subject, case, thorough=False)
        failing = (
            self._hung()
            or self._small()
            or self._far()
            or self._search(self.subject, self.tally, self.examples)
            or self._whole()
        )
        if failing is not None:
            self.conclude(failing)

    def _search(self, subject: Subject, tally: Tally, examples: int | None) -> Trial | None:
        """Run cases within the budget; the first trial that fails, or None."""
        spent, watched = 0, tally is self.tally
        for number, (phase, case) in enumerate(self._cases(examples)):
            trial = _tried(subject, case, thorough=number % 3 != 1)
            tally.add(trial.tally)
            if trial.passed:
                self.passed = max(self.passed, trial.elements)
            most = MOST_COUNTED if phase == "searching" else DEFAULT_EXAMPLES // COVERING
            spent += min(max(trial.tally.situations, LEAST_COUNTED), most)
            if watched:
                self.spent = spent
                self.report(phase)
            if trial.failures:
                return trial
            if not tally.launches and len(tally.declined) == 1 and tally.declined.total() >= MOST_DECLINED:
                return None
            if examples is not None and spent >= examples:
                return None
            if self.deadline is not None and time.monotonic() > self.deadline and watched:
                tally.cut_short = examples is not None
                return None
        return None

    def _hung(self) -> Trial | None:
        """What hung in another format, in this one: no format tells anew, at a limit of time for each launch."""
        for found in self.known:
            if found.check != "hangs":
                continue
            _, like = next(iter(self._cases(self.examples)))
            trial = _tried(self.subject, in_format(found.case, like), thorough=False)
            if any(failure.check == "hangs" for failure in trial.failures):
                self.tally.add(trial.tally)
                return trial
        return None

    def _small(self) -> Trial | None:
        """Launches of short axes, in which what is wrong for a combination of choices alone is met; they count nothing
        towards the examples."""
        usual = MANY_SMALL if self.subject.device == "cpu" else FEW_SMALL
        launches = usual if self.examples is None else round(usual * self.examples / DEFAULT_EXAMPLES)
        for case in islice(small(self.subject.contract, self.fmt, self.subject.domain, self.seed), launches):
            if self.deadline is not None and time.monotonic() > self.deadline:
                return None
            trial = _tried(self.subject, case, thorough=False)
            self.tally.add(trial.tally)
            self.report("covering")
            if trial.failures:
                return trial
            if not self.tally.launches and self.tally.declined.total() >= FEW_SMALL:
                return None
        return None

    def _far(self) -> Trial | None:
        """Launches of tensors that span 2^31 elements; the first that is wrong for that alone, if it must not be.

        Where the domain says nothing of such tensors, that is a note. What is wrong with contiguous tensors too is
        left to the search.
        """
        large = self.subject.domain.large
        if large is False or (large is None and self.subject.device != "cpu"):
            return None
        cases = far(self.subject.contract, self.fmt, self.subject.domain, self.seed)
        for case in islice(cases, MOST_FAR if large else FEW_FAR):
            try:
                trial = _tried(self.subject, case, thorough=False)
            except (OSError, MemoryError, torch.OutOfMemoryError):
                self.tally.notes["no memory for a tensor that spans 2^31 elements"] += 1
                return None
            if not trial.failures:
                self.tally.add(trial.tally)
            elif self.subject.device != "cpu" and lost():
                self.tally.add(trial.tally)
                return trial
            elif not (near := self._contiguous(case)).failures:
                if large:
                    self.tally.add(trial.tally)
                    return trial
                what = trial.failures[-1].check
                self.tally.notes[
                    f"not right where a tensor spans 2^31 elements ({what}); {ASK_FOR_LARGE}"
                ] += 1
                return None
            elif any(failure.check == "hangs" for failure in near.failures):
                self.tally.add(near.tally)
                return near
            else:
                return None
        return None

    def _contiguous(self, case: Case) -> Trial:
        return _tried(self.subject, contiguous(self.subject.contract, case), thorough=False)

    def _whole(self) -> Trial | None:
        """Launches of whole large tensors, where the domain asks for them and the device has the memory."""
        large = self.subject.domain.large
        if not large or (large is True and self.subject.device == "cpu"):
            return None
        elements, launched = ELEMENTS if large is True else int(large), False
        for case in whole(self.subject.contract, self.fmt, self.subject.domain, self.seed, elements):
            try:
                trial = _tried(self.subject, case, thorough=False)
            except (OSError, MemoryError, torch.OutOfMemoryError):
                self.tally.notes[f"no memory for tensors of {elements} elements"] += 1
                return None
            launched = True
            self.tally.add(trial.tally)
            self.report("searching")
            if trial.failures:
                return trial
        if not launched:
            self.tally.notes[f"no launch has a tensor of {elements} elements"] += 1
        return None

    def _cases(self, examples: int | None) -> Iterator[tuple[Phase, Case]]:
        covering = cover(self.subject.contract, self.fmt, self.subject.domain, self.seed)
        launches = COVERING if examples is None else max(1, round(COVERING * examples / DEFAULT_EXAMPLES))
        for case in islice(covering, launches):
            yield "covering", case
        for case in drawn(self.subject.contract, self.fmt, self.subject.domain, seed=self.seed):
            yield "searching", case

    def conclude(self, failing: Trial) -> None:
        """Reduce each failed check of a trial."""
        checks = {failure.check for failure in failing.failures}
        if (
            not self.shrink
            or is_large(self.subject.contract, failing.case)
            or (self.subject.device != "cpu" and checks & MAY_LOSE_DEVICE)
        ):
            self.findings += [finding(self.subject, failure, failing.case) for failure in failing.failures]
            return
        for check in list(dict.fromkeys(failure.check for failure in failing.failures))[:MOST_CHECKS]:
            self.report("shrinking")
            first = next(failure for failure in failing.failures if failure.check == check)
            same = [found.case for found in self.known if found.check == check]
            # This one stands if a user ends the reduction.
            self.findings.append(finding(self.subject, first, failing.case))
            if check == "hangs" and same:
                continue
            if check == "hangs":
                self.report("shrinking", f"hangs ({name_of(self.fmt)}): {first.message}")
            small = reduced(
                replace(self.subject, every_config=True),
                failing,
                check,
                hints=[in_format(case, failing.case) for case in same],
            )
            self.failing += [failing, small.trial]
            found = small.failure
            if check == "raises":
                hint = too_large(max(self.passed, small.passed), small.trial.elements)
                found = replace(found, message=found.message + hint)
            self.findings[-1] = finding(self.subject, found, small.trial.case)

    def still_wrong(self, subject: Subject) -> Trial | None:
        """The first trial that is wrong with a subject of looser claims, over the same cases and more."""
        return self._search(subject, Tally(), max(self.examples or 0, CONFIRMING))

    def others(self) -> Iterator[Trial]:
        """Trials of other cases than those of this search, not thorough, until one hangs."""
        cases = cover(self.subject.contract, self.fmt, self.subject.domain, self.seed + 1)
        for case in islice(cases, OTHERS):
            if self.subject.device != "cpu" and lost():
                return
            trial = run_trial(self.subject, case, thorough=False)
            if any(failure.check == "hangs" for failure in trial.failures):
                return
            yield trial

    @property
    def share(self) -> float | None:
        """The share of the budget that is spent: of the time or of the examples, whichever ends first."""
        shares = [] if self.examples is None else [self.spent / self.examples]
        if self.deadline is not None and self.seconds is not None:
            shares.append(1 - (self.deadline - time.monotonic()) / self.seconds)
        return min(max(shares), 1.0) if shares else None

    def report(self, phase: Phase, found: str = "") -> None:
        """Tell the watcher where the search stands."""
        if self.progress is not None:
            tally = self.tally
            self.progress(
                Progress(
                    name_of(self.fmt),
                    phase,
                    tally.situations,
                    self.share if phase in ("covering", "searching") else None,
                    tally.launches,
                    len(self.findings),
                    tally.largest_ratio,
                    found,
                )
            )
