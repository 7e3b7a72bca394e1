"""The two exceptions of the public interface, and the hint for a mistyped name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 400
"""Characters of another's message that are shown."""


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
    close = difflib.get_close_matches(str(name), [str(known) for known in names], n=5)
    # Of several the best of the nearest length: 'tf33' has more in common with 'tf32x3' than with 'tf32'.
    return (
        f"did you mean {min(close, key=lambda known: abs(len(known) - len(str(name))))!r}? " if close else ""
    )


def words_of(error: BaseException) -> str:
    """The message of an exception, without the middle of a long one; asking for it may itself raise."""
    try:
        words = str(error)
    except Exception as another:
        return f"its message raises {type(another).__name__}"
    return words if len(words) <= LONGEST else f"{words[: LONGEST // 2]} … {words[-LONGEST // 2 :]}"
