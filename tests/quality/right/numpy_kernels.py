"""Right kernels on NumPy arrays."""

from __future__ import annotations

import math

import numpy as np
import torch

import references
from quality.contracts import clamp, rms_norm
from quality.declare import right


def _array(x, dtype=np.float32):
    return x.float().numpy().astype(dtype) if x.dtype is not torch.float64 else x.numpy().astype(dtype)


def _tensor(values, dtype):
    return torch.from_numpy(np.array(values)).to(dtype)


@right(
    references.sum,
    claims={"depth": "sequential"},
    why="NumPy adds one row after the other unless the axis is the fast one",
)
def sum_in_numpy(x, dim):
    """NumPy's pairwise float32 sum."""
    with np.errstate(all="ignore"):
        return _tensor(_array(x).sum(dim), x.dtype)


@right(
    references.sum,
    formats=("float32",),
    domain={"finite": True, "max_elements": 2000},
    why="math.fsum, rounded once from float64",
)
def sum_exactly(x, dim):
    """math.fsum of every row."""
    values = np.moveaxis(_array(x, np.float64), dim, -1)
    flat = (
        [math.fsum(row) for row in values.reshape(-1, values.shape[-1])]
        if values.size
        else [0.0] * math.prod(values.shape[:-1])
    )
    return _tensor(np.array(flat).reshape(values.shape[:-1]), x.dtype)


@right(references.mean)
def mean_in_numpy(x, dim):
    """np.mean in float64; NaN over nothing."""
    with np.errstate(all="ignore"):
        n = x.shape[dim]
        return _tensor(_array(x, np.float64).sum(dim) / (n or math.nan), x.dtype)


@right(references.amax)
def amax_in_numpy(x, dim):
    """np.max, which keeps NaN."""
    return _tensor(_array(x).max(dim), x.dtype)


@right(
    references.softmax,
    claims={"depth": "sequential"},
    why="NumPy adds one row after the other unless the axis is the fast one",
)
def softmax_in_numpy(x, dim):
    """float32 throughout."""
    with np.errstate(all="ignore"):
        v = _array(x)
        if v.shape[dim] == 0:
            return torch.empty_like(x)
        e = np.exp(v - v.max(dim, keepdims=True))
        return _tensor(e / e.sum(dim, keepdims=True), x.dtype)


@right(references.logsumexp)
def logsumexp_in_numpy(x, dim):
    """np.logaddexp.reduce in float64."""
    with np.errstate(all="ignore"):
        return _tensor(np.logaddexp.reduce(_array(x, np.float64), axis=dim), x.dtype)


@right(clamp)
def clamp_in_numpy(x):
    """np.clip."""
    return _tensor(np.clip(_array(x), -1.0, 1.0), x.dtype)


@right(
    rms_norm,
    claims={"depth": "sequential"},
    why="NumPy adds one row after the other unless the axis is the fast one",
)
def rms_norm_in_numpy(x, weight, eps):
    """float32 throughout."""
    with np.errstate(all="ignore"):
        v = _array(x)
        scale = np.float32(1) / np.sqrt((v * v).mean(-1, keepdims=True, dtype=np.float32) + np.float32(eps))
        return _tensor(v * scale * _array(weight), x.dtype)
