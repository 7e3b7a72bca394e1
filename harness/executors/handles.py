"""What Triton's front end carries around as a value: registers, block pointers and tensor descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Recorder(Protocol):
    def release(self, register: int) -> None: ...


class Handle:
    """A register with its shape [] or [block] and Triton element type.

    A pointer also names the argument it came from; it then counts elements from the start of that argument's
    storage, and without origin holds addresses.
    """

    __slots__ = ("_recorder", "dtype", "factors", "origin", "register", "shape")

    def __init__(
        self, register: int, shape: tuple[int, ...], dtype: Any, origin: str | None, recorder: Recorder
    ) -> None:
        self.register, self.shape, self.dtype, self.origin = register, shape, dtype, origin
        self.factors: tuple[Handle, Handle] | None = None
        """Of a product that may be contracted with a sum."""
        self._recorder = recorder

    def __del__(self) -> None:
        recorder = getattr(self, "_recorder", None)  # absent where making it was interrupted
        if recorder is not None:
            recorder.release(self.register)


class BlockPointer:
    """tl.make_block_ptr: a window of ``block`` elements at ``offsets`` of a strided tensor."""

    def __init__(
        self,
        base: Handle,
        shape: Sequence[Handle],
        strides: Sequence[Handle],
        offsets: Sequence[Handle],
        block: tuple[int, ...],
    ) -> None:
        self.base, self.shape, self.strides, self.offsets, self.block = base, shape, strides, offsets, block


class Descriptor:
    """tl.make_tensor_descriptor: elements outside the tensor read as the padding and are not written."""

    def __init__(
        self,
        base: Handle,
        shape: Sequence[Handle],
        strides: Sequence[Handle],
        block: tuple[int, ...],
        padding: Any,
    ) -> None:
        self.base, self.shape, self.strides, self.block, self.padding = base, shape, strides, block, padding
        self.round_to_tf32 = False
