"""Double-doubles rounded once into a format, and the bounds of what lies within t of one."""

from __future__ import annotations

import torch

from harness import formats
from harness.formats import FLOAT64, Format
from harness.numbers.double import Double, add


def round_double(x: Double, fmt: Format, *, saturate: bool = False) -> torch.Tensor:
    """hi + lo, rounded once to nearest into ``fmt``, ties to even: float64 values of ``fmt``.

    The high word is that in float64. For a narrower format the sum is first rounded to odd, which keeps on
    which side of every tie it lies (Boldo & Melquiond, IEEE Trans. Comput. 57 (2008), doi:10.1109/TC.2007.70819).
    """
    nearest = x.hi if fmt == FLOAT64 else to_odd(x)
    return formats.round_to(nearest, fmt, saturate=saturate)


def to_odd(x: Double) -> torch.Tensor:
    """The sum as it is where it is a float64, else the neighbour of it whose last bit is 1."""
    even = (x.hi.view(torch.int64) & 1) == 0
    inexact = torch.isfinite(x.hi) & torch.isfinite(x.lo) & (x.lo != 0)
    toward = torch.where(x.lo > 0, torch.inf, -torch.inf)
    return torch.where(even & inexact, torch.nextafter(x.hi, toward), x.hi)


def upward(x: Double) -> torch.Tensor:
    """The least float64 that is not below the sum."""
    return torch.where(x.lo > 0, torch.nextafter(x.hi, torch.full_like(x.hi, torch.inf)), x.hi)


def downward(x: Double) -> torch.Tensor:
    """The largest float64 that is not above the sum."""
    return torch.where(x.lo < 0, torch.nextafter(x.hi, torch.full_like(x.hi, -torch.inf)), x.hi)


def ends(x: Double, t: torch.Tensor) -> tuple[Double, Double]:
    """x - t and x + t; infinite where t is."""
    return add(x, Double(-t)), add(x, Double(t))
