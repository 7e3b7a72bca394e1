"""PyTorch's own CPU functions, as they are."""

from __future__ import annotations

import torch

import references
from quality.contracts import cumsum
from quality.declare import right


@right(references.sum)
def sum_eager(x, dim):
    """torch.sum."""
    return torch.sum(x, dim)


@right(references.mean)
def mean_eager(x, dim):
    """torch.mean."""
    return torch.mean(x, dim)


@right(references.prod)
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


@right(references.softmax)
def softmax_eager(x, dim):
    """torch.softmax."""
    return torch.softmax(x, dim)


@right(references.log_softmax)
def log_softmax_eager(x, dim):
    """torch.log_softmax."""
    return torch.log_softmax(x, dim)


@right(references.logsumexp)
def logsumexp_eager(x, dim):
    """torch.logsumexp."""
    return torch.logsumexp(x, dim)


@right(cumsum)
def cumsum_eager(x, dim):
    """torch.cumsum."""
    return torch.cumsum(x, dim)
