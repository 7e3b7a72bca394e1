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
    value = float(judgement.value[element]) + 0.0  # either zero is right where one is
    shown = whole if fmt is None else number
    where = f"{name}[{', '.join(map(str, element))}]" if element else name
    text = f"{where} is {shown(got)}, exact {shown(value)}"
    if math.isnan(got) or math.isinf(got) or math.isnan(value) or math.isinf(value):
        return f"{text}; right: {right_answers(judgement, element, fmt)}"
    if fmt is None:
        return f"{text}; right: {right_answers(judgement, element, fmt)}"
    ulp = float(formats.ulp(torch.tensor(abs(value), dtype=torch.float64), fmt))
    allowed, error = float(judgement.allowed[element]), abs(got - value)
    times = f"{error / allowed:.3g} × the allowed error" if allowed else "should be exact"
    return f"{text}: off by {error / ulp:.4g} ulp, {times}; right: {right_answers(judgement, element, fmt)}"


def right_answers(judgement: Judgement, element: tuple[int, ...], fmt: Format | None) -> str:
    """The set of right answers of an element in words."""
    shown = whole if fmt is None else "{:.9g}".format
    if judgement.candidates is not None:
        indices = judgement.candidates[element].nonzero().flatten().tolist()
        return " or ".join(map(str, indices[:8]))
    lo, hi = float(judgement.lo[element]) + 0.0, float(judgement.hi[element]) + 0.0
    plain = [shown(end) for end in (lo, hi)]
    answers = ["NaN"] if math.isnan(lo) else [plain[0] if lo == hi else " to ".join(plain)]
    may = int(judgement.may[element])
    below, above = judgement.extremes
    for flag, text in ((PINF, shown(above)), (NINF, shown(below)), (NAN, "NaN")):
        if may & flag and text not in answers:
            answers.append(text)
    return " or ".join(answers)


def whole(x: float) -> str:
    """A value of an integer dtype; the exact value of one may lie between two integers."""
    return str(int(x)) if math.isfinite(x) and x == int(x) else f"{x:.9g}"


def number(x: float) -> str:
    """A float64 in decimal with its hexadecimal form."""
    return f"{x:.9g} ({formats.to_hex(x)})" if math.isfinite(x) else f"{x}"
