"""Guarded memory: every stray write is found, every fill is where it belongs, the view is left alone."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from harness.memory import ALIGNMENT, GUARD, KINDS, Block, allocate, fill_value

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.uint64, torch.bool,
]  # fmt: skip
# name -> shape, strides, offset
LAYOUTS = {
    "contiguous": ((3, 4), (4, 1), 0),
    "transposed": ((3, 4), (1, 3), 0),
    "padded rows": ((3, 4), (6, 1), 0),
    "steps": ((3, 4), (8, 2), 0),
    "offset": ((3, 4), (4, 1), 3),
    "broadcast": ((3, 4), (0, 1), 0),
    "overlapping": ((3, 4), (2, 1), 0),
    "scalar": ((), (), 0),
    "empty": ((3, 0), (4, 1), 0),
}


def reachable(shape: tuple[int, ...], strides: tuple[int, ...]) -> set[int]:
    """Offsets from the view's first element that some index reaches."""
    return {
        sum(i * stride for i, stride in zip(index, strides, strict=True))
        for index in itertools.product(*map(range, shape))
    }


def flip(block: Block, offset: int) -> None:
    """Change one bit of the element at ``offset`` from the view's first."""
    raw = block.storage.view(torch.uint8)
    raw[(block.base + offset) * block.storage.dtype.itemsize] ^= 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_damage_is_found_at_both_guards_and_in_every_gap_and_nowhere_in_the_view(layout, dtype):
    shape, strides, offset = LAYOUTS[layout]
    block = allocate(shape, strides, dtype, "cpu", fill="nan", offset=offset)
    inside = reachable(shape, strides)
    assert block.damage() == []
    length = len(block.storage)
    strayed = [-block.base, -GUARD, -1, block.span, block.span + GUARD - 1, length - block.base - 1]
    strayed += [at for at in range(block.span) if at not in inside]
    for at in sorted(set(strayed)):
        flip(block, at)
        assert block.damage() == [at]
        flip(block, at)
    for at in inside:
        flip(block, at)
    assert block.damage() == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_outside_is_everything_the_view_cannot_reach(layout):
    shape, strides, offset = LAYOUTS[layout]
    block = allocate(shape, strides, torch.float32, "cpu", fill="nan", offset=offset)
    inside = {int(at) - block.base for at in (~block.outside()).nonzero()}
    assert inside == reachable(shape, strides)
    assert block.base >= GUARD and len(block.storage) - block.base - block.span >= GUARD


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool], ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "steps", "broadcast"])
def test_surrounding_with_another_fill_leaves_the_view(layout, dtype):
    shape, strides, _ = LAYOUTS[layout]
    block = allocate(shape, strides, dtype, "cpu", fill="nan")
    block.storage.as_strided(
        [1 if s == 0 else n for n, s in zip(shape, strides, strict=True)], strides, block.base
    ).fill_(1)
    before, outside = block.snapshot(), block.storage[block.outside()].clone()
    for kind in KINDS[1:]:
        block.surround(kind)
        assert block.fill == kind and block.damage() == [] and block.changed(before) == []
        assert not torch.equal(block.storage[block.outside()].view(torch.uint8), outside.view(torch.uint8))
    flip(block, -1)
    assert block.damage() == [-1]


def test_a_view_starts_out_full_of_its_fill_and_loses_it_where_it_is_written():
    for kind, expected in (("nan", math.nan), ("+large", 3.4028234e37), ("-large", -3.4028234e37)):
        block = allocate((2, 3), (3, 1), torch.float32, "cpu", fill=kind)
        assert torch.allclose(block.view, torch.full((2, 3), expected), equal_nan=True)
        assert block.untouched(block.view).all()
        block.view[1, 2] = math.nan if kind == "nan" else 0.0
        # A NaN that a kernel computed has other bits than the fill's, if the block has a salt of its own.
        salted = allocate((1,), (1,), torch.float32, "cpu", fill=kind, salt=-1)
        salted.view.fill_(math.nan)
        assert not salted.untouched(salted.view).any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_three_fills_differ_in_bits_at_every_element_of_the_first_two(dtype):
    bits = [allocate((8,), (1,), dtype, "cpu", fill=kind).storage.view(torch.uint8) for kind in KINDS]
    size = dtype.itemsize
    nan, plus, minus = (b.reshape(-1, size) for b in bits)
    assert (nan != plus).any(1).all()
    assert (nan != minus).any(1).any() and (plus != minus).any(1).any()


def test_fill_values_are_nan_and_a_tenth_of_the_largest_finite_value():
    assert math.isnan(fill_value(torch.bfloat16, "nan"))
    assert fill_value(torch.float16, "+large") == 6552.0
    assert fill_value(torch.float8_e4m3fn, "-large") == -44.0
    assert fill_value(torch.float32, "+large") == pytest.approx(torch.finfo(torch.float32).max / 10, rel=1e-7)
    assert {fill_value(torch.int8, kind) for kind in KINDS} == {94, 112, -112}
    assert fill_value(torch.uint64, "+large") > 2**63


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float8_e5m2, torch.int32], ids=str
)
@pytest.mark.parametrize("kind", KINDS)
def test_copying_one_guard_into_another_is_damage(kind, dtype):
    source = allocate((4,), (1,), dtype, "cpu", fill=kind, salt=0)
    target = allocate((4,), (1,), dtype, "cpu", fill=kind, salt=-1)
    target.storage[target.base + 4] = source.storage[source.base + 4]
    assert target.damage() == [4]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_base_is_aligned_then_moved_by_the_offset(dtype):
    for offset in (0, 1, 5):
        view = allocate((7,), (1,), dtype, "cpu", fill="nan", offset=offset).view
        assert (view.data_ptr() - offset * dtype.itemsize) % ALIGNMENT == 0


def test_the_view_is_a_plain_tensor_of_its_strides():
    view = allocate((3, 4), (8, 2), torch.float32, "cpu", fill="nan").view
    assert view.shape == (3, 4) and view.stride() == (8, 2) and not view._is_view() and not view.requires_grad


def test_a_snapshot_sees_one_flipped_bit_and_restores_it():
    block = allocate((2, 3), (6, 2), torch.float32, "cpu", fill="nan")
    block.view.copy_(torch.arange(6.0).reshape(2, 3))
    before = block.snapshot()
    flip(block, 8)
    assert block.changed(before) == [(1, 1)]
    block.restore(before)
    assert block.changed(before) == [] and torch.equal(block.view, torch.arange(6.0).reshape(2, 3))


def test_a_restores_a_broadcast_view():
    block = allocate((3, 4), (0, 1), torch.float32, "cpu", fill="nan")
    block.view[0].copy_(torch.arange(4.0))
    before = block.snapshot()
    block.view[0].zero_()
    block.restore(before)
    assert torch.equal(block.view, torch.arange(4.0).expand(3, 4))


def test_a_block_holds_its_views_and_knows_when_it_was_moved():
    block = allocate((2, 3), (3, 1), torch.float32, "cpu", fill="nan")
    assert block.holds(block.view[1]) and not block.holds(torch.zeros(2)) and block.intact
    block.view[1].zero_()
    assert block.untouched(block.view.t()).tolist() == [[True, False]] * 3
    assert not block.untouched(block.view.view(torch.float16)).any()
    block.view.resize_(4, 4)
    assert not block.intact


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((2,), (1,), torch.complex64), "no fill for torch.complex64"),
        (((2,), (-1,), torch.float32), "none negative"),
        (((2, 2), (1,), torch.float32), "as many strides"),
    ],
)
def test_what_cannot_be_allocated_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        allocate(*arguments, "cpu", fill="nan")
    with pytest.raises(ValueError, match="'zero' is none of 'nan'"):
        allocate((2,), (1,), torch.float32, "cpu", fill="zero")
