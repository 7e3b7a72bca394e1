"""What a wrong answer looks like: mistakes are named from the contract's declaration, and only where they explain all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import harness
import references
from harness.contracts import Contract

Kernel = Callable[..., torch.Tensor]

NARROW, TRUNCATED = torch.float16, torch.bfloat16
"""Dtypes of the kernels that are wrong: no answer here is one of theirs."""


def rowwise(of_rows: Callable[[torch.Tensor], torch.Tensor], keepdim: bool = False) -> Kernel:
    """A kernel of (x, dim) from what it does with float32 rows, which are last."""

    def kernel(x: torch.Tensor, dim: int) -> torch.Tensor:
        found = of_rows(x.float().movedim(dim, -1))
        return (found.movedim(-1, dim) if keepdim else found).to(x.dtype)

    return kernel


def padded_softmax(rows: torch.Tensor) -> torch.Tensor:
    n = rows.shape[-1]
    block = 1 << max(n - 1, 0).bit_length()
    return torch.softmax(torch.nn.functional.pad(rows, (0, block - n)), -1)[..., :n]


def layer_norm(x: Any, weight: Any, bias: Any, eps: float, *, drop: str) -> torch.Tensor:
    given = {"weight": weight, "bias": bias, "eps": eps} | {drop: 0.0 if drop == "eps" else None}
    w, b = (None if given[name] is None else given[name].float() for name in ("weight", "bias"))
    return torch.nn.functional.layer_norm(x.float(), x.shape[-1:], w, b, given["eps"]).to(x.dtype)


def without(drop: str) -> Kernel:
    return lambda x, weight, bias, eps: layer_norm(x, weight, bias, eps, drop=drop)


def as_contiguous(a: torch.Tensor) -> torch.Tensor:
    """A matrix read as if its strides were those of a contiguous one."""
    return torch.as_strided(a, a.shape, torch.empty(a.shape, device="meta").stride(), a.storage_offset())


def truncating_sum(x: torch.Tensor, dim: int) -> torch.Tensor:
    bits = x.float().sum(dim).view(torch.int32) & ~0xFFFF
    return bits.view(torch.float32).to(TRUNCATED)


def transposing_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    product = (a.float() @ b.float()).to(a.dtype)
    return product.T.contiguous() if product.shape[0] == product.shape[1] else product


def half_up_sum(x: torch.Tensor, dim: int) -> torch.Tensor:
    """bfloat16 by adding half an ulp to the bits of float32, and cutting them off."""
    exact = x.double().sum(dim).float()
    bits = (exact.view(torch.int32) + 0x8000) & -0x10000
    return torch.where(exact.isfinite(), bits.view(torch.float32), exact).to(x.dtype)


def flushing_silu(x: torch.Tensor) -> torch.Tensor:
    y = (x.double() * torch.sigmoid(x.double())).to(x.dtype)
    return torch.where(y.abs() < torch.finfo(x.dtype).tiny, torch.zeros_like(y), y)


EXPLAINED: dict[str, tuple[Kernel, Contract, str, str]] = {
    "padding": (
        rowwise(padded_softmax, keepdim=True),
        references.softmax,
        "float32",
        "x were filled up with 0 along dim to a power of two",
    ),
    "last element": (
        rowwise(lambda rows: rows[..., :-1].sum(-1)),
        references.sum,
        "float32",
        "the last element of x along dim were 0",
    ),
    "last block": (
        rowwise(lambda rows: rows[..., : rows.shape[-1] // 16 * 16].sum(-1)),
        references.sum,
        "float16",
        "the elements of x along dim beyond a whole multiple of 16 were 0",
    ),
    "maximum from 0": (
        rowwise(lambda rows: rows.amax(-1).clamp(min=0.0)),
        references.amax,
        "float32",
        "x had one 0 more along dim",
    ),
    "NaN ignored": (
        rowwise(lambda rows: torch.where(rows.isnan(), -torch.inf, rows).amax(-1)),
        references.amax,
        "bfloat16",
        "NaN in x were -inf",
    ),
    "narrow load": (
        rowwise(lambda rows: rows.to(NARROW).float().mean(-1)),
        references.mean,
        "float32",
        "x were rounded to float16 first",
    ),
    "axis ignored": (
        lambda x, dim: torch.softmax(x.float(), -1).to(x.dtype),
        references.softmax,
        "float32",
        "dim were the last axis",
    ),
    "negative axes": (
        lambda x, dim: torch.softmax(x.double(), dim + 1 if dim < -1 else dim).to(x.dtype),
        references.softmax,
        "float32",
        "dim were one more",
    ),
    "truncation": (truncating_sum, references.sum, "bfloat16", "out were rounded toward zero"),
    "ties": (half_up_sum, references.sum, "bfloat16", "out were rounded to nearest, ties away from zero"),
    "flushed": (
        flushing_silu,
        references.silu,
        "float16",
        "out were 0 below the least normal number of its format",
    ),
    "no eps": (without("eps"), references.layer_norm, "float32", "eps were 0.0"),
    "no bias": (without("bias"), references.layer_norm, "float32", "bias were left out"),
    "correction": (
        lambda x, dim, correction: x.float().var(dim, correction=0).to(x.dtype),
        references.var,
        "float32",
        "correction were 0",
    ),
    "transposed store": (transposing_matmul, references.matmul, "float32", "out were transposed"),
    "strides ignored": (
        lambda a, b: (as_contiguous(a).float() @ b.float()).to(a.dtype),
        references.matmul,
        "float32",
        "a were contiguous, whatever its strides",
    ),
}


def explanations(kernel: Kernel, contract: Contract, dtype: str) -> set[str]:
    verdict = harness.check(kernel, contract, dtype, examples=200)
    assert verdict.outcome == "FAIL"
    return {finding.explanation for finding in verdict.findings}


@pytest.mark.parametrize("mistake", EXPLAINED)
def test_a_mistake_is_named(mistake: str) -> None:
    kernel, contract, dtype, words = EXPLAINED[mistake]
    assert explanations(kernel, contract, dtype) == {f"as if {words}"}


def dropping_the_last_of_long_rows(rows: torch.Tensor) -> torch.Tensor:
    return rows[..., :-1].sum(-1) if rows.shape[-1] > 20 else rows.sum(-1)


def test_a_mistake_that_only_some_inputs_show_is_named() -> None:
    found = explanations(rowwise(dropping_the_last_of_long_rows), references.sum, "float32")
    assert found == {"as if the last element of x along dim were 0"}


UNEXPLAINED: dict[str, Kernel] = {
    "a factor": rowwise(lambda rows: rows.sum(-1) * 1.01),
    "two mistakes": rowwise(
        lambda rows: rows[..., 1:].sum(-1) if rows.shape[-1] > 20 else rows[..., :-1].sum(-1)
    ),
    "NaN everywhere": rowwise(lambda rows: rows.sum(-1) * torch.nan),
}


@pytest.mark.parametrize("mistake", UNEXPLAINED)
def test_what_no_mistake_explains_is_left_unnamed(mistake: str) -> None:
    assert explanations(UNEXPLAINED[mistake], references.sum, "float32") == {""}


def test_strides_of_another_tensor_are_named() -> None:
    @harness.contract(args={"p": "N M", "q": "N M"}, returns="N M", rows="N M")
    def added(p: Any, q: Any) -> Any:
        return p + q

    def kernel(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        like_p = torch.as_strided(q, q.shape, p.stride(), q.storage_offset())
        return (p.double() + like_p.double()).to(p.dtype)

    assert explanations(kernel, added, "float32") == {"as if q had the strides of p"}


def test_a_contract_of_ones_own_has_suspects_of_its_declaration() -> None:
    """Whatever its arguments are called: a shift that is left out, of two tensors exchanged."""
    from harness.numbers import sum

    @harness.contract(
        args={"p": "N M", "q": "N M", "gain": (0.5, 2.0), "offset": harness.Tensor("N", optional=True)},
        returns="N",
        rows="N",
    )
    def weighed(p: Any, q: Any, gain: float, offset: Any) -> Any:
        found = sum(p * gain - q, 1)
        return found if offset is None else found + harness.numbers.unsqueeze(offset, 1)

    def kernel(p: torch.Tensor, q: torch.Tensor, gain: float, offset: Any, *, wrong: str) -> torch.Tensor:
        p, q = (q, p) if wrong == "exchanged" else (p, q)
        found = (p.double() * (1.0 if wrong == "gain" else gain) - q.double()).sum(1)
        return (found if offset is None or wrong == "offset" else found + offset.double()).to(p.dtype)

    for wrong, words in (
        ("exchanged", "p and q were exchanged"),
        ("gain", "gain were 1.0"),
        ("offset", "offset were left out"),
    ):
        found = explanations(
            lambda p, q, gain, offset, w=wrong: kernel(p, q, gain, offset, wrong=w), weighed, "float32"
        )
        assert found == {f"as if {words}"}
