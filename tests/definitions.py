"""Definitions read in float64 and held against functions that are not ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from harness.arithmetic import Arithmetic
from harness.contracts import Contract, SpecialRow
from harness.formats import BFLOAT16, FLOAT32, Format
from harness.numbers import Answer, read_float64

SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -2.5, 700.0, -700.0]
"""Values whose combinations every definition meets."""


def answers(
    contract: Contract,
    arguments: dict[str, Any],
    shapes: Sequence[torch.Size | tuple[int, ...]],
    fmt: Format = FLOAT32,
    **claims: Any,
) -> list[Answer]:
    """What the definition makes of exact float64 tensors under some claims, in the given shapes."""
    model = Arithmetic(**claims).model(contract, fmt)
    return read_float64(contract.definition, arguments, model, [tuple(shape) for shape in shapes])


def assert_is(contract: Contract, arguments: dict[str, Any], *wanted: torch.Tensor) -> None:
    """The definition's values are those of another implementation, NaN and infinities in the same places."""
    for answer, value in zip(
        answers(contract, arguments, [value.shape for value in wanted]), wanted, strict=True
    ):
        torch.testing.assert_close(
            answer.value, value.to(torch.float64), rtol=1e-13, atol=1e-14, equal_nan=True
        )


def views(x: torch.Tensor) -> list[torch.Tensor]:
    """x, and the same values as a transposed, a stepped and an offset view."""
    stepped = torch.full((*x.shape[:-1], 2 * x.shape[-1] + 1), math.nan, dtype=x.dtype)[..., 1::2]
    stepped.copy_(x)
    transposed = torch.empty(tuple(reversed(x.shape)), dtype=x.dtype).permute(*reversed(range(x.ndim)))
    transposed.copy_(x)
    return [x, stepped, transposed]


def row(special: SpecialRow, n: int) -> list[float]:
    """The first n values of a special row: the lead, then the rest again and again."""
    values = [*special.lead, *(special.rest * n)][:n]
    return [float.fromhex(v) if v.lstrip("-").startswith("0x") else float(v) for v in values]


def assert_stated(contract: Contract, special: SpecialRow, value: torch.Tensor) -> None:
    """The value of a special row is the answer that the contract states for it."""
    if special.answer is not None:
        stated = torch.full_like(value, float(special.answer))
        torch.testing.assert_close(value, stated, rtol=0, atol=0, equal_nan=True, msg=special.name)


def assert_roundings_matter(contract: Contract, arguments: dict[str, Any], shape: Sequence[int]) -> None:
    """Claiming each named rounding changes the allowed error of some element of the first output."""
    shapes = [tuple(shape)] * len(contract.outputs)
    plain = answers(contract, arguments, shapes, BFLOAT16)[0].t
    for place in contract.roundings:
        allowed = answers(contract, arguments, shapes, BFLOAT16, roundings=(place,))[0].t
        assert (allowed > 10 * plain).any(), place
