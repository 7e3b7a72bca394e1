"""Verdicts as data: typed records that JSON holds without loss, validated when they are read.

A record is a verdict with what is needed to judge it elsewhere: device, versions, seed, claims, domain. A
verdict read back equals the one written. Infinite ratios are written as ``"inf"``, which JSON lacks.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

import harness
from harness import files
from harness.case import Case, check_fields
from harness.errors import HarnessError
from harness.kinds import tuples
from harness.verdict import Finding, Outcome, Tally, Verdict

SCHEMA: Literal[1] = 1
"""Version of the layout of these records; a reader refuses any other."""

LIBRARIES = ("torch", "triton", "numpy", "hypothesis")
"""Libraries whose versions decide what a run does."""

Ratio = float | Literal["inf"]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record: immutable, built by name, and read only where every field is known."""


class Environment(Strict, frozen=True):
    """Where a verdict was reached."""

    versions: dict[str, str]
    """Of the harness, Python and the libraries that decide what a run does."""
    device_name: str
    """Of the GPU, or of the processor."""
    system: str
    """Operating system and machine type."""


class FindingRecord(Strict, frozen=True):
    """One thing that is wrong, on the smallest input found."""

    check: str
    """The check that failed."""
    message: str
    """Element, got, exact, error and bound in words."""
    case: Case
    """The smallest input found."""
    element: tuple[int, ...] | None
    """Of the output; None where the finding is about no element."""
    output: str
    """Name of the output."""
    replay: str
    """A command that shows it again."""
    snippet: str
    """Python that rebuilds the input."""
    explanation: str
    """The claim under which it would be right, or what it looks like."""


class FormatRecord(Strict, frozen=True):
    """What was judged in one format. The counts are those of :class:`harness.verdict.Tally`."""

    format: str
    outcome: Outcome
    reason: str
    """Why the format is inconclusive or empty."""
    findings: tuple[FindingRecord, ...]
    launches: int
    reruns: int
    situations: int
    elements: int
    plain_situations: int
    decisive_situations: int
    empty_launches: int
    declined: dict[str, int]
    unspecified: int
    unbounded: int
    escalated: dict[str, int]
    """Elements judged by each tier of the oracle beyond float64."""
    notes: dict[str, int]
    families: dict[str, int]
    layouts: dict[str, int]
    largest_ratio: Ratio
    largest_ratio_case: Case | None
    seconds: dict[str, float]
    cut_short: bool
    interrupted: bool = False

    @property
    def ratio(self) -> float:
        """The largest ratio as a number."""
        return float(self.largest_ratio)


class VerdictRecord(Strict, frozen=True):
    """A verdict, with where and how it was reached."""

    schema: Literal[1]
    outcome: Outcome
    subject: str
    contract: str
    device: str
    claims: dict[str, Any]
    """What the author claims of the arithmetic, beyond the defaults."""
    domain: dict[str, Any]
    """The restriction of the inputs as it was given."""
    excluded: tuple[str, ...]
    """The same in words."""
    seed: int
    interrupted: bool
    formats: tuple[FormatRecord, ...]
    environment: Environment

    def verdict(self) -> Verdict:
        """The verdict that was recorded."""
        findings = [finding(item, each.format) for each in self.formats for item in each.findings]
        return Verdict(
            subject=self.subject,
            contract=self.contract,
            device=self.device,
            findings=tuple(findings),
            tallies={each.format: _tally(each) for each in self.formats},
            claims=tuples(self.claims),
            excluded=self.excluded,
            seed=self.seed,
            interrupted=self.interrupted,
        )


class SavedFinding(Strict, frozen=True):
    """A finding in a file of its own: ``harness replay FILE`` judges it again."""

    schema: Literal[1]
    target: str
    """What ``harness check`` was given: file.py:function or package.module:function."""
    contract: str
    """A contract's name, or my_file.py:my_contract."""
    device: str
    claims: dict[str, Any]
    domain: dict[str, Any]
    format: str
    finding: FindingRecord
    environment: Environment


class RunRecord(Strict, frozen=True):
    """The verdicts of the conformance tests of a pytest run, by the names of the tests."""

    schema: Literal[1]
    tests: dict[str, VerdictRecord]


def environment(device: str) -> Environment:
    """This process's environment; the device's name is asked of torch only for a GPU."""
    versions = {"harness": harness.__version__, "python": platform.python_version()}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    system = f"{platform.system()} {platform.machine()}"
    return Environment(versions=versions, device_name=_device_name(device), system=system)


def record(verdict: Verdict, domain: Mapping[str, Any] | None, where: Environment) -> VerdictRecord:
    """The record of a verdict reached ``where``, on inputs restricted to ``domain``."""
    formats = []
    for name, tally in verdict.tallies.items():
        found = verdict.findings_of(name)
        formats.append(
            FormatRecord(
                format=name,
                outcome=verdict.outcome_of(name),
                reason=tally.reason(found),
                findings=tuple(finding_record(item) for item in found),
                **_counts(tally),
            )
        )
    return VerdictRecord(
        schema=SCHEMA,
        outcome=verdict.outcome,
        subject=verdict.subject,
        contract=verdict.contract,
        device=verdict.device,
        claims=dict(verdict.claims),
        domain=dict(domain or {}),
        excluded=verdict.excluded,
        seed=verdict.seed,
        interrupted=verdict.interrupted,
        formats=tuple(formats),
        environment=where,
    )


def finding_record(item: Finding) -> FindingRecord:
    """The record of a finding; its format is that of the record that holds it."""
    return FindingRecord(**{name: getattr(item, name) for name in FindingRecord.__struct_fields__})


def finding(item: FindingRecord, fmt: str) -> Finding:
    """The finding that was recorded for a format."""
    fields = {name: getattr(item, name) for name in FindingRecord.__struct_fields__}
    return Finding(**{**fields, "case": _case(item.case), "format": fmt})


def joined(parts: Iterable[Verdict]) -> Verdict:
    """One verdict of verdicts on different formats of the same subject."""
    first, *others = parts
    for part in others:
        twice = set(first.tallies) & set(part.tallies)
        if twice:
            raise ValueError(f"two verdicts on {', '.join(sorted(twice))}")
        first = Verdict(
            subject=first.subject,
            contract=first.contract,
            device=first.device,
            findings=first.findings + part.findings,
            tallies={**first.tallies, **part.tallies},
            claims=first.claims,
            excluded=first.excluded,
            seed=first.seed,
            interrupted=first.interrupted or part.interrupted,
        )
    return first


def dumps(value: msgspec.Struct | tuple[msgspec.Struct, ...]) -> bytes:
    """One line of JSON."""
    return msgspec.json.encode(value, enc_hook=_plain)


def write(path: Path, value: msgspec.Struct) -> None:
    """Write a record as indented JSON, as `harness.files.write` does."""
    files.write(path, msgspec.json.format(dumps(value), indent=1) + b"\n")


T = TypeVar("T", bound=msgspec.Struct)


def read(path: Path, kind: type[T]) -> T:
    """A record from a file; raises HarnessError if the file is missing or holds anything else."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise HarnessError(f"cannot read {str(path)!r}: {error.strerror}") from error
    try:
        found = msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise HarnessError(f"{str(path)!r} is no {_words(kind)}: {error}") from error
    _check_cases(msgspec.json.decode(text), str(path))
    return found


def _check_cases(value: Any, path: str) -> None:
    """Raise HarnessError where a case that lies somewhere in a record has a field that no case has."""
    if isinstance(value, dict) and {"sizes", "scalars", "tensors"} <= value.keys():
        try:
            check_fields(value)
        except HarnessError as error:
            raise HarnessError(f"{path!r}: {error}") from error
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_cases(item, path)


def save_finding(folder: Path, saved: SavedFinding) -> Path:
    """Write a finding under a name that says what it is; the same finding twice is one file."""
    words = re.sub(r"[^a-z0-9]+", "-", f"{saved.contract} {saved.format} {saved.finding.check}".lower())
    path = folder / "findings" / f"{words.strip('-')}-{saved.finding.case.digest}.json"
    write(path, saved)
    return path


def _counts(tally: Tally) -> dict[str, Any]:
    given = {"format", "outcome", "reason", "findings"}
    fields = {name: getattr(tally, name) for name in FormatRecord.__struct_fields__ if name not in given}
    fields |= {name: dict(value) for name, value in fields.items() if isinstance(value, Counter)}
    fields["largest_ratio"] = "inf" if tally.largest_ratio == float("inf") else tally.largest_ratio
    return fields


def _tally(each: FormatRecord) -> Tally:
    given = {"format", "outcome", "reason", "findings"}
    fields = {name: getattr(each, name) for name in FormatRecord.__struct_fields__ if name not in given}
    fields |= {name: Counter(value) for name, value in fields.items() if isinstance(value, dict)}
    case = each.largest_ratio_case
    return Tally(**{**fields, "largest_ratio": each.ratio, "largest_ratio_case": case and _case(case)})


def _case(case: Case) -> Case:
    """A case as ``Case.from_json`` makes it: JSON has no tuples for the values of its scalars."""
    return Case.from_json(case.to_json())


def _plain(value: object) -> object:
    """What JSON has no form for: a mapping that is no dict; anything else in words."""
    return dict(value) if isinstance(value, Mapping) else str(value)


def _words(kind: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).lower()


def _device_name(device: str) -> str:
    if device.startswith("cuda"):
        import torch  # a cheap import of this module must not load it

        return torch.cuda.get_device_name(device)
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
