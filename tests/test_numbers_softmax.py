"""softmax, log_softmax and logsumexp, attacked with plain, scaled and online forms and named roundings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emulation import ORDERS, Unit, laned, tree
from judging import Array, attack, mp, narrower, rejected, truth

from harness.arithmetic import Arithmetic
from harness.contracts import Contract
from harness.formats import BFLOAT16, FLOAT16, FLOAT32, Format, round_to
from harness.numbers import Model
from references import log_softmax, logsumexp, softmax

MISSES: list[int | str] = [0, 2, -2, "random"]
N = 320


def kernel(contract: Contract, fmt: Format = FLOAT32, **claims: Any) -> Model:
    """The model of a kernel on inputs of ``fmt`` that accumulates in float32."""
    return Arithmetic(**claims).model(contract, fmt)


def logits(fmt: Format, n: int = N, seed: int = 0) -> Array:
    """[R, n]: offsets, maxima that come late or slowly rise, ties, one-hot, masks, stagnating tails."""
    random = np.random.default_rng(seed)
    normal = random.standard_normal((2, n))
    place = np.arange(n)[None, :]
    tail = np.full((1, n), -12.0)
    tail[0, 0] = 0.0
    masked = np.where(random.random((1, n)) < 0.5, -np.inf, normal[:1])
    masked[0, 7] = 1.0
    found = np.concatenate(
        [
            normal,
            10 * normal,
            1000 + 20 * normal,
            -500 - normal,
            place / n,
            place / 4,
            -place / 2.0,
            np.where(place >= n - 5, 60.0, -40.0),
            np.where(place == n // 2, 50.0, 0.0),
            np.zeros((1, n)),
            np.full((1, n), 0.1),
            tail,
            masked,
            np.where(place % 3 == 0, -60000.0, normal[:1]),
            np.where(place == 3, 0.0, -np.inf),
            np.where(place == 0, 4 + 8 * fmt.u, 1 + 6 * fmt.u),  # every difference is a tie
            np.where(place == 0, 0.0, _badly_rounded_exponential(fmt)),
            10000 + 5 * normal if fmt is FLOAT32 else normal,
        ]
    )
    return round_to(found, fmt)


def _badly_rounded_exponential(fmt: Format) -> float:
    """The value in (-4, -1) whose exponential loses most when it is rounded to ``fmt``."""
    x = round_to(-1 - 3 * np.arange(1, 2000) / 2000, fmt)
    e = np.exp(x)
    return float(x[np.argmax(abs(round_to(e, fmt) - e) / e)])


def exponentials(x: list[Any]) -> tuple[Any, list[Any], Any]:
    largest = max(x)
    e = [mp.exp(v - largest) for v in x]
    total = mp.mpf(0)
    for v in e:
        total += v
    return largest, e, total


def exact_softmax(x: list[Any]) -> list[Any]:
    _, e, total = exponentials(x)
    return [v / total for v in e]


def exact_log_softmax(x: list[Any]) -> list[Any]:
    largest, _, total = exponentials(x)
    return [(v - largest) - mp.log(total) for v in x]


def exact_logsumexp(x: list[Any]) -> Any:
    largest, _, total = exponentials(x)
    return largest + mp.log(total)


EXACT = {softmax.name: exact_softmax, log_softmax.name: exact_log_softmax, logsumexp.name: exact_logsumexp}
CONTRACTS = {contract.name: contract for contract in (softmax, log_softmax, logsumexp)}


def shifted(unit: Unit, x: Array) -> tuple[Array, Array, Array]:
    """Maxima [R, 1], exponentials [R, n] and their sums [R, 1] by a laned sum."""
    m = x.max(axis=1, keepdims=True)
    e = unit.exp(unit.sub(x, m))
    return m, e, laned(unit, e, 32)[0][:, None]


def scaled(unit: Unit, x: Array, *, contracted: bool = True) -> tuple[Array, Array, Array]:
    m = x.max(axis=1, keepdims=True)
    e = unit.exp_scaled(x, m + np.zeros_like(x), contracted=contracted)
    e = np.where(np.isinf(x), 0.0, e)
    return m, e, tree(unit, e)[0][:, None]


def online(unit: Unit, x: Array, block: int = 64) -> tuple[Array, Array, Array]:
    """One pass over blocks: the sum so far is rescaled by exp(old maximum - new maximum)."""
    m = np.full((len(x), 1), -np.inf)
    total = np.zeros((len(x), 1))
    for start in range(0, x.shape[1], block):
        part = x[:, start : start + block]
        new = np.maximum(m, part.max(axis=1, keepdims=True))
        safe = np.where(np.isinf(new), 0.0, new)
        alpha = unit.exp(unit.sub(m, safe))
        more = tree(unit, unit.exp(unit.sub(part, safe)))[0][:, None]
        total, m = unit.add(unit.mul(total, alpha), more), new
    return m, unit.exp(unit.sub(x, m)), total


FORMS: dict[str, tuple[Callable[[Unit, Array], tuple[Array, Array, Array]], dict[str, Any]]] = {
    "shifted": (shifted, {}),
    "scaled": (scaled, {"exp": "scaled"}),
    "scaled, not contracted": (lambda U, x: scaled(U, x, contracted=False), {"exp": "scaled"}),
    "online": (online, {}),
}


def outputs(name: str, unit: Unit, x: Array, parts: tuple[Array, Array, Array]) -> dict[str, Array]:
    """Results of a contract from maxima, exponentials and sums."""
    m, e, total = parts
    if name == "softmax":
        # A reciprocal is right to 1 ulp (1.63 u on an H200), so that its product keeps the claim of 5 u.
        reciprocal = Unit(off=0 if isinstance(unit.off, str) else max(-1, min(1, unit.off)))
        inverse = reciprocal.div(np.ones_like(total), total)
        return {"e / Σ": unit.div(e, total + np.zeros_like(e)), "e · (1/Σ)": unit.mul(e, inverse)}
    if name == "log_softmax":
        return {"(x - m) - log Σ": unit.sub(unit.sub(x, m), unit.log(total))}
    return {"m + log Σ": unit.add(m, unit.log(total))}


def of_row(contract: Contract) -> Callable[..., Any]:
    """The contract along the last axis, as a definition of x alone."""
    return lambda x: contract(x, -1)


def held_by(name: str, form: str, x: Array) -> dict[Any, Array]:
    """Results of a contract computed in one form, with approximations off by up to 2 ulp."""
    found = {}
    for off in MISSES:
        unit = Unit(off=off)
        for key, value in outputs(name, unit, x, FORMS[form][0](unit, x)).items():
            found[f"{form}, {key}, off by {off}"] = value
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CONTRACTS)
def test_every_form_is_allowed(name: str, form: str) -> None:
    contract, claims = CONTRACTS[name], FORMS[form][1]
    x = logits(FLOAT32)
    exact = truth(EXACT[name], x)
    held = held_by(name, form, x)
    attack(of_row(contract), {"x": x}, exact, held, kernel(contract, **claims))
    # A contracted m·c is the same for the whole row, and cancels in softmax; logsumexp rounds at |m| anyway.
    if (name == "log_softmax" and claims) or (name, form) == ("softmax", "scaled, not contracted"):
        assert rejected(of_row(contract), {"x": x}, exact, held, kernel(contract))


@pytest.mark.parametrize("form", ["shifted", "online"])
@pytest.mark.parametrize("name", CONTRACTS)
def test_short_rows_come_close_to_the_bound(name: str, form: str) -> None:
    contract = CONTRACTS[name]
    x = logits(FLOAT32)[:12, :3]
    exact = truth(EXACT[name], x)
    held = held_by(name, form, x)
    attack(of_row(contract), {"x": x}, exact, held, kernel(contract))
    assert rejected(of_row(contract), {"x": x}, exact, held, narrower(kernel(contract)))


@pytest.mark.parametrize(
    ("block", "n", "claims"), [(16, 2048, {}), (64, 4096, {}), (1, 512, {"depth": "sequential"})]
)
def test_online_softmax_over_many_rescalings(block: int, n: int, claims: dict[str, Any]) -> None:
    """A maximum that rises in every block: each rescaling costs an exponential, a product and an addition."""
    x = round_to(np.arange(n) * np.array([[1e-6], [1e-4], [1e-2]]), FLOAT32)
    exact = truth(exact_softmax, x)
    held = {}
    for off in MISSES:
        unit = Unit(off=off)
        held[off] = outputs("softmax", unit, x, online(unit, x, block))["e / Σ"]
    attack(of_row(softmax), {"x": x}, exact, held, kernel(softmax, **claims))


def test_the_largest_element_of_a_row_costs_no_exponential() -> None:
    """exp(0) is 1, so that a row of one element shows an epsilon of 1e-6 beside the sum."""
    x = round_to(np.array([[0.0], [1.0], [-3000.0], [1e30]]), FLOAT32)
    exact = truth(exact_softmax, x)
    unit = Unit(off=2)
    ones = unit.exp(unit.sub(x, x))
    held = {"e / Σ": unit.div(ones, ones)}
    attack(of_row(softmax), {"x": x}, exact, held, kernel(softmax))
    wrong = {"e / (Σ + eps)": Unit().div(ones, unit.add(ones, np.full_like(ones, 1e-6)))}
    assert rejected(of_row(softmax), {"x": x}, exact, wrong, kernel(softmax), times=3)


def with_rounding(name: str, place: str, fmt: Format, x: Array) -> Array:
    """A float32 kernel that rounds to ``fmt`` at one place; its result before the last cast."""
    unit = Unit()

    def at(where: str, v: Array) -> Array:
        return round_to(v, fmt) if where == place else v

    m = x.max(axis=1, keepdims=True)
    difference = at("shifted", unit.sub(x, m))
    e = at("exponentials", unit.exp(difference))
    total = at("total", tree(unit, e)[0][:, None])
    if name == "softmax":
        return unit.div(e, total + np.zeros_like(e))
    logarithm = at("logarithm", unit.log(total))
    if name == "logsumexp":
        return unit.add(m, logarithm)
    if place == "lse":
        return unit.sub(x, at("lse", unit.add(m, logarithm)))
    return unit.sub(difference, logarithm)


PLACES = [(name, place) for name, contract in CONTRACTS.items() for place in contract.roundings]


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize(("name", "place"), PLACES)
def test_a_rounding_needs_its_claim(name: str, place: str, fmt: Format) -> None:
    """And the claim is that of one rounding: with two bits more in the store it would reject."""
    contract = CONTRACTS[name]
    x = logits(fmt)
    exact = truth(EXACT[name], x)
    held = {place: with_rounding(name, place, fmt, x)}
    claimed = kernel(contract, fmt, roundings=(place,))
    attack(of_row(contract), {"x": x}, exact, held, claimed)
    assert rejected(of_row(contract), {"x": x}, exact, held, kernel(contract, fmt))
    finer = dataclasses.replace(fmt, name="finer", precision=fmt.precision + 2)
    weak = dataclasses.replace(claimed, roundings={place: finer})
    assert rejected(of_row(contract), {"x": x}, exact, held, weak)


@pytest.mark.parametrize("name", CONTRACTS)
def test_all_roundings_at_once(name: str) -> None:
    """A kernel that stores every step, as eager PyTorch does in bfloat16."""
    contract = CONTRACTS[name]
    x = logits(BFLOAT16)
    unit, store = Unit(), Unit(BFLOAT16)
    m = x.max(axis=1, keepdims=True)
    difference = store.round(unit.sub(x, m))
    e = store.round(unit.exp(difference))
    total = store.round(tree(unit, e)[0][:, None])
    logarithm = store.round(unit.log(total))
    held = {
        "softmax": unit.div(e, total + np.zeros_like(e)),
        "log_softmax": unit.sub(difference, logarithm),
        "logsumexp": unit.add(m, logarithm),
    }[name]
    places = tuple(place for place in contract.roundings if place != "lse")
    exact = truth(EXACT[name], x)
    attack(of_row(contract), {"x": x}, exact, {"": held}, kernel(contract, BFLOAT16, roundings=places))


def test_bracketed_log_softmax_needs_its_claim_in_float32() -> None:
    """x - (m + log Σ) rounds at |m|, not at |x - m|."""
    x = logits(FLOAT32)
    held = {"lse": with_rounding("log_softmax", "lse", FLOAT32, x)}
    exact = truth(exact_log_softmax, x)
    attack(of_row(log_softmax), {"x": x}, exact, held, kernel(log_softmax, roundings=("lse",)))
    assert rejected(of_row(log_softmax), {"x": x}, exact, held, kernel(log_softmax))


@pytest.mark.parametrize("order", ["tree", "laned"])
@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16], ids=lambda fmt: fmt.name)
def test_a_narrow_accumulator_needs_its_claim(fmt: Format, order: str) -> None:
    x = logits(fmt)
    exact = truth(exact_softmax, x)
    unit = Unit(fmt)
    e = unit.exp(unit.sub(x, x.max(axis=1, keepdims=True)))
    total, depth = ORDERS[order](unit, e)
    held = {order: unit.div(e, total[:, None] + np.zeros_like(e))}
    claimed = kernel(softmax, fmt, accumulator=fmt.name, depth=depth)
    attack(of_row(softmax), {"x": x}, exact, held, claimed)
    assert rejected(of_row(softmax), {"x": x}, exact, held, kernel(softmax, fmt))
