"""Judge every kernel of a folder, and its mutants, on a device: one process for each file, several at a time.

    python benchmarks/on_device.py OUT.json [--device cuda] [--examples 120] [--mutants] [--seconds 500] [--jobs 14]

Writes a record of what was judged where: one entry for each kernel and format, and for each mutant the first
format that caught it. Nothing is reduced, which would compile a kernel for every size tried. What is not PASS is
printed. A process that dies, or is not done after --seconds, costs only what its file had left.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import torch

import harness
from harness import records
from harness.subjects import Target, discover, load

LOST = 7
"""Exit status of a process whose device was lost."""


def main() -> int:
    """Judge all files, or with --file one, printing a line of JSON for each entry."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", nargs="?", default="device.json")
    parser.add_argument("--folder", default="kernels")
    parser.add_argument("--file")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--examples", type=int, default=120)
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("--skip", type=int, default=0)
    options = parser.parse_args()
    if options.file:
        for entry in _judged(options):
            print(json.dumps(entry), flush=True)
            if _lost(options.device):
                return LOST
        return 0
    start = time.monotonic()
    files = sorted(path for path in Path(options.folder).glob("*.py") if not path.name.startswith("_"))
    with ThreadPoolExecutor(options.jobs) as pool:
        entries = [
            entry for some in pool.map(lambda path: _apart(path, options, start), files) for entry in some
        ]
    where = msgspec.to_builtins(records.environment(options.device))
    Path(options.out).write_text(json.dumps({"environment": where, "entries": entries}, indent=1))
    print(where)
    for kind in ("kernel", "mutant"):
        print(kind, dict(Counter(entry["outcome"] for entry in entries if entry["kind"] == kind)))
    wrong = [e for e in entries if e["outcome"] not in ("PASS" if e["kind"] == "kernel" else "FAIL", "ERROR")]
    wrong += [e for e in entries if e["kind"] == "kernel" and e["outcome"] == "ERROR"]
    for entry in wrong:
        print(entry["subject"], entry.get("format"), entry["outcome"], entry.get("text", "")[:800])
    return 1 if wrong else 0


def _apart(path: Path, options: argparse.Namespace, start: float) -> list[dict[str, Any]]:
    """The entries of one file, judged in a process of its own, and in another after the device was lost."""
    entries: list[dict[str, Any]] = []
    while True:
        words = [sys.executable, __file__, "--file", str(path), "--device", options.device]
        words += ["--examples", str(options.examples), *(["--mutants"] if options.mutants else [])]
        left = options.seconds - (time.monotonic() - start)
        try:
            done = subprocess.run(
                [*words, "--skip", str(len(entries))],
                capture_output=True,
                text=True,
                timeout=max(5, left),
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            return [*entries, *_lines((expired.stdout or b"").decode()), _unfinished(path, "out of time")]
        entries += _lines(done.stdout)
        if done.returncode != LOST:
            ending = f"status {done.returncode}: {done.stderr[-800:]}"
            return [*entries, _unfinished(path, ending)] if done.returncode else entries


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]


def _unfinished(path: Path, why: str) -> dict[str, Any]:
    return {"kind": "kernel", "subject": str(path), "outcome": "UNFINISHED", "text": why}


def _lost(device: str) -> bool:
    """Whether a kernel broke the device's context, so that this process can judge nothing more."""
    try:
        if device != "cpu":
            torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def _work(options: argparse.Namespace) -> Iterator[tuple[str, Target, tuple[str, ...]]]:
    """What makes an entry: a kernel in one format, or a mutant in formats to try: (spec, of, formats)."""
    targets = list(discover(options.file))
    for target in targets:
        assert target.declaration is not None
        yield from ((target.spec, target, (fmt,)) for fmt in target.declaration.dtypes)
    for target in targets if options.mutants else ():
        assert target.declaration is not None
        formats = tuple(target.declaration.dtypes)
        yield from ((f"{target.spec}@{name}", target, formats) for name in target.declaration.mutants)


def _judged(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for spec, target, formats in itertools.islice(_work(options), options.skip, None):
        for fmt in formats:
            entry = _entry(spec, target, fmt, options)
            if entry["outcome"] in ("FAIL", "ERROR"):
                break
        yield entry


def _entry(spec: str, target: Target, fmt: str, options: argparse.Namespace) -> dict[str, Any]:
    start, claimed = time.monotonic(), target.declaration
    assert claimed is not None
    kind = "kernel" if spec == target.spec else "mutant"
    verdict = harness.check(
        target if kind == "kernel" else load(spec),
        claimed.contract,
        fmt,
        device=options.device,
        claims=claimed.claims,
        domain=claimed.domain,
        examples=options.examples,
        shrink=False,
    )
    (tally,) = verdict.tallies.values()
    return {
        "kind": kind,
        "subject": spec,
        "format": fmt,
        "outcome": verdict.outcome,
        "check": verdict.findings[0].check if verdict.findings else "",
        "situations": tally.situations,
        "launches": tally.launches,
        "ratio": tally.largest_ratio,
        "notes": dict(tally.notes),
        "seconds": round(time.monotonic() - start, 1),
        "text": "" if verdict.ok or kind == "mutant" else str(verdict)[:3000],
    }


if __name__ == "__main__":
    sys.exit(main())
