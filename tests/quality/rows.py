"""Launchers' common step: a tensor as contiguous rows, and results of rows in the tensor's shape."""

from __future__ import annotations

import torch


def rows_of(x: torch.Tensor, dim: int) -> torch.Tensor:
    """[rows, n], contiguous: the axis ``dim`` last, the others in order."""
    moved = x.movedim(dim, -1)
    n = moved.shape[-1]
    return moved.reshape(moved.numel() // n if n else moved[..., :0].shape[:-1].numel(), n).contiguous()


def reduced(flat: torch.Tensor, x: torch.Tensor, dim: int) -> torch.Tensor:
    """[rows] in the shape of x without ``dim``."""
    return flat.reshape(x.movedim(dim, -1).shape[:-1])


def restored(flat: torch.Tensor, x: torch.Tensor, dim: int) -> torch.Tensor:
    """[rows, n] in the shape of x, as a view."""
    return flat.reshape(x.movedim(dim, -1).shape).movedim(-1, dim)
