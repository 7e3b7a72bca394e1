"""SiLU (swish) of every element.

    out = x / (1 + exp(−x))                                        (float32; float64 for float64)

For x below −88 exp overflows, and x / inf = −0 is right; at −inf it is −inf / inf = NaN, as in PyTorch.

Cost: reads and writes each element once; one exp and one division an element.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._elements import SHAPE, element_offset, shape_of, strides_of

BLOCK = 1024


@triton.jit(do_not_specialize=("count", *SHAPE))
def silu_elements(
    x_ptr, out_ptr, count, size1, size2, size3, stride0, stride1, stride2, stride3,
    BLOCK: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    offset = x_ptr + element_offset(i, size1, size2, size3, stride0, stride1, stride2, stride3)
    x = tl.load(offset, mask=i < count, other=0.0).to(ACC)
    y = x / (1.0 + tl.exp(-x))
    tl.store(out_ptr + i, y, mask=i < count)


@subject(
    references.silu,
    mutants={
        # 1: 0.269
        "sign": ("tl.exp(-x)", "tl.exp(x)"),
        # 1: 0.731, the gate alone
        "sigmoid-alone": ("y = x / (", "y = 1.0 / ("),
        # 1: 0.846
        "gelu-approximation": ("tl.exp(-x)", "tl.exp(-1.702 * x)"),
        # 20: exp(20) is inf in float16, and the quotient NaN
        "float16-exponential": ("tl.exp(-x)", "tl.exp(-x).to(tl.float16).to(ACC)"),
        # −5: −0.0335 with 3 digits
        "bfloat16-gate": ("x / (1.0 + tl.exp(-x))", "x * (1.0 / (1.0 + tl.exp(-x))).to(tl.bfloat16).to(ACC)"),
        # 100: inf / inf
        "overflowing-form": ("x / (1.0 + tl.exp(-x))", "x * tl.exp(x) / (1.0 + tl.exp(x))"),
        # −1: 0
        "relu": ("x / (1.0 + tl.exp(-x))", "tl.maximum(x / (1.0 + tl.exp(-x)), 0.0)"),
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
def silu(x: torch.Tensor) -> torch.Tensor:
    """x · sigmoid(x) of x [1 to 4 dims, any strides]."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        grid = (triton.cdiv(x.numel(), BLOCK),)
        silu_elements[grid](x, out, x.numel(), *shape_of(x), *strides_of(x), BLOCK=BLOCK)
    return out
