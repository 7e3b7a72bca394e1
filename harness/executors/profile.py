"""What the CPU executor imitates of a device: every place where devices differ is a field or a method here.

The values are those measured on an H200 (Triton 3.6.0, driver 580), or read from the PTX that Triton emits
for sm_90 where the source says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np
import triton

from .casts import Array, bits_of


@dataclass(frozen=True)
class Spread:
    """How one axis of a block lies over the threads: element (((rep·warps + warp)·lanes + lane)·run + i)."""

    repeats: int
    warps: int
    lanes: int
    run: int


@dataclass(frozen=True)
class TensorCore:
    """One step of a tensor core: ``products`` of them and the running sum are aligned to the largest
    exponent, cut to ``fraction`` bits behind its first, added, and cut to fp32, or to the ``kept`` first bits of
    its fraction."""

    products: int
    fraction: int
    kept: int = 23


@dataclass(frozen=True)
class Profile:
    """A device under one version of Triton, imitated at one level.

    ``fast``: element types, casts, TF32 truncation, element type and order of reductions, flushing and NaN
    rules are the device's; a dot adds in fp32 in the order of a BLAS, and a·b + c rounds twice.
    ``bitwise``: dots add as the tensor cores do, and a·b + c is contracted to one FMA where Triton does.
    """

    device: str
    triton: str
    level: Literal["fast", "bitwise"]
    flushed: frozenset[str]
    """fp32 functions that read a subnormal argument as zero and return zero for a subnormal result."""
    tf32_bits: int
    """Bits that a TF32 dot keeps of its fp32 inputs' significands, by truncation: u_in = 2**(1 - bits)."""
    vector_bytes: int
    """Contiguous bytes that one thread holds, which it adds one after the other."""
    lanes: int
    max_grid: tuple[int, int, int]
    contracts: bool
    """Whether Triton contracts a·b + c to one FMA by default."""
    cores: Mapping[str, TensorCore] = field(hash=False)
    """By the format of the inputs; others accumulate in a chain of FMAs."""

    @property
    def name(self) -> str:
        return f"{self.device}, Triton {self.triton}, {self.level}"

    @property
    def bitwise(self) -> bool:
        return self.level == "bitwise"

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


_HOPPER: Final = {
    "fp16": TensorCore(16, 25),
    "bf16": TensorCore(16, 25),
    "tf32": TensorCore(8, 25),
    "fp8": TensorCore(32, 13, kept=13),
}
"""[1, 2**-k, −1] loses k = 26, with fp8 k = 14, wherever the three stand. Sums of random fp8 products have 13 bits
behind their first."""

H200: Final = Profile(
    device="H200",
    triton=triton.__version__,
    level="fast",
    # sin, cos and log: libdevice's fused steps flush (PTX).
    flushed=frozenset({"exp2", "sqrt", "rsqrt", "erf", "sin", "floor", "ceil", "tanh", "log1p", "expm1"}),
    tf32_bits=11,
    vector_bytes=16,
    lanes=32,
    max_grid=(2**31 - 1, 65535, 65535),
    cores=_HOPPER,
    contracts=True,
)

PROFILES: Final[Mapping[str, Profile]] = {"fast": H200, "bitwise": replace(H200, level="bitwise")}
