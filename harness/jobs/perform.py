"""Doing a job: the only module of this package that loads torch."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from harness import records, search
from harness.admission import check_written
from harness.case import Case
from harness.checks.failure import Failure
from harness.domain import Domain
from harness.errors import HarnessError, nearest
from harness.executors import neutral
from harness.formats import name_of
from harness.jobs import messages
from harness.jobs.messages import Event, Job, UnderTest
from harness.search.arguments import make_subject, wanted_formats
from harness.search.finding import contract_spec, finding
from harness.search.one_format import CONTEXT_BROKE
from harness.subjects import Target, contract_names, discover, load, load_contract
from harness.trial import Subject, run_trial
from harness.verdict import Finding, Verdict

Emit = Callable[[Event], None]

PAUSE = 0.1
"""Seconds between two events that only say how far a search is."""


def perform(job: Job, emit: Emit) -> None:
    """Do a job and emit its events, except the last."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    match job:
        case messages.Plan():
            _plan(job, emit)
        case messages.Check():
            _check(job, emit)
        case messages.Fuzz():
            _fuzz(job, emit)
        case messages.Replay():
            _replay(job, emit)
        case messages.Explain():
            _explain(job, emit)
        case messages.Describe():
            _describe(job, emit)
        case messages.Discover():
            emit(messages.Listed(subjects=tuple(_declared(target) for target in discover(job.path))))
        case messages.DiscoverTorch():
            _discover_torch(emit)


def _plan(job: messages.Plan, emit: Emit) -> None:
    target = load(job.under.target)
    declared = target.declaration
    if job.under.contract:
        contract = load_contract(job.under.contract)
    elif declared is not None:
        contract = declared.contract
    else:
        raise HarnessError(
            f"{job.under.target} declares no contract; say which it implements with --as: "
            f"{', '.join(contract_names())}, or my_file.py:my_contract"
        )
    claims: Mapping[str, Any] | None = job.under.claims
    domain: Mapping[str, Any] | Domain | None = job.under.domain
    if declared is not None:
        claims = declared.claims if claims is None else claims
        domain = declared.domain if domain is None else domain
    subject = make_subject(target, contract, job.under.device, claims, domain, job.under.timeout)
    dtypes = job.dtypes or (declared.dtypes if declared is not None else None)
    emit(
        messages.Planned(
            under=UnderTest(
                target=job.under.target,
                contract=job.under.contract or contract_spec(contract),
                device=job.under.device,
                claims=subject.arithmetic.claimed(),
                domain=_written(domain),
                timeout=job.under.timeout,
                configs=job.under.configs,
            ),
            formats=tuple(name_of(fmt) for fmt in wanted_formats(subject, dtypes)),
            subject=subject.target,
            excluded=tuple(subject.domain.exclusions()),
            environment=records.environment(job.under.device),
        )
    )


def _check(job: messages.Check, emit: Emit) -> None:
    verdict = search.check(
        load(job.under.target),
        load_contract(job.under.contract),
        job.formats,
        job.under.device,
        job.under.claims,
        job.under.domain,
        job.examples,
        job.seconds,
        job.seed,
        progress=_watcher(emit),
        timeout=job.under.timeout,
        shrink=job.shrink,
        configs=job.under.configs or None,
    )
    for item in verdict.findings:
        if item.check == "crashes":  # told as a failure of the job: the formats left go to another process
            raise RuntimeError(item.message.removeprefix(CONTEXT_BROKE))
    _judged(verdict, job.under, emit)


def _fuzz(job: messages.Fuzz, emit: Emit) -> None:
    def found(item: Finding) -> None:
        emit(messages.Found(format=item.format, finding=records.finding_record(item)))

    verdict = search.fuzz(
        load(job.under.target),
        load_contract(job.under.contract),
        [job.format],
        job.under.device,
        job.under.claims,
        job.under.domain,
        job.seconds,
        job.seed,
        folder=job.folder,
        progress=_watcher(emit),
        timeout=job.under.timeout,
        found=found,
    )
    _judged(verdict, job.under, emit)


def _replay(job: messages.Replay, emit: Emit) -> None:
    contract, case = load_contract(job.under.contract), _case(job.case)
    check_written(contract, case)
    verdict = search.replay(
        load(job.under.target),
        contract,
        case,
        device=job.under.device,
        claims=job.under.claims,
        domain=job.under.domain,
        timeout=job.under.timeout,
    )
    _judged(verdict, job.under, emit)


def _explain(job: messages.Explain, emit: Emit) -> None:
    subject, case = _subject(job.under), _case(job.case)
    check_written(subject.contract, case)
    contract = subject.contract.at(case.sizes)
    names = [output.name for output in contract.outputs]
    if job.output and job.output not in names:
        what = f"{subject.contract.name} has no output {job.output!r}"
        raise HarnessError(f"{what}; {nearest(job.output, names)}outputs: {', '.join(names)}")
    number = names.index(job.output) if job.output else 0
    element = job.element
    if element is None:
        number, element = _closest(subject, case)
    shape = contract.shape(contract.outputs[number].shape, case.sizes, case.scalars)
    if len(element) != len(shape) or any(not 0 <= i < n for i, n in zip(element, shape, strict=True)):
        raise HarnessError(f"{names[number]} has shape {list(shape)}, and no element {list(element)}")
    lines = search.explain_bound(subject.contract, subject.arithmetic, case, number, element)
    title = f"bound of {names[number]}[{', '.join(map(str, element))}] for {case}:"
    emit(messages.Said(lines=(title, *(f"  {line}" for line in lines))))


def _describe(job: messages.Describe, emit: Emit) -> None:
    failure = Failure(job.check, job.message)  # type: ignore[arg-type]
    item = finding(_subject(job.under), failure, _case(job.case))
    emit(messages.Found(format=item.format, finding=records.finding_record(item)))


def _discover_torch(emit: Emit) -> None:
    subjects, omitted = [], []
    for name in contract_names():
        wanted = list(load_contract(name).args)
        if any(called[1 : len(wanted)] == wanted[1:] for called in _torch_signatures(name)):
            subjects.append(messages.Declared(target=f"torch:{name}", contract=name))
        else:
            omitted.append(f"torch has no function {name} that is called with ({', '.join(wanted)})")
    emit(messages.Listed(subjects=tuple(subjects), omitted=tuple(omitted)))


def _declared(target: Target) -> messages.Declared:
    assert target.declaration is not None
    contract = contract_spec(target.declaration.contract)
    return messages.Declared(target=target.spec, contract=contract, mutants=tuple(target.declaration.mutants))


def _torch_signatures(name: str) -> Iterator[list[str]]:
    """The positional parameters of every overload of ``torch.<name>`` whose others have defaults."""
    packet = getattr(torch.ops.aten, name, None)
    if packet is None or not hasattr(torch, name):
        return
    for overload in packet.overloads():
        yield [item.name for item in getattr(packet, overload)._schema.arguments if not item.kwarg_only]


def _subject(under: UnderTest) -> Subject:
    return make_subject(
        load(under.target),
        load_contract(under.contract),
        under.device,
        under.claims,
        under.domain,
        under.timeout,
    )


@neutral()
def _closest(subject: Subject, case: Case) -> tuple[int, tuple[int, ...]]:
    """The output and element of a case that come closest to their bound, or leave it furthest."""
    judgements = run_trial(subject, case, thorough=False).judgements
    ratios = [float(judged.ratio.max()) if judged.ratio.numel() else -1.0 for judged in judgements]
    if not ratios or max(ratios) < 0:
        raise HarnessError("this case has no judged element, so that there is no bound to explain")
    number = ratios.index(max(ratios))
    worst = judgements[number].ratio
    element = torch.unravel_index(worst.argmax(), worst.shape) if worst.ndim else ()
    return number, tuple(int(i) for i in element)


def _judged(verdict: Verdict, under: UnderTest, emit: Emit) -> None:
    where = records.environment(under.device)
    emit(messages.Judged(record=records.record(verdict, under.domain, where)))


def _watcher(emit: Emit) -> Callable[[search.Progress], None]:
    """Passes on what is new: always a phase or a finding, otherwise now and then."""
    last: list[Any] = [None, 0.0]

    def watch(progress: search.Progress) -> None:
        kind, now = (progress.format, progress.phase, progress.findings, progress.found), time.monotonic()
        if kind == last[0] and now - last[1] < PAUSE:
            return
        last[:] = [kind, now]
        ratio = progress.largest_ratio
        emit(
            messages.Moved(
                format=progress.format,
                phase=progress.phase,
                situations=progress.situations,
                share=progress.share,
                launches=progress.launches,
                findings=progress.findings,
                largest_ratio="inf" if ratio == float("inf") else ratio,
                found=progress.found,
            )
        )

    return watch


def _written(domain: Mapping[str, Any] | Domain | None) -> dict[str, Any]:
    """A domain as the dict that gives it."""
    return domain.written() if isinstance(domain, Domain) else dict(domain or {})


def _case(case: Case) -> Case:
    return Case.from_json(case.to_json())
