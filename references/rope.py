"""Rotary position embedding with a table of cosines and sines."""

from __future__ import annotations

from harness.declaration import contract
from harness.numbers import Number, concatenate, reshape, rounded, stack, unsqueeze


@contract(
    args={"x": "B H S 2*D2", "cos": "S D2", "sin": "S D2", "interleaved": (False, True)},
    returns="B H S 2*D2",
    rows="B H S",
    families=(
        "decisive-one-hot",
        "decisive-large",
        "positive",
        "equal",
        "one-huge",
        "small-integers",
        "near-overflow",
        "near-underflow",
        "subnormal",
        "nan-at",
        "inf-at",
    ),
    roundings={"products": "each product is rounded to the input's format before the two are added"},
)
def rope(x: Number, cos: Number, sin: Number, interleaved: bool) -> Number:
    """x₁·cos - x₂·sin and x₂·cos + x₁·sin of every pair (x₁, x₂), with cos and sin of its row and number.

    Pair i is (x₂ᵢ, x₂ᵢ₊₁) if interleaved, else (xᵢ, xᵢ₊D/₂). x [B, H, S, D], cos and sin [S, D/2].
    """
    *outer, half = *x.shape[:-1], cos.shape[-1]
    pairs = reshape(x, (*outer, half, 2) if interleaved else (*outer, 2, half))
    first, second = (pairs[..., 0], pairs[..., 1]) if interleaved else (pairs[..., 0, :], pairs[..., 1, :])

    def product(a: Number, b: Number) -> Number:
        return rounded(a * b, "products")

    cos, sin = unsqueeze(unsqueeze(cos, 0), 0), unsqueeze(unsqueeze(sin, 0), 0)
    turned = (product(first, cos) - product(second, sin), product(second, cos) + product(first, sin))
    return reshape(stack(turned, -1), x.shape) if interleaved else concatenate(turned, -1)
