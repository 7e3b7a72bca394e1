"""A time limit on a function, which also ends an endless loop of a kernel on the CPU."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from harness.contention import Allowance

RETRY = 0.25
"""Seconds after which the interruption is repeated, should the function have caught it."""

GRACE = 60.0
"""Seconds for which an import, which would leave half a module behind, is not interrupted."""


class Expired(BaseException):
    """Raised inside the function when its time is over; no ``except Exception`` catches it."""


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `Expired` in the block once it has run for ``seconds``; None sets no limit.

    What other programs kept the thread waiting for a processor does not count (harness/contention.py).
    In the main thread by SIGALRM, elsewhere by an exception set from another thread; either reaches Python
    code and interruptible waits, not a single long call into C. An import that the function has begun may end
    first (`GRACE`).
    """
    if seconds is None:
        yield
        return
    with _quiet(), _limited(seconds):
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """An interruption that falls into a destructor is dropped by Python, and comes again: no word of it."""
    reported = sys.unraisablehook

    def report(unraisable: Any) -> None:
        if unraisable.exc_type is not Expired:
            reported(unraisable)

    sys.unraisablehook = report
    try:
        yield
    finally:
        sys.unraisablehook = reported


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    if threading.current_thread() is threading.main_thread():
        with _by_signal(seconds):
            yield
    else:
        with _by_thread(seconds):
            yield


@contextlib.contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    armed = True
    started, allowance = time.monotonic(), Allowance(seconds)

    def expire(signum: int, frame: FrameType | None) -> None:
        if armed and _over(allowance, frame):
            raise Expired

    handler = signal.signal(signal.SIGALRM, expire)
    remaining, interval = signal.setitimer(signal.ITIMER_REAL, seconds, RETRY)
    try:
        try:
            yield
        finally:
            armed = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if remaining:
            left = max(0.001, remaining - (time.monotonic() - started))
            signal.setitimer(signal.ITIMER_REAL, left, interval)


@contextlib.contextmanager
def _by_thread(seconds: float) -> Iterator[None]:
    ident, allowance = threading.get_ident(), Allowance(seconds)
    target = ctypes.c_ulong(ident)
    done, lock, thrown = threading.Event(), threading.Lock(), threading.Event()
    throw = ctypes.pythonapi.PyThreadState_SetAsyncExc

    def watch() -> None:
        wait = seconds
        while not done.wait(wait):
            with lock:
                frame = sys._current_frames().get(ident)
                if not done.is_set() and _over(allowance, frame):
                    thrown.set()
                    throw(target, ctypes.py_object(Expired))
            wait = RETRY

    watcher = threading.Thread(target=watch, name="harness-time-limit", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        with contextlib.suppress(Expired), lock:  # one that was on its way arrives here
            done.set()
        with lock:
            done.set()
        if thrown.is_set():
            _consume(target)
        watcher.join()


def _consume(target: ctypes.c_ulong) -> None:
    """Have no interruption pending in this thread.

    Taking one back, by setting none, leaves the interpreter looking for it for good: CPython 3.11 then never
    gets past the first instruction of a function that is traced.
    """
    with contextlib.suppress(Expired):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(target, ctypes.py_object(Expired))
        while True:
            pass


def _over(allowance: Allowance, frame: FrameType | None) -> bool:
    """Whether the time of a thread is over; within an import, for `GRACE` too."""
    left = allowance.left()
    return left <= 0 and (left < -GRACE or not _importing(frame))


def _importing(frame: FrameType | None) -> bool:
    """Whether a thread is within an import."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
