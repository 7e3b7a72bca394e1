"""Searches in this process: interrupted, and with nothing lost."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import harness
import references
from harness.search import fuzz


def softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.softmax(x.double(), dim).to(x.dtype)


class LosesCtrlC:
    """A kernel during whose fifth call the user presses Ctrl-C, in a callback of the garbage collector."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        self.calls += 1
        if self.calls == 5:
            gc.callbacks.append(self._interrupt)
            gc.collect()
        return softmax(x, dim)

    def _interrupt(self, phase: str, info: Any) -> None:
        gc.callbacks.remove(self._interrupt)
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def kernel() -> Iterator[LosesCtrlC]:
    yield LosesCtrlC()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_lost_ctrl_c_comes_again_in_a_check(kernel: LosesCtrlC) -> None:
    verdict = harness.check(kernel, references.softmax, "float32", seconds=1000)
    assert verdict.interrupted and verdict.outcome == "INCONCLUSIVE"
    assert 1 <= verdict.tallies["float32"].launches < 5


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_lost_ctrl_c_comes_again_in_a_session(kernel: LosesCtrlC, tmp_path: Path) -> None:
    verdict = fuzz(kernel, references.softmax, "float32", seconds=1000, folder=str(tmp_path))
    assert verdict.interrupted
    assert 1 <= verdict.tallies["float32"].launches < 5


def test_another_handler_of_sigint_stays_in_force() -> None:
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        inside = []

        def kernel(x: torch.Tensor, dim: int) -> torch.Tensor:
            inside.append(signal.getsignal(signal.SIGINT))
            signal.raise_signal(signal.SIGINT)
            return softmax(x, dim)

        ours = signal.getsignal(signal.SIGINT)
        verdict = harness.check(kernel, references.softmax, "float32", examples=20)
        assert verdict.outcome == "PASS" and set(inside) == {ours}
    finally:
        signal.signal(signal.SIGINT, before)
