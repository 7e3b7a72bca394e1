"""What one launch adds to the counts of a verdict, beside its failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from harness.case import Case, used_rows
from harness.checks.judgement import Judgement
from harness.contracts import Contract
from harness.values import LITERAL
from harness.values.selection import find
from harness.verdict import Tally

MOST_COUNTED = 40
"""Situations of one launch that count at most, towards the budget and among the decisive ones."""


def plain_situations(contract: Contract, case: Case, rows: int, families: Counter[str]) -> torch.Tensor:
    """Mask of the situations, of ``rows``, whose values come from no cancellation family; families are counted on
    the way."""
    plain = torch.ones(max(rows, 1), dtype=torch.bool)
    for name, recipe in case.tensors.items():
        if recipe is None:
            continue
        used = torch.from_numpy(used_rows(contract, case, name)) % len(recipe.rows)
        for at, row in enumerate(recipe.rows):
            here = used == at
            count = int(here.sum())
            if not count:
                continue
            families[row.family] += count
            if row.family != LITERAL and "cancellation" in find(contract, row.family).tags:
                plain[here] = False
    return plain


def count_judged(
    tally: Tally,
    case: Case,
    judgements: Sequence[Judgement],
    owners: Sequence[torch.Tensor],
    plain: torch.Tensor,
) -> None:
    """Count the judged elements of every output and the situations that they decide.

    owners: of each output, the situation of every element; plain: the mask of :func:`plain_situations`.
    """
    decisive, telling = torch.zeros_like(plain), torch.zeros_like(plain)
    for judged, owner in zip(judgements, owners, strict=True):
        tally.elements += judged.right.numel()
        tally.unspecified += int(judged.unspecified.sum())
        tally.unbounded += int(judged.unbounded.sum())
        decisive[owner[judged.decisive].clamp(min=0)] = True
        telling[owner[~judged.only_zero].clamp(min=0)] = True
        ratio = judged.largest_ratio
        if ratio > tally.largest_ratio:
            tally.largest_ratio, tally.largest_ratio_case = ratio, case
    # Where 0 is the only right answer, nothing is said about zeros, and all else is wrong.
    count, found = int((plain & telling).sum()), int((decisive & plain).sum())
    # The many rows of one launch repeat a few recipes: all of one kind must not outweigh the others.
    tally.plain_situations = min(count, MOST_COUNTED)
    tally.decisive_situations = round(found * min(1.0, MOST_COUNTED / max(count, 1)))
