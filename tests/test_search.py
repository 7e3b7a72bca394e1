"""Searches in this process: interrupted, and with nothing lost."""

from __future__ import annotations

import gc
import importlib
import itertools
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import harness
import references
from harness import numbers
from harness.contracts import Output
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
    assert "    inconclusive: interrupted" in verdict.lines()
    assert 1 <= verdict.tallies["float32"].launches < 5


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_lost_ctrl_c_comes_again_in_a_session(kernel: LosesCtrlC, tmp_path: Path) -> None:
    verdict = fuzz(kernel, references.softmax, "float32", seconds=1000, folder=str(tmp_path))
    assert verdict.interrupted and verdict.outcome == "INCONCLUSIVE"
    assert "    inconclusive: interrupted" in verdict.lines()
    assert 1 <= verdict.tallies["float32"].launches < 5


@pytest.mark.parametrize("budget", [{"examples": 60}, {"examples": 60, "seconds": 1000}])
def test_progress_tells_the_share_of_the_budget(budget: dict[str, Any]) -> None:
    shares: list[float | None] = []
    harness.check(softmax, references.softmax, "float32", progress=lambda p: shares.append(p.share), **budget)
    assert all(share is not None for share in shares)
    assert shares == sorted(shares) and shares[-1] == 1.0  # type: ignore[type-var]


def test_a_kernel_that_works_in_place_does_one_thing_wrong() -> None:
    def doubled(x: torch.Tensor, dim: int) -> torch.Tensor:
        return x.copy_(softmax(x, dim))

    verdict = harness.check(doubled, references.softmax, "float32", examples=24)
    assert [found.check for found in verdict.findings] == ["inputs unchanged"]


def test_a_write_of_the_same_values_is_told_as_such() -> None:
    def rewrites(x: torch.Tensor, dim: int) -> torch.Tensor:
        x.mul_(1.0)
        return softmax(x, dim)

    verdict = harness.check(rewrites, references.softmax, "float32", examples=24)
    assert "argument x was written to (it holds the values that it had)" in str(verdict)


def test_a_snippet_whose_failure_depends_on_memory_says_so() -> None:
    def unwritten(x: torch.Tensor, dim: int) -> torch.Tensor:
        return torch.empty(x.shape, dtype=x.dtype)

    (found,) = harness.check(unwritten, references.softmax, "float32", examples=24).findings
    assert found.check == "written" and "# may look right when pasted: replay it" in found.snippet
    (found,) = harness.check(torch.relu_, negated, "float32", examples=24, shrink=False).findings[:1]
    assert "replay it" not in found.snippet


@harness.contract(args={"x": "N"}, returns="N", rows="N")
def negated(x: Any) -> Any:
    """-x."""
    return -x


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that a fuzzing session reads, which pass only where a test says so."""
    now = [0.0]
    module = importlib.import_module("harness.search.fuzz")
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_a_session_keeps_one_finding_of_an_input(clock: list[float], tmp_path: Path) -> None:
    def wrong_twice(x: torch.Tensor) -> torch.Tensor:
        clock[0] += 1
        y = x + 1
        x.add_(1)
        return y

    verdict = fuzz(wrong_twice, negated, "float32", seconds=300, folder=str(tmp_path))
    digests = [found.case.digest for found in verdict.findings]
    assert digests and len(digests) == len(set(digests))


def test_a_failure_at_the_end_of_the_time_is_kept(clock: list[float], tmp_path: Path) -> None:
    """Hypothesis runs it again after the time, which may not look like another failure."""

    def late(x: torch.Tensor) -> torch.Tensor:
        clock[0] = 10.0
        return x + 1

    verdict = fuzz(late, negated, "float32", seconds=5, folder=str(tmp_path))
    assert [found.check for found in verdict.findings] == ["accuracy"]


def test_a_session_judges_one_case_however_short_its_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = importlib.import_module("harness.search.fuzz")
    ticks = itertools.count()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    verdict = fuzz(lambda x: -x, negated, "float32", seconds=0.5, folder=str(tmp_path))
    assert verdict.tallies["float32"].launches == 1


def test_a_kernel_that_is_wrong_now_and_then_ends_no_session(clock: list[float], tmp_path: Path) -> None:
    """Hypothesis runs a failure again, and may find nothing."""

    def sometimes(x: torch.Tensor) -> torch.Tensor:
        clock[0] += 1
        return -x if clock[0] % 97 else x + 1

    verdict = fuzz(sometimes, negated, "float32", seconds=300, folder=str(tmp_path))
    assert verdict.findings and verdict.outcome == "FAIL"


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


def test_a_device_that_is_lost_ends_the_search_with_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault of an earlier launch, that only our own next call shows: what was found so far is kept.

    The first of three launches is the one in the narrowest format, which nobody judges.
    """
    module = importlib.import_module("harness.search.one_format")

    cases: list[Any] = []

    def run_trial(subject: Any, case: Any, **options: Any) -> Any:
        cases.append(case)
        if len(cases) == 3:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nSearch for …")
        return original(subject, case, **options)

    original = module.run_trial
    monkeypatch.setattr(module, "run_trial", run_trial)
    with pytest.raises(RuntimeError, match="illegal memory"):
        harness.check(softmax, references.softmax, examples=60)
    cases.clear()
    monkeypatch.setattr(module, "lost", lambda: True)
    verdict = harness.check(softmax, references.softmax, examples=60)
    (found,) = verdict.findings
    assert (found.check, verdict.outcome, found.case) == ("crashes", "ERROR", cases[-1])
    assert found.message == "the CUDA context broke: CUDA error: an illegal memory access was encountered"
    assert list(verdict.tallies) == ["float32"] and verdict.tallies["float32"].launches == 1


def zero_beyond_65536(x: torch.Tensor, dim: int) -> torch.Tensor:
    out = softmax(x, dim).contiguous()
    out.view(-1)[65536:] = 0
    return out


def test_a_claim_under_which_anything_goes_explains_nothing() -> None:
    """Over rows this long, float16 accumulation has no bound at all: zeros would be right."""
    verdict = harness.check(zero_beyond_65536, references.softmax, "float16")
    assert verdict.outcome == "FAIL" and not verdict.claim


def test_a_claim_without_a_bound_for_most_elements_is_inconclusive() -> None:
    claims = {"accumulator": "float16", "depth": "sequential"}
    verdict = harness.check(softmax, references.softmax, "float16", claims=claims)
    assert verdict.outcome == "INCONCLUSIVE"
    assert "elements have no finite bound" in str(verdict)
    short = {"max_elements": 1000}
    verdict = harness.check(softmax, references.softmax, "float16", claims=claims, domain=short)
    assert verdict.outcome == "PASS"


def test_formats_that_no_claim_explains_leave_the_others_unexplained() -> None:
    """Wrong by far in float32, and in float16 by what float16 accumulation would cost."""

    def kernel(x: torch.Tensor, dim: int) -> torch.Tensor:
        return (torch.softmax(x.double(), dim) * 1.004).to(x.dtype)

    alone = harness.check(kernel, references.softmax, "bfloat16")
    both = harness.check(kernel, references.softmax, ("float32", "bfloat16"))
    assert alone.outcome == both.outcome == "FAIL"
    assert not both.claim and not any(found.explanation for found in both.findings)


def gelu_always_tanh(x: torch.Tensor, approximate: str) -> torch.Tensor:
    return torch.nn.functional.gelu(x.double(), approximate="tanh").to(x.dtype)


def silu_truncated(x: torch.Tensor) -> torch.Tensor:
    bits = torch.nn.functional.silu(x.double()).float().view(torch.int32) & -65536
    return bits.view(torch.float32).to(x.dtype)


def silu_narrow_alone(x: torch.Tensor) -> torch.Tensor:
    """Every operation rounds, in a kernel that takes no float32."""
    if x.dtype is torch.float32:
        raise NotImplementedError("float32")
    return x * torch.sigmoid(x)


@pytest.mark.parametrize("dtypes", ["bfloat16", ("float16", "bfloat16")])
def test_a_formula_that_is_wrong_in_float32_is_no_narrow_accumulator(dtypes: Any) -> None:
    verdict = harness.check(gelu_always_tanh, references.gelu, dtypes)
    assert verdict.outcome == "FAIL" and not verdict.claim


def test_a_store_that_truncates_in_float32_too_is_no_narrow_accumulator() -> None:
    verdict = harness.check(silu_truncated, references.silu, "bfloat16")
    assert verdict.outcome == "FAIL" and not verdict.claim
    assert {finding.explanation for finding in verdict.findings} == {"as if out were rounded toward zero"}


def test_a_kernel_without_float32_has_its_claim_named() -> None:
    verdict = harness.check(silu_narrow_alone, references.silu, "bfloat16")
    assert verdict.claim == "right if claims={'accumulator': 'bfloat16'}"


def test_a_device_lost_in_float32_leaves_the_findings_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that can no longer be tried is not named, and a crash that nobody asked for is not reported."""
    module = importlib.import_module("harness.search.wider")

    def run_trial(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(module.Wider, "lost", True)
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(module, "run_trial", run_trial)
    verdict = harness.check(silu_narrow_alone, references.silu, "bfloat16")
    assert [found.check for found in verdict.findings] == ["accuracy"] and not verdict.claim


def test_a_format_is_searched_alike_whatever_others_are_judged() -> None:
    alone = harness.check(softmax, references.softmax, "bfloat16", examples=60)
    among = harness.check(softmax, references.softmax, examples=60)
    assert alone.tallies["bfloat16"].families == among.tallies["bfloat16"].families


def test_an_answer_kept_by_shape_is_found_at_once_and_again() -> None:
    """The second call of a trial that has other values shows it, whatever was called before."""
    kept: dict[Any, torch.Tensor] = {}

    def cached(x: torch.Tensor, dim: int) -> torch.Tensor:
        key = (tuple(x.shape), x.dtype, dim)
        if key not in kept:
            kept[key] = torch.softmax(x.double(), dim).to(x.dtype)
        return kept[key].clone()

    verdict = harness.check(cached, references.softmax, "float32", examples=60)
    (finding,) = verdict.findings
    assert finding.check == "repeatable"
    assert finding.message.startswith("other values of the same shape get the answer of the call before: ")
    kept.clear()
    (again,) = harness.search.replay(cached, references.softmax, finding.case).findings
    assert (again.check, again.message) == (finding.check, finding.message)


def test_an_answer_that_all_values_share_is_judged_in_its_own_dtype() -> None:
    """A tenth in 16 bits, where the contract has float32 first: other rows change nothing, and rightly so."""

    @harness.contract(args={"x": "M N"}, returns=Output("M", dtype=("float32", None)), rows="M", special=())
    def tenth(x: Any) -> Any:
        return numbers.sum(x * 0.0, -1) + 0.1

    def kernel(x: torch.Tensor) -> torch.Tensor:
        return (x.double() * 0.0).sum(-1).add(0.1).to(x.dtype)

    verdict = harness.check(kernel, tenth, "bfloat16", domain={"finite": True}, examples=100)
    assert verdict.ok, verdict
