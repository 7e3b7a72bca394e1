"""Contracts for the tests of inputs: several tensors, optional ones, no rows at all; never evaluated."""

from __future__ import annotations

from typing import Any

from harness.contracts import Choice, Contract, Dim, Output, SizeOf, SpecialRow, Tensor, Whole
from harness.declaration import contract
from harness.values import POSITION, Family


def _own(stream: Any, n: int, fmt: Any, position: float) -> Any:
    row = stream.normal(n)
    if 0 <= position < n:
        row[int(position)] = 7.0
    return row


OWN = Family("own-family", _own, (POSITION,), frozenset({"structured"}))


@contract(
    args={"x": "*shape", "dim": Dim("x")},
    returns="*shape",
    rows="all but dim",
    families=("offset", "decisive-max", "decisive-one-hot", "half-ulps", "nan-at", OWN),
    special=(
        SpecialRow("inf first", ("inf",), ("1",), "nan"),
        SpecialRow("all -inf", (), ("-inf",), "nan"),
        SpecialRow("tenths", ("1", "2"), ("0.1", "0.2"), None),
        SpecialRow("all 2", (), ("2",), "2"),
    ),
)
def rowwise(x: Any, dim: int) -> Any: ...


@contract(args={"x": "*shape", "dim": Dim("x")}, returns="*shape-dim", rows="all but dim", nonempty=("dim",))
def reduction(x: Any, dim: int) -> Any: ...


@contract(
    args={"a": "M K", "b": "K N"},
    returns="M N",
    rows="M N",
    families=("decisive-large",),
    nonempty=("M", "N"),
)
def matmul(a: Any, b: Any) -> Any: ...


@contract(
    args={
        "x": "*batch N",
        "weight": Tensor("N", optional=True),
        "bias": Tensor("N", dtype="float32", optional=True),
        "mode": Choice(("a", "b", None)),
    },
    returns="*batch N",
    rows="all but last",
    families=("offset",),
    special=(SpecialRow("all 0", (), ("0",), "0"),),
    nonempty=("N",),
)
def norm(x: Any, weight: Any, bias: Any, mode: str | None) -> Any: ...


@contract(args={"x": "*shape", "y": "*shape"}, returns="*shape", rows="")
def add(x: Any, y: Any) -> Any: ...


@contract(args={"x": "*shape", "y": "*shape"}, returns="*shape", rows="*shape", families=("code-midpoints",))
def add_each(x: Any, y: Any) -> Any: ...


@contract(args={"q": "B H S D", "k": "B H T D", "v": "B H T D"}, returns="B H S D", rows="B H S")
def attention(q: Any, k: Any, v: Any) -> Any: ...


CONTRACTS = (rowwise, reduction, matmul, norm, add, attention)


# Products, quotients, integers and lists: the shapes of the contracts of `references`, again unevaluated.


@contract(
    args={
        "q": "B Hkv*G S D",
        "k": "B Hkv T D",
        "v": Tensor("B Hkv T Dv", families=("scaled", "one-hot-vectors", "gaussian", "offset")),
        "causal": Choice((None, "top-left", "bottom-right")),
        "window": Choice((None, 3, 16)),
    },
    returns="B Hkv*G S Dv",
    rows="B",
    families=("ascending-vectors", "identical-vectors", "decisive-one-hot", "factor-vectors", "wide"),
    sizes={"Hkv": (1, 2, 3), "G": (1, 2, 4), "D": (16, 32, 64, 24), "Dv": (16, 48, 32)},
    nonempty=("B", "Hkv", "G", "S", "D", "Dv"),
)
def grouped_attention(q: Any, k: Any, v: Any, *, causal: str | None, window: int | None) -> Any: ...


@contract(
    args={
        "x": "B H S 2*D2",
        "cos": Tensor("S D2", families=("unit",)),
        "sin": Tensor("S D2", families=("unit",)),
        "interleaved": Choice((False, True)),
    },
    returns="B H S 2*D2",
    rows="B H S",
    sizes={"H": (1, 2, 3)},
)
def rope(x: Any, cos: Any, sin: Any, interleaved: bool) -> Any: ...


@contract(
    args={
        "x": "B G*Cg *spatial",
        "num_groups": SizeOf("G"),
        "weight": Tensor("G*Cg", optional=True),
        "eps": Choice((1e-5, 1e-3)),
    },
    returns="B G*Cg *spatial",
    rows="B",
    families=("offset", "small-magnitudes", "equal", "one-huge"),
    nonempty=("G", "Cg", "spatial"),
    sizes={"G": (1, 2, 3, 8)},
)
def group_norm(x: Any, num_groups: int, weight: Any, eps: float) -> Any: ...


@contract(
    args={
        "logits": "N V",
        "target": Tensor("N", dtype="int64", whole=Whole(0, "V", planted=("ignore_index",))),
        "ignore_index": Choice((-100, 1)),
        "reduction": Choice(("mean", "sum", "none")),
    },
    returns=Output(lambda scalars: "N" if scalars["reduction"] == "none" else ""),
    rows="N",
    families=("offset", "decisive-max"),
    nonempty=("V",),
)
def cross_entropy(logits: Any, target: Any, ignore_index: int, reduction: str) -> Any: ...


@contract(
    args={
        "param": "*shape",
        "grad": Tensor("*shape", families=("gaussian", "small-magnitudes", "spread-magnitudes", "zeros")),
        "exp_avg": Tensor("*shape", dtype="float32", families=("gaussian", "zeros")),
        "exp_avg_sq": Tensor("*shape", dtype="float32", families=("positive", "zeros")),
        "step": Choice((1, 2, 1000)),
        "lr": Choice((1e-3, 0.1)),
        "decoupled": Choice((False, True)),
    },
    returns=tuple(
        Output("*shape", argument=name, name=name, dtype=dtype)
        for name, dtype in (("param", None), ("exp_avg", "float32"), ("exp_avg_sq", "float32"))
    ),
    rows="all but last",
)
def adam(
    param: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any, *, step: int, lr: float, decoupled: bool
) -> Any: ...


@contract(
    args={"shards": Tensor("*shape", many="world"), "op": Choice(("sum", "avg", "prod", "min", "max"))},
    returns=Output("*shape", many="world"),
    rows="all but last",
    families=("near-overflow", "ordinals"),
    sizes={"world": (2, 3, 1, 4)},
)
def all_reduce(shards: Any, op: str) -> Any: ...


@contract(
    args={"shards": Tensor("k@ *rest", many="world", families=("ordinals", "gaussian", "inf-nan"))},
    returns=Output("+k *rest", kind="exact", many="world"),
    rows="",
)
def all_gather(shards: Any) -> Any: ...


@contract(
    args={"shards": Tensor("world*k *rest", many="world")},
    returns=Output("k *rest", many="world"),
    rows="",
    sizes={"world": (2, 4)},
)
def reduce_scatter(shards: Any) -> Any: ...


@contract(
    args={
        "x": "*batch N",
        "dtype": Choice(("float8_e4m3fn", "float8_e5m2")),
        "block": Choice((32, 128)),
    },
    returns=(
        Output("*batch N", kind="code", dtype=lambda scalars: scalars["dtype"], name="q"),
        Output("*batch N/block", dtype="float32", name="scale"),
    ),
    rows="all but last",
    families=("code-midpoints", "one-huge", "zeros"),
    nonempty=("N",),
)
def quantize_block(x: Any, dtype: str, block: int) -> Any: ...


@contract(
    args={"q": "*batch N", "scale": Tensor("*batch N/32", dtype="float32", families=("positive", "scaled"))},
    returns=Output("*batch N", dtype="float32"),
    rows="all but last",
    nonempty=("N",),
    formats=("int8", "float8_e4m3fn", "float8_e5m2"),
)
def dequantize(q: Any, scale: Any) -> Any: ...


@contract(
    args={"a": "M K", "b": "K N"},
    returns=Output("M N", dtype="int32"),
    rows="M N",
    nonempty=("M", "N"),
    formats=("int8",),
)
def int8_matmul(a: Any, b: Any) -> Any: ...


SHAPED = (
    grouped_attention,
    rope,
    group_norm,
    cross_entropy,
    adam,
    all_reduce,
    all_gather,
    reduce_scatter,
    quantize_block,
    dequantize,
    int8_matmul,
)


def formats_of(found: Contract) -> tuple[str, ...]:
    """The formats a contract of these tests is drawn in."""
    return found.formats or ("float16", "bfloat16", "float32")
