"""Judge every kernel of a folder, and its mutants, on a device: `harness report` for each file, several at a time.

    python benchmarks/on_device.py OUT.json [--folder kernels] [--jobs 14] [options of harness report]

Writes one record of what was judged where, an entry for each kernel and format, and for each mutant the format
that caught it or the last one tried; prints what is not as it should be. Options such as --device cuda and
--examples 200 go to every report.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from harness.report.model import Report, load

COMMAND = "import sys; from harness.cli import main; sys.exit(main())"


def main() -> int:
    """Judge all files; exit status 1 if a kernel is not right, a mutant survives, or a file was not judged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("kernels"))
    parser.add_argument("--jobs", type=int, default=14)
    options, others = parser.parse_known_args()
    files = sorted(path for path in options.folder.glob("*.py") if not path.name.startswith("_"))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        reports = list(pool.map(lambda path: _report(path, Path(folder) / path.stem, others), files))
    entries = [entry for report in reports if report for entry in _entries(report)]
    where = next((msgspec.to_builtins(report.environment) for report in reports if report), None)
    options.out.write_text(json.dumps({"environment": where, "entries": entries}, indent=0))
    for kind in ("kernel", "mutant"):
        print(kind, dict(Counter(entry["outcome"] for entry in entries if entry["kind"] == kind)))
    wrong = [entry for entry in entries if entry["outcome"] not in ("PASS", "caught")]
    for entry in wrong:
        print(entry["subject"], entry["format"], entry["outcome"], entry["text"])
    missing = [path for path, report in zip(files, reports, strict=True) if report is None or report.problems]
    for path in missing:
        print(f"not judged, or not whole: {path}")
    return 1 if wrong or missing else 0


def _report(path: Path, out: Path, others: list[str]) -> Report | None:
    """The report over one file; None if there is none."""
    words = [sys.executable, "-c", COMMAND, "report", str(path), "--out", str(out), *others]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        return load(out / "report.json")
    except Exception as error:
        print(f"{path}: {error}: {done.stderr[-500:]}")
        return None


def _entries(report: Report) -> Iterator[dict[str, Any]]:
    for verdict, each in report.rows():
        found = each.findings[0] if each.findings else None
        yield {
            "kind": "kernel",
            "subject": verdict.subject,
            "format": each.format,
            "outcome": each.outcome,
            "check": found.check if found else "",
            "situations": each.situations,
            "launches": each.launches,
            "ratio": msgspec.to_builtins(each.largest_ratio),
            "text": found.message if found else each.reason,
        }
    for mutant in report.mutants:
        yield {
            "kind": "mutant",
            "subject": f"{mutant.subject}@{mutant.name}",
            "format": mutant.format,
            "outcome": "SURVIVED" if mutant.survived else "caught",
            "check": mutant.caught_by,
            "situations": mutant.situations,
            "text": "" if mutant.caught_by else mutant.message,
        }


if __name__ == "__main__":
    sys.exit(main())
