"""The command line: what it prints, where, and with which exit status.

Most commands run in this process; tests/test_jobs.py is about processes that die.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import harness
from harness import records
from harness.cli import commands, run
from harness.cli.settings import element, settings
from harness.errors import HarnessError
from harness.records import SavedFinding, VerdictRecord

ROOT = Path(__file__).parents[1]

KERNELS = """
import os

import harness, references, torch, triton
from harness.contracts import Dim

print("printed by the import")

def right(x, dim):
    return torch.softmax(x.double(), dim).to(x.dtype)

def noisy(x, dim):
    print("printed by the kernel")
    return right(x, dim)

def slow(x, dim):
    tell_that_it_started()
    return right(x, dim)

def tell_that_it_started():
    try:
        os.close(os.open("started", os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        pass  # nobody listens any more

def unnormalised(x, dim):
    return (right(x, dim).double() * 1.5).to(x.dtype)

def off_at_2(x, dim):
    out = right(x, dim)
    out[2] *= 2
    return out

def raises(x, dim):
    raise ValueError("no such kernel")

class Wordless(Exception):
    def __str__(self):
        raise RuntimeError("no words")

def wordless(x, dim):
    raise Wordless

def wordless_refusal(x, dim):
    class Refused(harness.Unsupported, Wordless):
        __str__ = Wordless.__str__
    raise Refused

def talkative(x, dim):
    raise ValueError("a" * 5000 + " the end")

def interrupts_itself(x, dim):
    raise KeyboardInterrupt

def exits(x, dim):
    raise SystemExit(3)

def closes(x, dim):
    raise GeneratorExit

def returns_none(x, dim):
    return None

def wrong_shape(x, dim):
    return right(x, dim)[None]

def declines(x, dim):
    raise harness.Unsupported("no rows at all")

def narrow_only(x, dim):
    if x.element_size() > 2:
        raise harness.Unsupported("16 bits only")
    return right(x, dim)

@harness.subject(references.softmax, claims={"depth": "sequential"}, domain={"ndim": 2}, dtypes=("float16",),
                 mutants={"doubled": ("x.double() + 0", "x.double() * 2")})
def declared(x, dim):
    return torch.softmax(x.double() + 0, dim).to(x.dtype)

@harness.contract(args={"x": "*shape", "dim": Dim("x")}, returns="*shape", rows="all but dim")
def own(x, dim):
    return x

constant = 3

@triton.jit
def bare(x, dim):
    pass

tuned = triton.autotune([triton.Config({})], key=[])(bare)
"""

QUICK = ("--in-process", "--examples", "24", "--dtype", "float32")


def case_of(*values: str) -> str:
    row = {"family": "literal", "values": values}
    tensor = {"format": "float32", "layout": {"order": [0], "steps": [1], "pads": [0]}, "rows": [row]}
    return json.dumps({"sizes": {"*shape": [len(values)]}, "scalars": {"dim": 0}, "tensors": {"x": tensor}})


ONE = case_of("0x1p+0")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test runs in a folder of its own that holds k.py."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.py").write_text(KERNELS)
    return tmp_path


def harness_(*arguments: str) -> int:
    return run(arguments)


def test_a_right_kernel_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness_("check", "k.py:right", "--as", "softmax", *QUICK) == 0
    out = capsys.readouterr().out
    assert "PASS k.py:right as softmax on cpu" in out
    assert re.search(r"float32: PASS, \d+ situations", out)


def test_a_wrong_kernel_fails_with_a_command_that_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness_("check", "k.py:unnormalised", "--as", "softmax", *QUICK) == 1
    out = capsys.readouterr().out
    assert "FAIL k.py:unnormalised" in out
    assert "accuracy (float32)" in out
    assert "torch.tensor(" in out
    command = re.search(r"replay: harness (.*)", out)
    assert command is not None
    assert harness_(*shlex.split(command[1]), "--in-process") == 1
    again = capsys.readouterr().out
    assert "accuracy (float32)" in again


@pytest.mark.parametrize(
    ("function", "status", "words"),
    [
        ("raises", 1, ["ERROR", "raises (float32)", "ValueError: no such kernel"]),
        ("wordless", 1, ["ERROR", "raises (float32)", ": Wordless: its message raises RuntimeError\n"]),
        ("wordless_refusal", 2, ["INCONCLUSIVE", "declined: its message raises RuntimeError"]),
        ("talkative", 1, ["ERROR", "raises (float32)", "ValueError: aaaa", "aaa … aaa", "aaaa the end\n"]),
        ("interrupts_itself", 1, ["ERROR", "raises (float32)", ": KeyboardInterrupt\n"]),
        ("exits", 1, ["ERROR", "raises (float32)", ": SystemExit: 3\n"]),
        ("closes", 1, ["ERROR", "raises (float32)", ": GeneratorExit\n"]),
        ("returns_none", 1, ["FAIL", "returns (float32)", "NoneType"]),
        ("wrong_shape", 1, ["FAIL", "shape (float32)"]),
        ("declines", 2, ["INCONCLUSIVE", "every case was declined", "no rows at all"]),
    ],
)
def test_kernels_that_give_no_answer(
    function: str, status: int, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness_("check", f"k.py:{function}", "--as", "softmax", *QUICK) == status
    out = capsys.readouterr().out
    for word in words:
        assert word in out
    assert max(map(len, out.splitlines())) < 700


def test_a_replayed_kernel_that_interrupts_itself(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--as", "softmax", "--case", ONE)
    assert harness_("replay", "k.py:interrupts_itself", *words, "--in-process") == 1
    assert "ERROR k.py:interrupts_itself" in capsys.readouterr().out


def test_a_format_that_is_declined_altogether_says_how_to_leave_it_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--in-process", "--examples", "300", "--dtype", "float32,float16,bfloat16")
    assert harness_("check", "k.py:narrow_only", "--as", "softmax", *words) == 2
    out = capsys.readouterr().out
    assert "  float32: INCONCLUSIVE, 40 cases, nothing was launched" in out
    assert (
        "every case was declined; to judge only formats that it supports: --dtype float16,bfloat16, or" in out
    )
    assert "dtypes=('float16', 'bfloat16'), also of @harness.subject" in out
    assert "40 declined: 16 bits only" in out
    assert harness_("check", "k.py:declines", "--as", "softmax", *QUICK) == 2
    assert "--dtype NAME, or dtypes=('NAME',)" in capsys.readouterr().out


def test_the_values_of_claims_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness_("list", "claims") == 0
    out = capsys.readouterr().out
    for line in (
        "  accumulator: float32 (float64 for float64 inputs), float64, tf32, float16,",
        "  depth: None (min(n-1, ceil(n/16) + 64) roundings on the longest path of a sum), sequential (n-1),",
        "  dot: ieee, tf32, tf32x3, bf16",
        "  variance: any, two-pass, textbook",
        "  exp: shifted, scaled",
        "  ulp: {} or errors in u: ",
        "  flush: approximate, none, all",
        "  deterministic: False, True",
        "  saturate: None, True, False",
    ):
        assert line in out
    assert set(re.findall(r"^  (\w+):", out, re.MULTILINE)) == {
        item.name for item in dataclasses.fields(harness.Arithmetic)
    }


def test_the_keys_of_a_domain_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness_("list", "domain") == 0
    out = capsys.readouterr().out
    for line in (
        "  ndim: lowest and highest number of dimensions of a tensor of any shape; 1 to 4; without it (1, 4)",
        "  dim: the axes that a kernel is given; any, last or numbers such as 0,-1; without it any",
        "  finite: whether no input holds inf or NaN; true or false; without it False",
        "  NAME: values allowed for the size or scalar of this name; ",
    ):
        assert line in out
    keys = {item.name for item in dataclasses.fields(harness.Domain)} - {"allowed"} | {"NAME"}
    assert set(re.findall(r"^  (\w+):", out, re.MULTILINE)) == keys
    assert harness_("list") == 0
    assert out in capsys.readouterr().out
    assert harness_("list", "--help") == 0
    assert "claims or domain" in " ".join(re.sub("[^ -~]", " ", capsys.readouterr().out).split())


def test_one_contract_is_listed_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness_("list", "softmax") == 0
    out = capsys.readouterr().out
    assert "softmax(x, dim) -> out" in out and "logsumexp" not in out


def test_formats_may_be_written_in_capitals(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--in-process", "--examples", "8", "--dtype", "FLOAT32")
    assert harness_("check", "k.py:right", "--as", "softmax", *words) == 0


def test_a_cap_that_cuts_short_is_inconclusive(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("check", "k.py:right", "--as", "softmax", "--in-process", "--dtype", "float32")
    assert harness_(*words, "--examples", "100000", "--seconds", "0.2") == 2
    assert "the time limit cut the search short" in capsys.readouterr().out


def test_a_contract_of_ones_own_is_named_by_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness_("check", "k.py:right", "--as", "k.py:own", *QUICK) == 1
    assert "as k.py:own on cpu" in capsys.readouterr().out


def test_a_declared_subject_needs_no_contract(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness_("check", "k.py:declared", "--in-process", "--examples", "24") == 0
    out = capsys.readouterr().out
    assert "claims: {'depth': 'sequential'}" in out
    assert "restricted by the domain to: ndim=(2, 2)" in out
    assert "float16: PASS" in out
    assert "float32" not in out


def test_what_is_given_takes_the_place_of_what_is_declared(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--claims", "exp=scaled", "--domain", "ndim=2", "--domain", "finite=true")
    assert harness_("check", "k.py:declared", *QUICK, *words) == 0
    out = capsys.readouterr().out
    assert "claims: {'exp': 'scaled'}" in out
    assert "ndim=(2, 2)" in out and "finite=True" in out
    assert "float32: PASS" in out


def test_a_mutant_is_named_after_its_subject(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness_("check", "k.py:declared@doubled", "--in-process", "--examples", "24") == 1
    assert "FAIL k.py:declared@doubled" in capsys.readouterr().out


def test_a_module_of_the_current_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "importable_kernels.py").write_text(KERNELS)
    assert harness_("check", "importable_kernels:right", "--as", "softmax", *QUICK) == 0
    assert "PASS importable_kernels:right" in capsys.readouterr().out


def test_several_formats(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--in-process", "--examples", "8", "--dtype", "float32,fp16", "--dtypes", "float64")
    assert harness_("check", "k.py:right", "--as", "softmax", *words) in (0, 1)
    assert re.findall(r"^  (\w+): ", capsys.readouterr().out, re.MULTILINE) == [
        "float32",
        "float16",
        "float64",
    ]


def test_the_verdict_as_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "out").mkdir()
    words = ("--json", "out/verdict.json", "--domain", "ndim=1,2", "--seed", "5")
    assert harness_("check", "k.py:right", "--as", "softmax", *QUICK, *words) == 0
    record = records.read(here / "out" / "verdict.json", VerdictRecord)
    assert (record.outcome, record.subject, record.seed) == ("PASS", "k.py:right", 5)
    assert record.domain == {"ndim": [1, 2]}
    assert record.environment.versions["torch"] == torch.__version__
    assert str(record.verdict()) in capsys.readouterr().out


def test_a_verdict_that_cannot_be_written_is_printed(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "judge", _removing(here / "out", commands.judge))
    (here / "out").mkdir()
    assert harness_("check", "k.py:right", "--as", "softmax", *QUICK, "--json", "out/x.json") == 3
    out, err = capsys.readouterr()
    assert "PASS k.py:right" in out
    assert err == "harness: cannot write 'out/x.json': File exists\n"


def test_findings_that_cannot_be_saved_leave_the_verdict(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: object) -> Path:
        raise HarnessError("cannot write 'found/findings/x.json': No space left on device")

    monkeypatch.setattr(records, "save_finding", refused)
    words = ("--in-process", "--seconds", "0.1", "--dtype", "float32", "--folder", "found")
    assert harness_("fuzz", "k.py:unnormalised", "--as", "softmax", *words) == 3
    out, err = capsys.readouterr()
    assert "FAIL k.py:unnormalised" in out
    assert err.endswith("harness: cannot write 'found/findings/x.json': No space left on device\n")


def _removing(folder: Path, judge: Any) -> Any:
    """The judge, after which a file is where a folder was."""

    def judged(*arguments: Any) -> VerdictRecord:
        record: VerdictRecord = judge(*arguments)
        folder.rmdir()
        folder.write_text("")
        return record

    return judged


def test_a_verdict_may_go_to_a_pipe_or_a_device(here: Path) -> None:
    os.symlink(os.devnull, "nothing")
    with fresh("check", "k.py:right", "--as", "softmax", *QUICK, "--json", "nothing") as process:
        assert process.communicate(timeout=120)[1] == ""
    assert os.readlink("nothing") == os.devnull
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("where", ["0", "out:0", "worst"])
def test_the_terms_of_a_bound(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--domain", "ndim=1", "--explain-bound", where)
    assert harness_("check", "k.py:right", "--as", "softmax", *QUICK, *words) == 0
    out = capsys.readouterr().out
    assert "bound of out[" in out
    assert "exact value" in out and "%" in out


def test_the_terms_of_the_bound_of_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--explain-bound", "worst")
    assert harness_("check", "k.py:unnormalised", "--as", "softmax", *QUICK, *words) == 1
    out = capsys.readouterr().out
    found = re.search(r"accuracy \(float32\): (out\[[\d, ]*\])", out)
    assert found is not None and f"bound of {found[1]}" in out


def test_the_worst_element_of_a_case(capsys: pytest.CaptureFixture[str]) -> None:
    case = case_of("0x0p+0", "0x1p+0", "0x1p+1", "0x0p+0")
    words = ("--as", "softmax", "--case", case, "--explain-bound", "out:worst", "--in-process")
    assert harness_("replay", "k.py:off_at_2", *words) == 1
    assert "bound of out[2] for" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("7,7,7", ", and no element [7, 7, 7]"),
        ("lse:worst", "softmax has no output 'lse'; "),
    ],
)
@pytest.mark.parametrize(("function", "status"), [("right", 0), ("unnormalised", 1)])
def test_an_element_that_is_not_there_leaves_the_verdict(
    function: str, status: int, where: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--domain", "ndim=1", "--explain-bound", where)
    assert harness_("check", f"k.py:{function}", "--as", "softmax", *QUICK, *more) == status
    err = capsys.readouterr().err
    assert f"harness: --explain-bound {where}: " in err and words in err


def test_no_bound_is_explained_where_every_answer_was_exact(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--domain", "ndim=1", "--domain", "max_elements=1", "--explain-bound", "worst")
    assert harness_("check", "k.py:right", "--as", "softmax", *QUICK, *words) == 0
    assert "no bound to explain: every answer was exact" in capsys.readouterr().out


def test_what_a_kernel_prints_does_not_show(capfd: pytest.CaptureFixture[str]) -> None:
    assert harness_("check", "k.py:noisy", "--as", "softmax", "--examples", "24", "--dtype", "float32") == 0
    out, err = capfd.readouterr()
    assert "printed" not in out + err
    assert out.startswith("PASS")


CASE = '{"sizes":{"*shape":[1]},"scalars":{"dim":0},"tensors":{"x":null}}'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("check k.py:right --as sofmax", ["'sofmax'", "did you mean 'softmax'?"]),
        ("check k.py:right --as k.py:right", ["k.py:right", "no contract"]),
        ("check k.py:right", ["k.py:right declares no contract", "--as", "softmax"]),
        ("check k.py:write --as softmax", ["'write'", "did you mean 'right'?"]),
        ("check k.py:constant --as softmax", ["k.py:constant", "no function"]),
        ("check k.py --as softmax", ["'k.py' names no function"]),
        ("check none.py:f --as softmax", ["no file 'none.py'"]),
        ("check no.such.module:f --as softmax", ["no module 'no.such.module'"]),
        ("check broken.py:f --as softmax", ["importing", "broken.py", "ZeroDivisionError"]),
        ("check k.py:declared@halved", ["no mutant 'halved'", "doubled"]),
        ("check k.py:right --as softmax --dtype float31", ["float31", "did you mean 'float32'?"]),
        ("check k.py:right --as softmax --domain ndims=2", ["'ndims'", "did you mean 'ndim'?"]),
        ("check k.py:right --as softmax --domain ndim=7", ["ndim=7", "within 1 and 4"]),
        ("check k.py:right --as softmax --claims deepth=3", ["'deepth'", "did you mean 'depth'?"]),
        ("check k.py:right --as softmax --claims depth=minus", ["depth='minus'"]),
        ("check k.py:right --as softmax --claims tf32", ["--claims 'tf32' names no setting"]),
        ("check k.py:right --as softmax --device gpu", ["'gpu'", "'cuda'"]),
        ("check k.py:right --as softmax --examples 0", ["examples=0", "positive"]),
        ("check k.py:right --as softmax --seconds 0", ["seconds=0", "positive"]),
        ("check k.py:right --as softmax --seconds nan", ["seconds=nan", "finite"]),
        ("check k.py:right --as softmax --seconds inf", ["seconds=inf", "finite"]),
        ("fuzz k.py:right --as softmax --in-process --seconds nan", ["seconds=nan", "finite"]),
        ("check k.py:right --as softmax --timeout 0", ["--timeout 0", "positive"]),
        ("check k.py:right --as softmax --timeout nan", ["--timeout nan", "finite"]),
        (
            "check k.py:right --as softmax --timeout 1000000000000",
            ["--timeout 1000000000000: give at most 2592000 seconds (30 days)"],
        ),
        ("check k.py:right --as softmax --seconds 1e12", ["seconds=1000000000000.0", "at most 2592000"]),
        ("fuzz k.py:right --as softmax --in-process --timeout 1e12", ["--timeout", "at most 2592000"]),
        ("report empty/ --timeout 1e12", ["--timeout", "at most 2592000"]),
        ("report empty/ --timeout -1", ["--timeout -1", "positive"]),
        ("check k.py:right --as softmax --claims deterministic=no", ["deterministic='no'", "True, False"]),
        ("check k.py:right --as softmax --explain-bound a,b", ["'a,b'", "output:i,j"]),
        (
            f"replay k.py:raises --as softmax --case '{ONE}' --explain-bound 99",
            ["--explain-bound 99: out has shape [1], and no element [99]"],
        ),
        (
            f"replay k.py:raises --as softmax --case '{ONE}' --explain-bound lse:0",
            ["--explain-bound lse:0: softmax has no output 'lse'", "outputs: out"],
        ),
        (
            "check k.py:right --as softmax --exmaples 3",
            ["there is no option --exmaples; did you mean '--examples'? (harness check --help shows"],
        ),
        ("check k.py:right --as softmax --bogus", ["there is no option --bogus (harness check --help shows"]),
        ("check k.py:right --configs few", ["--configs few: choose from 'some', 'all' (harness check"]),
        ("check k.py:right --examples few", ["--examples few: give a whole number (harness check --help"]),
        ("fuzz k.py:right --seconds few", ["--seconds few: give a number (harness fuzz --help"]),
        ("fuzz k.py:right --as", ["'--as' requires an argument (harness fuzz --help"]),
        ("report a b", ["unexpected extra argument", "(harness report --help"]),
        ("check", ["Missing argument 'TARGET' (harness check --help"]),
        ("chekc k.py:right", ["chekc", "check", "(harness --help"]),
        ("check empty:f --as softmax", ["'empty' is a folder; name a file of it, such as empty/FILE.py:f"]),
        ("check ./empty:f --as softmax", ["'./empty' is a folder; name a file of it"]),
        ("check nothing.py:f --as softmax", ["nothing.py has no function 'f', and none at all"]),
        ("replay k.py:right --as softmax", ["needs a case", "--case"]),
        ("replay k.py:right --as softmax --case {}", ["no case"]),
        (f"replay k.py:right --as softmax --case '{CASE}'", ["leaves out tensor 'x'"]),
        (f"replay none.json --case '{CASE}'", ["either the file or --case"]),
        ("replay none.json", ["cannot read 'none.json'"]),
        ("replay other.json", ["'other.json' is no saved finding"]),
        ("report none/", ["'none/' does not exist"]),
        ("report empty/", ["'empty/' declares no subject"]),
        ("list kernels", ["'kernels'", "contracts, formats"]),
        ("list sofmax", ["'sofmax'", "did you mean 'softmax'?"]),
        ("check .:f --as softmax", ["'.' is a folder; name a file of it, such as ./FILE.py:f"]),
        ("check raises.py:f --as softmax", ["failed at raises.py:3: ValueError: two"]),
        ("check syntax.py:f --as softmax", ["failed at syntax.py:2: SyntaxError"]),
        ("check latin.py:f --as softmax", ["latin.py failed: UnicodeDecodeError", "save it as UTF-8"]),
        ("check first.py:f --as softmax", ["first.py failed: SyntaxError: ", "save it as UTF-8"]),
        ("check exits.py:f --as softmax", ["failed at exits.py:2: SystemExit: 4"]),
        ("check interrupts.py:f --as softmax", ["failed at interrupts.py:1: KeyboardInterrupt"]),
        ("check exiting_module:f --as softmax", ["failed at exits.py:2: SystemExit: 4"]),
        ("check wordless.py:f --as softmax", ["failed at wordless.py:4: Wordless: its message raises Key"]),
        ("check nulls.py:f --as softmax", ["importing", "nulls.py failed", "null bytes"]),
        ("check raising_module:f --as softmax", ["failed at raises.py:3: ValueError"]),
        ("check k.py:right --as softmax --json no/where/x.json", ["no/where", "make it first"]),
        ("check k.py:right --as softmax --json package", ["--json package: this is a folder; name a file"]),
        ("check k.py:right --as softmax --json k.py/x.json", ["--json k.py/x.json", "'k.py' is no folder"]),
        ("check k.py:right --as softmax --json /proc/x.json", ["--json /proc/x.json", "in '/proc'"]),
        (
            f"replay k.py:right --as softmax --case '{CASE}' --json package",
            ["--json package: this is a folder"],
        ),
        ("fuzz k.py:right --as softmax --in-process --json package", ["--json package: this is a folder"]),
        ("fuzz k.py:right --as softmax --in-process --folder k.py", ["--folder k.py: this is a file"]),
        ("report k.py --out k.py", ["--out k.py: this is a file; name a folder"]),
        ("report k.py --out k.py/report", ["--out k.py/report", "'k.py' is no folder"]),
        ("report k.py --out /proc/foo", ["--out /proc/foo", "in '/proc'"]),
        ("report k.py --out made", ["--out made: 'made/report.md' is a folder"]),
        ("replay verdict.json", ["'verdict.json' is a verdict", "replay commands"]),
        ("check k.py:right --as softmax --dtype ''", ["--dtype '' names no format"]),
        (
            "check k.py:right --as softmax --dtype fp8",
            ["did you mean 'float8_e4m3fn' or 'float8_e5m2'?", "fp8e4nv", "bf16"],
        ),
        (
            "check k.py:right --as softmax --dtype tf33",
            ["unknown format 'tf33'; known: float64, float32, float16, bfloat16, float8_e4m3fn"],
        ),
        ("check k.py:own --as softmax", ["the function under test is contract own"]),
        ("check k.py:right --as softmax --domain shape=foo", ["domain shape='foo'", "shapes, such as"]),
        ("check k.py:right --as matmul --domain K=-1", ["domain K=-1", "lengths, such as"]),
        ("check k.py:right --as gelu --domain approximate=tahn", ["'tahn'", "did you mean 'tanh'?"]),
        ("check k.py:right --as softcap --domain cap=none", ["domain cap='none'", "or another number"]),
        (
            "check k.py:bare --as softmax",
            ["bare is a @triton.jit kernel; give the function that launches it"],
        ),
        (
            "check k.py:tuned --as softmax",
            ["bare is a @triton.jit kernel; give the function that launches it"],
        ),
        (
            "check package/relative.py:f --as softmax",
            ["relative import", "give it as package.relative:function, from the folder that holds package"],
        ),
        (
            "check relative.py:f --as softmax",
            ["failed at relative.py:1: ImportError", "as package.module:function"],
        ),
        ("report /nowhere/at/all", ["'/nowhere/at/all' does not exist"]),
    ],
)
def test_usage_errors_are_one_clear_line(
    arguments: str, words: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "broken.py").write_text("1 / 0\n")
    (here / "package").mkdir()
    for name in ("package/__init__.py", "package/other.py"):
        (here / name).write_text("x = 1\n")
    for name in ("package/relative.py", "relative.py"):
        (here / name).write_text("from .other import x\n")
    (here / "raises.py").write_text(
        "def f():\n    # of two lines\n    raise ValueError('two\\nlines')\nf()\n"
    )
    (here / "syntax.py").write_text("x = 1\nx = = 2\n")
    (here / "latin.py").write_bytes("x = 1\n\n# \xe9\n".encode("latin-1"))
    (here / "first.py").write_bytes("# \xe9\n".encode("latin-1"))
    (here / "nulls.py").write_bytes(b"x = 1\0\n")
    (here / "nothing.py").write_text("")
    (here / "exits.py").write_text("import sys\nsys.exit(4)\n")
    (here / "exiting_module.py").write_text("import exits\n")
    (here / "interrupts.py").write_text("raise KeyboardInterrupt\n")
    (here / "wordless.py").write_text(
        "class Wordless(Exception):\n    def __str__(self):\n        raise KeyError\nraise Wordless\n"
    )
    (here / "raising_module.py").write_text("import raises\n")
    if "verdict.json" in arguments:
        assert harness_("check", "k.py:right", "--as", "softmax", *QUICK, "--json", "verdict.json") == 0
        capsys.readouterr()
    (here / "other.json").write_text('{"schema": 1}')
    (here / "empty").mkdir()
    (here / "made" / "report.md").mkdir(parents=True)
    given = shlex.split(arguments)
    quick = ("--in-process",) if given[0] in ("check", "replay", "report") else ()
    more = (
        QUICK[1:] if given[0] == "check" and not {"--examples", "--dtype", "--seconds"} & set(given) else ()
    )
    assert harness_(*given, *quick, *more) == 3
    out, err = capsys.readouterr()
    assert err.startswith("harness: ")
    assert err.count("\n") == 1
    assert "Traceback" not in out + err
    for word in words:
        assert word in err


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_gpu_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness_("check", "k.py:right", "--as", "softmax", *QUICK, "--device", "cuda") == 3
    assert "device 'cuda' needs a GPU" in capsys.readouterr().err


def test_an_error_of_the_harness_is_one_line_and_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("our own mistake")

    monkeypatch.setattr(commands, "plan", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert harness_("check", "k.py:right", "--in-process") == 3
    err = capsys.readouterr().err
    saved = re.fullmatch(
        r"harness: internal error: ZeroDivisionError: our own mistake \(traceback in (.*); --debug .*\)\n",
        err,
    )
    assert saved is not None
    assert "in broken" in Path(saved[1]).read_text()
    assert harness_("check", "k.py:right", "--in-process", "--debug") == 3
    assert "in broken" in capsys.readouterr().err


def test_fuzz_saves_what_it_finds(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "--in-process",
        "--seconds",
        "1",
        "--dtype",
        "float32",
        "--folder",
        "found",
        "--domain",
        "ndim=1",
    )
    assert harness_("fuzz", "k.py:unnormalised", "--as", "softmax", "--claims", "dot=tf32", *words) == 1
    out, err = capsys.readouterr()
    assert "harness: found: accuracy (float32)" in err
    saved = re.findall(r"saved: harness replay (\S+)", out)
    assert saved
    finding = records.read(here / saved[0], SavedFinding)
    assert (finding.target, finding.contract, finding.format) == ("k.py:unnormalised", "softmax", "float32")
    assert (finding.claims, finding.domain) == ({"dot": "tf32"}, {"ndim": 1})
    assert harness_("replay", saved[0], "--in-process", "--explain-bound", "worst") == 1
    out = capsys.readouterr().out
    assert "claims: {'dot': 'tf32'}" in out and "bound of out[" in out
    (here / "k.py").write_text(KERNELS.replace("* 1.5", "* 1.0"))
    for name in [name for name in sys.modules if name.startswith("harness_subject_k_")]:
        del sys.modules[name]
    assert harness_("replay", saved[0], "--in-process") == 0


def test_the_list_names_calls_roundings_families_layouts_and_checks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert harness_("list") == 0
    out = capsys.readouterr().out
    assert "  softmax(x, dim) -> out" in out
    assert "  unscale(grads, scale) -> found_inf: bool; grads in place" in out
    assert "  attention(q, k, v, *, scale, causal, window) -> out" in out
    assert "rounding 'shifted': x - max is rounded" in out
    assert "  bfloat16: u = 2^-8" in out
    assert re.search(r"^  gaussian \[.*generic.*\]: Bell-shaped", out, re.MULTILINE)
    assert "contiguous, transposed" in out
    assert "accuracy, special values" in out
    assert harness_("list", "layouts") == 0
    assert "softmax" not in capsys.readouterr().out


def test_the_package_runs_as_a_module() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "harness", "list", "sofmax"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 3
    assert "did you mean 'softmax'?" in found.stderr


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness_("--version") == 0
    assert capsys.readouterr().out.startswith("harness 0")
    assert harness_("--help") == 0
    out = capsys.readouterr().out
    assert "report" in out and "Exit status" in out
    assert "compare" not in out
    assert harness_() == 3
    assert "Usage" in capsys.readouterr().out


def test_ctrl_c_before_anything_is_judged_is_told(here: Path) -> None:
    more = "\ntell_that_it_started()\nimport signal\nsignal.pause()\n"
    (here / "sleeps.py").write_text(KERNELS + more)
    os.mkfifo("started")
    with fresh("check", "sleeps.py:right", "--as", "softmax") as process:
        Path("started").read_bytes()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "harness: interrupted\n")
    assert process.returncode == 130


def fresh(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    code = "from harness.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], text=True, env=environment, **given)


def test_the_command_line_starts_without_torch() -> None:
    code = "import sys, harness.cli; print(*{'torch', 'triton', 'hypothesis', 'jinja2'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_ctrl_c_ends_with_the_summary() -> None:
    words = ("--seconds", "100", "--dtype", "float32", "--json", "out.json")
    os.mkfifo("started")
    with fresh("fuzz", "k.py:slow", "--as", "softmax", *words) as process:
        Path("started").read_bytes()  # returns once the kernel has opened the other end
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert "interrupted: the counts are of what ran" in out
    assert out.startswith("INCONCLUSIVE k.py:slow")
    assert "inconclusive: interrupted" in out and "time limit" not in out
    assert "Traceback" not in out + err
    assert process.returncode == 2
    assert json.loads(Path("out.json").read_text())["interrupted"] is True


@pytest.mark.parametrize(
    "arguments", [("--help",), ("list",), ("check", "k.py:right", "--as", "softmax", *QUICK[1:])]
)
def test_a_reader_that_stops_reading_is_no_error(arguments: tuple[str, ...]) -> None:
    with fresh(*arguments) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 128 + signal.SIGPIPE


def test_nobody_who_reads_errors_is_no_error_either() -> None:
    with fresh("list", "kernels") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stderr.close()
        assert process.stdout.read() == ""
    assert process.returncode == 3


@pytest.mark.parametrize("arguments", [("--version",), ("list",)])
def test_a_standard_output_without_room_is_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full, fresh(*arguments, stdout=full) as process:
        assert process.stderr is not None
        assert (
            process.stderr.read()
            == "harness: cannot write standard output or a temporary file: No space left on device\n"
        )
    assert process.returncode == 3


def test_a_standard_output_of_other_characters_loses_nothing() -> None:
    words = ("check", "k.py:unnormalised", "--as", "softmax", "--examples", "24", "--dtype", "float32")
    with fresh(*words, env={"PYTHONIOENCODING": "ascii"}) as process:
        out, err = process.communicate(timeout=120)
    assert "FAIL k.py:unnormalised" in out and "the allowed error; right:" in out
    assert "Error" not in err
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([], None),
        (["depth=sequential,dot=tf32"], {"depth": "sequential", "dot": "tf32"}),
        (["depth=4", "finite=true"], {"depth": 4, "finite": True}),
        (["roundings=shifted,total,depth=None"], {"roundings": ["shifted", "total"], "depth": None}),
        (["ndim=1,2"], {"ndim": [1, 2]}),
        (['ulp={"exp": 3, "log": 2}, exp=scaled'], {"ulp": {"exp": 3, "log": 2}, "exp": "scaled"}),
        (['{"ulp": {"exp": 3}}'], {"ulp": {"exp": 3}}),
        (["{'dot': 'tf32', 'roundings': ('a', 'b')}"], {"dot": "tf32", "roundings": ("a", "b")}),
        (["dim=(0,1),max_abs=1e4"], {"dim": (0, 1), "max_abs": 1e4}),
        (["name='a,b'"], {"name": "a,b"}),
    ],
)
def test_settings(texts: list[str], found: dict[str, Any] | None) -> None:
    assert settings(texts, "--claims") == found


@pytest.mark.parametrize("texts", [[""], ["tf32"], ["{1: 2"], ["{'a'}"], ["a=1", "a=2"], ["a=1,a=2"], ["=3"]])
def test_settings_of_no_form_are_refused(texts: list[str]) -> None:
    with pytest.raises(HarnessError, match="--claims"):
        settings(texts, "--claims")


def test_elements() -> None:
    assert element("3, 4") == ("", (3, 4))
    assert element("lse:0") == ("lse", (0,))
    assert element("") == ("", ())
    assert element("lse:worst") == ("lse", None)
