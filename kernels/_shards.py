"""Copies between the buffers of several ranks: one launch for each, whatever the strides of the source."""

import torch
import triton
import triton.language as tl

from kernels._elements import SHAPE, element_offset, shape_of, strides_of

BLOCK = 1024


def copy(source: torch.Tensor, out: torch.Tensor, divisor: float = 1.0) -> None:
    """out [contiguous] = source [of out's shape, any strides] / divisor, rounded to out's format."""
    if source.numel():
        grid = (triton.cdiv(source.numel(), BLOCK),)
        copy_elements[grid](
            source, out, source.numel(), *shape_of(source), *strides_of(source), divisor,
            DIVIDE=divisor != 1.0, BLOCK=BLOCK,
        )  # fmt: skip


@triton.jit(do_not_specialize=("count", *SHAPE, "divisor"))
def copy_elements(
    source_ptr, out_ptr, count, size1, size2, size3, stride0, stride1, stride2, stride3, divisor,
    DIVIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = element_offset(i, size1, size2, size3, stride0, stride1, stride2, stride3)
    x = tl.load(source_ptr + there, mask=i < count, other=0.0)
    if DIVIDE:
        x = x / divisor
    tl.store(out_ptr + i, x, mask=i < count)
