"""What the CPU executor imitates of a device: every place where devices differ is a field or a method here.

The values are those measured on an H200 (Triton 3.6.0, driver 580), or read from the PTX that Triton emits
for sm_90 where the source says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .casts import Array, bits_of


@dataclass(frozen=True)
class Spread:
    """How one axis of a block lies over the threads: element (((rep·warps + warp)·lanes + lane)·run + i)."""

    repeats: int
    warps: int
    lanes: int
    run: int


@dataclass(frozen=True)
class Profile:
    name: str
    flushed: frozenset[str]
    """fp32 functions that read a subnormal argument as zero and return zero for a subnormal result."""
    tf32_bits: int
    """Bits that a TF32 dot keeps of its fp32 inputs' significands, by truncation: u_in = 2**(1 - bits)."""
    vector_bytes: int
    """Contiguous bytes that one thread holds, which it adds one after the other."""
    lanes: int
    max_grid: tuple[int, int, int]

    def flush(self, function: str, x: Array) -> Array:
        """``x`` with subnormals replaced by zeros of their sign, where ``function`` flushes on the device."""
        if x.dtype != np.float32 or function not in self.flushed:
            return x
        return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)

    def tf32(self, x: Array) -> Array:
        """fp32 values as a TF32 dot reads them."""
        dropped = np.uint32((1 << (24 - self.tf32_bits)) - 1)
        return (bits_of(np.ascontiguousarray(x)) & ~dropped).view(np.float32)

    def spread(self, shape: Sequence[int], axis: int, itemsize: int, warps: int) -> Spread:
        """Where the elements along ``axis`` live: the last axis takes lanes and warps first."""
        lanes, run = self.lanes, 1
        own = max(1, math.prod(shape) // (lanes * warps))
        for index in reversed(range(axis, len(shape))):
            size = shape[index]
            run = min(self.vector_bytes // itemsize, own, size) if index == len(shape) - 1 else 1
            own_lanes = min(lanes, max(1, size // run))
            own_warps = min(warps, max(1, size // (run * own_lanes)))
            if index == axis:
                return Spread(size // (run * own_lanes * own_warps), own_warps, own_lanes, run)
            lanes, warps = lanes // own_lanes, warps // own_warps
        raise IndexError(f"axis {axis} of a block of shape {tuple(shape)}")


H200: Final = Profile(
    name="H200",
    # sin, cos and log: libdevice's fused steps flush (PTX).
    flushed=frozenset({"exp2", "sqrt", "rsqrt", "erf", "sin"}),
    tf32_bits=11,
    vector_bytes=16,
    lanes=32,
    max_grid=(2**31 - 1, 65535, 65535),
)
