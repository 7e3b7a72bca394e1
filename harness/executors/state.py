"""The process's global settings, put back as they were after a function under test has run."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import numpy as np
import torch


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Undo what a function leaves changed: torch's defaults and modes, NumPy's errors, Python's streams.

    Subnormal numbers are never flushed afterwards, in this thread: oracle and inputs hold such numbers.
    """
    dtype, device, grad = torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    threads, errors = torch.get_num_threads(), np.geterr()
    streams = sys.stdout, sys.stderr
    try:
        yield
    finally:
        if torch.get_default_dtype() != dtype:
            torch.set_default_dtype(dtype)
        if torch.get_default_device() != device:
            torch.set_default_device(None if device.type == "cpu" else device)
        if torch.is_grad_enabled() != grad:
            torch.set_grad_enabled(grad)
        if (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ) != (
            deterministic,
            warn_only,
        ):
            torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.set_flush_denormal(False)
        np.seterr(**errors)
        sys.stdout, sys.stderr = streams
