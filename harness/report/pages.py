"""Writing a report: as JSON, as Markdown, and as one self-contained HTML page."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from harness import files, records
from harness.report.markdown import markdown
from harness.report.model import Report

LOWEST, HIGHEST = 1e-3, 1e3
"""Ends of the ratio axis; a ratio beyond is drawn at the end."""


NAMES = ("report.json", "report.md", "report.html")
"""The files of a report."""


def save(report: Report, folder: Path) -> list[Path]:
    """Write the files of `NAMES`; their paths. Raises HarnessError where one cannot be written."""
    paths = [folder / name for name in NAMES]
    records.write(paths[0], report)
    files.write(paths[1], markdown(report).encode(errors="backslashreplace"))
    files.write(paths[2], page(report).encode(errors="backslashreplace"))
    return paths


def page(report: Report) -> str:
    """The report as HTML. It asks the network for nothing."""
    return _environment().get_template("page.html").render(report=report, bars=bars(report))


@dataclass(frozen=True)
class Bar:
    """One largest ratio. length: its place on a logarithmic axis from LOWEST (0) to HIGHEST (1)."""

    label: str
    outcome: str
    ratio: float
    length: float


def bars(report: Report) -> Sequence[Bar]:
    """The largest ratio of every format judged, largest first."""
    found = [
        Bar(f"{Path(verdict.subject).name} {each.format}", each.outcome, each.ratio, place(each.ratio))
        for verdict, each in report.rows()
        if each.elements
    ]
    return sorted(found, key=lambda bar: -bar.ratio)


def place(ratio: float) -> float:
    """Where a ratio lies on the axis."""
    inside = min(max(ratio, LOWEST), HIGHEST)
    return math.log(inside / LOWEST) / math.log(HIGHEST / LOWEST)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("harness.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["ratio"] = lambda value: f"{float(value):.3g}"
    return environment
