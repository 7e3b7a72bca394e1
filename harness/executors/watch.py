"""What becomes of a function's tensors outside its kernels, and what it returns that nobody wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .. import spread
from ..memory import Block
from .context import Findings
from .faults import Fault
from .marks import Pages
from .storage import NEVER, Memory


class Watch:
    """Keeps an execution's `Memory` up to date with what torch does."""

    def __init__(self, memory: Memory, findings: Findings, configs: dict[str, list[str]]) -> None:
        self._memory, self._findings, self.configs = memory, findings, configs

    def given(self, values: Any) -> None:
        """These are arguments of the function."""
        self._memory.own(_tensors(values))

    def seen(self, values: Any) -> None:
        self._memory.know(_tensors(values))

    def written(self, values: Any) -> None:
        for tensor in _tensors(values):
            region = self._memory.find(tensor)
            if region is not None:
                region.define()

    def allocated(self, block: Block, *, empty: bool) -> None:
        self._memory.own([block.view])
        if empty and block.storage.device.type == "cpu":
            at = block.base if spread.is_spread(block.view.shape, block.span) else 0
            self._memory.region(block.storage).forget(block.storage.element_size(), at)

    def findings(self, value: Any, blocks: Sequence[Block]) -> list[Fault]:
        """All faults, with a last one for each returned tensor that has elements nobody wrote."""
        with _disable_current_modes():
            for number, tensor in enumerate(_tensors(value)):
                block = next((block for block in blocks if block.holds(tensor)), None)
                if block is not None and tensor.device.type == "cpu":
                    self._unwritten(number, tensor.detach(), block)
        return list(self._findings.faults)

    def _unwritten(self, number: int, tensor: torch.Tensor, block: Block) -> None:
        region = self._memory.find(tensor)
        if region is None or not region.holes or not tensor.numel():
            return
        shadow = None if region.untouched else region.shadow(tensor.element_size())
        if region.untouched and region.width == tensor.element_size():
            never = torch.ones((), dtype=torch.bool)
        elif shadow is None:
            return
        elif isinstance(shadow, Pages):
            places = spread.offsets(tensor.shape, tensor.stride()) + tensor.storage_offset()
            never = torch.from_numpy(shadow[places.numpy()] == NEVER)
        else:
            never = torch.from_numpy(shadow == NEVER).as_strided(
                tensor.shape, tensor.stride(), tensor.storage_offset()
            )
        never = never & block.untouched(tensor)
        if bool(never.any()):
            index = tuple(int(at) for at in never.nonzero()[0])
            name = f"returned tensor {number}"
            message = (
                f"{name}{list(index)} was never written ({int(never.sum())} of {never.numel()} elements)"
            )
            self._findings.add(Fault("written", message, "", None, name, index))


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, Mapping):
        yield from _tensors(list(values.values()))
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)
