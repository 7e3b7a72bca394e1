"""Contracts of fused kernels, as users write them in their own files."""

from __future__ import annotations

from harness.contracts import Choice, Dim, Output, Tensor, Whole
from harness.declaration import contract
from harness.numbers import (
    Number,
    amax,
    exp,
    expand,
    log,
    maximum,
    mean,
    minimum,
    reshape,
    rsqrt,
    sigmoid,
    sqrt,
    sum,
    take_along,
    tanh,
    unsqueeze,
    var,
    where,
)
from harness.numbers import (
    cumsum as running_sum,
)


@contract(args={"x": "*batch N", "bias": "N"}, returns="*batch N", rows="*batch", online=True)
def biased_softmax(x: Number, bias: Number) -> Number:
    """softmax(x + bias) over the last axis."""
    z = x + bias
    e = exp(z - amax(z, -1))
    return e / sum(e, -1)


@contract(
    args={"x": "*batch N", "scale": Choice((0.125, 1.0, -2.0))},
    returns="*batch N",
    rows="*batch",
    online=True,
)
def scaled_softmax(x: Number, scale: float) -> Number:
    """softmax(scale·x) over the last axis."""
    z = x * scale
    e = exp(z - amax(z, -1))
    return e / sum(e, -1)


@contract(
    args={"x": "*batch N", "temperature": Choice((1.0, 0.7, 4.0))},
    returns="*batch N",
    rows="*batch",
    online=True,
)
def temperature_softmax(x: Number, temperature: float) -> Number:
    """softmax(x / temperature) over the last axis."""
    z = x / temperature
    e = exp(z - amax(z, -1))
    return e / sum(e, -1)


@contract(args={"x": "*batch N", "residual": "*batch N"}, returns="*batch N", rows="*batch", online=True)
def residual_softmax(x: Number, residual: Number) -> Number:
    """softmax(x + residual) over the last axis."""
    z = x + residual
    e = exp(z - amax(z, -1))
    return e / sum(e, -1)


@contract(
    args={"x": "*batch N", "weight": "N", "eps": Choice((1e-6, 1e-3))},
    returns="*batch N",
    rows="*batch",
    nonempty=("N",),
)
def rms_norm(x: Number, weight: Number, eps: float) -> Number:
    """x / sqrt(mean x² + eps) · weight."""
    return x * rsqrt(mean(x * x, -1) + eps) * weight


@contract(
    args={
        "x": "*batch N",
        "weight": Tensor("N", optional=True),
        "bias": Tensor("N", optional=True),
        "eps": Choice((1e-5, 1e-3)),
    },
    returns="*batch N",
    rows="*batch",
    nonempty=("N",),
)
def layer_norm(x: Number, weight: Number | None, bias: Number | None, eps: float) -> Number:
    """(x - mean) / sqrt(var + eps) · weight + bias."""
    y = (x - mean(x, -1)) * rsqrt(var(x, -1) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@contract(
    args={"x": "*batch N", "residual": "*batch N", "weight": "N", "eps": Choice((1e-6, 1e-3))},
    returns=(Output("*batch N", name="y"), Output("*batch N", name="total")),
    rows="*batch",
    nonempty=("N",),
    given=("total",),
)
def add_rms_norm(
    x: Number, residual: Number, weight: Number, eps: float, given: dict[str, Number]
) -> tuple[Number, Number]:
    """(rms_norm of the returned sum, x + residual)."""
    total = given["total"]
    return total * rsqrt(mean(total * total, -1) + eps) * weight, x + residual


@contract(
    args={"x": "*shape", "dim": Dim("x"), "correction": (0, 1)},
    returns="*shape-dim",
    rows="all but dim",
    nonempty=("dim",),
)
def variance(x: Number, dim: int, correction: int) -> Number:
    """Σ(x - mean)² / (n - correction)."""
    return var(x, dim, correction)


@contract(args={"x": "*shape", "y": "*shape"}, returns="*shape", rows="*shape")
def add_relu(x: Number, y: Number) -> Number:
    """max(x + y, 0), NaN if either is."""
    return maximum(x + y, 0.0)


@contract(args={"x": "*shape"}, returns="*shape", rows="*shape")
def clamp(x: Number) -> Number:
    """x within [-1, 1], NaN kept."""
    return minimum(maximum(x, -1.0), 1.0)


@contract(args={"x": "*shape", "y": "*shape"}, returns="*shape", rows="*shape")
def larger(x: Number, y: Number) -> Number:
    """max(x, y), NaN if either is."""
    return maximum(x, y)


@contract(args={"gate": "*batch N", "up": "*batch N"}, returns="*batch N", rows="*batch N")
def swiglu(gate: Number, up: Number) -> Number:
    """gate·sigmoid(gate)·up."""
    return gate * sigmoid(gate) * up


@contract(args={"x": "*shape", "cap": (30.0, 1.0)}, returns="*shape", rows="*shape")
def softcap(x: Number, cap: float) -> Number:
    """cap·tanh(x / cap)."""
    return cap * tanh(x / cap)


@contract(args={"x": "*batch N", "y": "*batch N"}, returns="*batch", rows="*batch", nonempty=("N",))
def squared_error(x: Number, y: Number) -> Number:
    """mean (x - y)² over the last axis."""
    d = x - y
    return mean(d * d, -1)


@contract(args={"x": "*batch N", "w": "N"}, returns="*batch", rows="*batch")
def weighted_sum(x: Number, w: Number) -> Number:
    """Σ x·w over the last axis."""
    return sum(x * w, -1)


@contract(
    args={"x": "*batch N", "mask": Tensor("*batch N", dtype="int8", whole=Whole(0, 2))},
    returns="*batch",
    rows="*batch",
    nonempty=("N",),
)
def masked_mean(x: Number, mask: Number) -> Number:
    """Mean of the x whose mask is 1, over the last axis; NaN where there is none."""
    return mean(x, -1, where=mask != 0)


@contract(
    args={"x": "*shape", "dim": Dim("x")},
    returns="*shape",
    rows="all but dim",
    families=("positive-integers",),
)
def cumsum(x: Number, dim: int) -> Number:
    """Running sums along one axis."""
    return running_sum(x, dim)


@contract(args={"x": "M N"}, returns="N", rows="N", nonempty=("M",))
def column_norm(x: Number) -> Number:
    """The L2 norm of every column."""
    return sqrt(sum(x * x, 0))


@contract(
    args={"c": "*shape", "a": "*shape", "beta": (0.0, 1.0, 0.5), "alpha": (1.0, -2.0)},
    returns="*shape",
    rows="*shape",
)
def blend(c: Number, a: Number, beta: float, alpha: float) -> Number:
    """alpha·a + beta·c, where beta = 0 ignores c, even NaN."""
    return alpha * a if beta == 0 else alpha * a + beta * c


@contract(
    args={"param": "*shape", "grad": "*shape", "lr": (0.1, 1e-3)},
    returns=Output("*shape", argument="param"),
    rows="*shape",
)
def sgd(param: Number, grad: Number, lr: float) -> Number:
    """param - lr·grad, in place."""
    return param - lr * grad


@contract(args={"x": "*shape", "y": "*shape"}, returns="*shape", rows="*shape")
def masked_fill(x: Number, y: Number) -> Number:
    """x where y > 0, else 0."""
    return where(y > 0, x, 0.0)


@contract(
    args={"x": "*shape", "scale": (1.0, 0.5, 0.013671875)},
    returns=Output("*shape", kind="code", dtype="int8", clamp=(-127, 127)),
    rows="*shape",
)
def quantize(x: Number, scale: float) -> Number:
    """x / scale to the nearest integer, ties to even, within ±127."""
    return x / scale


@contract(
    args={"x": "N", "index": Tensor("B K", dtype="int64", whole=Whole(0, "N", planted=(-1,)))},
    returns="B",
    rows="B",
    nonempty=("N",),
)
def picked_sum(x: Number, index: Number) -> Number:
    """Σ x[index] over the last axis of index; an index of -1 stands for no element."""
    spread = expand(unsqueeze(x, 0), (index.shape[0], x.shape[0]))
    picked = take_along(spread, index, 1)
    return reshape(sum(picked, 1, where=index >= 0), (index.shape[0],))


@contract(args={"x": "*batch N"}, returns="*batch N", rows="*batch", nonempty=("N",))
def normalised_twice(x: Number) -> Number:
    """x / |x|, divided by its own norm once more."""
    once = x / sqrt(sum(x * x, -1))
    return once / sqrt(sum(once * once, -1))


@contract(
    args={"p": "*batch N", "q": "*batch N"},
    returns="*batch",
    rows="*batch",
    families=("all-negative", "offset"),
)
def jensen_shannon(p: Number, q: Number) -> Number:
    """Σ exp(p)·(p - m) / 2 + Σ exp(q)·(q - m) / 2 of log-probabilities p and q, m = log (exp(p) + exp(q)) / 2."""
    top = maximum(p, q)
    middle = top + log(0.5 * (exp(p - top) + exp(q - top)))
    return 0.5 * (sum(exp(p) * (p - middle), -1) + sum(exp(q) * (q - middle), -1))
