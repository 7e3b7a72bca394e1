"""``harness.check``: search cases of every format until the budget is spent or something is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from harness import formats, interrupt, oracle
from harness.admission import objection
from harness.arithmetic import Arithmetic
from harness.case import Case
from harness.checks.failure import Failure
from harness.contracts import Contract
from harness.domain import Domain
from harness.errors import HarnessError
from harness.executors import neutral
from harness.formats import Format, name_of
from harness.limits import check_budget
from harness.search.arguments import make_subject, wanted_formats
from harness.search.explain import explain
from harness.search.finding import contract_spec, finding
from harness.search.one_format import DEFAULT_EXAMPLES, DeviceLost, FormatSearch, judged
from harness.search.progress import Watcher
from harness.subjects import FORMATS, Target
from harness.trial import Subject
from harness.verdict import Finding, Tally, Verdict


@neutral()
@interrupt.remembered()
def check(
    fn: Callable[..., Any] | Target,
    contract: Contract | str,
    dtypes: Iterable[Any] | str | None = None,
    device: str = "cpu",
    claims: Arithmetic | Mapping[str, Any] | None = None,
    domain: Domain | Mapping[str, Any] | None = None,
    examples: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    *,
    progress: Watcher | None = None,
    timeout: float = 60.0,
    shrink: bool = True,
    configs: str | None = None,
) -> Verdict:
    """Judge an implementation of a contract.

    fn: called as the contract's signature says. dtypes: formats, by default float32, float16 and bfloat16.
    claims, domain: an Arithmetic or a Domain, or dicts of their fields. examples: situations for each
    format; seconds: alone, the time to spend; with examples, a cap that makes the verdict INCONCLUSIVE when
    it cuts the search short. timeout: seconds after which one launch counts as hanging. shrink: whether a
    failing case is reduced and explained; without, the verdict is the same, sooner. configs: of an autotuned
    kernel on the CPU, each launch judges the first configuration and up to eight others, which take turns;
    "all" judges all of them in every launch.

    A kernel that breaks the CUDA context ends the search: this process can launch nothing more. The command
    line goes on in a new one.

    Raises HarnessError for arguments that make no sense, naming the value and what to write instead.
    """
    if configs not in (None, "all"):
        raise HarnessError(f"configs={configs!r}: write configs='all', or leave it out")
    check_budget(examples, seconds, seed)
    subject = make_subject(fn, contract, device, claims, domain, timeout)
    subject = replace(subject, every_config=configs == "all")
    wanted = wanted_formats(subject, dtypes)
    if examples is None and seconds is None:
        examples = DEFAULT_EXAMPLES
    share = None if seconds is None else seconds / len(wanted)
    searches: list[FormatSearch] = []
    interrupted = False
    try:
        for fmt in wanted:
            known = [found for search in searches for found in search.findings]
            searches.append(
                FormatSearch(subject, fmt, seed + _place(fmt), examples, share, progress, shrink, known)
            )
            searches[-1].run(before=None if searches[1:] else _narrowest(wanted))
        if shrink:
            explain(searches)
    except DeviceLost as gone:
        searches[-1].findings.append(finding(subject, Failure("crashes", str(gone)), gone.case))
    except KeyboardInterrupt:
        interrupted = True
        if searches:
            searches[-1].tally.interrupted = True
    findings = [found for search in searches for found in search.findings]
    return verdict_of(subject, findings, {name_of(s.fmt): s.tally for s in searches}, seed, interrupted)


@neutral()
def replay(
    fn: Callable[..., Any] | Target,
    contract: Contract | str,
    case: Case,
    *,
    device: str = "cpu",
    claims: Arithmetic | Mapping[str, Any] | None = None,
    domain: Domain | Mapping[str, Any] | None = None,
    timeout: float = 60.0,
) -> Verdict:
    """Judge one case, as a search would.

    The contents that other rows are given keep to the domain; the case itself is judged as given, and the verdict notes
    that it lies outside.
    """
    subject = make_subject(fn, contract, device, claims, domain, timeout)
    outside = objection(subject.contract, case, subject.domain)
    try:
        trial = judged(replace(subject, every_config=True), case)
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise HarnessError(f"this machine has no memory for the case: {error}; give a smaller one") from error
    if outside is not None:
        trial.tally.notes[f"the case lies outside the domain: {outside}"] += 1
    name = oracle.dtype_under_test(subject.contract, case)
    found = [finding(subject, failure, trial.case) for failure in trial.failures]
    return verdict_of(subject, found, {name: trial.tally}, 0, False)


def _place(fmt: Format | str) -> int:
    """A number of its own for every format, so that its search is the same whatever others are judged."""
    names = [*FORMATS, *(name for name in formats.FORMATS if name not in FORMATS)]
    return names.index(name_of(fmt)) if name_of(fmt) in names else len(names)


def _narrowest(wanted: Sequence[Format | str]) -> Format | str:
    """The format of the fewest digits; an integer dtype has more than any."""
    return min(wanted, key=lambda fmt: fmt.precision if isinstance(fmt, Format) else math.inf)


def verdict_of(
    subject: Subject, findings: list[Finding], tallies: dict[str, Tally], seed: int, interrupted: bool
) -> Verdict:
    """The verdict of a search."""
    return Verdict(
        subject=subject.target or subject.name,
        contract=contract_spec(subject.contract),
        device=subject.device,
        findings=tuple(findings),
        tallies=tallies,
        claims=subject.arithmetic.claimed(),
        excluded=tuple(subject.domain.exclusions()),
        seed=seed,
        interrupted=interrupted,
    )
