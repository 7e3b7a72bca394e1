"""The process's global settings: the function under test runs with its own, the harness with plain ones."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Settings:
    """What torch and NumPy keep for the whole process, or for this thread."""

    dtype: torch.dtype
    device: torch.device
    gradients: bool
    deterministic: tuple[bool, bool]
    """Whether torch's algorithms must be deterministic, and whether it only warns of those that are not."""
    threads: int
    flushes: bool
    """Whether subnormal numbers count as 0."""
    errors: dict[str, Any]
    """What NumPy does about overflow, division by zero and the like."""

    @staticmethod
    def now() -> Settings:
        """The settings in force."""
        subnormal = torch.tensor([5e-324], dtype=torch.float64, device="cpu")
        return Settings(
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.is_grad_enabled(),
            (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
            ),
            torch.get_num_threads(),
            not bool((subnormal * 1.0).any()),
            dict(np.geterr()),
        )

    def apply(self) -> None:
        """Bring these settings into force, touching only what differs."""
        now = Settings.now()
        if now.dtype != self.dtype:
            torch.set_default_dtype(self.dtype)
        if now.device != self.device:
            torch.set_default_device(None if self.device.type == "cpu" else self.device)
        if now.gradients != self.gradients:
            torch.set_grad_enabled(self.gradients)
        if now.deterministic != self.deterministic:
            must, warns = self.deterministic
            torch.use_deterministic_algorithms(must, warn_only=warns)
        if now.threads != self.threads:
            torch.set_num_threads(self.threads)
        if now.flushes != self.flushes:
            torch.set_flush_denormal(self.flushes)
        if now.errors != self.errors:
            np.seterr(**self.errors)


_users: list[Settings] = []
"""The user's settings while `neutral` is in force, else nothing."""


@contextlib.contextmanager
def neutral() -> Iterator[None]:
    """Plain settings for the harness's own work, whatever a user's file or script has set.

    float32 and the CPU are the defaults and subnormal numbers count: oracle and inputs hold such numbers.
    """
    if _users:
        yield
        return
    theirs = Settings.now()
    _users.append(theirs)
    try:
        replace(theirs, dtype=torch.float32, device=torch.device("cpu"), flushes=False).apply()
        yield
    finally:
        _users.clear()
        theirs.apply()


@contextlib.contextmanager
def users() -> Iterator[None]:
    """The settings from before `neutral`; what the block changes, streams included, is put back after it."""
    ours, streams = Settings.now(), (sys.stdout, sys.stderr)
    try:
        for theirs in _users:
            theirs.apply()
        yield
    finally:
        ours.apply()
        sys.stdout, sys.stderr = streams
