"""layer_norm, rms_norm, group_norm and add_rms_norm against PyTorch in float64."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from definitions import SPECIAL, answers, assert_is, assert_roundings_matter, assert_stated, row, views
from torch.nn import functional

import references
from harness import formats, search
from harness.case import Case, Recipe, Row
from harness.formats import BFLOAT16
from harness.layouts import Layout

EPS = (1e-5, 1e-3, 1e-12)


def _random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _parameters(n: int) -> list[tuple[Any, Any]]:
    weight, bias = _random(n, seed=1), _random(n, seed=2)
    return [(weight, bias), (None, bias), (weight, None), (None, None)]


@pytest.mark.parametrize("shape", [(7,), (1,), (3, 5), (2, 3, 40), (2, 1, 3, 2), (0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("eps", EPS)
def test_layer_norm_and_rms_norm(shape: tuple[int, ...], eps: float) -> None:
    for (weight, bias), offset in itertools.product(_parameters(shape[-1]), (0.0, 5.0)):
        for x in views(_random(*shape) + offset):
            arguments = {"x": x, "weight": weight, "bias": bias, "eps": eps}
            wanted = functional.layer_norm(x, shape[-1:], weight, bias, eps)
            assert_close(references.layer_norm, arguments, wanted)
            arguments = {"x": x, "weight": weight, "eps": eps}
            assert_is(references.rms_norm, arguments, functional.rms_norm(x, shape[-1:], weight, eps))


def assert_close(contract: Any, arguments: dict[str, Any], wanted: torch.Tensor) -> None:
    """Close in float64, as far as the condition of a variance without spread allows."""
    value = answers(contract, arguments, [wanted.shape])[0].value
    torch.testing.assert_close(value, wanted, rtol=1e-9, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_rows_of_special_values(length: int) -> None:
    x = torch.tensor(list(itertools.product(SPECIAL, repeat=length)), dtype=torch.float64)
    wanted = functional.layer_norm(x, x.shape[-1:], None, None, 1e-5)
    assert_close(references.layer_norm, {"x": x, "weight": None, "bias": None, "eps": 1e-5}, wanted)
    wanted = functional.rms_norm(x, x.shape[-1:], None, 1e-5)
    assert_is(references.rms_norm, {"x": x, "weight": None, "eps": 1e-5}, wanted)


@pytest.mark.parametrize("n", [4, 50])
def test_special_rows_have_their_stated_answers(n: int) -> None:
    for contract, extra in ((references.layer_norm, {"bias": None}), (references.rms_norm, {})):
        for special in contract.special:
            x = torch.tensor([row(special, n)], dtype=torch.float64)
            arguments = {"x": x, "weight": None, "eps": 1e-5, **extra}
            assert_stated(contract, special, answers(contract, arguments, [(1, n)])[0].value)


@pytest.mark.parametrize("shape", [(2, 6), (1, 6, 5), (3, 6, 2, 4), (2, 6, 0)], ids=str)
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_group_norm(shape: tuple[int, ...], groups: int) -> None:
    for weight, bias in _parameters(shape[1]):
        for x in views(_random(*shape) + 1.0):
            wanted = torch.group_norm(x, groups, weight, bias, 1e-5)
            arguments = {"x": x, "num_groups": groups, "weight": weight, "bias": bias, "eps": 1e-5}
            assert_close(references.group_norm, arguments, wanted)


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 40)], ids=str)
def test_add_rms_norm_takes_the_returned_total(shape: tuple[int, ...]) -> None:
    for weight, _ in _parameters(shape[-1]):
        x, residual = _random(*shape), _random(*shape, seed=3)
        returned = formats.round_to(x + residual, BFLOAT16)
        arguments = {
            "x": x,
            "residual": residual,
            "weight": weight,
            "eps": 1e-5,
            "given": {"total": returned},
        }
        wanted = functional.rms_norm(returned, shape[-1:], weight, 1e-5)
        assert_is(references.add_rms_norm, arguments, wanted, x + residual)


def test_roundings_matter() -> None:
    x, weight = _random(3, 40), _random(40, seed=1)
    norm = {"x": x, "weight": weight, "eps": 1e-5}
    assert_roundings_matter(references.layer_norm, {**norm, "bias": None}, x.shape)
    assert_roundings_matter(references.rms_norm, norm, x.shape)
    given = {"residual": x, "given": {"total": 2 * x}}
    assert_roundings_matter(references.add_rms_norm, {**norm, **given}, x.shape)
    assert_roundings_matter(references.group_norm, {**norm, "bias": None, "num_groups": 4}, x.shape)


def test_a_folded_group_norm_may_be_nan_of_infinite_weights_alone() -> None:
    """inf·x·scale + (bias - mean·inf·scale) is inf - inf, where inf·(x - mean)·scale is not."""

    def folded(x: Any, num_groups: int, weight: Any, bias: Any, eps: float) -> torch.Tensor:
        scale = weight / (x.var(-1, correction=0) + eps).sqrt()
        return x * scale[..., None] + (bias - x.mean(-1) * scale)[..., None]

    rows = {"x": ("0x1p+0", "0x0p+0"), "weight": ("inf",), "bias": ("0x1p+0",)}
    tensors = {
        name: Recipe("float32", Layout.contiguous(3 if name == "x" else 1), (Row("literal", values=row),))
        for name, row in rows.items()
    }
    case = Case({"N": 1, "G": 1, "Cg": 1, "*spatial": (2,)}, {"eps": 1e-5}, dict(tensors))
    claims = {"roundings": ("folded",)}
    assert search.replay(folded, references.group_norm, case, claims=claims).outcome != "FAIL"
    assert search.replay(folded, references.group_norm, case).outcome == "FAIL"
