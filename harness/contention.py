"""How long a thread was kept waiting by other programs, so that a busy machine makes no right kernel look hung.

Linux counts, for every thread, the time that it was ready to run and no processor was free (the run delay of
``/proc/PID/schedstat``, Documentation/scheduler/sched-stats). A sleeping or deadlocked thread has none, and a
spinning one no more than others took from it: a limit that leaves this time out still ends both.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path


def withheld(process: int | None = None, thread: int | None = None) -> float:
    """Seconds that a thread waited for a processor since it began; 0 where the system does not say.

    process: its id, by default this one; thread: its native id, by default the first thread of the process.
    """
    own = Path("/proc") / str(process or os.getpid())
    place = own / "task" / str(thread) if thread is not None else own
    try:
        return int((place / "schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Allowance:
    """Seconds that a thread, by default the calling one, may take from now on; what others withhold does not count."""

    def __init__(self, seconds: float) -> None:
        self._thread = threading.get_native_id()
        self._due = time.monotonic() + seconds - withheld(thread=self._thread)

    def left(self) -> float:
        """Seconds that are left; negative once they are over."""
        return self._due + withheld(thread=self._thread) - time.monotonic()
