"""The words of an element that is wrong: got and exact in decimal and hexadecimal, ulp, ratio, allowed range."""

from __future__ import annotations

import math

import torch

from harness import formats
from harness.checks.judgement import Judgement
from harness.formats import Format
from harness.numbers.number import NAN, NINF, PINF


def element_text(
    name: str, element: tuple[int, ...], got: float, judgement: Judgement, fmt: Format | None
) -> str:
    """One line for a wrong element, e.g. ``out[0, 3] is 0.03 (0x1p-5), exact 0.0312 (…): 12 ulp, 8.1 × allowed``."""
    value = float(judgement.value[element])
    where = f"{name}[{', '.join(map(str, element))}]" if element else name
    text = f"{where} is {number(got)}, exact {number(value)}"
    if math.isnan(got) or math.isinf(got) or math.isnan(value) or math.isinf(value):
        return f"{text}; right: {right_answers(judgement, element)}"
    if fmt is None:
        return f"{text}; right: {right_answers(judgement, element)}"
    ulp = float(formats.ulp(torch.tensor(abs(value), dtype=torch.float64), fmt))
    allowed, error = float(judgement.allowed[element]), abs(got - value)
    times = f"{error / allowed:.3g} × the allowed error" if allowed else "should be exact"
    return f"{text}: off by {error / ulp:.4g} ulp, {times}; right: {right_answers(judgement, element)}"


def right_answers(judgement: Judgement, element: tuple[int, ...]) -> str:
    """The set of right answers of an element in words."""
    if judgement.candidates is not None:
        indices = judgement.candidates[element].nonzero().flatten().tolist()
        return " or ".join(map(str, indices[:8]))
    lo, hi = float(judgement.lo[element]), float(judgement.hi[element])
    answers = ["NaN"] if math.isnan(lo) else [f"{lo:.9g}" if lo == hi else f"{lo:.9g} to {hi:.9g}"]
    may = int(judgement.may[element])
    for flag, text in ((PINF, "inf"), (NINF, "-inf"), (NAN, "NaN")):
        if may & flag and text not in answers:
            answers.append(text)
    return " or ".join(answers)


def number(x: float) -> str:
    """A float64 in decimal with its hexadecimal form."""
    return f"{x:.9g} ({formats.to_hex(x)})" if math.isfinite(x) else f"{x}"
