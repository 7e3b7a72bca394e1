"""The two readings of a definition agree, and the wide one is as exact as it is asked to be."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from adversarial import ill_conditioned, operands, rows
from judging import Array, model, mp
from test_numbers_softmax import logits

import references
from harness import numbers
from harness.arithmetic import Arithmetic
from harness.errors import HarnessError
from harness.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Format
from harness.numbers import Answer, read_double, read_exactly, read_float64
from harness.numbers.backend import Float64
from harness.numbers.multiprecision import Multiprecision
from harness.numbers.number import LOST, Number, Reading
from harness.numbers.read import ORACLE_SHARE

CONTRACTS = [
    contract
    for contract in (getattr(references, name) for name in references.__all__)
    if set(contract.args) == {"x", "dim"}
]
SPECIAL = np.array(
    [
        [math.nan, 1.0, 2.0, 3.0, 0.0],
        [math.inf, 1.0, -2.0, 3.0, 0.0],
        [-math.inf, 1.0, -2.0, 3.0, 0.0],
        [math.inf, -math.inf, 1.0, 1.0, 1.0],
        [-math.inf] * 5,
        [math.inf] * 5,
        [0.0, -0.0, 0.0, -0.0, 0.0],
        [FLOAT32.max, FLOAT32.max, -FLOAT32.max, 1.0, -1.0],
        [-FLOAT32.max, -FLOAT32.max, FLOAT32.max, 1.0, FLOAT32.eta],
        [FLOAT32.max, -FLOAT32.max, -1.0, 1e-3, FLOAT32.tiny],
        [FLOAT32.eta, FLOAT32.eta, -3 * FLOAT32.eta, FLOAT32.eta, FLOAT32.tiny],
        [1000.0, 999.0, -1000.0, 1000.0, 0.1],
    ]
)


def data(fmt: Format) -> dict[str, Array]:
    random = np.random.default_rng(0)
    n = 33
    normal = random.standard_normal((6, n))
    found = {
        "random": normal.astype(np.float16).astype(np.float64),
        "sums": rows(fmt, n),
        "logits": logits(fmt, n),
        "products": operands(fmt, 6 * n, 3, -6, 6).reshape(6, n),
        "special": SPECIAL if fmt is FLOAT32 else SPECIAL[:7],
    }
    return found


def shape_of(contract: Any, x: Array) -> tuple[int, ...]:
    return x.shape if contract.outputs[0].shape == "*shape" else x.shape[:-1]


def assert_same(near: Answer, wide: Answer, where: str) -> None:
    """Values within the oracle's share of t, t's within 1e-6, flags equal, except where float64 is lost."""
    for index in np.ndindex(near.value.shape):
        value, t, may = float(near.value[index]), float(near.t[index]), int(near.may[index])
        other, other_t = wide.value[index], wide.t[index]
        place = f"{where} {index}: {value!r} ± {t!r} and {mp.nstr(other, 20)} ± {mp.nstr(other_t, 9)}"
        if may & LOST:
            continue
        assert may == int(wide.may[index]), f"{place}, flags {may} and {int(wide.may[index])}"
        if not math.isfinite(value):
            assert str(value) == str(float(other)), place
            assert t == 0 and other_t == 0, place
            continue
        assert abs(value - other) <= ORACLE_SHARE * t, place
        assert t == other_t or abs(t - other_t) <= 1e-6 * other_t, place


@pytest.mark.parametrize("fmt", [FLOAT32, BFLOAT16], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
def test_readings_agree_on_every_contract(contract: Any, fmt: Format) -> None:
    claims = [
        {},
        {"depth": "sequential", "exp": "scaled", "flush": "none", "roundings": tuple(contract.roundings)},
    ]
    for name, x in data(fmt).items():
        for claim in claims:
            held_to = Arithmetic(**claim).model(contract, fmt)
            call = {"x": torch.from_numpy(x), "dim": -1}
            near = read_float64(contract.definition, call, held_to, [shape_of(contract, x)])[0]
            wide = read_exactly(contract.definition, call, held_to, [shape_of(contract, x)])[0]
            assert_same(near, wide, f"{contract.name} {name} {claim}")


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "layer norm": lambda x: (x - numbers.mean(x, -1)) * numbers.rsqrt(numbers.var(x, -1) + 1e-5),
    "rms norm": lambda x: x * numbers.rsqrt(numbers.mean(x * x, -1) + 1e-6),
    "gelu": lambda x: 0.5 * x * (1.0 + numbers.erf(x * 0.7071067811865476)),
    "gelu tanh": lambda x: 0.5 * x * (1.0 + numbers.tanh(0.7978845608028654 * (x + 0.044715 * x**3))),
    "silu": lambda x: x * numbers.sigmoid(x),
    "norm": lambda x: numbers.sqrt(numbers.sum(x * x, -1)),
    "cumsum": lambda x: numbers.cumsum(x, -1),
    "rotation": lambda x: x * numbers.cos(x) - x * numbers.sin(x),
    "gram": lambda x: numbers.matmul(x, numbers.where(x > 0.5, x, 0.25)[:5]),
    "log": lambda x: numbers.log(numbers.absolute(x) + 1.0) / numbers.maximum(x * x, 0.5),
    "extremes": lambda x: numbers.amax(x * 3.0, -1) - numbers.amin(x / 3.0, -1),
    "product": lambda x: numbers.prod(1.0 + x / 64.0, -1),
    "variance": lambda x: numbers.var(x - 0.1, -1, 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_readings_agree_on_programs_of_every_rule(name: str) -> None:
    program = PROGRAMS[name]
    held_to = model(FLOAT32)
    for family, x in {**data(FLOAT32), "wide": rows(FLOAT32, 5)}.items():
        if name == "gram":
            x = x[:5, :5]
        tensor = torch.from_numpy(x.copy())
        shape = tuple(program(Reading(Float64(), held_to).exact(tensor)).shape)
        near = read_float64(program, {"x": tensor}, held_to, [shape])[0]
        wide = read_exactly(program, {"x": tensor}, held_to, [shape])[0]
        assert_same(near, wide, f"{name} {family}")


def test_float64_prefix_sums_are_within_their_share_under_a_small_depth() -> None:
    """A scan of depth 20 over 2^18 terms: the oracle's own prefix sums may not be one by one."""
    n = 1 << 18
    x = np.zeros((1, n))
    x[0] = 2.0**-30 * (1 + np.arange(n) % 7 * 2.0**-23)
    x[0, 0] = 1.0
    held_to = model(FLOAT32, depth=20)
    answer = read_float64(lambda x: numbers.cumsum(x, -1), {"x": torch.from_numpy(x)}, held_to, [(1, n)])[0]
    total = Fraction(0)
    for i, term in enumerate(x[0]):
        total += Fraction(term)
        if i % 4096 == 4095:
            error = abs(Fraction(float(answer.value[0, i])) - total)
            assert error <= ORACLE_SHARE * float(answer.t[0, i]), i


@pytest.mark.parametrize("exponents", [50, 110, 200])
def test_wide_sums_equal_exact_fractions(exponents: int) -> None:
    """Sums of condition up to 10^60 in float64, for which any precision suffices by their own t, and for
    which it rises until 100 bits are right where t is 0 (a compensated claim)."""
    x = np.concatenate([ill_conditioned(60, exponents, seed, FLOAT64) for seed in range(4)])
    exact = [sum((Fraction(v) for v in row), Fraction(0)) for row in x]
    condition = [
        float(sum(abs(Fraction(v)) for v in row) / abs(s)) if s else math.inf
        for row, s in zip(x, exact, strict=True)
    ]
    assert max(condition) > 2.0 ** (exponents * 0.8)
    for depth in ("sequential", 0):
        held_to = model(FLOAT64, depth=depth)
        answer = read_exactly(lambda x: numbers.sum(x, -1), {"x": torch.from_numpy(x)}, held_to, [(4, 1)])[0]
        for i, right in enumerate(exact):
            value, t = answer.value[i, 0], answer.t[i, 0]
            difference = abs(fraction(value) - right)
            assert difference <= fraction(t) * Fraction(1, 512) + abs(right) * Fraction(1, 2**99)
            if depth == 0:
                assert float(value) == float(right)
    if exponents == 200:
        assert answer.context.prec > 140, "the precision must have been raised"


def fraction(x: Any) -> Fraction:
    sign, mantissa, exponent, _ = x._mpf_
    return Fraction(-int(mantissa) if sign else int(mantissa)) * Fraction(2) ** int(exponent)


def test_precision_rises_until_a_cancelling_formula_is_settled() -> None:
    """((1 + x) - 1)/x for x = 2^-300: 0 to every digit that 140 bits hold."""
    x = torch.tensor([2.0**-300], dtype=torch.float64)
    held_to = dataclasses.replace(model(FLOAT64, depth=0), u=0.0, eta=0.0)
    answer = read_exactly(lambda x: ((x + 1.0) - 1.0) / x, {"x": x}, held_to, [(1,)])[0]
    assert answer.context.prec >= 400
    assert abs(answer.value[0] - 1) < 1e-20


def test_what_no_precision_settles_is_lost() -> None:
    """exp(x)·(1 - exp(0·x)): no digit of the 0 is ever known; the other element is."""
    held_to = dataclasses.replace(model(FLOAT64, depth=0, flush="none"), u=0.0, eta=0.0)
    x = torch.tensor([0.1, math.inf], dtype=torch.float64)
    answer = read_exactly(
        lambda x: numbers.exp(x) - numbers.exp(x) * numbers.exp(0.0 * x), {"x": x}, held_to, [(2,)]
    )[0]
    assert ((answer.may & LOST) != 0).tolist() == [True, False]
    assert answer.t[0] == math.inf


def test_small_exponentials_are_known_as_well_as_large_ones() -> None:
    """exp(-700) is normal in float64, and its error some u of it."""
    x = torch.tensor([0.3, -700.0], dtype=torch.float64)
    answer = read_exactly(lambda x: numbers.exp(x - 0.25), {"x": x}, model(FLOAT64, flush="none"), [(2,)])[0]
    assert answer.context.prec == 140
    assert answer.t[1] < 2.0**-40 * answer.value[1]


@pytest.mark.parametrize("function", [numbers.exp, numbers.sin, numbers.cos, numbers.tanh, numbers.erf])
def test_a_function_of_an_exponential_ends(function: Callable[..., Any]) -> None:
    x = torch.tensor([1e300, -1e300], dtype=torch.float64)
    answer = read_exactly(lambda x: function(numbers.exp(x)), {"x": x}, model(FLOAT64), [(2,)])[0]
    assert (answer.t >= 0).all()


def test_accumulators_of_16_bits_agree_too() -> None:
    x = logits(FLOAT16, 20)
    for contract in CONTRACTS:
        held_to = Arithmetic(accumulator="float16").model(contract, FLOAT16)
        call = {"x": torch.from_numpy(x), "dim": -1}
        near = read_float64(contract.definition, call, held_to, [shape_of(contract, x)])[0]
        wide = read_exactly(contract.definition, call, held_to, [shape_of(contract, x)])[0]
        assert_same(near, wide, contract.name)


def test_a_definition_must_return_what_its_contract_declares() -> None:
    x = torch.zeros(2, dtype=torch.float64)
    with pytest.raises(HarnessError, match="declares 2 output"):
        read_float64(lambda x: x, {"x": x}, model(), [(2,), (2,)])
    with pytest.raises(HarnessError, match="declares 1 output"):
        read_float64(lambda x: 1.0, {"x": x}, model(), [(2,)])


@pytest.mark.parametrize("backend", [Float64(), Multiprecision(200)], ids=["float64", "mpmath"])
def test_a_definition_may_not_branch_on_rounded_numbers(backend: Any) -> None:
    a = Reading(backend, model()).exact(backend.leaf(torch.tensor([1.0, 2.0], dtype=torch.float64)))
    assert (a > 1.5).tolist() == (a == 2.0).tolist() == [False, True]
    assert (a != 2.0).tolist() == (a <= 1.0).tolist() == [True, False]
    assert numbers.isfinite(a).tolist() == [True, True] and numbers.isnan(a).tolist() == [False, False]
    rounded: Number = a * 1.5
    for compare in (lambda: rounded > 1.0, lambda: rounded == 1.0, lambda: a < rounded, lambda: a >= rounded):
        with pytest.raises(TypeError, match="compares"):
            compare()
    with pytest.raises(TypeError, match="tests isfinite"):
        numbers.isfinite(rounded)
    with pytest.raises(TypeError, match="branch"):
        bool(a)
    with pytest.raises(TypeError, match="positive integer"):
        a**0.5
    with pytest.raises(TypeError, match="combines"):
        a + "1"
    with pytest.raises(TypeError, match="needs a number"):
        numbers.where(a > 1.0, 1.0, 2.0)
    with pytest.raises(IndexError, match="axis 3"):
        numbers.sum(a, 3)


def test_infinite_rows_do_not_make_exact_numbers_inexact() -> None:
    """A maximum of inputs stays comparable whether or not one is infinite."""
    x = torch.tensor([[1.0, math.inf], [math.nan, 0.0]], dtype=torch.float64)

    def definition(x: Any) -> Any:
        m = numbers.maximum(numbers.amax(x, -1), -numbers.absolute(numbers.amin(x, -1)))
        return numbers.where(numbers.isfinite(m), m, 0.0)

    for read in (read_float64, read_exactly):
        answer = read(definition, {"x": x}, model(), [(2, 1)])[0]
        assert [float(v) for v in answer.value[:, 0]] == [0.0, 0.0]


def test_indexing_takes_errors_and_flags_along() -> None:
    x = torch.tensor([1.0, FLOAT32.max, 3.0], dtype=torch.float64)
    answer = read_float64(lambda x: (x * 2.0)[1:], {"x": x}, model(), [(2,)])[0]
    assert answer.may.tolist() == [1, 0]
    assert answer.t[1] == read_float64(lambda x: x * 2.0, {"x": x[2:]}, model(), [(1,)])[0].t[0]


def test_positions_are_numbers_in_every_reading() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=torch.float64)

    def weighted(x: Number) -> Number:
        return x * numbers.numbered(x, -1) - numbers.numbered(x, 0)

    wanted = x * torch.arange(3) - torch.arange(2)[:, None]
    accumulator = Arithmetic().model(references.softmax, FLOAT32)
    for reading in (read_float64, read_double, read_exactly):
        (found,) = reading(weighted, {"x": x}, accumulator, [(2, 3)])
        value = found.value.hi if hasattr(found.value, "hi") else found.value
        assert np.array_equal(np.asarray(value).astype(np.float64), wanted.numpy())
    with pytest.raises(TypeError, match="numbered"):
        read_float64(lambda x: x * numbers.positions(x, -1), {"x": x}, accumulator, [(2, 3)])
