"""The case that is being launched, on disk, so that another process can name it after a crash or a hang.

    journal.note(case.to_json())     # before a launch
    journal.done()                   # after it returned

A process whose journal was never opened writes nothing. What is written survives the process, not the
machine: it reaches the page cache only, which takes some microseconds.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_RUNNING, _RETURNED = b"+", b"-"


class _Journal:
    """The open file of this process. One process has one journal, as it launches one case at a time."""

    descriptor: int | None = None


@dataclass(frozen=True)
class Entry:
    """What a journal holds: the last text noted, whether its launch returned, and when that was written.

    since is in seconds of ``time.time``.
    """

    text: str
    running: bool
    since: float


def open(path: str | Path) -> None:
    """Write this process's notes to ``path`` from now on, from an empty file."""
    close()
    _Journal.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


def close() -> None:
    """Stop writing; the file stays."""
    if _Journal.descriptor is not None:
        os.close(_Journal.descriptor)
        _Journal.descriptor = None


def clear() -> None:
    """Forget what was noted: another job begins."""
    if _Journal.descriptor is not None:
        os.ftruncate(_Journal.descriptor, 0)


def note(text: str) -> None:
    """Say what is about to be launched."""
    if _Journal.descriptor is not None:
        data = text.encode()
        os.pwrite(_Journal.descriptor, _RUNNING + f"{len(data)}\n".encode() + data, 0)


def done() -> None:
    """Say that the launch returned, raised or was given up."""
    if _Journal.descriptor is not None:
        os.pwrite(_Journal.descriptor, _RETURNED, 0)


def read(path: str | Path) -> Entry | None:
    """The last note of a journal; None if nothing whole was noted."""
    try:
        data = Path(path).read_bytes()
        since = os.stat(path).st_mtime
    except FileNotFoundError:
        return None
    head, newline, rest = data.partition(b"\n")
    length = head[1:]
    if not newline or not length.isdigit() or len(rest) < int(length):
        return None
    return Entry(rest[: int(length)].decode(errors="replace"), head[:1] == _RUNNING, since)
