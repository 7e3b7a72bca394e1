"""Wrong matrix products, and right ones that are not what they are taken for without a claim."""

from __future__ import annotations

import torch

import references
from harness.formats import TF32, round_to
from kernels import matmul_tf32 as tf32
from quality.declare import wrong
from quality.products import one_tile, short_accumulator

EIGHT = ("float8_e4m3fn", "float8_e5m2")
TF32_CLAIM = "right if claims={'dot': 'tf32'}"


@wrong(references.matmul, "accuracy", bug="B56", smallest=2, formats=("float32",), claim=TF32_CLAIM)
def matmul_one_operand_in_tf32(a, b):
    """One of two float32 operands is rounded to 11 bits, to nearest."""
    return (round_to(a.double(), TF32) @ b.double()).to(a.dtype)


@wrong(references.matmul, "accuracy", bug="C01", smallest=2, formats=("float32",), claim=TF32_CLAIM)
def matmul_in_tf32(a, b):
    """A TF32 dot without the claim."""
    return tf32.matmul_tf32(a, b)


@wrong(references.matmul, "accuracy", bug="C02", smallest=2, formats=("float32",), claim=TF32_CLAIM)
def matmul_of_the_default_precision(a, b):
    """tl.dot without input_precision: TF32 of float32 operands on NVIDIA."""
    return one_tile(a, b)


@wrong(references.matmul, "accuracy", smallest=8, formats=EIGHT, claim="right if claims={'dot': 'fp8'}")
def matmul_of_fp8_in_13_bits(a, b):
    """The fp8 accumulator of Hopper's tensor cores without the claim."""
    return short_accumulator(a, b)


@wrong(
    references.matmul,
    "accuracy",
    bug="C17",
    formats=("float16", "bfloat16"),
    claim="right if claims={'roundings': ('partials',)}",
)
def matmul_with_rounded_partials(a, b):
    """Split-K: two partial products are stored in the input's format before they are added."""
    half = a.shape[1] // 2
    parts = [(a[:, k].float() @ b[k].float()).to(a.dtype) for k in (slice(half), slice(half, None))]
    return parts[0] + parts[1]


@wrong(references.matmul, "written", smallest=None)
def matmul_on_a_grid_of_a_sum(a, b):
    """Tiles of 128 x 128, one program for each row and column of tiles: right while there is one of either."""
    rows, columns = -(-a.shape[0] // 128), -(-b.shape[1] // 128)
    product = (a.double() @ b.double()).to(a.dtype)
    out = torch.empty_like(product)
    for program in range(rows + columns - 1 if rows and columns else 0):
        m, n = program // columns * 128, program % columns * 128
        out[m : m + 128, n : n + 128] = product[m : m + 128, n : n + 128]
    return out


@wrong(references.matmul, "accuracy", "special values", smallest=None)
def matmul_of_a_long_k_in_eighths(a, b):
    """K beyond 8192 is split into eight parts of K // 8: what is left over is lost."""
    k = a.shape[1]
    kept = k // 8 * 8 if k > 8192 else k
    return (a[:, :kept].double() @ b[:kept].double()).to(a.dtype)


@wrong(references.matmul, "accuracy", smallest=None, formats=("int8",))
def matmul_of_int8_in_float32(a, b):
    """A float32 accumulator, which holds every sum of 1040 products of int8 and no more."""
    return (a.float() @ b.float()).to(torch.int32)


@wrong(references.addmm, "special values", bug="B54", smallest=1)
def addmm_tail_tiles_read_c(c, a, b, beta, alpha):
    """Full tiles leave c alone where beta is 0, the tiles at the edge multiply it: 0·NaN."""
    scaled = beta * c.double()
    if beta == 0:
        scaled[: c.shape[0] // 16 * 16, : c.shape[1] // 16 * 16] = 0.0
    return (alpha * (a.double() @ b.double()) + scaled).to(c.dtype)


@wrong(references.addmm, "accuracy", "special values", "layout", smallest=None)
def addmm_takes_a_bias_along_the_rows(c, a, b, beta, alpha):
    """An expanded c is taken for a bias of the rows wherever its length would fit."""
    if c.shape[0] == c.shape[1] and c.stride(0) == 0:
        c = c.mT
    product = alpha * (a.double() @ b.double())
    return (product if beta == 0 else product + beta * c.double()).to(c.dtype)


@wrong(references.linear, "accuracy", bug="U06", smallest=2)
def linear_adds_the_bias_on_every_rank(x, weight, bias, activation):
    """A row-parallel layer of two ranks, each of which adds the bias before their results are added."""
    half, total = x.shape[-1] // 2, 0.0
    for columns in (slice(half), slice(half, None)):
        part = x[..., columns].double() @ weight[:, columns].double().T
        total = total + (part if bias is None else part + bias.double())
    apply = {
        None: lambda z: z,
        "relu": torch.relu,
        "gelu": torch.nn.functional.gelu,
        "silu": torch.nn.functional.silu,
    }
    return apply[activation](total).to(x.dtype)
