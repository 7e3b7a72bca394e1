"""Replaces the tensors that a function allocates by guarded ones, while torch decides what they look like."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..memory import Block, allocate, fillable

_aten: Final = torch.ops.aten
_UNDEFINED: Final = object()

# operator -> contents, from its positional arguments and its keywords
_CONTENTS: Final[dict[Any, Callable[[Sequence[Any], dict[str, Any]], Any]]] = {
    **dict.fromkeys(
        (
            _aten.empty.memory_format,
            _aten.empty_like.default,
            _aten.empty_permuted.default,
            _aten.empty_strided.default,
            _aten.new_empty.default,
            _aten.new_empty_strided.default,
        ),
        lambda args, kwargs: _UNDEFINED,
    ),
    **dict.fromkeys(
        (_aten.zeros.default, _aten.zeros_like.default, _aten.new_zeros.default), lambda args, kwargs: 0
    ),
    **dict.fromkeys(
        (_aten.ones.default, _aten.ones_like.default, _aten.new_ones.default), lambda args, kwargs: 1
    ),
    **dict.fromkeys(
        (_aten.full.default, _aten.full_like.default),
        lambda args, kwargs: args[1] if len(args) > 1 else kwargs["fill_value"],
    ),
    _aten.new_full.default: lambda args, kwargs: args[2] if len(args) > 2 else kwargs["fill_value"],
}


class Watcher(Protocol):
    """Who wants to know what becomes of tensors."""

    def seen(self, values: Any) -> None:
        """An operator returned these."""

    def written(self, values: Any) -> None:
        """An operator wrote to these arguments."""

    def allocated(self, block: Block, *, empty: bool) -> None:
        """A block was made. empty: it holds nothing but its fill."""


@functools.cache
def _written(func: Any) -> tuple[tuple[int, str], ...]:
    """Position and name of the arguments that an operator writes to."""
    return tuple(
        (number, argument.name)
        for number, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


class GuardedAllocation(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, ``empty``, ``zeros``, ``ones``, ``full`` and their relatives return views into guarded
    blocks.

    Shape, strides, dtype and memory format are torch's own, taken from the same call on the meta device. Left
    alone: results of other operators, sparse and pinned tensors, tensor subclasses, dtypes without a fill,
    and devices other than the CPU and CUDA.
    """

    def __init__(self, fill: str, watcher: Watcher | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._fill, self._watcher = fill, watcher
        self._blocks: list[tuple[Block, weakref.ref[torch.Tensor]]] = []

    @property
    def blocks(self) -> list[Block]:
        """The allocations so far, in order, without those that were resized since."""
        return [block for block, given in self._blocks if block.intact and _unmoved(given(), block.view)]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = self._call(func, types, args, kwargs or {})
        if self._watcher is not None:
            self._watcher.seen(result)
            for number, name in _written(func):
                tensor = args[number] if number < len(args) else (kwargs or {}).get(name)
                if tensor is not None:
                    self._watcher.written(tensor)
        return result

    def _call(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        contents = _CONTENTS.get(func)
        if contents is None or any(kind not in (torch.Tensor, torch.nn.Parameter) for kind in types):
            return func(*args, **kwargs)
        like = args[0] if isinstance(args[0], torch.Tensor) else None
        device = torch.device(kwargs.get("device") or (like.device if like is not None else "cpu"))
        layout = kwargs.get("layout") or (like.layout if like is not None else torch.strided)
        if device.type not in ("cpu", "cuda") or layout != torch.strided or kwargs.get("pin_memory"):
            return func(*args, **kwargs)
        plan = func(*args, **{**kwargs, "device": "meta"})
        if not fillable(plan.dtype):
            return func(*args, **kwargs)
        # The inputs' salts count up from 0: these count down, so that the guards of the two differ.
        block = allocate(
            plan.shape, plan.stride(), plan.dtype, device, fill=self._fill, salt=-1 - len(self._blocks)
        )
        value = contents(args, kwargs)
        if value is not _UNDEFINED:
            block.view.fill_(value)
        if self._watcher is not None:
            self._watcher.allocated(block, empty=value is _UNDEFINED)
        # A tensor with a second owner would be copied on its way out, and its resizing would go unseen.
        given = block.alias()
        self._blocks.append((block, weakref.ref(given)))
        return given


def _unmoved(given: torch.Tensor | None, view: torch.Tensor) -> bool:
    return given is None or (
        given.shape == view.shape
        and given.stride() == view.stride()
        and given.storage_offset() == view.storage_offset()
    )
