"""argmax and argmin against PyTorch in float64."""

from __future__ import annotations

import itertools

import pytest
import torch
from definitions import SPECIAL, answers, assert_is, assert_stated, row, views

import references
from harness.contracts import Contract

TORCH = {"argmax": torch.argmax, "argmin": torch.argmin}


@pytest.fixture(params=list(TORCH))
def contract(request: pytest.FixtureRequest) -> Contract:
    found: Contract = getattr(references, request.param)
    return found


@pytest.mark.parametrize("shape", [(7,), (1,), (3, 5), (2, 3, 4), (2, 1, 3, 2)], ids=str)
def test_random_values_and_ties_in_every_axis_of_every_view(
    contract: Contract, shape: tuple[int, ...]
) -> None:
    generator = torch.Generator().manual_seed(0)
    for whole in (True, False):
        x = torch.randn(shape, dtype=torch.float64, generator=generator)
        for view in views(torch.round(x) if whole else x):
            for dim in range(-len(shape), len(shape)):
                assert_is(contract, {"x": view, "dim": dim}, TORCH[contract.name](view, dim))


@pytest.mark.parametrize("length", [1, 2, 3])
def test_every_row_of_special_values(contract: Contract, length: int) -> None:
    x = torch.tensor(list(itertools.product(SPECIAL, repeat=length)), dtype=torch.float64)
    assert_is(contract, {"x": x, "dim": -1}, TORCH[contract.name](x, -1))


@pytest.mark.parametrize("n", [5, 9, 100])
def test_special_rows_have_their_stated_answers(contract: Contract, n: int) -> None:
    for special in contract.special:
        x = torch.tensor([row(special, n)], dtype=torch.float64)
        assert_is(contract, {"x": x, "dim": 1}, TORCH[contract.name](x, 1))
        assert_stated(contract, special, answers(contract, {"x": x, "dim": 1}, [(1,)])[0].value)
