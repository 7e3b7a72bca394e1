"""The level `bitwise`: dots and contractions as measured on an H200 (Triton 3.6.0)."""

from __future__ import annotations

import itertools

import pytest
import torch
import triton
import triton.language as tl

from harness.executors import execute
from harness.executors.profile import PROFILES


@triton.jit
def product(a, b, c, M: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr, IMPRECISE: tl.constexpr):
    rows, columns, inner = tl.arange(0, M)[:, None], tl.arange(0, 16)[None, :], tl.arange(0, K)
    x, y = tl.load(a + rows * K + inner[None, :]), tl.load(b + inner[:, None] * 16 + columns)
    result = tl.dot(x, y, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE)
    tl.store(c + rows * 16 + columns, result)


def dot(a, b, precision="ieee", imprecise=None, level="bitwise"):
    def launch(a, b):
        c = torch.empty(len(a), 16)
        product[(1,)](a, b, c, M=len(a), K=a.shape[1], PRECISION=precision, IMPRECISE=imprecise)
        return c

    execution = execute(launch, (a, b), timeout=30, level=level)
    assert execution.outcome == "returned", execution.where()
    return execution.value


def least_lost(dtype, precision="ieee", imprecise=None, rows=16):
    """Smallest k of which [1, 2**-k, −1] does not give exactly 2**-k in every placement."""
    for k in range(1, 40):
        for order in itertools.permutations((0, 2, 5)):
            a, b = torch.zeros(rows, 32), torch.ones(32, 16)
            # The small product is one of two factors, since fp8 reaches no further than 2**-9.
            a[0, order[0]], a[0, order[1]], a[0, order[2]] = 1, 2.0 ** -(k // 2), -1
            b[order[1]] = 2.0 ** -(k - k // 2)
            if dot(a.to(dtype), b.to(dtype), precision, imprecise)[0, 0] != 2.0**-k:
                return k
    return None


@pytest.mark.parametrize(
    ("dtype", "precision", "imprecise", "rows", "k"),
    [
        (torch.float16, "ieee", None, 16, 26),
        (torch.bfloat16, "ieee", None, 16, 26),
        (torch.float32, "tf32", None, 16, 26),
        (torch.float8_e5m2, "ieee", None, 64, 14),
        (torch.float8_e4m3fn, "ieee", None, 64, 14),
        (torch.float8_e4m3fn, "ieee", 32, 64, 14),
        # One warp's instruction widens fp8 to fp16 and adds it in two halves; between them the sum is fp32.
        (torch.float8_e5m2, "ieee", None, 16, 24),
    ],
    ids=str,
)
def test_bits_of_the_accumulator(dtype, precision, imprecise, rows, k):
    assert least_lost(dtype, precision, imprecise, rows) == k


def leaves(dtype, large, precision="ieee", K=32):
    """Leaves below the common ancestor of products 0 and j, for each j (FPRev)."""
    found = []
    for j in range(1, K):
        a, b = torch.ones(16, K), torch.ones(K, 16)
        a[0, 0], a[0, j] = large, -large
        b[0], b[j] = large, large
        found.append(K - int(dot(a.to(dtype), b.to(dtype), precision)[0, 0]))
    return found


def test_order_of_the_additions():
    assert leaves(torch.float16, 2.0**15) == [16] * 15 + [32] * 16
    assert leaves(torch.float32, 2.0**15, "tf32") == [8] * 7 + [16] * 8 + [24] * 8 + [32] * 8
    assert leaves(torch.float32, 2.0**15) == list(range(2, 33))
    assert leaves(torch.float32, 2.0**15, "tf32x3") == leaves(torch.float32, 2.0**15, "tf32")
    paired = [16 if j % 4 < 2 else 32 for j in range(1, 32)]
    assert leaves(torch.float8_e5m2, 2.0**13) == paired


def test_small_integers_are_exact_at_either_level():
    generator = torch.Generator().manual_seed(0)
    a = torch.randint(-4, 5, (16, 64), generator=generator).float()
    b = torch.randint(-4, 5, (64, 16), generator=generator).float()
    for level, dtype in itertools.product(PROFILES, (torch.float16, torch.float32)):
        assert torch.equal(dot(a.to(dtype), b.to(dtype), "tf32", level=level), a @ b)
    a[3, 3] = float("inf")
    assert torch.equal(dot(a, b, "tf32").isfinite(), (a @ b).isfinite())
    assert torch.equal(dot(torch.zeros(16, 32), torch.zeros(32, 16), "tf32"), torch.zeros(16, 16))


@triton.jit
def fused(x, y, z, out, FORM: tl.constexpr):
    a, b, c = tl.load(x), tl.load(y), tl.load(z)
    if FORM == "a*b+c":
        result = a * b + c
    elif FORM == "c+a*b":
        result = c + a * b
    elif FORM == "a*b-c":
        result = a * b - c
    else:
        result = c - a * b
    tl.store(out, result)


@pytest.mark.parametrize(("form", "sign"), [("a*b+c", 1), ("c+a*b", 1), ("a*b-c", 1), ("c-a*b", -1)], ids=str)
def test_a_product_and_a_sum_are_one_fma(form, sign):
    a = 1 + 2.0**-12
    c = -(1 + 2.0**-11) if "+" in form else 1 + 2.0**-11
    for level, expected in (("fast", 0.0), ("bitwise", sign * 2.0**-24)):

        def launch(c, form=form):
            out = torch.empty(1)
            fused[(1,)](torch.full((1,), a), torch.full((1,), a), torch.full((1,), c), out, FORM=form)
            return out

        execution = execute(launch, (c,), level=level)
        assert execution.value.item() == expected, execution.where()


@triton.jit
def exponential(x, y):
    tl.store(y + tl.arange(0, 64), tl.exp(tl.load(x + tl.arange(0, 64))))


def test_exp_is_exp2_of_a_rounded_product():
    x = torch.linspace(-87, 88, 64)

    def launch(x):
        y = torch.empty_like(x)
        exponential[(1,)](x, y)
        return y

    got = execute(launch, (x,)).value.double()
    exact = x.double().exp()
    units = (got / exact - 1).abs() * 2.0**24
    assert (units <= 6 + 1.23 * x.abs()).all() and float(units.max()) > 16


def test_profiles_name_device_triton_and_level():
    assert [profile.name for profile in PROFILES.values()] == [
        f"H200, Triton {triton.__version__}, {level}" for level in ("fast", "bitwise")
    ]
