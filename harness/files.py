"""Files that a user asks for: told before any work whether they can be written, and written all at once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from harness.errors import HarnessError


def check_file(path: Path, given: str) -> None:
    """Raises HarnessError where a file cannot be written, and leaves no trace. given: the words that name it."""
    if path.is_dir():
        raise HarnessError(f"{given}: this is a folder; name a file")
    if path.exists() and not path.is_file():
        if not os.access(path, os.W_OK):
            raise HarnessError(f"{given}: it cannot be written to; name another file")
        return
    _check_place(path.parent, given)


def check_folder(path: Path, names: Iterable[str], given: str) -> None:
    """Raises HarnessError where files of these names cannot be written to a folder, which need not exist."""
    if path.exists() and not path.is_dir():
        raise HarnessError(f"{given}: this is a file; name a folder")
    for name in names:
        if (path / name).is_dir():
            raise HarnessError(f"{given}: {str(path / name)!r} is a folder; name another place")
    _check_place(path, given)


def write(path: Path, data: bytes) -> None:
    """Write a file, making its folder; raises HarnessError. A file that was there is whole until then.

    A pipe or a device is written to, and so is what a link names.
    """
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_bytes(data)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        try:
            part.write_bytes(data)
            os.replace(part, path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise HarnessError(f"cannot write {str(path)!r}: {error.strerror}") from error


def _check_place(folder: Path, given: str) -> None:
    """Raises HarnessError where nothing can be written to a folder, or to where it would be made."""
    found = next((each for each in (folder, *folder.parents) if each.exists()), Path())
    if not found.is_dir():
        raise HarnessError(f"{given}: {str(found)!r} is no folder; name another place")
    try:
        with tempfile.TemporaryFile(dir=found):
            pass
    except OSError as error:
        raise HarnessError(
            f"{given}: nothing can be written in {str(found)!r} ({error.strerror}); name another place"
        ) from error
