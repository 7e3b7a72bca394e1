"""Quantisers, dequantize and kmeans_assign against naive loops, and mistakes that each must be told from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import harness
import references
from harness.arithmetic import Arithmetic
from harness.contracts import Contract
from harness.formats import FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT32, Format, round_to
from harness.numbers import Answer, read_float64

FP8 = {torch.float8_e4m3fn: FLOAT8_E4M3FN, torch.float8_e5m2: FLOAT8_E5M2}


def answers(contract: Contract, shapes: list[tuple[int, ...] | None], **arguments: Any) -> list[Answer]:
    model = Arithmetic().model(contract, FLOAT32)
    return read_float64(contract.definition, arguments, model, shapes)


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def by_hand(row: list[float], largest: float) -> tuple[float, list[float]]:
    scale = max(abs(v) for v in row) / largest
    return scale, [v / scale for v in row]


@pytest.mark.parametrize("shape", [(3, 5), (7,), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("dtype", [None, *FP8], ids=str)
def test_scales_and_quotients(shape: tuple[int, ...], dtype: torch.dtype | None) -> None:
    x = rows(*shape)
    largest = 127.0 if dtype is None else FP8[dtype].max
    wanted = [by_hand(row, largest) for row in x.reshape(-1, shape[-1]).tolist()]
    given = {"scale": torch.tensor([scale for scale, _ in wanted], dtype=torch.float64).reshape(shape[:-1])}
    if dtype is None:
        q, scale = answers(references.quantize_int8, [shape, shape[:-1]], x=x, given=given)
    else:
        q, scale = answers(references.quantize_fp8, [shape, shape[:-1]], x=x, dtype=dtype, given=given)
    torch.testing.assert_close(scale.value.flatten(), given["scale"].flatten(), rtol=1e-15, atol=0)
    flat = torch.tensor([v for _, quotients in wanted for v in quotients], dtype=torch.float64)
    torch.testing.assert_close(q.value.flatten(), flat, rtol=1e-15, atol=0)


@pytest.mark.parametrize(("n", "block"), [(10, 4), (8, 4), (3, 16)])
def test_blocks(n: int, block: int) -> None:
    x = rows(2, n)
    count = -(-n // block)
    wanted = [[by_hand(row[i : i + block], 448.0) for i in range(0, n, block)] for row in x.tolist()]
    given = {"scale": torch.tensor([[s for s, _ in row] for row in wanted], dtype=torch.float64)}
    arguments = {"x": x, "dtype": torch.float8_e4m3fn, "block": block, "given": given}
    q, scale = answers(references.quantize_fp8_block, [(2, n), (2, count)], **arguments)
    torch.testing.assert_close(scale.value, given["scale"], rtol=1e-15, atol=0)
    flat = [[v for _, quotients in row for v in quotients] for row in wanted]
    torch.testing.assert_close(q.value, torch.tensor(flat, dtype=torch.float64), rtol=1e-15, atol=0)


def test_dequantize() -> None:
    q, scale = torch.tensor([[1.0, -127.0], [3.0, 0.0]], dtype=torch.float64), rows(2)
    (found,) = answers(references.dequantize, [(2, 2)], q=q, scale=scale)
    torch.testing.assert_close(found.value, q * scale[:, None])


def test_distances() -> None:
    x, codebook = rows(4, 3), rows(5, 3)
    (found,) = answers(references.kmeans_assign, [None], x=x, codebook=codebook)
    for i, row in enumerate(x.tolist()):
        for j, code in enumerate(codebook.tolist()):
            squared = math.fsum((p - c) ** 2 for p, c in zip(row, code, strict=True))
            assert float(found.value[i, j]) == pytest.approx(squared, rel=1e-13)


def test_whole_numbers_have_exact_distances() -> None:
    x = torch.tensor([[1.0, 2.0], [0.5, 1.0]], dtype=torch.float64)
    codebook = torch.tensor([[0.0, 2.0], [2.0, 2.0], [1e5, 0.0]], dtype=torch.float64)
    (found,) = answers(references.kmeans_assign, [None], x=x, codebook=codebook)
    assert ((found.t == 0) == torch.tensor([[True, True, False], [False] * 3])).all()


def rounded(x: torch.Tensor, to: Format) -> torch.Tensor:
    found: torch.Tensor = round_to(x.double(), to, saturate=True)
    return found.float()


def scaled(x: torch.Tensor, largest: float) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.float().abs().amax(-1) / largest
    scale = torch.where(scale == 0, 1.0, scale)
    return x.float() / scale[..., None], scale


def int8(x: torch.Tensor) -> Any:
    quotient, scale = scaled(x, 127.0)
    return quotient.round().clamp(-127, 127).to(torch.int8), scale


def half_away(x: torch.Tensor) -> Any:
    quotient, scale = scaled(x, 127.0)
    return ((quotient.abs() + 0.5).floor() * quotient.sign()).clamp(-127, 127).to(torch.int8), scale


def infinite_scale(x: torch.Tensor) -> Any:
    q, scale = int8(x)
    return q, torch.where((x == 0).all(-1), torch.inf, scale)


def reciprocal_rounded(x: torch.Tensor) -> Any:
    _, scale = scaled(x, 127.0)
    inverse = (1.0 / scale).to(torch.bfloat16).float()
    return (x.float() * inverse[..., None]).round().clamp(-127, 127).to(torch.int8), scale


WRONG = {half_away: "accuracy", infinite_scale: "relations", reciprocal_rounded: "accuracy"}


def test_int8_by_torch_is_right() -> None:
    verdict = harness.check(int8, references.quantize_int8, examples=160)
    assert verdict.ok, str(verdict)
    for tally in verdict.tallies.values():
        assert 0.1 < tally.largest_ratio <= 1


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_int8_mistakes_are_told(wrong: Callable[[torch.Tensor], Any]) -> None:
    verdict = harness.check(wrong, references.quantize_int8, "float32", examples=400, shrink=False)
    assert verdict.outcome == "FAIL"
    assert WRONG[wrong] in {found.check for found in verdict.findings}


def test_fp8_by_torch_is_right_and_a_double_rounding_is_not() -> None:
    def right(x: torch.Tensor, dtype: torch.dtype) -> Any:
        quotient, scale = scaled(x, torch.finfo(dtype).max)
        return quotient.to(dtype), scale

    def twice(x: torch.Tensor, dtype: torch.dtype) -> Any:
        quotient, scale = scaled(x, torch.finfo(dtype).max)
        return quotient.to(torch.float16).to(dtype), scale

    verdict = harness.check(right, references.quantize_fp8, "float32", examples=160)
    assert verdict.ok, str(verdict)
    assert (
        harness.check(twice, references.quantize_fp8, "float32", examples=160, shrink=False).outcome == "FAIL"
    )


def nearest(x: torch.Tensor, codebook: torch.Tensor) -> torch.Tensor:
    return (x.float()[:, None] - codebook.float()[None]).square().sum(-1).argmin(-1)


def expanded(x: torch.Tensor, codebook: torch.Tensor) -> torch.Tensor:
    x, codebook = x.float(), codebook.float()
    return (codebook.square().sum(-1) - 2.0 * x @ codebook.T).argmin(-1)


def last(x: torch.Tensor, codebook: torch.Tensor) -> torch.Tensor:
    return codebook.shape[0] - 1 - nearest(x, codebook.flip(0))


@pytest.mark.parametrize("right", [nearest, expanded])
def test_both_forms_of_the_distance_are_right(right: Callable[..., torch.Tensor]) -> None:
    verdict = harness.check(right, references.kmeans_assign, "float32", examples=60)
    assert verdict.ok, str(verdict)


def test_the_last_of_equal_distances_is_wrong() -> None:
    verdict = harness.check(last, references.kmeans_assign, "float32", examples=200, shrink=False)
    assert verdict.outcome == "FAIL", str(verdict)


def test_an_index_outside_the_codebook_is_wrong() -> None:
    def outside(x: torch.Tensor, codebook: torch.Tensor) -> torch.Tensor:
        return nearest(x, codebook) + codebook.shape[0]

    verdict = harness.check(outside, references.kmeans_assign, "float32", examples=20)
    assert verdict.outcome == "FAIL"
