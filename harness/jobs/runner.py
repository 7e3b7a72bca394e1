"""What runs a job, and how it may end: in this process, or (see supervisor.py) in one of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from harness import interrupt
from harness.jobs.messages import Event, Job

Watch = Callable[[Event], None]


class InternalError(Exception):
    """An error of the harness itself. traceback: its text, from whichever process it happened in."""

    def __init__(self, message: str, traceback: str) -> None:
        super().__init__(message)
        self.traceback = traceback


class Died(Exception):
    """The process of a job ended under it, or was ended because a launch did not return.

    check: "crashes" or "hangs"; case: JSON of the case that was being launched, "" if none was yet;
    interrupted: a user asked for the end.
    """

    def __init__(self, check: str, message: str, case: str = "", interrupted: bool = False) -> None:
        super().__init__(message)
        self.check = check
        self.case = case
        self.interrupted = interrupted


class Runner(Protocol):
    """Runs one job at a time. interrupted: a user asked for the end, so start nothing more."""

    @property
    def interrupted(self) -> bool: ...

    def run(self, job: Job, watch: Watch) -> None:
        """Do the job, telling ``watch`` every event.

        Raises HarnessError for a usage error, Died, or InternalError.
        """
        ...

    def renew(self) -> bool:
        """Give the next job a process in which nothing has been launched; whether this runner can."""
        ...


class Local:
    """Runs jobs in this process: for debuggers, and where no kernel is launched."""

    interrupted = False

    def run(self, job: Job, watch: Watch) -> None:
        """See :class:`Runner`."""
        from harness.jobs.perform import perform  # loads torch

        with interrupt.remembered():
            perform(job, watch)

    def renew(self) -> bool:
        """See :class:`Runner`."""
        return False
