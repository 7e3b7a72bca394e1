"""PyTorch's own CPU functions that round more often than a float32 kernel, in float16 and bfloat16: true findings.

``right/eager.py`` has the same functions with the claims that make them right; ``test_quality.py`` confirms the
errors in mpmath.
"""

from __future__ import annotations

import torch

import references
from quality.declare import wrong

HALVES = ("float16", "bfloat16")
STEPS = "right if claims={'roundings': ('exponentials', 'logarithm')}"


@wrong(
    references.prod,
    "accuracy",
    "special values",
    formats=HALVES,
    claim="in float16 right if claims={'accumulator': 'float16'}; "
    "in bfloat16 right if claims={'accumulator': 'bfloat16'}",
)
def prod_eager(x, dim):
    """torch.prod multiplies in the input's format: every partial product is rounded."""
    return torch.prod(x, dim)


@wrong(
    references.softmax, "accuracy", formats=HALVES, claim="right if claims={'roundings': ('exponentials',)}"
)
def softmax_eager(x, dim):
    """torch.softmax along any axis but the last stores exp(x - max) in the output, and divides what it reads back."""
    return torch.softmax(x, dim)


@wrong(references.log_softmax, "accuracy", formats=HALVES, claim="*")
def log_softmax_eager(x, dim):
    """torch.log_softmax stores Σ and log Σ in the input's format before the latter is subtracted."""
    return torch.log_softmax(x, dim)


@wrong(references.logsumexp, "accuracy", formats=HALVES, claim="*", smallest=16)
def logsumexp_eager(x, dim):
    """torch.logsumexp is made of tensor operations: exponentials, sum, logarithm and result are each rounded."""
    return torch.logsumexp(x, dim)


@wrong(
    references.swiglu,
    "accuracy",
    bug="C08",
    formats=HALVES,
    smallest=1,
    claim="right if claims={'roundings': ('silu',)}",
)
def swiglu_of_two_calls(gate, up):
    """silu and a product, each of which rounds, where a fused kernel keeps float32 between them."""
    return torch.nn.functional.silu(gate) * up
