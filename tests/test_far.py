"""Tensors of few elements that span 2^31: what they cost, and that 32-bit offsets are found in them."""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import harness
import references
from harness.case import shape_of
from harness.contracts import Contract
from harness.domain import domain
from harness.executors import execute
from harness.layouts import MOST_FAR, REACH, variants
from harness.memory import Block, allocate
from harness.strategies import cover, far
from harness.subjects import contract_names, load_contract

STRIDE = 2**30 + 5


@triton.jit
def square_rows(x, out, stride, step, n, WIDE: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    if WIDE:
        row, column = row.to(tl.int64), column.to(tl.int64)
    value = tl.load(x + row * stride + column * step, mask=column < n).to(tl.float32)
    tl.store(out + row * stride + column * step, value * value, mask=column < n - 1 + WHOLE)


def squares(wide: bool, whole: bool = True) -> Callable[[torch.Tensor], torch.Tensor]:
    """x² of a matrix into memory of the same strides."""

    def run(x: torch.Tensor) -> torch.Tensor:
        if x.ndim != 2:
            raise harness.Unsupported("matrices")
        out = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
        if x.numel():
            rows, n = x.shape
            block = triton.next_power_of_2(n)
            square_rows[(rows,)](x, out, x.stride(0), x.stride(1), n, WIDE=wide, BLOCK=block, WHOLE=whole)
        return out

    return run


@harness.contract(args={"x": "*shape"}, returns="*shape", rows="*shape")
def square(x: Any) -> Any:
    return x * x


def spread(dtype: torch.dtype = torch.float32) -> Block:
    return allocate((3, 7), (STRIDE, 1), dtype, "cpu", fill="nan")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float8_e4m3fn, torch.bool, torch.int32])
def test_a_tensor_that_spans_2_31_elements_costs_a_few_pages(dtype: torch.dtype) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    block = spread(dtype)
    assert block.damage() == [] and bool(block.untouched(block.view).all())
    block.surround("+large")
    block.view.copy_(torch.ones(3, 7))
    assert block.damage() == [] and block.intact
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 2**10, "KiB"


def test_writes_beside_a_run_of_a_spread_out_tensor_are_seen() -> None:
    block = spread()
    block.storage[block.base + STRIDE + 7] = 1.0
    block.storage[block.base - 1] = 1.0
    assert block.damage() == [-1, STRIDE + 7]
    block.view[2, 3] = 5.0
    bits = block.snapshot()
    block.view[2, 3] = 6.0
    assert block.changed(bits) == [(2, 3)] and int(block.untouched(block.view).sum()) == 20
    block.restore(bits)
    assert float(block.view[2, 3]) == 5.0


@pytest.mark.parametrize("wide", [True, False])
def test_a_32_bit_offset_is_found_where_it_overflows(wide: bool) -> None:
    x = spread().view
    x.copy_(torch.arange(21.0).reshape(3, 7))
    execution = execute(squares(wide), [x], device="cpu")
    if wide:
        assert execution.outcome == "returned" and not execution.findings
        assert torch.equal(execution.value, x * x)
    else:
        assert "offset overflow" in {fault.kind for fault in execution.findings}


def test_what_nobody_wrote_in_a_spread_out_result_is_found() -> None:
    x = spread().view
    x.fill_(2.0)
    execution = execute(squares(True, whole=False), [x], device="cpu")
    assert [(fault.kind, fault.index) for fault in execution.findings] == [("written", (0, 6))]


@pytest.mark.parametrize("shape", [(3,), (5, 1), (1, 5), (24, 33), (2, 3, 4), (MOST_FAR, 2), (2, 2, 3, 1)])
def test_far_layouts_overflow_by_a_stride_that_32_bits_hold(shape: tuple[int, ...]) -> None:
    found = variants("far", shape)
    assert found
    for layout in found:
        strides = layout.strides(shape)
        reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
        assert layout.name == "far" and sum(item >= REACH for item in reach) == 1
        assert max(s for s, n in zip(strides, shape, strict=True) if n > 1) < REACH
        assert layout.span(shape) < 1.2 * REACH
    assert {stride % 16 == 0 for layout in found for stride in layout.strides(shape)} == {True, False}


@pytest.mark.parametrize("name", contract_names())
def test_every_tensor_with_an_axis_of_three_is_spread_out(name: str) -> None:
    contract = load_contract(name)
    fmt = (contract.formats or ("float32",))[0]
    met: dict[str, int] = {}
    for number, case in enumerate(far(contract, fmt)):
        names = [key for key, recipe in case.tensors.items() if recipe and recipe.layout.name == "far"]
        assert len(names) == 1
        met.setdefault(names[0].partition("[")[0], number)
    able = set()
    for _, case in zip(range(30), cover(contract, fmt), strict=False):
        for key, recipe in case.tensors.items():
            if recipe and variants("far", shape_of(contract, case, key)):
                able.add(key.partition("[")[0])
    assert able <= set(met)
    assert max(met.values(), default=0) < 12


def test_only_launches_of_their_own_are_far() -> None:
    for _, case in zip(range(60), cover(references.softmax, "float32"), strict=False):
        assert all(recipe is None or recipe.layout.name != "far" for recipe in case.tensors.values())
    narrow = domain(references.softmax, {"layouts": ("contiguous", "step")})
    assert not list(far(references.softmax, "float32", narrow))


def _verdict(contract: Contract, wide: bool, large: bool | None) -> harness.Verdict:
    return harness.check(
        squares(wide), contract, "float32", domain={"ndim": 2, "large": large}, examples=20, shrink=False
    )


def test_offsets_of_64_bits_are_right_in_tensors_that_span_2_31_elements() -> None:
    verdict = _verdict(square, True, True)
    assert verdict.ok, verdict
    assert verdict.tallies["float32"].layouts["far"] > 4


def test_offsets_of_32_bits_are_wrong_where_the_domain_says_large() -> None:
    verdict = _verdict(square, False, True)
    assert "offset overflow" in {finding.check for finding in verdict.findings}, verdict


def test_offsets_of_32_bits_are_noted_where_the_domain_says_nothing() -> None:
    verdict = _verdict(square, False, None)
    assert verdict.ok, verdict
    assert any("2^31" in note for note in verdict.tallies["float32"].notes), verdict


def test_a_domain_that_is_not_large_meets_no_far_layout() -> None:
    verdict = _verdict(square, False, False)
    assert verdict.ok and not verdict.tallies["float32"].notes, verdict
    assert "large=False" in verdict.excluded
