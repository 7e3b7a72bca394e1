"""Every elementwise rule of the error algebra, attacked with emulated operations that keep the claim.

Each rule must allow what an implementation holds that rounds once per operation and misses approximated
results by up to 2 ulp, in three formats, and each must be broken by some of them once u is four times too
small: an allowed error that nothing reaches would hide bugs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from adversarial import operands, subnormals
from emulation import Unit
from judging import Array, attack, elementwise, model, mp, narrower, rejected

import references
from harness import numbers
from harness.arithmetic import Arithmetic
from harness.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Format, round_to
from harness.numbers import read_double, read_exactly, read_float64
from harness.numbers.backend import Float64
from harness.numbers.number import Reading

FORMATS = [FLOAT32, FLOAT16, BFLOAT16]
MISSES: list[int | str] = [0, 2, -2, 1, -1, "random"]
COUNT = 400


@dataclass(frozen=True)
class Rule:
    """A formula over numbers, the same by an emulated unit, the same in mpmath, and its operands.

    windows: of the operands' exponents in float32; narrower formats cut them to their range.
    """

    name: str
    definition: Callable[..., Any]
    emulated: Callable[..., Array]
    exact: Callable[..., Any]
    windows: tuple[tuple[int, int], ...]
    signed: bool = True


def _mp_rsqrt(x: Any) -> Any:
    return 1 / mp.sqrt(x)


def _quotient(a: Any, b: Any) -> Any:
    return a / b if b else mp.inf * a


RULES = [
    Rule("a+b", lambda a, b: a + b, lambda U, a, b: U.add(a, b), lambda a, b: a + b, ((-4, 4), (-8, 4))),
    Rule("a-b", lambda a, b: a - b, lambda U, a, b: U.sub(a, b), lambda a, b: a - b, ((-4, 4), (-4, 4))),
    Rule(
        "(a+b)-c",
        lambda a, b, c: (a + b) - c,
        lambda U, a, b, c: U.sub(U.add(a, b), c),
        lambda a, b, c: (a + b) - c,
        ((0, 2), (-2, 2), (0, 2)),
    ),
    Rule("a*b", lambda a, b: a * b, lambda U, a, b: U.mul(a, b), lambda a, b: a * b, ((-3, 3), (-3, 3))),
    Rule(
        "(a+b)*(c-d)",
        lambda a, b, c, d: (a + b) * (c - d),
        lambda U, a, b, c, d: U.mul(U.add(a, b), U.sub(c, d)),
        lambda a, b, c, d: (a + b) * (c - d),
        ((-3, 3), (-3, 3), (-3, 3), (-3, 3)),
    ),
    Rule(
        "a*b+c",
        lambda a, b, c: a * b + c,
        lambda U, a, b, c: U.add(U.mul(a, b), c),
        lambda a, b, c: a * b + c,
        ((-2, 2), (-2, 2), (-3, 3)),
    ),
    Rule(
        "a*b+c contracted",
        lambda a, b, c: a * b + c,
        lambda U, a, b, c: U.fma(a, b, c),
        lambda a, b, c: a * b + c,
        ((-2, 2), (-2, 2), (-3, 3)),
    ),
    Rule("a/b", lambda a, b: a / b, lambda U, a, b: U.div(a, b), lambda a, b: a / b, ((-3, 3), (-3, 3))),
    Rule(
        "(a*b)/(c-d)",
        lambda a, b, c, d: (a * b) / (c - d),
        lambda U, a, b, c, d: U.div(U.mul(a, b), U.sub(c, d)),
        lambda a, b, c, d: _quotient(a * b, c - d),
        ((-3, 3), (-3, 3), (0, 1), (0, 1)),
    ),
    Rule("a**2", lambda a: a**2, lambda U, a: U.mul(a, a), lambda a: a**2, ((-3, 3),)),
    Rule("a**3", lambda a: a**3, lambda U, a: U.mul(U.mul(a, a), a), lambda a: a**3, ((-3, 3),)),
    Rule(
        "(a-b)**5",
        lambda a, b: (a - b) ** 5,
        lambda U, a, b: _fifth(U, U.sub(a, b)),
        lambda a, b: (a - b) ** 5,
        ((0, 1), (0, 1)),
    ),
    Rule("sqrt(a)", numbers.sqrt, Unit.sqrt, mp.sqrt, ((-6, 6),), signed=False),
    Rule(
        "sqrt(a*b)",
        lambda a, b: numbers.sqrt(a * b),
        lambda U, a, b: U.sqrt(U.mul(a, b)),
        lambda a, b: mp.sqrt(a * b),
        ((-3, 3), (-3, 3)),
        signed=False,
    ),
    Rule("rsqrt(a)", numbers.rsqrt, Unit.rsqrt, _mp_rsqrt, ((-6, 6),), signed=False),
    Rule(
        "rsqrt(a+b)",
        lambda a, b: numbers.rsqrt(a + b),
        lambda U, a, b: U.rsqrt(U.add(a, b)),
        lambda a, b: _mp_rsqrt(a + b),
        ((-3, 3), (-3, 3)),
        signed=False,
    ),
    Rule("exp(a)", numbers.exp, Unit.exp, mp.exp, ((-8, 6),)),
    Rule("exp(a) far from 0", numbers.exp, Unit.exp, mp.exp, ((3, 6),)),
    Rule(
        "exp(a-b)",
        lambda a, b: numbers.exp(a - b),
        lambda U, a, b: U.exp(U.sub(a, b)),
        lambda a, b: mp.exp(a - b),
        ((0, 5), (0, 5)),
    ),
    Rule("log(a)", numbers.log, Unit.log, mp.log, ((-12, 12),), signed=False),
    Rule(
        "log(a*b)",
        lambda a, b: numbers.log(a * b),
        lambda U, a, b: U.log(U.mul(a, b)),
        lambda a, b: mp.log(a * b),
        ((-1, 1), (-1, 1)),
        signed=False,
    ),
    Rule("tanh(a)", numbers.tanh, Unit.tanh, mp.tanh, ((-8, 3),)),
    Rule(
        "tanh(a-b)",
        lambda a, b: numbers.tanh(a - b),
        lambda U, a, b: U.tanh(U.sub(a, b)),
        lambda a, b: mp.tanh(a - b),
        ((0, 1), (0, 1)),
    ),
    Rule("erf(a)", numbers.erf, Unit.erf, mp.erf, ((-8, 2),)),
    Rule(
        "erf(a*b)",
        lambda a, b: numbers.erf(a * b),
        lambda U, a, b: U.erf(U.mul(a, b)),
        lambda a, b: mp.erf(a * b),
        ((-2, 0), (-2, 0)),
    ),
    Rule("sin(a)", numbers.sin, Unit.sin, mp.sin, ((-8, 12),)),
    Rule(
        "sin(a*b)",
        lambda a, b: numbers.sin(a * b),
        lambda U, a, b: U.sin(U.mul(a, b)),
        lambda a, b: mp.sin(a * b),
        ((-3, 3), (-3, 3)),
    ),
    Rule("cos(a)", numbers.cos, Unit.cos, mp.cos, ((-8, 12),)),
    Rule(
        "sigmoid(a)",
        numbers.sigmoid,
        lambda U, a: U.div(np.ones_like(a), U.add(np.ones_like(a), U.exp(-a))),
        lambda a: 1 / (1 + mp.exp(-a)),
        ((-3, 6),),
    ),
    Rule(
        "max(a*b, c)-|a|",
        lambda a, b, c: numbers.maximum(a * b, c) - numbers.absolute(a),
        lambda U, a, b, c: U.sub(np.maximum(U.mul(a, b), c), abs(a)),
        lambda a, b, c: max(a * b, c) - abs(a),
        ((-2, 2), (-2, 2), (-2, 2)),
    ),
    Rule(
        "min(a*b, c*c)-where",
        lambda a, b, c: numbers.minimum(a * b, c * c) - numbers.where(a > 1.0, a * c, -b),
        lambda U, a, b, c: U.sub(np.minimum(U.mul(a, b), U.mul(c, c)), np.where(a > 1, U.mul(a, c), -b)),
        lambda a, b, c: min(a * b, c * c) - (a * c if a > 1 else -b),
        ((-2, 2), (-2, 2), (-2, 2)),
    ),
]
BY_NAME = {rule.name: rule for rule in RULES}


def _fifth(unit: Unit, a: Array) -> Array:
    square = unit.mul(a, a)
    return unit.mul(unit.mul(square, square), a)


def _arguments(rule: Rule, fmt: Format, seed: int = 0) -> dict[str, Array]:
    names = "abcd"[: len(rule.windows)]
    return {
        name: operands(fmt, COUNT, seed + i, low, high, signed=rule.signed)
        for i, (name, (low, high)) in enumerate(zip(names, rule.windows, strict=True))
    }


def _called(rule: Rule) -> Callable[..., Any]:
    return lambda **named: rule.definition(*named.values())


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("name", BY_NAME)
def test_rule_allows_what_keeps_the_claim(name: str, fmt: Format) -> None:
    rule = BY_NAME[name]
    arguments = _arguments(rule, fmt)
    exact = elementwise(rule.exact, *arguments.values())
    held = {f"off by {off}": rule.emulated(Unit(fmt, off), *arguments.values()) for off in MISSES}
    attack(_called(rule), arguments, exact, held, model(fmt))
    if fmt is FLOAT32:
        assert rejected(_called(rule), arguments, exact, held, narrower(model(fmt)))


UNDERFLOWING: dict[str, tuple[tuple[int, int], ...]] = {
    "a*b": ((-76, -66), (-70, -60)),
    "a/b": ((-126, -100), (0, 40)),
    "(a*b)/(c-d)": ((-76, -66), (-70, -60), (0, 1), (0, 1)),
    "a**3": ((-50, -42),),
    "a*b+c": ((-76, -66), (-70, -60), (-149, -126)),
}


@pytest.mark.parametrize("name", UNDERFLOWING)
def test_underflow_is_allowed_for_and_no_more(name: str) -> None:
    rule = replace(BY_NAME[name], windows=UNDERFLOWING[name])
    arguments = _arguments(rule, FLOAT32)
    exact = elementwise(rule.exact, *arguments.values())
    held = {f"off by {off}": rule.emulated(Unit(FLOAT32, off), *arguments.values()) for off in MISSES}
    held_to = model(FLOAT32, flush="none")
    attack(_called(rule), arguments, exact, held, held_to)
    assert rejected(_called(rule), arguments, exact, held, replace(held_to, eta=held_to.eta / 8))


SMALL_ARGUMENTS: dict[str, Callable[..., Any]] = {
    "sqrt": mp.sqrt,
    "rsqrt": _mp_rsqrt,
    "log": mp.log,
    "tanh": mp.tanh,
    "erf": mp.erf,
    "sin": mp.sin,
    "cos": mp.cos,
    "exp": mp.exp,
}


@pytest.mark.parametrize("flush", ["none", "approximate", "all"])
@pytest.mark.parametrize("name", SMALL_ARGUMENTS)
def test_subnormal_arguments_and_results_may_be_flushed_where_claimed(name: str, flush: str) -> None:
    signed = name in ("tanh", "erf", "sin", "cos")
    a = subnormals(FLOAT32, COUNT, 0, signed=signed)
    if name == "exp":
        a = np.concatenate([a, round_to(np.linspace(-104.5, -87, COUNT), FLOAT32)])
    exact = elementwise(SMALL_ARGUMENTS[name], a)
    held = {off: getattr(Unit(FLOAT32, off, flush=flush), name)(a) for off in MISSES}
    definition = getattr(numbers, name)
    attack(definition, {"a": a}, exact, held, model(FLOAT32, flush=flush))
    if flush == "approximate" and name != "cos":
        assert rejected(definition, {"a": a}, exact, held, model(FLOAT32, flush="none"))


@pytest.mark.parametrize(
    "name", ["a+b", "a-b", "(a+b)-c", "a*b", "a/b", "a**3", "a*b+c contracted", "(a+b)*(c-d)"]
)
def test_everything_may_be_flushed_under_its_claim(name: str) -> None:
    rule = BY_NAME[name]
    held_to = model(FLOAT32, flush="all")
    arguments = {key: subnormals(FLOAT32, COUNT, i) for i, key in enumerate("abcd"[: len(rule.windows)])}
    large = {"a*b": "b", "a/b": "b", "a*b+c contracted": "b", "(a+b)*(c-d)": "c"}.get(name)
    if large:
        arguments[large] = operands(FLOAT32, COUNT, 9, 0, 100)
    exact = elementwise(rule.exact, *arguments.values())
    held = {off: rule.emulated(Unit(FLOAT32, off, flush="all"), *arguments.values()) for off in MISSES}
    attack(_called(rule), arguments, exact, held, held_to)
    if name != "a**3":
        assert rejected(_called(rule), arguments, exact, held, model(FLOAT32))


EXACT_UNDER_FLUSHING: dict[str, Callable[..., Any]] = {
    "x / scale": lambda x, scale: x / scale,
    "x / 1.0": lambda x, scale: x / 1.0,
    "x / scale, with a subnormal divisor": lambda x, scale: x / numbers.where(x == 3.0, FLOAT32.eta, scale),
    "x / scale, with a subnormal dividend": lambda x, scale: numbers.where(x == 3.0, FLOAT32.eta, x) / scale,
}


@pytest.mark.parametrize("name", EXACT_UNDER_FLUSHING)
def test_what_no_flush_can_reach_stays_exact(name: str) -> None:
    """Quotients by powers of two, of normal numbers: a tie stays a tie under flush='all'."""
    x = torch.tensor([0.5, -2.5, 1.5, 127.5, 3.0], dtype=torch.float64)
    scale = torch.tensor([1.0, 0.5, 2.0, 1.0, 1.0], dtype=torch.float64)
    arguments = {"x": x, "scale": scale}
    answer = read_float64(EXACT_UNDER_FLUSHING[name], arguments, model(flush="all"), [(5,)])[0]
    assert answer.t[:4].tolist() == [0.0] * 4
    assert "subnormal" not in name or answer.t[4] > 0


@pytest.mark.parametrize(
    "definition",
    [
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: a**3,
        lambda a, b: numbers.exp(a),
        lambda a, b: numbers.tanh(a),
        lambda a, b: numbers.cos(a),
        lambda a, b: numbers.sum(a, -1),
        lambda a, b: numbers.cumsum(a, -1),
        lambda a, b: numbers.matmul(a, numbers.transpose(b)),
    ],
)
def test_a_flush_costs_nothing_where_nothing_is_subnormal(definition: Callable[..., Any]) -> None:
    """Numbers of whose sums and products all digits lie above the smallest normal."""
    a = torch.tensor([[3.0, -1.0, 0.75]], dtype=torch.float64)
    b = torch.tensor([[-2.5, 4.0, -0.5]], dtype=torch.float64)
    shape = definition(*(Reading(Float64(), model()).exact(x) for x in (a, b))).shape
    kept, flushed = (
        read_float64(definition, {"a": a, "b": b}, replace(model(flush=flush), eta=0.0), [tuple(shape)])[0].t
        for flush in ("none", "all")
    )
    assert kept.tolist() == flushed.tolist()


def test_so_many_roundings_that_nothing_is_certain_are_a_finite_error() -> None:
    """(1 + 2^-8)^(2·131071): no float64 number, nor any help."""
    held_to = Arithmetic(accumulator="bfloat16", depth="sequential").model(references.softmax, BFLOAT16)
    assert 1e100 < held_to.growth(131072) < math.inf


def _exp_of_difference(x: Any, m: Any) -> Any:
    return numbers.exp(x - m)


@pytest.mark.parametrize("offset", [0.0, 20.0, -300.0, 5000.0])
def test_scaled_exponential_needs_its_claim(offset: float) -> None:
    """exp2(x·c - m·c) rounds m·c, which is large where the row is offset."""
    m = operands(FLOAT32, COUNT, 1, 0, 3, signed=False) + offset
    x = m - operands(FLOAT32, COUNT, 2, -3, 5, signed=False)
    x, m = round_to(x, FLOAT32), round_to(m, FLOAT32)
    exact = elementwise(lambda x, m: mp.exp(x - m), x, m)
    held = {
        (off, fused): Unit(FLOAT32, off).exp_scaled(x, m, contracted=fused)
        for off in MISSES
        for fused in (True, False)
    }
    arguments, claimed = {"x": x, "m": m}, model(exp="scaled")
    attack(_exp_of_difference, arguments, exact, held, claimed)
    assert rejected(_exp_of_difference, arguments, exact, held, narrower(claimed))
    if abs(offset) > 100:
        assert rejected(_exp_of_difference, arguments, exact, held, model())


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("fmt", [FLOAT32, FLOAT64], ids=lambda fmt: fmt.name)
def test_gelu_is_known_far_from_0(approximate: str, fmt: Format) -> None:
    """Where erf and tanh are flat, errors of their arguments are none of theirs, however large."""
    x = torch.tensor(
        [1e10, 1e20, 1e37, -1e10, -1e20, -1e37] + [1e300, -1e300] * (fmt is FLOAT64), dtype=torch.float64
    )
    arguments = {"x": x, "approximate": approximate}
    held_to = Arithmetic().model(references.gelu, fmt)
    read = read_float64 if fmt is FLOAT32 else read_exactly
    answer = read(references.gelu.definition, arguments, held_to, [tuple(x.shape)])[0]
    assert answer.context is None or answer.context.prec == 140
    for t, size in zip(answer.t.tolist(), x.abs().tolist(), strict=True):
        assert float(t) <= 16 * fmt.u * size


def test_host_and_kernel_arithmetic_on_a_scalar_are_both_right() -> None:
    """x·(1 - 0.999): in float64 on the host, rounded at the end, or with fl32(0.999) in the kernel."""
    x = operands(FLOAT32, COUNT, 0, -3, 3)
    unit, beta = Unit(), 0.999
    host = unit.mul(x, unit.round(np.full_like(x, 1 - beta)))
    kernel = unit.mul(x, unit.sub(np.ones_like(x), unit.round(np.full_like(x, beta))))
    exact = elementwise(lambda x: x * (1 - mp.mpf(beta)), x)

    def definition(x: Any) -> Any:
        return x * (1.0 - numbers.where(x > math.inf, x, beta))

    held = {"host": host, "kernel": kernel}
    attack(definition, {"x": x}, exact, held, model())
    exact_scalars = replace(model(), float32_scalars=False)
    assert rejected(definition, {"x": x}, exact, held, exact_scalars)


@pytest.mark.parametrize("name", ["var", "attention"])
def test_bounds_of_float64_kernels_are_those_of_float32_at_their_u(name: str) -> None:
    """A bound that is a difference of numbers near 1 has lost the roundings of a float64 kernel."""
    random = np.random.default_rng(0)
    x = torch.from_numpy(random.standard_normal((1, 1, 1, 2)))
    given: dict[str, Any] = {"q": x, "k": x, "v": x, "scale": 0.5, "causal": None, "window": None}
    if name == "var":
        given = {"x": x, "dim": -1, "correction": 0}
    shares = []
    for fmt, read in ((FLOAT32, read_float64), (FLOAT64, read_double)):
        held_to = model(fmt, getattr(references, name), variance="two-pass", depth=1)
        shares.append(
            float(read(getattr(references, name).definition, given, held_to, [None])[0].t.max()) / fmt.u
        )
    assert shares[1] == pytest.approx(shares[0], rel=2**-10)


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16], ids=lambda fmt: fmt.name)
def test_a_scalar_is_rounded_to_a_narrow_accumulator_at_most(fmt: Format) -> None:
    single = Arithmetic().model(references.sum, fmt)
    narrow = Arithmetic(accumulator=fmt.name).model(references.sum, fmt)
    for value in (0.1, -0.9, 1 / 3):
        assert single.constant_error(value) == abs(float(np.float32(value)) - value)
        assert narrow.constant_error(value) == pytest.approx(
            abs(float(round_to(value, fmt)) - value), rel=1e-6
        )
    for value in (1e-60, 1e60, 0.5, 0.0, math.inf):
        assert narrow.constant_error(value) == single.constant_error(value)
    assert Arithmetic().model(references.sum, FLOAT64).constant_error(0.1) == single.constant_error(0.1)
