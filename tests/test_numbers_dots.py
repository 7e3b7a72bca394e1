"""The rule for matrix products, attacked with FMA chains, blocks, and operands reduced to TF32 and bf16."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from adversarial import half_ulps, operands
from emulation import Unit
from judging import Array, Truth, attack, model, mp, narrower, rejected, truth

import references
from harness import numbers
from harness.arithmetic import Arithmetic
from harness.errors import HarnessError
from harness.executors.profile import TensorCore
from harness.executors.tensor_core import blocks
from harness.formats import BFLOAT16, FLOAT8_E4M3FN, FLOAT16, FLOAT32, TF32, Format, round_to
from harness.numbers import read_float64
from harness.numbers.number import NAN, PINF


def matrices(fmt: Format, m: int, k: int, n: int, seed: int = 0) -> tuple[Array, Array]:
    """[m, K] and [K, n]: generic, positive with full mantissas, cancelling, half ulps against ones."""
    random = np.random.default_rng(seed)
    a = random.standard_normal((m, k))
    b = random.standard_normal((k, n))
    a[0], a[1] = operands(fmt, k, seed, 0, 0, signed=False), 1 + fmt.u * 2 * random.integers(0, 9, k)
    b[:, 0], b[:, 1] = operands(fmt, k, seed + 1, 0, 0, signed=False), 1.0
    a[2] = half_ulps(fmt, k)[0]
    a[3, ::2], a[3, 1::2] = a[0, ::2][: len(a[3, ::2])], -a[0, ::2][: len(a[3, 1::2])]
    a[4] *= np.exp2(random.integers(-40 if fmt is not FLOAT16 else -8, 3, k))
    return round_to(a, fmt), round_to(b, fmt)


def exact_matmul(a: Array, b: Array) -> Truth:
    left = [[mp.mpf(v) for v in row] for row in a.tolist()]
    right = [[mp.mpf(v) for v in column] for column in b.T.tolist()]

    def entries(index: list[Any]) -> list[Any]:
        row = left[int(index[0])]
        return [sum((p * q for p, q in zip(row, column, strict=True)), mp.mpf(0)) for column in right]

    return truth(entries, np.arange(len(left))[:, None].astype(float))


def fma_chain(unit: Unit, a: Array, b: Array, block: int | None = None) -> Array:
    """One FMA chain over K; in blocks, each a chain of its own whose result is added to the accumulator."""
    k = a.shape[1]
    total = np.zeros((len(a), b.shape[1]))
    for start in range(0, k, block or k):
        part = np.zeros_like(total) if block else total
        for i in range(start, min(k, start + (block or k))):
            part = unit.fma(a[:, i : i + 1] + np.zeros_like(total), b[i] + np.zeros_like(total), part)
        total = unit.add(total, part) if block else part
    return total


def products_then_sum(unit: Unit, a: Array, b: Array) -> Array:
    total = unit.mul(a[:, :1], b[:1])
    for i in range(1, a.shape[1]):
        total = unit.add(total, unit.mul(a[:, i : i + 1], b[i : i + 1]))
    return total


def implementations(unit: Unit, a: Array, b: Array) -> dict[str, Array]:
    return {
        "chain": fma_chain(unit, a, b),
        "backwards": fma_chain(unit, a[:, ::-1], b[::-1]),
        "blocks of 16": fma_chain(unit, a, b, 16),
        "products, then their sum": products_then_sum(unit, a, b),
    }


@pytest.mark.parametrize("fmt", [FLOAT32, FLOAT16, BFLOAT16], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("k", [1, 2, 65, 256])
def test_ieee_dot(k: int, fmt: Format) -> None:
    a, b = matrices(fmt, 8, k, 4)
    exact = exact_matmul(a, b)
    held = implementations(Unit(fmt), a, b)
    attack(numbers.matmul, {"a": a, "b": b}, exact, held, model(fmt))
    if fmt is FLOAT32:
        assert rejected(numbers.matmul, {"a": a, "b": b}, exact, held, narrower(model()))


@pytest.mark.parametrize("k", [1, 4, 32])
def test_products_and_partial_sums_may_be_flushed_where_they_can_be_subnormal(k: int) -> None:
    a = np.array([operands(FLOAT32, k, -low, low, low + 6) for low in range(-149, -10, 5)])
    b = np.array([operands(FLOAT32, k, 70 + high, high - 6, high) for high in (-60, -30, 0, 30, 60)]).T
    a, b = round_to(a, FLOAT32), round_to(b, FLOAT32)
    exact = exact_matmul(a, b)
    held = implementations(Unit(flush="all"), a, b)
    attack(numbers.matmul, {"a": a, "b": b}, exact, held, model(flush="all"))
    assert rejected(numbers.matmul, {"a": a, "b": b}, exact, held, model())


def toward_zero(x: Array) -> Array:
    return round_to(x, TF32, mode="toward-zero")


REDUCED = {
    "tf32": (toward_zero, 2.0**-10),
    "bf16": (lambda x: round_to(x, BFLOAT16), 2.0**-8),
}


@pytest.mark.parametrize("dot", REDUCED)
@pytest.mark.parametrize("k", [1, 64, 515])
def test_reduced_operands_need_their_claim(dot: str, k: int) -> None:
    """TF32 truncates (measured on an H200): operands 1 + 2^-10 - 2^-23 lose almost a whole ulp."""
    reduce, u_in = REDUCED[dot]
    a, b = matrices(FLOAT32, 8, k, 4)
    worst = 1 + u_in * (1 - 2.0**-12 if dot == "bf16" else 1) - 2.0**-23
    a[5], b[:, 2] = worst, worst
    exact = exact_matmul(a, b)
    held = implementations(Unit(), reduce(a), reduce(b))
    claimed = model(dot=dot)
    attack(numbers.matmul, {"a": a, "b": b}, exact, held, claimed)
    assert rejected(numbers.matmul, {"a": a, "b": b}, exact, held, model())
    weak = dataclasses.replace(claimed, dot=dataclasses.replace(claimed.dot, u_in=claimed.dot.u_in / 4))
    assert rejected(numbers.matmul, {"a": a, "b": b}, exact, held, weak)


def test_reduced_subnormal_operands() -> None:
    """TF32's subnormals are 2^-136 apart: against large operands their loss is no relative one."""
    a = 2.0**-130 * (1 + operands(FLOAT32, 4 * 8, 0, -6, -1, signed=False).reshape(4, 8))
    a = a.astype(np.float32).astype(np.float64)
    b = operands(FLOAT32, 8 * 3, 1, 90, 100).reshape(8, 3)
    exact = exact_matmul(a, b)
    for dot, (reduce, _) in REDUCED.items():
        held = {"chain": fma_chain(Unit(), reduce(a), reduce(b))}
        attack(numbers.matmul, {"a": a, "b": b}, exact, held, model(dot=dot))


@pytest.mark.parametrize("k", [8, 200])
def test_three_tf32_passes(k: int) -> None:
    a, b = matrices(FLOAT32, 8, k, 4)
    high_a, high_b = round_to(a, TF32), round_to(b, TF32)
    low_a, low_b = round_to(a - high_a, TF32), round_to(b - high_b, TF32)
    unit = Unit()
    small_first = fma_chain(
        unit, np.concatenate([low_a, high_a, high_a], 1), np.concatenate([high_b, low_b, high_b])
    )
    exact = exact_matmul(a, b)
    held = {"low parts first": small_first}
    attack(numbers.matmul, {"a": a, "b": b}, exact, held, model(dot="tf32x3"))
    one_missing = fma_chain(unit, np.concatenate([low_a, high_a], 1), np.concatenate([high_b, high_b]))
    assert rejected(numbers.matmul, {"a": a, "b": b}, exact, {"": one_missing}, model(dot="tf32x3"))


@pytest.mark.parametrize(("m", "k", "n"), [(120, 1, 30), (12, 40, 9)])
def test_computed_operands(m: int, k: int, n: int) -> None:
    """(a·s) @ (b - c): errors of both operands enter, and of neither alone (2 u for K = 1)."""
    unit = Unit()
    a, b = operands(FLOAT32, m * k, 1, 0, 0).reshape(m, k), operands(FLOAT32, k * n, 2, 0, 0).reshape(k, n)
    c, scale = operands(FLOAT32, k * n, 3, -1, 1).reshape(k, n), operands(FLOAT32, m, 4, 0, 1)[:, None]

    def definition(a: Any, s: Any, b: Any, c: Any) -> Any:
        return numbers.matmul(a * s, b - c)

    def entries(row: list[Any]) -> list[Any]:
        *row, s = row
        found = []
        for column in range(n):
            total = mp.mpf(0)
            for i, p in enumerate(row):
                total += p * s * (mp.mpf(b[i, column]) - mp.mpf(c[i, column]))
            found.append(total)
        return found

    exact = truth(entries, np.concatenate([a, scale], axis=1))
    held = implementations(unit, unit.mul(a, scale), unit.sub(b, c))
    arguments = {"a": a, "s": scale, "b": b, "c": c}
    largest = attack(definition, arguments, exact, held, model())
    assert k > 1 or largest > 2 / 3


@pytest.mark.parametrize("k", [1, 2, 31, 32, 33, 64, 100, 515])
def test_the_short_accumulator_of_fp8_needs_its_claim(k: int) -> None:
    """Blocks of 32 products and the running sum, cut 13 bits behind the largest: an H200's, as probed."""
    a, b = matrices(FLOAT8_E4M3FN, 6, k, 5)
    a[5], b[:, 2] = 1.875 * 2.0**-6, 2.0**-8
    a[5, 0], b[0, 2] = 2.0**-1, 1.0
    exact = exact_matmul(a, b)
    left, right = a.astype(np.float32), b.astype(np.float32)
    held = {
        "tensor core": blocks(left, right, np.zeros((6, 5), np.float32), TensorCore(32, 13)).astype(float)
    }
    fp8 = Arithmetic(dot="fp8").model(references.matmul, FLOAT8_E4M3FN)
    attack(numbers.matmul, {"a": a, "b": b}, exact, held, fp8)
    if k > 1:
        weak = dataclasses.replace(fp8, dot=dataclasses.replace(fp8.dot, c=fp8.dot.c / 4))
        assert rejected(numbers.matmul, {"a": a, "b": b}, exact, held, weak)
        ieee = Arithmetic().model(references.matmul, FLOAT8_E4M3FN)
        assert rejected(numbers.matmul, {"a": a, "b": b}, exact, held, ieee)


def test_the_short_accumulator_is_claimed_of_fp8_alone() -> None:
    with pytest.raises(HarnessError, match="operands"):
        Arithmetic(dot="fp8").model(references.matmul, FLOAT16)


def test_empty_and_batched_products() -> None:
    a, b = torch.randn(2, 3, 5, dtype=torch.float64), torch.randn(2, 5, 4, dtype=torch.float64)
    answer = numbers.read_float64(numbers.matmul, {"a": a, "b": b}, model(), [(2, 3, 4)])[0]
    wide = numbers.read_exactly(numbers.matmul, {"a": a, "b": b}, model(), [(2, 3, 4)])[0]
    torch.testing.assert_close(answer.value, a @ b)
    torch.testing.assert_close(torch.tensor(wide.t.astype(float)), answer.t, rtol=1e-6, atol=0)
    empty = numbers.read_float64(numbers.matmul, {"a": a[..., :0], "b": b[:, :0]}, model(), [(2, 3, 4)])[0]
    assert (empty.value == 0).all() and (empty.t == 0).all()


@pytest.mark.parametrize("k", [0, 1, 65])
def test_a_start_is_one_more_term(k: int) -> None:
    """The accumulator may start with it, or it may be added at the end."""
    a, b = matrices(FLOAT32, 8, max(k, 1), 4)
    a, b = a[:, :k], b[:k]
    c = operands(FLOAT32, 8 * 4, 5, -2, 8).reshape(8, 4)
    unit = Unit()
    chain = c
    for i in range(k):
        chain = unit.fma(a[:, i : i + 1] + np.zeros_like(c), b[i] + np.zeros_like(c), chain)
    held = {"start": chain, "end": unit.add(fma_chain(unit, a, b), c) if k else c}
    ones = np.ones((8, 1))
    exact = exact_rows(np.concatenate([a, ones], 1), lambda m: np.concatenate([b, c[m : m + 1]]))

    def definition(a: Any, b: Any, c: Any) -> Any:
        return numbers.matmul(a, b, start=c)

    attack(definition, {"a": a, "b": b, "c": c}, exact, held, model())


def exact_rows(a: Array, b_of: Any) -> Truth:
    """Rows of a product whose right operand depends on the row."""
    truths = [exact_matmul(a[m : m + 1], b_of(m)) for m in range(len(a))]
    return Truth(np.concatenate([t.hi for t in truths]), np.concatenate([t.lo for t in truths]))


def test_stored_partials_need_their_claim() -> None:
    """Split-K: the product over each half of K is rounded to bfloat16 before they are added."""
    a, b = matrices(BFLOAT16, 8, 64, 4)
    exact, unit = exact_matmul(a, b), Unit()
    halves = [round_to(fma_chain(unit, a[:, p], b[p]), BFLOAT16) for p in (slice(0, 32), slice(32, 64))]
    held = {"two": unit.add(*halves)}

    def definition(a: Any, b: Any) -> Any:
        return numbers.matmul(a, b, partials="partials")

    claimed = dataclasses.replace(model(), roundings={"partials": BFLOAT16})
    attack(definition, {"a": a, "b": b}, exact, held, claimed)
    assert rejected(definition, {"a": a, "b": b}, exact, held, model())


def test_operands_that_tf32_holds_carry_no_error() -> None:
    a, b = torch.tensor([[1.0, 3.0]], dtype=torch.float64), torch.tensor([[5.0], [1.0]], dtype=torch.float64)
    for dot in ("ieee", "tf32"):
        (answer,) = numbers.read_float64(numbers.matmul, {"a": a, "b": b}, model(dot=dot), [(1, 1)])
        assert float(answer.t) < 1e-5
    (answer,) = numbers.read_float64(numbers.matmul, {"a": a + 2.0**-20, "b": b}, model(dot="tf32"), [(1, 1)])
    assert float(answer.t) > 1e-3


def test_low_parts_below_tf32s_subnormals() -> None:
    """tf32x3 loses the low part of 2^-126·(1 + …): without eta_in the bound would be 2^-22 of the product."""
    a = round_to(2.0**-126 * (1 + operands(FLOAT32, 32, 0, -6, -1, signed=False).reshape(4, 8)), FLOAT32)
    b = operands(FLOAT32, 24, 1, 90, 100).reshape(8, 3)
    exact = exact_matmul(a, b)
    high, low = round_to(a, TF32), round_to(a - round_to(a, TF32), TF32)
    high_b, low_b = round_to(b, TF32), round_to(b - round_to(b, TF32), TF32)
    held = {
        "low first": fma_chain(
            Unit(), np.concatenate([low, high, high], 1), np.concatenate([high_b, low_b, high_b])
        )
    }
    claimed = model(dot="tf32x3")
    attack(numbers.matmul, {"a": a, "b": b}, exact, held, claimed)
    weak = dataclasses.replace(claimed, dot=dataclasses.replace(claimed.dot, eta_in=0.0))
    assert rejected(numbers.matmul, {"a": a, "b": b}, exact, held, weak)


def test_split_products_may_overflow_to_opposite_infinities() -> None:
    a, b = torch.tensor([[2.0**15]], dtype=torch.float64), torch.tensor([[3.2e38]], dtype=torch.float64)
    (answer,) = numbers.read_float64(numbers.matmul, {"a": a, "b": b}, model(dot="tf32x3"), [(1, 1)])
    assert int(answer.may) & NAN and int(answer.may) & PINF
    (answer,) = numbers.read_float64(numbers.matmul, {"a": a, "b": b}, model(), [(1, 1)])
    assert not int(answer.may) & NAN


@pytest.mark.parametrize(("dot", "fmt"), [("tf32", TF32), ("bf16", BFLOAT16), ("ieee", None)])
def test_the_largest_number_may_round_to_infinity_in_the_dots_format(dot: str, fmt: Format | None) -> None:
    """Converted to nearest, as by cvt.rna, it is infinite; truncated it is not. A zero beside it makes NaN."""
    a, b = (torch.tensor([[value]], dtype=torch.float64) for value in (FLOAT32.max, 0.0))
    assert fmt is None or round_to(a, fmt).item() == np.inf
    held_to = Arithmetic(dot=dot).model(references.matmul, FLOAT32)
    (answer,) = read_float64(numbers.matmul, {"a": a, "b": b}, held_to, [None])
    assert bool(answer.may.any()) == (fmt is not None)
    (answer,) = read_float64(numbers.matmul, {"a": a / 2, "b": b}, held_to, [None])
    assert not answer.may.any()
