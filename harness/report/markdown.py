"""The report as Markdown, for a pull request or a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness.records import FindingRecord
from harness.report.model import Report


def markdown(report: Report) -> str:
    """The whole report."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in report.environment.versions.items())
    yield f"# Numerical report of {_plain(report.folder)}"
    yield ""
    yield from (f"- {_plain(line)}" for line in report.headline())
    device = f"{_plain(report.environment.device_name)} ({report.device})"
    yield f"- {report.started}, {report.seconds:g} s on {device}"
    yield f"- {versions}" + (f", commit {report.commit}" if report.commit else "")
    yield ""
    yield "## Subjects"
    yield ""
    yield from _table(
        ("outcome", "subject", "contract", "format", "largest ratio", "decisive", "situations", "note"),
        (
            (
                each.outcome,
                f"`{verdict.subject}`",
                verdict.contract,
                each.format,
                f"{each.ratio:.3g}",
                f"{each.decisive_situations}/{each.plain_situations}",
                str(each.situations),
                each.reason or ", ".join(finding.check for finding in each.findings),
            )
            for verdict, each in report.rows()
        ),
    )
    if report.mutants:
        yield ""
        yield "## Mutants"
        yield ""
        yield from _table(
            ("mutant", "caught by", "format", "input", "seconds"),
            (
                (
                    f"`{mutant.subject}@{mutant.name}`",
                    mutant.caught_by or "**survived**",
                    mutant.format,
                    "" if mutant.elements is None else f"{mutant.elements} elements",
                    f"{mutant.seconds:g}",
                )
                for mutant in report.mutants
            ),
        )
    for verdict, each in report.rows():
        for finding in each.findings:
            yield ""
            yield f"## {verdict.subject}, {each.format}: {finding.check}"
            yield ""
            yield from _finding(finding)
    if report.omitted:
        yield ""
        yield "## Left out"
        yield ""
        yield from (f"- {_plain(line)}" for line in report.omitted)


def _finding(finding: FindingRecord) -> Iterator[str]:
    if finding.explanation:
        yield from (finding.explanation, "")
    yield from _fenced("text", finding.message)
    if finding.snippet:
        yield from _fenced("python", finding.snippet)
    if finding.replay:
        yield from _fenced("sh", finding.replay)


def _fenced(language: str, text: str) -> Iterator[str]:
    """A code block whose fence is longer than any in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    yield from (f"{fence}{language}", text, fence)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _plain(text: str) -> str:
    """Text that Markdown leaves as it is, on one line."""
    return "".join(f"\\{sign}" if sign in "\\`*_<>[]|" else sign for sign in text.replace("\n", " "))
