"""One step of Adam, AdamW and SGD, in place, as torch.optim does it; and the unscaling of gradients.

Scalars are numbers of the algebra: a launcher may do its arithmetic on them in float64, a kernel in
float32, so that 1 - beta2 may be off by 216 u (numerics.md §1).
"""

from __future__ import annotations

from typing import Any

from harness.contracts import Output, Tensor
from harness.declaration import contract
from harness.numbers import Number, amax, isfinite, maximum, reshape, rounded, scalar, sqrt, where
from harness.values import Family, Param, family

_GRADIENTS = (
    "gaussian",
    "positive",
    "small-integers",
    "wide",
    "signed-zeros",
    "near-underflow",
    "one-huge",
    "equal",
)


@family("second-moment", "generic", params=(Param("scale", (1.0, 2.0**-20, 2.0**-60, 2.0**10, 2.0**-110)),))
def second_moment(s: Any, n: int, fmt: Any, scale: float) -> Any:
    """Running means of squares: never negative, from 0 to far below eps² and far above."""
    return scale * s.uniform(n) * s.uniform(n, lane=1)


@family("tiny-gradients", "structured", params=(Param("scale", (2.0**-26, 2.0**-30, 2.0**-20)),))
def tiny_gradients(s: Any, n: int, fmt: Any, scale: float) -> Any:
    """Gradients about as large as eps, where its place and size decide the step."""
    return scale * s.normal(n)


_MOMENTS: tuple[str | Family, ...] = (second_moment, "positive", "positive-integers")
_STATE = "the running means are rounded to their format before the step uses them"


@contract(
    args={
        "param": Tensor("*shape", families=("gaussian", "positive", "small-integers", "offset")),
        "grad": Tensor("*shape", families=(*_GRADIENTS, tiny_gradients)),
        "exp_avg": Tensor("*shape", families=("gaussian", "small-integers", "signed-zeros", tiny_gradients)),
        "exp_avg_sq": Tensor("*shape", families=_MOMENTS),
        "step": (1, 2, 10, 257, 1000),
        "lr": (1e-3, 0.1),
        "beta1": (0.9, 0.5),
        "beta2": (0.999, 0.95),
        "eps": (1e-8, 1e-3),
        "weight_decay": (0.0, 0.1),
        "decoupled": (False, True),
    },
    returns=(
        Output("*shape", name="param", argument="param"),
        Output("*shape", name="exp_avg", argument="exp_avg"),
        Output("*shape", name="exp_avg_sq", argument="exp_avg_sq"),
    ),
    rows="all but last",
    roundings={"state": _STATE},
)
def adam(
    param: Number,
    grad: Number,
    exp_avg: Number,
    exp_avg_sq: Number,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
) -> tuple[Number, Number, Number]:
    """m = β₁m + (1-β₁)g, v = β₂v + (1-β₂)g², p -= lr · m/(1-β₁ᵗ) / (√(v/(1-β₂ᵗ)) + eps)."""
    b1, b2, rate = scalar(param, beta1), scalar(param, beta2), scalar(param, lr)
    if weight_decay and decoupled:
        param = param * (1.0 - rate * weight_decay)
    elif weight_decay:
        grad = grad + weight_decay * param
    m = b1 * exp_avg + (1.0 - b1) * grad
    v = b2 * exp_avg_sq + (1.0 - b2) * (grad * grad)
    first = rounded(m, "state") / (1.0 - b1**step)
    second = rounded(v, "state") / (1.0 - b2**step)
    return param - rate * (first / (sqrt(second) + eps)), m, v


@contract(
    args={
        "param": Tensor("*shape", families=("gaussian", "positive", "small-integers", "offset")),
        "grad": Tensor("*shape", families=_GRADIENTS),
        "momentum_buffer": Tensor("*shape", families=("gaussian", "small-integers", "signed-zeros")),
        "step": (1, 2, 3, 10),
        "lr": (0.1, 1e-3),
        "momentum": (0.9, 0.5),
        "dampening": (0.0, 0.3),
        "nesterov": (False, True),
        "weight_decay": (0.0, 0.1),
    },
    returns=(
        Output("*shape", name="param", argument="param"),
        Output("*shape", name="momentum_buffer", argument="momentum_buffer"),
    ),
    rows="all but last",
    roundings={"state": _STATE},
)
def sgd(
    param: Number,
    grad: Number,
    momentum_buffer: Number,
    *,
    step: int,
    lr: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    weight_decay: float,
) -> tuple[Number, Number]:
    """b = g at step 1, else μb + (1-damp)g; p -= lr·(g + μb) with nesterov, else lr·b."""
    mu, damp, rate = scalar(param, momentum), scalar(param, dampening), scalar(param, lr)
    if weight_decay:
        grad = grad + weight_decay * param
    buffer = grad if step == 1 else mu * momentum_buffer + (1.0 - damp) * grad
    used = rounded(buffer, "state")
    return param - rate * (grad + mu * used if nesterov else used), buffer


@contract(
    args={
        "grads": Tensor(
            "k@ *rest", many="count", families=("near-overflow", "nan-at", *_GRADIENTS, "inf-at")
        ),
        "scale": (65536.0, 1.0, 3.0, 2.0**-20, 1024.0),
    },
    returns=(
        Output("k@ *rest", name="grads", argument="grads", many="count"),
        Output("", kind="exact", dtype="bool", name="found_inf"),
    ),
    given=("grads",),
    sizes={"count": (1, 2, 3)},
)
def unscale(grads: list[Number], scale: float, given: dict[str, Any]) -> tuple[list[Number], Number]:
    """gᵢ / scale in place; found_inf is true if any element of the results is inf or NaN."""
    found = scalar(grads[0], 0.0)
    for grad in given["grads"]:
        flags = where(isfinite(grad), scalar(grad, 0.0), 1.0)
        found = maximum(found, amax(reshape(flags, (1, -1)), -1))
    return [grad / scale for grad in grads], found
