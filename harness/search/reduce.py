"""From a failing case to a small one: fewer situations, shorter axes, plainer layouts and values.

Every pass proposes smaller cases, the first of the domain that still fails the same check is kept, and passes repeat
until none helps or the budget is spent. Results depend on the case and the budget in trials only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from harness import simplify
from harness.admission import objection
from harness.case import Case, Recipe, grid, logical_values
from harness.checks.failure import Failure
from harness.contention import Allowance
from harness.contracts import Choice, Contract, Dim
from harness.errors import HarnessError
from harness.formats import Format, format_of, from_hex, is_integer, round_to, to_hex
from harness.layouts import Layout
from harness.trial import Subject, Trial, run_trial
from harness.values import one, round_rows

MOST_TRIALS = 400
MOST_HUNG = 3
"""Trials of one reduction that may hang: each takes the whole limit of time of a launch."""

NOT_REDUCED = "; not reduced further, as every launch of it takes the limit of time"

FIRST_LAUNCH = frozenset({"accuracy", "special values"})
"""Checks that the first launch of a trial decides, so that further reruns tell nothing."""

MOST_CHUNKS = 64
"""Into how many chunks an axis is cut, of which each is left out."""

WRITTEN_OUT = 64
"""Elements up to which single values are simplified."""

PIECES = (1, 2, 4, 8, 16)
"""Into how many parts a tensor is cut, of which each is tried with one plain value."""

LONGEST_CASE = 8_000
"""Characters of a case that a command can hold: a long row is told by its recipe, not by its elements."""


@dataclass
class Reduction:
    """The smallest case found, its trial and failure; ``short`` is the last trial whose case fits in a command.

    hung: trials that hung; passed: elements of the largest input that did not fail.
    """

    subject: Subject
    check: str
    trial: Trial
    short: Trial
    trials: int = 0
    hung: int = 0
    passed: int = 0
    seen: set[str] = field(default_factory=set)
    allowance: Allowance | None = None

    @property
    def failure(self) -> Failure:
        """The failure of the check under reduction."""
        found = next(failure for failure in self.trial.failures if failure.check == self.check)
        return replace(found, message=found.message + NOT_REDUCED) if self.hung >= MOST_HUNG else found

    @property
    def spent(self) -> bool:
        late = self.allowance is not None and self.allowance.left() < 0
        return late or self.trials >= MOST_TRIALS or self.hung >= MOST_HUNG

    def attempt(self, case: Case) -> bool:
        """Whether a case of the domain fails the same check; if so it becomes the smallest."""
        if case.digest in self.seen or self.spent:
            return False
        self.seen.add(case.digest)
        if objection(self.subject.contract, case, self.subject.domain) is not None:
            return False
        self.trials += 1
        try:
            trial = run_trial(self.subject, case, thorough=self.check not in FIRST_LAUNCH)
        except HarnessError:
            return False
        if trial.passed:
            self.passed = max(self.passed, trial.elements)
        self.hung += any(failure.check == "hangs" for failure in trial.failures)
        if any(failure.check == self.check for failure in trial.failures):
            self.trial = trial
            if len(case.to_json()) <= LONGEST_CASE:
                self.short = trial
            return True
        return False


def reduced(
    subject: Subject, trial: Trial, check: str, seconds: float = 20.0, hints: Sequence[Case] = ()
) -> Reduction:
    """Reduce a failing trial for one of its checks. hints: cases as small as can be, if they fail it too."""
    seen = {trial.case.digest}
    state = Reduction(subject, check, trial, trial, seen=seen, allowance=Allowance(seconds))
    if check == "hangs":
        hints = [*hints, *_smallest(subject.contract, trial.case)]
    improved = not any(state.attempt(case) for case in hints)
    while improved and not state.spent:
        improved = False
        for proposals in _PASSES:
            while any(state.attempt(case) for case in _proposed(proposals, state)):
                improved = True
    if len(state.trial.case.to_json()) > LONGEST_CASE:
        state.trial = state.short
    return state


def in_format(case: Case, like: Case) -> Case:
    """A case with the formats of the tensors of another one, its written values rounded into them; it may not fit."""
    formats = {name: recipe.format for name, recipe in like.tensors.items() if recipe is not None}
    tensors = {
        name: recipe and _in_format(recipe, formats.get(name, recipe.format))
        for name, recipe in case.tensors.items()
    }
    return replace(case, tensors=tensors)


def _in_format(recipe: Recipe, fmt: str) -> Recipe:
    if recipe.format == fmt or is_integer(fmt):
        return replace(recipe, format=fmt)

    def held(text: str) -> str:
        return to_hex(float(round_rows(np.array([from_hex(text)]), format_of(fmt))[0]))

    rows = [
        replace(
            row,
            values=tuple(map(held, row.values)),
            plant=tuple((index, held(text)) for index, text in row.plant),
        )
        for row in recipe.rows
    ]
    return replace(recipe, format=fmt, rows=tuple(rows))


def _smallest(contract: Contract, case: Case) -> Iterator[Case]:
    """The case with one element on every axis, and as few axes as it takes."""
    try:
        for label, length in simplify.axes(contract, case).items():
            case = simplify.cut(contract, case, label, min(length, 1))
        smaller: Case | None = case
        while smaller is not None:
            case = smaller
            squeezed = (simplify.squeeze(contract, case, label) for label in simplify.axes(contract, case))
            smaller = next(filter(None, squeezed), None)
    except HarnessError:
        return
    yield case


def _proposed(proposals: Callable[[Contract, Reduction], Iterator[Case]], state: Reduction) -> Iterator[Case]:
    """The cases of a pass; one that cannot be formed is left out."""
    try:
        yield from proposals(state.subject.contract, state)
    except HarnessError:
        return


def _situations(contract: Contract, state: Reduction) -> Iterator[Case]:
    """The failing situation alone, then beside one other, then halves."""
    case, at = state.trial.case, state.failure.situation
    count = contract.situations(case.sizes, case.scalars)
    if count <= 1:
        return
    if at is not None and at >= 0:
        yield simplify.only_situations(contract, case, [at])
        if count > 2:
            for other in dict.fromkeys((0, at - 1, at + 1)):
                if 0 <= other < count and other != at:
                    yield simplify.only_situations(contract, case, sorted((other, at)))
    half = count // 2
    if count > 2:
        yield simplify.only_situations(contract, case, list(range(half)))
        yield simplify.only_situations(contract, case, list(range(half, count)))
    elif at is None:
        yield simplify.only_situations(contract, case, [0])
        yield simplify.only_situations(contract, case, [1])


def _squeezes(contract: Contract, state: Reduction) -> Iterator[Case]:
    """One axis of length 1 less."""
    for label in simplify.axes(contract, state.trial.case):
        smaller = simplify.squeeze(contract, state.trial.case, label)
        if smaller is not None:
            yield smaller


def _plain_layouts(contract: Contract, state: Reduction) -> Iterator[Case]:
    """All contiguous, else one tensor in a simpler layout."""
    case = state.trial.case
    yield simplify.contiguous(contract, case)
    for name, recipe in case.tensors.items():
        if recipe is None or recipe.layout == Layout.contiguous(recipe.layout.ndim):
            continue
        for layout in recipe.layout.simpler():
            yield simplify.with_layout(contract, case, name, layout)


def _prefixes(contract: Contract, state: Reduction) -> Iterator[Case]:
    """The shortest prefix of some axis: 1, 2, 4, … elements, then a little less."""
    case = state.trial.case
    for label, length in simplify.axes(contract, case).items():
        lengths = [1 << k for k in range(length.bit_length()) if 1 << k < length]
        for shorter in dict.fromkeys((*lengths, length * 3 // 4, length - 1)):
            if 0 < shorter < length:
                yield simplify.cut(contract, case, label, shorter)


def _sides(contract: Contract, state: Reduction) -> Iterator[Case]:
    """The shortest prefix, the same, of axes of one length, for what fails where two are equally long."""
    case = state.trial.case
    lengths = simplify.axes(contract, case)
    for length in sorted({n for n in lengths.values() if n > 2}):
        equal = [label for label, n in lengths.items() if n == length]
        groups = [equal, *itertools.combinations(equal, 2)] if len(equal) > 2 else [equal]
        for several in groups if len(equal) > 1 else ():
            for shorter in dict.fromkeys(
                (*(1 << k for k in range(1, (length - 1).bit_length())), length - 1)
            ):
                smaller = case
                for label in several:
                    smaller = simplify.cut(contract, smaller, label, shorter)
                yield smaller


def _omissions(contract: Contract, state: Reduction) -> Iterator[Case]:
    """Chunks of elements left out of one axis, large chunks first, then the first element."""
    case = state.trial.case
    for label, length in simplify.axes(contract, case).items():
        if not 1 < length <= 4096:
            continue
        chunk = length // 2
        while chunk >= 1 and length // chunk <= MOST_CHUNKS:
            for start in range(0, length, chunk):
                keep = [i for i in range(length) if not start <= i < start + chunk]
                if keep:
                    yield simplify.restrict(contract, case, label, keep)
            chunk //= 2
        if chunk:
            yield simplify.restrict(contract, case, label, range(1, length))


def _plain_scalars(contract: Contract, state: Reduction) -> Iterator[Case]:
    """Positive axes, and the first value of a choice."""
    case = state.trial.case
    for name, value in case.scalars.items():
        spec = contract.scalars[name]
        if isinstance(spec, Dim) and value < 0:
            rank = len(contract.axes(contract.tensors[spec.of].shape, case.sizes, case.scalars))
            yield simplify.with_scalar(contract, case, name, value % rank)
        if isinstance(spec, Choice) and value != spec.values[0]:
            yield simplify.with_scalar(contract, case, name, spec.values[0])


def _equal_values(contract: Contract, state: Reduction) -> Iterator[Case]:
    """All of a tensor set to one plain value, else a half of it, a quarter and so on."""
    case = state.trial.case
    for name, recipe in case.tensors.items():
        if recipe is None:
            continue
        values = logical_values(contract, case, name)
        flat = values.reshape(-1)
        unit = _unit(recipe, state)
        for piece in _pieces(len(flat)):
            for fill in (0.0, unit):
                changed = flat.copy()
                changed[piece] = fill
                if not np.array_equal(changed, flat, equal_nan=True):
                    yield simplify.with_values(contract, case, name, changed.reshape(values.shape))


def _pieces(length: int) -> Iterator[slice]:
    """All elements, both halves, and smaller parts of what is not simplified one by one."""
    for parts in PIECES if length > WRITTEN_OUT else PIECES[:2]:
        if parts <= length:
            for start, stop in itertools.pairwise(length * at // parts for at in range(parts + 1)):
                yield slice(start, stop)


def _plain_values(contract: Contract, state: Reduction) -> Iterator[Case]:
    """Single elements made plainer: 0, 1, an integer, few bits."""
    case = state.trial.case
    for name, recipe in case.tensors.items():
        if (
            recipe is None
            or grid(contract, case, name).rows * grid(contract, case, name).length > WRITTEN_OUT
        ):
            continue
        fmt, unit = format_of(recipe.format), _unit(recipe, state)
        values = logical_values(contract, case, name)
        for index, value in np.ndenumerate(values):
            for plainer in _plainer(float(value), fmt, unit):
                changed = values.copy()
                changed[index] = plainer
                yield simplify.with_values(contract, case, name, changed)


def _unit(recipe: Recipe, state: Reduction) -> float:
    """1, or what stands for it in the domain."""
    return 1.0 if is_integer(recipe.format) else one(format_of(recipe.format), state.subject.domain)


def _plainer(value: float, fmt: Format, unit: float) -> Iterator[float]:
    """Values simpler than ``value``, the simplest first. unit: 1, or what stands for it in the domain."""
    if math.isnan(value):
        return
    if math.isinf(value):
        yield math.copysign(unit, value)
        return
    candidates = [0.0, unit, math.copysign(unit, value)]
    if value:
        exponent = math.frexp(value)[1]
        candidates += (
            [float(round(value, digits)) for digits in (-2, -1, 0, 1, 2)] if abs(value) < 1e9 else []
        )
        candidates += [_short(value, exponent, bits) for bits in (1, 3)]
    for candidate in dict.fromkeys(candidates):
        rounded = float(round_to(np.array([candidate]), fmt)[0])
        if rounded != value and _cost(rounded) < _cost(value):
            yield rounded


def _short(value: float, exponent: int, bits: int) -> float:
    """A value cut to a few bits."""
    return math.ldexp(math.trunc(math.ldexp(value, bits - exponent)), exponent - bits)


def _cost(value: float) -> tuple[int, float]:
    """Digits to write, then magnitude away from 1: what makes a value look plain."""
    if value == 0.0:
        return (0, 0.0)
    return (len(repr(abs(value)).replace(".0", "")) + (value < 0), abs(math.log2(abs(value))))


_PASSES = (
    _situations,
    _plain_layouts,
    _prefixes,
    _sides,
    _squeezes,
    _omissions,
    _plain_scalars,
    _equal_values,
    _plain_values,
)
