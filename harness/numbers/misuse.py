"""What to write instead of a function that does not know the numbers of a definition.

Python's, torch's and NumPy's functions end in an error of theirs, which says nothing of this algebra.
"""

from __future__ import annotations

import linecache
import re
import traceback

from harness import numbers
from harness.numbers.number import BRANCH, Number

_OTHERS = {
    "abs": "absolute",
    "max": "amax",
    "min": "amin",
    "cat": "concatenate",
    "bmm": "matmul",
    "mm": "matmul",
}
"""Functions of other libraries whose names differ from ours."""

_AMBIGUOUS = re.compile(r"Boolean value of Tensor|truth value of an array")
_OF_ANOTHER = re.compile(r"\b(?:torch|math|np|numpy|F)\.(?:[a-z]+\.)*(\w+)\(")
_FOREIGN = re.compile(r"\bNumber\b|^a number of a definition is no float")


def instead(error: Exception) -> str:
    """What the message of an error of a definition should say; its own where that is clear."""
    message = str(error)
    if _AMBIGUOUS.search(message):
        return BRANCH
    name = _called(error, message)
    if not name:
        return message
    name = _OTHERS.get(name, name)
    if name in numbers.__all__ and callable(getattr(numbers, name)):
        return f"{message}; use harness.numbers.{name}"
    return f"{message}; a definition is written with the functions of harness.numbers"


def _called(error: Exception, message: str) -> str:
    """The name of the function or method of another library that was given a number; "" if it is not that."""
    if isinstance(error, AttributeError) and isinstance(error.obj, Number):
        return str(error.name)
    if not _FOREIGN.search(message):
        return ""
    if message.startswith("bad operand type for abs()"):
        return "abs"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        line = linecache.getline(frame.filename, frame.lineno or 0)
        found = _OF_ANOTHER.search(line)
        if found is not None:
            return found[1]
    return ""
