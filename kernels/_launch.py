"""Rows of a tensor: how a launcher hands (x, dim), whatever the strides, to a kernel without copying x.

A kernel over one axis sees x [1 to 4 dims] as `rows` rows of `n` elements that lie `step` apart. Rows are
counted in row-major order over the other axes, padded in front to three, [size0, size1, size2]; row r
starts at

    r // (size1 * size2) * stride0  +  r // size2 % size1 * stride1  +  r % size2 * stride2

A contiguous result without the axis holds row r at r. A contiguous result of x's own shape holds element
j of row r at `r // inner * (n * inner) + r % inner + j * inner`, where `inner` counts the elements behind
the axis.

Cost: a few 64-bit divisions a row. Offsets are 64-bit, so that a view may reach past 2^31 elements.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

SIZES = ("rows", "size1", "size2")
"""Kernel arguments that no load depends on for its alignment: one compilation serves all their values."""


@dataclass(frozen=True)
class Rows:
    """x as rows along one axis: what a launcher needs to allocate, and `arguments`, what it passes on."""

    shape: tuple[int, ...]
    """Shape of x without the axis."""
    rows: int
    n: int
    inner: int
    arguments: tuple[int, ...]
    """rows, n, size1, size2, stride0, stride1, stride2, step: in this order in every kernel's signature."""


def rows_of(x: torch.Tensor, dim: int) -> Rows:
    """Rows of x along `dim`, in [-ndim, ndim)."""
    if not -x.ndim <= dim < x.ndim or x.ndim > 4:
        raise IndexError(f"dim must be in [-ndim, ndim) and ndim at most 4; got dim={dim}, ndim={x.ndim}")
    axis = dim % x.ndim
    sizes, strides = list(x.shape), list(x.stride())
    n, step = sizes.pop(axis), strides.pop(axis)
    padding = [0] * (3 - len(sizes))
    stride0, stride1, stride2 = padding + strides
    size0, size1, size2 = [1 for _ in padding] + sizes
    rows = size0 * size1 * size2
    inner = 1
    for size in sizes[axis:]:
        inner *= size
    arguments = (rows, n, size1, size2, stride0, stride1, stride2, step)
    return Rows(tuple(sizes), rows, n, inner, arguments)


def tile(n: int) -> tuple[int, int]:
    """[BLOCK_M rows, BLOCK_N columns] of one program: always 2048 elements, 16 for each thread of 4 warps.

    Three shapes only, since each is a compilation; a row longer than BLOCK_N is walked in a loop.
    """
    if n <= 16:
        return 128, 16
    return (16, 128) if n <= 128 else (8, 256)


@triton.jit
def row_offset(row, size1, size2, stride0, stride1, stride2):
    """Offset of the first element of each row; row: int64 [BLOCK_M]."""
    tl.static_assert(row.dtype == tl.int64)
    return row // size2 // size1 * stride0 + row // size2 % size1 * stride1 + row % size2 * stride2
