"""The arithmetic of ``range`` with bounds that are known at run time only."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .context import Context
from .trace import Run
from .value import Value, either


def rounds(context: Context, start: Value, stop: Value, step: Value) -> Value:
    """How often range(start, stop, step) goes round; for a step of 0 as for 1."""
    first, last, by = (value.data.astype(np.int64) for value in (start, stop, step))
    by = np.where(by == 0, 1, by)
    count = np.maximum(0, -((first - last) // by))
    return Value(count, either(either(start.undef, stop.undef), step.undef))


@functools.lru_cache(maxsize=4096)
def more(at: int) -> Run:
    return lambda context, count: Value(count.data > at, count.undef)


def index(at: int, dtype: np.dtype[Any]) -> Run:
    def run(context: Context, start: Value, stop: Value, step: Value) -> Value:
        data = start.data.astype(np.int64) + at * step.data.astype(np.int64)
        return Value(data.astype(dtype), either(start.undef, step.undef))

    return run
