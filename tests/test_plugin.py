"""``@harness.conforms`` under pytest: one test for each format, failures without our frames, a summary."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

import harness
import harness.jobs.perform
import references
from harness import HarnessError, conforms, records
from harness.cli import run
from harness.records import RunRecord

# imported above, so that the inner runs, which forget what they import, find torch and Triton already there
LOADED = [torch, harness.jobs.perform]
with contextlib.suppress(ImportError):
    LOADED.append(importlib.import_module("harness.executors.interpreter"))

TESTS = """
import pytest, torch
import harness, references

def right(x, dim):
    return torch.softmax(x.double(), dim).to(x.dtype)

@harness.conforms(references.softmax, dtypes=("float32", "float16"), examples=24)
def test_right(x, dim):
    return right(x, dim)

@harness.conforms(references.softmax, dtypes=("float32",), examples=24)
def test_wrong(x, dim):
    return (right(x, dim) * 1.5).to(x.dtype)

@harness.conforms(references.softmax, dtypes="float32", examples=24)
def test_declines(x, dim):
    raise harness.Unsupported("no rows at all")

@harness.conforms(references.softmax, dtypes=(torch.float32,), examples=24, domain={"ndim": 2})
def test_raises(x, dim):
    raise ValueError("no such kernel")

class TestMethods:
    scale = 1

    @harness.conforms(references.softmax, dtypes=("bfloat16",), examples=24, claims={"exp": "scaled"})
    def test_method(self, x, dim):
        return right(x, dim) * self.scale

def test_plain(tmp_path):
    assert tmp_path
"""


@pytest.fixture
def tests(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with one test file."""
    pytester.makepyfile(test_kernels=TESTS)
    return pytester


def lines(result: pytest.RunResult) -> str:
    return "\n".join(result.outlines)


def test_every_format_is_a_test_of_its_own(tests: pytest.Pytester) -> None:
    result = tests.runpytest_inprocess("--collect-only", "-q")
    names = [line.partition("::")[2] for line in result.outlines if "::" in line]
    assert names == [
        "test_right[float32]",
        "test_right[float16]",
        "test_wrong[float32]",
        "test_declines[float32]",
        "test_raises[float32]",
        "TestMethods::test_method[bfloat16]",
        "test_plain",
    ]


def test_outcomes_and_summary(tests: pytest.Pytester) -> None:
    result = tests.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=4, failed=3)
    text = lines(result)
    summary = text.partition("numerical conformance")[2]
    result.stdout.re_match_lines(
        [
            r"PASS +test_kernels\.py::test_right\[float32\] +largest ratio [\d.]+, \d+ situations",
            r"FAIL +test_kernels\.py::test_wrong\[float32\] +largest ratio .*",
            r"INCONCLUSIVE +test_kernels\.py::test_declines\[float32\] .*: every case was declined",
            r"ERROR +test_kernels\.py::test_raises\[float32\] .*",
            r"PASS +test_kernels\.py::TestMethods::test_method\[bfloat16\] .*",
        ]
    )
    assert "test_plain" not in summary.partition("short test summary")[0]


def test_a_failure_is_the_verdict_and_nothing_of_ours(tests: pytest.Pytester) -> None:
    result = tests.runpytest_inprocess("-k", "wrong or declines")
    text = lines(result)
    assert "FAIL test_kernels.py:test_wrong as softmax on cpu" in text
    assert "replay: harness replay test_kernels.py:test_wrong --as softmax --case" in text
    assert "declined: no rows at all" in text
    assert "conform.py" not in text and "plugin.py" not in text and "Traceback" not in text
    assert not [line for line in result.outlines if line.startswith("E ")]


def test_an_assertion_about_a_verdict_shows_its_text(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
import harness, references, torch

def wrong(x, dim):
    return torch.softmax(x.double(), dim).to(x.dtype) * 1.5

def test_message():
    verdict = harness.check(wrong, references.softmax, "float32", examples=24)
    assert verdict.ok, str(verdict)

def test_short():
    verdict = harness.check(wrong, references.softmax, "float32", examples=24)
    assert verdict.ok, verdict
"""
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=2)
    shown = [line for line in result.outlines if line.startswith("E ")]
    assert sum("smallest input found:" in line for line in shown) == 1
    assert sum("replay: harness replay" in line and "--case" in line for line in shown) == 1
    assert sum("AssertionError: FAIL test_an_assertion" in line for line in shown) == 2
    assert not [line for line in shown if "Tally(" in line]


def test_a_format_can_be_chosen_by_name(tests: pytest.Pytester) -> None:
    result = tests.runpytest_inprocess("-k", "float16 and right")
    result.assert_outcomes(passed=1, deselected=6)


def test_options_take_the_place_of_the_decorators(tests: pytest.Pytester) -> None:
    words = ("--harness-examples", "90", "--harness-seed", "11", "--harness-json", "made/run.json")
    result = tests.runpytest_inprocess("-k", "right or method", *words)
    result.assert_outcomes(passed=3, deselected=4)
    record = records.read(tests.path / "made" / "run.json", RunRecord)
    assert set(record.tests) == {
        "test_kernels.py::test_right[float32]",
        "test_kernels.py::test_right[float16]",
        "test_kernels.py::TestMethods::test_method[bfloat16]",
    }
    verdict = record.tests["test_kernels.py::TestMethods::test_method[bfloat16]"]
    assert (verdict.seed, verdict.claims) == (11, {"exp": "scaled"})
    assert verdict.formats[0].situations > 48


def test_a_file_that_cannot_be_written_is_refused_first(tests: pytest.Pytester) -> None:
    (tests.path / "folder").mkdir()
    for name, words in {
        "folder": "'folder' is a folder; name another place",
        "/proc/run.json": "nothing can be written in '/proc'",
        "test_kernels.py/run.json": "this is a file; name a folder",
    }.items():
        result = tests.runpytest_inprocess("-k", "right and float32", "--harness-json", name)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: --harness-json {name}: {words}*"])


def test_a_usage_error_is_one_line(tests: pytest.Pytester) -> None:
    result = tests.runpytest_inprocess("-k", "right and float32", "--harness-device", "gpu")
    result.assert_outcomes(failed=1, deselected=6)
    assert lines(result).partition("short test summary")[0].count("device 'gpu'") == 1
    assert "conform.py" not in lines(result)


def test_seconds_alone_cut_the_search_short(tests: pytest.Pytester) -> None:
    words = ("--harness-examples", "1000000", "--harness-seconds", "0.2")
    result = tests.runpytest_inprocess("-k", "right and float32", *words)
    result.assert_outcomes(failed=1, deselected=6)
    assert "the time limit cut the search short" in lines(result)


def test_verdicts_come_back_from_xdist_workers(tests: pytest.Pytester) -> None:
    words = ("-n", "1", "-k", "right and float32 or wrong", "--harness-json", "run.json")
    result = tests.runpytest_subprocess(*words)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.re_match_lines([r"PASS +test_kernels\.py::test_right\[float32\] +largest ratio .*"])
    data = json.loads((tests.path / "run.json").read_text())
    assert {name: each["outcome"] for name, each in data["tests"].items()} == {
        "test_kernels.py::test_right[float32]": "PASS",
        "test_kernels.py::test_wrong[float32]": "FAIL",
    }


def test_a_method_is_replayed_by_its_command(tests: pytest.Pytester) -> None:
    source = (tests.path / "test_kernels.py").read_text()
    (tests.path / "test_kernels.py").write_text(source.replace("* self.scale", "* (self.scale + 1)"))
    result = tests.runpytest_inprocess("-k", "test_method")
    command = re.search(r"replay: harness (replay test_kernels.py:TestMethods.test_method .*)", lines(result))
    assert command is not None
    assert run([*shlex.split(command[1]), "--in-process"]) == 1


def test_nothing_is_said_of_hidden_frames(tests: pytest.Pytester) -> None:
    result = tests.runpytest_inprocess("-k", "wrong")
    assert "entries are hidden" not in lines(result)


def test_an_expected_failure_is_shown_as_such(tests: pytest.Pytester) -> None:
    source = (tests.path / "test_kernels.py").read_text()
    marked = source.replace(
        '@harness.conforms(references.softmax, dtypes=("float32",), examples=24)\ndef test_wrong',
        "@pytest.mark.xfail(strict=False)\n@harness.conforms('softmax', dtypes='float32', examples=24)\ndef test_wrong",
    )
    (tests.path / "test_kernels.py").write_text(marked)
    result = tests.runpytest_inprocess("-k", "wrong or right")
    result.assert_outcomes(xfailed=1, passed=2)
    result.stdout.re_match_lines([r"FAIL +test_kernels\.py::test_wrong\[float32\] .* \(xfailed\)$"])
    assert lines(result).count("xfailed)") == 1


def test_further_arguments_are_an_error_of_their_test(tests: pytest.Pytester) -> None:
    source = (tests.path / "test_kernels.py").read_text()
    more = """
@pytest.mark.parametrize("block", [1, 2])
@harness.conforms(references.softmax, dtypes=("float32",), examples=24)
def test_blocks(x, dim, block=1):
    return right(x, dim)
"""
    (tests.path / "test_kernels.py").write_text(source + more)
    result = tests.runpytest_inprocess("-k", "right or blocks")
    result.assert_outcomes(passed=2, failed=2)
    text = lines(result)
    assert "test_blocks is parametrized over block, and conforms passes only what its contract does" in text
    assert "harness.check(functools.partial(kernel, block=block), softmax)" in text


def test_a_wrong_decoration_is_an_error_of_its_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import harness, references\n@harness.conforms(references.softmax)\ndef test_f(x, axis): return x\n"
        "def test_other(): pass\n"
    )
    result = pytester.runpytest_inprocess("-k", "float32 or other")
    result.assert_outcomes(failed=1, passed=1)
    assert "test_f(x, axis) does not take the parameters of contract softmax(x, dim)" in lines(result)


def right(x: torch.Tensor, dim: int) -> torch.Tensor:
    """A softmax."""
    return torch.softmax(x.double(), dim).to(x.dtype)


def test_without_pytest_a_call_judges_and_a_call_with_arguments_computes() -> None:
    test = conforms(references.softmax, dtypes=("float32",), examples=24)(right)
    assert test() is None
    x = torch.zeros(4)
    assert torch.equal(test(x, 0), torch.full((4,), 0.25))
    assert torch.equal(test(x, dim=0), torch.full((4,), 0.25))
    assert (test.__name__, test.__doc__) == ("right", "A softmax.")

    def wrong(x: torch.Tensor, dim: int) -> torch.Tensor:
        return right(x, dim) * 2

    with pytest.raises(AssertionError, match="FAIL wrong as softmax on cpu"):
        conforms(references.softmax, dtypes=("float32",), examples=24)(wrong)()


@harness.contract(args={"x": "*shape", "weight": "*shape", "eps": (1e-5,)}, returns="*shape")
def fused(x: Any, weight: Any, *, eps: float) -> Any:
    """A contract with a keyword."""
    return x


def test_parameters_are_those_of_the_contract() -> None:
    conforms(fused)(lambda x, weight, *, eps: x)
    conforms(fused)(lambda x, weight, eps: x)
    conforms(fused)(lambda x, weight, *, eps, block=64: x)
    for function in (
        lambda x, weight: x,
        lambda weight, x, *, eps: x,
        lambda x, weight, eps, block: x,
        lambda *args, eps: args,
        lambda x, weight, **others: x,
    ):
        with pytest.raises(HarnessError, match=r"parameters of contract fused\(x, weight, eps\); write def"):
            conforms(fused)(function)()


def test_what_is_no_contract_is_refused() -> None:
    for thing in (right, 3, torch.softmax):
        with pytest.raises(HarnessError, match="conforms needs a contract, not"):
            conforms(thing)  # type: ignore[arg-type]
    with pytest.raises(HarnessError, match="did you mean 'float32'"):
        conforms(references.softmax, dtypes=("float31",))
    with pytest.raises(HarnessError, match="did you mean 'softmax'"):
        conforms("sotfmax")
    assert conforms("softmax", dtypes="float32", examples=24)(right)() is None
    with pytest.raises(HarnessError, match="dtypes is empty"):
        conforms(references.softmax, dtypes=())


def test_a_decorated_function_is_a_subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that harness check, replay and report find it without --as."""
    from harness.jobs import Budget, Local, judge, plan
    from harness.jobs.messages import UnderTest

    monkeypatch.chdir(tmp_path)
    domain = "harness.Domain(ndim=(1, 2), dtypes=(('x', 'float32'),), allowed=(('shape', ((4,), (2, 3))),))"
    (tmp_path / "test_own.py").write_text(
        "import harness, references, torch\n"
        f"@harness.conforms(references.softmax, dtypes=('float32',), domain={domain})\n"
        "def test_f(x, dim): return torch.softmax(x.double(), dim).to(x.dtype)\n"
    )
    planned = plan(Local(), UnderTest(target="test_own.py:test_f"))
    assert (planned.under.contract, planned.formats) == ("softmax", ("float32",))
    assert planned.under.domain == {"ndim": (1, 2), "dtypes": {"x": "float32"}, "shape": ((4,), (2, 3))}
    record = judge(Local(), planned, Budget(examples=24), lambda event: None)
    assert record.outcome == "PASS"
    assert (
        msgspec.json.decode(records.dumps(record), type=records.VerdictRecord).verdict() == record.verdict()
    )
