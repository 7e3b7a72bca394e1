"""var, vector_norm and cumsum against PyTorch in float64."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from definitions import SPECIAL, answers, assert_is, assert_roundings_matter, assert_stated, row, views

import references
from harness.contracts import Contract

Reduction = Callable[[torch.Tensor, int], torch.Tensor]


def _variance(x: torch.Tensor, dim: int, correction: int) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "degrees of freedom is <= 0"
        return torch.var(x, dim, correction=correction)


CASES: dict[str, tuple[Contract, dict[str, Any], Reduction]] = {
    "var": (references.var, {"correction": 0}, functools.partial(_variance, correction=0)),
    "var-unbiased": (references.var, {"correction": 1}, functools.partial(_variance, correction=1)),
    "vector_norm": (references.vector_norm, {}, lambda x, dim: torch.linalg.vector_norm(x, dim=dim)),
    "cumsum": (references.cumsum, {}, torch.cumsum),
}


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> tuple[Contract, dict[str, Any], Reduction]:
    return CASES[request.param]


@pytest.mark.parametrize("shape", [(7,), (1,), (3, 5), (1, 4), (2, 3, 4), (2, 1, 3, 2), (2, 200)], ids=str)
def test_random_values_in_every_axis_of_every_view(case: Any, shape: tuple[int, ...]) -> None:
    contract, scalars, function = case
    generator = torch.Generator().manual_seed(0)
    for scale, offset in ((1.0, 0.0), (30.0, 0.0), (1e-3, -3.0)):
        for view in views(scale * torch.randn(shape, dtype=torch.float64, generator=generator) + offset):
            for dim in range(-len(shape), len(shape)):
                assert_is(contract, {"x": view, "dim": dim, **scalars}, function(view, dim))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)], ids=str)
def test_empty_axes(case: Any, shape: tuple[int, ...]) -> None:
    contract, scalars, function = case
    x = torch.zeros(shape, dtype=torch.float64)
    for dim in range(len(shape)):
        assert_is(contract, {"x": x, "dim": dim, **scalars}, function(x, dim))


@pytest.mark.parametrize("length", [1, 2, 3])
def test_every_row_of_special_values(case: Any, length: int) -> None:
    contract, scalars, function = case
    x = torch.tensor(list(itertools.product(SPECIAL, repeat=length)), dtype=torch.float64)
    assert_is(contract, {"x": x, "dim": -1, **scalars}, function(x, -1))


@pytest.mark.parametrize("n", [5, 100])
def test_special_rows_have_their_stated_answers(case: Any, n: int) -> None:
    contract, scalars, function = case
    for special in contract.special:
        x = torch.tensor([row(special, n)], dtype=torch.float64)
        wanted = function(x, 1)
        assert_is(contract, {"x": x, "dim": 1, **scalars}, wanted)
        value = answers(contract, {"x": x, "dim": 1, **scalars}, [wanted.shape])[0].value
        assert_stated(contract, special, value)


def test_roundings_matter(case: Any) -> None:
    contract, scalars, function = case
    x = torch.randn(3, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert_roundings_matter(contract, {"x": x, "dim": -1, **scalars}, function(x, -1).shape)
