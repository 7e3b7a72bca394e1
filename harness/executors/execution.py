"""Runs a function under test and says what came of it."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from .. import interrupt
from ..errors import HarnessError, Unsupported, nearest, words_of
from ..memory import Block
from .allocation import GuardedAllocation
from .capture import captured
from .faults import Fault, NotSimulated, StepLimit
from .origin import locate
from .state import users
from .watchdog import Expired, time_limit

if TYPE_CHECKING:
    from .watch import Watch

FILLS = ("nan", "+large", "-large")
Level = Literal["fast", "bitwise"]
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
    findings: list[Fault] = field(default_factory=list)
    """What the CPU executor saw kernels do wrong, the first of each kind, line and argument. None of it stops
    a kernel, except for an access outside all storage, which ends in a `MemoryFault` as well."""
    configs: dict[str, list[str]] = field(default_factory=dict)
    """By name, the configurations of the autotuned kernels it launched on the CPU, in order: each is a kernel
    of its own, which ``execute(..., configs={name: number})`` runs."""

    def reason(self) -> str:
        """Why it declined."""
        assert self.error is not None
        return words_of(self.error) or type(self.error).__name__

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
    level: Level = "fast",
    configs: Mapping[str, int] | None = None,
) -> Execution:
    """Call ``fn(*args, **kwargs)`` with its allocations guarded, its output captured and its time limited.

    ``fill`` ("nan", "+large", "-large") is what its own allocations hold before it writes them, what lies
    around them, and on the CPU what a masked load without ``other`` reads. On ``device="cpu"`` every Triton
    launch runs on the CPU; on a CUDA device kernels run compiled and the call ends when the device is idle.
    ``level`` says how closely the CPU follows the device: "fast", or "bitwise" (`profile.Profile`).
    ``configs`` chooses configurations of autotuned kernels on the CPU, by kernel name, out of those that
    `Execution.configs` lists.

    An exception of ``fn`` ends up in the result. Unsupported or NotImplementedError before the first launch
    means that it declined; so does, at any time, a construct that the CPU executor lacks.
    """
    kind = torch.device(device).type
    if kind not in ("cpu", "cuda"):
        raise HarnessError(
            f"device {device!r} is neither the CPU nor CUDA: write device='cpu' or device='cuda'"
        )
    ready()
    result = Execution("returned")
    with (
        captured(descriptors=kind == "cuda") as printed,
        users(),
        _launches(kind, fill, level, configs) as (launches, watch),
    ):
        if watch is not None:
            watch.given((*args, *(kwargs or {}).values()))
        allocation = GuardedAllocation(fill, watch)
        try:
            with time_limit(timeout), allocation:
                result.value = fn(*args, **(kwargs or {}))
                if kind == "cuda":
                    _wait(torch.device(device))
        except Expired as expired:
            result.outcome = "hung"
            result.error = TimeoutError(f"no result after {timeout} s").with_traceback(expired.__traceback__)
        except StepLimit as error:
            result.outcome = "hung"
            result.error = TimeoutError(str(error)).with_traceback(error.__traceback__)
        except (Unsupported, NotImplementedError) as error:
            declined = isinstance(error, NotSimulated) or launches() == 0
            result.outcome, result.error = "declined" if declined else "raised", error
        # A function may raise GeneratorExit or SystemExit, or a kind of its own.
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and interrupt.asked():
                raise
            result.outcome, result.error = "raised", error
        result.launches = launches()
        if watch is not None:
            result.findings = watch.findings(result.value, allocation.blocks)
            result.configs = watch.configs
    result.blocks, result.printed = allocation.blocks, printed.text
    return result


@functools.cache
def ready() -> None:
    """Have torch import, outside any time limit, the many modules that its first intercepted call needs."""
    with GuardedAllocation("nan"):
        torch.empty(1)


@contextlib.contextmanager
def cpu(fill: str = "nan", *, level: Level = "fast") -> Iterator[None]:
    """Every Triton launch of the process runs on the CPU: ``with harness.cpu(): kernel[grid](...)``.

    Tensors are CPU tensors; kernels may have been decorated at any time and in any way. ``fill`` is what a
    masked load without ``other`` reads; ``level`` is how closely the CPU follows the device.
    """
    if fill not in FILLS:
        raise HarnessError(f"cpu(fill={fill!r}): {nearest(fill, FILLS)}choose from {', '.join(FILLS)}")
    if level not in get_args(Level):
        raise HarnessError(f"cpu(level={level!r}): choose from {', '.join(get_args(Level))}")
    from .interpreter import interpreter
    from .profile import PROFILES

    with interpreter().session(fill, PROFILES[level]):
        yield


@contextlib.contextmanager
def _launches(
    kind: str, fill: str, level: Level, configs: Mapping[str, int] | None
) -> Iterator[tuple[Callable[[], int], Watch | None]]:
    """Send launches where they belong: (how many there were, who watches the memory).

    Without Triton there are none.
    """
    try:
        if kind == "cpu":
            from .interpreter import interpreter
            from .profile import PROFILES
            from .watch import Watch
        else:
            from .device import counted
    except ImportError as error:
        if importlib.util.find_spec("triton") is not None:
            raise NotSimulated(f"this version of Triton lacks what the executor needs: {error}") from error
        yield lambda: 0, None
        return
    if kind == "cpu":
        with interpreter().session(fill, PROFILES[level], configs) as session:
            yield lambda: session.launches, Watch(session.memory, session.findings, session.configs)
    else:
        with counted() as count:
            yield count, None


def _wait(device: torch.device) -> None:
    """Until the device is idle; the time limit reaches the wait for the current stream."""
    event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    while not event.query():
        time.sleep(0.0001)
    torch.cuda.synchronize(device)


def lost() -> bool:
    """Whether a kernel's fault broke the CUDA context of this process: every later call fails then."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
