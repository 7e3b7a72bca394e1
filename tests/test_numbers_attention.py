"""The rules for softmax averages and their logsumexps, attacked with every form of attention that kernels use."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from attending import SCALE, Form, Held, chain, data, exact, mask, scale_after, scale_before, scale_both
from emulation import Unit
from judging import Array, Truth, attack, narrower, rejected
from torch.nn import functional

import references
from harness.arithmetic import Arithmetic
from harness.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, TF32, Format, round_to
from harness.numbers import Model, read_double, read_exactly, read_float64
from harness.numbers.number import LOST, NAN, NINF, PINF, SPANNED, UNSPECIFIED

FORMATS = (FLOAT32, FLOAT16, BFLOAT16)
MISSES: list[int | str] = [0, 2, -2, "random"]
T = 40


def kernel(fmt: Format = FLOAT32, **claims: Any) -> Model:
    return Arithmetic(**claims).model(references.attention, fmt)


def outputs(which: int, causal: str | None = None, window: int | None = None) -> Callable[..., Any]:
    """One output of attention_lse as a definition of q [B, S, D], k and v alone."""

    def read(q: Any, k: Any, v: Any) -> Any:
        from harness.numbers import unsqueeze

        q, k, v = (unsqueeze(x, 1) for x in (q, k, v))
        return references.attention_lse(q, k, v, scale=SCALE, causal=causal, window=window)[which]

    return read


def forms(fmt: Format, block: int = 16, **claims: Any) -> dict[str, Callable[..., Held]]:
    """Every form with approximations off by up to 2 ulp; probabilities cast to ``fmt``."""
    found: dict[str, Callable[..., Held]] = {}
    for off in MISSES:
        for scores in (scale_after, scale_before, scale_both):
            for base in (0, 2):
                form = Form(Unit(off=off), scores=scores, cast=fmt, base=base, block=block)
                name = f"{scores.__name__}, base {base or 'e'}, off by {off}"
                found[f"online, {name}"] = form.online
                if scores is scale_after:
                    backwards = Form(Unit(off=off), scores=scores, cast=fmt, base=base, block=-block)
                    found[f"backwards, {name}"] = backwards.online
                    found[f"two passes, {name}"] = form.two_pass
                    found[f"normalised, {name}"] = form.normalised
                    found[f"split, {name}"] = form.split
    return found


def attacked(
    x: dict[str, Array],
    held: dict[str, Held],
    model: Model,
    causal: str | None = None,
    window: int | None = None,
) -> float:
    """The largest ratio of both outputs; asserts that every form is allowed."""
    visible = mask(x["q"].shape[1], x["k"].shape[1], causal, window)
    return max(
        attack(outputs(i, causal, window), x, truth, {n: h[i] for n, h in held.items()}, model)
        for i, truth in enumerate(exact(**x, visible=visible))
    )


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize(
    ("causal", "window"), [(None, None), ("bottom-right", None), ("top-left", 3), (None, 1)], ids=str
)
def test_every_form_is_allowed(fmt: Format, causal: str | None, window: int | None) -> None:
    t = T if causal is None else 3  # 3 keys and 4 queries: rows without a key
    x = data(fmt, t=t)
    visible = mask(4, t, causal, window)
    held = {name: form(**x, visible=visible) for name, form in forms(fmt).items()}
    assert attacked(x, held, kernel(fmt), causal, window) > 0.1


@pytest.mark.parametrize(
    ("block", "t", "claims"), [(16, 160, {}), (64, 160, {}), (1, 48, {"depth": "sequential"})]
)
def test_blocks_of_other_sizes(block: int, t: int, claims: dict[str, Any]) -> None:
    x = data(FLOAT32, t=t, s=2, d=4, dv=2)
    held = {}
    for off in MISSES:
        form = Form(Unit(off=off), block=block)
        held[f"off by {off}"] = form.online(**x, visible=mask(2, t, None, None))
        held[f"split, off by {off}"] = form.split(**x, visible=mask(2, t, None, None))
    attacked(x, held, kernel(**claims))


@pytest.mark.parametrize("which", [0, 1], ids=["average", "lse"])
@pytest.mark.parametrize("t", [2, 3])
def test_a_rule_four_times_tighter_is_violated(t: int, which: int) -> None:
    x = data(FLOAT32, t=t, d=1, dv=4, s=12, seed=1)
    visible = mask(12, t, None, None)
    held = {name: form(**x, visible=visible)[which] for name, form in forms(FLOAT32, block=1).items()}
    truth = exact(**x, visible=visible)[which]
    attack(outputs(which), x, truth, held, kernel(depth="sequential"))
    assert rejected(outputs(which), x, truth, held, narrower(kernel(depth="sequential")))


def rounded_before(place: str, fmt: Format, x: dict[str, Array]) -> Held:
    """A float32 kernel on inputs of ``fmt`` that casts to it at one place."""
    unit = Unit()
    q, k, v = x["q"], x["k"], x["v"]
    visible = mask(q.shape[1], k.shape[1], None, None)

    def scores(unit: Unit, q: Array, k: Array) -> Array:
        if place == "scaled_query":
            q = round_to(unit.mul(q, SCALE + 0 * q), fmt)
            return chain(unit, q, k.transpose(0, 2, 1))
        if place == "product":
            product = round_to(chain(unit, q, k.transpose(0, 2, 1)), fmt)
            return unit.mul(product, SCALE + 0 * product)
        z = scale_after(unit, q, k)
        return round_to(z, fmt) if place == "scores" else z

    form = Form(unit, scores=scores, cast=fmt if place == "probabilities" else FLOAT32)
    if place == "partials":
        return form.split(q, k, v, visible, parts=3, partials=fmt)
    if place == "normalizer":
        exact_exp = form._exp
        form._exp = lambda z, m: round_to(exact_exp(z, m), fmt)  # type: ignore[method-assign]
    return form.online(q, k, v, visible)


PLACES = list(references.attention.roundings)


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("place", PLACES)
def test_a_rounding_needs_its_claim(place: str, fmt: Format) -> None:
    """And the claim is that of one rounding: with two bits more in the store it would reject."""
    x = data(fmt, t=16)
    truth = exact(**x, visible=mask(4, 16, None, None))[0]
    held = {place: rounded_before(place, fmt, x)[0]}
    plain = dataclasses.replace(kernel(fmt), roundings={})
    claimed = dataclasses.replace(plain, roundings={place: fmt})
    attack(outputs(0), x, truth, held, claimed)
    assert rejected(outputs(0), x, truth, held, plain)
    finer = dataclasses.replace(fmt, name="finer", precision=fmt.precision + 2)
    assert rejected(outputs(0), x, truth, held, dataclasses.replace(plain, roundings={place: finer}))


def test_only_probabilities_are_usual() -> None:
    assert set(kernel(BFLOAT16).roundings) == {"probabilities"}


def test_tf32_needs_its_claim() -> None:
    def truncated(x: Array) -> Array:
        return round_to(x, TF32, mode="toward-zero")

    x = data(FLOAT32, t=16)
    form = Form(Unit(), scores=lambda U, q, k: scale_after(U, truncated(q), truncated(k)))
    cast = dataclasses.replace(TF32)
    form.cast = cast
    found = form.online(x["q"], x["k"], truncated(x["v"]), mask(4, 16, None, None))
    truth = exact(**x, visible=mask(4, 16, None, None))
    for i in range(2):
        attack(outputs(i), x, truth[i], {"": found[i]}, kernel(dot="tf32"))
        assert rejected(outputs(i), x, truth[i], {"": found[i]}, kernel())


def test_errors_of_weights_move_a_result_by_its_distance_from_the_values() -> None:
    """Values of 100 with scores that are hardly known: plain propagation would allow any of them."""
    q = torch.full((1, 1, 1, 8), 1e4, dtype=torch.float64)
    k = 1e4 + torch.arange(32, dtype=torch.float64).reshape(1, 1, 4, 8)
    v = 100 + torch.arange(4, dtype=torch.float64).reshape(1, 1, 4, 1) * 2.0**-10
    arguments = {"q": q, "k": k, "v": v, "scale": 1.0, "causal": None, "window": None}
    answer = read_float64(references.attention.definition, arguments, kernel(), [(1, 1, 1, 1)])[0]
    assert 0 < float(answer.t) < 0.004


@pytest.mark.parametrize("causal", [None, "bottom-right"])
def test_both_readings_agree(causal: str | None) -> None:
    x = {name: torch.from_numpy(value[:, None]) for name, value in data(BFLOAT16, t=3, d=2, dv=2).items()}
    arguments = {**x, "scale": SCALE, "causal": causal, "window": None}
    shapes = [(17, 1, 4, 2), (17, 1, 4)]
    for claims in ({}, {"dot": "tf32"}, {"roundings": ("scores", "normalizer", "partials", "scaled_query")}):
        model = Arithmetic(**claims).model(references.attention_lse, BFLOAT16)
        quick = read_float64(references.attention_lse.definition, arguments, model, shapes)
        slow = read_exactly(references.attention_lse.definition, arguments, model, shapes)
        for a, b in zip(quick, slow, strict=True):
            np.testing.assert_allclose(a.t.numpy(), b.t.astype(float), rtol=1e-6)
            np.testing.assert_allclose(a.value.numpy(), b.value.astype(float), rtol=1e-10, atol=1e-12)
            assert (a.may.numpy() == b.may).all()


def answer_to(
    q: list[float], k: list[float], v: list[float], **arguments: Any
) -> tuple[list[float], list[int]]:
    """Values and flags of out and lse for queries, keys and values of one element each."""
    tensors = {
        n: torch.tensor(x, dtype=torch.float64).reshape(1, 1, -1, 1)
        for n, x in (("q", q), ("k", k), ("v", v))
    }
    arguments = {"scale": 1.0, "causal": None, "window": None, **tensors, **arguments}
    model = Arithmetic().model(references.attention_lse, FLOAT32)
    answers = read_float64(references.attention_lse.definition, arguments, model, [(len(q),), (len(q),)])
    assert all((answer.t >= 0).all() for answer in answers)
    return [x for a in answers for x in a.value.tolist()], [x for a in answers for x in a.may.tolist()]


INF = math.inf


def test_rows_without_keys_and_with_infinite_scores() -> None:
    assert answer_to([1.0, 1.0], [2.0], [3.0], causal="bottom-right") == ([0, 3, -INF, 2], [0, 0, 0, 0])
    assert answer_to([1.0], [], []) == ([0, -INF], [0, 0])
    assert answer_to([-INF], [2.0, 1.0], [3.0, 4.0]) == ([0, -INF], [NAN, NAN])
    values, flags = answer_to([INF, math.nan, INF], [2.0, 1.0], [3.0, 4.0])
    assert np.isnan(values[:3]).all()
    assert (values[3], values[5], flags) == (INF, INF, [0, 0, 0, NAN, 0, NAN])
    assert answer_to([-INF, math.nan], [2.0], [3.0], causal="bottom-right")[0][0] == 0


def test_overflow_adds_answers() -> None:
    big, huge = 2.0**64, 2.0**127
    assert all(flag & UNSPECIFIED for flag in answer_to([big], [big, 1.0], [3.0, 4.0])[1])
    assert all(flag & UNSPECIFIED for flag in answer_to([huge], [1.5, 0.0], [3.0, 4.0])[1])  # in base 2
    # A score that may be -inf is as good as masked, unless it is the largest.
    assert answer_to([big], [-big, 1.0], [3.0, 4.0])[1] == [SPANNED, 0]
    assert all(flag & UNSPECIFIED for flag in answer_to([big], [-big, -big], [3.0, 4.0])[1])
    assert answer_to([0.0], [1.0, 1.0, 1.0], [huge, huge, huge])[1] == [PINF | NAN, 0]
    assert answer_to([0.0], [1.0, 1.0, 1.0], [-huge, -huge, 1.0])[1] == [NINF | NAN, 0]
    assert answer_to([0.0], [1.0], [huge])[1] == [0, 0]


def test_a_masked_score_that_overflows_may_leave_nan() -> None:
    """PyTorch's scaled_dot_product_attention adds -inf to +inf; below every number there is nothing to add."""
    big = 2.0**64
    assert answer_to([big], [1.0, big], [3.0, 4.0], causal="top-left") == ([3, big], [NAN, NAN])
    assert answer_to([big], [1.0, -big], [3.0, 4.0], causal="top-left")[1] == [0, 0]
    q, k, v = (torch.tensor(x).reshape(1, 1, -1, 1) for x in ([big], [1.0, big], [3.0, 4.0]))
    mask = torch.tensor([[True, False]])
    assert functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0).isnan().all()


def test_a_truth_is_what_it_says() -> None:
    """The naive loop against a row worked by hand: weights 1/4 and 3/4."""
    q, k = np.array([[[1.0]]]), np.array([[[0.0], [math.log(3) / SCALE]]])
    out, lse = exact(q, k, np.array([[[4.0], [8.0]]]), mask(1, 2, None, None))
    assert isinstance(out, Truth)
    assert math.isclose(out.hi.item(), 7.0, rel_tol=1e-15) and math.isclose(lse.hi.item(), math.log(4))


def test_scores_beyond_the_digits_of_the_reading_leave_all_that_the_values_span() -> None:
    """q·k is the same of both keys, 2^100 of float64's ulps below its terms: the reading takes the one or the other."""
    q = torch.tensor([1e37, -1e37, 1.0, 3.0], dtype=torch.float64).reshape(1, 1, 1, 4)
    k = torch.tensor([[0.1, 0.1, 0.5, 0.25], [0.3, 0.3, 0.125, 0.375]], dtype=torch.float64).reshape(
        1, 1, 2, 4
    )
    v = torch.tensor([[2.0, 5.0], [8.0, -1.0]], dtype=torch.float64).reshape(1, 1, 2, 2)
    given = {"q": q, "k": k, "v": v, "scale": 1.0, "causal": None, "window": None}
    for read in (read_float64, read_double):
        found = read(references.attention.definition, given, kernel(flush="none"), [None])[0]
        value = getattr(found.value, "hi", found.value)[0, 0, 0]
        assert bool(((found.may & SPANNED) != 0).all())
        low, high = v[0, 0].amin(0), v[0, 0].amax(0)
        assert bool(((low <= value) & (value <= high)).all())
        assert bool(((value - found.t <= low) & (value + found.t >= high)).all())
    plain = read_float64(references.attention.definition, {**given, "q": q / 1e37}, kernel(), [None])[0]
    assert not bool((plain.may & SPANNED).any())


def test_averages_whose_numerator_overflows_the_reading_are_lost() -> None:
    """The sum of four values of 1.7e308 does; their average does not."""
    zeros = torch.zeros(1, 1, 4, 2, dtype=torch.float64)
    given = {"q": zeros[..., :1, :], "k": zeros, "v": torch.full((1, 1, 4, 1), 1.7e308, dtype=torch.float64)}
    scalars = {"scale": 1.0, "causal": None, "window": None}
    found = read_double(references.attention.definition, {**given, **scalars}, kernel(FLOAT64), [None])[0]
    assert bool(((found.may & LOST) != 0).all())


def test_the_largest_value_may_be_infinite_as_tf32() -> None:
    given = {"q": torch.zeros(1, 1, 2, 4), "k": torch.zeros(1, 1, 3, 4), "v": torch.zeros(1, 1, 3, 4)}
    given["v"][..., 1, 2] = torch.finfo(torch.float32).max
    call = {name: tensor.double() for name, tensor in given.items()}
    scalars = {"scale": 1.0, "causal": None, "window": None}
    for dot, open_ in (("tf32", [False, False, True, False]), ("ieee", [False] * 4)):
        held_to = Arithmetic(dot=dot).model(references.attention, FLOAT32)
        (answer,) = read_float64(references.attention.definition, {**call, **scalars}, held_to, [None])
        assert ((answer.may & UNSPECIFIED) != 0).reshape(2, 4).tolist() == [open_] * 2
