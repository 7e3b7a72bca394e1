"""Gradients divided in place by the scale of the loss, with a flag for results that are infinite or NaN.

    gᵢ = gᵢ / scale                                          (float32; float64 for float64; rounded once)
    found_inf = any element of any gᵢ, as stored, that is not finite

The flag looks at what is stored, since a scale below 1 can make an infinity. It is kept as an int32 that
programs only ever set to 1, so they may all write it.

Cost: one launch for each tensor, which reads and writes each element once.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._elements import SHAPE, element_offset, shape_of, strides_of

BLOCK = 1024


@triton.jit(do_not_specialize=("count", *SHAPE, "scale"))
def unscale_elements(
    grad_ptr, found_ptr, count, size1, size2, size3, stride0, stride1, stride2, stride3, scale,
    BLOCK: tl.constexpr,
):  # fmt: skip
    FORMAT: tl.constexpr = grad_ptr.dtype.element_ty
    ACC: tl.constexpr = tl.float64 if FORMAT == tl.float64 else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    at = grad_ptr + element_offset(i, size1, size2, size3, stride0, stride1, stride2, stride3)
    grad = tl.load(at, mask=i < count, other=0.0).to(ACC)
    result = (grad / scale).to(FORMAT)
    tl.store(at, result, mask=i < count)
    seen = result.to(ACC)
    bad = (seen != seen) | (tl.abs(seen) == float("inf"))
    tl.atomic_max(found_ptr, tl.max(bad.to(tl.int32), axis=0), sem="relaxed")


@subject(
    references.unscale,
    mutants={
        # scale 3
        "multiplies": ("(grad / scale)", "(grad * scale)"),
        # any scale but 1
        "not-divided": ("(grad / scale)", "grad"),
        # scale 3: 1/3 in bfloat16
        "reciprocal-in-bfloat16": (
            "(grad / scale)",
            "(grad * (1.0 / (scale + 0.0 * grad)).to(tl.bfloat16).to(ACC))",
        ),
        # [NaN]
        "only-infinities": (
            '(seen != seen) | (tl.abs(seen) == float("inf"))',
            'tl.abs(seen) == float("inf")',
        ),
        # [inf]
        "only-nan": ('(seen != seen) | (tl.abs(seen) == float("inf"))', "seen != seen"),
        # [−inf]
        "only-positive-infinities": ("tl.abs(seen) ==", "seen =="),
        # 1e38 / 2^-20
        "looked-at-before-the-division": ("seen = result.to(ACC)", "seen = grad"),
        # 1 / 2^-20 in float16: infinite once it is stored
        "looked-at-before-rounding": ("seen = result.to(ACC)", "seen = grad / scale"),
        # [[1], [inf]]
        "first-tensor-only": (
            "found, grad.numel()",
            "found if grad is grads[0] else found.clone(), grad.numel()",
        ),
        # [[inf], [1]]
        "last-tensor-only": (
            "        if grad.numel():\n",
            "        if grad.numel():\n            found.zero_()\n",
        ),
        # a first tensor of 1025 elements with an infinity at 0: a later program takes the flag back
        "last-program-decides": (
            'tl.atomic_max(found_ptr, tl.max(bad.to(tl.int32), axis=0), sem="relaxed")',
            "tl.store(found_ptr, tl.max(bad.to(tl.int32), axis=0))",
        ),
        # found_inf is what memory held before
        "flag-not-cleared": ("torch.zeros(1, dtype=torch.int32", "torch.empty(1, dtype=torch.int32"),
        # [[1, 2], [3, 4]] transposed with gaps
        "unit-stride": ("element_offset(i, size1, size2, size3, stride0, stride1, stride2, stride3)", "i"),
        # 1025 elements: the last one keeps its scale
        "unwritten-tail": ("triton.cdiv(grad.numel(), BLOCK)", "max(1, grad.numel() // BLOCK)"),
    },
)
def unscale(grads: list[torch.Tensor], scale: float) -> torch.Tensor:
    """found_inf [bool, one element]; each of grads [1 to 4 dims, any strides] is divided in place."""
    found = torch.zeros(1, dtype=torch.int32, device=grads[0].device)
    for grad in grads:
        if grad.numel():
            grid = (triton.cdiv(grad.numel(), BLOCK),)
            unscale_elements[grid](
                grad, found, grad.numel(), *shape_of(grad), *strides_of(grad), scale, BLOCK=BLOCK
            )
    return found != 0
