"""The harness catches every wrong kernel, by a small input that replays, and passes every right one."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mpmath
import pytest
import torch

from harness.case import materialise
from quality.declare import Subject, subjects
from quality.judging import judged, problems, replayed

WRONG = list(subjects("wrong"))
RIGHT = list(subjects("right"))
FEW = 60
"""Situations of each format in the quick run over right kernels; the slow one has the default number."""


def _parameters(chosen: list[Subject]) -> list[Any]:
    return [pytest.param(subject, id=subject.name, marks=_marks(subject)) for subject in chosen]


def _marks(subject: Subject) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if subject.expected.slow else []


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums of torch's own come in the same order on every machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("subject", _parameters(WRONG))
def test_wrong_kernel_is_caught(subject: Subject) -> None:
    verdict = judged(subject)
    assert not problems(subject, verdict), f"{problems(subject, verdict)}\n{verdict}"
    if not subject.expected.stateful:
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["sums:sum_by_atomics_on_nothing", "softmaxes:biased_softmax_dense_bias", "behaviour:sum_in_float64"],
)
def test_replay_command_shows_the_finding_in_a_new_process(name: str) -> None:
    verdict = judged(next(subject for subject in WRONG if subject.name == name))
    words = shlex.split(verdict.findings[0].replay)
    assert words[:2] == ["harness", "replay"]
    command = [sys.executable, "-c", "from harness.cli import main; main()", *words[1:]]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=120
    )
    assert done.returncode == 1, done.stderr
    assert verdict.findings[0].check in done.stdout


def _softmax(x: list[Any]) -> list[Any]:
    total = mpmath.fsum(mpmath.exp(v) for v in x)
    return [mpmath.exp(v) / total for v in x]


EXACT: dict[str, Callable[[list[Any]], list[Any]]] = {
    "prod_eager": lambda x: [mpmath.fprod(x)],
    "softmax_eager": _softmax,
    "log_softmax_eager": lambda x: [mpmath.log(p) for p in _softmax(x)],
    "logsumexp_eager": lambda x: [mpmath.log(mpmath.fsum(mpmath.exp(v) for v in x))],
}
"""The functions of torch that the suite finds wrong, written again from the formula."""


@pytest.mark.parametrize("name", EXACT)
def test_finding_about_torch_is_true(name: str) -> None:
    """Some element of the smallest input's answer is not the format's number nearest to the exact one."""
    subject = next(s for s in WRONG if s.name == f"eager:{name}")
    for finding in judged(subject).findings:
        inputs = materialise(subject.expected.contract, finding.case)
        got = subject.function(*inputs.args).double().flatten()
        dtype = inputs.args[0].dtype
        with mpmath.workprec(200):
            row = [mpmath.mpf(v) for v in inputs.exact["x"].flatten().tolist()]
            exact = [float(v) for v in EXACT[name](row)]
        halves = [torch.tensor(v, dtype=torch.float64).to(dtype) for v in exact]
        error = [abs(float(g) - v) for g, v in zip(got, exact, strict=True)]
        nearest = [abs(float(h) - v) for h, v in zip(halves, exact, strict=True)]
        assert any(
            e > (1 + 1e-9) * n and e > 2.0**-24 * abs(v)
            for e, n, v in zip(error, nearest, exact, strict=True)
        )
