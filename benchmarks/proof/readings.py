"""The readings that claim a radius, as the proof holds them against mpmath."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from harness.numbers import Answer, read_double, read_float64
from harness.numbers.model import Model
from harness.numbers.pieces import InPieces, Long, NotInPieces

Read = Callable[..., list[Answer]]

PIECE = 7
"""Elements in a piece: few, so that short rows have several pieces and a last one that is shorter."""


class Reads(NamedTuple):
    """A reading; whole: that of what a kernel would return, where the definition is given it; tier: its place in
    :data:`harness.oracle.TIERS`."""

    tier: int
    whole: Read
    read: Read


def read_in_pieces(
    definition: Callable[..., Any],
    arguments: Mapping[str, Any],
    model: Model,
    shapes: Sequence[tuple[int, ...] | None],
) -> list[Answer]:
    """The float64 reading with tensors long along the first axis, from the last, along which that can be done."""
    ranks = [value.ndim for value in arguments.values() if isinstance(value, torch.Tensor)]
    for place in range(1, max(ranks, default=0) + 1):
        given = {name: _long(value, place) for name, value in arguments.items()}
        if any(isinstance(value, Long) for value in given.values()):
            with contextlib.suppress(NotInPieces):
                return read_float64(definition, given, model, shapes, backend=InPieces())
    raise NotInPieces("is read in pieces along no axis")


def _long(value: Any, place: int) -> Any:
    """A tensor in pieces along its axis ``place`` from the last, where it has one to cut."""
    if not isinstance(value, torch.Tensor) or value.ndim < place or value.shape[-place] < 2:
        return value
    axis = value.ndim - place
    return Long(tuple(value.shape), axis, PIECE, lambda start, stop: value.narrow(axis, start, stop - start))


READINGS = {
    "float64": Reads(0, read_float64, read_float64),
    "in-pieces": Reads(0, read_float64, read_in_pieces),
    "double-double": Reads(1, read_double, read_double),
}
