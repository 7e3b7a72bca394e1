"""Every definition against PyTorch's function of the same name, in float64: values, shapes, special rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import references
from harness.arithmetic import Arithmetic
from harness.contracts import Contract, SpecialRow
from harness.formats import FLOAT32
from harness.numbers import read_float64

TORCH: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "sum": torch.sum,
    "mean": torch.mean,
    "prod": torch.prod,
    "amax": torch.amax,
    "amin": torch.amin,
    "softmax": torch.softmax,
    "log_softmax": torch.log_softmax,
    "logsumexp": torch.logsumexp,
}
SHAPES = [(7,), (1,), (3, 5), (1, 4), (2, 3, 4), (2, 1, 3, 2)]
EMPTY = [(0,), (0, 3), (3, 0), (2, 0, 3)]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -2.5, 700.0, -700.0]


@pytest.fixture(params=[name for name in references.__all__ if name in TORCH])
def contract(request: pytest.FixtureRequest) -> Contract:
    found: Contract = getattr(references, request.param)
    return found


def evaluate(contract: Contract, x: torch.Tensor, dim: int) -> torch.Tensor:
    """The definition's values in float64, in the shape that the contract declares."""
    shape = contract.shape(contract.outputs[0].shape, {"*shape": tuple(x.shape)}, {"dim": dim})
    model = Arithmetic().model(contract, FLOAT32)
    value: torch.Tensor = read_float64(contract.definition, {"x": x, "dim": dim}, model, [shape])[0].value
    return value


def assert_as_torch(contract: Contract, x: torch.Tensor, dim: int) -> None:
    wanted = TORCH[contract.name](x, dim)
    value = evaluate(contract, x, dim)
    assert value.shape == wanted.shape
    torch.testing.assert_close(value, wanted, rtol=1e-14, atol=1e-14, equal_nan=True)


def test_every_contract_is_compared() -> None:
    assert set(TORCH) <= set(references.__all__)
    for name in TORCH:
        assert getattr(references, name).name == name


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_random_values_in_every_axis(contract: Contract, shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    for scale, offset in ((1.0, 0.0), (30.0, 0.0), (1.0, 500.0), (1e-3, -3.0)):
        x = scale * torch.randn(shape, dtype=torch.float64, generator=generator) + offset
        for dim in range(-len(shape), len(shape)):
            assert_as_torch(contract, x, dim)


@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_empty_axes(contract: Contract, shape: tuple[int, ...]) -> None:
    """As PyTorch; an axis that the contract calls nonempty is not asked for."""
    x = torch.zeros(shape, dtype=torch.float64)
    for dim in range(-len(shape), len(shape)):
        if shape[dim] or "dim" not in contract.nonempty:
            assert_as_torch(contract, x, dim)


def test_an_axis_outside_the_tensor_is_an_error(contract: Contract) -> None:
    with pytest.raises(IndexError):
        contract.definition(_exact(torch.zeros(2, 3, dtype=torch.float64)), 2)


def _exact(x: torch.Tensor) -> Any:
    from harness.numbers.backend import Float64
    from harness.numbers.number import Reading

    return Reading(Float64(), Arithmetic().model(references.sum, FLOAT32)).exact(x)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_every_row_of_special_values(contract: Contract, length: int) -> None:
    """All rows of up to three of NaN, ±inf, ±0 and finite values, as in PyTorch."""
    x = torch.tensor(list(itertools.product(SPECIAL, repeat=length)), dtype=torch.float64)
    assert_as_torch(contract, x, -1)
    assert_as_torch(contract, x.T.contiguous(), 0)


def row(special: SpecialRow, n: int) -> list[float]:
    """The first n values of a row: the lead, then the rest again and again."""
    values = [*special.lead, *(special.rest * n)][:n]
    return [float.fromhex(v) if v.lstrip("-").startswith("0x") else float(v) for v in values]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 9, 100])
def test_special_rows_have_their_stated_answers(contract: Contract, n: int) -> None:
    """Also where the row is cut shorter than its lead."""
    assert contract.special
    for special in contract.special:
        x = torch.tensor([row(special, n)], dtype=torch.float64)
        assert_as_torch(contract, x, -1)
        if special.answer is not None:
            stated = torch.full_like(x[:, :1], float(special.answer))
            value = evaluate(contract, x, -1).reshape(1, -1)
            assert torch.equal(torch.isnan(value), torch.isnan(stated).expand_as(value)), special.name
            assert (torch.isnan(value) | (value == stated)).all(), special.name


def test_rounding_places_are_places_of_the_definition(contract: Contract) -> None:
    """Claiming each named rounding changes the allowed error of some row, and no other name does."""
    x = torch.randn(3, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    from harness.formats import BFLOAT16

    def allowed(**claims: Any) -> torch.Tensor:
        model = Arithmetic(**claims).model(contract, BFLOAT16)
        shape = contract.shape(contract.outputs[0].shape, {"*shape": (3, 40)}, {"dim": -1})
        t: torch.Tensor = read_float64(contract.definition, {"x": x, "dim": -1}, model, [shape])[0].t
        return t

    plain = allowed()
    for place in contract.roundings:
        assert (allowed(roundings=(place,)) > 10 * plain).any(), place
