"""Elements of a tensor: how a launcher hands a view of any strides to an elementwise kernel without a copy.

Elements are counted in row-major order over 1 to 4 axes, padded in front to four; element i of
[size0, size1, size2, size3] lies at

    i // (size1·size2·size3) · stride0  +  i // (size2·size3) % size1 · stride1
    +  i // size3 % size2 · stride2     +  i % size3 · stride3

which is also where it lies in a contiguous result if the strides are those of the result. Cost: three 64-bit
divisions an element.
"""

import torch
import triton
import triton.language as tl

SHAPE = ("size1", "size2", "size3")
"""Kernel arguments that no load depends on for its alignment: one compilation serves all their values."""


def shape_of(x: torch.Tensor) -> tuple[int, ...]:
    """size1, size2, size3 of x, padded in front to four axes."""
    if x.ndim > 4:
        raise ValueError(f"x must have 1 to 4 dims; got {x.ndim}")
    return (1, 1, 1, *x.shape)[-3:]


def strides_of(x: torch.Tensor) -> tuple[int, ...]:
    """stride0, …, stride3 of x, padded in front to four axes."""
    return (0, 0, 0, *x.stride())[-4:]


@triton.jit
def element_offset(i, size1, size2, size3, stride0, stride1, stride2, stride3):
    """Offset of each element; i: int64 [BLOCK]."""
    tl.static_assert(i.dtype == tl.int64)
    outer = i // size3 // size2 // size1 * stride0 + i // size3 // size2 % size1 * stride1
    return outer + i // size3 % size2 * stride2 + i % size3 * stride3
