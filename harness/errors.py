"""The two exceptions of the public interface, and the hint for a mistyped name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HarnessError(Exception):
    """The harness was used wrongly; the message shows the value and says what to write instead."""


class Unsupported(Exception):
    """Raised by a kernel under test, before any launch, to decline inputs it does not support.

    A declined case is counted and shown; it is neither a failure nor a pass.
    """


def nearest(name: object, names: Iterable[object]) -> str:
    """``"did you mean 'softmax'? "`` for the closest of ``names``, or ``""`` if none is close.

    The trailing blank lets a message continue: ``f"unknown {name!r}; {nearest(name, known)}known: …"``.
    """
    close = difflib.get_close_matches(str(name), [str(known) for known in names], n=1)
    return f"did you mean {close[0]!r}? " if close else ""
