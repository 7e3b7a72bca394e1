"""Triton's language as plain Python: the hooks of rewritten kernels, reductions and scans."""

from __future__ import annotations

import builtins
import contextlib
import functools
import math
import operator
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from . import compat, loops
from .builder import Builder
from .compat import core, tl
from .elementwise import numpy_type
from .faults import AmbiguousCondition, NotSimulated
from .functions import Functions
from .handles import Handle
from .rewrite import rewrite
from .semantic import Semantic
from .trace import Tracer


class Language:
    """The meaning of names, calls and operators inside a kernel, over one `Builder`."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.semantic = Semantic(builder)
        self.functions = Functions(self)
        self._sources: set[str] = set()
        self._bodies: weakref.WeakKeyDictionary[types.FunctionType, tuple[str, Callable[..., Any]]] = (
            weakref.WeakKeyDictionary()
        )
        self._functions: dict[Any, Any] = {
            core.reduce: self.reduce,
            core.associative_scan: self.scan,
            core._reduce_with_indices: self.reduce_with_indices,
            core.map_elementwise: self.map_elementwise,
            core.dot_scaled: _refused("dot_scaled"),
            core.static_assert: _static_assert,
            core.static_print: print,
            core.multiple_of: lambda x, values: x,
            core.max_contiguous: lambda x, values: x,
            core.max_constancy: lambda x, values: x,
        }
        self._python: dict[Any, Any] = {
            builtins.min: functools.partial(self._fold, core.minimum, builtins.min),
            builtins.max: functools.partial(self._fold, core.maximum, builtins.max),
            builtins.print: functools.partial(core.device_print, _semantic=self.semantic),
            builtins.range: self.range,
            core.range: self.range,
            core.static_range: _static_range,
        }

    # hooks of rewritten kernels

    def call(self, function: Any) -> Any:
        """What to call when a kernel calls ``function``."""
        kind = type(function)
        if kind is types.FunctionType:
            known = self._functions.get(function)
            if known is None:
                known = self._functions[function] = self._adapted(function)
            return known
        if isinstance(function, type) and getattr(function, "__triton_aggregate__", False):
            raise NotSimulated(f"the CPU executor has no aggregates ({function.__name__})")
        if kind is type or kind is types.BuiltinFunctionType:
            return self._python.get(function, function)
        if isinstance(function, compat.JITFunction | compat.InterpretedFunction):
            return functools.partial(self.inline, function)
        return function

    def bind(self, value: Any) -> Any:
        """An assigned value: numbers become scalar tensors, also inside tuples."""
        if isinstance(value, core.tensor):
            return value
        value = compat.unwrapped(value)
        if isinstance(value, int | float):
            return self.semantic.to_tensor(value)
        if type(value) is tuple:
            return tuple(self.bind(item) for item in value)
        if compat.is_namedtuple(value):
            return type(value)(*map(self.bind, value))
        return value

    def static(self, value: Any) -> Any:
        return compat.unwrapped(value)

    def again(self, value: Any) -> bool:
        """The condition of a ``while``."""
        return self.truth(value, loop=True)

    def truth(self, value: Any, *, loop: bool = False) -> bool:
        if isinstance(value, core.tensor):
            if math.prod(value.handle.shape) != 1:
                raise AmbiguousCondition(
                    f"a block of shape {value.handle.shape} is no condition: reduce it first"
                )
            return bool(self.builder.tracer.decide(value.handle, loop=loop))
        condition = getattr(core, "condition", None)
        return (
            self.truth(value.condition, loop=loop)
            if condition and isinstance(value, condition)
            else bool(value)
        )

    def negation(self, value: Any) -> Any:
        return self._boolean(value).__invert__() if isinstance(value, core.tensor) else not value

    def conjunction(self, *operands: Callable[[], Any]) -> Any:
        return self._chain(operands, False, self.semantic.logical_and)

    def disjunction(self, *operands: Callable[[], Any]) -> Any:
        return self._chain(operands, True, self.semantic.logical_or)

    def assertion(self, condition: Callable[[], Any], message: Callable[[], Any]) -> None:
        if self.builder.options.debug:
            self.semantic.device_assert(self.semantic.to_tensor(condition()), str(message()), None)

    # what is recorded

    @contextlib.contextmanager
    def recording(self, tracer: Tracer) -> Iterator[None]:
        """The front end's values go to ``tracer`` until the block is left."""
        outer = self.builder.tracer
        self.builder.tracer = tracer
        try:
            yield
        finally:
            self.builder.tracer = outer

    def line(self) -> str:
        """``file:line`` at which the kernel stands, in its own source rather than in a library of Triton."""
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_filename in self._sources:
                return f"{frame.f_code.co_filename}:{frame.f_lineno}"
            frame = frame.f_back
        return ""

    # functions

    def inline(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a ``@triton.jit`` function from a kernel."""
        unwrap = compat.unwrapped
        body = self.body(compat.as_jit(function))
        return body(*map(unwrap, args), **{name: unwrap(value) for name, value in kwargs.items()})

    def body(self, jit: Any) -> Callable[..., Any]:
        """The rewritten function, made again when the source was changed under Triton's own hook."""
        known = self._bodies.get(jit.fn)
        if known is None or known[0] != jit.src:
            known = self._bodies[jit.fn] = (jit.src, rewrite(jit, self))
            if not jit.fn.__module__.startswith("triton."):
                self._sources.add(jit.fn.__code__.co_filename)
        return known[1]

    def range(self, *bounds: Any, **hints: Any) -> Iterator[Any]:
        """The loop variable is a scalar tensor of the bounds' type, as the compiler makes it.

        Whether there is another round is decided round by round, so that programs whose loops differ in
        length share all rounds but the last.
        """
        bounds = _bounds(bounds, hints.get("step"))
        kinds = [self.semantic.to_tensor(bound).dtype for bound in bounds]
        kind = functools.reduce(self.semantic.integer_promote_impl, kinds, tl.int32)
        start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        if not any(isinstance(bound, core.tensor) for bound in (start, stop, step)):
            literal = getattr(self.builder, f"get_{kind.name}")
            for index in builtins.range(int(start), int(stop), int(step)):
                yield core.tensor(literal(index), kind)
            return
        emit = self.builder.tracer.emit
        handles = tuple(self.semantic.to_tensor(bound).handle for bound in (start, stop, step))
        count = emit(loops.rounds, handles, (), tl.int64, pure=True)
        at = 0
        while self.builder.tracer.decide(emit(loops.more(at), (count,), (), tl.int1, pure=True)):
            yield core.tensor(emit(loops.index(at, numpy_type(kind)), handles, (), kind, pure=True), kind)
            at += 1

    # reductions

    def reduce(self, input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: Any) -> Any:
        """tl.reduce: in the order of the device, in the element's format."""
        inputs = input if isinstance(input, tuple | core.tuple) else (input,)
        axis, keep_dims = core._unwrap_if_constexpr(axis), core._unwrap_if_constexpr(keep_dims)
        handles = tuple(part.handle for part in inputs)
        shape = handles[0].shape
        if axis is None:
            total = (math.prod(shape),)
            handles = tuple(self.builder.create_reshape(handle, total, False) for handle in handles)
            at, left, kept = 0, (), (1,) * len(shape)
        else:
            at = core._wrap_axis(axis, len(shape))
            left, kept = (*shape[:at], *shape[at + 1 :]), (*shape[:at], 1, *shape[at + 1 :])
        types = [part.dtype for part in inputs]
        run = self.functions.reduction(combine_fn, types, handles[0].shape, at)
        results = self.builder.several(run, handles, [(left, kind) for kind in types])
        if keep_dims:
            results = tuple(self.builder.create_reshape(result, kept, False) for result in results)
        return self._made(results, isinstance(input, tuple | core.tuple))

    def scan(self, input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **_: Any) -> Any:
        """tl.associative_scan: in the order of the device, in the element's format."""
        inputs = input if isinstance(input, tuple | core.tuple) else (input,)
        axis = core._wrap_axis(core._unwrap_if_constexpr(axis), len(inputs[0].shape))
        handles = tuple(part.handle for part in inputs)
        types = [part.dtype for part in inputs]
        backwards = bool(core._unwrap_if_constexpr(reverse))
        run = self.functions.scan(combine_fn, types, handles[0].shape, axis, backwards)
        results = self.builder.several(run, handles, [(handles[0].shape, kind) for kind in types])
        return self._made(results, isinstance(input, tuple | core.tuple))

    def reduce_with_indices(
        self, input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: Any
    ) -> Any:
        shape = input.handle.shape
        axis = core._wrap_axis(core._unwrap_if_constexpr(axis), len(shape))
        index = self.builder.create_make_range(None, 0, shape[axis])
        for at in builtins.range(len(shape)):
            if at != axis:
                index = self.builder.create_expand_dims(index, at)
        index = self.builder.create_broadcast(index, shape)
        return self.reduce((input, _tensor(index)), axis, combine_fn, keep_dims)

    def map_elementwise(self, function: Any, *args: Any, pack: Any = 1, **_: Any) -> Any:
        """tl.map_elementwise: each element is a program of its own, since ``function`` may branch on each."""
        if core._unwrap_if_constexpr(pack) != 1:
            raise NotSimulated("the CPU executor has no map_elementwise with pack > 1")
        args = self.semantic.broadcast_tensors(*args)
        handles = tuple(arg.handle for arg in args)
        types = [arg.dtype for arg in args]
        made = self.functions.result_types(function, types)
        run = self.functions.elementwise(function, types)
        results = self.builder.several(run, handles, [(handles[0].shape, kind) for kind in made])
        return self._made(results, len(results) > 1)

    def _made(self, handles: tuple[Handle, ...], several: bool) -> Any:
        made = tuple(_tensor(handle) for handle in handles)
        return made if several else made[0]

    # details

    def _adapted(self, function: types.FunctionType) -> Any:
        if function.__module__ == compat.LIBDEVICE_STUBS:
            function = getattr(compat.cuda_libdevice, function.__name__)
        if core.is_builtin(function):
            return functools.partial(function, _semantic=self.semantic)
        return function

    def _fold(self, function: Any, python: Any, *args: Any) -> Any:
        if not any(isinstance(arg, core.tensor) for arg in args):
            return python(*map(core._unwrap_if_constexpr, args))
        return functools.reduce(functools.partial(function, _semantic=self.semantic), args)

    def _boolean(self, value: Any) -> Any:
        return value if value.dtype == tl.int1 else self.semantic.cast(value, tl.int1)

    def _chain(self, operands: tuple[Callable[[], Any], ...], stop: bool, combine: Any) -> Any:
        """``and`` and ``or``: a compile-time value decides at once or drops out, tensors are combined."""
        tensors = []
        value: Any = None
        for operand in operands:
            value = core._unwrap_if_constexpr(operand())
            if isinstance(value, core.tensor):
                tensors.append(self._boolean(value))
            elif bool(value) is stop:
                return value
        return functools.reduce(combine, tensors) if tensors else value


def _bounds(bounds: tuple[Any, ...], step: Any) -> tuple[Any, ...]:
    if step is not None:
        bounds = (*((0, *bounds) if len(bounds) == 1 else bounds), step)
    return tuple(core._unwrap_if_constexpr(bound) for bound in bounds)


def _static_range(*bounds: Any, step: Any = None) -> range:
    return range(*map(operator.index, _bounds(bounds, step)))


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotSimulated(f"the CPU executor does not implement {name!r}")

    return refuse


def _static_assert(condition: Any, message: Any = "", **_: Any) -> None:
    if not core._unwrap_if_constexpr(condition):
        raise AssertionError(core._unwrap_if_constexpr(message))


def _tensor(handle: Handle) -> Any:
    """A tensor of its handle's type; without axes it is a scalar."""
    kind = handle.dtype
    return core.tensor(handle, core.block_type(kind, list(handle.shape)) if handle.shape else kind)
