"""The value that stands for "undefined" in a kernel: the same fills as outside a guarded view."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from ..memory import fill_value
from .casts import BFLOAT16, FP8, Array

_TORCH = {BFLOAT16: torch.bfloat16, FP8[0]: torch.float8_e4m3fn, FP8[1]: torch.float8_e5m2,
          FP8[2]: torch.float8_e4m3fn, FP8[3]: torch.float8_e5m2}  # fmt: skip


@functools.lru_cache(maxsize=256)
def poison_value(dtype: np.dtype[Any], kind: str) -> Array:
    """`harness.memory.fill_value` as an array of shape [1]."""
    torch_dtype = _TORCH.get(dtype) or getattr(torch, dtype.name)
    return np.array([fill_value(torch_dtype, kind)]).astype(dtype)
