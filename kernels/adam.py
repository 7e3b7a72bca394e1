"""One step of Adam or AdamW in one kernel, in place.

    g = grad + weight_decay · param                          (Adam;  AdamW: param ·= 1 − lr · weight_decay)
    m = β₁ m + (1 − β₁) g;   v = β₂ v + (1 − β₂) g²          (float32; float64 for float64)
    param −= lr · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + eps)

The step uses m and v as they are before they are rounded to their format. What depends on the scalars alone
is computed by the launcher in float64: 1 − β₂ of a β₂ rounded to float32 would be off by 2·10⁻⁵.

Cost: reads four elements and writes three; two square roots and divisions an element.
"""

from typing import Any

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._elements import SHAPE, element_offset, shape_of, strides_of

BLOCK = 512
SCALARS = ("beta1", "rest1", "beta2", "rest2", "lr", "correction1", "correction2", "eps", "decay", "kept")


@triton.jit(do_not_specialize=("count", *SHAPE, *SCALARS))
def adam_elements(
    param_ptr, grad_ptr, m_ptr, v_ptr, count, size1, size2, size3,
    stride0, stride1, stride2, stride3, grad_stride0, grad_stride1, grad_stride2, grad_stride3,
    m_stride0, m_stride1, m_stride2, m_stride3, v_stride0, v_stride1, v_stride2, v_stride3,
    beta1, rest1, beta2, rest2, lr, correction1, correction2, eps, decay, kept,
    BLOCK: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if param_ptr.dtype.element_ty == tl.float64 else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    param_at = param_ptr + element_offset(i, size1, size2, size3, stride0, stride1, stride2, stride3)
    grad_at = grad_ptr + element_offset(
        i, size1, size2, size3, grad_stride0, grad_stride1, grad_stride2, grad_stride3
    )
    m_at = m_ptr + element_offset(i, size1, size2, size3, m_stride0, m_stride1, m_stride2, m_stride3)
    v_at = v_ptr + element_offset(i, size1, size2, size3, v_stride0, v_stride1, v_stride2, v_stride3)
    param = tl.load(param_at, mask=i < count, other=0.0).to(ACC)
    grad = tl.load(grad_at, mask=i < count, other=0.0).to(ACC)
    grad += decay * param
    m = beta1 * tl.load(m_at, mask=i < count, other=0.0).to(ACC) + rest1 * grad
    v = beta2 * tl.load(v_at, mask=i < count, other=0.0).to(ACC) + rest2 * (grad * grad)
    update = m / correction1 / (tl.sqrt(v / correction2) + eps)
    tl.store(param_at, param * kept - lr * update, mask=i < count)
    tl.store(m_at, m, mask=i < count)
    tl.store(v_at, v, mask=i < count)


@subject(
    references.adam,
    mutants={
        # step 1, m = v = 0: the step is √10 too large
        "no-bias-correction": (
            "m / correction1 / (tl.sqrt(v / correction2) + eps)",
            "m / (tl.sqrt(v) + eps)",
        ),
        # step 1: 1 − β₁⁰ is 0
        "step-from-zero": ("1.0 - beta1**step", "1.0 - beta1 ** (step - 1)"),
        # gradients of 1e-8
        "eps-inside-the-root": ("tl.sqrt(v / correction2) + eps", "tl.sqrt(v / correction2 + eps)"),
        # gradients of 1e-8: eps is divided too
        "eps-before-correction": (
            "(tl.sqrt(v / correction2) + eps)",
            "((tl.sqrt(v) + eps) / tl.sqrt(correction2 + 0.0 * v))",
        ),
        # 1e-8 is below the smallest number of float16
        "eps-in-float16": ("correction2) + eps", "correction2) + (eps + 0.0 * v).to(tl.float16).to(ACC)"),
        # weight decay 0.1: the update is decayed too
        "decay-after-the-step": ("param * kept - lr * update", "(param - lr * update) * kept"),
        # weight decay 0.1, AdamW
        "decay-always-coupled": ("decay = 0.0 if decoupled else weight_decay", "decay = weight_decay"),
        # weight decay 0.1, AdamW: not times lr
        "decay-without-lr": ("1.0 - lr * weight_decay", "1.0 - weight_decay"),
        # β₁ = 0.9
        "betas-swapped": ("beta1 * tl.load(m_at", "beta2 * tl.load(m_at"),
        # a gradient of −1: the second moment is −1
        "gradient-not-squared": ("(grad * grad)", "grad"),
        # a gradient of 300
        "squared-in-float16": ("(grad * grad)", "(grad.to(tl.float16) * grad.to(tl.float16)).to(ACC)"),
        # m of the next step is that of this one
        "first-moment-not-written": ("    tl.store(m_at, m, mask=i < count)\n", ""),
        # likewise v
        "second-moment-not-written": ("    tl.store(v_at, v, mask=i < count)\n", ""),
        # a state of bfloat16 beside a float32 parameter
        "state-in-bfloat16": ("tl.store(m_at, m, ", "tl.store(m_at, m.to(tl.bfloat16).to(ACC), "),
        # a transposed gradient
        "gradient-strides": ("*strides_of(grad)", "*strides_of(param)"),
        # 513 elements: the last one is not updated
        "unwritten-tail": ("triton.cdiv(param.numel(), BLOCK)", "max(1, param.numel() // BLOCK)"),
    },
)
def adam(
    param: torch.Tensor, grad: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor, *, step: int,
    lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool,
) -> None:  # fmt: skip
    """Step `step` (from 1) of Adam, or AdamW if decoupled; one shape of 1 to 4 dims, any strides each."""
    decay = 0.0 if decoupled else weight_decay
    kept = 1.0 - lr * weight_decay if decoupled else 1.0
    if param.numel():
        grid = (triton.cdiv(param.numel(), BLOCK),)
        adam_elements[grid](
            param, grad, exp_avg, exp_avg_sq, param.numel(), *shape_of(param), *strides_of(param),
            *strides_of(grad), *strides_of(exp_avg), *strides_of(exp_avg_sq),
            beta1, 1.0 - beta1, beta2, 1.0 - beta2, lr, 1.0 - beta1**step, 1.0 - beta2**step,
            eps, decay, kept, BLOCK=BLOCK,
        )  # fmt: skip


@subject(
    references.adam,
    domain={"dtypes": {"exp_avg": "float32", "exp_avg_sq": "float32"}},
    mutants={
        # gradients of 1e-4 in float16
        "square-in-the-parameter's-format": (
            "rest2 * (grad * grad)",
            "rest2 * (grad * grad).to(param_ptr.dtype.element_ty).to(ACC)",
        ),
        # a state of 1.001
        "state-rounded": ("tl.store(v_at, v, ", "tl.store(v_at, v.to(tl.bfloat16).to(ACC), "),
        # v = 0.1, β₂ = 0.999 as bfloat16 knows it
        "beta-in-bfloat16": ("v = beta2 * tl", "v = (beta2 + 0.0 * grad).to(tl.bfloat16).to(ACC) * tl"),
        # step 257 in bfloat16 is 256
        "step-in-bfloat16": (
            "1.0 - beta2**step",
            "1.0 - beta2 ** float(torch.tensor(step, dtype=torch.bfloat16))",
        ),
        # step 1000: 1 − (1 − β₁ᵗ)
        "correction-complemented": ("1.0 - beta1**step", "max(beta1**step, 1e-30)"),
        # v = 0: 1 / 0
        "rsqrt": (
            "m / correction1 / (tl.sqrt(v / correction2) + eps)",
            "m / correction1 * (tl.rsqrt(v / correction2) + eps)",
        ),
    },
)
def adam_float32_state(
    param: torch.Tensor, grad: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor, **scalars: Any
) -> None:
    """`adam` whose running means are float32 beside a parameter of 16 bits."""
    adam(param, grad, exp_avg, exp_avg_sq, **scalars)
