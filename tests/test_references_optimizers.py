"""adam, sgd and unscale against torch.optim and torch in float64."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from definitions import SPECIAL, answers, assert_is

import references
from harness.arithmetic import Arithmetic
from harness.formats import FLOAT32
from harness.numbers import read_float64

STEPS = 6


def _numbers(seed: int, scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1.0, 1e-8, 0.0])
@pytest.mark.parametrize(("beta1", "beta2", "eps"), [(0.9, 0.999, 1e-8), (0.5, 0.95, 1e-3)])
def test_adam(
    decoupled: bool, weight_decay: float, scale: float, beta1: float, beta2: float, eps: float
) -> None:
    flags = {"lr": 0.1, "eps": eps, "weight_decay": weight_decay}
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    param = _numbers(0).requires_grad_()
    optimizer = kind([param], betas=(beta1, beta2), **flags)
    m, v = torch.zeros_like(param), torch.zeros_like(param)
    for step in range(1, STEPS):
        before = {"param": param.detach().clone(), "exp_avg": m, "exp_avg_sq": v}
        param.grad = _numbers(step, scale)
        grad = param.grad.clone()
        optimizer.step()
        m, v = (optimizer.state[param][name].clone() for name in ("exp_avg", "exp_avg_sq"))
        arguments = before | flags | {"grad": grad, "step": step, "beta1": beta1, "beta2": beta2}
        assert_is(references.adam, arguments | {"decoupled": decoupled}, param.detach(), m, v)


@pytest.mark.parametrize(
    ("momentum", "dampening", "nesterov"), [(0.9, 0.0, False), (0.9, 0.3, False), (0.5, 0.0, True)]
)
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_sgd(momentum: float, dampening: float, nesterov: bool, weight_decay: float) -> None:
    flags: dict[str, Any] = {"lr": 0.1, "momentum": momentum, "dampening": dampening, "nesterov": nesterov}
    param = _numbers(0).requires_grad_()
    optimizer = torch.optim.SGD([param], weight_decay=weight_decay, **flags)
    buffer = torch.full_like(param, math.nan)
    for step in range(1, STEPS):
        before = {"param": param.detach().clone(), "momentum_buffer": buffer}
        param.grad = _numbers(step)
        grad = param.grad.clone()
        optimizer.step()
        buffer = optimizer.state[param]["momentum_buffer"].clone()
        arguments = before | flags | {"grad": grad, "step": step, "weight_decay": weight_decay}
        assert_is(references.sgd, arguments, param.detach(), buffer)


def test_nesterov_with_dampening() -> None:
    """torch.optim.SGD refuses it, so by hand: b = 0.5·2 + 0.7·3 = 3.1, and the step is 3 + 0.5·3.1."""
    tensors = {"param": 1.0, "grad": 3.0, "momentum_buffer": 2.0}
    arguments: dict[str, Any] = {k: torch.tensor([v], dtype=torch.float64) for k, v in tensors.items()}
    arguments |= {
        "step": 2,
        "lr": 0.1,
        "momentum": 0.5,
        "dampening": 0.3,
        "nesterov": True,
        "weight_decay": 0.0,
    }
    wanted = (torch.tensor([value]) for value in (1 - 0.1 * 4.55, 3.1))
    for answer, value in zip(answers(references.sgd, arguments, [(1,), (1,)]), wanted, strict=True):
        torch.testing.assert_close(answer.value, value.to(torch.float64), rtol=1e-7, atol=0)


def _unscaled(grads: list[torch.Tensor], scale: float) -> list[torch.Tensor]:
    contract = references.unscale.at({"count": len(grads)})
    results = [grad / scale for grad in grads]
    shapes = [tuple(grad.shape) for grad in grads]
    model = Arithmetic().model(contract, FLOAT32)
    arguments = {"grads": grads, "scale": scale, "given": {"grads": results}}
    found = read_float64(references.unscale.definition, arguments, model, [*shapes, ()])
    return [answer.value for answer in found]


@pytest.mark.parametrize("scale", [3.0, 2.0**-20])
def test_unscale(scale: float) -> None:
    for values in itertools.product(SPECIAL, repeat=2):
        grads = [torch.tensor([v], dtype=torch.float64) for v in values]
        *results, found = _unscaled([*grads, torch.zeros(0, 3, dtype=torch.float64)], scale)
        for grad, result in zip(grads, results, strict=False):
            torch.testing.assert_close(result, grad / scale, equal_nan=True)
        assert bool(found) == (not all(math.isfinite(v) for v in values))
