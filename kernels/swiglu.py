"""SwiGLU: the SiLU of one tensor times another, elementwise.

    out = gate / (1 + exp(−gate)) · up                         (float32; float64 for float64; rounded once)

The two inputs may have unlike strides, such as the halves of one projection.

Cost: reads two elements and writes one; one exp and one division an element.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._elements import SHAPE, element_offset, shape_of, strides_of

BLOCK = 1024


@triton.jit(do_not_specialize=("count", *SHAPE))
def swiglu_elements(
    gate_ptr, up_ptr, out_ptr, count, size1, size2, size3,
    gate_stride0, gate_stride1, gate_stride2, gate_stride3, stride0, stride1, stride2, stride3,
    BLOCK: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if gate_ptr.dtype.element_ty == tl.float64 else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = element_offset(i, size1, size2, size3, gate_stride0, gate_stride1, gate_stride2, gate_stride3)
    here = element_offset(i, size1, size2, size3, stride0, stride1, stride2, stride3)
    gate = tl.load(gate_ptr + there, mask=i < count, other=0.0).to(ACC)
    up = tl.load(up_ptr + here, mask=i < count, other=0.0).to(ACC)
    y = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out_ptr + i, y, mask=i < count)


@subject(
    references.swiglu,
    mutants={
        # gate 1, up 2: 1.76
        "gate-and-up-swapped": ("gate, up, out, gate.numel()", "up, gate, out, gate.numel()"),
        # gate 1, up 1: 0.269
        "sign": ("tl.exp(-gate)", "tl.exp(gate)"),
        # GLU: sigmoid(gate) · up
        "glu": ("y = gate / (", "y = 1.0 / ("),
        # gate −1, up 1: 0
        "reglu": ("y = gate / (1.0 + tl.exp(-gate)) * up", "y = tl.maximum(gate, 0.0) * up"),
        # SiLU of up too
        "up-activated": ("* up\n", "* (up / (1.0 + tl.exp(-up)))\n"),
        # the SiLU is rounded before it is multiplied
        "silu-rounded": (
            "y = gate / (1.0 + tl.exp(-gate)) * up",
            "y = (gate / (1.0 + tl.exp(-gate))).to(tl.bfloat16).to(ACC) * up",
        ),
        # a product in float16
        "float16-product": (
            "y = gate / (1.0 + tl.exp(-gate)) * up",
            "y = (gate / (1.0 + tl.exp(-gate))).to(tl.float16) * up.to(tl.float16)",
        ),
        # 100: inf / inf
        "overflowing-form": (
            "gate / (1.0 + tl.exp(-gate)) * up",
            "gate * tl.exp(gate) / (1.0 + tl.exp(gate)) * up",
        ),
        # gate and up of unlike strides
        "strides-of-gate": (
            "element_offset(i, size1, size2, size3, stride0, stride1, stride2, stride3)",
            "there",
        ),
        # x[:, ::2]
        "unit-stride": (
            "element_offset(i, size1, size2, size3, gate_stride0, gate_stride1, gate_stride2, gate_stride3)",
            "i",
        ),
        # 1025 elements: the last is never written
        "unwritten-tail": ("triton.cdiv(gate.numel(), BLOCK)", "max(1, gate.numel() // BLOCK)"),
        # 3 elements: a fourth is written
        "one-past-the-end": (
            "tl.store(out_ptr + i, y, mask=i < count)",
            "tl.store(out_ptr + i, y, mask=i <= count)",
        ),
    },
)
def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """silu(gate) · up of gate and up [one shape of 1 to 4 dims, any strides each]."""
    out = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    if gate.numel():
        grid = (triton.cdiv(gate.numel(), BLOCK),)
        swiglu_elements[grid](
            gate, up, out, gate.numel(), *shape_of(gate), *strides_of(gate), *strides_of(up), BLOCK=BLOCK
        )
    return out
