"""Numbers rearranged: reshaped, transposed, joined, picked by index; exact operations that move t and flags along."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from harness.numbers.backend import Array
from harness.numbers.double import Double, joined
from harness.numbers.number import Number, moves
from harness.numbers.pieces import Long, lifted


def reshape(x: Number, shape: Sequence[int]) -> Number:
    """The same elements, in the same order, in another shape; one length may be -1."""
    if -1 in shape:
        rest = math.prod(n for n in shape if n != -1)
        shape = [math.prod(x.shape) // rest if n == -1 and rest else max(n, 0) for n in shape]
    return _moved(x, lambda a: a.reshape(tuple(shape)))


def transpose(x: Number, first: int = -1, second: int = -2) -> Number:
    """Two axes exchanged."""
    return _moved(
        x, lambda a: a.transpose(first, second) if isinstance(a, torch.Tensor) else a.swapaxes(first, second)
    )


def unsqueeze(x: Number, dim: int) -> Number:
    """A new axis of length 1 before axis ``dim``."""
    return _moved(x, lambda a: a.unsqueeze(dim) if isinstance(a, torch.Tensor) else np.expand_dims(a, dim))


def expand(x: Number, shape: Sequence[int]) -> Number:
    """Broadcast to a shape."""
    return _moved(
        x, lambda a: a.expand(*shape) if isinstance(a, torch.Tensor) else np.broadcast_to(a, tuple(shape))
    )


def repeat_interleave(x: Number, times: int, dim: int) -> Number:
    """Each element ``times`` times along an axis."""
    return _moved(
        x,
        lambda a: (
            a.repeat_interleave(times, dim) if isinstance(a, torch.Tensor) else np.repeat(a, times, axis=dim)
        ),
    )


def concatenate(parts: Sequence[Number], dim: int) -> Number:
    """Numbers joined along an axis."""
    return _joined(parts, lambda arrays: _concatenate(arrays, dim))


def stack(parts: Sequence[Number], dim: int) -> Number:
    """Numbers of one shape joined along a new axis."""
    return concatenate([unsqueeze(part, dim) for part in parts], dim)


def take_along(x: Number, index: Number, dim: int) -> Number:
    """x[…, index, …]: one element along ``dim`` for each of an exact number of whole values.

    index: the shape of x with any length along ``dim``. Indices outside the axis are clamped to it; mask
    such elements with ``where``.
    """
    last = x.shape[dim] - 1

    def pick(a: Array) -> Array:
        if isinstance(a, torch.Tensor):
            return a.gather(dim, _word(index.v).to(torch.int64).clamp(0, last))
        whole = np.asarray(index.v, dtype=np.float64).astype(np.int64)
        return np.take_along_axis(a, np.clip(whole, 0, last), axis=dim)

    return _moved(x, pick)


def positions(x: Number, dim: int) -> Any:
    """0, 1, 2, … along one axis of x, as an integer array that broadcasts to its shape; for masks."""
    x.reading.numbered.append(dim)
    if isinstance(x.v, Long):
        return x.v.places(dim % x.v.ndim)
    shape = [1] * len(x.shape)
    shape[dim] = x.shape[dim]
    if isinstance(x.v, torch.Tensor | Double):
        return torch.arange(x.shape[dim], device=x.v.device).reshape(shape)
    return np.arange(x.shape[dim]).reshape(shape)


def numbered(x: Number, dim: int) -> Number:
    """0, 1, 2, … along one axis of x, exact numbers that broadcast to its shape: for arithmetic, as a bias by distance."""
    places = positions(x, dim)
    if isinstance(places, Long):
        return x.reading.exact(lifted(lambda part: part.to(torch.float64), places))
    return x.reading.exact(x.reading.backend.leaf(torch.as_tensor(places).to(torch.float64)))


def pivot(x: Number) -> Number:
    """x as a reference point that cancels, such as the maximum under a softmax: its own error does not count.

    Subtracting a pivot and adding it back (or dividing it out) is right for any pivot near x, so that what
    an implementation's pivot differs by is no error of the result.
    """
    return Number(x.reading, x.v, 0.0, x.may, nonnegative=x.nonnegative)


def argmax(x: Number, dim: int) -> Number:
    """Index of the largest element of exact numbers: the first of ties, the first NaN before all."""
    return _first_extreme(x, dim, 1)


def argmin(x: Number, dim: int) -> Number:
    """Index of the smallest element of exact numbers: the first of ties, the first NaN before all."""
    return _first_extreme(x, dim, -1)


def _first_extreme(x: Number, dim: int, sign: int) -> Number:
    xp = x.reading.backend
    if not x.exact:
        raise TypeError(
            "a definition takes argmax or argmin of numbers that carry a rounding error; see Output 'choice'"
        )
    dim %= len(x.shape)
    signed = x.v if sign > 0 else -x.v
    best = xp.amax(signed, dim)
    return x.reading.exact(xp.first_along((signed == best) | xp.isnan(signed), dim))


def _moved(x: Number, move: Callable[[Array], Array]) -> Number:
    t = x.error
    if not moves(t):
        t = move(x.reading.backend.filled(x.t, x.v))
    v = x.v.each(move) if isinstance(x.v, Double) else move(x.v)
    may, beyond = (None if mask is None else move(_wide(mask, x.v)) for mask in (x.may, x.beyond))
    return Number(x.reading, v, t, may, beyond=beyond, nonnegative=x.nonnegative)


def _joined(parts: Sequence[Number], join: Callable[[list[Array]], Array]) -> Number:
    first = parts[0]
    xp = first.reading.backend
    v = join([part.v for part in parts])
    t: Any = 0.0
    if not all(part.exact for part in parts):
        t = join([xp.filled(part.t, part.v) for part in parts])
    may = None
    if any(part.may is not None for part in parts):
        may = join([_flags(part) for part in parts])
    return Number(first.reading, v, t, may, nonnegative=all(part.nonnegative for part in parts))


def _flags(x: Number) -> Array:
    xp = x.reading.backend
    return xp.flags(xp.isnan(x.v) & False, 0) if x.may is None else _wide(x.may, x.v)


def _wide(may: Array, v: Array) -> Array:
    return may.expand(v.shape) if isinstance(may, torch.Tensor) else np.broadcast_to(may, v.shape)


def _word(a: Array) -> Array:
    return a.hi if isinstance(a, Double) else a


def _concatenate(arrays: list[Array], dim: int) -> Array:
    if isinstance(arrays[0], Double):
        return joined(arrays, dim)
    return torch.cat(arrays, dim) if isinstance(arrays[0], torch.Tensor) else np.concatenate(arrays, axis=dim)
