"""Overflow adds answers, special values propagate, and no allowed error is NaN.

What an implementation may hold is found by trying: all orders of a sum, and every operation on every value
that its operand may hold.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from emulation import Unit
from judging import Array, model

from harness import numbers
from harness.checks.judgement import Target
from harness.checks.sentence import judge
from harness.formats import FLOAT16, FLOAT32, FLOAT64, Format, round_to
from harness.numbers import Answer, Model, read_double, read_exactly, read_float64
from harness.numbers.number import LOST, NAN, NINF, PINF, SPANNED, UNSPECIFIED
from references import attention, log_softmax, logsumexp, softmax, vector_norm

LARGEST = FLOAT32.max


def answered(definition: Callable[..., Any], held_to: Model, **arrays: Any) -> Answer:
    """The reading of a definition whose result has one element; the wider one where float64 is lost."""
    tensors = {k: torch.tensor(v, dtype=torch.float64) for k, v in arrays.items()}
    answer = read_float64(definition, tensors, held_to, [(1,)])[0]
    if answer.lost:
        wide = read_exactly(definition, tensors, held_to, [(1,)])[0]
        return dataclasses.replace(wide, value=wide.value[0], t=wide.t[0])
    assert not torch.isnan(answer.t).any()
    assert (answer.t >= 0).all()
    return answer


def allows(answer: Answer, held: float, threshold: float = FLOAT32.overflow_threshold) -> bool:
    """Whether one element may be ``held``."""
    value, t, may = answer.value, answer.t, int(answer.may[0])
    if may & UNSPECIFIED:
        return True
    if math.isnan(held):
        return bool(value != value) or bool(may & NAN)
    if math.isinf(held):
        beyond = value + t >= threshold if held > 0 else value - t <= -threshold
        return bool(held == value or beyond) or bool(may & (PINF if held > 0 else NINF))
    return bool(math.isfinite(held) and abs(held - value) <= t)


def as_tensor(values: Any) -> torch.Tensor:
    """float64 of a tensor or of mpmath numbers."""
    return (
        values.double() if isinstance(values, torch.Tensor) else torch.from_numpy(values.astype(np.float64))
    )


def trees(terms: tuple[float, ...], combine: Callable[[float, float], float]) -> Iterator[float]:
    """Results of all binary trees over the terms in this order."""
    if len(terms) == 1:
        yield terms[0]
    for cut in range(1, len(terms)):
        for left in set(trees(terms[:cut], combine)):
            for right in set(trees(terms[cut:], combine)):
                yield combine(left, right)


def every_order(terms: list[float], combine: Callable[[float, float], float]) -> set[float]:
    found = {value for order in itertools.permutations(terms) for value in trees(order, combine)}
    return {math.nan if math.isnan(value) else value for value in found}


def float32(operation: Callable[[np.float32, np.float32], np.float32]) -> Callable[[float, float], float]:
    def combine(a: float, b: float) -> float:
        with np.errstate(all="ignore"):
            return float(operation(np.float32(a), np.float32(b)))

    return combine


NEAR_OVERFLOW = {
    "both signs": [LARGEST, LARGEST, -LARGEST, -LARGEST],
    "positive": [2.0**127, 2.0**127, -(2.0**127), 1.0],
    "negative": [-(2.0**127), -(2.0**127), 2.0**127, 1.0],
    "half an ulp more": [LARGEST, 2.0**103, -(2.0**127)],
    "less than half an ulp more": [LARGEST, 2.0**102, -(2.0**127)],
    "in range": [LARGEST / 2, LARGEST / 4, -LARGEST / 2, -LARGEST / 4],
    "overflowing": [LARGEST, LARGEST, 1.0],
    "small": [LARGEST, LARGEST, -LARGEST, -LARGEST, 1.0],
}


@pytest.mark.parametrize("name", NEAR_OVERFLOW)
def test_overflowing_sums_have_the_answers_of_their_orders(name: str) -> None:
    """+inf exactly where the positive terms alone reach the threshold, -inf likewise, NaN where both do."""
    terms = NEAR_OVERFLOW[name]
    held = every_order(terms, float32(np.add))
    answer = answered(lambda x: numbers.sum(x, -1), model(), x=terms)
    for value in held:
        assert allows(answer, value), f"{value!r} is what some order gives"
    for value in (math.inf, -math.inf):
        possible = allows(answer, value)
        assert possible == (value in held) or "half an ulp" in name, f"{value} allowed: {possible}"
    assert allows(answer, math.nan) == any(math.isnan(value) for value in held)


def test_float64_sums_overflow_too() -> None:
    """The wide reading holds what float64 does not: its overflow adds the same answers."""
    large = 2.0**1023
    x = torch.tensor([[large, large, -large], [large / 4, large / 4, 1.0]], dtype=torch.float64)
    answer = read_exactly(lambda x: numbers.sum(x, -1), {"x": x}, model(FLOAT64), [(2, 1)])[0]
    assert answer.value[0, 0] == large
    assert answer.may.tolist() == [[PINF], [0]]
    both = torch.tensor([[large, large, -large, -large]], dtype=torch.float64)
    answer = read_exactly(lambda x: numbers.sum(x, -1), {"x": both}, model(FLOAT64), [(1, 1)])[0]
    assert answer.may.tolist() == [[PINF | NINF | NAN]]


PRODUCTS = {
    "overflow and back": [1e30, 1e30, 1e-30, 1e-30],
    "negative": [-1e30, 1e30, 1e-30, 1e-20],
    "underflow": [1e-30, 1e-30, 1e20, 1.5],
    "subnormal partial product": [1.1e-22, 1.3e-22, 1e20, 1e20],
    "zero": [1e30, 1e30, 0.0, 3.0],
    "overflow": [1e30, 1e30, 2.0],
    "in range": [1e30, 1e-30, 3.0, 1e5],
    "many underflows": [0.7, 0.7, 3 * FLOAT32.eta, 1e38, 1e38],
    "infinite and underflow": [math.inf, 1e-30, 1e-30],
    "infinite and zero": [math.inf, 0.0, 2.0],
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_have_the_answers_of_their_orders(name: str) -> None:
    factors = [float(np.float32(v)) for v in PRODUCTS[name]]
    held = every_order(factors, float32(np.multiply))
    answer = answered(lambda x: numbers.prod(x, -1), model(), x=factors)
    for value in held:
        assert allows(answer, value), f"{value!r} is what some order gives"
    for value in (math.inf, -math.inf, math.nan):
        attained = any(v == value or (v != v and value != value) for v in held)
        if not attained:
            assert not allows(answer, value), f"no order gives {value}"
    if name == "in range":
        assert not allows(answer, 0.0)


HUGE, SMALL = 2.0**100, 2.0**-100
LONG_PRODUCTS: dict[str, tuple[list[float], set[float]]] = {
    "beyond float64": ([1.5] * 5000, {math.inf}),
    "beyond float64, negative": ([-HUGE] + [HUGE] * 20, {-math.inf}),
    "beyond, and vanishing": ([HUGE] * 20 + [SMALL] * 3, {math.inf, -math.inf, 0.0, math.nan, 1.0}),
    "beyond, and nearly vanishing": ([HUGE] * 20 + [2.0**-70, 2.0**-70], {math.inf}),
    "infinite, and vanishing": ([math.inf] + [-SMALL] * 21, {-math.inf, math.nan}),
    "vanishing, then infinite": ([SMALL] * 20 + [math.inf], {math.inf, math.nan}),
    "below float64": ([0.5] * 5000, {0.0}),
}


@pytest.mark.parametrize("name", LONG_PRODUCTS)
def test_long_products_need_no_wider_reading(name: str) -> None:
    """float64 knows that they are beyond float32, and says the same as mpmath."""
    factors, right = LONG_PRODUCTS[name]
    x = torch.tensor([factors], dtype=torch.float64)
    target = Target("number", FLOAT32, FLOAT32)
    for read in (read_float64, read_exactly):
        answer = read(lambda x: numbers.reshape(numbers.prod(x, -1), (1,)), {"x": x}, model(), [(1,)])[0]
        assert not answer.lost
        for value in (math.inf, -math.inf, math.nan, 0.0, 1.0):
            got = torch.tensor([value], dtype=torch.float64)
            allowed = any(value == v or (value != value and v != v) for v in right)
            assert bool(judge(got, answer, target).right) == allowed, (read.__name__, value)


def test_a_product_beyond_float64_is_no_operand() -> None:
    x = torch.tensor([[HUGE] * 20], dtype=torch.float64)
    for definition in (lambda p: p * SMALL, numbers.log, lambda p: numbers.maximum(p, 1.0), numbers.absolute):
        assert read_float64(lambda x, f=definition: f(numbers.prod(x, -1)), {"x": x}, model(), [(1, 1)])[
            0
        ].lost


def _of_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one argument, whatever its name, as a definition of x."""
    return lambda x: function(x)  # noqa: PLW0108


@pytest.mark.parametrize(
    "definition",
    [
        _of_one(numbers.sigmoid),
        lambda x: x * numbers.sigmoid(x),
        lambda x: x / (1.0 + numbers.exp(-x)),
        lambda x: x / (numbers.exp(-x) + x),
        lambda x: -2.0 / -(3.0 + (1.0 + numbers.exp(-x))),
        lambda x: (x + 1.0) / (1.0 + numbers.exp(0.7 * x)),
    ],
)
def test_a_divisor_beyond_float64_needs_no_wider_reading(definition: Callable[..., Any]) -> None:
    x = torch.tensor([-1e38, -5000.0, -710.0, -100.0, -3.0, 0.5, 90.0, 710.0, 1e38, math.inf, math.nan])
    x = x.to(torch.float64)
    near, wide = (read(definition, {"x": x}, model(), [x.shape])[0] for read in (read_float64, read_exactly))
    assert not near.lost and not wide.lost
    target = Target("number", FLOAT32, FLOAT32)
    zeros = torch.zeros_like(x)
    a, b = judge(zeros, near, target), judge(zeros, wide, target)
    assert torch.equal(a.may & NAN, b.may & NAN)
    values = [0.0, 1e-40, -1e-36, 1.0, -1e30, math.inf, -math.inf, math.nan]
    for got in (round_to(a.value, FLOAT32), *(zeros + value for value in values)):
        assert torch.equal(a.accepts(got), b.accepts(got))


def test_what_float64_holds_is_not_beyond_it() -> None:
    """silu(-712) is 1e-307: a double-double reading that overflows on the way leaves it to mpmath."""
    x = torch.tensor([-712.0, -1e300, -1.7e308], dtype=torch.float64)
    for definition in (
        lambda x: x / (1.0 + numbers.exp(-x)),
        lambda x: numbers.prod(numbers.exp(-x[:1]), -1),
    ):
        assert read_double(definition, {"x": x}, model(FLOAT64), [None])[0].lost
        wide = read_exactly(definition, {"x": x}, model(FLOAT64), [None])[0]
        assert not wide.lost and wide.context.prec == 140
    product = read_double(lambda x: numbers.prod(x, -1), {"x": x[1:]}, model(FLOAT64), [None])[0]
    assert product.lost


SUMS: dict[str, list[float]] = {
    "finite": [3.0, -1.0],
    "zero": [1.0, -1.0],
    "+inf": [LARGEST, LARGEST, -LARGEST],
    "-inf": [-LARGEST, -LARGEST, LARGEST],
    "both, large": [LARGEST, LARGEST, -LARGEST, -LARGEST / 2],
    "both, small": [LARGEST, LARGEST, -LARGEST, -LARGEST, 1.0],
    "both, 0": [LARGEST, LARGEST, -LARGEST, -LARGEST],
    "both, negative": [LARGEST, LARGEST, -LARGEST, -LARGEST, -0.25],
    "certainly inf": [LARGEST, LARGEST],
    "certainly -inf": [-LARGEST, -LARGEST],
}


def total(x: Any) -> Any:
    return numbers.sum(x, -1)


def rounded32(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(x))


def _np(function: Callable[..., Any]) -> Callable[..., float]:
    def call(*operands: float) -> float:
        with np.errstate(all="ignore"):
            return rounded32(float(function(*(np.float64(v) for v in operands))))

    return call


UNARY: dict[str, tuple[Callable[..., Any], Callable[..., float]]] = {
    "-a": (lambda a: -a, _np(np.negative)),
    "a+1": (lambda a: a + 1.0, _np(lambda a: a + 1)),
    "1-a": (lambda a: 1.0 - a, _np(lambda a: 1 - a)),
    "2a": (lambda a: 2.0 * a, _np(lambda a: 2 * a)),
    "0a": (lambda a: 0.0 * a, _np(lambda a: 0 * a)),
    "-a/4": (lambda a: a / -4.0, _np(lambda a: a / -4)),
    "1/a": (lambda a: 1.0 / a, _np(lambda a: 1 / a)),
    "a*a": (lambda a: a * a, _np(lambda a: a * a)),
    "a-a": (lambda a: a - a, _np(lambda a: a - a)),
    "a**2": (lambda a: a**2, _np(lambda a: a**2)),
    "a**3": (lambda a: a**3, _np(lambda a: a**3)),
    "exp": (numbers.exp, _np(np.exp)),
    "exp(-a)": (lambda a: numbers.exp(-a), _np(lambda a: np.exp(-a))),
    "log": (numbers.log, _np(np.log)),
    "sqrt": (numbers.sqrt, _np(np.sqrt)),
    "rsqrt": (numbers.rsqrt, _np(lambda a: 1 / np.sqrt(a))),
    "tanh": (numbers.tanh, _np(np.tanh)),
    "erf": (numbers.erf, _np(math.erf)),
    "sin": (numbers.sin, _np(np.sin)),
    "cos": (numbers.cos, _np(np.cos)),
    "abs": (numbers.absolute, _np(np.abs)),
    "sigmoid": (numbers.sigmoid, _np(lambda a: 1 / (1 + np.exp(-a)))),
    "relu": (lambda a: numbers.maximum(a, 0.0), _np(lambda a: np.maximum(a, 0))),
    "min(a, 2)": (lambda a: numbers.minimum(a, 2.0), _np(lambda a: np.minimum(a, 2))),
    "exp(min(a, 0))": (
        lambda a: numbers.exp(numbers.minimum(a, 0.0)),
        _np(lambda a: np.exp(np.minimum(a, 0))),
    ),
}


@functools.cache
def held_values(name: str) -> set[float]:
    """What float32 kernels may hold of one of the SUMS."""
    return every_order(SUMS[name], float32(np.add))


@pytest.mark.parametrize("terms", SUMS)
@pytest.mark.parametrize("name", UNARY)
def test_flags_follow_an_operand_that_overflowed(name: str, terms: str) -> None:
    definition, function = UNARY[name]
    answer = answered(lambda x: definition(total(x)), model(), x=SUMS[terms])
    for held in held_values(terms):
        result = function(held)
        assert allows(answer, result), f"{name} of {held!r} is {result!r}, allowed: {answer}"


BINARY: dict[str, tuple[Callable[..., Any], Callable[..., float]]] = {
    "a+b": (lambda a, b: a + b, _np(lambda a, b: a + b)),
    "a-b": (lambda a, b: a - b, _np(lambda a, b: a - b)),
    "a*b": (lambda a, b: a * b, _np(lambda a, b: a * b)),
    "a/b": (lambda a, b: a / b, _np(lambda a, b: a / b)),
    "max": (numbers.maximum, _np(np.maximum)),
    "min": (numbers.minimum, _np(np.minimum)),
}


@pytest.mark.parametrize("name", BINARY)
def test_flags_of_two_operands_that_overflowed(name: str) -> None:
    definition, function = BINARY[name]
    for left, right in itertools.product(SUMS, SUMS):
        answer = answered(lambda x, y: definition(total(x), total(y)), model(), x=SUMS[left], y=SUMS[right])
        for a, b in itertools.product(held_values(left), held_values(right)):
            result = function(a, b)
            assert allows(answer, result), f"{a!r} {name} {b!r} is {result!r}, allowed: {answer}"


def _over(x: Any, y: Any, reduce: Callable[..., Any]) -> Any:
    """A reduction over the two sums of x and y."""
    column = numbers.where(torch.tensor([True, False]), total(x), total(y))
    return reduce(column, -1)


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (numbers.sum, lambda a, b: a + b),
    "mean": (numbers.mean, lambda a, b: (a + b) / 2),
    "prod": (numbers.prod, lambda a, b: a * b),
    "amax": (numbers.amax, np.maximum),
    "amin": (numbers.amin, np.minimum),
    "last of cumsum": (lambda x, dim: numbers.cumsum(x, dim)[1:], lambda a, b: a + b),
    "var": (numbers.var, lambda a, b: np.var(np.array([a, b], dtype=np.float32))),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_flags_of_a_reduction_over_terms_that_overflowed(name: str) -> None:
    definition, function = REDUCTIONS[name]
    for left, right in itertools.product(SUMS, SUMS):
        answer = answered(lambda x, y: _over(x, y, definition), model(), x=SUMS[left], y=SUMS[right])
        for a, b in itertools.product(held_values(left), held_values(right)):
            result = _np(function)(rounded32(a), rounded32(b))
            assert allows(answer, result), f"{name} of {a!r}, {b!r} is {result!r}, allowed: {answer}"


def test_flags_of_a_dot_product() -> None:
    for name, (a, b) in {
        "both signs": ([1e38, 1e38, 1e38, 1e38], [3.0, 3.0, -3.0, -3.0]),
        "in range": ([1e38, 1e38, 1.0, 1.0], [1.0, -1.0, 5.0, 1.0]),
        "an infinite product": ([math.inf, 1e38, 1e38], [1.0, -3.0, -3.0]),
    }.items():
        a, b = [rounded32(v) for v in a], [rounded32(v) for v in b]
        held = every_order([float32(np.multiply)(p, q) for p, q in zip(a, b, strict=True)], float32(np.add))
        answer = answered(numbers.matmul, model(), a=[a], b=[[v] for v in b])
        for value in held:
            assert allows(answer, value), f"{name}: {value!r}"
        assert allows(answer, math.nan) == any(math.isnan(value) for value in held), name


def test_a_difference_that_overflows_gives_exp_0() -> None:
    """x - max = -inf in float32, and exp(-inf) = 0 is within the bound of exp(-5e38); nothing is flagged."""
    large = 1.5 * 2.0**127
    x = torch.tensor([[large, -large, -large / 4]], dtype=torch.float64)
    for contract, right in ((softmax, [1.0, 0.0, 0.0]), (logsumexp, [large])):
        held_to = model(contract=contract)
        answer = read_float64(lambda x, c=contract: c(x, -1), {"x": x}, held_to, [(1, len(right))])[0]
        assert (answer.may == 0).all()
        assert (abs(answer.value - torch.tensor([right])) <= answer.t).all()
        assert (answer.t[:, 1:] < 1e-37).all()
    answer = read_float64(lambda x: log_softmax(x, -1), {"x": x}, model(contract=log_softmax), [(1, 3)])[0]
    assert answer.may.tolist() == [[0, NINF, 0]]


def test_a_claimed_rounding_overflows_its_own_format() -> None:
    """The sum of 70,000 exponentials is past float16's range."""
    from harness.arithmetic import Arithmetic

    x = torch.zeros(1, 70000, dtype=torch.float64)
    claimed = Arithmetic(roundings=("total",)).model(softmax, FLOAT16)
    answer = read_float64(lambda x: softmax(x, -1), {"x": x}, claimed, [(1, 70000)])[0]
    assert (answer.t >= answer.value).all(), "1/inf = 0 is right"
    x[0, 0] = 65504.0
    claimed = Arithmetic(roundings=("lse",)).model(log_softmax, FLOAT16)
    answer = read_float64(lambda x: log_softmax(x + 20.0, -1), {"x": x}, claimed, [(1, 70000)])[0]
    assert ((answer.may & NINF) != 0).all(), "x - inf = -inf is right"


SPECIAL_ROWS = [
    [math.nan, 1.0, 2.0],
    [1.0, math.nan, 2.0],
    [math.inf, 1.0, 2.0],
    [-math.inf, 1.0, 2.0],
    [math.inf, -math.inf, 1.0],
    [math.inf, math.inf, math.inf],
    [-math.inf, -math.inf, -math.inf],
    [0.0, math.inf, 1.0],
    [0.0, -math.inf, -1.0],
    [0.0, 0.0, 0.0],
    [-0.0, -0.0, -0.0],
    [math.nan, math.inf, -math.inf],
    [1.0, 2.0, math.inf],
]
AS_TORCH: dict[str, tuple[Callable[..., Any], Callable[[torch.Tensor], torch.Tensor]]] = {
    "sum": (lambda x: numbers.sum(x, -1), lambda x: x.sum(-1, keepdim=True)),
    "mean": (lambda x: numbers.mean(x, -1), lambda x: x.mean(-1, keepdim=True)),
    "prod": (lambda x: numbers.prod(x, -1), lambda x: x.prod(-1, keepdim=True)),
    "amax": (lambda x: numbers.amax(x, -1), lambda x: x.amax(-1, keepdim=True)),
    "amin": (lambda x: numbers.amin(x, -1), lambda x: x.amin(-1, keepdim=True)),
    "cumsum": (lambda x: numbers.cumsum(x, -1), lambda x: x.cumsum(-1)),
    "var": (lambda x: numbers.var(x, -1, 1), lambda x: x.var(-1, correction=1, keepdim=True)),
    "matmul": (lambda x: numbers.matmul(x, x[:3]), lambda x: x @ x[:3]),
    "exp": (numbers.exp, torch.exp),
    "log": (numbers.log, torch.log),
    "sqrt": (numbers.sqrt, torch.sqrt),
    "tanh": (numbers.tanh, torch.tanh),
    "erf": (numbers.erf, torch.erf),
    "sin": (numbers.sin, torch.sin),
    "cos": (numbers.cos, torch.cos),
    "sigmoid": (numbers.sigmoid, torch.sigmoid),
    "square": (lambda x: x**2, torch.square),
    "cube": (lambda x: x**3, lambda x: x**3),
    "abs": (numbers.absolute, torch.abs),
    "relu": (lambda x: numbers.maximum(x, 0.0), torch.relu),
    "min": (lambda x: numbers.minimum(x, 0.5), lambda x: x.clamp(max=0.5)),
    "x/(x+3)": (lambda x: x / (x + 3.0), lambda x: x / (x + 3)),
    "x-amax": (lambda x: x - numbers.amax(x, -1), lambda x: x - x.amax(-1, keepdim=True)),
    "x*sum": (lambda x: x * numbers.sum(x, -1), lambda x: x * x.sum(-1, keepdim=True)),
}


@pytest.mark.parametrize("wide", [False, True], ids=["float64", "mpmath"])
@pytest.mark.parametrize("name", AS_TORCH)
def test_special_rows_are_as_in_torch(name: str, wide: bool) -> None:
    """Values of infinite and NaN rows equal torch's; where they are not finite, nothing else is right."""
    definition, function = AS_TORCH[name]
    x = torch.tensor(SPECIAL_ROWS, dtype=torch.float64)
    wanted = function(x)
    read = read_exactly if wide else read_float64
    answer = read(_of_one(definition), {"x": x}, model(flush="none"), [tuple(wanted.shape)])[0]
    value, t = as_tensor(answer.value), as_tensor(answer.t)
    # torch's value and the reading's err by no more than the same rules allow of float64.
    own = read(_of_one(definition), {"x": x}, model(FLOAT64, flush="none"), [tuple(wanted.shape)])[0].t
    near = (value - wanted).abs() <= 2 * as_tensor(own)
    assert bool((near | (value == wanted) | (value.isnan() & wanted.isnan())).all())
    assert (t[~torch.isfinite(wanted)] == 0).all()
    assert not torch.isnan(t).any()
    may = as_tensor(answer.may).long()
    for special, flag in (
        (wanted == math.inf, PINF),
        (wanted == -math.inf, NINF),
        (torch.isnan(wanted), NAN),
    ):
        assert (may[special] & ~flag == 0).all()


def test_reciprocal_square_root_of_zero_is_either_infinity() -> None:
    answer = read_float64(
        numbers.rsqrt, {"a": torch.tensor([0.0, -0.0], dtype=torch.float64)}, model(), [(2,)]
    )[0]
    assert torch.isinf(answer.value).all()
    assert (answer.may == PINF | NINF).all()


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0), (0, 3), (2, 0, 3), (3, 1), (1, 1, 1, 1)])
@pytest.mark.parametrize("wide", [False, True], ids=["float64", "mpmath"])
def test_empty_axes_and_axes_of_length_1(shape: tuple[int, ...], wide: bool) -> None:
    """Values and shapes as in torch; where torch has no answer (extremes), the identity."""
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    read = read_exactly if wide else read_float64
    for dim in range(-len(shape), len(shape)):
        wanted = {
            numbers.sum: x.sum(dim, keepdim=True),
            numbers.mean: x.mean(dim, keepdim=True),
            numbers.prod: x.prod(dim, keepdim=True),
            numbers.cumsum: x.cumsum(dim),
            numbers.var: x.var(dim, correction=0, keepdim=True),
        }
        if shape[dim]:
            wanted[numbers.amax] = x.amax(dim, keepdim=True)
        else:
            wanted[numbers.amax] = torch.full_like(x.sum(dim, keepdim=True), -math.inf)
            wanted[numbers.amin] = torch.full_like(x.sum(dim, keepdim=True), math.inf)
        for reduce, value in wanted.items():
            answer = read(lambda x, r=reduce, d=dim: r(x, d), {"x": x}, model(), [tuple(value.shape)])[0]
            torch.testing.assert_close(as_tensor(answer.value), value, equal_nan=True)
            t = as_tensor(answer.t)
            assert not torch.isnan(t).any()
            if shape[dim] == 1 and reduce not in (numbers.mean, numbers.var):
                assert (t == 0).all(), f"{reduce.__name__} of one term is exact"


def test_broadcast_operands() -> None:
    """Views with stride 0, operands of fewer axes and constants without axes, with errors and flags."""
    row = torch.tensor([1.0, 2.0, LARGEST], dtype=torch.float64)
    x = row.expand(4, 3)
    assert x.stride() == (0, 1)

    def definition(x: Any, row: Any, column: Any) -> Any:
        flagged = row * 2.0 / 4.0
        return numbers.sum(column + flagged - numbers.exp(-x), 0) + 0.1

    column = torch.ones(4, 1, dtype=torch.float64)
    arguments = {"x": x, "row": row, "column": column}
    answer = read_float64(definition, arguments, model(), [(1, 3)])[0]
    wide = read_exactly(definition, arguments, model(), [(1, 3)])[0]
    dense = {name: value.clone().contiguous() for name, value in arguments.items()}
    again = read_float64(definition, dense, model(), [(1, 3)])[0]
    for other in (wide, again):
        # Values err by what the rules allow of float64; t is larger by the radius, and rounded a dozen times.
        apart = answer.radius + other.radius
        value, t = as_tensor(other.value), as_tensor(other.t)
        (own,) = read_float64(definition, dense, model(FLOAT64), [(1, 3)])
        assert bool(((value - answer.value).abs() <= own.t).all())
        torch.testing.assert_close(t, answer.t, rtol=apart + 12 * 2.0**-53, atol=0.0)
        assert torch.equal(as_tensor(other.may), answer.may.double())
    assert answer.may.tolist() == [[0, 0, PINF]]


def test_arguments_without_axes() -> None:
    def definition(x: Any, y: Any) -> Any:
        return numbers.where(x > 1.0, x * y, 0.5) / (1.0 + numbers.exp(-x)) - numbers.maximum(y, 0.25)

    arguments = {"x": torch.tensor(3.0, dtype=torch.float64), "y": torch.tensor(-0.5, dtype=torch.float64)}
    near = read_float64(definition, arguments, model(), [()])[0]
    wide = read_exactly(definition, arguments, model(), [()])[0]
    assert near.value.shape == () and wide.value.shape == ()
    assert abs(float(near.value) - (3 * -0.5 / (1 + math.exp(-3)) - 0.25)) < 1e-15
    assert math.isclose(float(wide.t), float(near.t), rel_tol=1e-6)


def test_the_float64_reading_says_where_it_is_lost() -> None:
    """log Σ exp(x) without the shift overflows float64 at 1000: the wider reading gives 1000 + log 2."""

    def naive(x: Any) -> Any:
        return numbers.log(numbers.sum(numbers.exp(x), -1))

    x = torch.tensor([[1000.0, 1000.0], [1.0, 2.0]], dtype=torch.float64)
    near = read_float64(naive, {"x": x}, model(), [(2, 1)])[0]
    assert near.lost and ((near.may & LOST) != 0).tolist() == [[True], [False]]
    wide = read_exactly(naive, {"x": x}, model(), [(2, 1)])[0]
    assert not wide.lost
    assert abs(float(wide.value[0, 0]) - (1000 + math.log(2))) < 1e-12
    assert wide.may[0, 0] & PINF, "a float32 kernel overflows here, and that is right"


def _huge(x: Any) -> Any:
    """x·1e190, by constants that float32 holds."""
    for _ in range(5):
        x = x * 1e38
    return x


@pytest.mark.parametrize(
    "definition",
    [
        lambda x: numbers.prod(x, -1) * 1.0,
        lambda x: _huge(x) * _huge(x),
        lambda x: _huge(x) ** 2,
        lambda x: _huge(x) / (1.0 / _huge(x)),
        lambda x: numbers.var(_huge(x), -1),
        lambda x: numbers.matmul(_huge(x), _huge(x)[:, :1] + _huge(numbers.where(x < 0.0, x, 1e38))[:, :1]),
        lambda x: numbers.log(numbers.exp(x)),
    ],
    ids=["prod", "product", "square", "quotient", "var", "matmul", "exp"],
)
def test_every_operation_that_leaves_float64_says_so(definition: Callable[..., Any]) -> None:
    x = torch.tensor([[1e38] * 9 + [2e38]] * 10, dtype=torch.float64)
    shape = tuple(definition_shape(definition, x))
    assert read_float64(definition, {"x": x}, model(), [shape])[0].lost
    assert not read_exactly(definition, {"x": x}, model(), [shape])[0].lost


def definition_shape(definition: Callable[..., Any], x: torch.Tensor) -> tuple[int, ...]:
    from harness.numbers.backend import Float64
    from harness.numbers.number import Reading

    return definition(Reading(Float64(), model()).exact(x)).shape


def test_an_exponential_far_beyond_float64_is_infinite() -> None:
    """Of numbers near float64's largest, of which the powers of a series are none."""
    x = torch.tensor([1e300], dtype=torch.float64)
    (answer,) = read_float64(numbers.exp, {"a": x}, model(FLOAT64), [(1,)])
    assert allows(answer, math.inf, FLOAT64.overflow_threshold) and not allows(answer, 1.0)
    (answer,) = read_float64(lambda x: numbers.exp(-x), {"x": x}, model(FLOAT64), [(1,)])
    assert allows(answer, 0.0) and not allows(answer, 1.0)


@pytest.mark.parametrize("name", ["erf", "tanh", "sin", "cos"])
def test_a_value_of_anything_between_minus_1_and_1_is_spanned(name: str) -> None:
    """Of an argument that cancelled to nothing: so is what is computed of it, but not what is known."""
    x = torch.tensor([[2.0**60, 1.0, -(2.0**60)], [1.0, 2.0, -1.0]], dtype=torch.float64)

    def definition(x: Any) -> Any:
        return getattr(numbers, name)(numbers.sum(x, -1)) * 3.0 + 1.0

    (answer,) = read_float64(definition, {"x": x}, model(), [(2,)])
    assert [int(flags) & SPANNED for flags in answer.may] == [SPANNED, 0]
    assert answer.value[0] - answer.t[0] <= -2 and answer.value[0] + answer.t[0] >= 4
    assert answer.t[1] < 1


def test_an_argument_that_underflowed_leaves_log_open() -> None:
    """Σ exp(x) is 0 in every arithmetic but the exact one: log may be -inf, and nothing is certain."""
    x = torch.tensor([[-1000.0, -1000.0]], dtype=torch.float64)
    answer = read_float64(
        lambda x: numbers.log(numbers.sum(numbers.exp(x), -1)), {"x": x}, model(), [(1, 1)]
    )[0]
    assert int(answer.may) & UNSPECIFIED


@pytest.mark.parametrize("fmt", [FLOAT32, FLOAT16], ids=lambda fmt: fmt.name)
def test_no_allowed_error_is_nan(fmt: Format) -> None:
    """Products of huge, tiny, zero and infinite operands, infinite errors among them: 0·inf is no number."""
    edge = [0.0, -0.0, math.inf, -math.inf, math.nan, fmt.max, -fmt.max, fmt.tiny, fmt.eta, 1.0, -1.0, 1e-3]
    a, b, c = (
        torch.tensor(v, dtype=torch.float64) for v in zip(*itertools.product(edge, repeat=3), strict=True)
    )
    steps: list[Callable[[Any, Any, Any], Any]] = [
        lambda a, b, c: (a - b) / (a - c) * b,
        lambda a, b, c: numbers.exp(a * b) - numbers.exp(c * c),
        lambda a, b, c: numbers.log(a - b) * c,
        lambda a, b, c: numbers.sqrt(a * b - c) / (b - c),
        lambda a, b, c: numbers.rsqrt(a * b - c * c) * 0.0,
        lambda a, b, c: numbers.tanh(a / (b - c)) + numbers.erf(a / (b - c)) + numbers.sin(a / (b - c)),
        lambda a, b, c: (a / (b - c)) ** 3 - (a / (b - c)) ** 2,
        lambda a, b, c: numbers.maximum(a / (b - c), c) * numbers.minimum(a, b * b),
        lambda a, b, c: numbers.sigmoid(a * b) * numbers.cos(c - a),
        lambda a, b, c: numbers.exp(numbers.log(a * a) - numbers.log(b * b)) * c,
    ]
    for i, step in enumerate(steps):
        for held_to in (model(fmt), model(fmt, flush="all"), model(fmt, exp="scaled", flush="none")):
            answer = read_float64(step, {"a": a, "b": b, "c": c}, held_to, [tuple(a.shape)])[0]
            assert not torch.isnan(answer.t).any(), f"step {i}"
            assert (answer.t >= 0).all(), f"step {i}"
            assert (answer.t[~torch.isfinite(answer.value)] == 0).all(), f"step {i}"
    rows = torch.stack([a, b, c], dim=1)
    for reduce in (
        numbers.sum,
        numbers.mean,
        numbers.prod,
        numbers.amax,
        numbers.amin,
        numbers.cumsum,
        numbers.var,
    ):
        for definition in (lambda x, r=reduce: r(x, 1), lambda x, r=reduce: r(x * x - x / (x - 1.0), 1)):
            shape = definition_shape(definition, rows)
            answer = read_float64(definition, {"x": rows}, model(fmt), [shape])[0]
            assert not torch.isnan(answer.t).any(), reduce.__name__
            assert (answer.t >= 0).all(), reduce.__name__


def test_a_large_unit_is_emulated() -> None:
    """The emulation itself overflows and flushes as float32 does."""
    unit = Unit()
    assert unit.add(np.array([LARGEST]), np.array([LARGEST])).tolist() == [math.inf]
    assert unit.exp(np.array([-200.0, 100.0])).tolist() == [0.0, math.inf]
    flushing: Array = Unit(flush="approximate").exp2(np.array([-130.0]))
    assert flushing.tolist() == [0.0]


def test_what_may_be_0_over_an_exact_0_is_an_infinity_or_nan() -> None:
    """The numerator's exact value is 2^-30 or 0, and a kernel may hold either, or -2^-30."""

    def quotient(x: Any, y: Any) -> Any:
        return numbers.sum(x, -1) / y

    for row in ([1.0, 2.0**-30, -1.0], [1.0, 2.0**-60, -1.0], [0.1, 0.2, -0.3]):
        found = answered(quotient, model(depth=2), x=[row], y=[0.0])
        assert int(found.may) & (PINF | NINF | NAN) == PINF | NINF | NAN
    for row, right in (([0.0, 0.0], 0), ([1.0, 1.0], PINF | NINF)):
        assert int(answered(quotient, model(depth=2), x=[row], y=[0.0]).may) == right


@pytest.mark.parametrize("name", ["sum", "matmul"])
def test_an_infinity_beside_terms_that_overflow_the_reading_is_lost(name: str) -> None:
    row = [math.inf, -1.7e308, 1.0, -1.7e308]
    x = torch.tensor([row], dtype=torch.float64)
    given = {"x": x} if name == "sum" else {"a": x, "b": torch.ones(4, 1, dtype=torch.float64)}
    definition = (lambda x: numbers.sum(x, -1)) if name == "sum" else numbers.matmul
    found = read_double(definition, given, model(FLOAT64), [None])[0]
    assert bool((found.may & LOST).all())
    plain = {key: value.clamp(min=-1.0) for key, value in given.items()}
    found = read_double(definition, plain, model(FLOAT64), [None])[0]
    assert float(found.value.hi) == math.inf and not bool((found.may & LOST).any())


def test_scores_that_overflow_the_reading_to_nan_are_lost() -> None:
    """q·k adds up to NaN in float64 where it is 0 exactly."""
    q = torch.tensor([1.7e308, 1.7e308, -1.7e308, -1.7e308], dtype=torch.float64).reshape(1, 1, 1, 4)
    given = {
        "q": q,
        "k": torch.full((1, 1, 3, 4), 2.0, dtype=torch.float64),
        "v": torch.ones(1, 1, 3, 2).double(),
    }
    scalars = {"scale": 1.0, "causal": None, "window": None}
    found = read_double(attention.definition, {**given, **scalars}, model(FLOAT64, attention), [None])[0]
    assert bool((found.may & LOST).all())


ROOTS: dict[str, Callable[..., Any]] = {
    "squares by a product": lambda x: numbers.sqrt(numbers.sum(x * x, -1)),
    "squares by a power, half of them": lambda x: numbers.sqrt(0.5 * numbers.mean(x**2, -1)),
    "magnitudes of parts": lambda x: numbers.sqrt(
        numbers.sum(numbers.reshape(numbers.absolute(x[..., :2]), (1, 2)) ** 3, -1) / 3.0
    ),
    "two sums of squares": lambda x: numbers.sqrt(numbers.sum(x * x, -1) + numbers.sum(x**4, -1)),
    "a variance": lambda x: numbers.sqrt(numbers.var(x, -1)),
    "the larger of two": lambda x: numbers.sqrt(numbers.maximum(numbers.sum(x * x, -1), 0.0)),
    "what is kept": lambda x: numbers.sqrt(numbers.sum(numbers.where(x == 0, x * x, numbers.exp(x)), -1)),
    "a claimed rounding": lambda x: numbers.sqrt(numbers.sum(numbers.rounded(x * x, "squares"), -1)),
}


@pytest.mark.parametrize("name", ROOTS)
@pytest.mark.parametrize("claims", [{}, {"roundings": ("squares",), "flush": "all"}])
def test_the_root_of_what_cannot_be_negative_is_no_nan(name: str, claims: dict[str, Any]) -> None:
    answer = answered(ROOTS[name], model(FLOAT32, vector_norm, **claims), x=[0.0, 0.0, 0.0])
    assert allows(answer, 0.0)
    assert not allows(answer, math.nan)


def test_the_root_of_a_difference_may_be_nan() -> None:
    def textbook(x: Any) -> Any:
        return numbers.sqrt(numbers.mean(x * x, -1) - numbers.mean(x, -1) ** 2)

    assert allows(answered(textbook, model(FLOAT32), x=[3.0, 3.0, 3.0]), math.nan)


def test_the_logarithm_of_what_cannot_be_negative_is_no_nan() -> None:
    answer = answered(lambda x: numbers.log(numbers.sum(x * x, -1)), model(FLOAT32), x=[1e-23, 0.0])
    assert allows(answer, -math.inf)
    assert not allows(answer, math.nan)


def test_denominators_that_may_all_be_0_leave_everything_open() -> None:
    x = torch.tensor([3.0, 5.0], dtype=torch.float64)
    found = read_float64(lambda x: 1.0 / (x - x + 1.0 - 1.0), {"x": x}, model(), [None])[0]
    assert ((found.may & UNSPECIFIED) != 0).tolist() == [True, True]
