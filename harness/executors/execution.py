"""Runs a function under test and says what came of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from ..errors import HarnessError, Unsupported
from ..memory import Block
from .allocation import GuardedAllocation
from .capture import captured
from .faults import NotSimulated
from .origin import locate
from .watchdog import Expired, time_limit

Outcome = Literal["returned", "raised", "declined", "hung"]


@dataclass
class Execution:
    """What one call did."""

    outcome: Outcome
    value: Any = None
    """What the function returned."""
    error: BaseException | None = None
    """What it raised; a TimeoutError where it hung. `where` says at which line."""
    blocks: list[Block] = field(default_factory=list)
    """The tensors it allocated, in order, guarded and filled."""
    launches: int = 0
    """Triton launches, autotuning's trials included on a device."""
    printed: str = ""
    """stdout and stderr, and what kernels printed."""

    def where(self) -> str:
        """``file:line: Type: message`` of the error, at the user's own line; empty without one."""
        return locate(self.error) if self.error is not None else ""


def execute(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    device: str = "cpu",
    fill: str = "nan",
    timeout: float | None = None,
) -> Execution:
    """Call ``fn(*args, **kwargs)`` with its allocations guarded, its output captured and its time limited.

    ``fill`` ("nan", "+large", "-large") is what its own allocations hold before it writes them, what lies
    around them, and on the CPU what a masked load without ``other`` reads. On ``device="cpu"`` every Triton
    launch runs on the CPU; on a CUDA device kernels run compiled and the call ends when the device is idle.

    An exception of ``fn`` ends up in the result. Unsupported or NotImplementedError before the first launch
    means that it declined; so does, at any time, a construct that the CPU executor lacks.
    """
    kind = torch.device(device).type
    if kind not in ("cpu", "cuda"):
        raise HarnessError(
            f"device {device!r} is neither the CPU nor CUDA: write device='cpu' or device='cuda'"
        )
    result = Execution("returned")
    with captured(descriptors=kind == "cuda") as printed, _launches(kind, fill) as (launches, know):
        know((*args, *(kwargs or {}).values()))
        allocation = GuardedAllocation(fill, know)
        try:
            with time_limit(timeout), allocation:
                result.value = fn(*args, **(kwargs or {}))
                if kind == "cuda":
                    _wait(torch.device(device))
        except Expired as expired:
            result.outcome = "hung"
            result.error = TimeoutError(f"no result after {timeout} s").with_traceback(expired.__traceback__)
        except (Unsupported, NotImplementedError) as error:
            declined = isinstance(error, NotSimulated) or launches() == 0
            result.outcome, result.error = "declined" if declined else "raised", error
        except (Exception, SystemExit) as error:
            result.outcome, result.error = "raised", error
        result.launches = launches()
    result.blocks, result.printed = allocation.blocks, printed.text
    return result


@contextlib.contextmanager
def cpu(fill: str = "nan") -> Iterator[None]:
    """Every Triton launch of the process runs on the CPU: ``with harness.cpu(): kernel[grid](...)``.

    Tensors are CPU tensors; kernels may have been decorated at any time and in any way. ``fill`` is what a
    masked load without ``other`` reads.
    """
    from .interpreter import interpreter

    with interpreter().session(fill):
        yield


@contextlib.contextmanager
def _launches(kind: str, fill: str) -> Iterator[tuple[Callable[[], int], Callable[[Any], None]]]:
    """Send launches where they belong: (how many there were, what to call with tensors they may reach).

    Without Triton there are none.
    """
    try:
        if kind == "cpu":
            from .interpreter import interpreter
        else:
            from .device import counted
    except ImportError:
        yield lambda: 0, lambda values: None
        return
    if kind == "cpu":
        with interpreter().session(fill) as session:
            yield lambda: session.launches, lambda values: session.memory.know(_tensors(values))
    else:
        with counted() as count:
            yield count, lambda values: None


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, Mapping):
        yield from _tensors(list(values.values()))
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)


def _wait(device: torch.device) -> None:
    """Until the device is idle; the time limit reaches the wait for the current stream."""
    event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    while not event.query():
        time.sleep(0.0001)
    torch.cuda.synchronize(device)
