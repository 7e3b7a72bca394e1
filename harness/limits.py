"""Limits of a search: as a caller gives them (situations, seconds, a seed), and as memory has them."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from pathlib import Path

from harness.errors import HarnessError

LONGEST = 30 * 24 * 3600
"""Seconds at most, of a search or a launch: a timer of the system holds no number whatever."""

MOST_EXAMPLES = 10**9
"""Situations at most of each format: years of judging."""


def check_budget(examples: object, seconds: object, seed: object) -> None:
    """Raises HarnessError unless each is what a search can end by; None stands for no limit."""
    if examples is not None:
        if not (_whole(examples) and examples >= 1):  # type: ignore[operator]
            raise HarnessError(f"examples={examples!r}: give a positive whole number of situations")
        if examples > MOST_EXAMPLES:  # type: ignore[operator]
            raise HarnessError(f"examples={examples!r}: give at most {MOST_EXAMPLES} situations")
    if seconds is not None:
        _check_seconds(f"seconds={seconds!r}", seconds)
    if not _whole(seed):
        raise HarnessError(f"seed={seed!r}: give a whole number, such as seed=0")


def check_timeout(timeout: object, words: str = "") -> None:
    """Raises HarnessError unless ``timeout`` is a time. words: how it was given, by default ``timeout=…``."""
    _check_seconds(words or f"timeout={timeout!r}", timeout)


def is_positive(number: object) -> bool:
    """Whether this is a positive number that a float64 holds."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return 0 < number <= sys.float_info.max


def _check_seconds(given: str, seconds: object) -> None:
    if isinstance(seconds, int | float) and LONGEST < seconds < float("inf"):
        days = LONGEST // (24 * 3600)
        raise HarnessError(f"{given}: give at most {LONGEST} seconds ({days} days)")
    if not is_positive(seconds):
        raise HarnessError(f"{given}: give a positive, finite number of seconds")


@functools.cache
def memory() -> int:
    """Bytes of memory that this machine has, or its container where that has less (cgroup v2)."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return found


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
