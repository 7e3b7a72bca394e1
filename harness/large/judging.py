"""The oracle of a large launch: rows a few at a time, or one long row in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness import oracle, shapes
from harness.arithmetic import Arithmetic
from harness.case import Case
from harness.checks.judgement import Judgement
from harness.checks.sentence import judge
from harness.contracts import Contract
from harness.errors import HarnessError
from harness.formats import decode
from harness.large.contents import TILE, Contents
from harness.numbers.pieces import InPieces, Long
from harness.numbers.read import Answer, read_float64
from harness.parts import Part, divided, parts_at_once

MOST_UNSETTLED = 16
"""Pieces that a GPU's reading leaves open, and the CPU judges instead; it is some hundred times slower."""

MOST_AT_ONCE = 1 << 23
"""Elements of a row that is held in float64."""


@dataclass(frozen=True)
class Piece:
    """Judged rows of a launch.

    start: along the divided axis of ``outputs``, of which ``axes`` are the positions; got: what was returned there;
    rows: situations; device: where the definition was read.
    """

    start: int
    got: list[torch.Tensor]
    outputs: Sequence[Judgement]
    axes: tuple[int, ...]
    rows: int
    device: str


@dataclass(frozen=True)
class Open:
    """Situations that nobody judged, and why the GPU's reading left them open."""

    rows: int
    reason: str


@dataclass(frozen=True)
class Large:
    """A launch to be judged: what its arguments held, by name, and what it returned."""

    contract: Contract
    arithmetic: Arithmetic
    case: Case
    contents: Mapping[str, Contents | None]
    tensors: Sequence[torch.Tensor]
    dtypes: Sequence[str]
    device: str

    def pieces(self) -> Iterator[Piece | Open]:
        """All of it, in order.

        On a GPU the definition is read there: its float64 rounds as a CPU's does, and its elementary functions err
        by at most 2 ulp (CUDA C++ Programming Guide, "Mathematical Functions"; exp, log, tanh by 1), which the
        oracle's radius has room for. A piece that is not right by that reading, or that it cannot settle, is judged
        again on the CPU; of those that it cannot settle, `MOST_UNSETTLED`.
        """
        label, length = divided(self.contract, self.case)
        if label is None:
            yield self._long()
            return
        outputs = [output.shape for output in self.contract.outputs]
        axes = self.contract.axes
        places = []
        for written in (*outputs, *(self.contract.tensors[name].shape for name in self.contents)):
            labels = [axis.label for axis in axes(written, self.case.sizes, self.case.scalars)]
            places.append(labels.index(label) if label in labels else -1)
        if any(place < 0 for place in places[: len(outputs)]) or any(place > 0 for place in places):
            raise HarnessError("a large launch is judged along an axis that comes first where it is")
        counts = [held.count for held in self.contents.values() if held is not None]
        counts += [tensor.numel() for tensor in self.tensors]
        widest = max(1, max(counts) // length)
        if widest > MOST_AT_ONCE:
            raise HarnessError(
                f"a large launch is judged by rows of at most {MOST_AT_ONCE} elements, or as one row; "
                f"here {length} of {widest}"
            )
        step = max(1, parts_at_once(self.device) // widest)
        unsettled = 0
        for start in range(0, length, step):
            count = min(step, length - start)
            piece = self._rows(label, start, count, tuple(places[: len(outputs)]), unsettled < MOST_UNSETTLED)
            yield piece
            unsettled += isinstance(piece, Open) or piece.device != self.device

    def _rows(self, label: Any, start: int, count: int, places: tuple[int, ...], again: bool) -> Piece | Open:
        part = Part(self.contract, self.case, {label: (start, count)})
        sizes = shapes.resized(self.case.sizes, {label: count})
        case = Case(sizes, self.case.scalars, self.case.tensors)
        returned = [
            decode(tensor) if tensor.dtype.is_floating_point else tensor.to(torch.float64)
            for tensor in part.outputs(self.tensors)
        ]
        rows = self.contract.situations(sizes, self.case.scalars)
        for device in dict.fromkeys((self.device, "cpu")):
            exact = {name: self._slice(name, label, start, count, device) for name in self.contents}
            got = [tensor.to(device) for tensor in returned]
            try:
                outputs = oracle.judge_case(
                    self.contract, self.arithmetic, case, exact, got, self.dtypes
                ).outputs
                right = all(judged.right_everywhere for judged in outputs)
            except (RuntimeError, TypeError, HarnessError) as error:
                if device == "cpu":
                    raise
                if not again:
                    return Open(rows, str(error).partition("\n")[0])
                continue
            if right or device == "cpu":
                break
        return Piece(start, got, outputs, places, rows, device)

    def _slice(self, name: str, label: Any, start: int, count: int, device: str) -> torch.Tensor | None:
        held = self.contents[name]
        if held is None:
            return None
        axes = self.contract.axes(self.contract.tensors[name].shape, self.case.sizes, self.case.scalars)
        if label not in [axis.label for axis in axes]:
            return held.exact(0, held.count, device).reshape(held.shape)
        pitch = held.count // held.shape[0]
        return held.exact(start * pitch, (start + count) * pitch, device).reshape(count, *held.shape[1:])

    def _long(self) -> Piece:
        """The one situation of a launch whose largest tensors are a single row."""
        step = parts_at_once(self.device)
        exact: dict[str, Any] = {
            name: held if held is None else _as_argument(held, step) for name, held in self.contents.items()
        }
        got = [oracle.decoded(tensor) for tensor in self.tensors]
        call = oracle.arguments(self.contract, self.case, exact, got)
        model = oracle.model_for(self.contract, self.arithmetic, self.case)
        wanted = oracle.targets(self.contract, self.arithmetic, self.case, self.dtypes)
        found = [tuple(tensor.shape) for tensor in got]
        answers = read_float64(self.contract.definition, call, model, found, backend=InPieces(self.device))
        outputs = [judge(g, _here(a), target) for g, a, target in zip(got, answers, wanted, strict=True)]
        return Piece(0, got, outputs, (0,) * len(outputs), 1, self.device)


def _as_argument(held: Contents, step: int) -> torch.Tensor | Long:
    if held.count <= TILE:
        return held.exact(0, held.count).reshape(held.shape)
    axis = max(range(len(held.shape)), key=lambda at: held.shape[at])
    if held.shape[axis] != held.count:
        raise HarnessError("a large tensor without rows is judged along its only axis")
    shape = [1] * len(held.shape)

    def piece(start: int, stop: int) -> torch.Tensor:
        shape[axis] = stop - start
        return held.exact(start, stop).reshape(shape)

    return Long(held.shape, axis, step, piece)


def _here(answer: Answer) -> Answer:
    """An answer on the CPU."""
    return replace(answer, value=answer.value.cpu(), t=answer.t.cpu(), may=answer.may.cpu())
