"""Guarded allocations: a strided view inside a larger buffer whose every other element is known.

One kind serves inputs (strides, offsets, gaps, stride 0) and the outputs that the function under test
allocates itself. The storage is ``[guard | span of the view | guard]``; whatever the view cannot reach, the
guards and the gaps between its elements, is *outside*. The outside holds a fill, so that

- a write outside shows as a changed bit (`Block.damage`),
- a read outside shows as an answer that moves when the fill does (`Block.surround` swaps it, the view stays),
- an element that nobody wrote still holds the fill that `allocate` put into the view too.

Of a view that is spread over 2^28 elements and more (see `harness.spread`) only what is beside its elements
is outside in this sense.

Fills are bit patterns, not values: NaN carries a payload and the large values may differ in their last bits,
by ``salt``. Blocks with different salts hold different bits outside, so that a copy from one block's guard
into another's is damage too (where the format has bits to spare: not bool, not e4m3fn).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import torch

from harness import spread
from harness.limits import memory

GUARD: Final = 4096
"""Elements before and after each view."""

ALIGNMENT: Final = 64
"""Bytes to which the view's base is aligned, before its offset is added."""

KINDS: Final = ("nan", "+large", "-large")

# dtype -> (integer of the same width, bits of a quiet NaN, low bits free for the salt)
_FLOATS: Final = {
    torch.float64: (torch.int64, 0x7FF8000000000000, 16),
    torch.float32: (torch.int32, 0x7FC00000, 10),
    torch.float16: (torch.int16, 0x7E00, 4),
    torch.bfloat16: (torch.int16, 0x7FC0, 3),
    torch.float8_e5m2: (torch.int8, 0x7E, 1),
    torch.float8_e4m3fn: (torch.int8, 0x7F, 0),
}
_INTEGERS: Final = {
    torch.int8: torch.int8, torch.uint8: torch.int8, torch.int16: torch.int16, torch.uint16: torch.int16,
    torch.int32: torch.int32, torch.uint32: torch.int32, torch.int64: torch.int64, torch.uint64: torch.int64,
}  # fmt: skip
_BOOL_PERIOD: Final = {"nan": (1, 0, 1, 0), "+large": (0, 1, 0, 1), "-large": (1, 1, 0, 0)}


def fillable(dtype: torch.dtype) -> bool:
    """Whether `allocate` knows this dtype: bool, the integers, fp64 to bf16, fp8 e4m3fn and e5m2."""
    return dtype in _FLOATS or dtype in _INTEGERS or dtype is torch.bool


def fill_value(dtype: torch.dtype, kind: str) -> float | int | bool:
    """The value of fill ``kind`` in ``dtype`` (at an even position, for bool, whose fills alternate).

    Floats: NaN, or plus or minus a tenth of the largest finite value, rounded to the format. Integers: three
    different values near the ends of the range.
    """
    if dtype is torch.bool:
        return bool(_BOOL_PERIOD[kind][0])
    bits = torch.tensor([_pattern(dtype, kind, 0)], dtype=_carrier(dtype), device="cpu")
    value: float | int = bits.view(dtype).item()
    return value


@dataclass
class Block:
    """A guarded allocation.

    ``storage`` [guard + span + guard] is one-dimensional; ``view`` is the tensor inside it that a kernel
    gets, which shares the memory but is no autograd view. ``fill`` names what the outside holds.
    """

    storage: torch.Tensor
    view: torch.Tensor
    fill: str
    base: int
    """Index in ``storage`` of the view's first element."""
    span: int
    """Elements from the view's first to its last, both counted; 0 for an empty view."""
    salt: int = 0
    _shape: torch.Size = field(init=False)
    _strides: tuple[int, ...] = field(init=False)
    _integers: torch.Tensor = field(init=False)
    _mask: torch.Tensor | None = field(init=False, default=None)
    _near: torch.Tensor | None = field(init=False, default=None)
    """Of a view that is spread out: int64 [n], the elements of storage outside that are watched."""

    def __post_init__(self) -> None:
        self._shape, self._strides = self.view.shape, self.view.stride()
        self._integers = self.storage.view(_carrier(self.storage.dtype))
        if spread.is_spread(self._shape, self.span):
            near = spread.beside(self._shape, self._strides, self.base, len(self.storage), GUARD)
            self._near = near.to(self.storage.device)

    @property
    def intact(self) -> bool:
        """False once the view was resized or moved: then nothing can be said about its surroundings."""
        view = self.view
        return (
            view.shape == self._shape
            and view.stride() == self._strides
            and view.storage_offset() == self.base
            and view.untyped_storage().data_ptr() == self.storage.untyped_storage().data_ptr()
        )

    def alias(self) -> torch.Tensor:
        """Another tensor with the view's memory, shape and strides, to give away."""
        return _view(self.storage, self.base, self._shape, self._strides)

    def outside(self) -> torch.Tensor:
        """Bool [len(storage)]: the elements that cannot be reached through the view."""
        if self._mask is None:
            mask = torch.ones(len(self.storage), dtype=torch.bool, device=self.storage.device)
            if self.span:
                _distinct(mask, self._shape, self._strides, self.base).fill_(False)
            self._mask = mask
        return self._mask

    def damage(self) -> list[int]:
        """Elements outside the view whose bits are no longer the fill's: offsets from its first element."""
        if self._near is not None:
            changed = self._integers[self._near] != self._expected_at(self._near)
            return (self._near[changed] - self.base).tolist() if bool(changed.any()) else []
        found: list[torch.Tensor] = []
        for start, stop in self._outside_ranges():
            changed = self._integers[start:stop] != self._expected(start, stop)
            if start < self.base < stop:
                changed &= self.outside()
            if changed.any():
                found.append(changed.nonzero().flatten() + (start - self.base))
        return torch.cat(found).tolist() if found else []

    def surround(self, kind: str, salt: int | None = None) -> None:
        """Refill the outside with another kind; the view keeps its contents."""
        self.fill, self.salt = _checked(kind), self.salt if salt is None else salt
        if self._near is not None:
            self._put(self._near)
            return
        for start, stop in self._outside_ranges():
            part, expected = self._integers[start:stop], self._expected(start, stop)
            if start < self.base < stop:
                expected = torch.where(self.outside(), expected, part)
            _write(part, expected)

    def poison(self, kind: str, salt: int | None = None) -> None:
        """Refill everything, the view too."""
        self.fill, self.salt = _checked(kind), self.salt if salt is None else salt
        if self._near is not None:
            self._put(self._near)
            self._put(self._places(self._shape, self._strides, self.base).reshape(-1))
            return
        _write(self._integers, self._expected(0, len(self.storage)))

    def snapshot(self) -> torch.Tensor:
        """The view's bits, copied, as integers of the same width [shape of the view]."""
        return self._bits().clone()

    def changed(self, since: torch.Tensor) -> list[tuple[int, ...]]:
        """Indices of the view's elements whose bits differ from an earlier `snapshot`."""
        differs = self._bits() != since
        return [tuple(index) for index in differs.nonzero().tolist()] if differs.any() else []

    def restore(self, snapshot: torch.Tensor) -> None:
        """Put the view back to an earlier `snapshot`; the outside stays as it is."""
        _distinct(self._integers, self._shape, self._strides, self.base).copy_(
            _distinct_of(snapshot, self._strides)
        )

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor lies in this block's storage: the view itself, or a view of it."""
        return tensor.untyped_storage().data_ptr() == self.storage.untyped_storage().data_ptr()

    def untouched(self, tensor: torch.Tensor) -> torch.Tensor:
        """Bool [shape of the tensor]: elements, of a tensor that this block holds, that still hold the fill.

        All False for a tensor of another element size, where the fill's bits mean nothing.
        """
        if tensor.dtype.itemsize != self.storage.dtype.itemsize:
            return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
        if self._near is not None:
            places = self._places(tensor.shape, tensor.stride(), int(tensor.storage_offset()))
            return self._integers[places] == self._expected_at(places)
        unchanged = self._integers == self._expected(0, len(self.storage))
        return unchanged.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def _places(self, shape: Sequence[int], strides: Sequence[int], base: int) -> torch.Tensor:
        """Int64 [shape]: where the elements of a view lie in the storage."""
        return (spread.offsets(shape, strides) + base).to(self.storage.device)

    def _put(self, places: torch.Tensor) -> None:
        """The fill at these elements of the storage, [n]."""
        expected = self._expected_at(places)
        if isinstance(expected, int):
            expected = torch.tensor(expected, dtype=self._integers.dtype, device=places.device)
        self._integers[places] = expected

    def _expected_at(self, places: torch.Tensor) -> int | torch.Tensor:
        """The fill's bits at these elements of the storage: one number, or one for each."""
        if self.storage.dtype is not torch.bool:
            return _pattern(self.storage.dtype, self.fill, self.salt)
        period = torch.tensor(_BOOL_PERIOD[self.fill], dtype=torch.int8, device=places.device)
        return period[places % len(period)]

    def _bits(self) -> torch.Tensor:
        return self._integers.as_strided(self._shape, self._strides, self.base)

    def _outside_ranges(self) -> list[tuple[int, int]]:
        """Ranges of storage that hold the outside: the two guards, or everything where the view has gaps."""
        length = len(self.storage)
        if _dense(self._shape, self._strides):
            return [(0, self.base), (self.base + self.span, length)]
        return [(0, length)]

    def _expected(self, start: int, stop: int) -> int | torch.Tensor:
        """The fill's bits: one number, or one for each position where the fill alternates."""
        if self.storage.dtype is not torch.bool:
            return _pattern(self.storage.dtype, self.fill, self.salt)
        return self._expected_at(torch.arange(start, stop, device=self.storage.device))


def allocate(
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: torch.dtype,
    device: torch.device | str,
    *,
    fill: str,
    offset: int = 0,
    salt: int = 0,
) -> Block:
    """A guarded block whose view has this shape and these strides, both filled with ``fill``.

    The view's first element is aligned to `ALIGNMENT` bytes, then moved by ``offset`` elements. ``salt``
    numbers the blocks that must not share their fill's bits.
    """
    if not fillable(dtype):
        raise ValueError(
            f"no fill for {dtype}: guarded memory holds bool, integers, fp64, fp32, fp16, bf16, "
            "fp8 e4m3fn and e5m2"
        )
    if len(shape) != len(strides) or any(stride < 0 for stride in strides) or offset < 0:
        raise ValueError(
            f"shape {tuple(shape)} needs as many strides, none negative, and an offset >= 0; "
            f"got strides {tuple(strides)}, offset {offset}"
        )
    reach = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    span = 1 + reach if math.prod(shape) else 0
    item = dtype.itemsize
    slack = ALIGNMENT // item
    length = GUARD + slack + offset + span + GUARD
    far = spread.is_spread(shape, span)
    storage = (spread.reserve if far else _empty)(length, dtype, device)
    misaligned = (storage.data_ptr() + GUARD * item) % ALIGNMENT
    base = GUARD + (ALIGNMENT - misaligned) % ALIGNMENT // item + offset
    block = Block(storage, _view(storage, base, shape, strides), _checked(fill), base, span, salt)
    block.poison(fill)
    return block


def _empty(length: int, dtype: torch.dtype, device: torch.device | str) -> torch.Tensor:
    """Memory; MemoryError where a CPU has not so much, before Linux promises it and ends the process that writes to it."""
    if torch.device(device).type == "cpu" and length * dtype.itemsize > memory():
        raise MemoryError(f"{length * dtype.itemsize} bytes are more than this machine has")
    return torch.empty(length, dtype=dtype, device=device)


def _view(storage: torch.Tensor, base: int, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """A tensor in this memory that autograd does not take for a view."""
    view = torch.empty(0, dtype=storage.dtype, device=storage.device)
    return view.set_(storage.untyped_storage(), base, tuple(shape), tuple(strides))


def _checked(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"fill {kind!r} is none of {', '.join(map(repr, KINDS))}")
    return kind


def _carrier(dtype: torch.dtype) -> torch.dtype:
    """The signed integer type of the same width, through which bits are written and compared."""
    if dtype in _FLOATS:
        return _FLOATS[dtype][0]
    return _INTEGERS.get(dtype, torch.int8)


@functools.lru_cache(maxsize=1024)
def _pattern(dtype: torch.dtype, kind: str, salt: int) -> int:
    """Bits of the fill, as a signed integer of the dtype's width."""
    if dtype in _FLOATS:
        carrier, nan, free = _FLOATS[dtype]
        if kind == "nan":
            bits = nan
        else:
            large = math.copysign(torch.finfo(dtype).max / 10, 1.0 if kind == "+large" else -1.0)
            bits = int(
                torch.tensor([large], dtype=torch.float64, device="cpu").to(dtype).view(carrier).item()
            )
        return bits ^ (salt % (1 << free))
    limits = torch.iinfo(dtype)
    high = limits.max - limits.max // 8
    low = -high if limits.min else limits.max // 2
    value = {"nan": limits.max // 2 + limits.max // 4, "+large": high, "-large": low}[kind] - salt % 8
    wrap = 1 << limits.bits
    return (value + wrap // 2) % wrap - wrap // 2


def _write(integers: torch.Tensor, bits: int | torch.Tensor) -> None:
    if isinstance(bits, int):
        integers.fill_(bits)
    else:
        integers.copy_(bits)


def _distinct(storage: torch.Tensor, shape: Sequence[int], strides: Sequence[int], base: int) -> torch.Tensor:
    """The view with its stride-0 axes cut to one element, so that each element is written once."""
    sizes = [min(1, size) if stride == 0 else size for size, stride in zip(shape, strides, strict=True)]
    return storage.as_strided(sizes, list(strides), base)


def _distinct_of(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """The first element along each axis whose stride in the view is 0, everything along the others."""
    for axis, stride in enumerate(strides):
        if stride == 0:
            tensor = tensor.narrow(axis, 0, min(1, tensor.shape[axis]))
    return tensor


def _dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the view reaches every element of its span: some permutation of a contiguous tensor."""
    if not math.prod(shape):
        return True
    expected = 1
    axes = zip(strides, shape, strict=True)
    for stride, size in sorted((stride, size) for stride, size in axes if size > 1 and stride):
        if stride != expected:
            return False
        expected *= size
    return True
