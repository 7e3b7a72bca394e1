"""What wrong answers look like, where no claim makes them right: the mistake that gives the same ones.

Wherever the kernel is wrong, its answers must be right for a suspect's launch (:mod:`harness.search.suspects`),
by the same bounds: on the inputs found so far, and on more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import NamedTuple

import torch

from harness import formats, oracle
from harness.case import Case
from harness.contention import Allowance
from harness.errors import HarnessError
from harness.formats import Format, Mode
from harness.search.claims import NUMERICAL
from harness.search.suspects import Suspect, suspects
from harness.trial import Subject, Trial

RESEMBLING = NUMERICAL | {"surroundings"}
"""Checks whose failures a mistake may explain: one that reads outside a tensor reads what surrounds it."""

SECONDS = 10.0
"""Time after which nothing more is suspected, without what other programs take."""

FEWEST = 3
"""Wrong launches that a suspect must explain before it is named, the smallest input among them."""


Rounding = Callable[[torch.Tensor, Format], torch.Tensor]
"""float64 values rounded into a format."""


class Match(Enum):
    """Whether a mistake gives what was returned: it changes nothing of this launch; it does not; as many mistakes would,
    a NaN or what an overflow leaves open; or a number within its bound."""

    SAME = 0
    NONE = 1
    OPEN = 2
    WITHIN = 3


class Guess(NamedTuple):
    """A mistake in words, whether it explains a trial, and whether a kernel that makes it makes it always."""

    words: str
    explains: Callable[[Trial], Match]
    always: bool = True


def looks_like(
    guesses: Iterable[Guess], failing: Sequence[Trial], more: Callable[[], Iterable[Trial]]
) -> str:
    """``as if ...`` for the first guess that explains every wrong launch, or "".

    failing: trials of any formats; more: others. Those that are right refute what a kernel would do always.
    """
    if not failing or any(failure.check not in RESEMBLING for trial in failing for failure in trial.failures):
        return ""
    allowance = Allowance(SECONDS)
    left = list(guesses)
    within: dict[str, set[Case]] = {guess.words: set() for guess in left}
    smallest_first = sorted(failing, key=lambda trial: sum(tensor.numel() for tensor in trial.exact.values()))
    for trials in (lambda: smallest_first, more):
        for trial in trials():
            if allowance.left() < 0 or not left:
                break
            if not trial.judgements:
                continue
            right = all(judged.right_everywhere for judged in trial.judgements)
            kept = []
            for guess in left:
                match = guess.explains(trial) if guess.always or not right else Match.SAME
                if match is Match.WITHIN:
                    within[guess.words].add(trial.case)
                if match in (Match.OPEN, Match.WITHIN) or (right and match is Match.SAME):
                    kept.append(guess)
            left = kept
    named = [guess.words for guess in left if len(within[guess.words]) >= FEWEST]
    return f"as if {named[0]}" if named else ""


def other_launches(subject: Subject) -> list[Guess]:
    """Mistakes that answer as another launch would."""
    return [
        Guess(suspect.words, functools.partial(_explains, subject, suspect), suspect.always)
        for suspect in suspects(subject)
    ]


def other_roundings(subject: Subject) -> list[Guess]:
    """Results that are rounded into their format otherwise than to nearest, ties to even, subnormals kept."""
    names = " and ".join(output.name for output in subject.contract.outputs)
    modes: dict[str, Mode] = {"toward zero": "toward-zero", "up": "up", "down": "down"}
    roundings: dict[str, Rounding] = {
        **{
            f"were rounded {words}": functools.partial(formats.round_to, mode=mode)
            for words, mode in modes.items()
        },
        "were rounded to nearest, ties away from zero": _ties_away,
        "were 0 below the least normal number of its format": _flushed,
    }
    return [
        Guess(f"{names} {words}", functools.partial(_rounded, subject, rounding))
        for words, rounding in roundings.items()
    ]


def _ties_away(x: torch.Tensor, fmt: Format) -> torch.Tensor:
    """To nearest, ties away from zero; of formats far narrower than float64."""
    away = formats.round_to(x.abs() + formats.half_ulp(x, fmt), fmt, mode="toward-zero")
    return torch.copysign(away, x)


def _flushed(x: torch.Tensor, fmt: Format) -> torch.Tensor:
    """To nearest, ties to even, subnormals 0."""
    nearest = formats.round_to(x, fmt)
    return torch.where(nearest.abs() < 2.0**fmt.emin, 0.0, nearest)


def _rounded(subject: Subject, rounding: Rounding, trial: Trial) -> Match:
    """Whether every finite result is this rounding of some real number within t of the exact value."""
    contract = subject.contract.at(trial.case.sizes)
    wanted = oracle.targets(contract, subject.arithmetic, trial.case, trial.dtypes)
    match = Match.SAME
    for target, judged, got in zip(wanted, trial.judgements, trial.got, strict=True):
        if target.fmt is None or not target.rounds or target.kind == "choice":
            if not judged.right_everywhere:
                return Match.NONE
            continue
        known = torch.isfinite(judged.t) & torch.isfinite(judged.value) & (judged.may == 0)
        value, t, held = judged.value[known], judged.t[known], got[known]
        low, high = (rounding(end, target.fmt) for end in (value - t, value + t))
        given = rounding(held, target.fmt) == held  # none that this rounding never gives
        if not bool(((low <= held) & (held <= high) & given).all()) or bool((~judged.right & ~known).any()):
            return Match.NONE
        match = Match.WITHIN if bool((~judged.right & known).any()) else match
    return match


def _explains(subject: Subject, suspect: Suspect, trial: Trial) -> Match:
    """Whether what was returned is right, wherever it can be, as if the suspect's launch had been made."""
    contract = subject.contract.at(trial.case.sizes)
    try:
        changed = suspect.change(contract, trial.case, trial.exact)
        if changed is None:
            return Match.SAME
        case, exact = changed
        got = [suspect.undone(tensor) for tensor in trial.got]
        judgements = oracle.judge_as(contract, subject.arithmetic, case, exact, got, trial.dtypes)
    except (HarnessError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return Match.NONE  # the contract cannot mean such arguments
    if judgements is None or not all(after.right_everywhere for after in judgements):
        return Match.NONE
    told = (
        (suspect.undone((~before.right).double()) != 0)
        & ~(after.unbounded | after.unspecified | torch.isnan(returned))
        for before, after, returned in zip(trial.judgements, judgements, got, strict=True)
    )
    return Match.WITHIN if any(bool(mask.any()) for mask in told) else Match.OPEN
