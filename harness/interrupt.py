"""Ctrl-C, raised once more where it was lost.

An exception raised in a callback of the garbage collector is ignored, and Hypothesis has one.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


class _Ask:
    """Whether the user has pressed Ctrl-C, and whether that is watched."""

    pending = False
    watched = False


@contextlib.contextmanager
def remembered() -> Iterator[None]:
    """Have `again` know of a SIGINT within the block; nothing where another handler than Python's is in force."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    forget()
    signal.signal(signal.SIGINT, _ask)
    _Ask.watched = True
    try:
        yield
    finally:
        _Ask.watched = False
        signal.signal(signal.SIGINT, signal.default_int_handler)
        forget()


def again() -> None:
    """Raise KeyboardInterrupt if it was asked for: whoever still calls this has not seen it."""
    if _Ask.pending:
        raise KeyboardInterrupt


def asked() -> bool:
    """Whether a KeyboardInterrupt that was caught is the user's: outside `remembered` nothing tells."""
    return _Ask.pending or not _Ask.watched


def forget() -> None:
    """Nothing is asked for any more."""
    _Ask.pending = False


def _ask(number: int, frame: object) -> None:
    _Ask.pending = True
    raise KeyboardInterrupt
