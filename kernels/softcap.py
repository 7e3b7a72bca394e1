"""Soft cap of every element: nearly x where |x| is small beside cap, and never beyond ±cap.

    out = cap · tanh(x / cap)                                      (float32; float64 for float64)

Cost: reads and writes each element once; one division and one tanh an element.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

import references
from harness import subject
from kernels._elements import SHAPE, element_offset, shape_of, strides_of

BLOCK = 1024


@triton.jit(do_not_specialize=("count", *SHAPE, "cap"))
def softcap_elements(
    x_ptr, out_ptr, count, size1, size2, size3, stride0, stride1, stride2, stride3,
    cap, BLOCK: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    offset = x_ptr + element_offset(i, size1, size2, size3, stride0, stride1, stride2, stride3)
    x = tl.load(offset, mask=i < count, other=0.0).to(ACC)
    y = cap * libdevice.tanh(x / cap)
    tl.store(out_ptr + i, y, mask=i < count)


@subject(
    references.softcap,
    mutants={
        # 60, cap 30: 30
        "hard-cap": ("cap * libdevice.tanh(x / cap)", "tl.minimum(tl.maximum(x, -cap), cap)"),
        # 30, cap 30: 0.76
        "not-scaled-back": ("cap * libdevice.tanh(x / cap)", "libdevice.tanh(x / cap)"),
        # 1, cap 30: 22.8
        "not-scaled": ("cap * libdevice.tanh(x / cap)", "cap * libdevice.tanh(x)"),
        # a cap of 30 always
        "fixed-cap": ("*strides_of(x), cap, ", "*strides_of(x), 30.0, "),
        # 1e-3: 1 − 2/(exp(2z) + 1) cancels near 0
        "cancelling-tanh": ("libdevice.tanh(x / cap)", "(1.0 - 2.0 / (tl.exp(2.0 * (x / cap)) + 1.0))"),
        # 2000, cap 1: (inf − 1)/(inf + 1)
        "overflowing-tanh": (
            "libdevice.tanh(x / cap)",
            "((tl.exp(2.0 * (x / cap)) - 1.0) / (tl.exp(2.0 * (x / cap)) + 1.0))",
        ),
        # tanh.approx keeps 11 bits
        "float16-tanh": ("libdevice.tanh(x / cap)", "libdevice.tanh(x / cap).to(tl.float16).to(ACC)"),
        # x − x³/3 of a cap
        "series": ("cap * libdevice.tanh(x / cap)", "x - x * x * x / (3.0 * cap * cap)"),
        # x[:, ::2]
        "unit-stride": ("element_offset(i, size1, size2, size3, stride0, stride1, stride2, stride3)", "i"),
        # shape (2, 3, 4, 5), every axis strided
        "outermost-axis-ignored": (
            "size3, stride0, stride1, stride2, stride3)",
            "size3, 0, stride1, stride2, stride3)",
        ),
        # a middle axis strided
        "middle-axis-ignored": (
            "size3, stride0, stride1, stride2, stride3)",
            "size3, stride0, stride1, 0, stride3)",
        ),
        # 1025 elements: the last is never written
        "unwritten-tail": ("triton.cdiv(x.numel(), BLOCK)", "max(1, x.numel() // BLOCK)"),
        # 3 elements: a fourth is written
        "one-past-the-end": ("mask=i < count)\n\n\n@subject", "mask=i <= count)\n\n\n@subject"),
        # any x: it is overwritten
        "in-place": ("torch.empty(x.shape, dtype=x.dtype, device=x.device)", "x"),
    },
)
def softcap(x: torch.Tensor, cap: float) -> torch.Tensor:
    """cap · tanh(x / cap) of x [1 to 4 dims, any strides]."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        grid = (triton.cdiv(x.numel(), BLOCK),)
        softcap_elements[grid](x, out, x.numel(), *shape_of(x), *strides_of(x), cap, BLOCK=BLOCK)
    return out
