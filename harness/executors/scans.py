"""Scans over one axis of a block, in the order and the format in which a GPU takes them.

As Triton lowers them (ScanOpToLLVM; bit for bit what an H200 gives under Triton 3.6.0): each thread scans its
own elements, the lanes of a warp their last results by Kogge and Stone's scheme; the last results of the warps
before, combined one after the other, enter each warp's; and the result of the lane before enters those of a
lane's own elements that are not its last.
"""

from __future__ import annotations

import numpy as np

from .profile import Spread
from .reductions import Combine, Values


def scan(values: Values, axis: int, combine: Combine, spread: Spread, *, reverse: bool) -> Values:
    """Inclusive scan along ``axis``."""
    shape = (spread.repeats, spread.warps, spread.lanes, spread.run)
    moved = [np.moveaxis(value, axis, -1) for value in values]
    if reverse:
        moved = [part[..., ::-1] for part in moved]
    parts = tuple(part.reshape(*part.shape[:-1], *shape) for part in moved)
    own = _one_by_one(parts, combine)
    last = _kogge_stone(_at(own, -1), combine)
    if spread.repeats * spread.warps > 1:
        last = _groups(last, combine)
    if spread.run > 1:
        own = _neighbours(own, last, combine)
    results = []
    for part, end in zip(own, last, strict=True):
        whole = np.concatenate([part[..., :-1], end[..., None]], axis=-1)
        whole = whole.reshape(*whole.shape[:-4], -1)
        results.append(np.moveaxis(whole[..., ::-1] if reverse else whole, -1, axis))
    return tuple(results)


def _groups(last: Values, combine: Combine) -> Values:
    """Let the sum of all warps before, in all repeats, enter each warp's results [.., repeats, warps, lanes]."""
    groups = tuple(part.reshape(*part.shape[:-3], -1, part.shape[-1]) for part in last)
    before = tuple(part[..., :-1] for part in _one_by_one(_at(groups, -1), combine))
    later = tuple(group[..., 1:, :] for group in groups)
    entered = combine(
        tuple(np.broadcast_to(part[..., None], each.shape) for part, each in zip(before, later, strict=True)),
        later,
    )
    return tuple(
        np.concatenate([group[..., :1, :], part], axis=-2).reshape(whole.shape)
        for group, part, whole in zip(groups, entered, last, strict=True)
    )


def _at(values: Values, index: int) -> Values:
    return tuple(np.asarray(value[..., index]) for value in values)


def _one_by_one(values: Values, combine: Combine) -> Values:
    """Scan the last axis."""
    results = [_at(values, 0)]
    for index in range(1, values[0].shape[-1]):
        results.append(combine(results[-1], _at(values, index)))
    return tuple(np.stack(parts, axis=-1) for parts in zip(*results, strict=True))


def _kogge_stone(values: Values, combine: Combine) -> Values:
    """Scan the last axis: each result takes in what lies 1, 2, 4, … before it."""
    reach, length = 1, values[0].shape[-1]
    while reach < length:
        later = combine(
            tuple(value[..., :-reach] for value in values), tuple(value[..., reach:] for value in values)
        )
        values = tuple(
            np.concatenate([value[..., :reach], part], axis=-1)
            for value, part in zip(values, later, strict=True)
        )
        reach *= 2
    return values


def _neighbours(own: Values, last: Values, combine: Combine) -> Values:
    """Let the last result of the thread before enter each of a thread's elements but its own last."""
    threads = tuple(part.reshape(*part.shape[:-4], -1, part.shape[-1]) for part in own)
    ends = tuple(part.reshape(*part.shape[:-3], -1) for part in last)
    later = tuple(part[..., 1:, :-1] for part in threads)
    entered = combine(
        tuple(
            np.broadcast_to(end[..., :-1, None], part.shape) for end, part in zip(ends, later, strict=True)
        ),
        later,
    )
    results = []
    for part, whole, shaped in zip(entered, threads, own, strict=True):
        changed = np.array(whole)
        changed[..., 1:, :-1] = part
        results.append(changed.reshape(shaped.shape))
    return tuple(results)
