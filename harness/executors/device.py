"""On a device kernels run as they are; only their launches are counted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import HarnessError
from . import compat


@contextlib.contextmanager
def counted() -> Iterator[Callable[[], int]]:
    """Count the launches of this process; a kernel decorated for Triton's interpreter is refused."""
    count = 0
    run, interpreted = compat.JITFunction.run, compat.InterpretedFunction.run

    def counting(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += not kwargs.get("warmup", False)
        return run(kernel, *args, **kwargs)

    def refuse(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        raise HarnessError(
            f"kernel {kernel.fn.__name__!r} was imported under TRITON_INTERPRET=1 and runs on no device: "
            "unset the variable"
        )

    compat.JITFunction.run, compat.InterpretedFunction.run = counting, refuse
    try:
        yield lambda: count
    finally:
        compat.JITFunction.run, compat.InterpretedFunction.run = run, interpreted
