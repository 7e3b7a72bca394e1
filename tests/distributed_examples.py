"""Arguments for compiling optimisers and collectives: odd strides, aligned ones, and extents of 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Arguments = Callable[[torch.dtype], Any]


def _tensors(count: int, dtype: torch.dtype, which: str) -> list[torch.Tensor]:
    """Tensors of one shape, whose first axis six ranks can share."""
    if which == "odd":
        return [torch.zeros(6, 15, 1301, dtype=dtype)[:, 1::2, 1::2] for _ in range(count)]
    if which == "aligned":
        return [torch.zeros(12, 1024, dtype=dtype) for _ in range(count)]
    return [torch.zeros(count, dtype=dtype) for _ in range(count)]


def _each(make: Callable[[torch.dtype, str], Any]) -> dict[str, Arguments]:
    return {which: lambda dtype, which=which: make(dtype, which) for which in ("odd", "aligned", "ones")}


def _states(count: int, **scalars: Any) -> dict[str, Arguments]:
    return _each(lambda dtype, which: (*_tensors(count, dtype, which), scalars))


def _shards(*scalars: Any) -> dict[str, Arguments]:
    return _each(lambda dtype, which: (_tensors(3, dtype, which), *scalars))


RATES = {"step": 3, "lr": 1e-3, "weight_decay": 0.1}
EXAMPLES: dict[tuple[str, ...], dict[str, Any]] = {
    ("adam",): _states(4, **RATES, beta1=0.9, beta2=0.999, eps=1e-8, decoupled=True),
    ("sgd",): _states(3, **RATES, momentum=0.9, dampening=0.3, nesterov=True)
    | {
        "first": _states(3, step=1, lr=1e-3, weight_decay=0.0, momentum=0.9, dampening=0.0, nesterov=False)[
            "odd"
        ]
    },
    ("unscale",): _shards(65536.0),
    ("all_reduce",): {op: _shards(op)["odd"] for op in ("sum", "avg", "prod", "min", "max")} | _shards("avg"),
    ("all_reduce_ring",): {op: _shards(op)["odd"] for op in ("sum", "avg", "min", "max")} | _shards("avg"),
    ("reduce_scatter",): _shards("avg"),
    ("reduce",): _shards(1, "avg"),
    ("all_gather",): _shards(),
    ("broadcast",): _shards(1),
    ("gather",): _shards(1),
    ("scatter",): _shards(1),
    ("sums", "counts"): _each(
        lambda dtype, which: (
            torch.zeros(9, dtype=dtype)[:: 2 if which == "odd" else 1],
            torch.zeros(9, dtype=torch.int64)[:: 2 if which == "odd" else 1],
        )
    ),
}
"""By the launcher's name, or else by its parameters; a dict at the end holds keywords."""
