"""Which reading judges what: float64, double-double, mpmath, and that all tell the same."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

import references
from harness import formats, oracle
from harness.arithmetic import Arithmetic
from harness.case import Case, Recipe, Row, materialise
from harness.checks.judgement import Judgement, Target
from harness.checks.sentence import judge
from harness.contracts import Contract
from harness.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Format, round_mp
from harness.layouts import Layout
from harness.numbers import Answer, read_double, read_exactly
from harness.numbers.double import Double, two_sum
from harness.numbers.double_rounding import downward, round_double, upward
from harness.parts import PART, parts

mp = mpmath.MPContext()
mp.prec = 400


def launch(
    contract: Contract,
    fmt: str,
    sizes: dict[str, Any],
    scalars: dict[str, Any],
    *families: str,
    seed: int = 0,
) -> tuple[Case, dict[str, torch.Tensor]]:
    """A case with rows of these families in turn, and its exact values."""
    rows = tuple(Row(family, seed=seed + i) for i, family in enumerate(families or ("gaussian",)))
    tensors = {}
    for name, spec in contract.tensors.items():
        ndim = len(contract.shape(spec.shape, sizes, scalars))
        tensors[name] = Recipe(fmt, Layout(tuple(range(ndim))), rows)
    case = Case(sizes, scalars, tensors)
    return case, materialise(contract, case).exact


def judged(contract: Contract, case: Case, exact: Any, got: Any, **claims: Any) -> oracle.Judged:
    return oracle.judge_case(contract, Arithmetic(**claims), case, exact, [got])


def test_kernels_up_to_float32_are_judged_by_float64() -> None:
    case, exact = launch(references.sum, "float32", {"*shape": (4, 9)}, {"dim": -1})
    assert judged(references.sum, case, exact, exact["x"].float().sum(-1).double()).escalated == {}


def test_float64_kernels_are_judged_by_double_double_and_lost_rows_by_mpmath() -> None:
    case, exact = launch(references.mean, "float64", {"*shape": (4, 9)}, {"dim": -1}, "gaussian", "subnormal")
    found = judged(references.mean, case, exact, exact["x"].mean(-1))
    assert found.escalated == {"double-double": 4, "mpmath": 2}
    assert bool(found.outputs[0].right.all())


def test_a_claim_without_roundings_is_judged_by_mpmath() -> None:
    case, exact = launch(references.sum, "float32", {"*shape": (2, 9)}, {"dim": -1})
    right = torch.tensor([math.fsum(row) for row in exact["x"].tolist()], dtype=torch.float64)
    found = judged(references.sum, case, exact, formats.round_to(right, FLOAT32), depth=0)
    assert found.escalated == {"mpmath": 2}


def test_codes_on_a_boundary_go_up_alone() -> None:
    """x / scale within the float64 reading's radius of the end of what a code may be."""
    contract, arithmetic = references.quantize_int8, Arithmetic()
    sizes, scalars = {"*batch": (2,), "N": 4}, {}
    case, _ = launch(contract, "float32", sizes, scalars)
    share = 5 * 2.0**-24 * (1 + 2.0**-25 / 2)
    scale = torch.tensor([1.0 + 2.0**-23, 1.0], dtype=torch.float64)
    x = torch.tensor([[1.5, 0.0, 1.0, 127.0], [1.0, 2.0, 3.0, 127.0]], dtype=torch.float64)
    x[0, 0] = 1.5 / (1 - share) * float(scale[0])
    got = [torch.tensor([[1.0, 0.0, 1.0, 127.0], [1.0, 2.0, 3.0, 127.0]], dtype=torch.float64), scale]
    found = oracle.judge_case(contract, arithmetic, case, {"x": x}, got)
    assert found.escalated == {"double-double": 5}
    assert not bool(found.outputs[0].right[0, 0])
    x[0, 0] = 1.5
    assert oracle.judge_case(contract, arithmetic, case, {"x": x}, got).escalated == {}


FAMILIES = (
    "gaussian", "ill-conditioned", "half-ulps", "offset", "near-overflow", "subnormal", "wide", "equal",
    "some-minus-inf", "nan-at", "inf-at", "minus-inf-row", "cancelling-pairs",
)  # fmt: skip
CONTRACTS = ["sum", "mean", "prod", "cumsum", "softmax", "log_softmax", "logsumexp", "vector_norm", "amax"]


@pytest.mark.parametrize("fmt", ["float64", "float32"])
@pytest.mark.parametrize("name", CONTRACTS)
def test_double_double_judges_as_mpmath_does(name: str, fmt: str) -> None:
    """Ranges of right answers agree to an ulp and 1e-12 of t, flags agree, on every family of rows."""
    contract: Contract = getattr(references, name)
    case, exact = launch(contract, fmt, {"*shape": (len(FAMILIES), 7)}, {"dim": -1}, *FAMILIES)
    call = oracle.arguments(contract, case, exact)
    model, target = (
        oracle.model_for(contract, Arithmetic(), case),
        oracle.targets(contract, Arithmetic(), case),
    )
    shape = contract.shape(contract.outputs[0].shape, case.sizes, case.scalars)
    near, wide = (read(contract.definition, call, model, [shape])[0] for read in (read_double, read_exactly))
    got = torch.zeros(shape, dtype=torch.float64)
    a, b = judge(got, near, target[0]), judge(got, wide, target[0])
    known = ~a.unbounded & ~b.unbounded
    assert int(known.sum()) > known.numel() / 3
    assert torch.equal(a.may[known], b.may[known])
    for end in ("lo", "hi"):
        mine, theirs = getattr(a, end)[known], getattr(b, end)[known]
        held = formats.format_of(fmt)
        mine = formats.round_to(mine, held, mode="up" if end == "lo" else "down")
        step = formats.ulp(torch.nan_to_num(theirs), held)
        same = (
            (mine == theirs)
            | (mine.isnan() & theirs.isnan())
            | ((mine - theirs).abs() <= step + 1e-12 * b.t[known])
        )
        assert bool(same.all()), (name, end, mine[~same], theirs[~same])


@pytest.mark.parametrize("fmt", [FLOAT64, FLOAT32, FLOAT16, BFLOAT16], ids=lambda fmt: fmt.name)
def test_double_doubles_round_once(fmt: Format) -> None:
    """Half way between two numbers of the format, and less than float64 can tell on either side of it."""
    random = np.random.default_rng(0)
    base = formats.round_to(random.standard_normal(300) * 2.0 ** random.integers(-20, 5, 300), fmt)
    half = formats.half_ulp(base, fmt)
    high, low = torch.from_numpy(base), torch.from_numpy(half)
    if fmt is not FLOAT64:
        high, low = high + low, torch.from_numpy(random.choice([0.0, 1.0, -1.0], 300)) * high.abs() * 2.0**-70
    x = Double(*two_sum(high, low))
    for i in range(300):
        exact = mp.mpf(float(high[i])) + mp.mpf(float(low[i]))
        assert float(round_double(x, fmt)[i]) == round_mp(exact, fmt)
        assert float(upward(x)[i]) == round_mp(exact, FLOAT64, mode="up")
        assert float(downward(x)[i]) == round_mp(exact, FLOAT64, mode="down")


def test_of_scores_that_tie_beyond_float64_the_least_is_chosen() -> None:
    high = torch.tensor([[1.0, 1.0, 2.0]], dtype=torch.float64)
    low = torch.tensor([[2.0**-60, 0.0, 0.0]], dtype=torch.float64)
    answer = Answer(Double(high, low), torch.zeros_like(high), torch.zeros((1, 3), dtype=torch.uint8))
    target = Target("choice", None, FLOAT64)
    first, second = (judge(torch.tensor([i], dtype=torch.float64), answer, target).right for i in (0.0, 1.0))
    assert (first.tolist(), second.tolist()) == ([False], [True])


SPLIT = [
    (references.softmax, {"*shape": (40, 5000)}, {"dim": -1}),
    (references.softmax, {"*shape": (5000, 40)}, {"dim": 0}),
    (references.logsumexp, {"*shape": (3, 40, 2000)}, {"dim": 1}),
    (references.layer_norm, {"*batch": (7, 9), "N": 3000}, {"eps": 1e-5}),
    (references.silu, {"*shape": (50, 4000)}, {}),
    (references.group_norm, {"N": 30, "G": 4, "Cg": 5, "*spatial": (500,)}, {"eps": 1e-5}),
    (references.quantize_int8, {"*batch": (64,), "N": 4000}, {}),
    (references.matmul, {"M": 900, "N": 300, "K": 20}, {}),
    (references.attention, {"B": 5, "Hkv": 4, "G": 2, "S": 100, "T": 33, "D": 64, "Dv": 8},
     {"scale": 0.3, "causal": "bottom-right", "window": 5}),
]  # fmt: skip


@pytest.mark.parametrize(
    "contract, sizes, scalars", SPLIT, ids=[f"{row[0].name}-{i}" for i, row in enumerate(SPLIT)]
)
def test_parts_are_judged_as_the_whole(
    contract: Contract, sizes: Any, scalars: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, exact = launch(contract, "float32", sizes, scalars, "gaussian", "offset")
    shapes = [contract.shape(output.shape, sizes, scalars) for output in contract.outputs]
    got = [torch.ones(shape, dtype=torch.float64) for shape in shapes]
    monkeypatch.setattr("harness.parts.PART", 1 << 17)
    assert len(parts(contract, case, exact, got)) > 1
    divided = oracle.judge_case(contract, Arithmetic(), case, exact, got).outputs
    monkeypatch.setattr("harness.parts.PART", PART << 20)
    assert len(parts(contract, case, exact, got)) == 1
    for a, b in zip(
        divided, oracle.judge_case(contract, Arithmetic(), case, exact, got).outputs, strict=True
    ):
        _assert_same(a, b)


def _assert_same(a: Judgement, b: Judgement) -> None:
    assert torch.equal(a.may, b.may)
    assert torch.equal(a.unspecified, b.unspecified)
    for name in ("value", "t", "lo", "hi"):
        torch.testing.assert_close(getattr(a, name), getattr(b, name), rtol=1e-6, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("causal", [None, "top-left", "bottom-right"])
def test_a_query_of_attention_is_read_again_at_its_place(causal: str | None, group: int) -> None:
    """float64 attention with a row that double-double loses: its position, and its head in a group, count."""
    contract = references.attention
    sizes = {"B": 2, "Hkv": 2, "G": group, "S": 3, "T": 4, "D": 2, "Dv": 2}
    case, exact = launch(
        contract, "float64", sizes, {"scale": 1.0, "causal": causal, "window": None}, "gaussian"
    )
    exact["q"][1, -1, 1] = 1e-300
    call = oracle.arguments(contract, case, exact)
    model = oracle.model_for(contract, Arithmetic(), case)
    shape = contract.shape(contract.outputs[0].shape, case.sizes, case.scalars)
    right = read_exactly(contract.definition, call, model, [shape])[0]
    got = torch.from_numpy(np.array(right.value, dtype=np.float64))
    found = judged(contract, case, exact, got)
    assert found.escalated["mpmath"] > 0
    assert bool(found.outputs[0].right.all())
    assert not bool(found.outputs[0].unbounded.any())
    assert not bool(judged(contract, case, exact, got * (1 + 1e-9)).outputs[0].right[1, -1, 1].any())
