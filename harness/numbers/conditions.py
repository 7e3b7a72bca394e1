"""Conditions of a definition: they come of exact numbers, as two right kernels must decide them alike."""

from __future__ import annotations

from typing import Any

from harness.numbers.backend import Array
from harness.numbers.number import Number


def mask_of(condition: Any) -> Array:
    """A condition as a mask: a comparison of inputs, or an exact number, which holds where it is not 0."""
    if isinstance(condition, Number):
        return exact_of(condition, "the truth").v != 0
    if isinstance(condition, bool):
        raise TypeError(f"where is given {condition} for all elements; write a if condition else b")
    if str(getattr(condition, "dtype", "")) not in ("torch.bool", "bool"):
        raise TypeError(
            f"where is given a {type(condition).__name__} as its condition; give a comparison of inputs, such as "
            "x > 0 or positions(x, -1) <= i, or a bool or integer argument"
        )
    return condition


def exact_of(a: Number, what: str) -> Number:
    """The number, of which something is tested that an error would decide; TypeError where it carries one."""
    if not a.exact:
        raise TypeError(
            f"a definition tests {what} of a number that carries a rounding error; test an input instead"
        )
    return a
