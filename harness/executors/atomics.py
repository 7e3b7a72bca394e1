"""Atomic operations: lanes that share an address take turns, in the order of programs, then of lanes.

An atomic operation whose result nobody uses need not be done at once: what programs that run together do to
an element is applied in the order of the programs, each with all of its operations, when the last is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from . import races
from .access import _active, _check_address, _flattened, _lane, _places, check_written
from .casts import Array, bits_of
from .context import Context, Deferred
from .faults import OrderMatters
from .memory_map import Window
from .poison import poison_value
from .storage import BEFORE, Region
from .trace import Run
from .value import Value

Modify = Callable[[Array, Array], Array]

_SMALL: Final = 2.0**-102
"""Sums of fp32 numbers that are 0 or no smaller than this are never subnormal."""


def add(old: Array, value: Array) -> Array:
    """red.add without its flushing: a NaN is 0x7fffffff, in 16 bits 0x7fff."""
    if old.dtype.kind in "iu" or old.dtype.itemsize == 8:
        return np.asarray(old + value)
    return _without_payload(np.asarray(old + value))


def add_flushing(old: Array, value: Array) -> Array:
    """red.add as measured: fp32 reads subnormals as 0 and gives none."""
    return _flushed(add(_flushed(old), _flushed(value)))


def _flushed(x: Array) -> Array:
    if x.dtype != np.float32:
        return x
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def _without_payload(x: Array) -> Array:
    nan = np.isnan(x)
    if not nan.any():
        return x
    bits = bits_of(x)
    return np.where(nan, bits.dtype.type((1 << (8 * x.dtype.itemsize - 1)) - 1), bits).view(x.dtype)


def add_in_turn(elements: Array, index: Array, values: Array) -> None:
    """``add`` each value [n] to the element that ``index`` [n] names, in their order."""
    np.add.at(elements, index, values)
    own = elements[index]
    if own.dtype.kind not in "iu" and own.dtype.itemsize < 8:
        elements[index] = _without_payload(own)


def add_flushing_in_turn(elements: Array, index: Array, values: Array) -> None:
    """The same of ``add_flushing``."""
    small = (np.abs(x[x != 0]) < _SMALL for x in (elements[index], values))
    if elements.dtype != np.float32 or not any(each.any() for each in small):
        add_in_turn(elements, index, values)
        return
    for turn in _turns(index):
        elements[index[turn]] = add_flushing(elements[index[turn]], values[turn])


READ_MODIFY_WRITE: Final[dict[str, Any]] = {
    "ADD": add,
    "FADD": add,
    "MAX": np.maximum,
    "UMAX": np.maximum,
    "MIN": np.minimum,
    "UMIN": np.minimum,
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "XOR": np.bitwise_xor,
    "XCHG": lambda old, new: new,
}
IN_TURN: Final[dict[Any, Callable[[Array, Array, Array], None]]] = {
    add: add_in_turn,
    add_flushing: add_flushing_in_turn,
    **{ufunc: ufunc.at for ufunc in READ_MODIFY_WRITE.values() if isinstance(ufunc, np.ufunc)},
}
"""Of those whose results may be put off: to many elements, of which some may be the same."""


class Postponed(Value):
    """The result of a deferred operation: there is none as long as nobody looks."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(np.zeros(1))

    def __getattribute__(self, name: str) -> Any:
        raise OrderMatters


class Observed(Value):
    """The result of an atomic operation: a program that looks at it may know what others have done."""

    __slots__ = ("_context",)

    def __init__(self, context: Context, data: Array, undef: Array | None = None) -> None:
        super().__init__(data, undef)
        self._context = context

    def __getattribute__(self, name: str) -> Any:
        object.__getattribute__(self, "_context").locks = True
        return super().__getattribute__(name)


def update(origin: str | None, name: str, *, flushing: bool) -> Run:
    """Replace each element by ``modify(element, value)``; gives what each lane found."""
    modify = READ_MODIFY_WRITE[name]
    if modify is add and flushing:
        modify = add_flushing

    def run(context: Context, ptr: Value, value: Value, mask: Value) -> Value:
        lanes = _active(context, mask)
        shape = (
            len(context.lanes),
            *np.broadcast_shapes(ptr.data.shape, value.data.shape, mask.data.shape)[1:],
        )
        dtype = value.data.dtype
        if lanes is not None and not lanes.any():
            return Value(np.broadcast_to(poison_value(dtype, context.fill), shape), np.ones(shape, bool))
        _check_address(context, origin, ptr, lanes)
        programs, index, values, undef = _flattened(context, ptr.data, value, lanes)
        if undef is not None and undef.any():
            lane = int(np.flatnonzero(undef)[0])
            position = None if origin is None else context.windows[origin].position(int(index[lane]))
            context.report(
                "undefined values", origin, _lane(context, programs[lane]), position,
                "an atomic operation takes an undefined value",
            )  # fmt: skip
        together = len(context.lanes) > 1
        window = None if origin is None else context.windows[origin]
        if window is None:
            if together:
                raise OrderMatters
            [(region, _, index)] = _places(context, "writes", index, dtype.itemsize, programs)
        else:
            region = window.region
            check_written(context, window, index, programs, dtype.itemsize)
        _claim(context, region)
        never = region.never(index) if region.width == dtype.itemsize else None
        if never is not None and name != "XCHG":
            _complain_of_never(context, window, programs, index, never)
        if context.alone:
            races.changes(context, window, region, index, dtype.itemsize)
        if together:
            if modify not in IN_TURN:
                raise OrderMatters
            context.deferred.append(Deferred(region, dtype, modify, programs, index, values))
            context.version += 1
            return Postponed()
        _define(region, index, dtype.itemsize)
        elements = region.elements(dtype)
        found = np.zeros(len(index), dtype)
        for turn in _turns(index):
            old = elements[index[turn]]
            new = modify(old, values[turn])
            elements[index[turn]] = new
            found[turn] = old
            context.version += bool((bits_of(old) != bits_of(new)).any())
        if lanes is None:
            return Observed(context, found.reshape(shape), None if never is None else never.reshape(shape))
        out = np.array(np.broadcast_to(poison_value(dtype, context.fill), shape))
        active = np.broadcast_to(lanes, shape)
        out[active] = found
        unknown = ~active
        if never is not None:
            unknown[active] = never
        return Observed(context, out, unknown)

    return run


def compare_and_swap(origin: str | None) -> Run:
    """Write ``value`` where the element's bits are ``expected``'s; gives what each lane found."""

    def run(context: Context, ptr: Value, expected: Value, value: Value) -> Value:
        if len(context.lanes) > 1:
            raise OrderMatters
        context.locks = True
        _check_address(context, origin, ptr, None)
        dtype = value.data.dtype
        shape = (1, *np.broadcast_shapes(ptr.data.shape, value.data.shape)[1:])
        programs, index, bits, _ = _flattened(context, ptr.data, Value(bits_of(value.data)), None)
        wanted = np.broadcast_to(bits_of(expected.data), shape).reshape(-1)
        window = None if origin is None else context.windows[origin]
        if window is None:
            [(region, _, index)] = _places(context, "writes", index, dtype.itemsize, programs)
        else:
            region = window.region
            check_written(context, window, index, programs, dtype.itemsize)
        _claim(context, region)
        never = region.never(index) if region.width == dtype.itemsize else None
        if never is not None:
            _complain_of_never(context, window, programs, index, never)
        _define(region, index, dtype.itemsize)
        elements = region.elements(bits.dtype)
        found = np.zeros(len(index), bits.dtype)
        for turn in _turns(index):
            old = elements[index[turn]]
            swapped = turn[old == wanted[turn]]
            context.version += bool((elements[index[swapped]] != bits[swapped]).any())
            elements[index[swapped]] = bits[swapped]
            found[turn] = old
        return Value(found.view(dtype).reshape(shape))

    return run


def _complain_of_never(
    context: Context, window: Window | None, programs: Array, index: Array, never: Array
) -> None:
    at = int(np.flatnonzero(never)[0])
    name, position = (None, None) if window is None else (window.name, window.position(int(index[at])))
    context.report(
        "undefined values", name, _lane(context, programs[at]), position,
        "an atomic operation changes memory that was never written",
    )  # fmt: skip


def apply_deferred(context: Context) -> None:
    """Do what was put off, as if one program had run after the other."""
    pending: dict[tuple[int, Any, int], list[Deferred]] = {}
    for each in context.deferred:
        pending.setdefault((id(each.region), each.dtype, id(each.modify)), []).append(each)
    if len({key[0] for key in pending}) < len(pending):
        raise OrderMatters  # two kinds of operation on one storage
    for parts in pending.values():
        programs, index, values = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("programs", "index", "values")
        )
        order = np.argsort(programs, kind="stable")
        region, dtype = parts[0].region, parts[0].dtype
        _define(region, index, dtype.itemsize)
        IN_TURN[parts[0].modify](region.elements(dtype), index[order], values[order])
    context.deferred.clear()


def _claim(context: Context, region: Region) -> None:
    """Atomics do not mix with plain accesses while programs run together."""
    key = id(region)
    if not context.alone:
        plain = (key in context.written and key not in context.updated) or key in context.reads
        if plain or (context.watched is not None and key not in context.watched):
            if context.watched is not None:
                context.watched.add(key)
            raise OrderMatters
    context.keep(region)
    context.updated.add(key)


def _define(region: Region, index: Array, width: int) -> None:
    shadow = region.shadow(width)
    if shadow is not None and region.holes:
        shadow[index] = BEFORE


def _turns(index: Array) -> Iterator[Array]:
    """Positions, a part at a time, in each of which every element occurs once."""
    order = np.argsort(index, kind="stable")
    ranked = index[order]
    first = np.concatenate([[True], ranked[1:] != ranked[:-1]])
    starts = np.maximum.accumulate(np.where(first, np.arange(len(ranked)), 0))
    turn = np.empty(len(ranked), np.int64)
    turn[order] = np.arange(len(ranked)) - starts
    for number in range(int(turn.max()) + 1):
        yield np.flatnonzero(turn == number)
