"""Layouts: where the elements of a tensor lie in memory.

A layout nests the axes from fastest to slowest. Each axis takes the pitch of the axes inside it, times its
step; an axis may be followed by a gap. Elements therefore never overlap, except along an axis expanded with
stride 0, where all are the same element.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.errors import HarnessError, nearest

NAMES = (
    "contiguous",
    "transposed",
    "permuted",
    "step",
    "offset",
    "padded",
    "broadcast",
    "size1",
    "combined",
    "far",
)

FAR = 1 << 20
"""A step or a gap of at least so many elements makes a layout a far one."""

REACH = 1 << 31
"""Elements between the first and the last row of a far layout, at least: an int32 offset overflows."""

MOST_FAR = 1 << 10
"""Rows of a far layout at most: each touches a page of memory of its own."""


@dataclass(frozen=True)
class Layout:
    """Strides by construction, for tensors of ``len(order)`` axes.

    order: axes from slowest to fastest; steps: per axis, the factor of its stride; pads: per axis, unused
    elements after each run along it; offset: elements between an aligned address and the first element;
    expand: axes of stride 0; ones: per axis, the stride it takes where its length is 1 (0: as usual), which
    PyTorch allows to be anything. An empty tuple stands for 1, or 0, on every axis.
    """

    order: tuple[int, ...]
    steps: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    offset: int = 0
    expand: tuple[int, ...] = ()
    ones: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.order)
        if sorted(self.order) != list(range(n)):
            raise HarnessError(f"layout order {self.order} is no permutation of {tuple(range(n))}")
        for name, usual in (("steps", 1), ("pads", 0), ("ones", 0)):
            if not getattr(self, name):
                object.__setattr__(self, name, (usual,) * n)
        if not len(self.steps) == len(self.pads) == len(self.ones) == n:
            raise HarnessError(f"layout of {n} axes needs {n} steps, pads and ones; got {self}")
        if min(self.steps, default=1) < 1 or min(self.pads, default=0) < 0 or self.offset < 0:
            raise HarnessError(f"layout needs steps >= 1, pads >= 0 and offset >= 0; got {self}")
        if not set(self.expand) <= set(self.order):
            raise HarnessError(f"layout expands axes {self.expand}, but has axes 0 to {n - 1}")

    @staticmethod
    def contiguous(ndim: int) -> Layout:
        """Row-major, without gaps, aligned."""
        return Layout(tuple(range(ndim)))

    @property
    def ndim(self) -> int:
        return len(self.order)

    def features(self) -> tuple[str, ...]:
        """Names of the ways in which the layout departs from contiguous; of a far one that is all."""
        if max((*self.steps, *self.pads), default=0) >= FAR:
            return ("far",)
        found = []
        ndim = self.ndim
        swapped = (*range(ndim - 2), ndim - 1, ndim - 2)
        if self.order != tuple(range(ndim)):
            found.append("transposed" if self.order == swapped else "permuted")
        if any(step > 1 for step in self.steps):
            found.append("step")
        if self.offset:
            found.append("offset")
        if any(self.pads):
            found.append("padded")
        if self.expand:
            found.append("broadcast")
        if any(self.ones):
            found.append("size1")
        return tuple(found)

    @property
    def name(self) -> str:
        """One of NAMES; "combined" where several features meet."""
        found = self.features()
        if not found:
            return "contiguous"
        return found[0] if len(found) == 1 else "combined"

    def strides(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Strides in elements for a tensor of this shape."""
        if len(shape) != self.ndim:
            raise HarnessError(f"layout of {self.ndim} axes cannot lay out shape {shape}")
        strides = [0] * self.ndim
        pitch = 1
        for axis in reversed(self.order):
            if axis in self.expand:
                continue
            if shape[axis] == 1:
                strides[axis] = self.ones[axis] or pitch
                continue
            strides[axis] = pitch * self.steps[axis]
            pitch = strides[axis] * max(shape[axis], 1) + self.pads[axis]
        return tuple(strides)

    def span(self, shape: tuple[int, ...]) -> int:
        """Elements from the first to the last of a tensor of this shape, both included; 0 if it is empty."""
        if 0 in shape:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(shape, self.strides(shape), strict=True))

    def without(self, axis: int) -> Layout:
        """The same layout for a tensor that lacks one axis."""

        def drop(values: tuple[int, ...]) -> tuple[int, ...]:
            return values[:axis] + values[axis + 1 :]

        return Layout(
            tuple(a - (a > axis) for a in self.order if a != axis),
            drop(self.steps),
            drop(self.pads),
            self.offset,
            tuple(a - (a > axis) for a in self.expand if a != axis),
            drop(self.ones),
        )

    def simpler(self) -> tuple[Layout, ...]:
        """Layouts with one feature, or one gap, less, the simplest first."""
        plain = Layout.contiguous(self.ndim)
        found = [
            plain,
            replace(self, order=plain.order),
            replace(self, steps=plain.steps),
            replace(self, pads=plain.pads),
            *(replace(self, pads=_at(self.pads, axis, 0)) for axis in range(self.ndim)),
            replace(self, offset=0),
            replace(self, expand=()),
            replace(self, ones=plain.ones),
        ]
        return tuple(dict.fromkeys(layout for layout in found if layout != self))

    def departures(self) -> dict[str, int | tuple[int, ...]]:
        """The fields in which the layout differs from contiguous."""
        plain = Layout.contiguous(self.ndim)
        names = ("order", "steps", "pads", "offset", "expand", "ones")
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(plain, name)}

    def __str__(self) -> str:
        found = ", ".join(f"{name}={value}" for name, value in self.departures().items())
        return f"{self.name}({found})" if found else "contiguous"


def allowed(names: tuple[str, ...] | None) -> tuple[str, ...]:
    """The layout names a domain admits, simplest first; a name that does not exist raises HarnessError."""
    if names is None:
        return NAMES
    for name in names:
        if name not in NAMES:
            raise HarnessError(f"unknown layout {name!r}; {nearest(name, NAMES)}layouts: {', '.join(NAMES)}")
    return tuple(name for name in NAMES if name in names)


def near(names: tuple[str, ...] | None) -> tuple[str, ...]:
    """The same without far layouts, which have launches of their own."""
    return tuple(name for name in allowed(names) if name != "far")


def permits(names: tuple[str, ...] | None, layout: Layout) -> bool:
    """Whether a domain with these layout names admits the layout; contiguous is always admitted."""
    if names is None or layout.name == "contiguous":
        return True
    return layout.name in names and set(layout.features()) <= set(names)


def feasible(name: str, shape: tuple[int, ...]) -> bool:
    """Whether a layout of this name can differ from contiguous on a tensor of this shape."""
    long_axes = sum(n > 1 for n in shape)
    if name == "transposed":
        return len(shape) >= 2 and shape[-1] > 1 and shape[-2] > 1
    if name == "permuted":
        return len(shape) >= 3 and long_axes >= 2
    if name in ("step", "broadcast", "combined"):
        return long_axes >= 1
    if name == "padded":
        return len(shape) >= 2 and long_axes >= 2
    if name == "size1":
        return 1 in shape
    if name == "far":
        return bool(_far_axes(shape))
    return True


def channels_last(ndim: int) -> Layout:
    """PyTorch's ``channels_last`` of (N, C, ...): axis 1 is the fastest."""
    return Layout((0, *range(2, ndim), 1)[:ndim])


def taking_turns(found: Sequence[Layout], turn: int) -> Layout:
    """One of some layouts for the same axes; channels last, where it is among them, every other time."""
    usual = channels_last(found[0].ndim)
    if usual not in found:
        return found[turn % len(found)]
    return found[turn // 2 % len(found)] if turn % 2 else usual


STEPS = (2, 3)
PADS = (1, 16, 7)
OFFSETS = (1, 16, 3, 7)
ONES = (3, 16)


@functools.lru_cache(maxsize=4096)
def variants(name: str, shape: tuple[int, ...]) -> tuple[Layout, ...]:
    """All layouts of this name for a tensor of this shape, none if it is not feasible.

    Triton compiles another kernel for an integer argument equal to 1, for one divisible by 16, and for a
    pointer aligned to 16 bytes: pads, offsets and strides of size-1 axes take values on both sides.
    """
    if not feasible(name, shape):
        return ()
    ndim = len(shape)
    plain = Layout.contiguous(ndim)
    axes = [axis for axis in reversed(range(ndim)) if shape[axis] > 1]
    if name == "transposed":
        return (replace(plain, order=(*range(ndim - 2), ndim - 1, ndim - 2)),)
    if name == "permuted":
        found = [replace(plain, order=order) for order in itertools.permutations(range(ndim))]
        kept = list(reversed(axes))  # an order that only moves axes of length 1 changes no address
        return tuple(
            layout
            for layout in found
            if layout.name == "permuted" and [axis for axis in layout.order if axis in axes] != kept
        )
    if name == "step":
        return tuple(replace(plain, steps=_at(plain.steps, axis, step)) for step in STEPS for axis in axes)
    if name == "padded":
        # A gap after the slowest axis would lie outside the view.
        gaps = axes[:-1]
        each = tuple(replace(plain, pads=_at(plain.pads, axis, pad)) for pad in PADS for axis in gaps)
        return each if len(gaps) == 1 else (_all_padded(plain, gaps), *each)
    if name == "offset":
        return tuple(replace(plain, offset=offset) for offset in OFFSETS)
    if name == "broadcast":
        each = tuple(replace(plain, expand=(axis,)) for axis in reversed(axes))
        # One element for all, as the gradient of a sum.
        return each if len(axes) == 1 else (*each, replace(plain, expand=tuple(sorted(axes))))
    if name == "size1":
        units = tuple(n == 1 for n in shape)
        return tuple(replace(plain, ones=tuple(one * unit for unit in units)) for one in ONES)
    if name == "combined":
        return _combined(shape, axes)
    if name == "far":
        return tuple(_far(shape, axis, odd) for odd in (0, 1) for axis in _far_axes(shape))
    return (plain,)


def _far_axes(shape: tuple[int, ...]) -> list[int]:
    """The axes that a far layout may put outermost."""
    elements = math.prod(shape)
    return [axis for axis, n in enumerate(shape) if 3 <= n <= MOST_FAR and elements // n < FAR]


def _far(shape: tuple[int, ...], axis: int, odd: int) -> Layout:
    """The axis outermost, its last element REACH or a little more from its first: 32 bits hold its stride, but
    not that times the last index. odd: added to a stride that is a multiple of 16."""
    plain = Layout.contiguous(len(shape))
    within = math.prod(shape) // shape[axis]
    gap = -(-(REACH // (shape[axis] - 1) + within + 1) // 16) * 16 + odd - within
    inside = next((other for other in plain.order if other != axis and shape[other] > 1), None)
    order = (axis, *(other for other in plain.order if other != axis))
    if inside is None:
        return replace(plain, order=order, steps=_at(plain.steps, axis, gap))
    return replace(plain, order=order, pads=_at(plain.pads, inside, gap))


def _all_padded(plain: Layout, axes: list[int]) -> Layout:
    """A gap after each of these axes, of another length than its neighbour's: no two can be taken for one."""
    pads = {axis: PADS[number % len(PADS)] for number, axis in enumerate(axes)}
    return replace(plain, pads=tuple(pads.get(axis, 0) for axis in range(plain.ndim)))


def _combined(shape: tuple[int, ...], axes: list[int]) -> tuple[Layout, ...]:
    ndim = len(shape)
    plain = Layout.contiguous(ndim)
    reverse = tuple(reversed(range(ndim)))
    found = []
    for number, axis in enumerate(axes):
        step, pad, offset = STEPS[number % 2], PADS[number % 3], OFFSETS[number % 4]
        if ndim >= 2:
            found.append(replace(plain, order=reverse, steps=_at(plain.steps, axis, step), offset=offset))
            found.append(Layout(reverse, plain.steps, _at(plain.pads, axis, pad), offset=offset))
        found.append(replace(plain, steps=_at(plain.steps, axis, step), offset=offset))
        found.append(replace(plain, offset=offset, expand=(axis,)))
    return tuple(layout for layout in found if layout.name == "combined")


def _at(values: tuple[int, ...], axis: int, value: int) -> tuple[int, ...]:
    return (*values[:axis], value, *values[axis + 1 :])
