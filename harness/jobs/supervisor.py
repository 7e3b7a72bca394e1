"""The parent's side: a child process that is started when needed, watched, and named when it dies.

The child says in a journal which case it launches (harness/journal.py). A launch that neither returns nor
can be interrupted is known by its age there; the child first writes down where it is, then is killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import msgspec

from harness import journal, records
from harness.contention import withheld
from harness.errors import HarnessError
from harness.jobs.messages import Done, Event, Failed, Job, UnderTest
from harness.jobs.runner import Died, InternalError, Watch

POLL = 0.2
"""Seconds between two looks at a silent child."""

GRACE = 5.0
"""Seconds that the child has for everything else than launches of one case."""

SILENCE = 2
"""Times as long, without a new case, until a device counts as hung: a wait for it cannot be interrupted."""

_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$', re.MULTILINE)


class Supervised:
    """Runs jobs in a child process, one after the other; a context manager that ends the child.

    The first Ctrl-C is passed to the child, whose search ends with what it has; the second kills it.
    """

    def __init__(self, grace: float = GRACE) -> None:
        self.grace = grace
        self.interrupts = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._withheld = (0.0, 0.0)
        self._folder = tempfile.TemporaryDirectory(prefix="harness-")
        self._journal = Path(self._folder.name) / "journal"
        self._log = Path(self._folder.name) / "log"

    def __enter__(self) -> Supervised:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._end()
        self._folder.cleanup()

    @property
    def interrupted(self) -> bool:
        """Whether a user asked for the end."""
        return self.interrupts > 0

    def run(self, job: Job, watch: Watch) -> None:
        """See :class:`harness.jobs.Runner`."""
        with self._passing_interrupts():
            if self._child is None or self._child.poll() is not None:
                self._start()
            with contextlib.suppress(BrokenPipeError):
                os.write(self._jobs, records.dumps(job) + b"\n")
            last = self._follow(job, watch)
        if isinstance(last, Failed):
            self._raise(last)
        if isinstance(last, Done) and last.leaving:
            self._end()

    def renew(self) -> bool:
        """See :class:`harness.jobs.Runner`."""
        self._end()
        return True

    def _start(self) -> None:
        """Start a child that finds modules where this process does."""
        self._end()
        self._journal.unlink(missing_ok=True)
        jobs, self._jobs = os.pipe()
        self._events, events = os.pipe()
        code = f"import sys; sys.path[:] = {sys.path!r}; from harness.jobs import child; child.main"
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-c", f"{code}({jobs}, {events}, {str(self._journal)!r})"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(jobs, events),
                start_new_session=True,
            )
        os.close(jobs)
        os.close(events)

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(10)
            os.close(self._jobs)
            os.close(self._events)
            self._child = None

    def _follow(self, job: Job, watch: Watch) -> Event:
        """Pass on events until the job's last; raises Died."""
        rest, started = b"", time.time() - 0.01  # the clock of files is a little late
        while True:
            if not select.select([self._events], [], [], POLL)[0]:
                self._look_for_hang(job, started)
                continue
            data = os.read(self._events, 1 << 16)
            if not data:
                raise self._death(started)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                event = msgspec.json.decode(line, type=Event)
                if isinstance(event, Done | Failed):
                    return event
                watch(event)

    def _look_for_hang(self, job: Job, started: float) -> None:
        """End a child whose launch is overdue; raises Died."""
        entry = journal.read(self._journal)
        under = getattr(job, "under", UnderTest(target=""))
        if entry is None or entry.since < started:
            return
        age, limit = time.time() - entry.since - self._kept_waiting(entry), under.timeout + self.grace
        if entry.running and age > limit:
            how = f"did not return within {under.timeout:g} s and had to be killed"
        elif under.device != "cpu" and age > SILENCE * limit:
            how = f"the device does not answer {age:.0f} s after a launch was given up or returned"
        else:
            return
        assert self._child is not None
        self._child.send_signal(signal.SIGUSR1)
        time.sleep(POLL)
        self._end()
        raise Died("hangs", how + self._where(), entry.text)

    def _kept_waiting(self, entry: journal.Entry) -> float:
        """Seconds that other programs kept the child from a processor since an entry was first seen."""
        assert self._child is not None
        now = withheld(self._child.pid)
        if self._withheld[0] != entry.since:
            self._withheld = (entry.since, now)
        return now - self._withheld[1]

    def _death(self, started: float) -> Died:
        """How the child ended, and which case it was launching."""
        assert self._child is not None
        status = self._child.wait()
        entry = journal.read(self._journal)
        if entry is not None and entry.since < started:
            entry = None
        if status < 0:
            name = signal.Signals(-status).name
            hint = " (out of memory?)" if name == "SIGKILL" and not self.interrupted else ""
            how = f"the process was killed by {name}{hint}"
        else:
            how = f"the process exited with status {status}"
            if status == 1:  # of an exception, which is the last line of a traceback
                how += f": {self._log.read_text(errors='replace').rstrip().rpartition(chr(10))[2]}"
        if entry is not None and not entry.running:
            how += " after a launch had returned"
        return Died("crashes", how + self._where(), entry.text if entry is not None else "", self.interrupted)

    def _where(self) -> str:
        """The innermost Python frame that the child's fault handler wrote, as ``, at file:line in name``."""
        _, marker, main = self._log.read_text(errors="replace").rpartition("(most recent call first):")
        frame = _FRAME.search(main) if marker else None
        if frame is None:
            return ""
        file = os.path.relpath(frame["file"]) if os.path.exists(frame["file"]) else frame["file"]
        return f", at {file}:{frame['line']} in {frame['name']}"

    def _raise(self, failed: Failed) -> None:
        if failed.kind == "usage":
            raise HarnessError(failed.message)
        if failed.kind == "lost":
            entry = journal.read(self._journal)
            self._end()
            raise Died("crashes", f"the CUDA context broke: {failed.message}", entry.text if entry else "")
        raise InternalError(failed.message, failed.traceback)

    @contextlib.contextmanager
    def _passing_interrupts(self) -> Iterator[None]:
        """Pass Ctrl-C to the child instead of raising here, where it would lose events."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def passing(number: int, frame: object) -> None:
            self.interrupts += 1
            if self._child is not None:
                self._child.send_signal(signal.SIGINT if self.interrupts == 1 else signal.SIGKILL)

        before = signal.signal(signal.SIGINT, passing)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
