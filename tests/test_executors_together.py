"""Programs that run together leave the same bits as programs that run one after the other."""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
import tutorial_kernels as tutorial

from harness.executors import execute
from harness.executors.interpreter import interpreter

ROOT = Path(__file__).parents[1]


def randn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value for tensor in tensors(part)]


def both_ways(fn, *args, outcome="returned"):
    """The execution with programs together, after checking it against one program at a time."""
    launcher = interpreter().launcher
    kept, results = launcher.together, []
    for number, together in enumerate((1, kept, kept)):
        launcher.together = together
        if number < 2:
            launcher._trees.clear()  # what one way found out about a kernel is no help to the other
        try:
            execution = execute(
                fn, tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in args), timeout=60
            )
        finally:
            launcher.together = kept
        assert execution.outcome == outcome, execution.where()
        results.append(execution)
    alone, first, again = results
    for execution in (first, again):
        if outcome == "returned":
            for a, b in zip(tensors(alone.value), tensors(execution.value), strict=True):
                assert a.shape == b.shape and a.dtype == b.dtype
                bits = [t.contiguous().view(torch.uint8).flatten() for t in (a, b)]
                assert torch.equal(*bits)
        assert execution.where() == alone.where() and execution.findings == alone.findings
    return first


TUTORIAL = {
    "vector add": (tutorial.vector_add, randn(1000), randn(1000, seed=1)),
    "softmax": (tutorial.softmax, randn(37, 300)),
    "matmul": (tutorial.matmul, randn(70, 90).half(), randn(90, 50).half(), "leaky_relu"),
    "matmul tf32": (tutorial.matmul, randn(70, 90), randn(90, 50)),
    "matmul bf16": (tutorial.matmul, randn(70, 90).bfloat16(), randn(90, 50).bfloat16()),
    "dropout": (tutorial.dropout, randn(1000), 0.5, 7),
    "layer norm": (tutorial.layer_norm, randn(23, 70), *(randn(70, seed=seed) for seed in (1, 2)),
                   randn(23, 70, seed=3)),
    "causal attention": (tutorial.attention, *(randn(2, 77, 16, seed=seed) for seed in range(4))),
    "full attention": (tutorial.attention, *(randn(2, 50, 16, seed=seed) for seed in range(4)), False),
    "grouped gemm": (tutorial.grouped, [randn(40, 20).half(), randn(5, 33).half()],
                     [randn(20, 30).half(), randn(33, 70).half()]),
}  # fmt: skip


@pytest.mark.parametrize("name", TUTORIAL)
def test_tutorials(name):
    fn, *args = TUTORIAL[name]
    both_ways(fn, *args)


SUBJECTS = sorted(
    path.stem
    for path in (ROOT / "kernels").glob("[!_]*.py")
    if re.search(rf"^def {path.stem}\(x: torch.Tensor, dim: int\)", path.read_text(), re.MULTILINE)
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", SUBJECTS)
def test_kernels_over_rows(name, dtype):
    function = getattr(importlib.import_module(f"kernels.{name}"), name)
    for shape, dim in (((37, 300), 1), ((5, 40, 3), 1), ((1, 1), 0)):
        assert both_ways(function, randn(*shape, dtype=dtype), dim).findings == []


FUNCTIONS = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "sigmoid", "floor", "abs")


@triton.jit
def functions(x, y, stride, COLUMNS: tl.constexpr, NAME: tl.constexpr):
    row = tl.program_id(0)
    index = tl.arange(0, COLUMNS)
    value = tl.load(x + row * stride + index)
    result = (getattr(tl, NAME))(value)
    tl.store(y + row * stride + index, result)
    tl.store(y + row * stride + COLUMNS, getattr(tl, NAME)(tl.load(x + row)))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("columns", [1, 4, 64])
def test_functions_do_not_depend_on_where_a_lane_stands(name, columns):
    def launch(x):
        y = torch.zeros_like(x)
        functions[(len(x),)](x, y, x.stride(0), COLUMNS=columns, NAME=name)
        return y

    special = torch.tensor(
        [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 1e30, -1e30, 88.7, -104.0]
    )
    width = max(2, columns + 1)
    x = torch.cat([special, randn(13 * width - len(special)) * 20]).reshape(13, width)
    both_ways(launch, x)


@triton.jit
def wander(x, out, steps, n, BLOCK: tl.constexpr):
    """Branches, loops of different lengths, returns and breaks, all by program."""
    program = tl.program_id(0) + 3 * tl.program_id(1) + 7 * tl.program_id(2)
    index = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(program % 3, program % 5 + 1, 1):
        total += tl.load(x + (index + i * program) % n)
        if i % 2 == 1:
            total *= 1.5
        elif program == 4:
            total -= 1.0
    left = tl.load(steps + program % 6)
    while left > 0:
        total = total * 0.75 + left
        left -= 2
    if program % 4 != 1:
        for j in range(program, 0, -2):
            total += j
        tl.store(out + program * BLOCK + index, total)
    else:
        tl.store(out + program * BLOCK + index, -total)


@pytest.mark.parametrize("grid", [(1,), (7,), (3, 2), (3, 2, 4), (2, 1, 5)])
def test_control_flow_that_differs_between_programs(grid):
    def launch(x, steps):
        out = torch.empty(64 * 16)
        wander[grid](x, out, steps, len(x), BLOCK=16)
        return out

    both_ways(launch, randn(50), torch.tensor([0, 5, 2, 9, 1, 4], dtype=torch.int32))


@triton.jit
def shift(x, BLOCK: tl.constexpr):
    """Each program reads what the one before it wrote."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + index + BLOCK, tl.load(x + index) + 1)


@triton.jit
def shift_back(x, BLOCK: tl.constexpr):
    """Each program overwrites what the one before it read."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + index, tl.load(x + index + BLOCK) + 1)


@triton.jit
def last_wins(x, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(x + index, index + tl.program_id(0))
    tl.store(x + BLOCK + index * 0, index)


@triton.jit
def in_place(x, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + index, tl.load(x + index) * 2)
    tl.store(x + index, tl.load(x + index) + 1)


@triton.jit
def tickets(x, counter, BLOCK: tl.constexpr):
    at = tl.atomic_add(counter, 1)
    tl.store(x + at * BLOCK + tl.arange(0, BLOCK), tl.program_id(0))


@triton.jit
def two_sums(x, out, BLOCK: tl.constexpr):
    """The order of the additions shows in the result."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + index % 3, tl.load(x + index))
    tl.atomic_add(out + index % 2, tl.load(x + index) * 0.3)


@triton.jit
def sum_and_maximum(x, out, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + index % 3, tl.load(x + index))
    tl.atomic_max(out + index % 3, tl.load(x + index) * 3)


@triton.jit
def by_table(x, out, source, target):
    """Program 2 reads what program 1 writes; program 0 meets nobody."""
    at = tl.program_id(0)
    value = tl.load(x + tl.load(source + at))
    tl.store(x + tl.load(target + at), value + 1)
    tl.store(out + at, value)


@triton.jit
def peek(x, out, source, target):
    """Each program writes its own, then reads what the next one has yet to write."""
    at = tl.program_id(0)
    tl.store(x + at, at + 100.0)
    tl.store(out + at, tl.load(x + at + 1))


@triton.jit
def count_and_read(x, out, source, target):
    tl.atomic_add(x, 1.0)
    tl.store(out + tl.program_id(0), tl.load(x))


@pytest.mark.parametrize("kernel", [by_table, peek, count_and_read], ids=lambda k: k.__name__)
def test_programs_of_which_one_reads_what_another_writes(kernel):
    def launch(x):
        out = torch.zeros(4)
        source, target = torch.tensor([20, 21, 1, 2]), torch.tensor([30, 1, 2, 31])
        kernel[(4,)](x, out, source, target)
        return x, out

    both_ways(launch, randn(40))


@triton.jit
def atomic_then_read(x, BLOCK: tl.constexpr):
    tl.atomic_add(x, 1.0)
    tl.store(x + 1 + tl.program_id(0), tl.load(x))


@pytest.mark.parametrize(
    "kernel", [shift, shift_back, last_wins, in_place, atomic_then_read], ids=lambda k: k.__name__
)
def test_programs_that_meet_in_memory(kernel):
    def launch(x):
        kernel[(9,)](x, BLOCK=8)
        return x

    both_ways(launch, randn(200))


@pytest.mark.parametrize("kernel", [two_sums, sum_and_maximum], ids=lambda k: k.__name__)
def test_atomics_apply_in_the_order_of_programs(kernel):
    def launch(x):
        out = torch.zeros(3)
        kernel[(20,)](x, out, BLOCK=8)
        return out

    both_ways(launch, randn(160))


def test_the_result_of_an_atomic():
    def launch():
        x, counter = torch.zeros(10, 8), torch.zeros(1, dtype=torch.int32)
        tickets[(10,)](x, counter, BLOCK=8)
        return x

    assert both_ways(launch).value[:, 0].tolist() == list(range(10))


@triton.jit
def runs_out(x, y, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + index, 1.0)
    tl.store(y + index, tl.load(x + index))


def test_a_fault_leaves_what_programs_before_it_did():
    def launch(x, y):
        runs_out[(6,)](x, y, 0, BLOCK=8)

    y = torch.zeros(48)
    for together in (1, 1 << 18):
        y.zero_()
        launcher = interpreter().launcher
        kept, launcher.together = launcher.together, together
        execution = execute(launch, (torch.full((20,), 2.0), y))
        launcher.together = kept
        assert execution.outcome == "raised" and "program (2, 0, 0)" in execution.where()
        assert y.tolist() == [2.0] * 16 + [1.0] * 8 + [0.0] * 24


@triton.jit
def spin(flag, out):
    while tl.atomic_add(flag, 0) == 0:
        pass
    tl.store(out, 1.0)


def test_programs_that_wait_for_ever_are_hung():
    for grid, text in (((1,), "goes round without any change"), ((2,), "waits for what no program does")):
        flag = torch.zeros(1, dtype=torch.int32)
        execution = execute(lambda flag, grid=grid: spin[grid](flag, torch.zeros(1)), (flag,))
        assert execution.outcome == "hung" and text in execution.where()
        assert "test_executors_together.py" in execution.where()


@triton.jit
def counted_at_compile_time(x):
    """What changes from round to round is known before the kernel runs."""
    step = 0
    while step < 40 and tl.load(x) > 0:
        step += 1
    tl.store(x + 1, step)


def test_a_loop_that_counts_constants_goes_on():
    for programs in (1, 3):
        execution = execute(counted_at_compile_time[(programs,)], (torch.ones(2),))
        assert execution.outcome == "returned", execution.where()
    x = torch.ones(2)
    execute(lambda: counted_at_compile_time[(1,)](x))
    assert x.tolist() == [1, 40]


@triton.jit
def counting(x):
    step = tl.load(x)
    while step >= 0:
        step += 1
    tl.store(x, step)


@triton.jit
def known(x):
    step = 0
    while step >= 0:
        step += 1
    tl.store(x, step)


@pytest.mark.parametrize("kernel", [counting, known], ids=["decided", "known before it runs"])
def test_a_program_that_never_ends_is_hung(monkeypatch, kernel):
    monkeypatch.setattr("harness.executors.engine.STEPS", 3000)
    monkeypatch.setattr("harness.executors.trace.STEPS", 3000)
    execution = execute(kernel[(1,)], (torch.zeros(1),))
    assert execution.outcome == "hung" and "no end after 3000" in execution.where()
    assert "test_executors_together.py" in execution.where()


@triton.jit
def fewer(x, out, n):
    """Each program goes its own way round, none of them often."""
    left = tl.program_id(0) * 10
    total = 0.0
    while left > 0:
        total += tl.load(x + left % n)
        left -= 1
    tl.store(out + tl.program_id(0), total)


def test_the_operations_of_one_program_count(monkeypatch):
    monkeypatch.setattr("harness.executors.engine.STEPS", 3000)
    monkeypatch.setattr("harness.executors.trace.STEPS", 3000)

    def launch(x):
        out = torch.empty(20)
        fewer[(20,)](x, out, len(x))
        return out

    assert execute(launch, (torch.ones(7),)).value.tolist() == [10.0 * i for i in range(20)]


@triton.jit
def handed_back(x, flags, out, BLOCK: tl.constexpr):
    """The first program adds up what all others leave, in their order, and lets each go when it has it."""
    program = tl.program_id(0)
    value = tl.sum(tl.load(x + program * BLOCK + tl.arange(0, BLOCK)), 0)
    if program == 0:
        for other in range(1, tl.num_programs(0)):
            while tl.atomic_cas(flags + other, 1, 2) != 1:
                pass
            value += tl.load(out + other)
        tl.store(out, value)
    else:
        tl.store(out + program, value)
        tl.atomic_xchg(flags + program, 1)
        while tl.atomic_add(flags + program, 0) != 2:
            pass
        tl.store(out + program, 0.0)


def test_a_program_may_wait_for_later_ones():
    def launch(x):
        flags, out = torch.zeros(4, dtype=torch.int32), torch.empty(4)
        handed_back[(4,)](x, flags, out, BLOCK=8)
        return out

    execution = both_ways(launch, torch.arange(32.0))
    assert execution.value.tolist() == [496.0, 0, 0, 0] and execution.findings == []


def test_random_grids_and_sizes():
    generator = np.random.default_rng(1)
    for _ in range(6):
        rows, columns = int(generator.integers(1, 40)), int(generator.integers(1, 200))
        both_ways(tutorial.softmax, randn(rows, columns))


def test_a_kernel_is_recorded_once_for_each_set_of_compile_time_values():
    def launch(n):
        x = torch.ones(n)
        return tutorial.vector_add(x, x)

    launcher = interpreter().launcher
    execute(launch, (100,))
    (trees,) = [t for fn, t in launcher._trees.items() if fn.__name__ == "add_kernel"]
    count, operations = len(trees), [len(tree.root.operations) for tree in trees.values()]
    execute(launch, (1000,))
    assert len(trees) == count and [len(tree.root.operations) for tree in trees.values()] == operations
