"""What the sentence says of the elements of one output: worked out at once, when it is read, or in parts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness import formats
from harness.formats import Format
from harness.numbers import Answer
from harness.numbers.number import LOST, NAN, NINF, PINF, UNSPECIFIED


@dataclass(frozen=True)
class Target:
    """How one output is judged: its kind (see :class:`harness.contracts.Output`), the format of its values
    (None: integers), the clamp of a code, and whether what overflows becomes the largest finite value."""

    kind: str
    fmt: Format | None
    accumulator: Format
    clamp: tuple[int, int] | None = None
    saturate: bool = False

    @property
    def rounds(self) -> bool:
        """Whether a final rounding follows the accumulator."""
        fmt = self.fmt
        return fmt is None or self.accumulator.precision > fmt.precision or self.accumulator.emax > fmt.emax


@dataclass(frozen=True)
class Judgement:
    """What the sentence says of every element of one output, [its shape].

    right, lo and hi (the range of right finite answers, float64), ratio (|got - exact| over the allowed
    error), allowed (that error), value (the exact value, rounded to float64), t, may (flags of other right
    answers), unspecified (an overflow left the answer open), unbounded (t is infinite, or the oracle lost),
    decisive (a zero in its place would be wrong). extremes: the answers that overflows below and above give.
    candidates, [its shape, k]: of a choice, the right indices.
    """

    right: torch.Tensor
    lo: torch.Tensor
    hi: torch.Tensor
    ratio: torch.Tensor
    allowed: torch.Tensor
    value: torch.Tensor
    t: torch.Tensor
    may: torch.Tensor
    unspecified: torch.Tensor
    unbounded: torch.Tensor
    decisive: torch.Tensor
    extremes: tuple[float, float] = (-torch.inf, torch.inf)
    candidates: torch.Tensor | None = None

    @property
    def only_zero(self) -> torch.Tensor:
        """Mask of elements whose only right answer is 0."""
        return (self.lo == 0) & (self.hi == 0) & (self.may == 0)

    @property
    def right_everywhere(self) -> bool:
        """Whether every element is right."""
        return bool(self.right.all())

    @property
    def largest_ratio(self) -> float:
        """The largest ratio; 0 without elements."""
        return float(self.ratio.max()) if self.ratio.numel() else 0.0

    def accepts(self, got: torch.Tensor) -> torch.Tensor:
        """Mask of right answers among other values of the same output."""
        if self.candidates is not None:
            return chosen(got, self.candidates)
        return accepts(got, self.lo, self.hi, self.may, self.extremes)


class Ordinary(Judgement):
    """The judgement of finite numbers without flags, far from overflow, each field worked out when it is read.

    Elements nearer to the exact value than any right one may lie from it are right without a look at their range.
    """

    got: torch.Tensor
    fmt: Format
    rounds: bool

    def __init__(self, got: torch.Tensor, answer: Answer, target: Target, fmt: Format) -> None:
        largest = fmt.max if target.saturate else torch.inf
        self.__dict__.update(value=answer.value, t=answer.t, may=answer.may, extremes=(-largest, largest))
        self.__dict__.update(got=got, fmt=fmt, rounds=target.rounds)

    @functools.cached_property
    def right_everywhere(self) -> bool:
        if self.got.numel() == 0:
            return True
        if self.rounds:
            return self._open.numel() == 0 or bool(self._decided.all())
        return self.largest_ratio <= 1 - _UNSURE or super().right_everywhere

    @functools.cached_property
    def right(self) -> torch.Tensor:
        if not self.rounds:
            return _between(self.got, *self._range)
        right = torch.ones(self.got.numel(), dtype=torch.bool, device=self.got.device)
        right[self._open] = self._decided
        return right.reshape(self.got.shape)

    @functools.cached_property
    def _open(self) -> torch.Tensor:
        """The places, counted through, of elements that are not nearer than half an ulp at |exact|: within it got is
        what exact rounds to, and thus right."""
        excess = (self.got - self.value).abs_()
        excess -= formats.half_ulp(self.value, self.fmt)
        if excess.numel() == 0 or float(excess.amax()) < 0:
            return _NOWHERE
        return (~(excess < 0)).reshape(-1).nonzero().squeeze(1)

    @functools.cached_property
    def _decided(self) -> torch.Tensor:
        """Whether these elements are right."""
        value, t, got = (a.reshape(-1)[self._open] for a in (self.value, self.t, self.got))
        return _between(got, *(formats.round_to(end, self.fmt) for end in (value - t, value + t)))

    @functools.cached_property
    def _range(self) -> tuple[torch.Tensor, torch.Tensor]:
        lo, hi = self.value - self.t, self.value + self.t
        return (formats.round_to(lo, self.fmt), formats.round_to(hi, self.fmt)) if self.rounds else (lo, hi)

    @functools.cached_property
    def lo(self) -> torch.Tensor:
        return self._range[0]

    @functools.cached_property
    def hi(self) -> torch.Tensor:
        return self._range[1]

    @functools.cached_property
    def allowed(self) -> torch.Tensor:
        if not self.rounds:
            return self.t
        reach = self.value.abs()
        reach += self.t
        half = formats.half_ulp(reach, self.fmt)
        half += self.t
        return half

    @functools.cached_property
    def ratio(self) -> torch.Tensor:
        return self._ratio()

    @functools.cached_property
    def largest_ratio(self) -> float:
        ratio = self.__dict__["ratio"] if "ratio" in self.__dict__ else self._ratio()
        return float(ratio.amax()) if ratio.numel() else 0.0

    def _ratio(self) -> torch.Tensor:
        """The ratios, which are not kept: they are much memory, and often only the largest is asked for."""
        ratio = self.got - self.value
        ratio.abs_()
        ratio /= self.allowed
        if ratio.numel() and not float(ratio.amax()) < torch.inf:
            ratio = torch.where(self.got == self.value, 0.0, ratio)  # 0 of 0, where the value is exact
            torch.nan_to_num_(ratio, nan=torch.inf, posinf=torch.inf)
        return ratio

    @functools.cached_property
    def decisive(self) -> torch.Tensor:
        decisive: torch.Tensor = self.value.abs().sub_(self.t) > self._rounds_to_zero
        return decisive

    @property
    def only_zero(self) -> torch.Tensor:
        only_zero: torch.Tensor = self.value.abs().add_(self.t) <= self._rounds_to_zero
        return only_zero

    @property
    def _rounds_to_zero(self) -> float:
        """The largest number that becomes 0 in the output's format."""
        return self.fmt.eta / 2 if self.rounds else 0.0

    @functools.cached_property
    def unspecified(self) -> torch.Tensor:
        return torch.zeros((), dtype=torch.bool, device=self.value.device).expand(self.value.shape)

    @property
    def unbounded(self) -> torch.Tensor:
        return self.unspecified


class Later(Judgement):
    """The judgement of an output that is right everywhere, of which the rest is worked out if something is read."""

    full: Callable[[], Sequence[Judgement]]
    number: int

    def __init__(self, shape: Sequence[int], full: Callable[[], Sequence[Judgement]], number: int) -> None:
        right = torch.ones((), dtype=torch.bool).expand(*shape)
        self.__dict__.update(full=full, number=number, right=right, candidates=None)

    def __getattribute__(self, name: str) -> Any:
        if name in _WORKED_OUT:
            return getattr(self.full()[self.number], name)
        return super().__getattribute__(name)

    @property
    def right_everywhere(self) -> bool:
        return True


def _between(got: torch.Tensor, lo: torch.Tensor, hi: torch.Tensor) -> torch.Tensor:
    right: torch.Tensor = lo <= got
    right &= got <= hi
    return right


class Joined(Judgement):
    """The judgement of an output from those of its parts along an axis, each field put together when it is read."""

    parts: Sequence[Judgement]
    axis: int

    def __init__(self, parts: Sequence[Judgement], axis: int) -> None:
        self.__dict__.update(parts=parts, axis=axis, candidates=None)
        if parts[0].candidates is not None:
            self.__dict__["candidates"] = self._put_together("candidates")

    def __getattr__(self, name: str) -> torch.Tensor:
        if name not in _FIELDS:
            raise AttributeError(name)
        field = self.__dict__[name] = self._put_together(name)
        return field

    @property
    def extremes(self) -> tuple[float, float]:
        return self.parts[0].extremes

    @property
    def right_everywhere(self) -> bool:
        return all(part.right_everywhere for part in self.parts)

    @property
    def largest_ratio(self) -> float:
        return max(part.largest_ratio for part in self.parts)

    def _put_together(self, name: str) -> torch.Tensor:
        return torch.cat([getattr(part, name) for part in self.parts], self.axis)


_NOWHERE = torch.empty(0, dtype=torch.int64)
"""No places."""

_UNSURE = 2.0**-40
"""Below 1 - this, a ratio computed in float64 says that an error is within its bound; more, and the ends decide."""

_FIELDS = frozenset(item.name for item in dataclasses.fields(Judgement))
_WORKED_OUT = _FIELDS - {"right", "candidates"} | {"only_zero", "largest_ratio"}


def accepts(
    got: torch.Tensor, lo: torch.Tensor, hi: torch.Tensor, may: torch.Tensor, extremes: tuple[float, float]
) -> torch.Tensor:
    """Mask of right answers: within [lo, hi] (NaN where those are NaN), or one that a flag adds."""
    right = ((lo <= got) & (got <= hi)) | (torch.isnan(lo) & torch.isnan(got))
    if bool((may != 0).any()):
        right |= ((may & PINF) != 0) & (got == extremes[1])
        right |= ((may & NINF) != 0) & (got == extremes[0])
        right |= ((may & NAN) != 0) & torch.isnan(got)
        right |= (may & (UNSPECIFIED | LOST)) != 0
    return right


def chosen(got: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    inside = (got >= 0) & (got < candidates.shape[-1])
    index = torch.where(inside, got, 0.0).long()
    return inside & candidates.gather(-1, index.unsqueeze(-1)).squeeze(-1)
