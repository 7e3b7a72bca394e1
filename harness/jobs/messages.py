"""What parent and child say to each other: one line of JSON per job, and one per event.

Importing this loads no torch: the parent never needs it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.case import Case
from harness.records import Environment, FindingRecord, Ratio, VerdictRecord


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A line of JSON that names its kind."""


class UnderTest(msgspec.Struct, frozen=True, kw_only=True):
    """A function and what it is held to. contract "", claims and domain None: as its file declares.

    configs: as ``harness.check`` takes it, "" for None.
    """

    target: str
    contract: str = ""
    device: str = "cpu"
    claims: dict[str, Any] | None = None
    domain: dict[str, Any] | None = None
    timeout: float = 60.0
    configs: str = ""


class Plan(Message, frozen=True):
    """Job: find the function and its contract, and validate everything. Answered by Planned."""

    under: UnderTest
    dtypes: tuple[str, ...] = ()


class Check(Message, frozen=True):
    """Job: ``harness.check``. Answered by Judged."""

    under: UnderTest
    formats: tuple[str, ...]
    examples: int | None
    seconds: float | None
    seed: int
    shrink: bool = True


class Fuzz(Message, frozen=True):
    """Job: ``harness.search.fuzz`` in one format. Answered by Judged."""

    under: UnderTest
    format: str
    seconds: float
    seed: int
    folder: str


class Replay(Message, frozen=True):
    """Job: judge one case. Answered by Judged."""

    under: UnderTest
    case: Case


class Explain(Message, frozen=True):
    """Job: the terms of the bound at an element, or, without one, where a case comes closest to its bound.

    Answered by Said.
    """

    under: UnderTest
    case: Case
    output: str = ""
    element: tuple[int, ...] | None = None


class Describe(Message, frozen=True):
    """Job: the finding of a case whose launch took its process down. Answered by Found."""

    under: UnderTest
    case: Case
    check: str
    message: str


class Discover(Message, frozen=True):
    """Job: the declared subjects of a file. Answered by Listed."""

    path: str


class DiscoverTorch(Message, frozen=True):
    """Job: torch's own functions that are called as a contract is. Answered by Listed."""


Job = Plan | Check | Fuzz | Replay | Explain | Describe | Discover | DiscoverTorch


class Planned(Message, frozen=True):
    """Everything resolved: under has its contract, claims and domain."""

    under: UnderTest
    formats: tuple[str, ...]
    subject: str
    excluded: tuple[str, ...]
    environment: Environment


class Moved(Message, frozen=True):
    """Where a search stands (see :class:`harness.search.progress.Progress`)."""

    format: str
    phase: str
    situations: int
    share: float | None
    launches: int
    findings: int
    largest_ratio: Ratio
    found: str = ""


class Found(Message, frozen=True):
    """A finding, as soon as it is reduced."""

    format: str
    finding: FindingRecord


class Judged(Message, frozen=True):
    """A verdict."""

    record: VerdictRecord


class Said(Message, frozen=True):
    """Lines for the reader."""

    lines: tuple[str, ...]


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """A subject that a file declares: its target, its contract's name, and the names of its mutants."""

    target: str
    contract: str
    mutants: tuple[str, ...] = ()


class Listed(Message, frozen=True):
    """The subjects found, and why others were left out."""

    subjects: tuple[Declared, ...]
    omitted: tuple[str, ...] = ()


class Done(Message, frozen=True):
    """The job's last event. leaving: the child does no other job, as its GPU no longer answers."""

    leaving: bool = False


class Failed(Message, frozen=True):
    """The job's last event: "usage", "internal" (an error of ours), or "lost" (the GPU no longer answers)."""

    kind: str
    message: str
    traceback: str = ""


Event = Planned | Moved | Found | Judged | Said | Listed | Done | Failed
