"""device_print, device_assert and tl.assume."""

from __future__ import annotations

import numpy as np

from .casts import bits_of
from .context import Context
from .faults import OrderMatters
from .trace import Run
from .value import Value


def printing(prefix: str, hexadecimal: bool) -> Run:
    def run(context: Context, *values: Value) -> None:
        if len(context.lanes) > 1:
            raise OrderMatters
        parts = [np.atleast_1d(value.data[0]) for value in values]
        shown = [str(bits_of(part) if hexadecimal else part) for part in parts]
        for text in shown or [""]:
            print(f"{context.program(0)}{prefix}{text}")

    return run


def assertion(message: str) -> Run:
    def run(context: Context, condition: Value) -> None:
        if not condition.data.all():
            raise AssertionError(message)

    return run
