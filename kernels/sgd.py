"""One step of SGD with momentum in one kernel, in place.

    g = grad + weight_decay · param
    b = g at step 1, else μ b + (1 − dampening) g            (float32; float64 for float64)
    param −= lr · (g + μ b) with Nesterov's momentum, else lr · b

At step 1 the buffer is not read: it may hold anything. Cost: reads three elements and writes two.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._elements import SHAPE, element_offset, shape_of, strides_of

BLOCK = 512


@triton.jit(do_not_specialize=("count", *SHAPE, "lr", "momentum", "share", "decay"))
def sgd_elements(
    param_ptr, grad_ptr, buffer_ptr, count, size1, size2, size3,
    stride0, stride1, stride2, stride3, grad_stride0, grad_stride1, grad_stride2, grad_stride3,
    buffer_stride0, buffer_stride1, buffer_stride2, buffer_stride3, lr, momentum, share, decay,
    FIRST: tl.constexpr, NESTEROV: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if param_ptr.dtype.element_ty == tl.float64 else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    param_at = param_ptr + element_offset(i, size1, size2, size3, stride0, stride1, stride2, stride3)
    grad_at = grad_ptr + element_offset(
        i, size1, size2, size3, grad_stride0, grad_stride1, grad_stride2, grad_stride3
    )
    buffer_at = buffer_ptr + element_offset(
        i, size1, size2, size3, buffer_stride0, buffer_stride1, buffer_stride2, buffer_stride3
    )
    param = tl.load(param_at, mask=i < count, other=0.0).to(ACC)
    grad = tl.load(grad_at, mask=i < count, other=0.0).to(ACC)
    grad += decay * param
    buffer = grad
    if not FIRST:
        buffer = momentum * tl.load(buffer_at, mask=i < count, other=0.0).to(ACC) + share * grad
    update = buffer
    if NESTEROV:
        update = grad + momentum * buffer
    tl.store(param_at, param - lr * update, mask=i < count)
    tl.store(buffer_at, buffer, mask=i < count)


@subject(
    references.sgd,
    mutants={
        # step 1: the buffer is 0.7 g
        "dampening-at-step-1": ("    buffer = grad\n", "    buffer = share * grad\n"),
        # step 1, and the buffer holds 3
        "stale-buffer-at-step-1": ("FIRST=step == 1", "FIRST=False"),
        # step 2: the momentum is forgotten
        "buffer-reset-at-step-2": ("FIRST=step == 1", "FIRST=step <= 2"),
        # g = 1, b = 0: 0.1 instead of 0.19
        "nesterov-ignored": ("update = grad + momentum * buffer", "update = buffer"),
        # the same case: 0.1 · 0.9
        "nesterov-without-gradient": ("update = grad + momentum * buffer", "update = momentum * buffer"),
        # dampening 0.3
        "dampening-ignored": ("share * grad\n    update", "grad\n    update"),
        # dampening 0.3
        "dampening-as-share": ("1.0 - dampening,", "dampening,"),
        # an average: momentum 0.9 and dampening 0.1
        "dampening-by-momentum": ("1.0 - dampening,", "1.0 - momentum,"),
        # weight decay 0.1: not in the buffer
        "decay-after-the-buffer": (
            "    grad += decay * param\n    buffer = grad",
            "    buffer = grad",
        ),
        # weight decay 0.1: shrinks the wrong way
        "decay-sign": ("grad += decay * param", "grad -= decay * param"),
        # the learning rate is kept in the buffer
        "lr-in-the-buffer": ("tl.store(buffer_at, buffer,", "tl.store(buffer_at, lr * buffer,"),
        # the next step sees the buffer of this one
        "buffer-not-written": ("    tl.store(buffer_at, buffer, mask=i < count)\n", ""),
        # the update in bfloat16
        "update-in-bfloat16": ("param - lr * update", "param - lr * update.to(tl.bfloat16).to(ACC)"),
        # a transposed gradient
        "gradient-strides": ("*strides_of(grad)", "*strides_of(param)"),
        # 513 elements: the last one is not updated
        "unwritten-tail": ("triton.cdiv(param.numel(), BLOCK)", "max(1, param.numel() // BLOCK)"),
    },
)
def sgd(
    param: torch.Tensor, grad: torch.Tensor, momentum_buffer: torch.Tensor, *, step: int, lr: float,
    momentum: float, dampening: float, nesterov: bool, weight_decay: float,
) -> None:  # fmt: skip
    """Step number `step` (from 1) of SGD with momentum; one shape of 1 to 4 dims, any strides each."""
    if param.numel():
        grid = (triton.cdiv(param.numel(), BLOCK),)
        sgd_elements[grid](
            param, grad, momentum_buffer, param.numel(), *shape_of(param), *strides_of(param),
            *strides_of(grad), *strides_of(momentum_buffer), lr, momentum, 1.0 - dampening, weight_decay,
            FIRST=step == 1, NESTEROV=nesterov, BLOCK=BLOCK,
        )  # fmt: skip
