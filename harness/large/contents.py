"""What the tensors of a large launch hold: a tile of moderate size, over again from beginning to end.

A tensor of more than `TILE` elements repeats the rows that its recipe has first, as many as fit into a tile;
one whose rows are longer, or single elements, repeats the beginning of its row. Planted values stay where they
are. So any piece is made where it is needed, on any device, and nothing is held but the tile. The tile's
length, or its number of rows, is odd: what is 2^31 or 2^32 elements away is not the same.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from harness.case import Case, Grid, Recipe, grid, logical_values, number_kind, shape_of
from harness.contracts import Contract
from harness.errors import HarnessError
from harness.formats import Format, decode, encode, format_of, from_hex, is_integer
from harness.memory import Block, allocate
from harness.values.counter import Floats
from harness.values.rows import raw_row, round_rows
from harness.values.whole import Range

LARGE = 1 << 26
"""Elements of its largest tensor from which on a launch is a large one."""

TILE = 1 << 21
"""Elements of a tile at most."""


def is_large(contract: Contract, case: Case) -> bool:
    """Whether the case is judged in pieces."""
    whole = contract.at(case.sizes)
    return any(
        recipe is not None and math.prod(shape_of(whole, case, name)) >= LARGE
        for name, recipe in case.tensors.items()
    )


class Contents:
    """One tensor of a large launch: its shape, and its elements from a start to a stop, in row-major order."""

    def __init__(self, contract: Contract, case: Case, name: str, device: str) -> None:
        recipe = case.tensors[name]
        assert recipe is not None
        self.device = device
        self.shape = shape_of(contract, case, name)
        self.count = math.prod(self.shape)
        self.format = recipe.format
        cells = grid(contract, case, name)
        self._planted: tuple[tuple[int, float], ...] = ()
        kind = number_kind(contract, case, name)
        if self.count <= TILE:
            tile = logical_values(contract, case, name).reshape(-1)
        elif recipe.layout.name != "contiguous":
            raise HarnessError(f"a large tensor is contiguous; {name!r} is {recipe.layout.name}")
        else:
            tile = _tile(contract, recipe, cells, kind, name)
            if cells.content_axes and cells.rows == 1:
                self._planted = tuple(sorted((at % self.count, from_hex(x)) for at, x in recipe.row(0).plant))
        self._tile = self._stored(torch.from_numpy(np.ascontiguousarray(tile)))

    def _stored(self, values: torch.Tensor) -> torch.Tensor:
        if is_integer(self.format):
            return values.to(getattr(torch, self.format)).to(self.device)
        return encode(values, format_of(self.format), self.device)

    @property
    def bytes(self) -> int:
        """Of the whole tensor."""
        return self.count * self._tile.element_size()

    def stored(self, start: int, stop: int) -> torch.Tensor:
        """[stop - start] elements as they are stored, a new tensor."""
        period = len(self._tile)
        made = torch.empty(stop - start, dtype=self._tile.dtype, device=self.device)
        bits, tile = bits_of(made), bits_of(self._tile)
        at = start
        while at < stop:
            inside = at % period
            length = min(period - inside, stop - at)
            bits[at - start : at - start + length] = tile[inside : inside + length]
            at += length
        for place, value in self._planted:
            if start <= place < stop:
                bits[place - start] = bits_of(self._stored(torch.tensor([value], dtype=torch.float64)))[0]
        return made

    def exact(self, start: int, stop: int, device: str | None = None) -> torch.Tensor:
        """Their exact values, float64."""
        stored = self.stored(start, stop).to(device or self.device)
        return stored.to(torch.float64) if is_integer(self.format) else decode(stored)

    def block(self, salt: int, step: int) -> Block:
        """The whole tensor, contiguous in guarded memory, filled ``step`` elements at a time."""
        strides = torch.empty(self.shape, device="meta").stride()
        block = allocate(self.shape, strides, self._tile.dtype, self.device, fill="nan", salt=salt)
        flat = bits_of(block.view.view(-1))
        for start in range(0, self.count, step):
            stop = min(start + step, self.count)
            flat[start:stop] = bits_of(self.stored(start, stop))
        return block


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as integers of the same width."""
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.view(width)


def _tile(contract: Contract, recipe: Recipe, cells: Grid, kind: Format | Range, name: str) -> Floats:
    """What is repeated: whole rows, or the beginning of the one row that elements are taken from."""
    if cells.content_axes and cells.rows > 1 and cells.row_axes != tuple(range(len(cells.row_axes))):
        raise HarnessError(f"the rows of a large tensor lie one after the other; those of {name!r} do not")
    if cells.content_axes and cells.rows > 1 and cells.length <= TILE:
        count = min(cells.rows, TILE // cells.length - (1 - TILE // cells.length % 2))
        rows = [recipe.row(number) for number in range(max(1, count))]
        length = cells.length
    else:
        single = recipe.rows[:1] if cells.content_axes else recipe.rows
        rows, length = list(single), TILE // len(single) - (1 - TILE // len(single) % 2)
    made = [
        raw_row(contract, row.family, row.seed, length, kind, dict(row.params), row.values) for row in rows
    ]
    whole = np.stack(made)
    if cells.content_axes and cells.rows > 1:
        for row, values in zip(rows, whole, strict=True):
            for index, text in row.plant:
                if -length <= index < length:
                    values[index] = from_hex(text)
    return round_rows((whole if cells.content_axes else whole.T).reshape(-1), kind)
