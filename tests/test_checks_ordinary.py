"""Judgements that are worked out when they are read: the same as the sentence taken at its word, element by element."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from attending import data

import references
from harness import formats, numbers, oracle
from harness.arithmetic import Arithmetic
from harness.case import Case, Recipe, Row, materialise
from harness.checks.judgement import Judgement, Later, Ordinary, Target
from harness.checks.sentence import judge
from harness.formats import BFLOAT16, FLOAT8_E4M3FN, FLOAT16, FLOAT32, Format
from harness.layouts import Layout
from harness.numbers import Answer, Number, read_float64
from harness.numbers.backend import Float64
from harness.numbers.number import Reading

FLAGS = torch.zeros((), dtype=torch.uint8)


def answer(value: torch.Tensor, t: torch.Tensor) -> Answer:
    most = float((value.abs() + t).max())
    return Answer(value, t, FLAGS.expand(value.shape), flagged=False, most=most)


def neighbours(fmt: Format) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values on, beside and between numbers of a format, errors from none to two ulp, and answers nearby [n]."""
    random = torch.Generator().manual_seed(0)
    at = torch.cat(
        [torch.arange(-40, 40), torch.arange(0, fmt.last_ordinal - 4, max(1, fmt.last_ordinal // 999))]
    )
    near = torch.from_numpy(formats.from_ordinal(at.numpy(), fmt)).repeat_interleave(40)
    spacing = formats.ulp(near, fmt)
    share = torch.tensor([0.0, 0.25, 0.5 - 2.0**-20, 0.5, 0.5 + 2.0**-20, 1.0, -0.5, -0.25])
    pick = torch.randint(len(share), near.shape, generator=random)
    value = near + share[pick].double() * spacing
    sizes = torch.tensor([0.0, 2.0**-20, 2.0**-19, 0.3, 1.0, 2.0]).double()
    t = sizes[torch.randint(len(sizes), near.shape, generator=random)] * spacing
    steps = torch.randint(-2, 3, near.shape, generator=random)
    got = torch.from_numpy(formats.from_ordinal((at.repeat_interleave(40) + steps).numpy(), fmt))
    return value, t, got


@pytest.mark.parametrize("fmt", [BFLOAT16, FLOAT16, FLOAT8_E4M3FN, FLOAT32], ids=lambda fmt: fmt.name)
def test_what_is_near_enough_is_right_and_only_that(fmt: Format) -> None:
    value, t, got = neighbours(fmt)
    target = Target("number", fmt, FLOAT32)
    judged = judge(got, answer(value, t), target)
    assert isinstance(judged, Ordinary)
    lo, hi = value - t, value + t
    if target.rounds:
        lo, hi = formats.round_to(lo, fmt), formats.round_to(hi, fmt)
    right = (lo <= got) & (got <= hi)
    assert bool(right.any()) and not bool(right.all())
    assert torch.equal(judged.right, right) and not judged.right_everywhere
    assert torch.equal(judged.lo, lo) and torch.equal(judged.hi, hi)
    assert torch.equal(judged.decisive, ~((lo <= 0) & (hi >= 0)))
    assert torch.equal(judged.only_zero, (lo == 0) & (hi == 0))
    kept = judge(got[right], answer(value[right], t[right]), target)
    assert kept.right_everywhere and bool(kept.right.all())


@pytest.mark.parametrize("fmt", [BFLOAT16, FLOAT32], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 2.0])
def test_one_wrong_element_is_seen(fmt: Format, wrong: float) -> None:
    value = torch.full((5, 7), 1.0, dtype=torch.float64)
    got = value.clone()
    got[3, 4] = wrong
    judged = judge(got, answer(value, value * 2.0**-20), Target("number", fmt, FLOAT32))
    assert not judged.right_everywhere
    assert (~judged.right).nonzero().tolist() == [[3, 4]]
    assert judged.ratio[3, 4] > 1


def attended() -> tuple[Case, dict[str, Any], torch.Tensor]:
    """A launch of attention, its exact values, and what torch gives for it in float64, rounded to float32."""
    sizes = {"B": 2, "Hkv": 3, "G": 1, "S": 7, "T": 9, "D": 8, "Dv": 5}
    recipe = {
        name: Recipe("float32", Layout((0, 1, 2, 3)), (Row("gaussian", seed=seed),))
        for seed, name in enumerate("qkv")
    }
    case = Case(sizes, {"scale": 0.125, "causal": None, "window": None}, recipe)
    exact = materialise(references.attention, case, device="cpu").exact
    result = torch.nn.functional.scaled_dot_product_attention(*(exact[name] for name in "qkv"), scale=0.125)
    return case, exact, formats.round_to(result, FLOAT32)


def judged_of(case: Case, exact: dict[str, Any], got: torch.Tensor) -> Judgement:
    return oracle.judge_case(references.attention, Arithmetic(), case, exact, [got]).outputs[0]


def test_what_a_brief_reading_finds_right_is_read_in_full_for_who_asks() -> None:
    case, exact, got = attended()
    judged = judged_of(case, exact, got)
    assert isinstance(judged, Later) and judged.right_everywhere
    call = oracle.arguments(references.attention, case, exact)
    model = oracle.model_for(references.attention, Arithmetic(), case)
    (whole,) = read_float64(references.attention.definition, call, model, [tuple(got.shape)])
    assert torch.equal(judged.t, whole.t) and torch.equal(judged.value, whole.value)
    assert bool(judged.decisive.all()) and not bool(judged.only_zero.any())


@pytest.mark.parametrize("keys", [1, 4, 40])
@pytest.mark.parametrize("window", [1, 5, math.inf])
@pytest.mark.parametrize("causal", ["top-left", "bottom-right"])
def test_a_mask_is_read_briefly_where_each_row_has_a_key(causal: str, window: float, keys: int) -> None:
    """Four queries, which are read in full where one has no key; on rows that have broken a rule."""
    q, k, v = (torch.from_numpy(array) for array in data(FLOAT32, keys).values())
    distance = torch.arange(4)[:, None] - torch.arange(keys) + (keys - 4 if causal == "bottom-right" else 0)
    seen = (distance >= 0) & (distance < window)
    held_to = Arithmetic().model(references.attention, FLOAT32)

    def average(*, brief: bool) -> tuple[Number, list[str]]:
        reading = Reading(Float64(), held_to, brief=brief)
        scores = reading.exact(0.3 * q @ k.mT)
        return numbers.softmax_average(scores, reading.exact(v), seen), reading.shortened

    (short, shortened), (whole, _) = average(brief=True), average(brief=False)
    assert bool(shortened) == bool(seen.any(-1).all())
    assert torch.equal(short.v, whole.v)
    assert bool((short.t <= whole.t * (1 + 2.0**-30)).all())


def test_what_only_the_whole_reading_allows_is_right_and_no_more() -> None:
    """Elements between the errors of the brief and the whole reading, and one beyond both."""
    case, exact, got = attended()
    t = judged_of(case, exact, got).t
    inside = formats.round_to(got + 0.99 * t, FLOAT32)
    judged = judged_of(case, exact, inside)
    assert not isinstance(judged, Later) and judged.right_everywhere
    beyond = got.clone()
    beyond[1, 2, 3, 4] += 1.5 * float(t[1, 2, 3, 4])
    judged = judged_of(case, exact, formats.round_to(beyond, FLOAT32))
    assert (~judged.right).nonzero().tolist() == [[1, 2, 3, 4]]


@pytest.mark.parametrize("scale", [0.125, 0.1, 3.0, -0.7, 1.0])
@pytest.mark.parametrize("small", [1.0, 2.0**-70, 0.0])
def test_the_error_of_a_scaled_product_is_the_largest_of_its_three_ways(scale: float, small: float) -> None:
    """Products of ordinary size, near the smallest subnormal, and 0."""
    random = torch.Generator().manual_seed(1)
    a, b = (torch.randn(shape, generator=random).double() * small for shape in ((4, 6), (6, 5)))
    a[1] = 0.0
    root = math.sqrt(abs(scale))

    def ways(a: Number, b: Number) -> list[Number]:
        found = [numbers.matmul(a * scale, b), numbers.matmul(a, b) * scale]
        return [*found, numbers.matmul(a * root, b * root)] if scale > 0 else found

    def read(definition: Any, outputs: int) -> list[Answer]:
        model = Arithmetic().model(references.attention, FLOAT32)
        return read_float64(definition, {"a": a, "b": b}, model, [(4, 5)] * outputs)

    (found,) = read(lambda a, b: numbers.scaled_matmul(a, b, scale), 1)
    each = read(ways, 3 if scale > 0 else 2)
    largest = torch.stack([way.t for way in each]).amax(0)
    # Sums of six products each, in float64, and some constants: no more than 64 roundings.
    torch.testing.assert_close(found.t, largest, rtol=64 * 2.0**-53, atol=0.0)
    assert torch.equal(found.value, each[0].value)
