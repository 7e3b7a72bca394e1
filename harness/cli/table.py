"""The report as tables on standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from harness.report import Report

STYLES = {"PASS": "green", "FAIL": "bold red", "ERROR": "bold red", "INCONCLUSIVE": "yellow", "EMPTY": "dim"}

WIDEST = 160
"""Columns of the tables where there is no terminal to ask."""


def show_table(report: Report, console: Console | None = None) -> None:
    """Print verdicts by format, mutants by kernel, and the headline."""
    console = console or Console()
    if not console.is_terminal:
        console.width = WIDEST
    subjects = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("outcome", "subject", "contract", "format"):
        subjects.add_column(name, overflow="fold")
    for name in ("ratio", "decisive", "situations"):
        subjects.add_column(name, justify="right")
    subjects.add_column("note", overflow="fold")
    for verdict, each in report.rows():
        note = each.reason or ", ".join(finding.check for finding in each.findings)
        subjects.add_row(
            Text(each.outcome, style=STYLES[each.outcome]),
            Text(verdict.subject),
            Text(verdict.contract),
            each.format,
            f"{each.ratio:.3g}",
            f"{each.decisive_situations}/{each.plain_situations}",
            str(each.situations),
            Text(note),
        )
    console.print(subjects)
    if report.mutants:
        console.print()
        console.print(_mutants(report))
    console.print()
    for line in report.headline():
        console.print(Text(line))


def _mutants(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("mutant", "caught by", "format"):
        table.add_column(name, overflow="fold")
    for name in ("elements", "seconds"):
        table.add_column(name, justify="right")
    for mutant in report.mutants:
        table.add_row(
            Text(f"{mutant.subject}@{mutant.name}"),
            Text("survived", style=STYLES["FAIL"]) if mutant.survived else Text(mutant.caught_by),
            mutant.format,
            "" if mutant.elements is None else str(mutant.elements),
            f"{mutant.seconds:.2f}",
        )
    return table
