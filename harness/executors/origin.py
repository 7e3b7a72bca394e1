"""Where an error came from, in the user's own code."""

from __future__ import annotations

import importlib.util
import os
import sysconfig
import traceback
from pathlib import Path

from ..errors import words_of


def locate(error: BaseException, words: str | None = None) -> str:
    """``file:line: Type: message``, at the innermost line that is not ours, a library's or Python's.

    words: the message, if not the error's own.
    """
    words = words_of(error) if words is None else words
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _foreign(frame.filename)]
    message = f"{type(error).__name__}: {words}" if words else type(error).__name__
    if not frames:
        return message
    return f"{short(frames[-1].filename)}:{frames[-1].lineno}: {message}"


def _foreign(filename: str) -> bool:
    """Ours, torch's, Triton's, NumPy's or Python's; other packages may hold the kernel under test."""
    if filename.startswith("<") or filename.startswith(_LIBRARIES):
        return True
    return filename.startswith(_PYTHON) and not filename.startswith(_INSTALLED)


def short(filename: str) -> str:
    """A path as seen from the current folder."""
    path, here = Path(filename), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else filename


def _folder(path: Path | str) -> str:
    return str(path) + os.sep


def _package(name: str) -> list[str]:
    spec = importlib.util.find_spec(name)
    return [_folder(Path(spec.origin).parent)] if spec is not None and spec.origin else []


_paths = sysconfig.get_paths()
_LIBRARIES = (
    _folder(Path(__file__).resolve().parents[1]),
    *(folder for name in ("torch", "triton", "numpy") for folder in _package(name)),
)
_PYTHON = _folder(_paths["stdlib"])
_INSTALLED = (_folder(_paths["purelib"]), _folder(_paths["platlib"]))
