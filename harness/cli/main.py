"""The console script: runs a command and turns whatever ends it into an exit status and one clear line."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence

import typer

from harness.cli.commands import USAGE, app
from harness.errors import HarnessError
from harness.jobs import InternalError

INTERRUPTED = 130
"""Exit status after a Ctrl-C that left nothing to say."""

_CLICK_ERRORS: tuple[type[Exception], ...] = tuple(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ in ("UsageError", "ClickException")
)
"""The errors of a command line that cannot be parsed; typer brings click along under one name or another."""


def main() -> None:
    """Run the command that the process was started with."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command; its exit status."""
    try:
        status = app(list(arguments), prog_name="harness", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except HarnessError as error:
        return _complain(str(error))
    except _CLICK_ERRORS as error:
        return _complain(f"{error.format_message()} (harness --help shows what there is)")  # type: ignore[attr-defined]
    except (KeyboardInterrupt, typer.Abort):
        print("harness: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):  # nobody reads any more; click turns the one into the other
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return USAGE
    except InternalError as error:
        return _unexpected(str(error), error.traceback, "--debug" in arguments)
    except Exception as error:
        return _unexpected(f"{type(error).__name__}: {error}", traceback.format_exc(), "--debug" in arguments)


def _complain(message: str) -> int:
    print(f"harness: {message}", file=sys.stderr)
    return USAGE


def _unexpected(message: str, trace: str, debug: bool) -> int:
    """Say an error of ours in one line, and where its traceback is."""
    line = message.partition("\n")[0]
    if debug:
        print(trace, file=sys.stderr, end="")
        return _complain(f"internal error: {line}")
    if not trace:
        return _complain(f"internal error: {line}")
    with tempfile.NamedTemporaryFile("w", prefix="harness-", suffix=".txt", delete=False) as file:
        file.write(trace)
    return _complain(f"internal error: {line} (traceback in {file.name}; --debug shows it)")
