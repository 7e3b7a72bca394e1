"""Progress on standard error: a moving bar on a terminal, otherwise a line now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from harness.jobs.messages import Event, Found, Moved

INTERVAL = 10.0
"""Seconds between two lines where there is no terminal."""


class View:
    """Shows what a search says. about: what is judged; place: how far a longer piece of work is."""

    about = ""
    place = ""

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if isinstance(event, Moved):
            self.moved(event)
            if event.found:
                self.say(f"found: {event.found}; reducing it")
        elif isinstance(event, Found):
            first = event.finding.message.partition("\n")[0]
            self.say(f"found: {event.finding.check} ({event.format}): {first}")

    def moved(self, event: Moved) -> None:
        """Show where a search stands."""

    def say(self, line: str) -> None:
        """Show a line that stays."""
        with contextlib.suppress(OSError):  # nobody may read it
            print(f"harness: {line}", file=sys.stderr, flush=True)

    def _words(self, event: Moved) -> str:
        share = f" ({event.share:.0%})" if event.share is not None else ""
        count = f"{event.situations} situations in {event.launches} launches{share}"
        words = f"{count}, largest ratio {float(event.largest_ratio):.3g}"
        return f"{words}, {event.findings} findings" if event.findings else words

    def _title(self, event: Moved) -> str:
        return " ".join(word for word in (self.place, self.about, event.format, event.phase) if word)


class Lines(View):
    """A line every INTERVAL seconds."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def moved(self, event: Moved) -> None:
        """See :class:`View`."""
        if time.monotonic() - self._last >= INTERVAL:
            self._last = time.monotonic()
            self.say(f"{self._title(event)}: {self._words(event)}")


class Bar(View):
    """A bar that shows the share of the budget spent, or only movement where the end is a time."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task("starting", total=None, words="")

    def moved(self, event: Moved) -> None:
        """See :class:`View`."""
        self._progress.update(
            self._task,
            description=self._title(event),
            completed=event.share or 0.0,
            total=None if event.share is None else 1.0,
            words=self._words(event),
        )

    def say(self, line: str) -> None:
        """See :class:`View`."""
        self._progress.console.print(f"harness: {line}", markup=False, highlight=False)


@contextmanager
def view(stream: TextIO | None = None) -> Iterator[View]:
    """What suits the stream (standard error): it is cleared when the block is left."""
    console = Console(file=stream, stderr=stream is None)
    if not console.is_terminal:
        yield Lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(20),
        TextColumn("{task.fields[words]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(progress)
