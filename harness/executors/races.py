"""Accesses of programs to the same memory that nothing puts in order, seen while they run one at a time.

A program that used the result of an atomic operation, or read memory as volatile, may have waited for others:
from then on nothing is said about that launch.
"""

from __future__ import annotations

import numpy as np

from .casts import Array
from .context import Context
from .marks import marks
from .memory_map import Window
from .storage import Region

NOBODY, SEVERAL = -1, -2
"""In a record of who did something to an element; otherwise the number of a program."""


def report(context: Context, window: Window | None, element: int, message: str) -> None:
    """The running program and another one are in no order."""
    if not context.locks:
        name, position = (None, None) if window is None else (window.name, window.position(element))
        context.report("race", name, 0, position, f"{message}, in no order")


def reads(context: Context, window: Window, index: Array, lanes: Array | None) -> None:
    """The running program reads elements [shape of index]; those that the launch also writes are noted."""
    region = window.region
    if context.locks or (context.watched is not None and id(region) not in context.watched):
        return
    flat = _active(index, lanes)
    changed = _others(context, context.changed, region, flat)
    if changed.any():
        element = int(flat[np.flatnonzero(changed)[0]])
        report(context, window, element, "reads what another program of the same launch changes atomically")
    _note(context, context.readers, region, flat)


def writes(context: Context, window: Window | None, region: Region, index: Array, differs: Array) -> None:
    """The running program stores to elements [lanes]. differs: where the value is not the one there."""
    if context.locks:
        return
    for record, what in ((context.readers, "has read"), (context.changed, "changes atomically")):
        others = _others(context, record, region, index) & differs
        if others.any():
            element = int(index[np.flatnonzero(others)[0]])
            report(context, window, element, f"stores to what another program of the same launch {what}")


def changes(context: Context, window: Window | None, region: Region, index: Array, width: int) -> None:
    """The running program changes elements [lanes] atomically."""
    if context.locks:
        return
    shadow = region.shadow(width)
    if shadow is not None:
        writer = shadow[index]
        stored = (writer >= context.first) & (writer != context.first + int(context.lanes[0]))
        for others, what in (
            (stored, "stored"),
            (_others(context, context.readers, region, index), "has read"),
        ):
            if others.any():
                element = int(index[np.flatnonzero(others)[0]])
                report(
                    context,
                    window,
                    element,
                    f"changes atomically what another program of the same launch {what}",
                )
    _note(context, context.changed, region, index)


def _active(index: Array, lanes: Array | None) -> Array:
    if lanes is None:
        return index.reshape(-1)
    shape = np.broadcast_shapes(index.shape, lanes.shape)
    return np.asarray(np.broadcast_to(index, shape)[np.broadcast_to(lanes, shape)])


def _others(context: Context, record: dict[int, Array], region: Region, index: Array) -> Array:
    """Of elements [lanes]: whether a program other than the running one is on record."""
    known = record.get(id(region))
    if known is None:
        return np.zeros(index.shape, bool)
    who = known[index]
    return np.asarray((who != NOBODY) & (who != int(context.lanes[0])))


def _note(context: Context, record: dict[int, Array], region: Region, index: Array) -> None:
    """Put the running program on record for elements [lanes]."""
    known = record.get(id(region))
    if known is None:
        known = record[id(region)] = marks(max(1, region.size), NOBODY)
    mine = int(context.lanes[0])
    who = known[index]
    known[index] = np.where((who == NOBODY) | (who == mine), mine, SEVERAL)
