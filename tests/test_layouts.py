"""Layouts: elements never overlap but by stride 0, names say what differs, Triton's classes are met."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness import layouts
from harness.errors import HarnessError
from harness.layouts import NAMES, Layout, variants

SHAPES = [
    (1,), (5,), (16,), (3, 4), (1, 7), (7, 1), (1, 1), (2, 3, 5), (3, 1, 4), (1, 1, 6), (2, 3, 4, 5),
    (2, 1, 3, 1), (0,), (3, 0), (0, 3), (2, 0, 3, 1),
]  # fmt: skip

EVERY = [(name, shape) for name in NAMES for shape in SHAPES]


def addresses(layout: Layout, shape: tuple[int, ...]) -> np.ndarray:
    """The address of each element relative to the first, int64 of this shape."""
    found = np.zeros(shape, dtype=np.int64)
    for axis, (n, stride) in enumerate(zip(shape, layout.strides(shape), strict=True)):
        along = [1] * len(shape)
        along[axis] = n
        found = found + np.arange(n).reshape(along) * stride
    return found


def check_sound(layout: Layout, shape: tuple[int, ...]) -> None:
    """Distinct elements lie at distinct addresses within the span; expanded axes do not move."""
    found = addresses(layout, shape)
    for axis in layout.expand:
        assert layout.strides(shape)[axis] == 0
        found = found.take(range(min(1, shape[axis])), axis=axis)
    assert len(np.unique(found)) == found.size
    assert layout.span(shape) == (0 if 0 in shape else found.max() + 1)
    assert found.size == 0 or found.min() == 0


@st.composite
def any_layout(draw: st.DrawFn) -> tuple[Layout, tuple[int, ...]]:
    shape = tuple(draw(st.lists(st.integers(0, 6), min_size=1, max_size=4)))
    n = len(shape)
    numbers = lambda low, high: tuple(draw(st.lists(st.integers(low, high), min_size=n, max_size=n)))  # noqa: E731
    order = tuple(draw(st.permutations(range(n))))
    expand = tuple(draw(st.sets(st.integers(0, n - 1))))
    return Layout(order, numbers(1, 4), numbers(0, 9), draw(st.integers(0, 20)), expand, numbers(0, 9)), shape


@given(any_layout())
def test_no_layout_overlaps(drawn: tuple[Layout, tuple[int, ...]]) -> None:
    check_sound(*drawn)


@pytest.mark.parametrize(("name", "shape"), EVERY, ids=str)
def test_variants_are_what_they_are_called(name: str, shape: tuple[int, ...]) -> None:
    found = variants(name, shape)
    assert bool(found) == layouts.feasible(name, shape)
    assert len(set(found)) == len(found)
    plain = Layout.contiguous(len(shape)).strides(shape)
    for layout in found:
        assert layout.name == name
        check_sound(layout, shape)
        if name in ("transposed", "permuted", "step", "padded", "broadcast"):
            moved = [a != b for a, b, n in zip(layout.strides(shape), plain, shape, strict=True) if n > 1]
            assert any(moved), layout
        if name == "size1":
            assert layout.strides(shape) != plain or shape == (1,) * len(shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_contiguous_strides_are_those_of_pytorch(shape: tuple[int, ...]) -> None:
    assert Layout.contiguous(len(shape)).strides(shape) == torch.empty(shape).stride()


def test_strides_by_hand() -> None:
    assert Layout((1, 0)).strides((3, 4)) == (1, 3)
    assert Layout((0, 1), steps=(1, 2)).strides((3, 4)) == (8, 2)
    assert Layout((0, 1), steps=(3, 1)).strides((3, 4)) == (12, 1)
    assert Layout((0, 1), pads=(0, 16)).strides((3, 4)) == (20, 1)
    assert Layout((0, 1), expand=(0,)).strides((3, 4)) == (0, 1)
    assert Layout((0, 1), expand=(1,)).strides((3, 4)) == (1, 0)
    assert Layout((0, 1, 2), ones=(0, 7, 0)).strides((3, 1, 4)) == (4, 7, 1)
    assert Layout((2, 0, 1), offset=3).strides((2, 3, 4)) == (3, 1, 6)


def test_specialisation_classes_of_triton_are_met() -> None:
    """Strides of 1, divisible by 16 and neither; bases aligned to 16 bytes (8 fp16 elements) or not."""
    found = [layout for name in NAMES for layout in variants(name, (6, 48))]
    outer = {layout.strides((6, 48))[0] for layout in found}
    inner = {layout.strides((6, 48))[1] for layout in found}
    assert 1 in inner and 0 in inner and 0 in outer
    assert any(s > 1 and s % 16 == 0 for s in outer) and any(s % 2 == 1 and s > 1 for s in outer)
    assert any(s > 1 and s % 16 for s in inner)
    padded = {layout.strides((6, 48))[0] for layout in variants("padded", (6, 48))}
    assert any(s % 16 == 0 for s in padded) and any(s % 2 for s in padded)
    offsets = {layout.offset for layout in found}
    assert 0 in offsets and 1 in offsets and any(o and o % 16 == 0 for o in offsets)
    assert any(o % 2 == 1 for o in offsets)
    ones = {layout.strides((1, 5))[0] for layout in variants("size1", (1, 5))}
    assert any(s % 2 for s in ones) and any(s % 16 == 0 for s in ones)


def test_names_and_text() -> None:
    assert str(Layout.contiguous(3)) == "contiguous"
    assert Layout((0, 2, 1)).name == "transposed" and Layout((1, 0, 2)).name == "permuted"
    assert Layout((1, 0), offset=1).name == "combined"
    assert str(Layout((1, 0), offset=1)) == "combined(order=(1, 0), offset=1)"


@given(any_layout())
def test_simpler_layouts_have_fewer_features_or_gaps(drawn: tuple[Layout, tuple[int, ...]]) -> None:
    layout, _ = drawn
    for other in layout.simpler():
        fewer = sum(map(bool, other.pads)) < sum(map(bool, layout.pads))
        assert len(other.features()) < len(layout.features()) or fewer
    assert (Layout.contiguous(layout.ndim) in layout.simpler()) == (layout != Layout.contiguous(layout.ndim))


@given(any_layout())
def test_an_axis_of_length_1_can_be_left_out(drawn: tuple[Layout, tuple[int, ...]]) -> None:
    layout, shape = drawn
    for axis, n in enumerate(shape):
        if n == 1 and len(shape) > 1 and axis not in layout.expand:
            rest = shape[:axis] + shape[axis + 1 :]
            strides = layout.strides(shape)
            assert layout.without(axis).strides(rest) == strides[:axis] + strides[axis + 1 :]


def test_a_domain_restricts_layouts() -> None:
    both = Layout((1, 0), offset=1)
    assert layouts.permits(None, both)
    assert layouts.permits(("transposed",), Layout.contiguous(2))
    assert layouts.permits(("transposed",), Layout((1, 0)))
    assert not layouts.permits(("offset",), Layout((1, 0)))
    assert not layouts.permits(("combined", "offset"), both)
    assert layouts.permits(("combined", "offset", "transposed"), both)
    assert layouts.allowed(None) == NAMES and layouts.allowed(("offset", "step")) == ("step", "offset")
    with pytest.raises(HarnessError, match="unknown layout 'transpose'; did you mean 'transposed'"):
        layouts.allowed(("transpose",))


@pytest.mark.parametrize(
    "mistake",
    [
        {"order": (0, 2)},
        {"order": (0, 1), "steps": (1,)},
        {"order": (0, 1), "steps": (0, 1)},
        {"order": (0,), "pads": (-1,)},
        {"order": (0,), "offset": -1},
        {"order": (0,), "expand": (1,)},
    ],
)
def test_impossible_layouts_raise(mistake: dict[str, object]) -> None:
    with pytest.raises(HarnessError, match="layout"):
        Layout(**mistake)  # type: ignore[arg-type]


def test_a_layout_needs_its_number_of_axes() -> None:
    with pytest.raises(HarnessError, match="2 axes cannot lay out shape"):
        Layout((0, 1)).strides((3,))


def test_variants_of_orders_are_all_there() -> None:
    orders = {layout.order for name in ("transposed", "permuted") for layout in variants(name, (2, 3, 4))}
    assert orders == set(itertools.permutations(range(3))) - {(0, 1, 2)}


def test_padded_variants_begin_with_a_gap_after_every_inner_axis() -> None:
    first, *others = variants("padded", (3, 4, 5))
    assert all(first.pads[1:]) and first.pads[1] != first.pads[2]
    assert {other.pads.index(max(other.pads)) for other in others} == {1, 2}
    assert all(sum(map(bool, layout.pads)) == 1 for layout in (*others, *variants("padded", (4, 5))))
