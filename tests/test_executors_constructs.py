"""Each construct of the table in docs/executor.md works, and the table names all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from triton.language import core
from triton.language.extra import cuda

import harness
from harness.executors import NotSimulated, compat, execute
from harness.executors.constructs import CONSTRUCTS, missing

TABLE = Path(__file__).parents[1] / "docs" / "executor.md"


def listed(heading):
    """The first cells of the table under a heading."""
    text = TABLE.read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line.split("|")[1].strip().strip("`") for line in lines[2:]]


def error_of(function):
    return execute(function, timeout=20).error


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("name", CONSTRUCTS)
def test_a_construct_gives_its_answer(name):
    kernel, grid, expected = CONSTRUCTS[name]
    x, y = torch.arange(16.0), torch.zeros(16)
    execution = execute(lambda: kernel[grid](x, y), timeout=20)
    assert execution.outcome == "returned", execution.where()
    assert y.tolist() == expected


def test_the_table_names_every_construct():
    names = listed("Supported")
    assert set(CONSTRUCTS) <= set(names)
    assert set(names) - set(CONSTRUCTS) <= {"block pointers"}


@triton.jit
def with_assembly(x, y):
    tl.store(y, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tl.load(x)], tl.float32, True, 1))


@triton.jit
def with_scaled_dot(x, y):
    index = tl.arange(0, 32)
    left = tl.zeros((32, 64), tl.uint8)
    right = tl.zeros((64, 32), tl.uint8)
    scale = tl.zeros((32, 2), tl.uint8)
    result = tl.dot_scaled(left, scale, "e5m2", right, scale, "e5m2")
    tl.store(y + index[:, None] * 0 + index[None, :] * 0, result)


@triton.jit
def with_packed_map(x, y):
    index = tl.arange(0, 16)
    tl.store(y + index, tl.map_elementwise(packed, tl.load(x + index), pack=2))


@triton.jit
def packed(a, b):
    return b, a


@core._aggregate
class Both:
    first: tl.tensor
    second: tl.tensor

    def __init__(self, first, second):
        self.first, self.second = first, second


@triton.jit
def with_aggregate(x, y):
    both = Both(tl.load(x), tl.load(x + 1))
    tl.store(y, both.first + both.second)


@triton.jit
def with_e4b15(x, y):
    tl.store(y, tl.load(x).to(tl.float16).to(tl.float8e4b15).to(tl.float16))


UNSUPPORTED = {
    "aggregates": (with_aggregate, "aggregates (Both)"),
    "casts to fp8e4b15": (with_e4b15, "fp8e4b15"),
    "tl.inline_asm_elementwise": (with_assembly, "inline_asm"),
    "tl.dot_scaled": (with_scaled_dot, "dot_scaled"),
    "tl.map_elementwise with pack > 1": (with_packed_map, "pack"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_the_rest_is_refused_by_name(name):
    kernel, text = UNSUPPORTED[name]
    execution = execute(lambda: kernel[(1,)](torch.zeros(16), torch.zeros(16)))
    assert isinstance(execution.error, NotSimulated) and text in execution.where(), execution.where()
    assert execution.outcome == "declined" and name in listed("Not supported")


def test_a_failing_construct_is_missing_by_name(monkeypatch):
    kernel, grid, expected = CONSTRUCTS["tl.cat"]
    monkeypatch.setitem(CONSTRUCTS, "tl.cat", (kernel, grid, expected[::-1]))
    assert list(missing(error_of)) == ["tl.cat"]


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
def test_an_unknown_triton_is_tried_and_what_it_lacks_is_named(monkeypatch):
    from harness.executors import interpreter

    monkeypatch.setattr(compat, "TRIED", ())
    interpreter.tried.cache_clear()
    with harness.cpu():
        pass
    kernel, grid, expected = CONSTRUCTS["tl.cat"]
    monkeypatch.setitem(CONSTRUCTS, "tl.cat", (kernel, grid, expected[::-1]))
    interpreter.tried.cache_clear()
    with (
        pytest.warns(RuntimeWarning, match=f"Triton {triton.__version__} was never tried.*tl.cat: gives"),
        harness.cpu(),
    ):
        pass
    kernel, grid, expected = CONSTRUCTS["masked load and store"]
    monkeypatch.setitem(CONSTRUCTS, "masked load and store", (kernel, grid, expected[::-1]))
    interpreter.tried.cache_clear()
    with pytest.raises(NotSimulated, match="masked load and store: gives"):
        execute(lambda: None)
    interpreter.tried.cache_clear()


@triton.jit
def asking(y):
    if tl.target_info.cuda_capability_geq(9, 0):
        tl.store(y, 1.0)
    if tl.target_info.is_cuda() and not tl.target_info.cuda_capability_geq(10, 0):
        tl.store(y + 1, cuda.num_warps())


def test_a_kernel_is_told_the_device_and_the_launch():
    y = torch.zeros(2)
    execution = execute(lambda: asking[(1,)](y, num_warps=8))
    assert execution.outcome == "returned", execution.where()
    assert y.tolist() == [1, 8]


@triton.jit
def of_scalars(y, flag, small, negative, large, unsigned, real, small_real, whole: tl.int8, half: tl.float16):
    tl.static_assert(flag.dtype == tl.int1)
    tl.static_assert(small.dtype == tl.int32)
    tl.static_assert(negative.dtype == tl.int32)
    tl.static_assert(large.dtype == tl.int64)
    tl.static_assert(unsigned.dtype == tl.uint64)
    tl.static_assert(real.dtype == tl.float32)
    tl.static_assert(whole.dtype == tl.int8)
    if flag:
        tl.store(y, small + negative)
    tl.store(y + 1, (large >> 32) + (unsigned >> 60).to(tl.int64))
    tl.store(y + 2, real)
    tl.store(y + 3, small_real * 2.0)
    tl.store(y + 4, whole + half.to(tl.float32))


def test_scalars_of_each_type_of_python():
    y = torch.zeros(5, dtype=torch.float64)
    arguments = (True, 7, -9, 2**40, 2**63 + 1, 0.1, float("inf"), -5, 0.3)
    execution = execute(lambda: of_scalars[(1,)](y, *arguments))
    assert execution.outcome == "returned", execution.where()
    single, half = torch.tensor(0.1).item(), torch.tensor(0.3, dtype=torch.float16).item()
    assert y.tolist() == [-2, 256 + 8, single, float("inf"), half - 5]


# autotuning


@triton.autotune(
    configs=[triton.Config({"STEP": step}, num_warps=warps) for step, warps in ((1, 4), (2, 4), (3, 8))],
    key=["n"],
)
@triton.jit
def tuned(x, n, STEP: tl.constexpr):
    tl.store(x, STEP)


def launch_tuned():
    x = torch.zeros(1)
    tuned[(1,)](x, 1)
    return x


def test_every_configuration_can_be_asked_for():
    first = execute(launch_tuned)
    assert first.value.item() == 1
    ((name, configs),) = first.configs.items()
    assert name == "tuned" and len(configs) == 3 and "STEP: 3" in configs[2]
    values = [execute(launch_tuned, configs={name: at}).value.item() for at in range(len(configs))]
    assert values == [1, 2, 3]
    wrong = execute(launch_tuned, configs={name: 3})
    assert wrong.outcome == "raised" and "has 3 configurations" in wrong.where()
