"""Views of few elements that lie 2^31 elements and more apart, in memory of which only touched pages exist.

A row times its stride overflows 32 bits in such a view, while a machine holds some pages for each run of
neighbouring elements: what is guarded and filled is beside those runs alone, and the rest of the storage is
never touched.
"""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

SPREAD: Final = 1 << 28
"""Elements, from the first to the last, of the smallest view that is taken for one spread out."""

THIN: Final = 1 << 10
"""Elements of memory for each element of such a view, at least."""

_LEAST_MARGIN, _MARGINS = 64, 1 << 16
"""Elements that are watched beside each run of neighbours, at least, and beside all of them together."""

_NO_RESERVE: Final = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


def is_spread(shape: Sequence[int], span: int) -> bool:
    """Whether a view of this shape, over ``span`` elements, is one of few elements far apart."""
    return span >= SPREAD and math.prod(shape) * THIN <= span


def reserve(count: int, dtype: torch.dtype, device: torch.device | str) -> torch.Tensor:
    """[count] elements whose pages come into being when they are touched, zeros on the CPU.

    Raises OSError where the system grants no such range of addresses. A GPU has no such memory: there
    it is allocated.
    """
    if torch.device(device).type != "cpu":
        return torch.empty(count, dtype=dtype, device=device)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    memory = mmap.mmap(-1, count * dtype.itemsize, flags=flags)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8).view(dtype)


def offsets(shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """Int64 [shape]: elements from a view's first element to each of them."""
    found = torch.zeros((), dtype=torch.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        along = [1] * len(shape)
        along[axis] = size
        found = found + (torch.arange(size) * stride).reshape(along)
    return found.expand(tuple(shape))


def beside(shape: Sequence[int], strides: Sequence[int], base: int, length: int, most: int) -> torch.Tensor:
    """Int64 [n], ascending: the elements of a storage near a view, up to ``most`` from an element of it.

    base: where its first element lies in the storage of ``length`` elements.
    """
    own = np.sort(offsets(shape, strides).reshape(-1).numpy()) + base
    firsts, lasts = _runs(own, _LEAST_MARGIN)
    margin = max(_LEAST_MARGIN, min(most, _MARGINS // len(firsts)))
    firsts, lasts = _runs(own, margin)
    ends = zip(firsts.tolist(), lasts.tolist(), strict=True)
    near = np.concatenate(
        [np.arange(max(0, first - margin), min(length, last + margin + 1)) for first, last in ends]
    )
    mine = own[np.searchsorted(own, near).clip(max=len(own) - 1)] == near
    return torch.from_numpy(near[~mine])


def _runs(own: np.ndarray, margin: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last of elements, ascending, no two neighbours of which are further apart than 2 margins."""
    ends = np.flatnonzero(np.diff(own) > 2 * margin)
    return own[np.concatenate([[0], ends + 1])], own[np.concatenate([ends, [len(own) - 1]])]
