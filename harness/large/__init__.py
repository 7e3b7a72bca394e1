"""Launches of tensors too large to hold in float64: contents, oracle and comparison in pieces."""

from harness.large.contents import Contents, is_large
from harness.large.launch import run_large

__all__ = ["Contents", "is_large", "run_large"]
