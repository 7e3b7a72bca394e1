"""Settings of the whole test suite."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

pytest_plugins = ["pytester"]

# Every run draws the same cases and none fails for being slow: a red test is red everywhere.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")

# A shell that starts the tests in the background lets them ignore Ctrl-C, which some of them press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TRITON_FILES = ("test_executors", "test_kernels")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that reach Triton, so that they run under every supported version of it."""
    for item in items:
        if item.path.name.startswith(TRITON_FILES):
            item.add_marker(pytest.mark.triton_matrix)
