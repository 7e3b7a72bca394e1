"""PyTorch's own CPU functions, with the claims that some of them need in float16 and bfloat16.

Without these claims they are wrong: see ``wrong/eager.py``.
"""

from __future__ import annotations

import torch

import references
from quality.contracts import cumsum
from quality.declare import right

HALVES = ("float16", "bfloat16")


@right(references.sum)
def sum_eager(x, dim):
    """torch.sum."""
    return torch.sum(x, dim)


@right(references.mean)
def mean_eager(x, dim):
    """torch.mean."""
    return torch.mean(x, dim)


@right(references.prod, formats=("float32",), why="float16 and bfloat16 products are rounded at every step")
def prod_eager(x, dim):
    """torch.prod."""
    return torch.prod(x, dim)


@right(references.amax)
def amax_eager(x, dim):
    """torch.amax."""
    return torch.amax(x, dim)


@right(references.amin)
def amin_eager(x, dim):
    """torch.amin."""
    return torch.amin(x, dim)


@right(
    references.softmax,
    formats=("float32",),
    why="float32 exponentials along another axis than the last are added one after the other",
    claims={"depth": "sequential"},
)
def softmax_eager(x, dim):
    """torch.softmax."""
    return torch.softmax(x, dim)


@right(references.softmax, formats=HALVES, claims={"roundings": "exponentials"}, why="see wrong/eager.py")
def softmax_eager_claimed(x, dim):
    """torch.softmax, whose exponentials are stored in the input's format."""
    return torch.softmax(x, dim)


@right(
    references.log_softmax,
    formats=("float32",),
    why="float32 exponentials along another axis than the last are added one after the other",
    claims={"depth": "sequential"},
)
def log_softmax_eager(x, dim):
    """torch.log_softmax."""
    return torch.log_softmax(x, dim)


@right(
    references.log_softmax,
    formats=HALVES,
    claims={"roundings": ("total", "logarithm")},
    why="see wrong/eager.py",
)
def log_softmax_eager_claimed(x, dim):
    """torch.log_softmax, whose sum of exponentials and its logarithm are stored in the input's format."""
    return torch.log_softmax(x, dim)


@right(references.logsumexp, formats=("float32",), why="see logsumexp_eager_claimed")
def logsumexp_eager(x, dim):
    """torch.logsumexp."""
    return torch.logsumexp(x, dim)


@right(
    references.logsumexp,
    formats=HALVES,
    claims={"roundings": ("shifted", "exponentials", "total", "logarithm")},
    why="see wrong/eager.py",
)
def logsumexp_eager_claimed(x, dim):
    """torch.logsumexp, which rounds to the input's format at every step."""
    return torch.logsumexp(x, dim)


@right(cumsum)
def cumsum_eager(x, dim):
    """torch.cumsum."""
    return torch.cumsum(x, dim)
