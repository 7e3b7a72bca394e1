"""The builder behind Triton's front end: each ``create_*`` computes on NumPy arrays instead of emitting IR.

Triton's ``TritonSemantic`` does the typing (promotion, broadcasting, implicit casts) and calls these methods;
they differ between Triton versions only in trailing hints, which are ignored. A scalar is an array of shape
[1].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton.language as tl

from . import atomics
from .casts import Array, bits_of
from .elementwise import Elementwise, numpy_type
from .faults import NotSimulated
from .handles import BlockPointer, Descriptor, Handle
from .poison import poison_value
from .profile import Profile
from .storage import Memory


class Builder(Elementwise):
    """Computes one program at a time; `program` and `grid` say which one of how many."""

    def __init__(
        self,
        profile: Profile,
        memory: Memory,
        fill: str,
        options: SimpleNamespace,
        min_dot_size: Callable[[Any, Any], tuple[int, int, int]],
    ) -> None:
        self.profile, self.memory, self.fill, self.options = profile, memory, fill, options
        self.codegen_fns = {"min_dot_size": min_dot_size}
        self.program = (0, 0, 0)
        self.grid = (1, 1, 1)

    def __getattr__(self, name: str) -> Any:
        raise NotSimulated(f"the CPU executor does not implement {name.removeprefix('create_')!r}")

    def get_cache_policy(self, *hints: Any) -> None:
        return None

    # the grid

    def create_get_program_id(self, axis: int) -> Handle:
        return Handle(np.array([self.program[axis]], np.int32), tl.int32)

    def create_get_num_programs(self, axis: int) -> Handle:
        return Handle(np.array([self.grid[axis]], np.int32), tl.int32)

    def create_barrier(self) -> None:
        """One program runs at a time, in one thread."""

    # memory

    def create_load(self, ptr: Handle, *hints: Any) -> Handle:
        return self._load(ptr, None, None)

    def create_masked_load(self, ptr: Handle, mask: Handle, other: Handle | None, *hints: Any) -> Handle:
        return self._load(ptr, mask.data, other)

    def create_store(self, ptr: Handle, value: Handle, *hints: Any) -> None:
        self._store(ptr, value, None)

    def create_masked_store(self, ptr: Handle, value: Handle, mask: Handle, *hints: Any) -> None:
        self._store(ptr, value, mask.data)

    def _load(self, ptr: Handle, mask: Array | None, other: Handle | None) -> Handle:
        """Lanes that the mask turns off take ``other``; without one they are undefined, here the fill."""
        element = ptr.dtype.element_ty
        dtype = numpy_type(element)
        data = self.memory.read(ptr.data, mask, dtype.itemsize, ptr.region).view(dtype)
        if mask is not None and not mask.all():
            data = np.where(mask, data, poison_value(dtype, self.fill) if other is None else other.data)
        return Handle(data, element)

    def _store(self, ptr: Handle, value: Handle, mask: Array | None) -> None:
        self.memory.write(ptr.data, mask, bits_of(value.data), ptr.region)

    def create_tensor_pointer_load(
        self, ptr: BlockPointer, check: Sequence[int], padding: Any, *hints: Any
    ) -> Handle:
        addresses, mask = ptr.addresses(check)
        other = None if padding is None else self._padding(addresses.dtype.element_ty, padding)
        return self._load(addresses, mask, other)

    def create_tensor_pointer_store(
        self, ptr: BlockPointer, value: Handle, check: Sequence[int], *hints: Any
    ) -> None:
        addresses, mask = ptr.addresses(check)
        self._store(addresses, value, mask)

    def create_make_block_ptr(
        self,
        base: Handle,
        shape: list[Handle],
        strides: list[Handle],
        offsets: list[Handle],
        block_shape: list[int],
        order: list[int],
    ) -> BlockPointer:
        return BlockPointer(base, _whole(shape), _whole(strides), _whole(offsets), tuple(block_shape))

    def create_advance(self, ptr: BlockPointer, offsets: list[Handle]) -> BlockPointer:
        return ptr.advanced(_whole(offsets))

    def create_make_tensor_descriptor(
        self,
        base: Handle,
        shape: list[Handle],
        strides: list[Handle],
        block_shape: Sequence[int],
        is_signed: bool,
        padding: Any,
        *hints: Any,
    ) -> Descriptor:
        return Descriptor(
            base, _whole(shape), _whole(strides), tuple(int(size) for size in block_shape), padding
        )

    def create_descriptor_load(self, desc: Descriptor, indices: list[Handle], *hints: Any) -> Handle:
        addresses, mask = desc.addresses(_whole(indices))
        return desc.rounded(
            self._load(addresses, mask, self._padding(addresses.dtype.element_ty, desc.padding))
        )

    def create_descriptor_store(self, desc: Descriptor, value: Handle, indices: list[Handle]) -> None:
        addresses, mask = desc.addresses(_whole(indices))
        self._store(addresses, value, mask)

    def create_descriptor_gather(self, desc: Descriptor, rows: Handle, column: Handle, ty: Any) -> Handle:
        loaded = [
            self.create_descriptor_load(desc, [_scalar(row), column]).data for row in rows.data.tolist()
        ]
        return Handle(np.concatenate(loaded, axis=0), ty.scalar)

    def create_descriptor_scatter(
        self, desc: Descriptor, value: Handle, rows: Handle, column: Handle
    ) -> None:
        for index, row in enumerate(rows.data.tolist()):
            self.create_descriptor_store(
                desc, value.like(value.data[index : index + 1]), [_scalar(row), column]
            )

    def _padding(self, element: Any, padding: Any) -> Handle:
        nan = str(padding).endswith("NAN")
        return Handle(np.full(1, np.nan if nan else 0, numpy_type(element)), element)

    # atomics: one lane after the other where lanes share an address

    def create_atomic_rmw(self, op: Any, ptr: Handle, value: Handle, mask: Handle, *hints: Any) -> Handle:
        name = str(op).rpartition(".")[2]
        old = atomics.update(self.memory, ptr, value.data, mask.data, atomics.READ_MODIFY_WRITE[name])
        return value.like(np.where(mask.data, old, poison_value(old.dtype, self.fill)))

    def create_atomic_cas(self, ptr: Handle, expected: Handle, value: Handle, *hints: Any) -> Handle:
        return value.like(atomics.compare_and_swap(self.memory, ptr, expected.data, value.data))

    def create_atomic_load(self, ptr: Handle, mask: Handle, *hints: Any) -> Handle:
        return self._load(ptr, mask.data, None)

    def create_atomic_store(self, ptr: Handle, value: Handle, mask: Handle, *hints: Any) -> None:
        self._store(ptr, value, mask.data)

    # blocks

    def create_make_range(self, ty: Any, start: int, stop: int) -> Handle:
        return Handle(np.arange(start, stop, dtype=np.int32), tl.int32)

    def create_addptr(self, ptr: Handle, offset: Handle) -> Handle:
        size = max(1, ptr.dtype.element_ty.primitive_bitwidth // 8)
        return ptr.like(ptr.data + (offset.data.astype(np.int64) * size).view(np.uint64))

    def create_select(self, condition: Handle, x: Handle, y: Handle) -> Handle:
        region = x.region if x.region is y.region else None
        return Handle(np.where(condition.data, x.data, y.data), x.dtype, region)

    def create_splat(self, ty: Any, x: Handle) -> Handle:
        return x.like(np.broadcast_to(x.data.reshape((1,) * len(ty.shape)), _shape(ty.shape)))

    def create_unsplat(self, x: Handle) -> Handle:
        return x.like(x.data.reshape(1))

    def create_broadcast(self, x: Handle, shape: Sequence[int]) -> Handle:
        return x.like(np.broadcast_to(x.data, _shape(shape)))

    def create_expand_dims(self, x: Handle, axis: int) -> Handle:
        return x.like(np.expand_dims(x.data, axis))

    def create_reshape(self, x: Handle, shape: Sequence[int], allow_reorder: bool) -> Handle:
        return x.like(x.data.reshape(_shape(shape)))

    def create_trans(self, x: Handle, order: Sequence[int]) -> Handle:
        return x.like(np.transpose(x.data, [int(axis) for axis in order]))

    def create_cat(self, x: Handle, y: Handle) -> Handle:
        return x.like(np.concatenate([x.data, y.data]))

    def create_join(self, x: Handle, y: Handle) -> Handle:
        return x.like(np.stack([x.data, y.data], axis=-1))

    def create_split(self, x: Handle) -> tuple[Handle, Handle]:
        return x.like(x.data[..., 0]), x.like(x.data[..., 1])

    def create_gather(self, x: Handle, index: Handle, axis: int) -> Handle:
        return x.like(np.take_along_axis(x.data, index.data, axis=axis))

    def create_histogram(self, x: Handle, bins: int, mask: Handle | None) -> Handle:
        counted = (x.data >= 0) & (x.data < bins)
        if mask is not None:
            counted &= mask.data
        return Handle(np.bincount(x.data[counted], minlength=bins).astype(np.int32), tl.int32)

    # debugging

    def create_print(
        self, prefix: str, hexadecimal: bool, values: list[Handle], is_signed: list[bool]
    ) -> None:
        shown = [str(bits_of(value.data) if hexadecimal else value.data) for value in values]
        for text in shown or [""]:
            print(f"{self.program}{prefix}{text}")

    def create_assert(self, condition: Handle, message: str) -> None:
        if not condition.data.all():
            raise AssertionError(message)

    def create_assume(self, condition: Handle) -> None:
        if not condition.data.all():
            raise AssertionError("tl.assume was given a false condition")


def _whole(handles: Sequence[Handle]) -> list[int]:
    return [int(handle.data.flat[0]) for handle in handles]


def _scalar(value: int) -> Handle:
    return Handle(np.array([value], np.int32), tl.int32)


def _shape(sizes: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(getattr(size, "value", size)) for size in sizes)
