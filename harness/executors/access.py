"""Loads and stores of all programs at once, and everything that is checked about an address.

Programs that run together execute one operation after the other, all of them. That is what they do one after
another only if none reads what another wrote, and none overwrites with something else what another wrote or
will still read; `OrderMatters` says that it is not so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import races
from .casts import Array, bits_of, is_float
from .context import Context
from .faults import MemoryFault, OrderMatters
from .marks import marks
from .memory_map import Window
from .poison import poison_value
from .storage import Region
from .trace import Run
from .value import Value, either


def load(origin: str | None, dtype: np.dtype[Any], *, waits: bool = False) -> Run:
    """A load from ``origin``; its inputs are the pointer, then perhaps the mask, then perhaps ``other``.

    waits: it looks at what other programs do, as a volatile load does: what follows may be in order.
    """

    def run(context: Context, ptr: Value, mask: Value | None = None, other: Value | None = None) -> Value:
        context.locks |= waits
        lanes = None if mask is None else _active(context, mask)
        _check_address(context, origin, ptr, lanes)
        if origin is None:
            data, undef = read_anywhere(context, ptr.data, lanes, dtype)
        else:
            data, undef = read(context, context.windows[origin], ptr.data, lanes, dtype)
        if lanes is not None:
            default = poison_value(dtype, context.fill) if other is None else other.data
            data = np.where(lanes, data, default)
            if other is None:
                undef = either(undef, ~lanes)
            elif other.undef is not None:
                undef = either(undef, other.undef & ~lanes)
        if ptr.undef is not None:
            undef = either(undef, ptr.undef)
        return Value(data, undef)

    return run


def store(origin: str | None) -> Run:
    """A store to ``origin``; its inputs are the pointer, the value, and perhaps the mask."""

    def run(context: Context, ptr: Value, value: Value, mask: Value | None = None) -> None:
        lanes = None if mask is None else _active(context, mask)
        if lanes is not None and not lanes.any():
            return
        _check_address(context, origin, ptr, lanes)
        programs, index, values, undef = _flattened(context, ptr.data, value, lanes)
        if undef is not None and undef.any():
            lane = int(np.flatnonzero(undef)[0])
            position = None if origin is None else context.windows[origin].position(int(index[lane]))
            context.report(
                "undefined values", origin, _lane(context, programs[lane]), position,
                "a stored value depends on something undefined: a lane that a mask turned off, or memory "
                "that was never written",
            )  # fmt: skip
        if origin is None:
            for region, chosen, elements in _places(
                context, "writes", index, values.dtype.itemsize, programs
            ):
                outside = region.outside(elements, values.dtype.itemsize)
                if outside.any():
                    lane = _lane(context, programs[chosen[int(np.flatnonzero(outside)[0])]])
                    message = "writes through an address that lies in no tensor, but beside one"
                    context.report("out of bounds", None, lane, None, message)
                write(context, region, None, programs[chosen], elements, values[chosen])
        else:
            window = context.windows[origin]
            check_written(context, window, index, programs, values.dtype.itemsize)
            write(context, window.region, window, programs, index, values)

    return run


def _active(context: Context, mask: Value) -> Array | None:
    """The lanes that a mask leaves on; None for all."""
    if mask.undef is not None and mask.undef.any():
        lane = int(np.broadcast_to(mask.undef, mask.data.shape).nonzero()[0][0])
        context.report("undefined values", None, lane, None, "a mask depends on something undefined")
    return None if mask.data.all() else mask.data


def _check_address(context: Context, origin: str | None, ptr: Value, lanes: Array | None) -> None:
    for hits, kind, text in (
        (ptr.undef, "undefined values", "an address depends on something undefined"),
        (
            ptr.wrap,
            "offset overflow",
            "an address depends on an int32 result that wrapped around: cast to int64",
        ),
    ):
        if hits is None:
            continue
        hit = hits if lanes is None else hits & lanes
        if hit.any():
            lane = np.argwhere(hit)[0]
            at = tuple(np.minimum(lane, np.array(ptr.data.shape) - 1))
            position = None if origin is None else context.windows[origin].position(int(ptr.data[at]))
            context.report(kind, origin, int(lane[0]), position, text)


def _flattened(
    context: Context, index: Array, value: Value, lanes: Array | None
) -> tuple[Array, Array, Array, Array | None]:
    """Of the active lanes: program, element index, value, whether undefined; each [lanes]."""
    shape = np.broadcast_shapes(index.shape, value.data.shape, () if lanes is None else lanes.shape)
    shape = (len(context.lanes), *shape[1:])
    programs = context.lanes.reshape(-1, *(1,) * (len(shape) - 1))
    parts: list[Any] = [programs, index, value.data, value.undef]
    if lanes is None:
        flat = [None if part is None else np.broadcast_to(part, shape).reshape(-1) for part in parts]
    else:
        chosen = np.flatnonzero(np.broadcast_to(lanes, shape))
        flat = [None if part is None else np.broadcast_to(part, shape).reshape(-1)[chosen] for part in parts]
    return flat[0], flat[1], flat[2], flat[3]  # type: ignore[return-value]


def _lane(context: Context, program: int) -> int:
    return int(np.flatnonzero(context.lanes == program)[0])


def read(
    context: Context, window: Window, index: Array, lanes: Array | None, dtype: np.dtype[Any]
) -> tuple[Array, Array | None]:
    """Elements of an argument [shape of index], and which of them are undefined."""
    region = window.region
    elements = region.elements(dtype)
    undef = None
    if index.size and (not window.dense or index.min() < window.low or index.max() >= window.high):
        outside = window.outside(index)
        if lanes is not None:
            outside = outside & lanes
        if outside.any():
            stray = outside & ((index < 0) | (index >= len(elements)))
            if stray.any():
                _fault(context, "reads", window, index, stray, dtype.itemsize)
            undef = outside
    if not len(elements):
        return np.zeros(index.shape, dtype), undef
    return np.take(elements, index, mode="clip"), either(
        undef, _hazards(context, window, index, lanes, dtype.itemsize)
    )


def _hazards(context: Context, window: Window, index: Array, lanes: Array | None, width: int) -> Array | None:
    """Watch a read; returns the elements that nobody ever wrote."""
    region = window.region
    key = id(region)
    if key in context.updated and not context.alone:
        raise OrderMatters
    never = None
    if region.holes or key in context.written:
        shadow = region.shadow(width)
        if shadow is not None:
            never = region.never(index)
            if never is not None and lanes is not None:
                never = never & lanes if (never & lanes).any() else None
            if key in context.written:
                _check_writers(context, window, index, lanes, np.take(shadow, index, mode="clip"))
    if context.alone:
        races.reads(context, window, index, lanes)
    elif context.several and (context.watched is None or key in context.watched):
        context.reads.setdefault(key, []).append((index, lanes, context.lanes))
    return never


def _check_writers(
    context: Context, window: Window, index: Array, lanes: Array | None, writer: Array
) -> None:
    """Whether a program reads what another one of this launch wrote."""
    mine = (context.lanes + context.first).reshape(-1, *(1,) * (index.ndim - 1))
    foreign = (writer >= context.first) & (writer != mine)
    if lanes is not None:
        foreign = foreign & lanes
    if not foreign.any():
        return
    if not context.alone:
        raise OrderMatters
    at = tuple(np.minimum(np.argwhere(foreign)[0], np.array(index.shape) - 1))
    races.report(context, window, int(index[at]), "reads what another program of the same launch wrote")


def check_written(context: Context, window: Window, index: Array, programs: Array, width: int) -> None:
    """Complain of writes outside the argument, and refuse those outside its storage."""
    if not index.size or (window.dense and index.min() >= window.low and index.max() < window.high):
        return
    outside = window.outside(index)
    if not outside.any():
        return
    stray = outside & ((index < 0) | (index >= window.region.size // width))
    if stray.any():
        at = int(np.flatnonzero(stray)[0])
        _raise(context, "writes", window, int(index[at]), _lane(context, programs[at]), width)
    at = int(np.flatnonzero(outside)[0])
    element = int(index[at])
    context.report(
        "out of bounds", window.name, _lane(context, programs[at]), window.position(element),
        f"writes outside the tensor: {window.place(element)}",
    )  # fmt: skip


def write(
    context: Context, region: Region, window: Window | None, programs: Array, index: Array, values: Array
) -> None:
    """Write ``values`` [lanes] at ``index`` [lanes]; where lanes share an element, the last one stays."""
    if not index.size:
        return
    bits = bits_of(values)
    elements = region.elements(bits.dtype)
    key = id(region)
    if not context.alone and (key in context.updated):
        raise OrderMatters
    if context.several and not context.alone:
        if context.watched is not None and key not in context.watched:
            context.watched.add(key)
            raise OrderMatters
        _check_readers(context, region, programs, index)
    fresh = key not in context.written
    context.keep(region)
    shadow = region.shadow(bits.dtype.itemsize)
    if shadow is None:
        if len(context.lanes) > 1:
            raise OrderMatters
        elements[index] = bits
        context.version += 1
        return
    mine = (programs + context.first).astype(np.int32)
    if not fresh:
        before = shadow[index]
        foreign = (before >= context.first) & (before != mine)
        if foreign.any():
            _conflict(context, window, programs, index, foreign & _unlike(region, index, values))
    if context.alone:
        differs = _unlike(region, index, values)
        races.writes(context, window, region, index, differs)
        context.version += bool(differs.any())
    else:
        context.version += 1
    elements[index] = bits
    shadow[index] = mine
    lost = _unlike(region, index, values)
    if lost.any():
        _conflict(context, window, programs, index, lost & (shadow[index] != mine))
        _conflict(context, window, programs, index, lost & (shadow[index] == mine), "two lanes of a program")


def _unlike(region: Region, index: Array, values: Array) -> Array:
    """Where an element is not what is stored [lanes]: other bits, but not two NaN."""
    bits = bits_of(values)
    differs = np.asarray(region.elements(bits.dtype)[index] != bits)
    if is_float(values.dtype) and differs.any():
        differs &= ~(np.isnan(region.elements(values.dtype)[index]) & np.isnan(values))
    return differs


def _conflict(
    context: Context,
    window: Window | None,
    programs: Array,
    index: Array,
    differs: Array,
    who: str = "two programs",
) -> None:
    """Two of ``who`` store different values to the same element, where ``differs``."""
    if not differs.any():
        return
    if not context.alone:
        raise OrderMatters
    at = int(np.flatnonzero(differs)[0])
    where = "" if window is None else f" in {window.place(int(index[at]))}"
    races.report(context, window, int(index[at]), f"{who} store different values{where}")


def _check_readers(context: Context, region: Region, programs: Array, index: Array) -> None:
    """Whether a program writes what another one of this launch has read."""
    key = id(region)
    pending = context.reads.pop(key, None)
    if pending is not None:
        readers = context.readers.get(key)
        if readers is None:
            readers = context.readers[key] = marks(max(1, region.size), -1)
        for elements, lanes, reading in pending:
            shape = (len(reading), *elements.shape[1:])
            flat = np.broadcast_to(elements, shape).reshape(-1)
            who = np.broadcast_to(reading.reshape(-1, *(1,) * (len(shape) - 1)), shape).reshape(-1)
            if lanes is not None:
                chosen = np.flatnonzero(np.broadcast_to(lanes, shape))
                flat, who = flat[chosen], who[chosen]
            before = readers[flat]
            readers[flat] = who
            several = (readers[flat] != who) | ((before != -1) & (before != who))
            readers[flat[several]] = -2
    if key in context.readers:
        reader = context.readers[key][index]
        if ((reader != -1) & (reader != programs)).any():
            raise OrderMatters


def read_anywhere(
    context: Context, addresses: Array, lanes: Array | None, dtype: np.dtype[Any]
) -> tuple[Array, Array | None]:
    """Elements at addresses that may lie in any known storage."""
    if not context.alone and len(context.lanes) > 1:
        raise OrderMatters
    active = np.ones(addresses.shape, bool) if lanes is None else np.broadcast_to(lanes, addresses.shape)
    chosen = np.flatnonzero(active)
    flat = addresses.reshape(-1)[chosen]
    programs = np.zeros(len(chosen), np.int64) + context.lanes[0]
    data = np.zeros(addresses.size, dtype)
    undef = np.zeros(addresses.size, bool)
    for region, part, index in _places(context, "reads", flat, dtype.itemsize, programs):
        data[chosen[part]] = region.elements(dtype)[index]
        unknown = region.outside(index, dtype.itemsize)
        never = region.never(index) if region.width == dtype.itemsize else None
        undef[chosen[part]] = unknown if never is None else unknown | never
    return data.reshape(addresses.shape), undef.reshape(addresses.shape) if undef.any() else None


def _places(
    context: Context, verb: str, addresses: Array, width: int, programs: Array
) -> list[tuple[Region, Array, Array]]:
    """Split addresses [lanes] by storage: (storage, which lanes, element indices)."""
    left = np.ones(len(addresses), bool)
    found = []
    own = {id(window.region): window.region for window in context.windows.values()}
    for region in (*own.values(), *(each for each in context.memory.regions() if id(each) not in own)):
        inside = left & (addresses - np.uint64(region.base) < np.uint64(max(0, region.size - width + 1)))
        if inside.any():
            offsets = (addresses[inside] - np.uint64(region.base)).view(np.int64)
            if (offsets % width).any():
                stray = int(offsets[offsets % width != 0][0])
                raise MemoryFault(
                    f"{_who(context, 0)} {verb} {width} bytes at byte {stray} of a tensor, "
                    f"which is not a multiple of {width}"
                )
            found.append((region, np.flatnonzero(inside), offsets // width))
            left &= ~inside
    if left.any():
        at = int(np.flatnonzero(left)[0])
        message = f"{verb} {width} bytes at {int(addresses[at]):#x}, in no known tensor"
        lane = _lane(context, programs[at])
        context.report("out of bounds", None, lane, None, message)
        raise MemoryFault(f"{_who(context, lane)} {message}")
    return found


def _fault(context: Context, verb: str, window: Window, index: Array, stray: Array, width: int) -> None:
    lane = np.argwhere(stray)[0]
    at = tuple(np.minimum(lane, np.array(index.shape) - 1))
    _raise(context, verb, window, int(index[at]), int(lane[0]), width)


def _raise(context: Context, verb: str, window: Window, element: int, lane: int, width: int) -> None:
    message = f"{verb} {width} bytes {window.distance(element, width)}"
    context.report("out of bounds", window.name, lane, window.position(element), message)
    raise MemoryFault(f"{_who(context, lane)} {message}")


def _who(context: Context, lane: int) -> str:
    return f"kernel {context.name!r}, program {context.program(lane)},"
