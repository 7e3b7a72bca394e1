"""Kernels that take their process down: the verdict names how, where and on which case, and loses nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import journal
from harness.errors import HarnessError
from harness.jobs import Budget, Died, InternalError, Supervised, judge, judge_case, plan
from harness.jobs.judging import DEPENDS_ON_CALLS
from harness.jobs.messages import Discover, Event, Explain, Listed, Moved, Said, UnderTest
from harness.verdict import Verdict

KERNELS = """
import gc, itertools, os, signal, torch
import harness, references

def right(x, dim):
    return torch.softmax(x.double(), dim).to(x.dtype)

def segfault(x, dim):
    if x.dtype == torch.float16 and x.numel() > 30:
        os.kill(os.getpid(), signal.SIGSEGV)
    return right(x, dim)

def leaves(x, dim):
    os._exit(7)

launches = 0

def hangs(x, dim):
    global launches
    launches += 1
    if launches > 4:
        sum(itertools.repeat(0))  # one call into C that no signal ends
    return right(x, dim)

first = []

def keeps_the_format_of_its_first_call(x, dim):
    first.append(x.dtype)
    return right(x.to(first[0]), dim).to(x.dtype)

def doubled(x, dim):
    return right(x.double() * 2, dim).to(x.dtype)

def interrupt(phase, info):
    os.kill(os.getpid(), signal.SIGINT)

def interrupted_in_vain(x, dim):
    global launches
    launches += 1
    if launches == 5:
        gc.callbacks.append(interrupt)
        gc.collect()  # what a callback of the garbage collector raises is lost
        gc.callbacks.remove(interrupt)
    return right(x, dim)

def breaks_the_gpu(x, dim):
    import harness.jobs.child
    harness.jobs.child._gpu_lost = lambda: True  # what a fault does to a context, without a device
    return None if x.dtype == torch.float16 else right(x, dim)

def breaks_everything(x, dim):
    import harness.oracle
    def failing(*arguments):
        raise RuntimeError("CUDA error: illegal address")
    harness.oracle.judge_case = failing
    return breaks_the_gpu(x, dim)

@harness.subject(references.softmax, mutants={"doubled": ("x.double()", "x.double() * 2")})
def declared(x, dim):
    return right(x, dim)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with kernels, one that fails on import, and one that dies on import."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "k.py").write_text(KERNELS)
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "deadly.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    (folder / "meddles.py").write_text(
        "import harness.jobs.perform as ours\n"
        "def wanted_formats(*ignored): raise KeyError('mistake')\n"
        "ours.wanted_formats = wanted_formats\n"
        "def f(x, dim): return x\n"
    )
    return folder


@pytest.fixture(scope="module")
def runner(folder: Path) -> Iterator[Supervised]:
    """One supervised child for all tests, restarted when it dies: starting one takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with Supervised(grace=0.5) as runner:
            yield runner


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def ignore(event: Event) -> None:
    """A watcher that does not look."""


def judged(runner: Supervised, name: str, *formats: str, timeout: float = 20.0) -> Verdict:
    under = UnderTest(target=f"k.py:{name}", contract="softmax", timeout=timeout)
    return judge(runner, plan(runner, under, formats), Budget(examples=48), ignore).verdict()


def test_a_right_kernel_passes_and_its_progress_is_told(runner: Supervised) -> None:
    planned = plan(runner, UnderTest(target="k.py:right", contract="softmax"), ("float32",))
    events: list[Event] = []
    record = judge(runner, planned, Budget(examples=48), events.append)
    assert record.outcome == "PASS"
    moved = [event for event in events if isinstance(event, Moved)]
    shares = [event.share for event in moved if event.share is not None]
    assert moved[0].phase == "covering" and 0 < max(shares) <= 1 and shares == sorted(shares)


def test_the_child_judges_as_this_process_would(runner: Supervised) -> None:
    """One job for each format gives the cases of one call with all of them."""
    from harness.search import check
    from harness.subjects import load, load_contract

    direct = check(load("k.py:right"), load_contract("softmax"), ("float32", "float16"), examples=48, seed=3)
    under = UnderTest(target="k.py:right", contract="softmax")
    there = judge(
        runner, plan(runner, under, ("float32", "float16")), Budget(examples=48, seed=3), ignore
    ).verdict()
    for verdict in (direct, there):
        for tally in verdict.tallies.values():
            tally.seconds.clear()
    assert there == direct


@pytest.fixture(scope="module")
def crashed(runner: Supervised) -> Verdict:
    """The verdict on a kernel that kills its process in float16."""
    return judged(runner, "segfault", "float32", "float16", "bfloat16")


def test_a_crash_is_named_and_costs_only_its_format(crashed: Verdict) -> None:
    assert crashed.outcome == "ERROR"
    outcomes = {name: crashed.outcome_of(name) for name in crashed.tallies}
    assert outcomes == {"float32": "PASS", "float16": "ERROR", "bfloat16": "PASS"}
    (finding,) = crashed.findings
    assert (finding.check, finding.format) == ("crashes", "float16")
    assert finding.message.startswith("the process was killed by SIGSEGV, at k.py:10 in segfault")
    assert finding.message.endswith("; a new process given this case alone dies too")
    assert finding.case.tensors["x"] is not None and finding.case.tensors["x"].format == "float16"
    assert finding.replay.startswith("harness replay k.py:segfault --as softmax --case ")
    assert "crashes (float16)" in str(crashed)


def test_the_case_of_a_crash_can_be_replayed(runner: Supervised, crashed: Verdict) -> None:
    (finding,) = crashed.findings
    planned = plan(runner, UnderTest(target="k.py:right", contract="softmax"))
    assert judge_case(runner, planned, finding.case).verdict().ok
    planned = plan(runner, UnderTest(target="k.py:segfault", contract="softmax"))
    again = judge_case(runner, planned, finding.case).verdict()
    assert [(item.check, item.case) for item in again.findings] == [("crashes", finding.case)]


def test_a_bound_is_explained_without_a_launch(runner: Supervised, crashed: Verdict) -> None:
    """Without an element, the case is launched to find the closest one."""
    (finding,) = crashed.findings
    under = UnderTest(target="k.py:segfault", contract="softmax")
    said: list[Event] = []
    zero = (0,) * len(finding.case.sizes["*shape"])  # type: ignore[arg-type]
    runner.run(Explain(under=under, case=finding.case, element=zero), said.append)
    assert isinstance(said[0], Said) and "bound of out[0" in said[0].lines[0]
    with pytest.raises(Died, match="SIGSEGV"):
        runner.run(Explain(under=under, case=finding.case), ignore)


def test_a_process_that_leaves_is_a_crash(runner: Supervised) -> None:
    verdict = judged(runner, "leaves", "float32")
    assert verdict.outcome == "ERROR"
    assert "the process exited with status 7" in verdict.findings[0].message
    assert verdict.tallies["float32"].launches == 1


def test_a_hang_that_nothing_interrupts_is_ended(runner: Supervised) -> None:
    verdict = judged(runner, "hangs", "float32", timeout=0.5)
    (finding,) = verdict.findings
    assert finding.check == "hangs"
    assert finding.message == "did not return within 0.5 s and had to be killed, at k.py:22 in hangs"
    assert verdict.outcome == "ERROR"


def test_a_child_that_others_keep_waiting_does_not_hang(runner: Supervised, monkeypatch: Any) -> None:
    """All of its time is withheld until the 30th look, some seconds after its own are over."""
    looks: list[float] = []

    def withheld(process: int | None = None, thread: int | None = None) -> float:
        assert process is not None
        looks.append(time.time())
        return looks[:30][-1] - looks[0]

    monkeypatch.setattr("harness.jobs.supervisor.withheld", withheld)
    assert judged(runner, "hangs", "float32", timeout=1.0).outcome == "ERROR"
    assert len(looks) > 30


def test_a_finding_that_depends_on_earlier_calls_is_told_as_such(runner: Supervised) -> None:
    kept = judged(runner, "keeps_the_format_of_its_first_call", "float16", "float32")
    assert {found.format for found in kept.findings} == {"float32"}
    assert {found.explanation for found in kept.findings} == {DEPENDS_ON_CALLS}
    (found,) = judged(runner, "doubled", "float32").findings
    assert found.explanation != DEPENDS_ON_CALLS


def test_an_interrupt_that_was_lost_is_repeated(runner: Supervised) -> None:
    planned = plan(runner, UnderTest(target="k.py:interrupted_in_vain", contract="softmax"), ("float32",))
    record = judge(runner, planned, Budget(seconds=100), ignore)
    assert record.interrupted
    assert (record.outcome, record.formats[0].reason) == ("INCONCLUSIVE", "interrupted")
    assert not runner.interrupted, "nobody asked this process"


def test_a_process_that_lost_its_gpu_is_replaced_after_the_verdict(runner: Supervised) -> None:
    verdict = judged(runner, "breaks_the_gpu", "float16", "float32")
    assert [(item.check, item.format) for item in verdict.findings] == [("returns", "float16")]
    assert judged(runner, "right", "float32").ok


def test_an_error_after_the_gpu_was_lost_is_a_crash_of_the_kernel(runner: Supervised) -> None:
    """Whatever is called on a broken context fails, but it was a launch that broke it."""
    verdict = judged(runner, "breaks_everything", "float32")
    (finding,) = verdict.findings
    assert finding.check == "crashes"
    assert finding.message.startswith("the CUDA context broke: RuntimeError: CUDA error: illegal address")
    assert verdict.outcome == "ERROR"


def test_a_job_leaves_no_launch_to_the_next(runner: Supervised) -> None:
    """A file that dies when imported right after a launch did not die of that."""
    assert judged(runner, "right", "float32").ok
    assert journal.read(runner._journal) is not None
    plan(runner, UnderTest(target="k.py:right", contract="softmax"))
    assert journal.read(runner._journal) is None


def test_a_file_that_fails_on_import_is_a_usage_error(runner: Supervised) -> None:
    with pytest.raises(
        HarnessError, match=r"importing .*broken\.py failed at broken\.py:1: ZeroDivisionError"
    ):
        plan(runner, UnderTest(target="broken.py:f", contract="softmax"))
    with pytest.raises(
        HarnessError, match=r"importing deadly\.py:f failed: the process was killed by SIGSEGV, at deadly"
    ):
        plan(runner, UnderTest(target="deadly.py:f", contract="softmax"))


def test_an_error_of_ours_brings_its_traceback(runner: Supervised) -> None:
    with pytest.raises(InternalError, match="KeyError: 'mistake'") as caught:
        plan(runner, UnderTest(target="meddles.py:f", contract="softmax"))
    assert "meddles.py" in caught.value.traceback


def test_a_job_that_needs_no_launch(runner: Supervised) -> None:
    found: list[Event] = []
    runner.run(Discover(path="k.py"), found.append)
    (listed,) = found
    assert isinstance(listed, Listed)
    (subject,) = listed.subjects
    assert (subject.target, subject.contract, subject.mutants) == ("k.py:declared", "softmax", ("doubled",))


def test_the_journal_survives_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    before = time.time()
    assert journal.read(path) is None
    journal.note("nobody reads this")
    journal.open(path)
    try:
        assert journal.read(path) is None
        journal.note("a long first case …\nof two lines")
        entry = journal.read(path)
        assert entry is not None and entry.running and entry.text == "a long first case …\nof two lines"
        journal.done()
        entry = journal.read(path)
        assert entry is not None and not entry.running
        journal.note("short")
        entry = journal.read(path)
        assert entry is not None and entry.running and entry.text == "short"
        assert before <= entry.since <= time.time()
    finally:
        journal.close()
    journal.note("written nowhere")
    assert journal.read(path) == entry


def test_a_torn_journal_is_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for data in (b"", b"+1", b"+12\nshort", b"+x\nshort"):
        path.write_bytes(data)
        assert journal.read(path) is None
