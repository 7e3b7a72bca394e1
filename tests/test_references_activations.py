"""gelu, silu, swiglu, softcap and rope against PyTorch, or formulas in PyTorch, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from definitions import SPECIAL, answers, assert_is, assert_roundings_matter, assert_stated, row, views
from torch.nn import functional

import references
from harness.contracts import Contract

CASES: dict[str, tuple[Contract, dict[str, Any], Any]] = {
    "gelu": (references.gelu, {"approximate": "none"}, functional.gelu),
    "gelu-tanh": (
        references.gelu,
        {"approximate": "tanh"},
        lambda x: functional.gelu(x, approximate="tanh"),
    ),
    "silu": (references.silu, {}, functional.silu),
    "softcap-30": (references.softcap, {"cap": 30.0}, lambda x: 30.0 * torch.tanh(x / 30.0)),
    "softcap-0.3": (references.softcap, {"cap": 0.3}, lambda x: 0.3 * torch.tanh(x / 0.3)),
}


@pytest.mark.parametrize("name", list(CASES))
def test_activations_of_random_and_special_values(name: str) -> None:
    contract, scalars, function = CASES[name]
    generator = torch.Generator().manual_seed(0)
    for scale in (1.0, 1e-3, 5.0, 40.0):
        for view in views(scale * torch.randn(3, 50, dtype=torch.float64, generator=generator)):
            assert_is(contract, {"x": view, **scalars}, function(view))
    x = torch.tensor(SPECIAL, dtype=torch.float64)
    assert_is(contract, {"x": x, **scalars}, function(x))


@pytest.mark.parametrize("name", list(CASES))
def test_special_rows_have_their_stated_answers(name: str) -> None:
    contract, scalars, _ = CASES[name]
    for special in contract.special:
        x = torch.tensor([row(special, 3)], dtype=torch.float64)
        assert_stated(contract, special, answers(contract, {"x": x, **scalars}, [(1, 3)])[0].value)


@pytest.mark.parametrize("name", list(CASES))
def test_roundings_matter(name: str) -> None:
    contract, scalars, _ = CASES[name]
    assert_roundings_matter(contract, {"x": torch.randn(50, dtype=torch.float64), **scalars}, (50,))


def test_swiglu() -> None:
    generator = torch.Generator().manual_seed(0)
    gate, up = (8 * torch.randn(4, 30, dtype=torch.float64, generator=generator) for _ in range(2))
    for first, second in zip(views(gate), views(up), strict=True):
        assert_is(references.swiglu, {"gate": first, "up": second}, functional.silu(gate) * up)
    special = torch.tensor(SPECIAL, dtype=torch.float64)
    gate, up = torch.meshgrid(special, special, indexing="ij")
    assert_is(references.swiglu, {"gate": gate, "up": up}, functional.silu(gate) * up)
    assert_roundings_matter(references.swiglu, {"gate": gate + 0.1, "up": up + 0.1}, gate.shape)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """Every pair as a complex number, times cos + i sin."""
    half = x.shape[-1] // 2
    if interleaved:
        pairs = torch.view_as_complex(x.contiguous().unflatten(-1, (half, 2)))
        return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)
    turned = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous()) * torch.complex(cos, sin)
    return torch.cat((turned.real, turned.imag), -1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 5, 8), (1, 1, 1, 2), (2, 2, 7, 6)], ids=str)
def test_rope_multiplies_complex_numbers(shape: tuple[int, ...], interleaved: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64, generator=generator)
    angle = 1000 * torch.randn(shape[2], shape[3] // 2, dtype=torch.float64, generator=generator)
    cos, sin = angle.cos().contiguous(), angle.sin().contiguous()
    wanted = _rotated(x, cos, sin, interleaved)
    for view in views(x):
        arguments = {"x": view, "cos": cos, "sin": sin, "interleaved": interleaved}
        assert_is(references.rope, arguments, wanted)
    assert_roundings_matter(references.rope, arguments, shape)


def test_rope_turns_the_first_axis_into_the_second_of_its_pair() -> None:
    x = torch.zeros(1, 1, 1, 8, dtype=torch.float64)
    x[..., 0] = 1.0
    cos, sin = torch.zeros(1, 4, dtype=torch.float64), torch.ones(1, 4, dtype=torch.float64)
    for interleaved, place in ((True, 1), (False, 4)):
        arguments = {"x": x, "cos": cos, "sin": sin, "interleaved": interleaved}
        value = answers(references.rope, arguments, [x.shape])[0].value
        assert value.nonzero().tolist() == [[0, 0, 0, place]]
