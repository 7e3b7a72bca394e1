"""A command line that cannot be parsed, in words that name the value and what to write instead."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from harness.errors import nearest

KINDS = {"int": "a whole number", "float": "a number"}
"""What to give, by the beginning of the name that pydantic, which typer validates with, has for the mistake."""


def wrong_use(error: Any, arguments: Sequence[str], commands: Collection[str]) -> str:
    """One line for an error of typer's parser. arguments: the command line; commands: what it may begin with."""
    command = f"harness {arguments[0]}" if arguments and arguments[0] in commands else "harness"
    message = _option(error) or _value(error) or error.format_message().rstrip(".")
    return f"{message} ({command} --help shows what there is)"


def _option(error: Any) -> str:
    """An option that there is not; "" for other errors."""
    if not hasattr(error, "possibilities"):
        return ""
    known = [name.lstrip("-") for item in error.ctx.command.params for name in item.opts if name[:2] == "--"]
    hint = nearest(error.option_name.lstrip("-"), known).replace("mean '", "mean '--")
    return f"there is no option {error.option_name}{f'; {hint.strip()}' if hint else ''}"


def _value(error: Any) -> str:
    """A value that an option does not take; "" for other errors."""
    found = getattr(error.__context__, "errors", None)
    if found is None or getattr(error, "param", None) is None:
        return ""
    first = found()[0]
    kind = KINDS.get(first["type"].partition("_")[0])
    *_, words = error.message.removeprefix("Value error, ").rstrip(".").partition(" is not one of ")
    wanted = f"give {kind}" if kind else f"choose from {words}" if words else error.message
    return f"{max(error.param.opts, key=len)} {first['input']}: {wanted}"
