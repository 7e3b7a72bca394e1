"""The CPU executor: numbers as a GPU computes them, launches however decorated, records of an execution.

Expected numbers are those measured on an H200 (Triton 3.6.0, driver 580) unless a test says otherwise.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import math
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language import load as load_by_name
from triton.language.extra import libdevice
from triton.language.extra.libdevice import tanh as tanh_by_name
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

import harness
import references
from harness import contention
from harness.executors import MemoryFault, NotSimulated, cpu, execute
from harness.executors.profile import H200

VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
NAN, INF = math.nan, math.inf


def returned(fn, *args, fill="nan"):
    """The value of an execution that must return."""
    execution = execute(fn, args, fill=fill, timeout=20)
    assert execution.outcome == "returned", execution.where()
    return execution.value


@triton.jit
def apply(x, y, N: tl.constexpr, FUNCTION: tl.constexpr):
    index = tl.arange(0, N)
    tl.store(y + index, FUNCTION(tl.load(x + index)).to(y.dtype.element_ty))


@triton.jit
def combine(x, y, out, N: tl.constexpr, FUNCTION: tl.constexpr):
    index = tl.arange(0, N)
    tl.store(out + index, FUNCTION(tl.load(x + index), tl.load(y + index)).to(out.dtype.element_ty))


@triton.jit
def reduced(x, y, N: tl.constexpr, FUNCTION: tl.constexpr):
    tl.store(y, FUNCTION(tl.load(x + tl.arange(0, N))).to(y.dtype.element_ty))


def executed(function, values, dtype, out=None):
    """An execution that applies ``function`` to a list of values, padded with ones to a power of two."""
    size = triton.next_power_of_2(len(values))
    x = torch.tensor([*values, *[1.0] * (size - len(values))], dtype=torch.float64).to(dtype)

    def launch(x):
        y = torch.empty(size, dtype=out or dtype)
        apply[(1,)](x, y, N=size, FUNCTION=function)
        return y

    return execute(launch, (x,), timeout=20)


def elementwise(function, values, dtype, out=None):
    """``function`` of a list of values, as floats."""
    execution = executed(function, values, dtype, out)
    assert execution.outcome == "returned", execution.where()
    return execution.value[: len(values)].double().tolist()


def elementwise2(function, xs, ys, dtype):
    def launch(x, y):
        out = torch.empty_like(x)
        combine[(1,)](x, y, out, N=len(x), FUNCTION=function)
        return out

    return returned(launch, torch.tensor(xs, dtype=dtype), torch.tensor(ys, dtype=dtype)).double().tolist()


def reduction(function, x, out=None, warps=4):
    def launch(x):
        y = torch.empty(1, dtype=out or x.dtype)
        reduced[(1,)](x, y, N=len(x), FUNCTION=function, num_warps=warps)
        return y

    return returned(launch, x).double().item()


def same(got, expected):
    """Equal, NaN to NaN, zeros by sign."""
    assert [float(v).hex() for v in got] == [float(v).hex() for v in expected]


@triton.jit
def identity(x):
    return x


@triton.jit
def double(x):
    return x + x


@triton.jit
def squared(x):
    return x * x


# formats


def test_bfloat16_adds_and_multiplies_and_rounds_to_nearest_even():
    same(elementwise(double, [1.0, 2.0**-133, 3e38], torch.bfloat16), [2.0, 2.0**-132, INF])
    same(elementwise(squared, [1.0078125], torch.bfloat16), [1.015625])


def test_fp32_to_bfloat16_rounds_to_nearest_even_keeps_subnormals_and_overflows_to_inf():
    values = [1 + 3 * 2.0**-8, 1 + 2.0**-8, 3.4e38, -INF, NAN, 2.0**-133, 1.5 * 2.0**-133, 2.0**-134, -0.0]
    expected = [1 + 2.0**-6, 1.0, INF, -INF, NAN, 2.0**-133, 2.0**-132, 0.0, -0.0]
    same(elementwise(identity, values, torch.float32, torch.bfloat16), expected)


def test_bfloat16_subnormals_load_right():
    same(elementwise(identity, [2.0**-133, 3 * 2.0**-130], torch.bfloat16, torch.float32),
         [2.0**-133, 3 * 2.0**-130])  # fmt: skip


def test_fp32_to_e4m3_saturates_also_inf_with_one_rounding():
    values = [1.0625001, 136.002, 1.95, 7.8, 448.0, 465.0, 1e6, INF, -INF, NAN, 2.0**-10, 1.01 * 2.0**-10]
    expected = [1.125, 144.0, 2.0, 8.0, 448.0, 448.0, 448.0, 448.0, -448.0, NAN, 0.0, 2.0**-9]
    same(elementwise(identity, values, torch.float32, torch.float8_e4m3fn), expected)


def test_fp32_to_e5m2_saturates_also_inf():
    values = [1.9, 57344.0, 65000.0, INF, -INF, NAN]
    expected = [2.0, 57344.0, 57344.0, 57344.0, -57344.0, NAN]
    same(elementwise(identity, values, torch.float32, torch.float8_e5m2), expected)


def test_fp64_is_rounded_once_to_bfloat16():
    # Through fp32 this would become the tie 1 + 2**-8 and round down.
    same(elementwise(identity, [1 + 2.0**-8 + 2.0**-40], torch.float64, torch.bfloat16), [1.0078125])


def test_fp8_loads_and_stores():
    values = [1.0, -0.875, 2.0**-9, 448.0]
    same(elementwise(identity, values, torch.float8_e4m3fn), values)


def test_fp8_has_no_arithmetic():
    execution = executed(double, [1.0], torch.float8_e4m3fn)
    assert execution.outcome == "raised" and "no arithmetic on fp8e4nv" in execution.where()


def test_floats_to_integers_saturate_and_nan_is_zero():
    # cvt.rzi.s32 and cvt.rzi.s16 (PTX ISA 9.1); 8 bits go through 16 and wrap.
    same(
        elementwise(identity, [-1.9, 3e9, -INF, NAN], torch.float32, torch.int32),
        [-1, 2**31 - 1, -(2**31), 0],
    )
    same(elementwise(identity, [300.0, 40000.0], torch.float32, torch.int8), [44, -1])


@triton.jit
def truncated(x):
    return x.to(tl.bfloat16, fp_downcast_rounding="rtz")


def test_a_cast_toward_zero():
    same(elementwise(truncated, [1 + 3 * 2.0**-8, -3.4e38], torch.float32, torch.bfloat16),
         [1 + 2.0**-7, -3.3895313892515355e38])  # fmt: skip


# reductions


@triton.jit
def total(x):
    return tl.sum(x, axis=0)


@triton.jit
def largest(x):
    return tl.max(x, axis=0)


@triton.jit
def smallest(x):
    return tl.min(x, axis=0)


@triton.jit
def where_largest(x):
    return tl.argmax(x, axis=0)


@triton.jit
def where_smallest(x):
    return tl.argmin(x, axis=0)


def test_a_sum_adds_in_the_format_of_its_elements():
    assert reduction(total, torch.full((4096,), 16.0, dtype=torch.float16)) == INF
    ones = torch.ones(1024, dtype=torch.bfloat16)
    ones[0] = 256
    assert reduction(total, ones) == 1272


def test_the_order_of_a_sum_depends_on_the_number_of_warps():
    x = torch.tensor(np.random.default_rng(0).standard_normal(4096), dtype=torch.float32)
    assert len({reduction(total, x, warps=warps) for warps in (1, 4, 16)}) > 1


def test_a_thread_adds_its_own_elements_before_lanes_and_warps_meet():
    spread = H200.spread((1024,), 0, 4, 4)
    assert (spread.repeats, spread.warps, spread.lanes, spread.run) == (2, 4, 32, 4)
    spread = H200.spread((8, 64), 1, 4, 4)
    assert (spread.repeats, spread.warps, spread.lanes, spread.run) == (1, 1, 16, 4)
    spread = H200.spread((8, 64), 0, 4, 4)
    assert (spread.repeats, spread.warps, spread.lanes, spread.run) == (1, 4, 2, 1)
    # Halves of an ulp are lost one by one in the thread that holds the 1, kept where two meet before it.
    x = torch.zeros(1024)
    x[:4] = torch.tensor([1.0, 2.0**-24, 2.0**-24, 2.0**-24])
    assert reduction(total, x) == 1.0
    assert reduction(total, x.roll(2)) == 1 + 2.0**-23


def test_maximum_and_minimum_drop_nan_and_order_zeros_by_sign():
    nan = torch.tensor([NAN, 1.0, NAN, -3.0])
    assert reduction(largest, nan) == 1.0 and reduction(smallest, nan) == -3.0
    assert math.isnan(reduction(largest, torch.full((4,), NAN)))
    zeros = torch.tensor([-0.0, 0.0, -0.0, -0.0])
    same([reduction(largest, zeros), reduction(smallest, zeros)], [0.0, -0.0])


def test_argmax_takes_the_first_of_ties_and_the_last_of_nothing_but_nan():
    assert reduction(where_largest, torch.tensor([1.0, 7.0, 7.0, 0.0]), torch.int32) == 1
    assert reduction(where_smallest, torch.tensor([1.0, 0.0, 7.0, 0.0]), torch.int32) == 1
    assert reduction(where_largest, torch.full((8,), NAN), torch.int32) == 7


@triton.jit
def merge(mean1, square1, count1, mean2, square2, count2):
    count = count1 + count2
    delta = mean2 - mean1
    return mean1 + delta * count2 / count, square1 + square2 + delta * delta * count1 * count2 / count, count


@triton.jit
def variance(x):
    _, square, count = tl.reduce((x, tl.zeros_like(x), tl.zeros_like(x) + 1.0), 0, merge)
    return square / count


@triton.jit
def greater(a, b):
    if a > b:
        return a
    else:
        return b


@triton.jit
def by_branches(x):
    return tl.reduce(x, 0, greater)


@triton.jit
def prefix_sums(x):
    return tl.cumsum(x, 0) + tl.cumsum(x, 0, reverse=True)


def test_reductions_with_a_function_of_ones_own():
    assert reduction(variance, torch.tensor([1.0, 2.0, 3.0, 4.0])) == 1.25
    assert reduction(by_branches, torch.tensor([1.0, 4.0, 3.0, 2.0])) == 4.0


def test_scans():
    same(elementwise(prefix_sums, [1.0, 2.0, 3.0, 4.0], torch.float32), [11.0, 12.0, 13.0, 14.0])


@triton.jit
def axes(x, y, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    block = tl.load(x + rows * N + columns)
    tl.store(y + tl.arange(0, N), tl.sum(block, axis=0))
    value, index = tl.max(block, axis=1, return_indices=True)
    tl.store(y + N + tl.arange(0, M), value + index)
    tl.store(y + N + M, tl.sum(tl.sum(block, axis=1, keep_dims=True)) + tl.min(block))


def test_reductions_along_either_axis():
    x = torch.arange(128.0).reshape(4, 32).flip(1)

    def launch(x):
        y = torch.empty(37)
        axes[(1,)](x, y, M=4, N=32)
        return y

    expected = torch.cat([x.sum(0), x.amax(1) + x.argmax(1), (x.sum() + x.min()).reshape(1)])
    assert torch.equal(returned(launch, x), expected)


# elementwise functions


@triton.jit
def exp2(x):
    return tl.exp2(x)


@triton.jit
def exp(x):
    return tl.exp(x)


@triton.jit
def sqrt(x):
    return tl.sqrt(x)


@triton.jit
def sqrt_rn(x):
    return tl.sqrt_rn(x)


@triton.jit
def rsqrt(x):
    return tl.rsqrt(x)


@triton.jit
def erf(x):
    return tl.erf(x)


@triton.jit
def reciprocal(x):
    return 1.0 / x


@triton.jit
def negative(x):
    return -x


@triton.jit
def fused(x):
    return tl.fma(x, x, -1.0)


@triton.jit
def maximum(x, y):
    return tl.maximum(x, y)


@triton.jit
def maximum_keeping_nan(x, y):
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum(x, y):
    return min(x, y)


@triton.jit
def chosen(x, y):
    return tl.where(x > y, x, y)


def test_some_functions_flush_subnormals_and_others_do_not():
    tiny = 2.0**-130
    same(elementwise(exp2, [-130.0, -126.0], torch.float32), [0.0, 2.0**-126])
    same(elementwise(sqrt, [tiny], torch.float32), [0.0])
    same(elementwise(sqrt_rn, [tiny], torch.float32), [2.0**-65])
    same(elementwise(rsqrt, [tiny], torch.float32), [INF])
    same(elementwise(erf, [tiny], torch.float32), [0.0])
    same(elementwise(double, [tiny], torch.float32), [2 * tiny])
    assert elementwise(exp, [-95.0], torch.float32)[0] > 0


def test_division_by_zero_and_overflow_are_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(elementwise(reciprocal, [0.0, -0.0, 2.0**-130], torch.float32), [INF, -INF, INF])
        same(elementwise(squared, [1e38], torch.float32), [INF])
        assert math.isnan(elementwise(sqrt, [-1.0], torch.float32)[0])


def test_maximum_and_minimum_of_two():
    xs, ys = [NAN, 1.0, -0.0, NAN], [2.0, NAN, 0.0, NAN]
    same(elementwise2(maximum, xs, ys, torch.float32), [2.0, 1.0, 0.0, NAN])
    same(elementwise2(minimum, xs, ys, torch.float32), [2.0, 1.0, -0.0, NAN])
    same(elementwise2(maximum_keeping_nan, xs, ys, torch.float32), [NAN, NAN, 0.0, NAN])
    same(elementwise2(chosen, xs, ys, torch.float32), [2.0, NAN, 0.0, NAN])
    same(elementwise2(maximum, [NAN, 1.0], [3.0, 2.0], torch.bfloat16), [3.0, 2.0])


def test_an_fma_rounds_once():
    x = 1 + 2.0**-12
    same(elementwise(fused, [x], torch.float32), [2.0**-11 + 2.0**-24])


@pytest.mark.skipif(VERSION >= (3, 9), reason="3.9 negates by the sign bit")
def test_negation_loses_the_sign_of_zero():
    same(elementwise(negative, [0.0, -0.0, 1.0], torch.float32), [0.0, 0.0, -1.0])


@triton.jit
def complement(y, scalar, flag, count):
    tl.store(y, 1.0 - scalar)
    if flag:
        tl.store(y + 1, count + 2.0)


def test_a_python_float_enters_as_fp32():
    def launch(scalar):
        y = torch.zeros(2)
        complement[(1,)](y, scalar, True, 2**40)
        return y

    got = returned(launch, 0.999)
    assert got[0] == float(np.float32(1) - np.float32(0.999))
    assert abs(float(got[0]) - 0.001) / 0.001 / 2.0**-24 == pytest.approx(216, abs=1)
    assert got[1] == 2.0**40


# dots


@triton.jit
def matmul(a, b, c, K: tl.constexpr, PRECISION: tl.constexpr, OUT: tl.constexpr):
    rows, columns, inner = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :], tl.arange(0, K)
    x = tl.load(a + rows * K + inner[None, :])
    y = tl.load(b + inner[:, None] * 16 + columns)
    tl.store(c + rows * 16 + columns, tl.dot(x, y, input_precision=PRECISION, out_dtype=OUT))


def product(a, b, precision="ieee", out=torch.float32):
    def launch(a, b):
        c = torch.empty(16, 16, dtype=out)
        matmul[(1,)](a, b, c, K=a.shape[1], PRECISION=precision,
                     OUT={torch.float16: tl.float16, torch.int32: tl.int32}.get(out, tl.float32))  # fmt: skip
        return c

    return returned(launch, a, b)


def test_a_tf32_dot_truncates_its_inputs():
    a, b = torch.zeros(16, 16), torch.zeros(16, 16)
    b[0] = 1
    a[0, 0], a[1, 0], a[2, 0] = 1 + 2.0**-11 + 2.0**-12, 1 + 3 * 2.0**-11, -(1 + 2.0**-11)
    expected = {
        "tf32": [1.0, 1 + 2.0**-10, -1.0],
        "ieee": a[:3, 0].tolist(),
        "tf32x3": a[:3, 0].tolist(),
        "bf16x6": a[:3, 0].tolist(),
    }
    for precision, values in expected.items():
        same(product(a, b, precision)[:3, 0].tolist(), values)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int8], ids=str)
def test_dots_of_small_formats(dtype):
    a = torch.arange(16 * 32).reshape(16, 32).remainder(7).sub(3).to(dtype)
    b = torch.arange(32 * 16).reshape(32, 16).remainder(5).sub(2).to(dtype)
    out = torch.int32 if dtype is torch.int8 else torch.float32
    assert torch.equal(product(a, b, out=out).double(), a.double() @ b.double())


def test_a_dot_may_accumulate_in_fp16():
    a, b = torch.ones(16, 64, dtype=torch.float16), torch.full((64, 16), 2048.0, dtype=torch.float16)
    assert (product(a, b, out=torch.float16) == INF).all()


# memory


@triton.jit
def masked(x, y, n, OTHER: tl.constexpr, N: tl.constexpr):
    index = tl.arange(0, N)
    if OTHER:  # noqa: SIM108
        value = tl.load(x + index, mask=index < n, other=0.0)
    else:
        value = tl.load(x + index, mask=index < n)
    tl.store(y + index, value)


@pytest.mark.parametrize(
    ("dtype", "fill", "expected"),
    [
        (torch.float32, "nan", NAN),
        (torch.bfloat16, "+large", 3.3895313892515355e37),
        (torch.float16, "-large", -6552.0),
        (torch.int32, "nan", 1610612734),
    ],
)
def test_a_masked_load_without_other_reads_the_fill(dtype, fill, expected):
    def launch(x, other):
        y = torch.zeros(8, dtype=dtype)
        masked[(1,)](x, y, 5, OTHER=other, N=8)
        return y

    x = torch.arange(1, 6).to(dtype)
    same(returned(launch, x, False, fill=fill).double().tolist(), [1, 2, 3, 4, 5, *[expected] * 3])
    same(returned(launch, x, True, fill=fill).double().tolist(), [1, 2, 3, 4, 5, 0, 0, 0])


@triton.jit
def copy(source, target, start, N: tl.constexpr):
    index = start + tl.arange(0, N)
    tl.store(target + index, tl.load(source + index))


def test_an_access_outside_the_storage_is_an_error_that_names_kernel_and_argument():
    short, long = torch.zeros(8), torch.zeros(64)
    read = execute(lambda: copy[(1,)](short, long, 0, N=64), timeout=20)
    assert read.outcome == "raised" and isinstance(read.error, MemoryFault)
    assert (
        "kernel 'copy', program (0, 0, 0), reads 4 bytes 4 bytes past the end of argument 'source'"
        in read.where()
    )
    write = execute(lambda: copy[(1,)](long, short, 0, N=64), timeout=20)
    assert "writes 4 bytes 4 bytes past the end of argument 'target'" in write.where()
    before = execute(lambda: copy[(1,)](long, short, -8, N=8), timeout=20)
    assert "32 bytes before argument 'source'" in before.where()
    assert torch.equal(short, torch.zeros(8))


def test_the_guards_of_an_allocation_take_a_stray_write_as_damage():
    def launch(x):
        y = torch.empty(5)
        copy[(1,)](x, y, 0, N=8)
        return y

    execution = execute(launch, (torch.ones(8),))
    assert execution.outcome == "returned" and execution.blocks[0].damage() == [5, 6, 7]


@triton.jit
def masked_copy(source, target, n, N: tl.constexpr):
    index = tl.arange(0, N)
    tl.store(target + index, tl.load(source + index, mask=index < n), mask=index < n)


def test_the_address_of_a_masked_off_lane_is_never_touched():
    def launch(x):
        y = torch.zeros(1)
        masked_copy[(1,)](x, y, 1, N=65536)
        return y

    assert returned(launch, torch.ones(1)).item() == 1


@triton.jit
def through_table(table, out):
    for i in range(2):
        pointer = tl.load(table + i).to(tl.pointer_type(tl.float32))
        tl.store(out + i, tl.load(pointer + 1))


def test_addresses_read_from_memory_reach_the_tensors_of_the_function_and_no_others():
    def launch(tensors, addresses):
        out = torch.zeros(2)
        through_table[(1,)](torch.tensor(addresses), out)
        return out

    a, b = torch.arange(3.0), torch.arange(3.0) + 10
    execution = execute(launch, ([a, b], [a.data_ptr(), b.data_ptr()]))
    assert execution.value.tolist() == [1.0, 11.0]

    def launch_on_own(x):
        own = x + 10
        return launch([x, own], [x.data_ptr(), own.data_ptr()])

    assert execute(launch_on_own, (a,)).value.tolist() == [1.0, 11.0]
    execution = execute(launch, ([a], [a.data_ptr(), 4096]))
    assert "in no known tensor" in execution.where()


@triton.jit
def count(x, counts, n, N: tl.constexpr):
    index = tl.arange(0, N)
    value = tl.load(x + index, mask=index < n, other=0)
    tl.atomic_add(counts + value, 1, mask=index < n)
    tl.atomic_max(counts + 4 + index * 0, value, mask=index < n)
    tl.atomic_cas(counts + 5, 0, 7)
    tl.atomic_xchg(counts + 6, 9)


def test_atomics_take_turns():
    def launch(x):
        counts = torch.zeros(8, dtype=torch.int32)
        count[(2,)](x, counts, len(x), N=16)
        return counts

    x = torch.arange(10, dtype=torch.int32) % 3
    assert returned(launch, x).tolist() == [8, 6, 6, 0, 2, 7, 9, 0]


@triton.jit
def described(x, y, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    target = tl.make_tensor_descriptor(y, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    for i in range(0, M, BLOCK_M):
        for j in range(0, N, BLOCK_N):
            target.store([i, j], source.load([i, j]) * 2)


@triton.jit
def from_host(source, target):
    target.store([0, 0], source.load([0, 0]) * 2)


def test_tensor_descriptors():
    def launch(x):
        y, z = torch.empty_like(x), torch.empty_like(x)
        described[(1,)](x, y, x.shape[0], x.shape[1], BLOCK_M=4, BLOCK_N=8)
        block = [8, 16]
        from_host[(1,)](TensorDescriptor.from_tensor(x, block), TensorDescriptor.from_tensor(z, block))
        return y, z

    execution = execute(launch, (torch.ones(6, 12),))
    assert execution.outcome == "returned", execution.where()
    assert all((y == 2).all() for y in execution.value) and not any(b.damage() for b in execution.blocks)


@triton.jit
def windowed(x, y, n, BLOCK: tl.constexpr):
    source = tl.make_block_ptr(x, shape=(n,), strides=(1,), offsets=(0,), block_shape=(BLOCK,), order=(0,))
    target = tl.make_block_ptr(y, shape=(n,), strides=(1,), offsets=(0,), block_shape=(BLOCK,), order=(0,))
    for _ in range(0, n, BLOCK):
        tl.store(target, tl.load(source, boundary_check=(0,), padding_option="zero") + 1, boundary_check=(0,))
        source = tl.advance(source, (BLOCK,))
        target = tl.advance(target, (BLOCK,))


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.skipif(VERSION >= (3, 9), reason="3.9 has no block pointers")
def test_block_pointers():
    def launch(x):
        y = torch.empty_like(x)
        windowed[(1,)](x, y, len(x), BLOCK=16)
        return y

    assert torch.equal(returned(launch, torch.arange(20.0)), torch.arange(20.0) + 1)


# the language


@triton.jit
def loops(x):
    total = 0.0
    steps = 0
    for i in range(0, 4):
        total += i.to(tl.float32)  # type: ignore[attr-defined]
    for i in tl.static_range(3):
        total += i
    for i in tl.range(4, 0, -1, num_stages=2):
        total += i
    while steps < 3 and total > 0:
        steps += 1
        total = total + 1.0
    if not (steps == 3):  # noqa: SIM201
        total = -1.0
    return x * 0 + (total if steps == 3 else 0.0)


SCALE = tl.constexpr(1.5)


@triton.jit
def with_global(x):
    return SCALE * x - SCALE


@triton.jit
def scaled(x):
    scale = 0.1
    return x * scale


@triton.jit
def external(x):
    return tanh_by_name(x) + libdevice.pow(x, x) - libdevice.pow(x, x)


@triton.jit
def shapes(x):
    halves = tl.trans(tl.reshape(x, (2, 4)))
    left, right = tl.split(halves)
    joined = tl.reshape(tl.trans(tl.join(left, right)), (8,))
    return tl.where(joined == x, tl.flip(tl.sort(x), 0), -1.0)


@triton.jit
def of_methods(x):
    return x.exp().log() + x.sum() + x.max(0) - tl.softmax(x, 0).sum(0)


def test_control_flow_means_what_the_compiler_makes_of_it():
    # 0+1+2+3, 0+1+2, 4+3+2+1, three steps
    same(elementwise(loops, [1.0], torch.float32), [22.0])
    same(elementwise(with_global, [3.0], torch.float32), [3.0])
    same(elementwise(shapes, [3.0, 1.0, 2.0, 8.0, 5.0, 7.0, 6.0, 4.0], torch.float32), list(range(8, 0, -1)))
    # A number that was assigned is an fp32 scalar, which widens fp16.
    same(elementwise(scaled, [1.0], torch.float16, torch.float32), [float(np.float32(0.1))])
    assert elementwise(external, [0.5], torch.float32)[0] == pytest.approx(math.tanh(0.5), rel=1e-6)
    assert elementwise(of_methods, [1.0, 2.0], torch.float32) == pytest.approx([5.0, 6.0], rel=1e-6)


@triton.jit
def on_a_block(x):
    if x > 0:
        x = -x
    return x


def test_a_block_is_no_condition():
    execution = executed(on_a_block, [1.0, 2.0], torch.float32)
    assert execution.outcome == "raised" and "a block of shape (2,) is no condition" in str(execution.error)


# every way to a launch


def ones_plus_one(kernel, **options):
    def launch(x):
        y = torch.empty_like(x)
        kernel[(1,)](x, y, **options)
        return y

    execution = execute(launch, (torch.ones(8),), timeout=20)
    assert execution.outcome == "returned", execution.where()
    assert execution.value.tolist() == [2.0] * 8 and execution.launches == 1


@triton.jit
def plus_one(x, y, N: tl.constexpr = 8):
    index = tl.arange(0, N)
    tl.store(y + index, load_by_name(x + index) + 1)


@triton.jit(do_not_specialize=["n"])
def with_options(x, y, n, N: tl.constexpr):
    index = tl.arange(0, N)
    tl.store(y + index, tl.load(x + index, mask=index < n) + 1, mask=index < n)


@triton.heuristics({"N": lambda args: triton.next_power_of_2(args["x"].numel())})
@triton.jit
def with_heuristics(x, y, N: tl.constexpr):
    index = tl.arange(0, N)
    tl.store(y + index, tl.load(x + index) + 1)


@triton.autotune(configs=[triton.Config({"N": 8}), triton.Config({"N": 4}, num_warps=2)], key=["n"])
@triton.jit
def autotuned(x, y, n, N: tl.constexpr):
    index = tl.arange(0, N)
    tl.store(y + index, tl.load(x + index) + 1)


def test_a_plain_kernel_with_launch_options():
    ones_plus_one(plus_one)
    ones_plus_one(plus_one, num_warps=8, num_stages=2)
    ones_plus_one(with_options, n=8, N=8)


def test_a_grid_may_be_a_function_of_the_arguments():
    def launch(x):
        y = torch.empty_like(x)
        copy[lambda meta: (triton.cdiv(meta["source"].numel(), meta["N"]), 1)](x, y, 0, N=8)
        return y

    assert returned(launch, torch.ones(8)).tolist() == [1.0] * 8


def test_every_program_of_a_grid_runs_once():
    def launch():
        y = torch.zeros(2, 3, 4)
        number[(4, 3, 2)](y)
        return y

    assert torch.equal(returned(launch), torch.arange(24.0).reshape(2, 3, 4) + 100)


@triton.jit
def number(y):
    x, size_x = tl.program_id(0), tl.num_programs(0)
    row = tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
    tl.atomic_add(y + row * size_x + x, (row * size_x + x + 100).to(tl.float32))


def test_heuristics():
    ones_plus_one(with_heuristics)


def test_autotuning_takes_the_first_configuration_and_forgets_it():
    ones_plus_one(autotuned, n=8)
    assert autotuned.cache == {}


def test_an_unknown_launch_option_is_refused():
    execution = execute(lambda: copy[(1,)](torch.ones(8), torch.ones(8), 0, N=8, num_wraps=4))
    assert execution.outcome == "raised" and "no parameter 'num_wraps'" in execution.where()


def test_a_kernel_defined_in_a_function_sees_its_closure():
    amount = 3.0

    @triton.jit
    def helper(x):
        return x + amount - 2

    @triton.jit
    def local(x, y, N: tl.constexpr = 8):
        index = tl.arange(0, N)
        tl.store(y + index, helper(tl.load(x + index)))

    ones_plus_one(local)


def test_a_kernel_imported_for_tritons_own_interpreter(tmp_path, monkeypatch):
    path = tmp_path / "interpreted_kernels.py"
    path.write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef helper(x):\n    return x + 1\n\n\n"
        "@triton.jit\ndef kernel(x, y, N: tl.constexpr = 8):\n    index = tl.arange(0, N)\n"
        "    tl.store(y + index, helper(tl.load(x + index)))\n"
    )
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    spec = importlib.util.spec_from_file_location("interpreted_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not isinstance(module.kernel, JITFunction)
    ones_plus_one(module.kernel)


def test_cpu_is_a_context_manager_of_the_package():
    x, y = torch.ones(8), torch.zeros(8)
    with harness.cpu():
        plus_one[(1,)](x, y)
    assert y.tolist() == [2.0] * 8


def test_triton_is_put_back():
    kept = {name: vars(tl.tensor).get(name) for name in ("__add__", "sum", "T", "reduce", "__init__")}
    run, call = JITFunction.run, JITFunction.__call__
    with cpu():
        assert JITFunction.run is not run
        with cpu():
            pass
        assert JITFunction.run is not run
    execute(lambda: plus_one[(1,)](None, None))
    assert (JITFunction.run, JITFunction.__call__) == (run, call)
    assert {name: vars(tl.tensor).get(name) for name in kept} == kept


# allocations


def like(dtype=torch.float32):
    return torch.zeros(4, 6, dtype=dtype)


ALLOCATIONS = {
    "empty": lambda: torch.empty(2, 3),
    "empty in channels last": lambda: torch.empty(2, 3, 4, 5, memory_format=torch.channels_last),
    "empty of a dtype": lambda: torch.empty((2, 3), dtype=torch.bfloat16),
    "empty_strided": lambda: torch.empty_strided((3, 4), (1, 7), dtype=torch.float16),
    "empty_permuted": lambda: torch.empty_permuted((2, 3, 4), (2, 0, 1)),
    "empty_like transposed": lambda: torch.empty_like(like().t()),
    "empty_like permuted": lambda: torch.empty_like(torch.zeros(2, 3, 4).permute(2, 0, 1)),
    "empty_like expanded": lambda: torch.empty_like(torch.zeros(3, 1).expand(3, 4)),
    "empty_like with gaps": lambda: torch.empty_like(like()[:, ::2]),
    "empty_like contiguous": lambda: torch.empty_like(like().t(), memory_format=torch.contiguous_format),
    "empty_like of a dtype": lambda: torch.empty_like(like(), dtype=torch.float8_e5m2),
    "empty_like with gradient": lambda: torch.empty_like(like(), requires_grad=True),
    "new_empty": lambda: like(torch.int16).new_empty(5, 2),
    "new_empty_strided": lambda: like().new_empty_strided((2, 3), (4, 1)),
    "empty of nothing": lambda: torch.empty(0, 3),
    "zeros": lambda: torch.zeros(2, 3),
    "zeros_like": lambda: torch.zeros_like(like(torch.int8).t()),
    "new_zeros": lambda: like().new_zeros(3, dtype=torch.int64),
    "ones": lambda: torch.ones(2, 3, dtype=torch.float8_e4m3fn),
    "ones_like": lambda: torch.ones_like(like().t()),
    "new_ones": lambda: like().new_ones(3),
    "full": lambda: torch.full((2, 3), 7),
    "full_like": lambda: torch.full_like(like(torch.float16), -INF),
    "new_full": lambda: like().new_full((2,), 2.5),
}


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_an_allocation_is_guarded_and_looks_like_torchs_own(name):
    expected = ALLOCATIONS[name]()
    execution = execute(ALLOCATIONS[name])
    got, block = execution.value, execution.blocks[-1]
    assert block.holds(got) and got._base is None and not got._is_view()
    assert (got.shape, got.stride(), got.dtype) == (expected.shape, expected.stride(), expected.dtype)
    assert got.requires_grad == expected.requires_grad and got.device == expected.device
    if name.startswith(("empty", "new_empty")):
        assert block.untouched(got.detach()).all()
    else:
        assert torch.equal(got.double(), expected.double()) and not block.untouched(got).any()
    assert block.damage() == []
    block.storage.view(torch.uint8)[(block.base - 1) * got.element_size()] ^= 1
    assert block.damage() == [-1]


def test_what_is_not_an_allocation_is_left_alone():
    x = torch.arange(6.0)
    execution = execute(
        lambda: (x + 1, x.clone(), torch.empty(3, device="meta"), torch.empty(2, dtype=torch.complex64))
    )
    assert execution.outcome == "returned" and execution.blocks == []
    assert execution.value[2].device.type == "meta"


def test_an_allocation_that_is_resized_is_judged_no_longer():
    def launch(x):
        out = torch.empty(0)
        torch.add(x, 1, out=out)
        return out

    execution = execute(launch, (torch.ones(5),))
    assert execution.value.tolist() == [2.0] * 5 and execution.blocks == []


def test_an_autograd_function_may_allocate():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.empty_like(x)
            y.copy_(2 * x)
            return y

        @staticmethod
        def backward(ctx, grad):
            return torch.empty_like(grad).copy_(2 * grad)

    def launch(x):
        y = Double.apply(x)
        y.add_(1)
        (grad,) = torch.autograd.grad(y.sum(), x)
        return grad

    assert returned(launch, torch.ones(3, requires_grad=True)).tolist() == [2.0] * 3


def test_the_fill_is_what_an_execution_poisons_with():
    value = execute(lambda: torch.empty(2), fill="+large").value
    assert value.tolist() == pytest.approx([3.4028235e37] * 2, rel=1e-4)


# outcomes


@triton.jit
def endless(y):
    step = 0
    while step >= 0:
        step = 0
    tl.store(y, step)


def test_an_endless_kernel_is_hung():
    execution = execute(lambda: endless[(1,)](torch.zeros(1)), timeout=0.2)
    assert execution.outcome == "hung"
    assert isinstance(execution.error, TimeoutError) and "test_executors.py" in execution.where()


@pytest.mark.parametrize("in_main_thread", [True, False])
def test_time_that_other_programs_take_is_not_the_functions(monkeypatch, in_main_thread):
    """Until the machine has given the function its time: here at the fifth look."""
    looks = []

    def withheld(process=None, thread=None):
        looks.append(thread)
        return 1000.0 if 1 < len(looks) < 6 else 0.0

    monkeypatch.setattr(contention, "withheld", withheld)
    outcomes = []

    def work():
        outcomes.append(execute(lambda: endless[(1,)](torch.zeros(1)), timeout=0.1).outcome)

    if in_main_thread:
        work()
    else:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(60)
    assert outcomes == ["hung"]
    assert len(looks) >= 6 and len(set(looks)) == 1


def test_what_was_withheld_from_a_thread_is_read_from_the_system(tmp_path, monkeypatch):
    monkeypatch.setattr(contention, "Path", lambda path: tmp_path)
    assert contention.withheld(7) == 0.0
    (tmp_path / "7" / "task" / "9").mkdir(parents=True)
    (tmp_path / "7" / "schedstat").write_text("5000 1500000000 3\n")
    (tmp_path / "7" / "task" / "9" / "schedstat").write_text("5000 250000000 3\n")
    assert (contention.withheld(7), contention.withheld(7, 9)) == (1.5, 0.25)


def test_a_function_cannot_swallow_its_time_limit():
    def stubborn():
        while True:
            with contextlib.suppress(Exception):
                threading.Event().wait()

    assert execute(stubborn, timeout=0.1).outcome == "hung"


def test_the_time_limit_holds_in_another_thread():
    outcomes = []

    def work():
        outcomes.append(execute(lambda: endless[(1,)](torch.zeros(1)), timeout=0.2).outcome)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert outcomes == ["hung"]


TRACED = """
import sys, threading
from harness.executors import execute

def endless():
    while True:
        pass

def work():
    outcomes.append(execute(endless, timeout=0.05).outcome)
    outcomes.append(execute(lambda: 7, timeout=50).outcome)
    sys.settrace(lambda frame, event, argument: None)
    outcomes.append((lambda: 7)())

outcomes = []
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert outcomes == ["hung", "returned", 7], outcomes
"""


def test_a_time_limit_leaves_nothing_pending_in_its_thread():
    """Where something is, CPython 3.11 loops for good at the start of a traced function."""
    subprocess.run([sys.executable, "-c", TRACED], check=True, timeout=120)


@pytest.mark.parametrize("in_main_thread", [True, False])
def test_an_import_is_not_left_half_done(tmp_path, monkeypatch, in_main_thread):
    """The time is over while the module runs: the module ends, and then the function is interrupted."""
    (tmp_path / "slow_module.py").write_text("for i in range(10**7): pass\ncomplete = True\n")
    monkeypatch.syspath_prepend(tmp_path)

    def imports():
        import slow_module  # type: ignore[import-not-found]

        while slow_module.complete:
            pass

    executions = []
    if in_main_thread:
        executions.append(execute(imports, timeout=0.01))
    else:
        thread = threading.Thread(
            target=lambda: executions.append(execute(imports, timeout=0.01)), daemon=True
        )
        thread.start()
        thread.join(60)
    assert executions[0].outcome == "hung"
    assert sys.modules.pop("slow_module").complete


def test_a_function_in_time_is_not_interrupted_later():
    handler = signal.getsignal(signal.SIGALRM)
    assert execute(lambda: 7, timeout=50).value == 7
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is handler


GLOBAL_STATE = {
    "dtype": (lambda: torch.set_default_dtype(torch.float16), torch.get_default_dtype),
    "device": (lambda: torch.set_default_device("meta"), torch.get_default_device),
    "gradients": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled),
    "subnormals": (
        lambda: torch.set_flush_denormal(True),
        lambda: float(torch.tensor([5e-324], dtype=torch.float64) * 1.0),
    ),
    "deterministic": (
        lambda: torch.use_deterministic_algorithms(True),
        torch.are_deterministic_algorithms_enabled,
    ),
    "threads": (lambda: torch.set_num_threads(3), torch.get_num_threads),
    "NumPy": (lambda: np.seterr(all="raise"), np.geterr),
    "stdout": (lambda: setattr(sys, "stdout", io.StringIO()), lambda: id(sys.stdout)),
}


@pytest.mark.parametrize("name", GLOBAL_STATE)
@pytest.mark.parametrize("ending", [None, ValueError])
def test_global_state_is_put_back(name, ending):
    change, state = GLOBAL_STATE[name]
    before = state()

    def careless():
        change()
        seen.append(state())
        if ending:
            raise ending

    seen = []
    execution = execute(careless)
    assert execution.outcome == ("raised" if ending else "returned")
    assert state() == before != seen[0]


@triton.jit
def add_one(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) + 1, i < n)


def test_a_verdict_does_not_depend_on_the_users_settings():
    """The function runs with them, and only the function."""
    seen = set()

    def total(x, dim):
        seen.add((torch.get_default_dtype(), torch.get_default_device().type))
        flushed = bool(torch.full((1,), 1e-40, dtype=torch.float32, device="cpu").mul(1).eq(0))
        torch.set_flush_denormal(False)  # what is right has subnormal results
        ones = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        add_one[(-(-x.numel() // 64),)](x.contiguous(), ones, x.numel(), BLOCK=64)
        result = x.double().sum(dim).to(x.dtype)
        torch.set_flush_denormal(flushed)
        return result

    def doubled(x, dim):
        return 2 * total(x, dim)

    plain = [str(harness.check(fn, references.sum, examples=60)) for fn in (total, doubled)]
    torch.set_default_dtype(torch.bfloat16)
    torch.set_default_device("meta")
    torch.set_flush_denormal(True)
    seen.clear()
    try:
        odd = [str(harness.check(fn, references.sum, examples=60)) for fn in (total, doubled)]
        assert torch.get_default_dtype() == torch.bfloat16 and torch.get_default_device().type == "meta"
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        torch.set_flush_denormal(False)
    assert seen == {(torch.bfloat16, "meta")}
    assert odd == plain and plain[0].startswith("PASS") and plain[1].startswith("FAIL")


class OfItsOwn(BaseException):
    pass


@pytest.mark.parametrize("kind", [GeneratorExit, SystemExit, OfItsOwn])
def test_what_is_no_exception_is_caught_too(kind):
    def leave():
        raise kind("bye")

    execution = execute(leave)
    assert execution.outcome == "raised" and isinstance(execution.error, kind)


def test_ctrl_c_passes():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(interrupted)


def test_a_closed_stdout_keeps_its_text():
    def closes():
        print("before")
        sys.stdout.close()

    assert execute(closes).printed == "before\n"


@triton.jit
def talkative(x):
    tl.device_print("x", tl.load(x))
    print("again", tl.load(x))
    tl.static_print("at compile time")


def test_everything_printed_is_captured(capfd):
    def launch(x):
        print("from the launcher")
        print("to stderr", file=sys.stderr)
        talkative[(2,)](x)

    printed = execute(launch, (torch.full((1,), 42.0),)).printed
    for part in (
        "from the launcher",
        "to stderr",
        "(0, 0, 0) x: [42.]",
        "(1, 0, 0) again: [42.]",
        "at compile time",
    ):
        assert part in printed
    assert capfd.readouterr() == ("", "")


def test_a_function_may_decline_before_its_first_launch():
    def decline(error):
        raise error

    def late(error):
        plus_one[(1,)](torch.ones(8), torch.ones(8))
        raise error

    for error in (harness.Unsupported("no fp64"), NotImplementedError("later")):
        execution = execute(decline, (error,))
        assert (execution.outcome, execution.error, execution.launches) == ("declined", error, 0)
        execution = execute(late, (error,))
        assert (execution.outcome, execution.error, execution.launches) == ("raised", error, 1)


@triton.jit
def with_assembly(x, y):
    value = tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [tl.load(x)], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(y, value)


def test_what_the_executor_lacks_is_no_fault_of_the_kernel():
    x = torch.zeros(1, dtype=torch.int32)
    execution = execute(lambda: with_assembly[(1,)](x, x))
    assert execution.outcome == "declined" and isinstance(execution.error, NotSimulated)
    assert "inline_asm" in execution.where()


@triton.jit
def broken(x):
    tl.store(x, tl.load(x) + undefined_name)  # type: ignore[name-defined]  # noqa: F821


def test_an_error_is_located_at_the_users_own_line():
    execution = execute(lambda: broken[(1,)](torch.zeros(1)))
    line = next(
        n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "undefined_name)" in text
    )
    assert execution.outcome == "raised" and isinstance(execution.error, NameError)
    assert execution.where().endswith(
        f"test_executors.py:{line}: NameError: name 'undefined_name' is not defined"
    )
    # Raised in Triton, and in the executor.
    for execution in (executed(exp, [1], torch.int32), executed(double, [1.0], torch.float8_e5m2)):
        assert execution.outcome == "raised" and "test_executors.py:" in execution.where()


def test_launches_are_counted_and_logging_does_no_harm():
    def launch():
        logging.getLogger("kernels").warning("launching")
        for _ in range(3):
            plus_one[(1,)](torch.ones(8), torch.ones(8))

    assert execute(launch).launches == 3


def test_a_function_without_triton_runs_as_it_is():
    execution = execute(torch.softmax, (torch.zeros(2, 4),), {"dim": 1})
    assert execution.value.tolist() == [[0.25] * 4] * 2 and execution.launches == 0


def test_a_device_that_is_none_is_a_usage_error():
    with pytest.raises(harness.HarnessError, match="device='cuda'"):
        execute(lambda: None, device="meta")
