"""The tiers of the oracle: what one does not know goes up, and what none knows is left open and counted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import harness
import references
from harness import numbers
from harness.case import Case, Recipe, Row
from harness.contracts import Output
from harness.declaration import contract
from harness.layouts import Layout
from harness.numbers import Number
from harness.search import explain_bound, replay


@contract(args={"x": "*shape"}, returns="*shape", rows="all but last", families=("gaussian", "nan-at"))
def nothing_left(x: Number) -> Number:
    """exp(x) - exp(x): 0, and no precision that is much like float64's knows how near."""
    return numbers.exp(x) - numbers.exp(x)


def test_an_oracle_that_does_not_settle_ends_no_check(monkeypatch: Any) -> None:
    monkeypatch.setattr("harness.numbers.read.PRECISIONS", (60,))
    verdict = harness.check(lambda x: x * 0.0, nothing_left, "float64", claims={"depth": 0}, examples=20)
    assert not verdict.findings
    tally = verdict.tallies["float64"]
    assert tally.unbounded > 0
    assert verdict.outcome == "INCONCLUSIVE", "what nobody knows decides nothing"


@contract(args={"x": "*shape", "y": "*shape"}, returns=Output("*shape", argument="x"), rows="all but last")
def add_in_place(x: Number, y: Number) -> Number:
    """x + y."""
    return x + y


def test_a_result_in_the_memory_of_an_argument_is_kept_when_that_is_restored() -> None:
    """In float64 its values need no conversion, and would be those of the next launch."""

    def right(x: torch.Tensor, y: torch.Tensor) -> None:
        x += y

    calls = []

    def every_other(x: torch.Tensor, y: torch.Tensor) -> None:
        calls.append(x)
        x += y if len(calls) % 2 else 0.0

    for dtype in ("float64", "float32"):
        assert harness.check(right, add_in_place, dtype, examples=30).ok
        found = harness.check(every_other, add_in_place, dtype, examples=30, shrink=False)
        assert found.findings[0].check == "repeatable", str(found)


def test_the_last_rounding_of_a_sum_may_not_go_away_from_zero_at_ties() -> None:
    def half_away(x: torch.Tensor, dim: int) -> torch.Tensor:
        total = x.float().sum(dim)
        bits = total.view(torch.int32)
        away = ((bits + 0x8000) & -0x10000).view(torch.float32)
        whole = torch.where(total.isfinite(), away, total).view(torch.int32)
        return (whole >> 16).to(torch.int16).view(torch.bfloat16)

    found = harness.check(half_away, references.sum, "bfloat16", shrink=False)
    assert found.outcome == "FAIL"
    assert found.findings[0].check == "accuracy", str(found)


def test_small_weights_of_a_softmax_in_float64_are_judged() -> None:
    """exp(-700) is a normal number, and 0 is wrong for it."""
    row = Row("literal", values=("0x0p+0", "-0x1.5ep+9", "0x1p+0"))
    case = Case({"*shape": (3,)}, {"dim": -1}, {"x": Recipe("float64", Layout((0,)), (row,))})

    def flushed(x: torch.Tensor, dim: int) -> torch.Tensor:
        y = torch.softmax(x, dim)
        return torch.where(y < 1e-295, 0.0, y)

    assert replay(torch.softmax, references.softmax, case).ok
    assert replay(flushed, references.softmax, case).outcome == "FAIL"


@pytest.mark.parametrize("fmt", ["float32", "float64"])
def test_a_bound_is_made_of_its_sources(fmt: str) -> None:
    """Each taken out of the model in turn, whatever a reading thinks of a model without it."""
    row = Row("literal", values=("0x0p+0", "-0x1.8p+1", "0x1p+0"))
    case = Case({"*shape": (3,)}, {"dim": -1}, {"x": Recipe(fmt, Layout((0,)), (row,))})
    lines = explain_bound(references.softmax, None, case, 0, (1,))
    for source in ("roundings of reductions", "exp: 5 u", "divide: 5 u"):
        assert any(source in line for line in lines), lines
    shares = [float(line.split("(")[1].split(" %")[0]) for line in lines if " %) " in line]
    assert 99 < sum(shares) < 101


def attended(*, causal: str | None, query: tuple[str, ...]) -> harness.Verdict:
    """A right attention over grouped heads in float64, of which one row of queries is out of a reading's range."""
    queries = [Row("gaussian", seed=i) for i in range(2 * 2 * 5)]
    queries[7] = Row("literal", values=query)
    tensors: dict[str, Recipe | None] = {
        "q": Recipe("float64", Layout((0, 1, 2, 3)), tuple(queries)),
        "k": Recipe("float64", Layout((0, 1, 2, 3)), (Row("gaussian", seed=3), Row("gaussian", seed=4))),
        "v": Recipe("float64", Layout((0, 1, 2, 3)), (Row("gaussian", seed=5), Row("gaussian", seed=6))),
    }
    sizes = {"B": 2, "Hkv": 1, "G": 2, "S": 5, "D": 4, "T": 6, "Dv": 3}
    case = Case(sizes, {"scale": 0.125, "causal": causal, "window": None}, tensors)

    def right(q: Any, k: Any, v: Any, *, scale: float, causal: str | None, window: int | None) -> Any:
        scores = scale * (q @ k.transpose(-1, -2))
        if causal:
            scores = scores.masked_fill(torch.ones(5, 6).tril().logical_not(), -torch.inf)
        return scores.softmax(-1) @ v

    return replay(right, references.attention, case)


@pytest.mark.parametrize("causal", [None, "top-left"])
@pytest.mark.parametrize("value", ["0x1p-1060"])
def test_a_row_of_an_attention_goes_up_with_its_keys_and_its_place(causal: str | None, value: str) -> None:
    verdict = attended(causal=causal, query=(value,) * 4)
    assert verdict.ok, str(verdict)
    assert verdict.tallies["float64"].escalated["mpmath"] > 0


def test_one_row_without_batch_axes_is_multiplied_in_float64() -> None:
    row = Row("gaussian", seed=1)
    x, weight = Recipe("float64", Layout((0,)), (row,)), Recipe("float64", Layout((0, 1)), (row,))
    tensors = {"x": x, "weight": weight, "bias": None}
    case = Case({"*batch": (), "I": 17, "O": 3}, {"activation": None}, tensors)
    verdict = replay(lambda x, weight, bias, activation: x @ weight.T, references.linear, case)
    assert verdict.ok, str(verdict)
