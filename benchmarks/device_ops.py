"""What a device computes, operation by operation, and whether the CPU executor computes the same.

    python benchmarks/device_ops.py record FILE.npz        on a GPU: runs every probe and writes a record
    python benchmarks/device_ops.py compare FILE.npz       anywhere: lists where the CPU executor differs
    ... --only casts,sum                                   the probes whose names start so

Recording needs torch, Triton and NumPy only. Inputs are made from a counter, the same everywhere, and are not
recorded. A probe's outputs are bits: small ones are recorded whole, of large ones a hash of each part and
every n-th element. Exact operations must agree in every bit; the others within the limit beside them, in ulp
of fp32.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

WHOLE = 1024
"""Outputs up to this many elements are recorded whole."""
PARTS = 64
SECONDS = 480
"""After which no further probe is recorded."""

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
NAMES = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp64": torch.float64,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
}


# inputs


def hashed(n: int, seed: int) -> np.ndarray:
    """n numbers of 64 bits: splitmix64 of a counter."""
    with np.errstate(over="ignore"):
        z = np.arange(n, dtype=np.uint64) + np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


SPECIAL = [
    0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0**-149, -(2.0**-149), 2.0**-130, -(2.0**-130),
    2.0**-127, 2.0**-126, 1.5 * 2.0**-126, 3.4028235e38, -3.4028235e38, 88.7, 88.8, -87.3, -103.9,
    -104.1, -126.0, -126.5, -130.0, -149.0, 127.5, 128.0, 448.0, 449.0, 464.0, 465.0, 57344.0, 61440.0,
    65504.0, 65519.0, 65520.0, 1e6, 3e9, -3e9, 2147483648.0, 0.5, 1.5, 2.5, -0.5, -2.5, 127.5, 128.5,
    255.5, 300.0, 40000.0, -40000.0, 9.3e18,
]  # fmt: skip


def floats(n: int, seed: int) -> torch.Tensor:
    """fp32 [n]: special values, values beside the ties of shorter formats, then bits at random."""
    bits = (hashed(n, seed) >> np.uint64(32)).astype(np.uint32)
    kind = np.arange(n) % 4
    # Ties of bf16, fp16, e4m3 and e5m2, and what lies one unit beside them.
    dropped = np.array([16, 13, 20, 21], np.uint32)[np.arange(n) // 4 % 4]
    tie = (bits >> dropped << dropped) | (np.uint32(1) << (dropped - np.uint32(1)))
    beside = tie + (np.arange(n) // 16 % 3).astype(np.uint32) - np.uint32(1)
    moderate = (bits & np.uint32(0x807FFFFF)) | (
        (np.uint32(110) + (bits >> np.uint32(23)) % np.uint32(36)) << np.uint32(23)
    )
    near = (beside & np.uint32(0x807FFFFF)) | (
        (np.uint32(110) + (bits >> np.uint32(23)) % np.uint32(36)) << np.uint32(23)
    )
    chosen = np.select([kind == 0, kind == 1, kind == 2], [bits, beside, near], moderate).astype(np.uint32)
    chosen[: len(SPECIAL)] = np.array(SPECIAL, np.float32).view(np.uint32)[:n]
    return torch.from_numpy(chosen.view(np.int32).copy()).view(torch.float32)


def normal(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """fp32, uniform in (−1, 1) with 24 random bits: sums of them depend on the order."""
    n = int(np.prod(shape))
    values = (hashed(n, seed) >> np.uint64(39)).astype(np.float64) * 2.0**-24 - 1.0
    values = np.where(values < -0.5, values + 1.0, values)
    return torch.from_numpy(
        (values * 2.0 ** (hashed(n, seed + 1) % np.uint64(8)).astype(np.float64)).reshape(shape)
    ).float()


def every(name: str) -> torch.Tensor:
    """Every value of a format of 8 or 16 bits."""
    dtype = NAMES[name]
    return torch.arange(2 ** (8 * dtype.itemsize)).to(BITS[dtype.itemsize]).view(dtype)


# kernels


@triton.jit
def unary_kernel(x, y, n, F: tl.constexpr, WIDEN: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + index, mask=index < n, other=0.0)
    if WIDEN:
        value = value.to(tl.float32)
    tl.store(y + index, F(value).to(y.dtype.element_ty), mask=index < n)


@triton.jit
def cast_kernel(x, y, n, ROUNDING: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + index, mask=index < n)
    tl.store(y + index, value.to(y.dtype.element_ty, fp_downcast_rounding=ROUNDING), mask=index < n)


@triton.jit
def ternary_kernel(x, y, z, out, n, F: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    a, b = tl.load(x + index, mask=mask, other=0.0), tl.load(y + index, mask=mask, other=0.0)
    c = tl.load(z + index, mask=mask, other=0.0)
    tl.store(out + index, F(a, b, c).to(out.dtype.element_ty), mask=mask)


@triton.jit
def row_kernel(x, y, F: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0)
    tl.store(y + row, F(tl.load(x + row * N + tl.arange(0, N))).to(y.dtype.element_ty))


@triton.jit
def block_kernel(x, y, F: tl.constexpr, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    block = tl.program_id(0)
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    result = F(tl.load(x + block * M * N + at), AXIS)
    if AXIS == 0:
        tl.store(y + block * N + tl.arange(0, N), result)
    else:
        tl.store(y + block * M + tl.arange(0, M), result)


@triton.jit
def lane_kernel(x, y, F: tl.constexpr, N: tl.constexpr):
    index = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + index, F(tl.load(x + index)))


@triton.jit
def scan2_kernel(x, y, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y + at, tl.cumsum(tl.load(x + at), AXIS))


@triton.jit
def dot_kernel(
    a,
    b,
    c,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
):
    block = tl.program_id(0)
    rows, columns, inner = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    x = tl.load(a + block * M * K + rows * K + inner[None, :])
    y = tl.load(b + inner[:, None] * N + columns)
    product = tl.dot(
        x, y, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE, out_dtype=c.dtype.element_ty
    )
    tl.store(c + block * M * N + rows * N + columns, product)


@triton.jit
def atomic_kernel(x, v, old, OP: tl.constexpr, N: tl.constexpr):
    index = tl.arange(0, N)
    value = tl.load(v + index)
    if OP == "add":
        found = tl.atomic_add(x + index, value)
    elif OP == "max":
        found = tl.atomic_max(x + index, value)
    elif OP == "min":
        tl.atomic_min(x + index, value)
        found = value  # Triton 3.6 to 3.9 type the result of a floating-point minimum as a pointer
    elif OP == "and":
        found = tl.atomic_and(x + index, value)
    elif OP == "or":
        found = tl.atomic_or(x + index, value)
    elif OP == "xor":
        found = tl.atomic_xor(x + index, value)
    else:
        found = tl.atomic_xchg(x + index, value)
    tl.store(old + index, found)


@triton.jit
def f_exp(x):
    return tl.exp(x)


@triton.jit
def f_exp2(x):
    return tl.exp2(x)


@triton.jit
def f_log(x):
    return tl.log(x)


@triton.jit
def f_log2(x):
    return tl.log2(x)


@triton.jit
def f_sin(x):
    return tl.sin(x)


@triton.jit
def f_cos(x):
    return tl.cos(x)


@triton.jit
def f_sqrt(x):
    return tl.sqrt(x)


@triton.jit
def f_sqrt_rn(x):
    return tl.sqrt_rn(x)


@triton.jit
def f_rsqrt(x):
    return tl.rsqrt(x)


@triton.jit
def f_erf(x):
    return tl.erf(x)


@triton.jit
def f_sigmoid(x):
    return tl.sigmoid(x)


@triton.jit
def f_reciprocal(x):
    return 1.0 / x


@triton.jit
def f_tanh(x):
    return libdevice.tanh(x)


@triton.jit
def f_log1p(x):
    return libdevice.log1p(x)


@triton.jit
def f_expm1(x):
    return libdevice.expm1(x)


@triton.jit
def f_abs(x):
    return tl.abs(x)


@triton.jit
def f_negative(x):
    return -x


@triton.jit
def f_floor(x):
    return tl.floor(x)


@triton.jit
def f_ceil(x):
    return tl.ceil(x)


@triton.jit
def f_double(x):
    return x + x


@triton.jit
def f_square(x):
    return x * x


@triton.jit
def f_add(x, y, z):
    return x + y


@triton.jit
def f_sub(x, y, z):
    return x - y


@triton.jit
def f_mul(x, y, z):
    return x * y


@triton.jit
def f_div(x, y, z):
    return x / y


@triton.jit
def f_div_rn(x, y, z):
    return tl.div_rn(x, y)


@triton.jit
def f_fma(x, y, z):
    return tl.fma(x, y, z)


@triton.jit
def f_contracted(x, y, z):
    return x * y + z


@triton.jit
def f_contracted_sub(x, y, z):
    return x * y - z


@triton.jit
def f_contracted_rsub(x, y, z):
    return z - x * y


@triton.jit
def f_maximum(x, y, z):
    return tl.maximum(x, y)


@triton.jit
def f_minimum(x, y, z):
    return tl.minimum(x, y)


@triton.jit
def f_maximum_nan(x, y, z):
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def f_clamp(x, y, z):
    return tl.clamp(x, -1.0, 1.0)


@triton.jit
def f_where(x, y, z):
    return tl.where(x > y, x, y)


@triton.jit
def f_mod(x, y, z):
    return x % y


@triton.jit
def f_sum(x):
    return tl.sum(x, axis=0)


@triton.jit
def f_max(x):
    return tl.max(x, axis=0)


@triton.jit
def f_min(x):
    return tl.min(x, axis=0)


@triton.jit
def f_argmax(x):
    return tl.argmax(x, axis=0)


@triton.jit
def f_argmin(x):
    return tl.argmin(x, axis=0)


@triton.jit
def f_sum_along(x, AXIS: tl.constexpr):
    return tl.sum(x, axis=AXIS)


@triton.jit
def f_max_along(x, AXIS: tl.constexpr):
    return tl.max(x, axis=AXIS)


@triton.jit
def f_cumsum(x):
    return tl.cumsum(x, 0)


@triton.jit
def f_cumsum_reverse(x):
    return tl.cumsum(x, 0, reverse=True)


@triton.jit
def f_cumprod(x):
    return tl.cumprod(x, 0)


@triton.jit
def f_sort(x):
    return tl.sort(x)


# probes


@dataclass(frozen=True)
class Probe:
    """limit: ulp of fp32 between device and CPU, 0 for every bit."""

    name: str
    run: Callable[[str], torch.Tensor]
    limit: float = 0.0
    inputs: torch.Tensor | None = None


# Worst errors measured on an H200 (numerics.md), rounded up, plus the executor's own ulp.
APPROXIMATE = {
    "exp": (f_exp, 6.0), "exp2": (f_exp2, 4.0), "log": (f_log, 3.0), "log2": (f_log2, 3.0),
    "sin": (f_sin, 3.0), "cos": (f_cos, 3.0), "sqrt": (f_sqrt, 3.0), "rsqrt": (f_rsqrt, 3.0),
    "erf": (f_erf, 4.0), "sigmoid": (f_sigmoid, 9.0), "reciprocal": (f_reciprocal, 3.0),
    "tanh": (f_tanh, 4.0), "log1p": (f_log1p, 4.0), "expm1": (f_expm1, 4.0),
}  # fmt: skip
EXACT = {"sqrt_rn": f_sqrt_rn, "abs": f_abs, "negative": f_negative, "floor": f_floor, "ceil": f_ceil,
         "double": f_double, "square": f_square}  # fmt: skip
TERNARY = {
    "add": f_add, "sub": f_sub, "mul": f_mul, "div_rn": f_div_rn, "fma": f_fma, "contracted": f_contracted,
    "contracted_sub": f_contracted_sub, "contracted_rsub": f_contracted_rsub, "maximum": f_maximum,
    "minimum": f_minimum, "maximum_nan": f_maximum_nan, "clamp": f_clamp, "where": f_where, "mod": f_mod,
}  # fmt: skip


def over(n: int) -> tuple[int]:
    return (triton.cdiv(n, 1024),)


def unary(x: torch.Tensor, function, out: torch.dtype, widen: bool) -> Callable[[str], torch.Tensor]:
    def run(device: str) -> torch.Tensor:
        given = x.to(device)
        y = torch.zeros(len(x), dtype=out, device=device)
        unary_kernel[over(len(x))](given, y, len(x), F=function, WIDEN=widen, BLOCK=1024)
        return y

    return run


def cast(x: torch.Tensor, to: str, rounding: str | None = None) -> Callable[[str], torch.Tensor]:
    def run(device: str) -> torch.Tensor:
        y = torch.zeros(len(x), dtype=BITS[NAMES[to].itemsize], device=device).view(NAMES[to])
        cast_kernel[over(len(x))](x.to(device), y, len(x), ROUNDING=rounding, BLOCK=1024)
        return y

    return run


def ternary(function, dtype: str, n: int = 16384) -> Callable[[str], torch.Tensor]:
    def run(device: str) -> torch.Tensor:
        parts = [floats(n, seed).roll(shift) for seed, shift in ((11, 0), (12, 5), (13, 11))]
        # The special values meet each other.
        for at, part in enumerate(parts[:2]):
            grid = np.array(SPECIAL, np.float32)
            pairs = np.repeat(grid, len(grid)) if at == 0 else np.tile(grid, len(grid))
            part[-len(pairs) :] = torch.from_numpy(pairs)
        x, y, z = (part.to(NAMES[dtype]).to(device) for part in parts)
        out = torch.zeros_like(x)
        ternary_kernel[over(n)](x, y, z, out, n, F=function, BLOCK=1024)
        return out

    return run


def rows(function, x: torch.Tensor, out: torch.dtype, warps: int) -> Callable[[str], torch.Tensor]:
    def run(device: str) -> torch.Tensor:
        y = torch.zeros(len(x), dtype=out, device=device)
        row_kernel[(len(x),)](x.to(device), y, F=function, N=x.shape[1], num_warps=warps)
        return y

    return run


def along(function, x: torch.Tensor, axis: int, warps: int) -> Callable[[str], torch.Tensor]:
    def run(device: str) -> torch.Tensor:
        count, m, n = x.shape
        y = torch.zeros(count, n if axis == 0 else m, dtype=x.dtype, device=device)
        block_kernel[(count,)](x.to(device), y, F=function, AXIS=axis, M=m, N=n, num_warps=warps)
        return y

    return run


def lanes(function, x: torch.Tensor, warps: int) -> Callable[[str], torch.Tensor]:
    def run(device: str) -> torch.Tensor:
        y = torch.zeros_like(x, device=device)
        lane_kernel[(len(x),)](x.to(device), y, F=function, N=x.shape[1], num_warps=warps)
        return y

    return run


def scan2(x: torch.Tensor, axis: int, warps: int) -> Callable[[str], torch.Tensor]:
    def run(device: str) -> torch.Tensor:
        y = torch.zeros_like(x, device=device)
        scan2_kernel[(1,)](x.to(device), y, AXIS=axis, M=x.shape[0], N=x.shape[1], num_warps=warps)
        return y

    return run


def dots(
    a: torch.Tensor,
    b: torch.Tensor,
    precision: str,
    imprecise: int | None,
    out: torch.dtype,
    rows: int = 16,
    warps: int = 4,
):
    """a [blocks·16, K], b [K, 16], in blocks of so many rows, the last filled up with zeros"""

    def run(device: str) -> torch.Tensor:
        x = torch.zeros(-(-len(a) // rows) * rows, a.shape[1], dtype=a.dtype)
        x[: len(a)] = a
        c = torch.zeros(len(x), 16, dtype=out, device=device)
        dot_kernel[(len(x) // rows,)](
            x.to(device), b.to(device), c, K=a.shape[1], PRECISION=precision, IMPRECISE=imprecise, M=rows, N=16,
            num_warps=warps,
        )  # fmt: skip
        return c[: len(a)]

    return run


def atomic(x: torch.Tensor, v: torch.Tensor, op: str) -> Callable[[str], torch.Tensor]:
    def run(device: str) -> torch.Tensor:
        target = x.clone().to(device)
        old = torch.zeros_like(target)
        atomic_kernel[(1,)](target, v.to(device), old, OP=op, N=len(x))
        return torch.stack([target.view(BITS[x.dtype.itemsize]), old.view(BITS[x.dtype.itemsize])])

    return run


def padded(patterns: list[list[float]], k: int) -> torch.Tensor:
    """Rows of a [.., K], a multiple of 16 of them."""
    out = torch.zeros(-(-len(patterns) // 16) * 16, k, dtype=torch.float64)
    for at, pattern in enumerate(patterns):
        out[at, : len(pattern)] = torch.tensor(pattern, dtype=torch.float64)
    return out


DOTS = {
    "fp16": ("fp16", "ieee", None), "bf16": ("bf16", "ieee", None), "tf32": ("fp32", "tf32", None),
    "tf32x3": ("fp32", "tf32x3", None), "ieee": ("fp32", "ieee", None), "e4m3": ("e4m3", "ieee", None),
    "e4m3 precise": ("e4m3", "ieee", 0), "e4m3 32": ("e4m3", "ieee", 32), "e5m2": ("e5m2", "ieee", None),
    "e5m2 precise": ("e5m2", "ieee", 0),
}  # fmt: skip


GROUPS = {"64": (64, 4), "128": (128, 4), "128 by 8": (128, 8)}
"""Rows and warps of blocks whose fp8 dots four warps, or twice four, compute together (wgmma)."""


def dot_probes() -> Iterator[Probe]:
    for name, (dtype, precision, imprecise) in DOTS.items():
        yield from dot_probes_of(name, dtype, precision, imprecise, 16, 4)
    for group, (rows, warps) in GROUPS.items():
        for name in ("e4m3", "e4m3 32", "e4m3 precise", "e5m2"):
            yield from dot_probes_of(f"{name} rows={group}", *DOTS[name], rows, warps)
    x, y = normal((32, 64), 91).half(), normal((64, 16), 92).half()
    yield Probe("dot random fp16 into fp16", dots(x, y, "ieee", None, torch.float16))


def dot_probes_of(
    name: str, dtype: str, precision: str, imprecise: int | None, rows: int, warps: int
) -> Iterator[Probe]:
    K = 32
    small = {"fp16": 14, "bf16": 40, "e4m3": 6, "e5m2": 14}.get(dtype, 40)
    ones = torch.ones(K, 16)

    def made(a: torch.Tensor, b: torch.Tensor):
        x, y = a.to(NAMES[dtype]), b.float().to(NAMES[dtype])
        return dots(x, y, precision, imprecise, torch.float32, rows, warps)

    # Bits of the accumulator: 1, 2**-k, −1 in every placement of three positions; products, so that
    # 2**-k may be smaller than the format's least value.
    patterns, factors = [], []
    for k in range(1, 2 * small):
        half = min(k, small)
        for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
            row = [0.0] * K
            for where, value in zip(order, (1.0, 2.0**-half, -1.0), strict=True):
                row[where * 5] = value
            patterns.append(row)
            factors.append((order[1] * 5, k - half))
    outs = []
    for rest in sorted({factor[1] for factor in factors}):
        chosen = [at for at, factor in enumerate(factors) if factor[1] == rest]
        for position in sorted({factors[at][0] for at in chosen}):
            here = [at for at in chosen if factors[at][0] == position]
            b = ones.clone()
            b[position] = 2.0**-rest
            outs.append((padded([patterns[at] for at in here], K), b))

    def bits(device: str) -> torch.Tensor:
        return torch.cat([made(a, b)(device)[:, 0] for a, b in outs])

    yield Probe(f"dot bits {name}", bits)

    # The order of additions (FPRev): a large number at i, its negative at j, a unit elsewhere.
    large, unit = {
        "e4m3": (256.0, 2.0**-9),
        "e5m2": (2.0**14, 2.0**-14),
        "fp16": (2.0**15, 2.0**-14),
    }.get(dtype, (2.0**30, 1.0))
    patterns = []
    for i in range(K):
        for j in range(i + 1, K):
            row = [unit] * K
            row[i], row[j] = large, -large
            patterns.append(row)
    yield Probe(f"dot order {name}", made(padded(patterns, K), ones))

    # What is kept of the inputs.
    values = [1 + 2.0**-k for k in range(1, 24)] + [
        1 + 2.0**-11 + 2.0**-12,
        1 + 3 * 2.0**-11,
        -(1 + 2.0**-11),
    ]
    yield Probe(f"dot inputs {name}", made(padded([[value] for value in values], K), ones))
    for k in (16, 32, 64, 128):
        if dtype in ("e4m3", "e5m2") and k < 32:
            continue
        x = normal((32, k), 70 + k).to(NAMES[dtype])
        y = normal((k, 16), 80 + k).to(NAMES[dtype])
        run = dots(x, y, precision, imprecise, torch.float32, rows, warps)
        yield Probe(f"dot random {name} K={k}", run)


def probes() -> Iterator[Probe]:
    dense = floats(1 << 16, 1)
    for source in ("fp16", "bf16", "e4m3", "e5m2"):
        for to in ("fp32", "fp16", "bf16", "e4m3", "e5m2", "i8", "i16", "i32"):
            if source != to and not (source in ("e4m3", "e5m2") and to[0] in "ei"):
                yield Probe(f"casts {source} to {to}", cast(every(source), to))
    for to in ("fp16", "bf16", "e4m3", "e5m2", "fp64", "i8", "i16", "i32", "i64"):
        yield Probe(f"casts fp32 to {to}", cast(dense, to))
    for to in ("fp16", "bf16"):
        yield Probe(f"casts fp32 to {to} toward zero", cast(dense, to, "rtz"))
    double = dense.double() * (1 + 2.0**-40)
    for to in ("fp32", "fp16", "bf16", "i32", "i64"):
        yield Probe(f"casts fp64 to {to}", cast(double, to))
    whole = torch.from_numpy((hashed(1 << 14, 5) >> np.uint64(32)).astype(np.uint32).view(np.int32).copy())
    whole = whole >> (torch.arange(1 << 14) % 31).int()
    for to in ("fp32", "fp16", "bf16", "fp64", "i8", "i64"):
        yield Probe(f"casts i32 to {to}", cast(whole, to))

    for name, function in EXACT.items():
        for source in ("fp16", "bf16"):
            yield Probe(f"unary {name} {source}", unary(every(source), function, torch.float32, True))
            if name not in ("sqrt_rn", "floor", "ceil"):
                yield Probe(f"unary {name} in {source}", unary(every(source), function, NAMES[source], False))
        yield Probe(f"unary {name} fp32", unary(dense, function, torch.float32, False))
    for name, (function, limit) in APPROXIMATE.items():
        for source, x in (("fp16", every("fp16")), ("bf16", every("bf16")), ("fp32", dense)):
            run = unary(x, function, torch.float32, True)
            yield Probe(f"unary {name} {source}", run, limit, x.float())
    for name, function in TERNARY.items():
        for dtype in ("fp32", "fp16", "bf16"):
            if dtype == "fp32" or name not in ("div_rn", "fma", "mod"):
                yield Probe(f"binary {name} {dtype}", ternary(function, dtype))
    yield Probe("binary div fp32", ternary(f_div, "fp32"), 3.0)

    for dtype in ("fp32", "fp16", "bf16"):
        for n in (2, 16, 32, 64, 128, 256, 512, 1024, 4096):
            for warps in (1, 2, 4, 8, 16) if dtype == "fp32" else (4,):
                x = normal((8, n), 20).to(NAMES[dtype])
                yield Probe(f"sum {dtype} n={n} warps={warps}", rows(f_sum, x, x.dtype, warps))
        for m, n in (
            (4, 32),
            (8, 64),
            (16, 16),
            (32, 8),
            (32, 128),
            (64, 64),
            (128, 32),
            (128, 4),
            (1, 256),
            (256, 2),
        ):
            for axis in (0, 1):
                for warps in (1, 4, 8) if dtype == "fp32" else (4,):
                    x = normal((2, m, n), 30).to(NAMES[dtype])
                    name = f"sum2 {dtype} {m}x{n} axis={axis} warps={warps}"
                    yield Probe(name, along(f_sum_along, x, axis, warps))

    for n in (4, 32, 128, 512, 2048):
        for warps in (1, 4, 8):
            x = normal((2, n), 40)
            yield Probe(f"scan cumsum n={n} warps={warps}", lanes(f_cumsum, x, warps))
        yield Probe(f"scan cumsum reverse n={n}", lanes(f_cumsum_reverse, x, 4))
        yield Probe(f"scan cumprod n={n}", lanes(f_cumprod, 1 + x * 2.0**-12, 4))
    for dtype in ("fp16", "bf16"):
        yield Probe(f"scan cumsum {dtype}", lanes(f_cumsum, normal((2, 256), 41).to(NAMES[dtype]), 4))
    for axis in (0, 1):
        yield Probe(f"scan2 cumsum 32x64 axis={axis}", scan2(normal((32, 64), 42), axis, 4))

    yield from dot_probes()

    mixed = floats(64 * 64, 50).reshape(64, 64).clone()
    mixed[1], mixed[2, ::3], mixed[3, 1:] = float("nan"), float("nan"), float("nan")
    mixed[4], mixed[4, ::2], mixed[5] = -0.0, 0.0, -0.0
    mixed[6] = torch.arange(64) % 7
    mixed[7] = -torch.arange(64) // 3
    for dtype in ("fp32", "fp16", "bf16"):
        x = mixed.to(NAMES[dtype])
        for name, function, out in (
            ("max", f_max, x.dtype), ("min", f_min, x.dtype),
            ("argmax", f_argmax, torch.int32), ("argmin", f_argmin, torch.int32),
        ):  # fmt: skip
            for warps in (1, 4):
                yield Probe(f"order {name} {dtype} warps={warps}", rows(function, x, out, warps))
    for axis in (0, 1):
        yield Probe(f"order max 64x64 axis={axis}", along(f_max_along, mixed.reshape(1, 64, 64), axis, 4))
    yield Probe("order sort", lanes(f_sort, torch.nan_to_num(mixed), 4))

    x, v = floats(128, 60), floats(128, 61).roll(7)
    for dtype in ("fp32", "fp16", "bf16"):
        for op in ("add",) if dtype != "fp32" else ("add", "max", "min", "xchg"):
            yield Probe(f"atomic {op} {dtype}", atomic(x.to(NAMES[dtype]), v.to(NAMES[dtype]), op))
    small = torch.tensor([2.0**-130, 2.0**-126, -(2.0**-127), 2.0**-149, 1.0, 0.0, -0.0, 3e38])
    yield Probe("atomic add subnormal", atomic(small, small.roll(1) * 0.5, "add"))
    i, j = whole[:128], whole[128:256]
    for op in ("add", "max", "min", "and", "or", "xor", "xchg"):
        yield Probe(f"atomic {op} i32", atomic(i, j, op))
        if op not in ("and", "or", "xor"):
            yield Probe(f"atomic {op} i64", atomic(i.long() << 20, j.long() << 19, op))


# records


def bits_of(tensor: torch.Tensor) -> np.ndarray:
    """Bits as unsigned integers; every NaN is one and the same, since payloads differ between devices."""
    tensor = tensor.detach().cpu().contiguous().reshape(-1)
    bits = tensor.view(BITS[tensor.dtype.itemsize]).numpy().copy()
    if tensor.dtype.is_floating_point:
        nan = torch.isnan(tensor.float()).numpy()
        bits[nan] = -1 if bits.dtype.kind == "i" else 255
    return bits.view(f"u{bits.dtype.itemsize}")


def hashes(bits: np.ndarray) -> np.ndarray:
    parts = np.array_split(bits, PARTS)
    return np.array(
        [int.from_bytes(hashlib.sha256(part.tobytes()).digest()[:4], "little") for part in parts], np.uint32
    )


def step_of(probe: Probe, size: int) -> int:
    """Every how many elements one is recorded."""
    wanted = 1024 if probe.limit else 256
    return 1 if size <= WHOLE else -(-size // wanted)


def record(file: str, only: tuple[str, ...]) -> int:
    torch.manual_seed(0)
    arrays: dict[str, np.ndarray] = {}
    errors: dict[str, str] = {}
    start = time.time()
    count = 0
    for probe in probes():
        if only and not probe.name.startswith(only):
            continue
        count += 1
        if time.time() - start > SECONDS:
            errors[probe.name] = "no time left"
            continue
        try:
            bits = bits_of(probe.run("cuda"))
        except Exception as error:
            errors[probe.name] = f"{type(error).__name__}: {str(error)[:200]}"
            if "CUDA error" in str(error):
                break
            continue
        step = step_of(probe, len(bits))
        arrays[f"{probe.name}|some"] = bits[::step]
        if step > 1 and not probe.limit:
            arrays[f"{probe.name}|parts"] = hashes(bits)
    about = {
        "device": torch.cuda.get_device_name(), "triton": triton.__version__, "torch": torch.__version__,
        "python": platform.python_version(), "errors": errors, "seconds": round(time.time() - start),
        "probes": count,
    }  # fmt: skip
    np.savez_compressed(file, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)
    print(json.dumps(about, indent=1))
    return 0


def ordinal(bits: np.ndarray) -> np.ndarray:
    """fp32 bits as integers in the order of their values."""
    whole = bits.view(np.int32).astype(np.int64)
    return np.where(whole < 0, -(2**31) - whole, whole)


def compared(probe: Probe, got: np.ndarray, arrays: dict[str, np.ndarray]) -> str:
    """What differs, in words; empty where nothing does that should not."""
    step = step_of(probe, len(got))
    expected, some = arrays[f"{probe.name}|some"], got[::step]
    if len(expected) != len(some):
        return f"{len(some)} elements instead of {len(expected)}"
    differs = expected != some
    if not probe.limit:
        parts = arrays.get(f"{probe.name}|parts")
        wrong = int((hashes(got) != parts).sum()) if parts is not None else 0
        if not differs.any() and not wrong:
            return ""
        at = np.flatnonzero(differs)[:4]
        shown = ", ".join(f"[{i * step}] {some[i]:#x} not {expected[i]:#x}" for i in at)
        return f"{int(differs.sum())} of {len(some)} recorded differ, {wrong} of {PARTS} parts: {shown}"
    nan = np.uint32(0xFFFFFFFF)
    kinds = (expected == nan) != (some == nan)
    distance = np.abs(ordinal(expected) - ordinal(some)).astype(np.float64)
    bad = kinds | ((distance > probe.limit) & (expected != nan) & (some != nan))
    if not bad.any():
        return ""
    at = np.flatnonzero(bad)[:4]
    values = expected.view(np.float32), some.view(np.float32)
    x = probe.inputs[::step] if probe.inputs is not None else None
    shown = ", ".join(
        f"f({float(x[i]) if x is not None else i * step:.9g}) {values[1][i]:.9g} not {values[0][i]:.9g}"
        for i in at
    )
    return f"{int(bad.sum())} of {len(some)} recorded differ by more than {probe.limit:g} ulp: {shown}"


def compare(file: str, only: tuple[str, ...]) -> int:
    import harness

    with np.load(file) as stored:
        arrays = {name: stored[name] for name in stored.files}
    about = json.loads(arrays.pop("about").tobytes())
    print(f"{about['device']}, Triton {about['triton']}, {about['probes']} probes; here {triton.__version__}")
    same, different = 0, 0
    with harness.cpu(level="bitwise"):
        for probe in probes():
            if f"{probe.name}|some" not in arrays or (only and not probe.name.startswith(only)):
                continue
            try:
                text = compared(probe, bits_of(probe.run("cpu")), arrays)
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            same += not text
            different += bool(text)
            if text:
                print(f"{probe.name}: {text}")
    for name, error in about["errors"].items():
        print(f"{name}: not recorded: {error}")
    print(f"{same} agree, {different} differ, {len(about['errors'])} were not recorded")
    return int(different > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    only = tuple(part for part in options.only.split(",") if part)
    return (record if options.what == "record" else compare)(options.file, only)


if __name__ == "__main__":
    sys.exit(main())
