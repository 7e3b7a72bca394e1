"""Sends every Triton launch of this process to the CPU while a session is open, and puts Triton back
afterwards.

However a kernel was decorated, its launch ends in ``JITFunction.run`` (or ``InterpretedFunction.run`` where
the module was imported under TRITON_INTERPRET=1), below ``triton.autotune`` and ``triton.heuristics``; a call
from kernel to kernel ends in ``__call__``. Those methods are replaced, along with the operators and methods
of ``tl.tensor``, which otherwise work in compiled code only. Nothing else of Triton is touched.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import operator
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from ..errors import HarnessError
from . import compat, constructs
from .builder import Builder
from .compat import core
from .context import Findings
from .faults import NotSimulated
from .language import Language
from .launch import Launcher
from .profile import H200, Profile
from .storage import Memory

_BINARY = (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod"),
    *("and", "or", "xor", "lshift", "rshift"),
    *("gt", "ge", "lt", "le", "eq", "ne"),
)


class Session:
    """What one execution may see and touch: its fill, its memory, its number of launches."""

    def __init__(self, fill: str, profile: Profile, configs: Mapping[str, int]) -> None:
        self.fill, self.profile = fill, profile
        self.wanted = configs
        """By the name of an autotuned kernel, which of its configurations to run; 0 where it is not named."""
        self.configs: dict[str, list[str]] = {}
        """The configurations of the autotuned kernels that were launched."""
        self.memory = Memory()
        self.findings = Findings()
        self.launches = 0
        self.tuned: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


class Interpreter:
    """The one interpreter of the process; sessions nest, the innermost counts."""

    def __init__(self) -> None:
        options = SimpleNamespace(
            debug=False,
            num_warps=4,
            sanitize_overflow=False,
            arch=None,
            default_dot_input_precision="tf32",
            allowed_dot_input_precisions=("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"),
            max_num_imprecise_acc_default=2**30,
            deprecated_fp8_dot_operand_dtypes=(),
            supported_fp8_dtypes=("fp8e4nv", "fp8e5"),
            instrumentation_mode="",
            backend_name="cpu",
        )
        self._sessions: list[Session] = []
        self._lock = threading.RLock()
        self._saved: list[tuple[Any, str, Any]] = []
        self.language = Language(Builder(H200, options, compat.min_dot_size))
        self.launcher = Launcher(self.language)
        self._patches = list(self._replacements())

    @contextlib.contextmanager
    def session(
        self, fill: str, profile: Profile = H200, configs: Mapping[str, int] | None = None
    ) -> Iterator[Session]:
        """Launches run here until the block is left; undefined lanes of a masked load hold ``fill``."""
        session = Session(fill, profile, configs or {})
        with self._lock:
            self._enter(session)
        try:
            yield session
        finally:
            with self._lock:
                self._leave(session)

    def _enter(self, session: Session) -> None:
        self._sessions.append(session)
        self._select()
        if len(self._sessions) == 1:
            for owner, name, replacement in self._patches:
                self._saved.append((owner, name, vars(owner).get(name, _ABSENT)))
                setattr(owner, name, replacement)

    def _leave(self, session: Session) -> None:
        self._sessions.remove(session)
        self._select()
        while self._saved and not self._sessions:
            owner, name, original = self._saved.pop()
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

    def _select(self) -> None:
        if self._sessions:
            self.language.builder.profile = self._sessions[-1].profile

    def launch(self, kernel: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> None:
        if warmup:
            return
        with self._lock:
            session = self._sessions[-1]
            session.launches += 1
            self.launcher.run(kernel, grid, args, kwargs, session.memory, session.fill, session.findings)

    def _autotuned(self, run: Callable[..., Any], tuner: Any, *args: Any, **kwargs: Any) -> Any:
        """The configuration that is wanted, or the first that pruning leaves, chosen by Triton's own code.

        What it learns is kept for the session only: a choice made here means nothing on a device.
        """
        session = self._sessions[-1]
        name = tuner.base_fn.__name__
        known = session.configs.setdefault(name, [])
        if len(tuner.configs) == 1 and not known:
            known.append(str(tuner.configs[0]))
        saved, tuner.cache = tuner.cache, session.tuned.setdefault(tuner, {})
        try:
            return run(tuner, *args, **kwargs)
        finally:
            tuner.cache = saved

    def _timed(self, tuner: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        """No time at all for the configuration that is wanted, which makes Triton choose it."""
        session = self._sessions[-1]
        name = tuner.base_fn.__name__
        known = session.configs.setdefault(name, [])
        if str(config) not in known:
            known.append(str(config))
        wanted = session.wanted.get(name, 0)
        if not 0 <= wanted < len(tuner.configs):
            raise HarnessError(
                f"configs={{{name!r}: {wanted}}}, but {name} has {len(tuner.configs)} configurations, "
                "counted from 0"
            )
        return [0.0 if known.index(str(config)) == wanted else 1.0] * 3

    def _replacements(self) -> Iterator[tuple[Any, str, Any]]:
        """(owner, attribute, replacement)"""
        language = self.language
        for kind in (compat.JITFunction, compat.InterpretedFunction):
            yield kind, "run", _method(self.launch)
            yield kind, "__call__", _method(language.inline)
        tune = functools.partial(self._autotuned, compat.Autotuner.run)
        yield compat.Autotuner, "run", _method(tune)
        yield compat.Autotuner, "_bench", _method(self._timed)
        yield compat.Autotuner, "check_disk_cache", lambda tuner, key, configs, bench: bool(bench())

        yield compat.target_info, "current_target", lambda: compat.SM_90

        for owner in (core.tensor, core.tensor_descriptor_base):
            for name, member in compat.members_with_semantic(owner):
                yield owner, name, _with_semantic(member, language.semantic)
        for name, function in compat.jit_members(core.tensor):
            yield core.tensor, name, _method(functools.partial(language.inline, function))
        yield core.tensor, "reduce", _method(language.reduce)
        yield core.tensor, "associative_scan", _method(language.scan)
        yield core.tensor, "__init__", _initialise
        yield core.tensor, "T", property(lambda x: language.semantic.permute(x, (1, 0)))

        for kind in (core.dtype, core.pointer_type, core.block_type):
            yield kind, "to_ir", _own_types(kind.to_ir, language.builder)
        for name in _BINARY:
            attribute = f"__{name}__"
            if attribute in vars(core.constexpr):
                yield core.constexpr, attribute, _on_tensors(attribute, getattr(core.constexpr, attribute))


_ABSENT = object()


def _initialise(self: Any, handle: Any, type: Any) -> None:
    """``tl.tensor.__init__`` that makes the objects for a shape once, not for each tensor."""
    self.handle, self.type, self.dtype = handle, type, type.scalar
    self.shape, self.numel = _shape_of(tuple(type.shape) if type.is_block() else ())


@functools.cache
def _shape_of(shape: tuple[int, ...]) -> tuple[Any, Any]:
    return core.tuple([core.constexpr(size) for size in shape]), core.constexpr(math.prod(shape))


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` so that it binds the object it is looked up on."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return method


def _with_semantic(member: Callable[..., Any], semantic: Any) -> Callable[..., Any]:
    """The method, supplied with ``_semantic`` where the caller is not compiled code."""

    @functools.wraps(member)
    def method(*args: Any, _semantic: Any = None, **kwargs: Any) -> Any:
        return member(*args, _semantic=semantic if _semantic is None else _semantic, **kwargs)

    return method


def _own_types(to_ir: Callable[..., Any], own: Builder) -> Callable[..., Any]:
    """Our builder takes Triton's types themselves; another one still gets IR types."""
    return lambda ty, builder: ty if builder is own else to_ir(ty, builder)


def _on_tensors(attribute: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """A constexpr's operator that yields to a tensor on the other side, as the compiler does."""
    name = attribute.strip("_")
    reflected = name.startswith("r") and name != "rshift"
    function = getattr(operator, f"__{name[1:] if reflected else name}__")

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, core.tensor):
            return original(self, other)
        return function(other, self.value) if reflected else function(self.value, other)

    return method


def interpreter() -> Interpreter:
    """The interpreter; under a Triton that was never tried, after a look at what works there."""
    made = _made()
    tried(compat.VERSION)
    return made


@functools.cache
def _made() -> Interpreter:
    return Interpreter()


@functools.cache
def tried(version: str) -> None:
    """Nothing, for versions of Triton that the tests run under.

    On any other, every construct is tried: a warning names those that fail, and where not even a masked load
    works, kernels are not run at all.
    """
    if version.startswith(compat.TRIED):
        return

    def run(function: Callable[[], None]) -> BaseException | None:
        with _made().session("nan"), contextlib.redirect_stdout(io.StringIO()):
            try:
                function()
            except Exception as error:
                return error
        return None

    failed = constructs.missing(run)
    text = f"Triton {version} was never tried: " + "; ".join(f"{name}: {why}" for name, why in failed.items())
    if "masked load and store" in failed:
        raise NotSimulated(text)
    if failed:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
