"""No reading is further from mpmath than its radius: a sample here, the whole by ``python -m benchmarks.proof``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import references
from benchmarks.proof import CONTRACTS, READINGS, Found, compare
from benchmarks.proof.__main__ import OUTPUTS, main
from benchmarks.proof.launches import launches
from harness import numbers
from harness.contracts import Tensor, Whole
from harness.declaration import contract
from harness.numbers import Number, double, double_backend, double_elementary, read_float64
from harness.numbers import number as rules
from harness.numbers.backend import Float64
from harness.numbers.double import Double
from harness.numbers.model import Model
from harness.numbers.number import LOST, UNSPECIFIED

EVERY = pytest.mark.parametrize("name", CONTRACTS)
ALL = pytest.mark.parametrize("reading", READINGS)
IN_PIECES = (
    "amax",
    "amin",
    "argmax",
    "argmin",
    "logsumexp",
    "mean",
    "sum",
    "var",
    "vector_norm",
    "weighted_mean",
)


def proved(name: str, reading: str, outputs: int, seed: int = 0) -> Found:
    return compare(getattr(references, name), reading, outputs, seed)


@EVERY
@ALL
def test_readings_lie_within_their_radius(name: str, reading: str) -> None:
    found = proved(name, reading, 40)
    assert found.outside == 0, found.example
    assert found.refused is (reading == "in-pieces" and name not in IN_PIECES)
    assert found.refused or found.compared >= 40, "nothing was compared"


@pytest.mark.slow
@EVERY
@ALL
def test_readings_lie_within_their_radius_on_many_outputs(name: str, reading: str) -> None:
    found = proved(name, reading, OUTPUTS, seed=1)
    assert found.outside == 0, found.example
    assert found.refused or found.compared >= OUTPUTS


@EVERY
def test_a_brief_reading_allows_no_more_than_the_whole(name: str) -> None:
    """What is right by less than it is allowed is right: only then may a judge stop there."""
    subject = getattr(references, name)
    for launch in itertools.islice(launches(subject, read_float64, 0, seed=3), 12):
        shapes = [None] * len(launch.contract.outputs)
        given = (launch.contract.definition, launch.arguments, launch.model, shapes)
        for brief, whole in zip(read_float64(*given, brief=True), read_float64(*given), strict=True):
            known = (whole.may & (LOST | UNSPECIFIED)) == 0
            assert bool((brief.t <= whole.t * (1 + 2.0**-30))[known].all())
            assert torch.equal(torch.nan_to_num(brief.value[known]), torch.nan_to_num(whole.value[known]))


@contract(
    args={
        "x": "N M",
        "shift": Tensor("M", optional=True),
        "which": Tensor("N", dtype="int64", whole=Whole(0, "M")),
        "parts": Tensor("N", many="count"),
        "power": (2, 3),
    },
    returns="N",
    rows="N",
    nonempty=("M",),
    sizes={"count": (2, 3)},
)
def chosen_power(x: Number, shift: Number | None, which: Number, parts: list[Number], power: int) -> Number:
    """(Σ_j parts_j + (x - shift)[which])ⁿ: a contract that the proof has never seen."""
    moved = x if shift is None else x - shift
    picked = numbers.take_along(moved, numbers.unsqueeze(which, 1), 1)
    total = numbers.sum(numbers.stack(parts, 0), 0)
    return (numbers.reshape(picked, x.shape[:1]) + numbers.reshape(total, x.shape[:1])) ** power


@pytest.mark.parametrize("reading", [name for name in READINGS if name != "in-pieces"])
def test_a_new_contract_is_proved_from_its_declaration(reading: str) -> None:
    found = compare(chosen_power, reading, 300)
    assert (found.outside, found.compared >= 300) == (0, True), found.example
    assert found.largest > 0


@contract(args={"x": "N"}, returns="N")
def hopeless(x: Number) -> Number:
    """Nothing is known of it: 0/0."""
    return (x - x) / (x - x + 1.0 - 1.0)


def test_a_contract_of_which_too_few_outputs_are_compared_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "sum", hopeless)
    assert main(["sum", "--outputs", "10", "--reading", "float64"]) == 1


def test_the_command_prints_a_line_for_each_reading(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["amax", "sum", "--outputs", "20"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [[n, r] for n in ("amax", "sum") for r in READINGS]
    assert all("outside 0" in line and "lost" in line for line in lines)
    with pytest.raises(SystemExit):
        main(["sums"])


def forgetful(rule: Callable[..., Number]) -> Callable[..., Number]:
    """A rule that takes its operands for exact."""

    def exact(x: Any) -> Any:
        return Number(x.reading, x.v, 0.0, x.may, x.origin, x.beyond) if isinstance(x, Number) else x

    return lambda *operands, **options: rule(*map(exact, operands), **options)


def rounded_once(rule: Callable[..., Number]) -> Callable[..., Number]:
    """A rule that allows a rounding of the result, whatever cancelled in it."""

    def wrong(*operands: Any, **options: Any) -> Number:
        found = rule(*operands, **options)
        return Number(found.reading, found.v, abs(found.v) * found.reading.model.u, found.may)

    return wrong


Plant = Callable[[pytest.MonkeyPatch], None]
RULES: dict[str, tuple[Plant, str]] = {
    "a sum's depth": (lambda m: m.setattr(Model, "growth", lambda self, n: 0.0), "sum"),
    "the error of a dividend": (lambda m: m.setattr(rules, "_divide", forgetful(rules._divide)), "mean"),
    "the error of a factor": (lambda m: m.setattr(rules, "_multiply", forgetful(rules._multiply)), "linear"),
    "what cancels in a sum of two": (lambda m: m.setattr(rules, "_add", rounded_once(rules._add)), "gelu"),
    "what cancels in a dot": (lambda m: m.setattr(numbers, "matmul", rounded_once(numbers.matmul)), "bmm"),
    "all but a 256th of the radius": (
        lambda m: (
            m.setattr("harness.numbers.read.held", lambda radius: radius * 2.0**-8)
            or m.setattr("harness.numbers.read.ORACLE_SHARE", 0.0)
        ),
        "cumsum",
    ),
}
"""What a rule forgets, and a contract that shows it."""


@pytest.mark.parametrize("forgotten", RULES)
def test_a_rule_that_forgets_something_is_caught(monkeypatch: pytest.MonkeyPatch, forgotten: str) -> None:
    plant, name = RULES[forgotten]
    assert proved(name, "float64", 600).outside == 0
    plant(monkeypatch)
    assert proved(name, "float64", 600).outside > 0


def test_a_reading_that_allows_less_than_its_rules_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smaller of two errors where the larger is due: values are as they were."""
    monkeypatch.setattr(Float64, "maximum", Float64.minimum)
    assert proved("var", "float64", 300).outside > 0


def test_sums_in_float32_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Float64, "sum", lambda self, a, dim: a.float().sum(dim, keepdim=True).double())
    assert proved("sum", "float64", 300).outside > 0


def test_exponentials_in_float32_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Float64._UNARY, "exp", lambda a: torch.exp(a.float()).double())
    assert proved("silu", "float64", 300).outside > 0


@pytest.mark.parametrize("name", ["matmul", "softmax", "var", "gelu", "adam", "quantize_int8"])
def test_products_without_their_low_word_are_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def without(a: Double, b: Double) -> Double:
        return Double(a.hi * b.hi)

    monkeypatch.setattr(double, "multiply", without)
    monkeypatch.setattr(double, "divide", lambda a, b: Double(a.hi / b.hi))
    monkeypatch.setattr("harness.numbers.double_elementary.multiply", without)
    assert double_backend.double.multiply is without
    assert proved(name, "double-double", 300).outside > 0


def test_quotients_that_forget_what_is_unknown_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = double.divide

    def forgetting(a: Double, b: Double) -> Double:
        found = whole(Double(a.hi, torch.nan_to_num(a.lo)), b)
        return Double(found.hi, torch.where(b.unknown, torch.nan, found.lo))

    monkeypatch.setattr(double, "divide", forgetting)
    assert proved("adam", "double-double", 1000).outside > 0


def test_a_series_that_stops_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = double_elementary._series
    monkeypatch.setattr(double_elementary, "_series", lambda x, ratio, terms: whole(x, ratio, terms // 2))
    assert proved("softmax", "double-double", 300).outside > 0


def test_a_root_without_its_newton_step_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(double_elementary._FUNCTIONS, "sqrt", lambda a: Double(torch.sqrt(a.hi)))
    assert proved("vector_norm", "double-double", 100).outside > 0
