"""Claims and domains as they are written on a command line, read into dicts.

    depth=sequential,dot=tf32            roundings=shifted,total            ulp={"exp": 3}
    {"depth": "sequential"}              {'dot': 'tf32'}  (as a verdict prints it)

Values are JSON or Python literals, else words. A piece without ``=`` continues the value before it as a
list: ``ndim=1,2`` is ``[1, 2]``.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from harness.errors import HarnessError

_PAIR = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)", re.DOTALL)
_OPENING, _CLOSING, _QUOTES = "([{", ")]}", "\"'"


def settings(texts: Iterable[str], option: str) -> dict[str, Any] | None:
    """All the settings given to an option, merged; None when it was not given.

    Raises HarnessError for a text of neither form, and for a name given twice.
    """
    merged: dict[str, Any] = {}
    given = list(texts)
    for text in given:
        for name, item in _read(text, option).items():
            if name in merged:
                raise HarnessError(f"{option} gives {name!r} twice; give it once")
            merged[name] = item
    return merged if given else None


def names(texts: Iterable[str]) -> tuple[str, ...]:
    """Names given one by one or separated by commas."""
    return tuple(name for text in texts for name in text.replace(",", " ").split())


def element(text: str) -> tuple[str, tuple[int, ...] | None]:
    """``i,j`` or ``output:i,j`` as (output, element); ``worst`` leaves the element open."""
    output, _, indices = text.rpartition(":")
    if indices.strip() == "worst":
        return output, None
    try:
        return output, tuple(int(index) for index in indices.replace(",", " ").split())
    except ValueError as error:
        raise HarnessError(
            f"--explain-bound {text!r}: give an element as i,j or output:i,j, or 'worst'"
        ) from error


def _read(text: str, option: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        whole = _value(text)
        if isinstance(whole, dict):
            return whole
        raise HarnessError(f'{option} {text!r} is no JSON object; write {{"key": value}} or key=value')
    found: dict[str, Any] = {}
    name = ""
    for piece in _pieces(text):
        pair = _PAIR.fullmatch(piece)
        if pair is None and not name:
            raise HarnessError(f"{option} {text!r} names no setting; write key=value, or a JSON object")
        if pair is not None:
            name = pair[1]
            if name in found:
                raise HarnessError(f"{option} gives {name!r} twice; give it once")
            found[name] = _value(pair[2])
        else:
            earlier = found[name]
            found[name] = [*(earlier if isinstance(earlier, list) else [earlier]), _value(piece)]
    return found


def _pieces(text: str) -> Iterator[str]:
    """The parts between commas outside brackets and quotes."""
    depth, quote, start = 0, "", 0
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in _QUOTES:
            quote = sign
        elif sign in _OPENING:
            depth += 1
        elif sign in _CLOSING:
            depth -= 1
        elif sign == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    if text[start:].strip() or start == 0:
        yield text[start:]


def _value(text: str) -> Any:
    text = text.strip()
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
