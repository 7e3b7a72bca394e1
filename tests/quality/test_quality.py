"""The harness catches every wrong kernel, by a small input that replays, and passes every right one."""

from __future__ import annotations

import pytest
import torch

from quality.declare import Subject, subjects
from quality.judging import judged, problems, replayed, stateful

WRONG = list(subjects("wrong"))
RIGHT = list(subjects("right"))
FEW = 60
"""Situations of each format in the quick run over right kernels; the slow one has the default number."""


def _parameters(chosen: list[Subject]) -> list[object]:
    return [
        pytest.param(subject, id=subject.name, marks=[pytest.mark.slow] if subject.expected.slow else [])
        for subject in chosen
    ]


@pytest.fixture(autouse=True)
def one_thread() -> object:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("subject", _parameters(WRONG))
def test_wrong_kernel_is_caught(subject: Subject) -> None:
    verdict = judged(subject)
    assert not problems(subject, verdict), f"{problems(subject, verdict)}\n{verdict}"
    if not stateful(subject):
        first = verdict.findings[0]
        assert first.check in {finding.check for finding in replayed(subject, first).findings}


@pytest.mark.parametrize("subject", _parameters(RIGHT))
def test_right_kernel_passes(subject: Subject) -> None:
    verdict = judged(subject, examples=FEW)
    assert not problems(subject, verdict), f"{problems(subject, verdict)}\n{verdict}"


@pytest.mark.slow
@pytest.mark.parametrize("subject", _parameters(RIGHT))
def test_right_kernel_passes_at_default_settings(subject: Subject) -> None:
    verdict = judged(subject)
    assert not problems(subject, verdict), f"{problems(subject, verdict)}\n{verdict}"
