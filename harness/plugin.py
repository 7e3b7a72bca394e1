"""The pytest plugin: translates between pytest and ``harness.conforms``, and imports no torch by itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.conform import Budget, Conformance
    from harness.verdict import Verdict

RECORD = pytest.StashKey[str]()
"""The verdict of a test item as JSON."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of a run; each takes the place of what the decorators say."""
    group = parser.getgroup("harness", "numerical conformance of GPU kernels")
    group.addoption("--harness-examples", type=int, metavar="N", help="situations of each format")
    group.addoption("--harness-seconds", type=float, metavar="S", help="time to spend on each test")
    group.addoption("--harness-device", metavar="NAME", help="cpu or cuda")
    group.addoption("--harness-seed", type=int, metavar="N", help="seed of the search")
    group.addoption("--harness-json", type=Path, metavar="FILE", help="write the verdicts as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Gather verdicts for the summary, on the process that prints it."""
    file: Path | None = config.getoption("harness_json")
    if file is not None:
        _check_file(file)
    config.pluginmanager.register(Summary(config), "harness-summary")


def _check_file(file: Path) -> None:
    """Raise UsageError where the file of --harness-json cannot be written, whose folder is made."""
    from harness import files
    from harness.errors import HarnessError

    try:
        files.check_folder(file.parent, (file.name,), f"--harness-json {file}")
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each format, named by it."""
    conformance = getattr(metafunc.function, "__conformance__", None)
    if conformance is not None:
        metafunc.parametrize("harness_format", conformance.formats)
        # An argument that the test does not take would end the collection of the file; the test tells it.
        metafunc.fixturenames.extend(_parametrized(metafunc.definition))


def _parametrized(item: pytest.Item) -> list[str]:
    """The arguments over which marks parametrize a conformance test."""
    found: list[str] = []
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        found += names.replace(",", " ").split() if isinstance(names, str) else names
    return found


@pytest.fixture
def harness_run(request: pytest.FixtureRequest) -> Run:
    """The run of a conformance test."""
    return Run(request)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Hand the verdict to the process that prints the summary, which under pytest-xdist is another one."""
    report = yield
    if report.when == "call" and RECORD in item.stash:
        report.harness_record = item.stash[RECORD]  # type: ignore[attr-defined]
    return report


class Run:
    """See :class:`harness.conform.Run`."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request

    def conclude(self, conformance: Conformance, judge: Callable[[Budget], Verdict]) -> None:
        """Judge, keep the verdict with the test, and fail it with the verdict's text."""
        from harness import records
        from harness.conform import Budget
        from harness.errors import HarnessError

        more = _parametrized(self._request.node)
        if more:
            name = self._request.node.originalname
            keywords = ", ".join(f"{each}={each}" for each in more)
            pytest.fail(
                f"{name} is parametrized over {', '.join(more)}, and conforms passes only what its contract does; "
                f"judge inside a parametrized test: verdict = harness.check(functools.partial(kernel, {keywords}), "
                f"{conformance.contract.name}); assert verdict.ok, str(verdict)",
                pytrace=False,
            )
        names = ("examples", "seconds", "device", "seed")
        budget = Budget(*(self._request.config.getoption(f"harness_{name}") for name in names))
        wrong = ""
        try:
            verdict = judge(budget)
        except HarnessError as error:
            wrong = str(error)
        if wrong:  # outside of the handler, whose error pytest would show as well
            pytest.fail(wrong, pytrace=False)
        domain = conformance.domain if isinstance(conformance.domain, dict) else None
        record = records.record(verdict, domain, records.environment(verdict.device))
        self._request.node.stash[RECORD] = records.dumps(record).decode()
        if verdict.interrupted:
            raise KeyboardInterrupt
        if not verdict.ok:
            pytest.fail(str(verdict), pytrace=False)


class Summary:
    """A line for each conformance test at the end of the run, and the JSON file."""

    def __init__(self, config: pytest.Config) -> None:
        self.file: Path | None = config.getoption("harness_json")
        self.gathered: dict[str, str] = {}
        self.expected: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Gather the verdict of a test."""
        record = getattr(report, "harness_record", None)
        if record is not None:
            self.gathered[report.nodeid] = record
            if report.skipped and hasattr(report, "wasxfail"):
                self.expected.add(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the lines."""
        if self.gathered:
            terminalreporter.section("numerical conformance")
            for line in summary_lines(self.gathered, self.expected):
                terminalreporter.write_line(line)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file."""
        if self.file is not None and not hasattr(session.config, "workerinput"):
            write_json(self.file, self.gathered)


def summary_lines(gathered: dict[str, str], expected: Collection[str] = ()) -> list[str]:
    """``PASS  test_file.py::test_softmax[float32]  largest ratio 0.93, 200 situations``, by test.

    expected: the tests that were marked as failing, and failed.
    """
    import msgspec

    from harness.records import VerdictRecord

    lines = []
    for test, text in gathered.items():
        for each in msgspec.json.decode(text, type=VerdictRecord).formats:
            words = f"largest ratio {each.ratio:.3g}, {each.situations} situations"
            reason = f": {each.reason}" if each.reason else ""
            xfailed = " (xfailed)" if test in expected else ""
            lines.append(f"{each.outcome:<12}  {test}  {words}{reason}{xfailed}")
    return lines


def write_json(file: Path, gathered: dict[str, str]) -> None:
    """Write the verdicts by test."""
    import msgspec

    from harness import records

    tests = {test: msgspec.json.decode(text, type=records.VerdictRecord) for test, text in gathered.items()}
    records.write(file, records.RunRecord(schema=records.SCHEMA, tests=tests))
