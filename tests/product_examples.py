"""Arguments for compiling matrix products and quantisers: odd strides, aligned ones, and extents of 1."""

from __future__ import annotations

from typing import Any

import torch

ODD, ALIGNED, ONES, LONG = (35, 37, 39), (512, 512, 64), (1, 1, 1), (16, 16, 8192)
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def operands(m: int, n: int, k: int, dtype: torch.dtype, *batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """a [..., m, k] and b [..., k, n]; neither is contiguous where m is odd and more than 1."""
    if m % 2 and m > 1:
        return torch.zeros(*batch, k, m, dtype=dtype).mT, torch.zeros(*batch, k, 3 * n, dtype=dtype)[..., ::3]
    return torch.zeros(*batch, m, k, dtype=dtype), torch.zeros(*batch, k, n, dtype=dtype)


def _products(*batch: int) -> dict[str, Any]:
    return {
        "odd": lambda dtype: operands(*ODD, dtype, *batch),
        "aligned": lambda dtype: operands(*ALIGNED, dtype, *batch),
        "ones": lambda dtype: operands(*ONES, dtype, *batch),
        "long": lambda dtype: operands(*LONG, dtype, *batch),
    }


EXAMPLES: dict[tuple[str, ...], dict[str, Any]] = {
    ("a", "b"): _products(),
    ("bmm",): _products(2),
    ("c", "a", "b", "beta", "alpha"): {
        "odd": lambda dtype: (torch.zeros(37, 35, dtype=dtype).T, *operands(*ODD, dtype), 0.1, 0.5),
        "aligned": lambda dtype: (torch.zeros(512, 512, dtype=dtype), *operands(*ALIGNED, dtype), 0.0, 1.0),
    },
    ("x", "weight", "bias", "activation"): {
        str(activation): lambda dtype, activation=activation: (
            torch.zeros(2, 3, 33, dtype=dtype)[..., ::2],
            torch.zeros(33, 17, dtype=dtype),
            None if activation is None else torch.zeros(66, dtype=dtype)[::2],
            activation,
        )
        for activation in (None, "gelu", "silu", "relu")
    },
    ("x", "dtype"): {
        str(to): lambda dtype, to=to: (torch.zeros(3, 301, dtype=dtype)[:, ::3], to) for to in FP8
    },
    ("x", "dtype", "block"): {
        str(block): lambda dtype, block=block: (torch.zeros(3, 300, dtype=dtype), FP8[0], block)
        for block in (7, 128)
    },
    ("q", "scale"): {
        "odd": lambda dtype: (torch.zeros(3, 301, dtype=dtype)[:, ::3], torch.zeros(6)[::2]),
        "aligned": lambda dtype: (torch.zeros(4, 1024, dtype=dtype), torch.zeros(4)),
    },
    ("x", "codebook"): {
        "odd": lambda dtype: (torch.zeros(35, 37, dtype=dtype), torch.zeros(37, 5, dtype=dtype).T),
        "aligned": lambda dtype: (torch.zeros(64, 64, dtype=dtype), torch.zeros(16, 64, dtype=dtype)),
    },
}
"""By the launcher's name, or else by its parameters."""
