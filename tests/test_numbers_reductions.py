"""Sums, means, products, prefix sums and extremes, attacked with the orders in which kernels compute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from adversarial import half_ulps, half_ulps_of_tree, ill_conditioned, operands, rows
from emulation import ORDERS, Unit, backwards, blocked, laned, sequential, tree
from judging import Array, attack, model, mp, narrower, rejected, truth

import references
from harness import numbers
from harness.arithmetic import Arithmetic
from harness.formats import BFLOAT16, FLOAT16, FLOAT32, Format, round_to
from harness.numbers import read_exactly, read_float64

FORMATS = [FLOAT32, FLOAT16, BFLOAT16]
MISSES: list[int | str] = [0, 2, -2, "random"]


def row_sum(x: Any) -> Any:
    return numbers.sum(x, -1)


def row_mean(x: Any) -> Any:
    return numbers.mean(x, -1)


def row_product(x: Any) -> Any:
    return numbers.prod(x, -1)


def prefix_sums(x: Any) -> Any:
    return numbers.cumsum(x, -1)


def exact_sum(x: list[Any]) -> Any:
    total = mp.mpf(0)
    for term in x:
        total += term
    return total


def exact_mean(x: list[Any]) -> Any:
    return exact_sum(x) / len(x)


def exact_product(x: list[Any]) -> Any:
    result = mp.mpf(1)
    for factor in x:
        result *= factor
    return result


def claim(order: str, n: int, depth: int) -> dict[str, Any]:
    """What the author of a kernel that sums n terms in this order has to claim."""
    if order in ("sequential", "backwards"):
        return {"depth": "sequential"}
    return {} if depth <= model().reduction_depth(n) else {"depth": depth}


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("n", [1, 2, 3, 17, 100, 1000])
def test_sum_in_every_order(fmt: Format, n: int) -> None:
    """Under the claim it needs, and under its own depth, the tightest claim that it keeps."""
    x = rows(fmt, n)
    exact = truth(exact_sum, x)
    for name, order in ORDERS.items():
        total, depth = order(Unit(fmt), x)
        held_to = model(fmt, **claim(name, n, depth))
        assert min(depth, n - 1) <= held_to.reduction_depth(n)  # adding the zeros of a padded row is exact
        attack(row_sum, {"x": x}, exact, {name: total[:, None]}, held_to)
        attack(row_sum, {"x": x}, exact, {name: total[:, None]}, model(fmt, depth=depth))


def exact_rows(fmt: Format, n: int) -> Array:
    """[16, n]: multiples of a power of two that add up to less than 2^p of it, some to 0, and two that do not."""
    random = np.random.default_rng(n)
    most = int(1 / fmt.u / n)
    x = random.integers(-most, most + 1, (16, n)).astype(np.float64) * np.exp2(np.arange(-8, 8))[:, None] / 4
    x[2, : n // 2], x[2, n // 2 :] = 1.0 + np.arange(n // 2) % most, -1.0 - np.arange(n - n // 2) % most
    x[-1], x[-2] = 1.0, 1.0
    x[-1, 0], x[-2, 0] = 1 / fmt.u, 2 / fmt.u
    return round_to(x, fmt)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("n", [2, 17, 100])
def test_sums_of_multiples_of_one_power_of_two_are_exact_in_every_order(fmt: Format, n: int) -> None:
    x = exact_rows(fmt, n)
    exact = truth(exact_sum, x)
    held = {name: order(Unit(fmt), x)[0][:, None] for name, order in ORDERS.items()}
    contract = references.sum
    attack(lambda x: contract(x, -1), {"x": x}, exact, held, model(fmt, depth="sequential"))
    for claimed in ({}, {"flush": "all"}, {"flush": "all", "roundings": ("partials",)}):
        # A store changes what is held only where the accumulator is wider.
        accumulator = "float64" if "roundings" in claimed else fmt.name
        held_to = Arithmetic(accumulator=accumulator, **claimed).model(contract, fmt)
        for read in (read_float64, read_exactly):
            answer = read(lambda x: contract(x, -1), {"x": torch.from_numpy(x)}, held_to, [(16,)])[0]
            assert not answer.lost
            t = np.array([float(v) for v in answer.t.flatten()])
            assert (t[14:] > 0).all()
            assert ((t[10:14] < 1e-30) == ("roundings" not in claimed)).all()  # mpmath adds its own radius


SATURATING: dict[str, tuple[Callable[[Unit, Array], tuple[Array, int]], Array, dict[str, Any]]] = {
    "sequential": (sequential, half_ulps(FLOAT32, 4096), {"depth": "sequential"}),
    "backwards": (backwards, half_ulps(FLOAT32, 4096)[:, ::-1], {"depth": "sequential"}),
    "16 lanes, default depth": (lambda U, x: laned(U, x, 16), half_ulps(FLOAT32, 4096, 16), {}),
    "scalar over blocks of 16, default depth": (
        lambda U, x: blocked(U, x, 16),
        half_ulps(FLOAT32, 4096) * (np.arange(4096) % 16 == 0),
        {},
    ),
    "tree of its own depth": (tree, half_ulps_of_tree(FLOAT32, 10), {"depth": 10}),
}


@pytest.mark.parametrize("name", SATURATING)
def test_sum_comes_close_to_its_bound(name: str) -> None:
    """A quarter of u would reject a right sum, so that a claim's depth allows no more than is needed."""
    order, x, claims = SATURATING[name]
    exact = truth(exact_sum, x)
    held = {name: order(Unit(), x)[0][:, None]}
    attack(row_sum, {"x": x}, exact, held, model(**claims))
    assert rejected(row_sum, {"x": x}, exact, held, narrower(model(**claims)))


def near_underflow(n: int) -> Array:
    """[160, n]: rows whose terms lie in a window that rises from the subnormals; every other one cancels."""
    lows = np.repeat(np.arange(-149, -69, 2), 4)
    rows = [operands(FLOAT32, n, i, int(low), int(low) + 20) for i, low in enumerate(lows)]
    for row in rows[::2]:
        row[1::2] = -row[0::2][: len(row[1::2])] * (1 + FLOAT32.u * 2)
    return round_to(np.array(rows), FLOAT32)


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("n", [2, 16])
def test_partial_sums_may_be_flushed_where_they_can_be_subnormal(n: int, scan: bool) -> None:
    x = near_underflow(n)
    unit = Unit(flush="all")
    if scan:
        exact = truth(lambda x: [exact_sum(x[: i + 1]) for i in range(len(x))], x)
        held = {
            "one by one": one_by_one(unit, unit._kept(x))[0],
            "steps": hillis_steele(unit, unit._kept(x))[0],
        }
    else:
        exact = truth(exact_sum, x)
        held = {name: order(unit, unit._kept(x))[0][:, None] for name, order in ORDERS.items()}
    rule = prefix_sums if scan else row_sum
    attack(rule, {"x": x}, exact, held, model(flush="all", depth="sequential"))
    assert rejected(rule, {"x": x}, exact, held, model(depth="sequential"))
    above = x[160 - 4 * 12 :]
    assert (abs(above)[above != 0] >= FLOAT32.tiny / FLOAT32.u).all()
    claimed, plain = (
        read_float64(
            rule, {"x": torch.from_numpy(above)}, model(flush=flush), [exact.hi[: len(above)].shape]
        )[0]
        for flush in ("all", "none")
    )
    assert (claimed.t == plain.t).all()


def test_one_scalar_accumulator_needs_its_claim() -> None:
    x = half_ulps(FLOAT32, 4096)
    held = {"sequential": sequential(Unit(), x)[0][:, None]}
    assert rejected(row_sum, {"x": x}, truth(exact_sum, x), held, model())


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16], ids=lambda fmt: fmt.name)
def test_a_narrow_accumulator_needs_its_claim(fmt: Format) -> None:
    x = half_ulps(fmt, 1000, 64)
    held = {"laned": laned(Unit(fmt), x)[0][:, None]}
    exact = truth(exact_sum, x)
    attack(row_sum, {"x": x}, exact, held, model(fmt))
    assert rejected(row_sum, {"x": x}, exact, held, model(), 100)


@pytest.mark.parametrize("exponents", [20, 60, 120])
def test_ill_conditioned_sums(exponents: int) -> None:
    x = np.concatenate([ill_conditioned(200, exponents, seed) for seed in range(6)])
    exact = truth(exact_sum, x)
    for name, order in ORDERS.items():
        total, depth = order(Unit(), x)
        attack(row_sum, {"x": x}, exact, {name: total[:, None]}, model(**claim(name, 200, depth)))


@pytest.mark.parametrize("contracted", [True, False])
@pytest.mark.parametrize("n", [2, 100])
def test_sum_of_products(n: int, contracted: bool) -> None:
    """Σ ab: errors of the terms add up, and a product contracted into the addition only loses one."""
    unit = Unit()
    a, b = rows(FLOAT32, n, 1), rows(FLOAT32, n, 2)[::-1]
    if n == 2:
        a, b = (operands(FLOAT32, 800, seed, 0, 0, signed=False).reshape(400, 2) for seed in (1, 2))
    exact = truth(lambda a, b: exact_sum([p * q for p, q in zip(a, b, strict=True)]), a, b)
    total = unit.mul(a[:, 0], b[:, 0])
    for i in range(1, n):
        product = unit.mul(a[:, i], b[:, i])
        total = unit.fma(a[:, i], b[:, i], total) if contracted else unit.add(total, product)
    held, held_to = {"loop": total[:, None]}, model(depth="sequential")
    attack(lambda a, b: numbers.sum(a * b, -1), {"a": a, "b": b}, exact, held, held_to)
    if n == 2:
        assert rejected(lambda a, b: numbers.sum(a * b, -1), {"a": a, "b": b}, exact, held, narrower(held_to))


def test_masked_terms_are_absent() -> None:
    """A mask leaves out inf, NaN and overflowing terms with their errors and flags."""
    x = rows(FLOAT32, 64)
    mask = np.arange(64) % 3 != 0
    kept = x[:, mask]
    poisoned = {"x": np.where(mask, x, np.array([np.inf, np.nan, 3e38, -3e38] * 16))}
    keep = torch.from_numpy(np.broadcast_to(mask, x.shape).copy())
    totals = {name: order(Unit(), kept)[0][:, None] for name, order in ORDERS.items()}
    averages = {
        name: Unit(off=2).div(total, np.full_like(total, mask.sum())) for name, total in totals.items()
    }
    largest, smallest = {"max": kept.max(1, keepdims=True)}, {"min": kept.min(1, keepdims=True)}
    held_to = model(depth="sequential")
    attack(lambda x: numbers.sum(x * 2.0, -1, keep) / 2.0, poisoned, truth(exact_sum, kept), totals, held_to)
    attack(lambda x: numbers.mean(x, -1, keep), poisoned, truth(exact_mean, kept), averages, held_to)
    attack(lambda x: numbers.amax(x, -1, keep), poisoned, truth(max, kept), largest, held_to)
    attack(lambda x: numbers.amin(x, -1, keep), poisoned, truth(min, kept), smallest, held_to)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_mean_in_every_order(fmt: Format) -> None:
    n = 200
    x = rows(fmt, n)
    exact = truth(exact_mean, x)
    count = np.full(len(x), float(n))
    for name, order in ORDERS.items():
        total, depth = order(Unit(fmt), x)
        held = {f"{name} / n, off by {off}": Unit(fmt, off).div(total, count)[:, None] for off in MISSES}
        unit = Unit(fmt)
        held[f"{name} · 1/n"] = unit.mul(total, unit.round(1 / count))[:, None]
        attack(row_mean, {"x": x}, exact, held, model(fmt, **claim(name, n, depth)))


def test_mean_comes_close_to_its_bound() -> None:
    x = np.stack([operands(FLOAT32, 400, seed, 0, 0) for seed in range(3)], axis=1)
    total = sequential(Unit(), x)[0]
    held = {off: Unit(off=off).div(total, np.full(400, 3.0))[:, None] for off in MISSES}
    exact = truth(exact_mean, x)
    attack(row_mean, {"x": x}, exact, held, model())
    assert rejected(row_mean, {"x": x}, exact, held, narrower(model()))


class Multiplier(Unit):
    """A unit that multiplies where a sum would add."""

    def add(self, a: Array, b: Array) -> Array:
        return self.mul(a, b)


def products(fmt: Format, x: Array) -> dict[str, Array]:
    """The product of every row in several orders; rows are padded with ones to whole blocks."""
    padded = np.pad(x, ((0, 0), (0, -x.shape[1] % 64)), constant_values=1.0)
    by_size = np.take_along_axis(x, np.argsort(abs(x), axis=1), axis=1)
    unit = Multiplier(fmt)
    held = {name: order(unit, padded)[0][:, None] for name, order in ORDERS.items()}
    held["smallest first"] = sequential(unit, by_size)[0][:, None]
    held["largest first"] = backwards(unit, by_size)[0][:, None]
    return held


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_product_in_every_order(fmt: Format, n: int) -> None:
    near_one = 1 + np.random.default_rng(0).standard_normal((10, n)) / n
    x = np.concatenate(
        [
            operands(fmt, 20 * n, 0, -1, 0).reshape(20, n) * (2.0 ** (np.arange(n) % 2)),
            np.full((1, n), 1 + 2 * fmt.u),
            np.full((1, n), -1 + fmt.u),
            round_to(near_one, fmt),
        ]
    )
    exact = truth(exact_product, x)
    held = products(fmt, x)
    attack(row_product, {"x": x}, exact, held, model(fmt))
    if n == 2:
        assert rejected(row_product, {"x": x}, exact, held, narrower(model(fmt)))


def test_product_comes_close_to_its_bound() -> None:
    """Factors 1 + 2ku chosen one by one so that each rounding of the sequential product goes one way."""
    unit = Unit()
    row, held = [1 + 2.0**-23], 1 + 2.0**-23
    choices = 1 + 2.0**-23 * np.arange(1, 2000)
    for _ in range(59):
        product = unit.mul(held, choices)
        loss = np.where(product < 1.01, (held * choices - product) / product, -1)
        row.append(float(choices[loss.argmax()]))
        held = float(product[loss.argmax()])
    x = np.array([row])
    exact = truth(exact_product, x)
    implementations = {"sequential": np.array([[held]])}
    attack(row_product, {"x": x}, exact, implementations, model())
    assert rejected(row_product, {"x": x}, exact, implementations, narrower(model()))


@pytest.mark.parametrize("n", [2, 8])
def test_product_of_computed_factors(n: int) -> None:
    a, b = (operands(FLOAT32, 300 * n, seed, 0, 1, signed=n == 8).reshape(300, n) for seed in (1, 2))
    exact = truth(lambda a, b: exact_product([p + q for p, q in zip(a, b, strict=True)]), a, b)
    held = products(FLOAT32, Unit().add(a, b))
    attack(lambda a, b: row_product(a + b), {"a": a, "b": b}, exact, held, model())
    if n == 2:
        assert rejected(lambda a, b: row_product(a + b), {"a": a, "b": b}, exact, held, narrower(model()))


def hillis_steele(unit: Unit, x: Array) -> tuple[Array, int]:
    """Prefix sums [R, n] in ceil(log2 n) steps, each adding what lies 1, 2, 4, … places before."""
    shift, depth = 1, 0
    while shift < x.shape[1]:
        x = np.concatenate([x[:, :shift], unit.add(x[:, shift:], x[:, :-shift])], axis=1)
        shift, depth = 2 * shift, depth + 1
    return x, depth


def one_by_one(unit: Unit, x: Array) -> tuple[Array, int]:
    held = x.copy()
    for i in range(1, x.shape[1]):
        held[:, i] = unit.add(held[:, i - 1], x[:, i])
    return held, x.shape[1] - 1


def carried(unit: Unit, x: Array, block: int = 16) -> tuple[Array, int]:
    """Scans of blocks, to which the last prefix sum of the block before is added."""
    parts, carry = [], np.zeros((len(x), 1))
    for start in range(0, x.shape[1], block):
        parts.append(unit.add(carry, hillis_steele(unit, x[:, start : start + block])[0]))
        carry = parts[-1][:, -1:]
    return np.concatenate(parts, axis=1), len(parts) - 1 + 4


@pytest.mark.parametrize("scan", [one_by_one, hillis_steele, carried], ids=lambda scan: scan.__name__)
@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_prefix_sums(fmt: Format, scan: Callable[[Unit, Array], tuple[Array, int]]) -> None:
    n = 150
    x = np.concatenate([rows(fmt, n), half_ulps(fmt, n, 16)])
    exact = truth(lambda x: [exact_sum(x[: i + 1]) for i in range(n)], x)
    held, depth = scan(Unit(fmt), x)
    held_to = model(fmt, depth=depth)
    attack(prefix_sums, {"x": x}, exact, {"": held}, held_to)
    assert rejected(prefix_sums, {"x": x}, exact, {"": held}, narrower(held_to))


@pytest.mark.parametrize(
    ("extreme", "choose"), [(numbers.amax, max), (numbers.amin, min)], ids=["max", "min"]
)
def test_extremes_of_computed_numbers(extreme: Callable[..., Any], choose: Callable[..., Any]) -> None:
    a, b = (operands(FLOAT32, 40 * 9, seed, 0, 1).reshape(40, 9) for seed in (1, 2))
    exact = truth(lambda a, b: choose(p - q for p, q in zip(a, b, strict=True)), a, b)
    difference = Unit().sub(a, b)
    held = {"": difference.max(1, keepdims=True) if choose is max else difference.min(1, keepdims=True)}

    def definition(a: Any, b: Any) -> Any:
        return extreme(a - b, -1)

    attack(definition, {"a": a, "b": b}, exact, held, model())
    assert rejected(definition, {"a": a, "b": b}, exact, held, narrower(model()))


def partial_sums(fmt: Format, x: Array, blocks: int) -> Array:
    """Blocks summed one by one in float32, each sum stored in a narrower format, then added up."""
    parts = [round_to(sequential(Unit(), part)[0], fmt) for part in np.split(x, blocks, axis=1)]
    return sequential(Unit(), np.stack(parts, axis=1))[0][:, None]


@pytest.mark.parametrize("contract", [references.sum, references.mean], ids=lambda contract: contract.name)
@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16], ids=lambda fmt: fmt.name)
def test_stored_partial_sums_need_their_claim(fmt: Format, contract: Any) -> None:
    """Sums 1 + u' of blocks, which the store rounds down; each term passes through one store."""
    ties = [np.tile([1.0, fmt.u], (1, 32)), np.tile([1.0, 0.0, 0.0, fmt.u], (1, 16))]
    x = np.concatenate([rows(fmt, 64), *ties])
    held = {blocks: partial_sums(fmt, x, blocks) for blocks in (1, 4, 16, 32, 64)}
    if contract is references.mean:
        held = {blocks: Unit().div(total, np.full_like(total, 64.0)) for blocks, total in held.items()}
    exact = truth(exact_mean if contract is references.mean else exact_sum, x)
    claimed = Arithmetic(roundings=("partials",)).model(contract, fmt)

    def definition(x: Any) -> Any:
        return contract(x, -1)

    attack(definition, {"x": x}, exact, held, claimed)
    assert rejected(definition, {"x": x}, exact, held, Arithmetic().model(contract, fmt))


@pytest.mark.parametrize("contract", [references.sum, references.mean], ids=lambda contract: contract.name)
def test_stores_in_the_accumulator_s_own_format_round_nothing(contract: Any) -> None:
    """Partial sums that are "stored in the input's format" are float32 numbers where the input is float32."""
    x = torch.from_numpy(np.concatenate([rows(FLOAT32, 64), np.ones((1, 64))]))
    held: list[Any] = []
    for claims in ({}, {"roundings": ("partials",)}):
        held.append(
            read_float64(
                lambda x: contract(x, -1),
                {"x": x},
                Arithmetic(**claims).model(contract, FLOAT32),
                [(len(x), 1)],
            )[0]
        )
    plain, claimed = held
    assert torch.equal(plain.t, claimed.t)
    wide = Arithmetic(accumulator="float64", roundings=("partials",)).model(contract, FLOAT32)
    assert wide.stored("partials") is FLOAT32
