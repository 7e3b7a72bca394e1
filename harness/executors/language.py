"""Triton's language as plain Python: the hooks of rewritten kernels, reductions and scans."""

from __future__ import annotations

import builtins
import functools
import operator
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import compat, reductions
from .builder import Builder
from .casts import Array
from .compat import core, standard, tl
from .faults import AmbiguousCondition, NotSimulated
from .handles import Handle
from .rewrite import rewrite
from .semantic import Semantic


class Language:
    """The meaning of names, calls and operators inside a kernel, over one `Builder`."""

    def __init__(self, builder: Builder, warps: Callable[[], int]) -> None:
        self.builder = builder
        self.semantic = Semantic(builder)
        self._warps = warps
        self._bodies: weakref.WeakKeyDictionary[types.FunctionType, tuple[str, Callable[..., Any]]] = (
            weakref.WeakKeyDictionary()
        )
        self._functions: dict[Any, Any] = {
            core.reduce: self.reduce,
            core.associative_scan: self.scan,
            core._reduce_with_indices: self.reduce_with_indices,
            core.map_elementwise: self.map_elementwise,
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
        if kind is type or kind is types.BuiltinFunctionType:
            return self._python.get(function, function)
        if isinstance(function, compat.JITFunction | compat.InterpretedFunction):
            return functools.partial(self.inline, function)
        if getattr(function, "__triton_builtin__", False) and isinstance(function, type):
            raise NotSimulated(f"the CPU executor has no aggregates ({function.__name__})")
        return function

    def bind(self, value: Any) -> Any:
        """An assigned value: numbers become scalar tensors, also inside tuples."""
        if isinstance(value, core.tensor):
            return value
        value = core._unwrap_if_constexpr(value)
        if isinstance(value, int | float):
            return self.semantic.to_tensor(value)
        if type(value) is tuple:
            return tuple(self.bind(item) for item in value)
        return value

    def static(self, value: Any) -> Any:
        return core._unwrap_if_constexpr(value)

    def truth(self, value: Any) -> bool:
        if isinstance(value, core.tensor):
            data = value.handle.data
            if data.size != 1:
                raise AmbiguousCondition(f"a block of shape {data.shape} is no condition: reduce it first")
            return bool(data.flat[0])
        condition = getattr(core, "condition", None)
        return self.truth(value.condition) if condition and isinstance(value, condition) else bool(value)

    def negation(self, value: Any) -> Any:
        return self._boolean(value).__invert__() if isinstance(value, core.tensor) else not value

    def conjunction(self, *operands: Callable[[], Any]) -> Any:
        return self._chain(operands, False, self.semantic.logical_and)

    def disjunction(self, *operands: Callable[[], Any]) -> Any:
        return self._chain(operands, True, self.semantic.logical_or)

    def assertion(self, condition: Callable[[], Any], message: Callable[[], Any]) -> None:
        if self.builder.options.debug:
            self.semantic.device_assert(self.semantic.to_tensor(condition()), str(message()), None)

    # functions

    def inline(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a ``@triton.jit`` function from a kernel."""
        unwrap = core._unwrap_if_constexpr
        body = self.body(compat.as_jit(function))
        return body(*map(unwrap, args), **{name: unwrap(value) for name, value in kwargs.items()})

    def body(self, jit: Any) -> Callable[..., Any]:
        """The rewritten function, made again when the source was changed under Triton's own hook."""
        known = self._bodies.get(jit.fn)
        if known is None or known[0] != jit.src:
            known = self._bodies[jit.fn] = (jit.src, rewrite(jit, self))
        return known[1]

    def range(self, *bounds: Any, **hints: Any) -> Iterator[Any]:
        """The loop variable is a scalar tensor of the bounds' type, as the compiler makes it."""
        bounds = _bounds(bounds, hints.get("step"))
        kinds = [self.semantic.to_tensor(bound).dtype for bound in bounds]
        kind = functools.reduce(self.semantic.integer_promote_impl, kinds, tl.int32)
        dtype = self.semantic.to_tensor(0).handle.data.dtype if kind == tl.int32 else np.dtype(kind.name)
        whole = [int(b.handle.data.flat[0]) if isinstance(b, core.tensor) else int(b) for b in bounds]
        for index in builtins.range(*whole):
            yield core.tensor(Handle(np.array([index]).astype(dtype), kind), kind)

    # reductions

    def reduce(self, input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: Any) -> Any:
        """tl.reduce: in the order of the device, in the element's format."""
        inputs = input if isinstance(input, tuple | core.tuple) else (input,)
        axis, keep_dims = core._unwrap_if_constexpr(axis), core._unwrap_if_constexpr(keep_dims)
        shape = tuple(_sizes(inputs[0]))
        values = tuple(part.handle.data for part in inputs)
        if axis is None:
            values, kept = tuple(value.reshape(-1) for value in values), (1,) * len(shape)
            at = 0
        else:
            at = core._wrap_axis(axis, len(shape))
            kept = (*shape[:at], 1, *shape[at + 1 :])
        results = self._reduce(values, [part.dtype for part in inputs], at, combine_fn)
        if keep_dims:
            results = tuple(result.reshape(kept) for result in results)
        made = tuple(_tensor(result, part.dtype) for result, part in zip(results, inputs, strict=True))
        return made if isinstance(input, tuple | core.tuple) else made[0]

    def _reduce(
        self, values: reductions.Values, types: list[Any], axis: int, combine_fn: Any
    ) -> reductions.Values:
        first = values[0]
        if combine_fn is standard._elementwise_max or combine_fn is standard._elementwise_min:
            largest = combine_fn is standard._elementwise_max
            return (reductions.extreme_of(first, axis, largest=largest),)
        if combine_fn is standard._sum_combine and first.dtype.kind in "iu":
            return (np.add.reduce(first, axis=axis, dtype=first.dtype),)
        for function, largest in _LEFTMOST.items():
            if combine_fn is getattr(standard, function):
                found = reductions.first_extreme(values, axis, largest=largest)
                if found is not None:
                    return found
        spread = self.builder.profile.spread(first.shape, axis, first.dtype.itemsize, self._warps())
        return reductions.reduce(values, axis, self._combine(combine_fn, types), spread)

    def scan(self, input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **_: Any) -> Any:
        """tl.associative_scan, log2(n) combinations deep."""
        inputs = input if isinstance(input, tuple | core.tuple) else (input,)
        axis = core._wrap_axis(core._unwrap_if_constexpr(axis), len(inputs[0].shape))
        types = [part.dtype for part in inputs]
        values = tuple(part.handle.data for part in inputs)
        backwards = bool(core._unwrap_if_constexpr(reverse))
        results = reductions.scan(values, axis, self._combine(combine_fn, types), reverse=backwards)
        made = tuple(_tensor(result, kind) for result, kind in zip(results, types, strict=True))
        return made if isinstance(input, tuple | core.tuple) else made[0]

    def reduce_with_indices(
        self, input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: Any
    ) -> Any:
        axis = core._wrap_axis(core._unwrap_if_constexpr(axis), len(input.shape))
        shape = tuple(_sizes(input))
        along = [1] * len(shape)
        along[axis] = shape[axis]
        index = np.broadcast_to(np.arange(shape[axis], dtype=np.int32).reshape(along), shape)
        return self.reduce((input, _tensor(index, tl.int32)), axis, combine_fn, keep_dims)

    def map_elementwise(self, function: Any, *args: Any, pack: Any = 1, **_: Any) -> Any:
        """tl.map_elementwise: element by element, since ``function`` may branch on each."""
        if core._unwrap_if_constexpr(pack) != 1:
            raise NotSimulated("the CPU executor has no map_elementwise with pack > 1")
        args = self.semantic.broadcast_tensors(*args)
        types = [arg.dtype for arg in args]
        rows = [arg.handle.data.reshape(-1) for arg in args]
        shape = args[0].handle.data.shape
        results = [
            self._scalars(function, types, [row[at : at + 1] for row in rows]) for at in range(rows[0].size)
        ]
        made = tuple(
            _tensor(
                np.concatenate([result[at].handle.data for result in results]).reshape(shape),
                results[0][at].dtype,
            )
            for at in range(len(results[0]))
        )
        return made if len(made) > 1 else made[0]

    def _combine(self, combine_fn: Any, types: list[Any]) -> reductions.Combine:
        """A kernel's combine function on arrays; on one element after the other if it branches."""
        ufunc = _UFUNCS.get(getattr(combine_fn, "__name__", "")) if combine_fn in _library() else None
        if ufunc is not None:
            return lambda left, right: (np.asarray(ufunc(left[0], right[0])),)

        def combine(left: reductions.Values, right: reductions.Values) -> reductions.Values:
            shape = left[0].shape
            try:
                tensors = [_tensor(part, kind) for part, kind in zip((*left, *right), types * 2, strict=True)]
                results = _several(self.inline(combine_fn, *tensors))
                return tuple(np.broadcast_to(part.handle.data, shape) for part in results)
            except AmbiguousCondition:
                rows = [part.reshape(-1) for part in (*left, *right)]
                each = [
                    self._scalars(combine_fn, types * 2, [row[at : at + 1] for row in rows])
                    for at in range(rows[0].size)
                ]
                return tuple(
                    np.concatenate([result[at].handle.data for result in each]).reshape(shape)
                    for at in range(len(types))
                )

        return combine

    def _scalars(self, function: Any, types: list[Any], values: list[Array]) -> tuple[Any, ...]:
        made = [core.tensor(Handle(value, kind), kind) for value, kind in zip(values, types, strict=True)]
        return _several(self.inline(function, *made))

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


_LEFTMOST = {
    "_argmax_combine_tie_break_left": True,
    "_argmin_combine_tie_break_left": False,
}
_UFUNCS: dict[str, Any] = {
    "_sum_combine": np.add,
    "_prod_combine": np.multiply,
    "_xor_combine": np.bitwise_xor,
    "_or_combine": np.bitwise_or,
}


class _Identities:
    """Membership by identity: hashing a JITFunction hashes its source."""

    def __init__(self, items: Iterator[Any]) -> None:
        self._ids = {id(item) for item in items}

    def __contains__(self, item: Any) -> bool:
        return id(item) in self._ids


@functools.cache
def _library() -> _Identities:
    return _Identities(getattr(standard, name) for name in _UFUNCS)


def _bounds(bounds: tuple[Any, ...], step: Any) -> tuple[Any, ...]:
    if step is not None:
        bounds = (*((0, *bounds) if len(bounds) == 1 else bounds), step)
    return tuple(core._unwrap_if_constexpr(bound) for bound in bounds)


def _static_range(*bounds: Any, step: Any = None) -> range:
    return range(*map(operator.index, _bounds(bounds, step)))


def _static_assert(condition: Any, message: Any = "", **_: Any) -> None:
    if not core._unwrap_if_constexpr(condition):
        raise AssertionError(core._unwrap_if_constexpr(message))


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | core.tuple) else (value,)


def _sizes(x: Any) -> list[int]:
    return [int(size.value) for size in x.shape]


def _tensor(data: Array, kind: Any) -> Any:
    """A tensor of element type ``kind``; an array without axes is a scalar."""
    if data.ndim == 0:
        return core.tensor(Handle(data.reshape(1), kind), kind)
    return core.tensor(Handle(data, kind), core.block_type(kind, list(data.shape)))
