"""No reading is further from mpmath than its radius: a sample here, the whole by ``python -m benchmarks.proof``."""

from __future__ import annotations

import pytest

from benchmarks.proof import OUTPUTS, READINGS, SUBJECTS, Subject, compare
from harness.numbers import double, double_backend, double_elementary
from harness.numbers.backend import Float64
from harness.numbers.double import Double
from harness.numbers.model import Model

BY_NAME = {subject.contract.name: subject for subject in SUBJECTS}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.contract.name)
def test_readings_lie_within_their_radius(subject: Subject, reading: str) -> None:
    found = compare(subject, reading, 100)
    assert found.outside == 0
    assert found.lost < found.outputs, "nothing was compared"


@pytest.mark.slow
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.contract.name)
def test_readings_lie_within_their_radius_on_many_outputs(subject: Subject, reading: str) -> None:
    assert compare(subject, reading, OUTPUTS, seed=1).outside == 0


@pytest.mark.parametrize("name", ["sum", "matmul"])
def test_a_rule_that_forgets_the_roundings_of_a_sum_is_caught(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(Model, "growth", lambda self, n: 0.0)
    monkeypatch.setattr("harness.numbers.dots.compound", lambda steps, u: 0.0, raising=False)
    assert compare(BY_NAME[name], "float64", 1000).outside > 0


def test_sums_in_float32_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Float64, "sum", lambda self, a, dim: a.float().sum(dim, keepdim=True).double())
    assert compare(BY_NAME["sum"], "float64", 300).outside > 0


@pytest.mark.parametrize("name", ["matmul", "softmax", "var", "gelu"])
def test_products_without_their_low_word_are_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def without(a: Double, b: Double) -> Double:
        return Double(a.hi * b.hi)

    monkeypatch.setattr(double, "multiply", without)
    monkeypatch.setattr("harness.numbers.double_elementary.multiply", without)
    assert double_backend.double.multiply is without
    assert compare(BY_NAME[name], "double-double", 300).outside > 0


def test_a_series_that_stops_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = double_elementary._series
    monkeypatch.setattr(double_elementary, "_series", lambda x, ratio, terms: whole(x, ratio, terms // 2))
    assert compare(BY_NAME["softmax"], "double-double", 300).outside > 0
