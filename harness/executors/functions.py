"""Reductions, scans and maps: a kernel's own function applied to many elements.

The function is run like a kernel of which each pair of elements is a program, so that it may branch on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import reductions, scans
from .casts import Array
from .compat import core, standard
from .context import Context
from .elementwise import numpy_type
from .engine import Run as Pass
from .handles import Handle
from .trace import Run, Tracer, Tree
from .value import Value, undefined

if TYPE_CHECKING:
    from .language import Language

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


class Functions:
    """Makes the operations that call a kernel's function while a launch runs."""

    def __init__(self, language: Language) -> None:
        self._language = language

    def reduction(self, combine_fn: Any, types: list[Any], shape: tuple[int, ...], axis: int) -> Run:
        """Values [programs, *shape] of these types to a tuple of values without the axis."""
        shortcut = _shortcut(combine_fn)
        combine = self._combine(combine_fn, types)
        profile, warps = self._language.builder.profile, self._language.builder.warps

        def run(context: Context, *values: Value) -> tuple[Value, ...]:
            arrays = _aligned(values)
            undef = undefined(values)
            if undef is not None:
                undef = np.asarray(np.broadcast_to(undef, arrays[0].shape).any(axis=axis + 1))
            results = shortcut(arrays, axis + 1) if shortcut is not None else None
            if results is None:
                spread = profile.spread(shape, axis, arrays[0].dtype.itemsize, warps)
                results = reductions.reduce(arrays, axis + 1, combine(context), spread)
            return tuple(Value(result, undef) for result in results)

        return run

    def scan(
        self, combine_fn: Any, types: list[Any], shape: tuple[int, ...], axis: int, reverse: bool
    ) -> Run:
        combine = self._combine(combine_fn, types)
        profile, warps = self._language.builder.profile, self._language.builder.warps

        def run(context: Context, *values: Value) -> tuple[Value, ...]:
            arrays = _aligned(values)
            undef = undefined(values)
            if undef is not None:
                mask = np.broadcast_to(undef, arrays[0].shape)
                mask = np.flip(mask, axis + 1) if reverse else mask
                mask = np.logical_or.accumulate(mask, axis=axis + 1)
                undef = np.flip(mask, axis + 1) if reverse else mask
            spread = profile.spread(shape, axis, arrays[0].dtype.itemsize, warps)
            results = scans.scan(arrays, axis + 1, combine(context), spread, reverse=reverse)
            return tuple(Value(result, undef) for result in results)

        return run

    def elementwise(self, function: Any, types: list[Any]) -> Run:
        apply = self._program(function, types)

        def run(context: Context, *values: Value) -> tuple[Value, ...]:
            undef = undefined(values)
            return tuple(Value(result, undef) for result in apply(context, _aligned(values)))

        return run

    def result_types(self, function: Any, types: list[Any]) -> list[Any]:
        """Element types of what a function of scalars returns."""
        tree = Tree(len(types))
        found: list[Any] = []

        def front(tracer: Tracer) -> tuple[Handle, ...]:
            results = self._called(function, types, tracer)
            found.extend(result.dtype for result in results)
            return results

        zeros = [Value(np.zeros(1, numpy_type(kind))) for kind in types]
        Pass(tree, front, self._language.line, Context.empty()).all(np.zeros(1, np.int64), zeros)
        return found

    def _combine(self, combine_fn: Any, types: list[Any]) -> Callable[[Context], reductions.Combine]:
        ufunc = _UFUNCS.get(getattr(combine_fn, "__name__", "")) if combine_fn in _LIBRARY else None
        if ufunc is not None:
            return lambda context: lambda left, right: (np.asarray(ufunc(left[0], right[0])),)
        apply = self._program(combine_fn, types * 2)
        return lambda context: lambda left, right: apply(context, (*left, *right))

    def _program(
        self, function: Any, types: list[Any]
    ) -> Callable[[Context, tuple[Array, ...]], tuple[Array, ...]]:
        """The function on arrays of one shape, element by element."""
        tree = Tree(len(types))
        language = self._language

        def front(tracer: Tracer) -> tuple[Handle, ...]:
            return self._called(function, types, tracer)

        def apply(context: Context, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
            shape = arrays[0].shape
            count = math.prod(shape)
            inner = context.inner(count)
            arguments = [Value(np.ascontiguousarray(array).reshape(count)) for array in arrays]
            groups = Pass(tree, front, language.line, inner).all(inner.lanes, arguments)
            made: list[Array] = []
            for at in range(len(groups[0][1])):
                out = np.empty(count, groups[0][1][at].data.dtype)
                for rows, values in groups:
                    out[rows] = values[at].data
                made.append(out.reshape(shape))
            return tuple(made)

        return apply

    def _called(self, function: Any, types: list[Any], tracer: Tracer) -> tuple[Handle, ...]:
        language = self._language
        with language.recording(tracer):
            arguments = [
                core.tensor(Handle(at, (), kind, None, tracer), kind) for at, kind in enumerate(types)
            ]
            value = language.inline(function, *arguments)
            values = tuple(value) if isinstance(value, tuple | core.tuple) else (value,)
            return tuple(language.semantic.to_tensor(each).handle for each in values)


def _aligned(values: tuple[Value, ...]) -> tuple[Array, ...]:
    """The arrays, broadcast to each other."""
    if len(values) == 1:
        return (values[0].data,)
    shape = np.broadcast_shapes(*(value.data.shape for value in values))
    return tuple(np.broadcast_to(value.data, shape) for value in values)


def _shortcut(combine_fn: Any) -> Callable[[reductions.Values, int], reductions.Values | None] | None:
    """A reduction whose order does not show, done by NumPy."""
    if combine_fn is standard._elementwise_max or combine_fn is standard._elementwise_min:
        largest = combine_fn is standard._elementwise_max
        return lambda values, axis: (reductions.extreme_of(values[0], axis, largest=largest),)
    if combine_fn is standard._sum_combine:
        return _integer_sum
    for name, largest in _LEFTMOST.items():
        if combine_fn is getattr(standard, name):
            return lambda values, axis, largest=largest: reductions.first_extreme(
                values, axis, largest=largest
            )  # type: ignore[misc]
    return None


def _integer_sum(values: reductions.Values, axis: int) -> reductions.Values | None:
    first = values[0]
    return (np.add.reduce(first, axis=axis, dtype=first.dtype),) if first.dtype.kind in "iu" else None


class _Identities:
    """Membership by identity: hashing a JITFunction hashes its source."""

    def __init__(self, items: list[Any]) -> None:
        self._ids = {id(item) for item in items}

    def __contains__(self, item: Any) -> bool:
        return id(item) in self._ids


_LIBRARY = _Identities([getattr(standard, name) for name in _UFUNCS])
