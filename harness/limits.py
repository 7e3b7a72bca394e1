"""Limits of a search: as a caller gives them (situations, seconds, a seed), and as memory has them."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from pathlib import Path

from harness.errors import HarnessError


def check_budget(examples: object, seconds: object, seed: object) -> None:
    """Raises HarnessError unless each is what a search can end by; None stands for no limit."""
    if examples is not None and not (_whole(examples) and examples >= 1):  # type: ignore[operator]
        raise HarnessError(f"examples={examples!r}: give a positive whole number of situations")
    if seconds is not None and not is_positive(seconds):
        raise HarnessError(f"seconds={seconds!r}: give a positive, finite number of seconds")
    if not _whole(seed):
        raise HarnessError(f"seed={seed!r}: give a whole number, such as seed=0")


def check_timeout(timeout: object) -> None:
    """Raises HarnessError unless ``timeout`` is a time."""
    if not is_positive(timeout):
        raise HarnessError(f"timeout={timeout!r}: give a positive, finite number of seconds")


def is_positive(number: object) -> bool:
    """Whether this is a positive, finite number."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return math.isfinite(number) and number > 0


@functools.cache
def memory() -> int:
    """Bytes of memory that this machine has, or its container where that has less (cgroup v2)."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return found


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
