"""The sentence over whole outputs, and whether two launches of the same function agree.

*Same answer* means that each is right by the bound; bits may differ, and are counted as notes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.checks.failure import Failure
from harness.checks.judgement import Judgement
from harness.checks.wording import element_text
from harness.formats import Format


def wrong_elements(
    got: Sequence[torch.Tensor],
    judgements: Sequence[Judgement],
    names: Sequence[str],
    wanted: Sequence[Format | None],
    owners: Sequence[torch.Tensor],
    excluded: Sequence[torch.Tensor],
) -> list[Failure]:
    """The worst wrong element of each kind: accuracy, and special values where got or exact is inf or NaN.

    Of the latter, one whose exact value is finite, where there is one: it tells more than a NaN that is missing.
    excluded: masks of elements that another check reports.
    """
    found = []
    for number, (tensor, judged, owner) in enumerate(zip(got, judgements, owners, strict=True)):
        if judged.right_everywhere:
            continue
        wrong = ~judged.right & ~excluded[number]
        if not bool(wrong.any()):
            continue
        about = ~torch.isfinite(judged.value) | ~torch.isfinite(tensor)
        for check, mask in (("accuracy", wrong & ~about), ("special values", wrong & about)):
            if not bool(mask.any()):
                continue
            most = 1e300 * (1.0 + torch.isfinite(judged.value).double())
            severity = torch.where(mask, torch.where(torch.isinf(judged.ratio), most, judged.ratio), -1.0)
            element = tuple(int(i) for i in torch.unravel_index(severity.argmax(), severity.shape))
            count = int(mask.sum())
            text = element_text(names[number], element, float(tensor[element]), judged, wanted[number])
            if count > 1:
                text += f"; {count} of {mask.numel()} elements are wrong"
            found.append(
                Failure(
                    check,  # type: ignore[arg-type]
                    text,
                    element,
                    number,
                    int(owner[element]),
                    float(severity[element]),
                )
            )
    return found


def same_bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Mask of elements whose float64 values agree, NaN with NaN."""
    return (a == b) | (torch.isnan(a) & torch.isnan(b))


def identical(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors hold the same bits, NaN payloads and signs of zeros included."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    width = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return torch.equal(a.contiguous().view(width), b.contiguous().view(width))
