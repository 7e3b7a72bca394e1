"""What a function prints, as text: Python's streams, and for a device the process's own descriptors too."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import sys
import tempfile
from collections.abc import Iterator


class _Stream(io.StringIO):
    """Stays open: what was printed is still there after a function closes its stdout."""

    def close(self) -> None:
        """Nothing; memory is freed with the object."""


class Printed:
    """Collects text; `text` is complete once the block of `captured` was left."""

    def __init__(self) -> None:
        self._stream = _Stream()
        self._device = ""

    @property
    def text(self) -> str:
        return self._stream.getvalue() + self._device


@contextlib.contextmanager
def captured(*, descriptors: bool) -> Iterator[Printed]:
    """Collect stdout and stderr; with ``descriptors``, what is written below Python too, as by a device."""
    printed = Printed()
    with contextlib.redirect_stdout(printed._stream), contextlib.redirect_stderr(printed._stream):
        if not descriptors:
            yield printed
            return
        with tempfile.TemporaryFile() as file, _redirected(file.fileno()):
            yield printed
            _flush()
            file.seek(0)
            printed._device = file.read().decode(errors="replace")


@contextlib.contextmanager
def _redirected(target: int) -> Iterator[None]:
    _flush()
    saved = [os.dup(1), os.dup(2)]
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        _flush()
        for descriptor, original in zip((1, 2), saved, strict=True):
            os.dup2(original, descriptor)
            os.close(original)


def _flush() -> None:
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            with contextlib.suppress(ValueError, OSError):
                stream.flush()
    ctypes.CDLL(None).fflush(None)
