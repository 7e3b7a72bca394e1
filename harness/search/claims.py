"""The claim under which a wrong result would be right, found by weakening the claims a little at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from harness import formats, oracle
from harness.arithmetic import Arithmetic
from harness.contention import Allowance
from harness.search.wider import Wider
from harness.trial import Subject, Trial

NUMERICAL = frozenset({"accuracy", "special values", "layout"})
"""Checks whose failures a looser claim may explain."""

SECONDS = 30.0
"""Time after which no further claim is tried, without what other programs take."""


def numerical(trial: Trial) -> bool:
    """Whether a looser claim may explain all failures of a trial."""
    return all(failure.check in NUMERICAL for failure in trial.failures)


def right_if(subject: Subject, failing: Sequence[Trial], search: Callable[[Subject], Trial | None]) -> str:
    """``right if claims={...}`` for the first claim that makes everything right, or "".

    failing: trials of any formats; one claim must explain all. search: searches again with a subject of
    looser claims, and returns a trial that is wrong even then; such a trial must be explained by the next
    claim too. A claim under which anything goes explains nothing: in each format, some of what was wrong must
    still have a bound or be what an overflow gives, and in one be told from zero or be small by nature (a sum
    that cancels, a subnormal number that the claim flushes). Nor does a claim about a narrow format where the
    same values are wrong in float32.
    """
    if not failing or not all(map(numerical, failing)):
        return ""
    wrong = list(failing)
    wider = Wider(subject)
    allowance = Allowance(SECONDS)
    names = {oracle.dtype_under_test(subject.contract, trial.case) for trial in failing}
    for looser in _looser(subject, names):
        if allowance.left() < 0:
            return ""
        if not _explains(subject, looser, wrong) or wider.refutes(looser, wrong):
            continue
        if wider.lost:
            return ""
        counterexample = search(replace(subject, arithmetic=looser))
        if counterexample is None:
            return f"right if claims={looser.claimed()}"
        if not numerical(counterexample):
            return ""
        wrong.append(counterexample)
    return ""


def _explains(subject: Subject, looser: Arithmetic, wrong: Sequence[Trial]) -> bool:
    """Whether everything is right under looser claims, some of each format within a bound, and something decidedly."""
    telling, bounded = False, dict[str, bool]()
    for trial in reversed(wrong):
        contract = subject.contract.at(trial.case.sizes)
        judged = oracle.judge_case(contract, looser, trial.case, trial.exact, trial.got, trial.dtypes).outputs
        if not all(output.right_everywhere for output in judged):
            return False
        name = oracle.dtype_under_test(subject.contract, trial.case)
        flushed = 0.0
        if looser.flush != subject.arithmetic.flush:
            terms = max((n for tensor in trial.exact.values() for n in tensor.shape), default=1)
            flushed = 4 * terms * _smallest_normal(name)
        for output, before, plain, got in zip(judged, trial.judgements, trial.plain, trial.got, strict=True):
            small = (output.lo >= -flushed) & (output.hi <= flushed)
            vague = (output.lo <= 0) & (output.hi >= 0) & ~small & plain
            wrongly = ~before.right
            known = wrongly & (~output.unbounded | ~torch.isfinite(got))
            bounded[name] = bounded.get(name, False) or bool(known.any())
            telling |= bool((wrongly & ~vague & ~output.unbounded & ~output.unspecified).any())
    return telling and all(bounded.values())


def _smallest_normal(dtype: str) -> float:
    return 0.0 if formats.is_integer(dtype) else formats.format_of(dtype).tiny


def _looser(subject: Subject, names: set[str]) -> Iterator[Arithmetic]:
    """Arithmetics with one claim weakened, then with small sets of them."""
    claim = subject.arithmetic
    open_places = _open_places(subject)
    places = [
        {"roundings": (*claim.roundings, *some)}
        for count in range(1, len(open_places) + 1)
        for some in itertools.combinations(open_places, count)
    ]
    forms: list[dict[str, Any]] = [
        *([{"dot": "fp8"}] if all(_of_eight_bits(name) for name in names) else []),
        {"depth": "sequential"},
        {"exp": "scaled"},
        {"dot": "tf32x3"},
        {"dot": "tf32"},
        {"dot": "bf16"},
        {"variance": "textbook"},
        {"flush": "all"},
        {"saturate": True},
    ]
    narrow = [
        {"accumulator": name}
        for name in ("float16", "bfloat16")
        if _narrower(name, claim) and names == {name}
    ]
    pairs = [{**a, **b} for a, b in itertools.combinations([*forms, *places[: len(open_places)], *narrow], 2)]
    everything = {"roundings": (*claim.roundings, *open_places)}
    seen = {claim}
    for change in (
        *forms,
        *places,
        *narrow,
        *pairs,
        *({**everything, **change} for change in (*forms, *narrow)),
    ):
        looser = replace(claim, **change)
        if looser not in seen:
            seen.add(looser)
            yield looser


def _of_eight_bits(name: str) -> bool:
    return not formats.is_integer(name) and formats.format_of(name).bits == 8


def _open_places(subject: Subject) -> list[str]:
    held = {*subject.contract.usual, *subject.arithmetic.roundings}
    return [place for place in subject.contract.roundings if place not in held]


def _narrower(name: str, claim: Arithmetic) -> bool:
    return formats.format_of(name).precision < formats.format_of(claim.accumulator).precision
