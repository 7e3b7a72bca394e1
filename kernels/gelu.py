"""GELU of every element, by the error function or by Hendrycks and Gimpel's hyperbolic tangent.

    none: x · (1 + erf(x/√2)) / 2          tanh: x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2

(arXiv:1606.08415) in float32 (float64 for float64). The two differ by up to 5e-4, so that one is no
approximation of the other to any format. For x far below 0 the bracket cancels: its relative accuracy is lost
as in PyTorch, and at −inf it is −inf · 0 = NaN.

Cost: reads and writes each element once; one erf or tanh an element.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

import references
from harness import subject
from kernels._elements import SHAPE, element_offset, shape_of, strides_of

BLOCK = 1024


@triton.jit(do_not_specialize=("count", *SHAPE))
def gelu_elements(
    x_ptr, out_ptr, count, size1, size2, size3, stride0, stride1, stride2, stride3,
    TANH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    offset = x_ptr + element_offset(i, size1, size2, size3, stride0, stride1, stride2, stride3)
    x = tl.load(offset, mask=i < count, other=0.0).to(ACC)
    if TANH:
        bracket = 1.0 + libdevice.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))
    else:
        bracket = 1.0 + tl.erf(x * 0.7071067811865476)
    y = 0.5 * x * bracket
    tl.store(out_ptr + i, y, mask=i < count)


@subject(
    references.gelu,
    mutants={
        # 1: 0.8412 instead of 0.8413
        "always-tanh": ("if TANH:", "if TANH or not TANH:"),
        # 1, "tanh": 0.8413 instead of 0.8412
        "always-erf": ("if TANH:", "if False:"),
        # 1: x · sigmoid(1.702 x) is 0.846
        "sigmoid-approximation": (
            "tl.erf(x * 0.7071067811865476)",
            "(2.0 / (1.0 + tl.exp(-1.702 * x)) - 1.0)",
        ),
        # erf(x)
        "no-root-two": ("tl.erf(x * 0.7071067811865476)", "tl.erf(x)"),
        # 2: the cubic term is half a percent
        "cubic-coefficient": ("0.044715 *", "0.0447 *"),
        # x² for x³
        "square-for-cube": ("0.044715 * x * x * x", "0.044715 * x * x"),
        # √(2/π) to three digits
        "short-constant": ("0.7978845608028654", "0.798"),
        # twice the value
        "no-half": ("0.5 * x * bracket", "x * bracket"),
        # the bracket in bfloat16
        "bfloat16-bracket": ("0.5 * x * bracket", "0.5 * x * bracket.to(tl.bfloat16).to(ACC)"),
        # −1: 0
        "relu": ("0.5 * x * bracket", "tl.maximum(0.5 * x * bracket, 0.0)"),
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
def gelu(x: torch.Tensor, approximate: str) -> torch.Tensor:
    """GELU of x [1 to 4 dims, any strides]; approximate is "none" or "tanh"."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        grid = (triton.cdiv(x.numel(), BLOCK),)
        gelu_elements[grid](
            x, out, x.numel(), *shape_of(x), *strides_of(x), TANH=approximate == "tanh", BLOCK=BLOCK
        )
    return out
