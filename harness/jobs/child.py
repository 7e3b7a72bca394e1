"""The child's side: jobs come in on one descriptor, events go out on another, and the journal is kept.

Standard output and error of the child are a file, so that whatever a kernel prints, from Python or from C,
mixes with nothing; after a crash its last lines say where.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import os
import signal
import sys
import traceback
from collections.abc import Callable

import msgspec

from harness import interrupt, journal, records
from harness.errors import HarnessError
from harness.jobs.messages import Done, Event, Failed, Job

PR_SET_PDEATHSIG = 1
"""Option of prctl(2): the signal a process gets when its parent dies."""


def main(jobs: int, events: int, notes: str) -> None:
    """Do jobs until there are no more. jobs, events: descriptors; notes: path of the journal."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    journal.open(notes)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with (
        # a descriptor of its own: 2 is redirected while a kernel runs on a device
        open(os.dup(2), "wb") as log,
        open(jobs, "rb") as lines,
        contextlib.suppress(KeyboardInterrupt),
        interrupt.remembered(),
    ):
        faulthandler.enable(log)
        faulthandler.register(signal.SIGUSR1, log)
        for line in lines:
            interrupt.forget()
            journal.clear()
            last = _done(msgspec.json.decode(line, type=Job), functools.partial(_send, events))
            lost = _gpu_lost()
            if lost:
                last = (
                    Failed(kind="lost", message=last.message)
                    if isinstance(last, Failed)
                    else Done(leaving=True)
                )
            _send(events, last)
            if lost:
                return


def _done(job: Job, emit: Callable[[Event], None]) -> Event:
    """Do a job; its last event."""
    try:
        from harness.jobs.perform import perform  # loads torch, which may fail

        perform(job, emit)
    except HarnessError as error:
        return Failed(kind="usage", message=str(error))
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return Failed(kind="internal", message=message, traceback=traceback.format_exc())
    return Done()


def _gpu_lost() -> bool:
    """Whether nothing more can be judged here; torch may not even be loaded."""
    if "torch" not in sys.modules:
        return False
    from harness.executors import lost

    return lost()


def _send(descriptor: int, event: Event) -> None:
    """Write one line whole: an interrupt waits until it is out."""
    data = records.dumps(event) + b"\n"
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
