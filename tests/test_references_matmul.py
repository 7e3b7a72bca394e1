"""matmul, bmm, addmm and linear against PyTorch in float64: values, empty sums, special values, dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from definitions import answers

import harness
import references
from harness import oracle, search
from harness.arithmetic import Arithmetic
from harness.case import Case, Recipe, Row
from harness.contracts import Contract
from harness.formats import FLOAT32
from harness.layouts import Layout
from harness.numbers import read_float64

SIZES = [(3, 4, 5), (1, 1, 1), (2, 3, 0), (0, 3, 2), (16, 17, 33)]
ACTIVATIONS: dict[str | None, Callable[[torch.Tensor], torch.Tensor]] = {
    None: lambda z: z,
    "gelu": F.gelu,
    "silu": F.silu,
    "relu": torch.relu,
}


def value(contract: Contract, shape: tuple[int, ...], **arguments: Any) -> torch.Tensor:
    model = Arithmetic().model(contract, FLOAT32)
    found: torch.Tensor = read_float64(contract.definition, arguments, model, [shape])[0].value
    return found


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape)))


def close(got: torch.Tensor, wanted: torch.Tensor) -> None:
    assert got.shape == wanted.shape
    torch.testing.assert_close(got, wanted, rtol=1e-13, atol=1e-13, equal_nan=True)


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_products(m: int, n: int, k: int) -> None:
    a, b = numbers(m, k), numbers(k, n, seed=1)
    close(value(references.matmul, (m, n), a=a, b=b), a @ b)
    a, b = numbers(2, m, k), numbers(2, k, n, seed=1)
    close(value(references.bmm, (2, m, n), a=a, b=b), torch.bmm(a, b))


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("beta", [0.0, 1.0, 0.1])
@pytest.mark.parametrize("alpha", [1.0, -2.0])
def test_addmm(m: int, n: int, k: int, beta: float, alpha: float) -> None:
    a, b, c = numbers(m, k), numbers(k, n, seed=1), numbers(m, n, seed=2)
    found = value(references.addmm, (m, n), c=c, a=a, b=b, beta=beta, alpha=alpha)
    close(found, torch.addmm(c, a, b, beta=beta, alpha=alpha))


def test_addmm_without_a_summand_may_scale_a_first() -> None:
    """(alpha·a) @ b overflows to inf - inf where alpha·(a @ b) does not, whatever beta is."""

    def alpha_first(c: Any, a: Any, b: Any, beta: float, alpha: float) -> torch.Tensor:
        return (alpha * a) @ b + (beta * c if beta else 0)

    values = {"c": ("0x0p+0",), "a": ("0x1p+0", "-0x1p+0"), "b": ("0x1p+127", "0x1.8p+127")}
    contiguous = Layout.contiguous(2)
    tensors = {
        name: Recipe("float32", contiguous, (Row("literal", values=row),)) for name, row in values.items()
    }
    for beta in (0.0, 1.0):
        case = Case({"M": 1, "N": 1, "K": 2}, {"beta": beta, "alpha": -2.0}, dict(tensors))
        assert search.replay(alpha_first, references.addmm, case).outcome != "FAIL"


def test_addmm_ignores_c_where_beta_is_0() -> None:
    a, b = numbers(2, 3), numbers(3, 2)
    for held in (math.nan, math.inf):
        c = torch.full((2, 2), held, dtype=torch.float64)
        close(value(references.addmm, (2, 2), c=c, a=a, b=b, beta=0.0, alpha=1.0), a @ b)
        assert not torch.isfinite(value(references.addmm, (2, 2), c=c, a=a, b=b, beta=0.1, alpha=1.0)).any()


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5), (5,), (3, 0)], ids=str)
def test_linear(shape: tuple[int, ...], activation: str | None) -> None:
    x, weight, bias = 3 * numbers(*shape), numbers(4, shape[-1], seed=1), numbers(4, seed=2)
    for given in (bias, None):
        arguments = {"x": x, "weight": weight, "bias": given, "activation": activation}
        found = value(references.linear, (*shape[:-1], 4), **arguments)
        close(found, ACTIVATIONS[activation](F.linear(x, weight, given)))


@pytest.mark.parametrize("held", [math.nan, math.inf, -math.inf])
def test_special_values(held: float) -> None:
    a, b = numbers(3, 4), numbers(4, 2, seed=1)
    a[1, 2] = held
    close(value(references.matmul, (3, 2), a=a, b=b), a @ b)
    a[1, 3] = -held
    close(value(references.matmul, (3, 2), a=a, b=b.abs()), a @ b.abs())


def product(fmt: str) -> Case:
    recipe = Recipe(fmt, Layout.contiguous(2), (Row("whole-small" if fmt == "int8" else "positive"),))
    return Case({"M": 2, "N": 3, "K": 4}, {}, {"a": recipe, "b": recipe})


@pytest.mark.parametrize(
    ("fmt", "result"),
    [("int8", "int32"), ("float8_e4m3fn", "float32"), ("float8_e5m2", "float32"), ("float16", "float16")],
)
def test_result_dtypes(fmt: str, result: str) -> None:
    assert oracle.output_dtypes(references.matmul, product(fmt)) == [(result,)]
    assert oracle.dtype_under_test(references.matmul, product(fmt)) == fmt


def wide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dtype == torch.int8:
        return a.to(torch.int32) @ b.to(torch.int32)
    return a.float() @ b.float()


def test_int8_and_fp8_products_are_judged() -> None:
    dtypes = ("int8", "float8_e4m3fn", "float8_e5m2")
    verdict = harness.check(wide, references.matmul, dtypes, examples=60)
    assert verdict.ok, str(verdict)
    assert set(verdict.tallies) == set(dtypes)
    assert verdict.tallies["int8"].largest_ratio == 0


def test_an_int8_product_through_float16_is_wrong() -> None:
    def narrow(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return wide(a, b).clamp(-65504, 65504).to(torch.float16).to(torch.int32)

    verdict = harness.check(narrow, references.matmul, "int8", examples=200)
    assert verdict.outcome == "FAIL"
    assert {found.format for found in verdict.findings} == {"int8"}


def truncated(x: torch.Tensor) -> torch.Tensor:
    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def test_tf32_is_the_claim_that_is_missing() -> None:
    def tf32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return truncated(a) @ truncated(b)

    verdict = harness.check(tf32, references.matmul, "float32", examples=60)
    assert str(verdict).startswith("right if claims={'dot': 'tf32'}"), str(verdict)
    assert harness.check(tf32, references.matmul, "float32", claims={"dot": "tf32"}, examples=60).ok


def test_partials_in_the_inputs_format_are_a_claim() -> None:
    def split(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        middle = a.shape[1] // 2
        parts = [a[:, :middle].float() @ b[:middle].float(), a[:, middle:].float() @ b[middle:].float()]
        return (parts[0].to(a.dtype).float() + parts[1].to(a.dtype).float()).to(a.dtype)

    verdict = harness.check(split, references.matmul, "bfloat16", examples=60)
    assert str(verdict).startswith("right if claims={'roundings': ('partials',)}"), str(verdict)


@pytest.mark.parametrize(
    "claims", [{}, {"flush": "all"}, {"dot": "tf32"}, {"roundings": ("partials",)}], ids=str
)
def test_a_vector_is_judged_as_a_row(claims: dict[str, Any]) -> None:
    x, weight, bias = torch.tensor([[1.5, 1e-40]]), torch.tensor([[2.0, 1e-3]]), torch.tensor([1e-39])
    arguments = {"weight": weight.double(), "bias": bias.double(), "activation": None}
    (row,) = answers(references.linear, {"x": x.double(), **arguments}, [(1, 1)], **claims)
    (vector,) = answers(references.linear, {"x": x[0].double(), **arguments}, [(1,)], **claims)
    assert vector.t.item() == row.t.item() > 0
    assert vector.value.item() == row.value.item()
