"""Reports over a small folder: what is judged, what is kept, and the pages made of it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from harness import records
from harness.cli import run
from harness.cli.table import show_table
from harness.cli.view import Bar, Lines, view
from harness.jobs import Budget, Died, Local
from harness.jobs.messages import Check, Discover, Event, Found, Job, Moved, Replay
from harness.jobs.runner import Watch
from harness.report import Campaign, Report, exit_status, load, save
from harness.report.markdown import markdown
from harness.report.model import Problem, elements
from harness.report.pages import bars, page, place

GOOD = """
import torch
import harness, references

@harness.subject(
    references.softmax,
    domain={"ndim": 2},
    dtypes=("float32", "bfloat16"),
    mutants={
        "doubled": ("e / e.sum(dim, True)", "2 * e / e.sum(dim, True)"),
        "same": ("x - x.amax(dim, True)", "-(x.amax(dim, True) - x)"),
        "only-bfloat16": ("x = x0", "x = x0 * (2 if x0.dtype == torch.bfloat16 else 1)"),
        "nowhere": ("no such text", ""),
    },
)
def softmax(x0, dim):
    x = x0
    x = x.double()
    e = torch.exp(x - x.amax(dim, True))
    return (e / e.sum(dim, True)).to(x0.dtype)
"""

BAD = """
import torch
import harness, references

@harness.subject(references.amax, dtypes=("float32",))
def amax(x, dim):
    raise ValueError("<script>alert('x')</script> | a & b")
"""

STRANGER = "def helper(x): return x\n"


@dataclass
class Watcher:
    """Remembers what a campaign tells."""

    about: str = ""
    place: str = ""
    lines: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        self.places.append(self.place)

    def say(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """kernels/ with a right and a failing subject, a file without any, and one that does not import."""
    folder = tmp_path_factory.mktemp("campaign")
    (folder / "kernels").mkdir()
    files = {"good": GOOD, "raises": BAD, "stranger": STRANGER, "broken": "1 / 0\n", "_helper": "1 / 0\n"}
    for name, text in files.items():
        (folder / "kernels" / f"{name}.py").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def watcher() -> Watcher:
    return Watcher()


@pytest.fixture(scope="module")
def report(folder: Path, watcher: Watcher) -> Report:
    campaign = Campaign("kernels/", Budget(examples=24), command="harness report kernels/")
    return campaign.run(Local(), watcher)


def test_every_declared_subject_is_judged_in_its_formats(report: Report) -> None:
    found = [(verdict.subject, each.format, each.outcome) for verdict, each in report.rows()]
    assert found == [
        ("kernels/good.py:softmax", "float32", "PASS"),
        ("kernels/good.py:softmax", "bfloat16", "PASS"),
        ("kernels/raises.py:amax", "float32", "ERROR"),
    ]
    assert report.verdicts[0].domain == {"ndim": 2}


def test_every_mutant_is_judged_until_something_catches_it(report: Report) -> None:
    mutants = {mutant.name: mutant for mutant in report.mutants}
    assert set(mutants) == {"doubled", "same", "only-bfloat16"}
    assert mutants["doubled"].caught_by == "accuracy"
    assert mutants["doubled"].format == "float32" and (mutants["doubled"].elements or 0) > 1
    assert mutants["doubled"].replay.startswith("harness replay kernels/good.py:softmax@doubled --as softmax")
    assert mutants["doubled"].case is not None and mutants["doubled"].seconds > 0
    assert mutants["only-bfloat16"].format == "bfloat16"
    assert mutants["same"].survived
    assert (mutants["same"].format, mutants["same"].situations) != ("float32", 0)
    assert mutants["same"].situations == sum(each.situations for each in report.verdicts[0].formats)
    assert [mutant.name for mutant in report.survivors()] == ["same"]


def test_inputs_that_catch_mutants_may_be_reduced(folder: Path) -> None:
    report = Campaign("kernels/good.py", Budget(examples=24), reduce_mutants=True).run(Local(), Watcher())
    assert [mutant.elements for mutant in report.mutants if mutant.name == "doubled"] == [1]


def test_what_could_not_be_judged_is_kept(report: Report) -> None:
    problems = {problem.where: problem.message for problem in report.problems}
    assert set(problems) == {"kernels/broken.py", "kernels/good.py:softmax@nowhere"}
    assert "ZeroDivisionError" in problems["kernels/broken.py"]
    assert "should match its source once, not 0 times" in problems["kernels/good.py:softmax@nowhere"]
    assert exit_status(report) == 3


def test_the_watcher_hears_of_everything(report: Report, watcher: Watcher) -> None:
    assert "PASS kernels/good.py:softmax" in watcher.lines
    assert "caught by accuracy kernels/good.py:softmax@doubled" in watcher.lines
    assert "SURVIVED kernels/good.py:softmax@same" in watcher.lines
    assert [line for line in watcher.lines if line.startswith("not judged: kernels/broken.py: importing")]
    assert {"1/6", "6/6"} <= set(watcher.places)


class Deadly(Local):
    """A runner whose process dies under one of the subjects, and under one of the files."""

    case = '{"sizes":{"*shape":[1]},"scalars":{"dim":0},"tensors":{"x":{"format":"float32",' + (
        '"layout":{"order":[0],"steps":[1],"pads":[0]},"rows":[{"family":"literal"}]}}}'
    )

    def run(self, job: Job, watch: Watch) -> None:
        if isinstance(job, Discover) and job.path.endswith("raises.py"):
            raise Died("crashes", "the process was killed by SIGBUS")
        if isinstance(job, Check | Replay):
            raise Died("crashes", "the process was killed by SIGSEGV", self.case)
        super().run(job, watch)


def test_a_crash_is_a_finding_or_a_problem(folder: Path) -> None:
    report = Campaign("kernels/", Budget(examples=24)).run(Deadly(), Watcher())
    (verdict,) = report.verdicts
    assert [each.outcome for each in verdict.formats] == ["ERROR", "ERROR"]
    assert "SIGSEGV" in verdict.formats[0].findings[0].message
    caught = {mutant.name: mutant.caught_by for mutant in report.mutants}
    assert caught == {"doubled": "crashes", "same": "crashes", "only-bfloat16": "crashes"}
    problems = {problem.where: problem.message for problem in report.problems}
    assert problems["kernels/raises.py"] == "the process was killed by SIGBUS"


@pytest.mark.parametrize(
    ("keep", "status"),
    [
        ({"verdicts": 1, "mutants": 1, "problems": ()}, 0),
        ({"verdicts": 1, "mutants": 2, "problems": ()}, 1),
        ({"verdicts": 2, "mutants": 1, "problems": ()}, 1),
        ({"verdicts": 1, "mutants": 0, "problems": (Problem(where="x", message="y"),)}, 3),
        ({"verdicts": 0, "mutants": 0, "problems": ()}, 2),
        ({"verdicts": 1, "mutants": 1, "problems": (), "interrupted": True}, 2),
    ],
)
def test_the_exit_status_is_that_of_the_worst(report: Report, keep: dict[str, Any], status: int) -> None:
    changes = {
        **keep,
        "verdicts": report.verdicts[: keep["verdicts"]],
        "mutants": report.mutants[: keep["mutants"]],
    }
    assert exit_status(msgspec.structs.replace(report, **changes)) == status


def test_an_open_format_is_status_2(report: Report) -> None:
    good = report.verdicts[0]
    first = msgspec.structs.replace(good.formats[0], outcome="INCONCLUSIVE", reason="nothing was judged")
    verdict = msgspec.structs.replace(good, formats=(first, good.formats[1]))
    opened = msgspec.structs.replace(report, verdicts=(verdict,), mutants=(), problems=())
    assert exit_status(opened) == 2


def test_the_record_is_read_back_as_it_was(report: Report, tmp_path: Path) -> None:
    paths = save(report, tmp_path / "out")
    assert [path.name for path in paths] == ["report.json", "report.md", "report.html"]
    assert load(paths[0]) == report
    data = json.loads(paths[0].read_text())
    assert data["verdicts"][0]["formats"][0]["outcome"] == "PASS"
    assert data["environment"]["versions"]["torch"]


class Checker(HTMLParser):
    """Well-formed, and without anything that a browser would fetch."""

    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names)
        assert not {"src", "href", "srcset", "action", "onclick"} & set(names)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        if "script" not in self.open[-1:] and "style" not in self.open[-1:]:
            self.text.append(data)


def test_the_page_is_well_formed_and_asks_for_nothing(report: Report) -> None:
    text = page(report)
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    assert checker.seen.count("script") == 1, "text of a kernel became an element"
    assert not re.search(r"https?://|@import|url\(", text)
    assert "default-src 'none'" in text
    shown = " ".join(" ".join(checker.text).split())
    for words in (
        "kernels/good.py:softmax",
        "2 of 3 mutants caught",
        "survived",
        "ValueError: <script>alert('x')</script> | a & b",
        "harness replay kernels/raises.py:amax",
        "restricted by the domain to",
        "ndim=(2, 2)",
        "importing",
    ):
        assert words in shown
    assert checker.seen.count("rect") == 2


def test_the_page_of_a_clean_report(report: Report) -> None:
    clean = msgspec.structs.replace(
        report,
        verdicts=report.verdicts[:1],
        mutants=(),
        mutants_judged=False,
        problems=(),
        omitted=("torch.f",),
    )
    checker = Checker()
    checker.feed(page(clean))
    assert checker.open == []
    shown = " ".join(" ".join(checker.text).split())
    assert "mutants left out" in shown and "torch.f" in shown
    assert "Findings" not in shown and "Not judged" not in shown


def test_the_markdown_has_rows_of_one_length(report: Report) -> None:
    text = markdown(report)
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) == 2
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1
    odd = msgspec.structs.replace(report.verdicts[0], subject="a|b.py:f")
    assert "`a\\|b.py:f`" in markdown(msgspec.structs.replace(report, verdicts=(odd,)))
    assert "| PASS | `kernels/good.py:softmax` | softmax | float32 |" in text
    assert "| `kernels/good.py:softmax@same` | **survived** | bfloat16 |" in text
    assert "- mutants: 2 of 3 caught" in text
    assert "```sh\nharness replay kernels/raises.py:amax" in text


def test_the_table_on_a_terminal_and_in_a_file(report: Report) -> None:
    plain = io.StringIO()
    show_table(report, Console(file=plain, force_terminal=False))
    lines = plain.getvalue().splitlines()
    assert [line for line in lines if re.match(r"PASS +kernels/good\.py:softmax +softmax +bfloat16", line)]
    assert [line for line in lines if re.match(r"kernels/good\.py:softmax@same +survived", line)]
    assert "\x1b" not in plain.getvalue()
    coloured = io.StringIO()
    show_table(report, Console(file=coloured, force_terminal=True, width=200))
    assert "\x1b[32mPASS" in coloured.getvalue()


def test_bars_run_from_the_largest_ratio_down(report: Report) -> None:
    drawn = bars(report)
    assert [bar.label for bar in drawn] == ["good.py:softmax bfloat16", "good.py:softmax float32"]
    assert 0 < drawn[1].length < drawn[0].length <= 0.5
    assert (place(0.0), place(1.0), place(float("inf"))) == (0.0, pytest.approx(0.5), 1.0)


def test_the_size_of_an_input_is_the_product_of_its_sizes(report: Report) -> None:
    case = report.mutants[0].case
    assert case is not None
    assert elements(replace(case, sizes={"*shape": (1,)})) == 1
    assert elements(replace(case, sizes={"*shape": (3, 4), "N": 5})) == 60
    assert elements(None) is None


def test_the_command_writes_and_shows_the_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--examples", "12", "--dtype", "float32", "--no-mutants", "--in-process", "--out", "made/here")
    assert run(("report", "kernels/good.py", *words)) == 0
    out, err = capsys.readouterr()
    assert "verdicts by format: 1 PASS" in out
    assert "mutants: left out (--no-mutants)" in out
    assert "written: made/here/report.html" in out
    assert "harness: PASS kernels/good.py:softmax" in err
    assert load(Path("made/here/report.json")).mutants_judged is False


def test_a_report_of_nothing_leaves_an_earlier_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.txt").write_text("no Python\n")
    (folder / "kept").mkdir()
    (folder / "kept" / "report.json").write_text("earlier")
    assert run(("report", "notes.txt", "--in-process", "--out", "kept")) == 3
    out, err = capsys.readouterr()
    assert "not judged: notes.txt" in out
    assert err.endswith("harness: nothing was judged: kept is left as it was\n")
    assert [path.name for path in (folder / "kept").iterdir()] == ["report.json"]
    assert (folder / "kept" / "report.json").read_text() == "earlier"


def test_torchs_own_functions_can_be_judged_too(folder: Path) -> None:
    campaign = Campaign("kernels/stranger.py", Budget(examples=12), dtypes=("float32",), torch=True)
    report = campaign.run(Local(), Watcher())
    found = {verdict.subject: verdict.contract for verdict in report.verdicts}
    assert found["torch:softmax"] == "softmax"
    assert set(report.omitted).isdisjoint(found)


def moved(**changes: Any) -> Moved:
    fields = {"situations": 12, "share": 0.25, "launches": 3, "findings": 0, "largest_ratio": 0.5}
    return Moved(**{"format": "float16", "phase": "covering", **fields, **changes})


def test_progress_is_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with view(io.StringIO()) as lines:
        assert isinstance(lines, Lines)
        lines.about, lines.place = "k.py:f", "3/7"
        lines(moved())
        assert capsys.readouterr().err == ""
        lines._last -= 60
        lines(moved(findings=2))
        expected = "harness: 3/7 k.py:f float16 covering: 12 situations in 3 launches (25%), largest ratio 0.5, 2 findings\n"
        assert capsys.readouterr().err == expected


def test_progress_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, report: Report) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with view(stream) as bar:
        assert isinstance(bar, Bar)
        bar(moved(phase="searching"))
        bar._progress.refresh()
        bar(moved(share=None, largest_ratio="inf"))
        finding = report.verdicts[1].formats[0].findings[0]
        bar(Found(format="float16", finding=finding))
        bar(moved(found="hangs (float16): no result"))
        bar.say("done [with] brackets")
    text = stream.getvalue()
    assert "float16 searching" in text
    assert "harness: found: raises (float16)" in text
    assert "harness: found: hangs (float16): no result; reducing it" in text
    assert "done [with] brackets" in text


def test_records_of_a_report_are_versioned(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    records.write(path, report)
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 0', 1))
    with pytest.raises(Exception, match="schema"):
        load(path)
