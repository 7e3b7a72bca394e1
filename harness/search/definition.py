"""The definition read before a kernel is blamed: its shapes, its rows, and the answers that its contract states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness import definition
from harness.case import Case, Row, grid, materialise, special_row
from harness.contracts import SpecialRow
from harness.formats import format_of, is_integer
from harness.simplify import contiguous
from harness.trial import Subject
from harness.values import raw_row, round_rows, special_applies
from harness.values.selection import SPECIAL

FIRST = 24
"""Cases of a search that the definition is looked at with, before any is launched."""

TELLING = 3
"""Those of them that the shapes are read on, or rather on the one that best tells the axes of outputs apart."""


def check_definition(subject: Subject, cases: Sequence[Case]) -> None:
    """Raise HarnessError where the definition contradicts its contract: in a shape, its rows, or a stated answer."""

    def telling(case: Case) -> tuple[int, ...]:
        contract = subject.contract.at(case.sizes)
        shapes = [contract.shape(output.shape, case.sizes, case.scalars) for output in contract.outputs]
        return min((min(shape, default=2) > 1, len(set(shape)) == len(shape)) for shape in shapes)

    case = max(cases[:TELLING], key=telling, default=None)
    if case is not None:
        exact = materialise(subject.contract.at(case.sizes), case, device="cpu").exact
        definition.check_shapes(subject.contract, subject.arithmetic, case, exact)
        _check_rows(subject, cases)
        _check_answers(subject, cases)


def _check_rows(subject: Subject, cases: Sequence[Case]) -> None:
    """Read a few cases of several situations also one situation at a time."""
    contract = subject.contract
    several = [case for case in cases if contract.situations(case.sizes, case.scalars) > 1]
    for case in several[:TELLING]:
        exact = materialise(contract.at(case.sizes), case, device="cpu").exact
        definition.check_rows(contract, case, exact)


def _check_answers(subject: Subject, cases: Sequence[Case]) -> None:
    """Read every special row that has an answer in the smallest case that shows it whole.

    Only where nothing but the first tensor has a say: others, if they are optional, are left out.
    """
    first, *others = subject.contract.tensors
    if not all(subject.contract.tensors[name].optional for name in others):
        return
    cases = sorted(cases, key=lambda case: subject.contract.situations(case.sizes, case.scalars))
    for special in subject.contract.special:
        if special.answer is None:
            continue
        for case in cases:
            recipe = case.tensors[first]
            if recipe is None or not subject.contract.situations(case.sizes, case.scalars):
                continue
            shown = contiguous(
                subject.contract, replace(case, tensors={first: recipe} | dict.fromkeys(others))
            )
            recipe = shown.tensors[first]
            assert recipe is not None
            # Where every element is a situation, the row lies along them all.
            single = not grid(subject.contract, shown, first).content_axes
            rows = (Row(SPECIAL + special.name, start=0 if single else None),)
            shown = replace(shown, tensors={**shown.tensors, first: replace(recipe, rows=rows)})
            if special_row(subject.contract, shown, 0) is special or (
                single and _lies_whole(subject, shown, special)
            ):
                exact = materialise(subject.contract.at(case.sizes), shown, device="cpu").exact
                definition.check_answer(subject.contract, subject.arithmetic, shown, exact, special)
                break


def _lies_whole(subject: Subject, case: Case, special: SpecialRow) -> bool:
    """Whether a special row lies whole along the elements of a case's first tensor, exact in its format."""
    contract = subject.contract.at(case.sizes)
    name = next(iter(contract.tensors))
    recipe, cells = case.tensors[name], grid(contract, case, name)
    if recipe is None or is_integer(recipe.format) or not special_applies(special, cells.rows):
        return False
    fmt = format_of(recipe.format)
    whole = raw_row(contract, SPECIAL + special.name, 0, cells.rows, fmt, {})
    return np.array_equal(round_rows(whole, fmt), whole, equal_nan=True)
