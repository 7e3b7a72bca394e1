"""The console script: runs a command and turns whatever ends it into an exit status and one clear line."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence

import typer

from harness.cli.commands import USAGE, app
from harness.cli.usage import wrong_use
from harness.errors import HarnessError
from harness.jobs import InternalError

INTERRUPTED = 130
"""Exit status after a Ctrl-C that left nothing to say."""

CLOSED_PIPE = 128 + signal.SIGPIPE
"""Exit status where nobody reads any more, as a shell tells it of other tools."""

_OUTPUT = "standard output or a temporary file"
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

_CLICK_ERRORS: tuple[type[Exception], ...] = tuple(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ in ("UsageError", "ClickException")
)
"""The errors of a command line that cannot be parsed; typer brings click along under one name or another."""


def main() -> None:
    """Run the command that the process was started with."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a verdict holds more than ASCII, and file names anything
            stream.reconfigure(errors="backslashreplace")
    status = run(sys.argv[1:])
    try:
        sys.stderr.flush()
    except OSError:  # nobody reads it
        _silence(2)
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run a command; its exit status."""
    try:
        status = app(list(arguments), prog_name="harness", standalone_mode=False)
        if status == INTERRUPTED:  # what typer makes of a KeyboardInterrupt
            _say("interrupted")
        return _flushed(status if isinstance(status, int) else 0)
    except HarnessError as error:
        return _flushed(_complain(str(error)))
    except _CLICK_ERRORS as error:
        names = [item.name or item.callback.__name__ for item in app.registered_commands if item.callback]
        return _complain(wrong_use(error, arguments, names))
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted")
        return INTERRUPTED
    except InternalError as error:
        return _unexpected(str(error), error.traceback, "--debug" in arguments)
    except (SystemExit, Exception) as error:
        # typer makes a SystemExit of a closed pipe
        cause = error.__context__ if isinstance(error, SystemExit) else error
        if isinstance(cause, BrokenPipeError):
            return _silenced(CLOSED_PIPE)
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            return _silenced(_complain(f"cannot write {_OUTPUT}: {error.strerror}"))
        return _unexpected(f"{type(error).__name__}: {error}", traceback.format_exc(), "--debug" in arguments)


def _flushed(status: int) -> int:
    """The status, unless standard output does not take what was printed."""
    if sys.stdout is None:
        return status
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _silenced(CLOSED_PIPE)
    except OSError as error:
        return _silenced(_complain(f"cannot write {_OUTPUT}: {error.strerror}"))
    return status


def _silenced(status: int) -> int:
    """The status; what is left to print goes nowhere."""
    _silence(1)
    return status


def _silence(stream: int) -> None:
    """Let a file descriptor lead nowhere, since Python tries to print what is left again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _say(line: str) -> None:
    _print_error(f"harness: {line}\n")


def _print_error(text: str) -> None:
    try:
        print(text, file=sys.stderr, end="", flush=True)
    except OSError:  # nobody reads it
        _silence(2)


def _complain(message: str) -> int:
    _say(message)
    return USAGE


def _unexpected(message: str, trace: str, debug: bool) -> int:
    """Say an error of ours in one line, and where its traceback is."""
    line = message.partition("\n")[0]
    if debug:
        _print_error(trace)
        return _complain(f"internal error: {line}")
    if not trace:
        return _complain(f"internal error: {line}")
    with tempfile.NamedTemporaryFile(prefix="harness-", suffix=".txt", delete=False) as file:
        file.write(trace.encode(errors="backslashreplace"))
    return _complain(f"internal error: {line} (traceback in {file.name}; --debug shows it)")
