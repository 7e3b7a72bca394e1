"""attention and attention_lse against PyTorch in float64, and against a loop over queries and keys."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from definitions import answers, assert_is
from torch.nn.functional import scaled_dot_product_attention

import harness
import references
from harness.contracts import Choice
from harness.formats import BFLOAT16

SHAPES = [
    # B, Hkv, G, S, T, D, Dv
    (2, 1, 1, 5, 5, 8, 8),
    (1, 2, 3, 7, 4, 5, 6),
    (3, 3, 2, 1, 9, 16, 4),
    (1, 1, 4, 6, 1, 1, 3),
    (2, 2, 1, 3, 40, 24, 2),
]
WINDOWS = (None, 1, 2, 5, 40)
ALIGNMENTS = (None, "top-left", "bottom-right")


def tensors(shape: tuple[int, ...], scale: float = 1.0, seed: int = 0) -> dict[str, torch.Tensor]:
    b, heads, group, s, t, d, dv = shape
    generator = torch.Generator().manual_seed(seed)
    sizes = {"q": (b, heads * group, s, d), "k": (b, heads, t, d), "v": (b, heads, t, dv)}
    made = {n: torch.randn(size, dtype=torch.float64, generator=generator) for n, size in sizes.items()}
    made["q"] *= scale
    made["v"] *= 2.0 ** torch.arange(heads)[None, :, None, None]
    return made


def call(
    made: dict[str, torch.Tensor], scale: float, causal: str | None, window: int | None
) -> dict[str, Any]:
    return {**made, "scale": scale, "causal": causal, "window": window}


def loop(q: Any, k: Any, v: Any, *, scale: float, causal: str | None, window: int | None) -> tuple[Any, Any]:
    """Query by query, key by key, from the words of the contract."""
    (b, h, s, d), (heads, t), dv = q.shape, k.shape[1:3], v.shape[3]
    out, lse = (
        torch.zeros(b, h, s, dv, dtype=torch.float64),
        torch.full((b, h, s), -math.inf, dtype=torch.float64),
    )
    for n, head, i in itertools.product(range(b), range(h), range(s)):
        mine = head // (h // heads)
        at = i + (t - s if causal == "bottom-right" else 0)
        seen = [
            j for j in range(t) if (causal is None and window is None) or at - (window or t + s) < j <= at
        ]
        if not seen:
            continue
        z = torch.stack([scale * sum(q[n, head, i, x] * k[n, mine, j, x] for x in range(d)) for j in seen])
        weight = torch.exp(z - z.max())
        out[n, head, i] = sum(w * v[n, mine, j] for w, j in zip(weight, seen, strict=True)) / weight.sum()
        lse[n, head, i] = z.max() + torch.log(weight.sum())
    return out, lse


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("scale", [0.125, 1.0, -0.5])
def test_without_a_mask_and_square_causal_as_pytorch(shape: tuple[int, ...], scale: float) -> None:
    for seed, size in enumerate((1.0, 30.0)):
        made = tensors(shape, size, seed)
        wanted = scaled_dot_product_attention(**_named(made), scale=scale, enable_gqa=True)
        assert_is(references.attention, call(made, scale, None, None), wanted)
        if (
            shape[3] == shape[4] and scale > 0
        ):  # PyTorch 2.13 gives NaN where is_causal meets a negative scale
            wanted = scaled_dot_product_attention(
                **_named(made), scale=scale, enable_gqa=True, is_causal=True
            )
            for causal in ("top-left", "bottom-right"):
                assert_is(references.attention, call(made, scale, causal, None), wanted)


def _named(made: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {"query": made["q"], "key": made["k"], "value": made["v"]}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("causal", ALIGNMENTS)
def test_masks_as_pytorch_with_a_boolean_mask(shape: tuple[int, ...], causal: str | None) -> None:
    """PyTorch gives 0 to a row that is masked everywhere; its logsumexp is -inf."""
    made = tensors(shape)
    s, t = shape[3:5]
    distance = (
        torch.arange(s)[:, None] - torch.arange(t)[None, :] + (t - s if causal == "bottom-right" else 0)
    )
    for window in WINDOWS[1:] if causal is None else WINDOWS:
        mask = (distance >= 0) & (distance < (window or math.inf))
        out = scaled_dot_product_attention(**_named(made), scale=0.3, enable_gqa=True, attn_mask=mask)
        assert not out[..., ~mask.any(1), :].any()
        k = made["k"].repeat_interleave(shape[2], 1)
        scores = (0.3 * made["q"] @ k.mT).masked_fill(~mask, -math.inf)
        arguments = call(made, 0.3, causal, window)
        assert_is(references.attention, arguments, out)
        assert_is(references.attention_lse, arguments, out, torch.logsumexp(scores, -1))


@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_every_mask_as_a_loop(shape: tuple[int, ...]) -> None:
    made = tensors(shape)
    for causal, window in itertools.product(ALIGNMENTS, WINDOWS):
        arguments = call(made, 0.7, causal, window)
        out, lse = loop(**arguments)
        assert_is(references.attention_lse, arguments, out, lse)


def test_the_set_of_keys_can_be_read_off() -> None:
    """Equal scores and one-hot values: each key that is seen weighs one over their number (B64)."""
    made = {"q": torch.zeros(1, 1, 4, 2), "k": torch.zeros(1, 1, 3, 2), "v": torch.eye(3)[None, None]}
    made = {name: value.double() for name, value in made.items()}
    third = [1 / 3] * 3
    for causal, window, wanted in (
        (None, None, [third] * 4),
        ("top-left", None, [[1, 0, 0], [0.5, 0.5, 0], third, third]),
        ("bottom-right", None, [[0, 0, 0], [1, 0, 0], [0.5, 0.5, 0], third]),
        (None, 1, [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]),
        ("bottom-right", 2, [[0, 0, 0], [1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]]),
    ):
        expected = torch.tensor(wanted, dtype=torch.float64).reshape(1, 1, 4, 3)
        assert_is(references.attention, call(made, 1.0, causal, window), expected)


def test_the_query_heads_of_a_key_head_are_neighbours() -> None:
    """H = 6, Hkv = 2: heads 0 to 2 read the first (B66)."""
    made = tensors((1, 2, 3, 1, 1, 2, 1))
    made["v"] = torch.tensor([1.0, 2.0], dtype=torch.float64).reshape(1, 2, 1, 1)
    wanted = torch.tensor([1.0, 1, 1, 2, 2, 2], dtype=torch.float64).reshape(1, 6, 1, 1)
    assert_is(references.attention, call(made, 1.0, None, None), wanted)


def test_no_keys_and_no_queries() -> None:
    for s, t in ((3, 0), (0, 3), (0, 0)):
        made = tensors((2, 1, 2, s, t, 4, 5))
        for causal, window in itertools.product(ALIGNMENTS, (None, 2)):
            out, lse = torch.zeros(2, 2, s, 5), torch.full((2, 2, s), -math.inf)
            assert_is(references.attention_lse, call(made, 1.0, causal, window), out, lse)


def test_infinite_and_nan_queries() -> None:
    """NaN but where no key is seen; scores that are all -inf give 0, as in PyTorch."""
    q = torch.tensor([math.inf, -math.inf, math.nan, 1.0], dtype=torch.float64).reshape(1, 1, 4, 1)
    for keys in ([1.0], [1.0, 2.0], [1.0, -2.0], [0.0, 1.0]):
        k = torch.tensor(keys, dtype=torch.float64).reshape(1, 1, -1, 1)
        made = {"q": q, "k": k, "v": k + 1}
        wanted = scaled_dot_product_attention(
            **_named(made), scale=1.0, attn_mask=torch.ones(4, len(keys)).bool()
        )
        assert_is(references.attention, call(made, 1.0, None, None), wanted)
    made = {name: torch.full((1, 1, 1, 1), 2.0).double() for name in "kv"}
    made["q"] = torch.full((1, 1, 2, 1), math.nan).double()
    wanted = torch.tensor([0.0, math.nan]).reshape(1, 1, 2, 1)
    assert_is(references.attention, call(made, 1.0, "bottom-right", None), wanted)


def test_roundings_matter() -> None:
    made = tensors((2, 1, 1, 4, 40, 8, 3), 4.0)
    for contract in (references.attention, references.attention_lse):
        plain = {place for place in contract.roundings if place not in contract.usual}
        assert plain == {"scaled_query", "product", "scores", "normalizer", "partials"}
        _assert_matter(contract, call(made, 0.3, None, None))


def _assert_matter(contract: Any, arguments: dict[str, Any]) -> None:
    shapes = [(2, 1, 4, 3), (2, 1, 4)][: len(contract.outputs)]
    plain = answers(contract, arguments, shapes, BFLOAT16)[0].t
    for place in contract.roundings:
        allowed = answers(contract, arguments, shapes, BFLOAT16, roundings=(place,))[0].t
        assert place in contract.usual or (allowed > 1.2 * plain).any(), place
    fp32 = answers(contract, arguments, shapes)[0].t
    assert (plain > 10 * fp32).any()


def test_the_arguments_that_search_draws() -> None:
    """Both alignments and windows of one, of a few and of many keys."""
    assert isinstance(references.attention.args["causal"], Choice)
    assert set(references.attention.args["causal"].values) == set(ALIGNMENTS)
    assert {None, 1} < set(references.attention.args["window"].values)  # type: ignore[union-attr]


def _lse_in(dtype: torch.dtype | None, factor: float = 1.0) -> Any:
    """A right attention in float64 whose logsumexp has a format: None for that of q."""

    def function(q: Any, k: Any, v: Any, *, scale: float, causal: str | None, window: int | None) -> Any:
        exact = {"q": q.double(), "k": k.double(), "v": v.double()}
        shapes = [(*q.shape[:3], v.shape[3]), q.shape[:3]]
        out, lse = answers(references.attention_lse, call(exact, scale, causal, window), shapes)
        return out.value.to(q.dtype), (factor * lse.value).to(dtype or q.dtype)

    return function


@pytest.mark.parametrize(
    ("dtype", "factor", "outcome"),
    [
        (torch.float32, 1.0, "PASS"),
        (None, 1.0, "PASS"),
        (None, 1 + 2**-6, "FAIL"),
        (torch.float32, 1 + 2**-12, "FAIL"),
        (torch.float64, 1.0, "FAIL"),
    ],
)
def test_the_logsumexp_is_judged_by_the_format_it_is_returned_in(
    dtype: torch.dtype | None, factor: float, outcome: str
) -> None:
    verdict = harness.check(
        _lse_in(dtype, factor), references.attention_lse, "bfloat16", examples=40, shrink=False
    )
    assert verdict.outcome == outcome, str(verdict)
    if dtype == torch.float64:
        assert verdict.findings[0].message == (
            "lse has dtype torch.float64, should have torch.float32 or torch.bfloat16"
        )
