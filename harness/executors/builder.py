"""The builder behind Triton's front end: each ``create_*`` records an operation on NumPy arrays.

Triton's ``TritonSemantic`` does the typing (promotion, broadcasting, implicit casts) and calls these methods;
they differ between Triton versions only in trailing hints, which are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton.language as tl

from . import access, atomics, blocks, debugging, windows
from .casts import Array
from .context import Context
from .elementwise import Elementwise, element_bytes, numpy_type
from .faults import NotSimulated
from .handles import BlockPointer, Descriptor, Handle
from .profile import Profile
from .trace import Run, Segment, Tracer, Tree
from .value import Value


class Builder(Elementwise):
    """Records what one kernel does; `tracer` takes it."""

    def __init__(
        self,
        profile: Profile,
        options: SimpleNamespace,
        min_dot_size: Callable[[Any, Any], tuple[int, int, int]],
    ) -> None:
        self.profile, self.options = profile, options
        self.codegen_fns = {"min_dot_size": min_dot_size, "convert_custom_types": _no_custom_types}
        self.tracer = Tracer(Tree(0), Segment(), lambda: "", lambda segment: segment)

    def __getattr__(self, name: str) -> Any:
        raise NotSimulated(f"the CPU executor does not implement {name.removeprefix('create_')!r}")

    def get_cache_policy(self, *hints: Any) -> None:
        return None

    def several(
        self, run: Run, inputs: tuple[Handle, ...], made: Sequence[tuple[tuple[int, ...], Any]]
    ) -> tuple[Handle, ...]:
        """An operation with several results, of these shapes and types."""
        packed = self.tracer.emit(run, inputs, (), None)
        return tuple(
            self.tracer.emit(_item(at), (packed,), shape, dtype) for at, (shape, dtype) in enumerate(made)
        )

    def _effect(self, run: Run, *inputs: Handle) -> None:
        self.tracer.emit(run, inputs, (), None)

    # the grid

    def create_get_program_id(self, axis: int) -> Handle:
        return self.tracer.emit(_program_id(axis), (), (), tl.int32)

    def create_get_num_programs(self, axis: int) -> Handle:
        return self.tracer.emit(_num_programs(axis), (), (), tl.int32)

    def create_barrier(self) -> None:
        """Every program runs in one thread."""

    # memory

    def create_load(self, ptr: Handle, *hints: Any) -> Handle:
        return self._load(ptr, None, None, waits=_volatile(hints))

    def create_masked_load(self, ptr: Handle, mask: Handle, other: Handle | None, *hints: Any) -> Handle:
        return self._load(ptr, mask, other, waits=_volatile(hints))

    def create_store(self, ptr: Handle, value: Handle, *hints: Any) -> None:
        self._store(ptr, value, None)

    def create_masked_store(self, ptr: Handle, value: Handle, mask: Handle, *hints: Any) -> None:
        self._store(ptr, value, mask)

    def _load(self, ptr: Handle, mask: Handle | None, other: Handle | None, *, waits: bool = False) -> Handle:
        element = ptr.dtype.element_ty
        dtype = numpy_type(element)
        inputs = tuple(each for each in (ptr, mask, other) if each is not None)
        return self.tracer.emit(access.load(ptr.origin, dtype, waits=waits), inputs, ptr.shape, element)

    def _store(self, ptr: Handle, value: Handle, mask: Handle | None) -> None:
        self.tracer.tree.stored.add(ptr.origin)
        inputs = (ptr, value) if mask is None else (ptr, value, mask)
        self._effect(access.store(ptr.origin), *inputs)

    def create_tensor_pointer_load(
        self, ptr: BlockPointer, check: Sequence[int], padding: Any, *hints: Any
    ) -> Handle:
        addresses, mask = self._window(ptr, ptr.offsets, [int(axis) for axis in check])
        other = None if padding is None or mask is None else self._padding(addresses, padding)
        return self._load(addresses, mask, other)

    def create_tensor_pointer_store(
        self, ptr: BlockPointer, value: Handle, check: Sequence[int], *hints: Any
    ) -> None:
        addresses, mask = self._window(ptr, ptr.offsets, [int(axis) for axis in check])
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
        return BlockPointer(base, shape, strides, offsets, tuple(block_shape))

    def create_advance(self, ptr: BlockPointer, offsets: list[Handle]) -> BlockPointer:
        moved = [
            self.create_add(old, self._cast(by, old)) for old, by in zip(ptr.offsets, offsets, strict=True)
        ]
        return BlockPointer(ptr.base, ptr.shape, ptr.strides, moved, ptr.block)

    def _cast(self, x: Handle, like: Handle) -> Handle:
        return x if x.dtype == like.dtype else self.create_int_cast(x, like.dtype, True)

    def _window(
        self, of: BlockPointer | Descriptor, start: Sequence[Handle], check: Sequence[int]
    ) -> tuple[Handle, Handle | None]:
        """Addresses [block] from ``start`` on, and which lie inside the tensor along the checked axes."""
        size = None if of.base.origin is not None else element_bytes(of.base.dtype)
        inputs = (of.base, *of.strides, *start)
        addresses = self.tracer.emit(
            windows.addresses(of.block, size), inputs, of.block, of.base.dtype, of.base.origin
        )
        if not check:
            return addresses, None
        bounds = (*(of.shape[axis] for axis in check), *(start[axis] for axis in check))
        return addresses, self.tracer.emit(windows.inside(of.block, check), bounds, of.block, tl.int1)

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
        size = element_bytes(base.dtype)
        self._effect(windows.aligned(base.origin, size), base, *strides[:-1])
        return Descriptor(base, shape, strides, tuple(int(each) for each in block_shape), padding)

    def create_descriptor_load(self, desc: Descriptor, indices: list[Handle], *hints: Any) -> Handle:
        addresses, mask = self._window(desc, indices, range(len(desc.block)))
        loaded = self._load(addresses, mask, self._padding(addresses, desc.padding))
        if desc.round_to_tf32 and loaded.dtype == tl.float32:
            return self._pure(windows.round_to_tf32, (loaded,))
        return loaded

    def create_descriptor_store(self, desc: Descriptor, value: Handle, indices: list[Handle]) -> None:
        addresses, mask = self._window(desc, indices, range(len(desc.block)))
        self._store(addresses, value, mask)

    def create_descriptor_gather(self, desc: Descriptor, rows: Handle, column: Handle, ty: Any) -> Handle:
        addresses, mask = self._rows(desc, rows, column, tuple(ty.shape))
        return self._load(addresses, mask, self._padding(addresses, desc.padding))

    def create_descriptor_scatter(
        self, desc: Descriptor, value: Handle, rows: Handle, column: Handle
    ) -> None:
        addresses, mask = self._rows(desc, rows, column, value.shape)
        self._store(addresses, value, mask)

    def _rows(
        self, desc: Descriptor, rows: Handle, column: Handle, shape: tuple[int, ...]
    ) -> tuple[Handle, Handle]:
        size = None if desc.base.origin is not None else element_bytes(desc.base.dtype)
        inputs = (desc.base, *desc.strides, rows, column)
        addresses = self.tracer.emit(
            windows.row_addresses(shape, size), inputs, shape, desc.base.dtype, desc.base.origin
        )
        bounds = (*desc.shape, rows, column)
        return addresses, self.tracer.emit(windows.rows_inside(shape), bounds, shape, tl.int1)

    def create_descriptor_reduce(
        self, kind: Any, desc: Descriptor, value: Handle, indices: list[Handle]
    ) -> None:
        addresses, mask = self._window(desc, indices, range(len(desc.block)))
        assert mask is not None
        self.create_atomic_rmw(kind, addresses, value, mask)

    def _padding(self, addresses: Handle, padding: Any) -> Handle:
        element = addresses.dtype.element_ty
        nan = str(padding).endswith("NAN")
        return self._constant(
            np.full((1,) * (1 + len(addresses.shape)), np.nan if nan else 0, numpy_type(element)),
            element,
            (1,) * len(addresses.shape),
        )

    # atomics

    def create_atomic_rmw(self, op: Any, ptr: Handle, value: Handle, mask: Handle, *hints: Any) -> Handle:
        name = str(op).rpartition(".")[2]
        self.tracer.tree.stored.add(ptr.origin)
        run = atomics.update(ptr.origin, name, flushing=self.profile.bitwise)
        return self.tracer.emit(run, (ptr, value, mask), value.shape, value.dtype)

    def create_atomic_cas(self, ptr: Handle, expected: Handle, value: Handle, *hints: Any) -> Handle:
        self.tracer.tree.stored.add(ptr.origin)
        return self.tracer.emit(
            atomics.compare_and_swap(ptr.origin), (ptr, expected, value), value.shape, value.dtype
        )

    def create_atomic_load(self, ptr: Handle, mask: Handle, *hints: Any) -> Handle:
        return self._load(ptr, mask, None, waits=True)

    def create_atomic_store(self, ptr: Handle, value: Handle, mask: Handle, *hints: Any) -> None:
        self._store(ptr, value, mask)

    # blocks

    def create_make_range(self, ty: Any, start: int, stop: int) -> Handle:
        data = np.arange(start, stop, dtype=np.int32)[None]
        run = blocks.constant(data, (start, max(start, stop - 1)))
        return self.tracer.emit(run, (), (stop - start,), tl.int32, pure=True)

    def create_addptr(self, ptr: Handle, offset: Handle) -> Handle:
        size = None if ptr.origin is not None else element_bytes(ptr.dtype)
        shape = ptr.shape or offset.shape
        return self.tracer.emit(windows.moved(size), (ptr, offset), shape, ptr.dtype, ptr.origin)

    def create_select(self, condition: Handle, x: Handle, y: Handle) -> Handle:
        origin = x.origin if x.origin == y.origin else None
        if x.dtype.is_ptr() and origin is None:
            x, y = self._absolute(x), self._absolute(y)
        shape = max(condition.shape, x.shape, y.shape, key=len)
        return self.tracer.emit(
            blocks.select, (condition, x, y), shape, x.dtype, origin, pure=not x.dtype.is_ptr()
        )

    def _moved(self, run: Run, x: Handle, shape: Sequence[Any]) -> Handle:
        return self.tracer.emit(run, (x,), _shape(shape), x.dtype, x.origin, pure=True)

    def create_splat(self, ty: Any, x: Handle) -> Handle:
        shape = _shape(ty.shape)
        return self._moved(blocks.splat(shape), x, shape)

    def create_unsplat(self, x: Handle) -> Handle:
        return self._moved(blocks.reshape(()), x, ())

    def create_broadcast(self, x: Handle, shape: Sequence[int]) -> Handle:
        return self._moved(blocks.broadcast(_shape(shape)), x, shape)

    def create_expand_dims(self, x: Handle, axis: int) -> Handle:
        return self._moved(blocks.expand(axis), x, (*x.shape[:axis], 1, *x.shape[axis:]))

    def create_reshape(self, x: Handle, shape: Sequence[int], allow_reorder: bool) -> Handle:
        return self._moved(blocks.reshape(_shape(shape)), x, shape)

    def create_trans(self, x: Handle, order: Sequence[int]) -> Handle:
        axes = [int(axis) for axis in order]
        return self._moved(blocks.transpose(axes), x, [x.shape[axis] for axis in axes])

    def create_cat(self, x: Handle, y: Handle) -> Handle:
        shape = (x.shape[0] + y.shape[0], *x.shape[1:])
        return self._pure(blocks.together(_end_to_end), (x, y), x.dtype, shape)

    def create_join(self, x: Handle, y: Handle) -> Handle:
        return self._pure(blocks.together(_side_by_side), (x, y), x.dtype, (*x.shape, 2))

    def create_split(self, x: Handle) -> tuple[Handle, Handle]:
        return self._moved(blocks.half(0), x, x.shape[:-1]), self._moved(blocks.half(1), x, x.shape[:-1])

    def create_gather(self, x: Handle, index: Handle, axis: int) -> Handle:
        return self._pure(blocks.gather(axis), (x, index), x.dtype, index.shape)

    def create_histogram(self, x: Handle, bins: int, mask: Handle | None) -> Handle:
        inputs = (x,) if mask is None else (x, mask)
        return self._pure(blocks.histogram(bins), inputs, tl.int32, (bins,))

    # debugging

    def create_print(
        self, prefix: str, hexadecimal: bool, values: list[Handle], is_signed: list[bool]
    ) -> None:
        self.tracer.tree.sequential = True
        self._effect(debugging.printing(prefix, hexadecimal), *values)

    def create_assert(self, condition: Handle, message: str) -> None:
        self._effect(debugging.assertion(message), condition)

    def create_assume(self, condition: Handle) -> None:
        self._effect(debugging.assertion("tl.assume was given a false condition"), condition)


def _no_custom_types(value: Any, target: Any, *hints: Any, **more: Any) -> Any:
    raise NotSimulated(f"the CPU executor does not convert {value.dtype} to {target.scalar}")


def _volatile(hints: Sequence[Any]) -> bool:
    """Of a load: the only hint of Python's type bool."""
    return any(hint is True for hint in hints)


def _item(at: int) -> Run:
    return lambda context, packed: packed[at]


def _end_to_end(parts: list[Array]) -> Array:
    return np.concatenate(parts, axis=1)


def _side_by_side(parts: list[Array]) -> Array:
    return np.stack(parts, axis=-1)


def _program_id(axis: int) -> Run:
    def run(context: Context) -> Value:
        below = math.prod(context.grid[:axis])
        ids = context.lanes // below % context.grid[axis]
        return Value(ids.astype(np.int32), None, None, (int(ids.min()), int(ids.max())))

    return run


def _num_programs(axis: int) -> Run:
    return lambda context: Value(np.array([context.grid[axis]], np.int32))


def _shape(sizes: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(getattr(size, "value", size)) for size in sizes)
