"""Cases: JSON, the tensors made from them, which situation an element belongs to, and smaller cases."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from example_contracts import (
    CONTRACTS,
    SHAPED,
    add,
    all_gather,
    all_reduce,
    attention,
    cross_entropy,
    formats_of,
    group_norm,
    grouped_attention,
    int8_matmul,
    matmul,
    norm,
    quantize_block,
    reduce_scatter,
    rope,
    rowwise,
)
from hypothesis import given
from hypothesis import strategies as st

import references
from harness import shapes, simplify
from harness.admission import check_written, objection
from harness.case import (
    Case,
    Recipe,
    Row,
    grid,
    logical_values,
    materialise,
    situation_of,
    special_row,
    used_rows,
)
from harness.contracts import Choice, Contract, Output
from harness.declaration import contract
from harness.domain import Domain
from harness.errors import HarnessError
from harness.formats import FLOAT16, decode, round_to
from harness.layouts import NAMES, Layout, variants
from harness.strategies import cases
from harness.values import row_values


def x_case(
    shape: tuple[int, ...], dim: int, *rows: Row, layout: Layout | None = None, fmt: str = "float16"
) -> Case:
    found = layout or Layout.contiguous(len(shape))
    return Case({"*shape": shape}, {"dim": dim}, {"x": Recipe(fmt, found, rows or (Row("gaussian", 1),))})


_FORMATS = {
    **{found.name: ("float16", "bfloat16", "float64") for found in CONTRACTS},
    **{found.name: formats_of(found) for found in SHAPED},
}


def numbers(view: torch.Tensor) -> torch.Tensor:
    """The values of a tensor, float64."""
    return decode(view) if view.is_floating_point() else view.to(torch.float64)


@st.composite
def any_case(draw: st.DrawFn) -> tuple[Contract, Case]:
    found = draw(st.sampled_from((*CONTRACTS, *SHAPED)))
    return found, draw(cases(found, draw(st.sampled_from(_FORMATS[found.name]))))


def same(a: Any, b: Any) -> bool:
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)


# Records


@given(any_case())
def test_json_round_trip(drawn: tuple[Contract, Case]) -> None:
    _, case = drawn
    again = Case.from_json(case.to_json())
    assert again == case and hash(again) == hash(case) and again.digest == case.digest
    assert again.tensors == case.tensors and again.sizes == case.sizes and again.scalars == case.scalars
    assert "\n" not in str(case) + case.to_json()


def test_json_keeps_every_field() -> None:
    layout = Layout((1, 0), (1, 2), (3, 0), 5, (0,), (0, 7))
    row = Row("literal", 3, (("position", -1), ("height", 2.5)), ((1, "nan"),), ("0x1p+0", "-inf"))
    case = Case(
        {"*shape": (2, 3), "N": 4},
        {"mode": (1, "a", None), "dim": -1},
        {"x": Recipe("float32", layout, (row,)), "b": None},
    )
    again = Case.from_json(case.to_json())
    assert again.tensors["x"] == Recipe("float32", layout, (row,)) and again.tensors["b"] is None
    assert again.scalars == {"mode": (1, "a", None), "dim": -1}


def test_golden_json_and_digest() -> None:
    """Pinned: saved cases must be read, and named, the same by later versions."""
    case = x_case(
        (2, 3), -1, Row("gaussian", 5), Row("nan-at", 6, (("position", -1),)), layout=Layout((1, 0), offset=1)
    )
    assert case.to_json() == (
        '{"scalars":{"dim":-1},"sizes":{"*shape":[2,3]},"tensors":{"x":{"format":"float16",'
        '"layout":{"offset":1,"order":[1,0]},"rows":[{"family":"gaussian","seed":5},'
        '{"family":"nan-at","params":[["position",-1]],"seed":6}]}}}'
    )
    assert case.digest == "51f390e8fc77"
    assert str(case) == (
        "*shape=(2, 3) | dim=-1 | "
        "x: float16 combined(order=(1, 0), offset=1) gaussian#5 nan-at#6(position=-1)"
    )


def test_cases_differ_in_any_field() -> None:
    base = x_case((2, 3), -1)
    others = [
        x_case((3, 2), -1),
        x_case((2, 3), 1),
        x_case((2, 3), -1, Row("gaussian", 2)),
        x_case((2, 3), -1, layout=Layout((1, 0))),
        x_case((2, 3), -1, fmt="float32"),
    ]
    assert len({base, *others}) == 6 and base == x_case((2, 3), -1)


@pytest.mark.parametrize("text", ["", "{}", '{"sizes":{},"scalars":{},"tensors":{"x":{"format":1}}}', "[1]"])
def test_bad_json_raises(text: str) -> None:
    with pytest.raises(HarnessError, match="this is no case"):
        Case.from_json(text)


# Tensors


@given(any_case(), st.sampled_from(("nan", "+large", "-large")))
def test_views_hold_the_logical_values(drawn: tuple[Contract, Case], fill: str) -> None:
    found, case = drawn
    inputs = materialise(found, case, guard_fill=fill)
    found = found.at(case.sizes)
    assert inputs.rows == found.situations(case.sizes, case.scalars)
    args, kwargs = found.bind(inputs.named)
    for value, wanted in zip((*inputs.args, *inputs.kwargs.values()), (*args, *kwargs.values()), strict=True):
        assert type(value) is type(wanted)
        pairs = zip(value, wanted, strict=True) if isinstance(value, list) else [(value, wanted)]
        assert all(a is b for a, b in pairs)
    for name, recipe in case.tensors.items():
        if recipe is None:
            assert inputs.named[name] is None and name not in inputs.exact
            continue
        view, block = inputs.named[name], inputs.blocks[name]
        assert view is block.view and view.stride() == recipe.layout.strides(tuple(view.shape))
        assert same(numbers(view), inputs.exact[name]) and str(view.dtype) == f"torch.{recipe.format}"
        assert tuple(view.shape) == found.shape(found.tensors[name].shape, case.sizes, case.scalars)
        assert block.fill == fill and block.damage() == []


@pytest.mark.parametrize("shape", [(5,), (3, 1), (3, 16), (2, 3, 4), (2, 1, 3, 2), (0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_every_layout_holds_the_same_values(name: str, shape: tuple[int, ...]) -> None:
    rows = (Row("gaussian", 1), Row("inf-nan", 2), Row("window", 3))
    plain = logical_values(rowwise, x_case(shape, -1, *rows), "x")
    for layout in variants(name, shape):
        case = x_case(shape, -1, *rows, layout=layout)
        inputs = materialise(rowwise, case)
        wanted = plain
        for axis in layout.expand:
            wanted = np.broadcast_to(wanted.take([0], axis=axis), shape)
        assert same(inputs.exact["x"], wanted) and same(decode(inputs.args[0]), wanted)
        base = inputs.blocks["x"].storage.data_ptr() + 2 * inputs.blocks["x"].base
        assert base % 16 == (2 * layout.offset) % 16


def test_rows_lie_along_their_axes() -> None:
    rows = tuple(Row("gaussian", seed) for seed in range(6))
    values = logical_values(rowwise, x_case((2, 5, 3), 1, *rows), "x")
    for situation, (i, j) in enumerate(itertools.product(range(2), range(3))):
        assert same(values[i, :, j], row_values(rowwise, "gaussian", situation, 5, FLOAT16))


def test_rows_repeat_with_other_seeds() -> None:
    values = logical_values(rowwise, x_case((5, 8), -1, Row("gaussian", 1), Row("equal", 2)), "x")
    assert same(values[1], row_values(rowwise, "equal", 2, 8, FLOAT16))
    assert len({values[0].tobytes(), values[2].tobytes(), values[4].tobytes()}) == 3
    recipe = x_case((5, 8), -1, Row("gaussian", 1), Row("equal", 2)).tensors["x"]
    assert recipe is not None and same(
        values[4], row_values(rowwise, "gaussian", recipe.row(4).seed, 8, FLOAT16)
    )


def test_planted_values() -> None:
    row = Row("gaussian", 1, plant=((0, "nan"), (-1, "0x1p+3"), (99, "0x1p+0"), (-99, "0x1p+0")))
    values = logical_values(rowwise, x_case((1, 4), -1, row), "x")
    plain = row_values(rowwise, "gaussian", 1, 4, FLOAT16)
    assert np.isnan(values[0, 0]) and values[0, 3] == 8 and same(values[0, 1:3], plain[1:3])


def test_cutting_a_shape_keeps_a_prefix() -> None:
    rows = (Row("gaussian", 1), Row("ill-conditioned", 2), Row("decisive-max", 3, (("position", 4),)))
    long = logical_values(rowwise, x_case((6, 40), -1, *rows), "x")
    short = logical_values(rowwise, x_case((4, 7), -1, *rows), "x")
    assert same(short, long[:4, :7])


def test_several_tensors_share_situations() -> None:
    a = Recipe("float16", Layout.contiguous(2), tuple(Row("gaussian", seed) for seed in range(3)))
    b = Recipe("float16", Layout((1, 0)), tuple(Row("gaussian", 10 + seed) for seed in range(2)))
    case = Case({"M": 3, "K": 5, "N": 2}, {}, {"a": a, "b": b})
    inputs = materialise(matmul, case)
    assert inputs.rows == 6
    assert same(inputs.exact["a"][2], row_values(matmul, "gaussian", 2, 5, FLOAT16))
    assert same(inputs.exact["b"][:, 1], row_values(matmul, "gaussian", 11, 5, FLOAT16))
    assert used_rows(matmul, case, "a").tolist() == [0, 0, 1, 1, 2, 2]
    assert used_rows(matmul, case, "b").tolist() == [0, 1, 0, 1, 0, 1]


def test_a_tensor_without_row_axes_is_one_row() -> None:
    x = Recipe("float16", Layout.contiguous(2), (Row("gaussian", 1),))
    weight = Recipe("float32", Layout.contiguous(1), (Row("positive", 2), Row("gaussian", 3)))
    case = Case({"*batch": (3,), "N": 4}, {"mode": None}, {"x": x, "weight": weight, "bias": None})
    inputs = materialise(norm, case)
    assert grid(norm, case, "weight").rows == 1 and used_rows(norm, case, "weight").tolist() == [0, 0, 0]
    assert inputs.named["weight"].dtype == torch.float32 and inputs.args[2] is None and inputs.args[3] is None
    recipe = Recipe("float16", Layout.contiguous(2), (Row("gaussian", 1),))
    whole = logical_values(add, Case({"*shape": (2, 3)}, {}, {"x": recipe, "y": recipe}), "x")
    assert same(whole.reshape(-1), row_values(add, "gaussian", 1, 6, FLOAT16))


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case({}, {"dim": 0}, {"x": None}), "sizes"),
        (Case({"*shape": (2,)}, {}, {"x": None}), "scalars"),
        (Case({"*shape": (2,)}, {"dim": 0}, {}), "tensors"),
        (Case({"*shape": (2,)}, {"dim": 0}, {"x": None}), "leaves out tensor 'x'"),
        (x_case((2, 3), 0, layout=Layout.contiguous(1)), "has 2 axes, its layout 1"),
        (x_case((2,), 0, fmt="int64"), "'x' of int64 needs its range"),
        (x_case((2,), 0, fmt="int7"), "'x' is of dtype int7; integer dtypes: bool, int8"),
        (x_case((2,), 0, fmt="float61"), "unknown format 'float61'; did you mean .float64."),
    ],
)
def test_cases_that_do_not_fit_raise(case: Case, message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        materialise(rowwise, case)


# Situations


def test_situations_of_outputs() -> None:
    case = x_case((2, 5, 3), 1)
    assert situation_of(rowwise, case, Output("*shape-dim")).tolist() == [[0, 1, 2], [3, 4, 5]]
    whole = situation_of(rowwise, case, Output("*shape"))
    assert (
        whole.shape == (2, 5, 3) and (whole[:, 0] == whole[:, 4]).all() and whole[1, 2].tolist() == [3, 4, 5]
    )
    a = Recipe("float16", Layout.contiguous(2), (Row("gaussian", 1),))
    product = Case({"M": 2, "K": 4, "N": 3}, {}, {"a": a, "b": a})
    assert situation_of(matmul, product, Output("M N")).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert situation_of(matmul, product, Output("N M")).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert situation_of(matmul, product, Output("M")).tolist() == [-1, -1]
    one = Case({"M": 2, "K": 4, "N": 1}, {}, {"a": a, "b": a})
    assert situation_of(matmul, one, Output("M")).tolist() == [0, 1]


@given(any_case())
def test_every_situation_has_its_elements(drawn: tuple[Contract, Case]) -> None:
    found, case = drawn
    found = found.at(case.sizes)
    count = found.situations(case.sizes, case.scalars)
    for output in found.outputs:
        owners = situation_of(found, case, output)
        assert tuple(owners.shape) == found.shape(output.shape, case.sizes, case.scalars)
        if owners.numel() and (count == 1 or owners.min() >= 0):
            assert sorted(set(owners.reshape(-1).tolist())) == list(range(count))


def test_special_rows_are_recognised_only_where_their_answer_holds() -> None:
    plain = Row("special:all 2", 0)
    case = x_case((3, 4), -1, plain, Row("gaussian", 1), replace(plain, plant=((0, "nan"),)))
    found = [special_row(rowwise, case, situation) for situation in range(3)]
    assert found[0] is not None and found[0].name == "all 2" and found[1:] == [None, None]
    assert special_row(rowwise, x_case((1, 4), -1, Row("special:tenths")), 0) is None  # 0.1 is no float16
    assert special_row(rowwise, x_case((1, 4), -1, Row("special:tenths"), fmt="float64"), 0) is not None
    assert special_row(rowwise, x_case((1, 3), -1, Row("special:tenths"), fmt="float64"), 0) is None
    assert special_row(rowwise, x_case((1, 4), -1, replace(plain, params=(("max_abs", 1.0),))), 0) is None
    wide = x_case((1, 4), -1, Row("special:inf first"), layout=Layout((0, 1), expand=(1,)))
    assert special_row(rowwise, wide, 0) is None
    assert special_row(rowwise, x_case((1, 4), -1, Row("special:inf first")), 0) is not None


# Smaller cases


def rows_by_situation(found: Contract, case: Case, situation: int) -> dict[str, np.ndarray]:
    """The content of every tensor that a situation sees."""
    found = found.at(case.sizes)
    contents = {}
    for name, recipe in case.tensors.items():
        if recipe is not None:
            rows = grid(found, case, name).split(logical_values(found, case, name))
            contents[name] = rows[used_rows(found, case, name)[situation]]
    return contents


def equal_contents(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)


@given(any_case(), st.data())
def test_only_situations_keeps_their_values(drawn: tuple[Contract, Case], data: st.DataObject) -> None:
    found, case = drawn
    count = found.situations(case.sizes, case.scalars)
    if count == 0:
        return
    keep = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=2)))
    small = simplify.only_situations(found, case, keep)
    left = found.situations(small.sizes, small.scalars)
    assert len(keep) <= left <= len(keep) ** 4 and (left == 1 or len(keep) == 2)
    wanted = [rows_by_situation(found, case, situation) for situation in keep]
    kept = [rows_by_situation(found, small, situation) for situation in range(left)]
    assert all(any(equal_contents(old, new) for new in kept) for old in wanted)
    for axis, length in simplify.axes(found, small).items():
        assert length <= simplify.axes(found, case)[axis]


def restricted(found: Contract, case: Case, name: str, slot: tuple[str, int], keep: list[int]) -> np.ndarray:
    """The values of a tensor that must stay when one size is restricted."""
    values = logical_values(found, case, name)
    axes = found.axes(found.tensors[name].shape, case.sizes, case.scalars)
    for at, axis in enumerate(axes):
        indices = shapes.kept(axis.label, slot, keep, case.sizes, case.scalars)
        if indices is not None:
            values = values.take(indices, axis=at)
    whole = found.tensors[name].whole
    if whole is not None and whole.high == slot[0]:
        length = case.sizes[slot[0]]
        moved = [max([0, *(new for new, old in enumerate(keep) if old <= v)]) for v in values.reshape(-1)]
        values = np.where((values < 0) | (values >= length), values, np.array(moved).reshape(values.shape))
    return values


@given(any_case(), st.data())
def test_restricting_a_size_keeps_values(drawn: tuple[Contract, Case], data: st.DataObject) -> None:
    found, case = drawn
    axes = simplify.axes(found, case)
    slot = data.draw(st.sampled_from(sorted(axes)))
    counted = slot[0] in {spec.many for spec in found.tensors.values()}
    bounds = slot[0] in {spec.whole and spec.whole.high for spec in found.tensors.values()}
    least = 1 if counted or bounds else 0
    keep = sorted(data.draw(st.sets(st.integers(0, max(0, axes[slot] - 1)), min_size=least, max_size=4)))
    keep = [] if axes[slot] == 0 else keep
    if data.draw(st.booleans()):
        keep = list(range(len(keep)))
    small = simplify.restrict(found, case, slot, keep)
    assert simplify.axes(found, small)[slot] == len(keep)
    names = [name for name in case.tensors if not counted or int(name.split("[")[1][:-1]) in keep]
    whole = found.at(case.sizes)
    for name, now in zip(names, small.tensors, strict=True):
        recipe = case.tensors[name]
        if recipe is None:
            assert small.tensors[now] is None
            continue
        got, wanted = logical_values(found, small, now), restricted(whole, case, name, slot, keep)
        assert got.shape == wanted.shape
        if all(dict(row.params).get("position", 0) >= 0 and not row.plant for row in recipe.rows):
            assert same(got, wanted)


def test_rows_repeated_by_stride_0_stay_repeated() -> None:
    rows = tuple(Row("gaussian", seed) for seed in range(12))
    case = x_case((3, 4, 5), -1, *rows, layout=Layout((0, 1, 2), expand=(0,)))
    values = logical_values(rowwise, case, "x")
    assert same(values[2], values[0]) and not same(values[0, 1], values[0, 0])
    small = simplify.restrict(rowwise, case, ("*shape", 0), [1, 2])
    assert same(logical_values(rowwise, small, "x"), values[1:])
    two = simplify.only_situations(rowwise, case, [5, 10])
    assert same(logical_values(rowwise, two, "x"), values[1:][:, 1:3])
    plain = simplify.contiguous(rowwise, case)
    assert same(logical_values(rowwise, plain, "x"), values)


def test_situations_lie_along_one_axis_afterwards() -> None:
    rows = tuple(Row("gaussian", seed) for seed in range(12))
    case = x_case((3, 5, 4), 1, *rows)
    small = simplify.only_situations(rowwise, case, [1, 6, 11])
    assert small.sizes["*shape"] == (1, 5, 3)
    assert [row.seed for row in small.tensors["x"].rows] == [1, 6, 11]  # type: ignore[union-attr]
    single = simplify.only_situations(rowwise, case, [7])
    assert single.sizes["*shape"] == (1, 5, 1)


@given(any_case(), st.sampled_from(simplify.FILLS), st.data())
def test_changed_others_keep_one_situation(
    drawn: tuple[Contract, Case], fill: str, data: st.DataObject
) -> None:
    found, case = drawn
    count = found.situations(case.sizes, case.scalars)
    if count == 0:
        return
    kept = data.draw(st.integers(0, count - 1))
    other = simplify.changed_others(found, case, kept, fill)
    assert other.sizes == case.sizes and other.scalars == case.scalars
    assert equal_contents(rows_by_situation(found, other, kept), rows_by_situation(found, case, kept))
    for name, recipe in case.tensors.items():
        if recipe is None:
            continue
        assert other.tensors[name].layout == recipe.layout  # type: ignore[union-attr]
        rows = grid(found, other, name).split(logical_values(found, other, name))
        if recipe.format.startswith("int"):
            continue
        fmt = FLOAT16 if recipe.format == "float16" else None
        for number in set(used_rows(found, case, name).tolist()) - {int(used_rows(found, case, name)[kept])}:
            if fill == "nan":
                assert np.isnan(rows[number]).all()
            elif fmt is not None:
                assert (np.abs(rows[number]) == round_to(fmt.max / 10, fmt)).all()


def test_changed_others_refuses_unknown_fills() -> None:
    with pytest.raises(HarnessError, match="unknown fill 'nun'; did you mean 'nan'"):
        simplify.changed_others(rowwise, x_case((2, 3), -1), 0, "nun")


@given(any_case())
def test_literal_and_contiguous_cases_have_the_same_values(drawn: tuple[Contract, Case]) -> None:
    found, case = drawn
    plain = simplify.contiguous(found, case)
    for name, recipe in case.tensors.items():
        if recipe is None:
            continue
        values = logical_values(found, case, name)
        assert plain.tensors[name].layout.name == "contiguous"  # type: ignore[union-attr]
        assert same(logical_values(found, plain, name), values)
        if values.size <= 300:
            written = simplify.literal(found, case, name)
            assert {row.family for row in written.tensors[name].rows} <= {"literal"} or values.size == 0  # type: ignore[union-attr]
            assert same(logical_values(found, written, name), values)
            given_values = simplify.with_values(found, case, name, values)
            assert same(logical_values(found, given_values, name), values)


def test_single_rows_can_be_written_out_and_replaced() -> None:
    case = x_case((3, 4), -1, Row("gaussian", 1), Row("offset", 2))
    values = logical_values(rowwise, case, "x")
    partly = simplify.literal(rowwise, case, "x", [1])
    assert [row.family for row in partly.tensors["x"].rows] == ["gaussian", "literal", "gaussian"]  # type: ignore[union-attr]
    assert same(logical_values(rowwise, partly, "x"), values)
    other = simplify.with_row(rowwise, case, "x", 2, Row("equal", 0, (("value", 0.5),)))
    changed = logical_values(rowwise, other, "x")
    assert same(changed[:2], values[:2]) and (changed[2] == 0.5).all()


def test_squeeze_drops_axes_of_length_1() -> None:
    rows = (Row("gaussian", 1), Row("gaussian", 2))
    case = x_case((1, 2, 1, 4), -1, *rows, layout=Layout((0, 3, 1, 2), steps=(1, 2, 1, 1)))
    values = logical_values(rowwise, case, "x")
    first = simplify.squeeze(rowwise, case, ("*shape", 0))
    assert first is not None and first.sizes["*shape"] == (2, 1, 4) and first.scalars["dim"] == -1
    assert same(logical_values(rowwise, first, "x"), values[0])
    front = simplify.squeeze(rowwise, replace(case, scalars={"dim": 3}), ("*shape", 0))
    assert front is not None and front.scalars["dim"] == 2
    middle = simplify.squeeze(rowwise, replace(case, scalars={"dim": -3}), ("*shape", 2))
    assert middle is not None and middle.scalars["dim"] == -2
    assert simplify.squeeze(rowwise, replace(case, scalars={"dim": 0}), ("*shape", 0)) is None
    assert simplify.squeeze(rowwise, case, ("*shape", 1)) is None
    assert simplify.squeeze(rowwise, x_case((1,), 0), ("*shape", 0)) is None


@given(any_case())
def test_squeezed_cases_have_the_same_values(drawn: tuple[Contract, Case]) -> None:
    found, case = drawn
    for label in simplify.axes(found, case):
        small = simplify.squeeze(found, case, label)
        if small is None:
            continue
        assert objection(found, small, Domain()) is None
        for name, recipe in case.tensors.items():
            if recipe is not None:
                values = logical_values(found, small, name)
                assert same(values, logical_values(found, case, name).reshape(values.shape))
                strides = materialise(found, small).named[name].stride()
                assert len(strides) == values.ndim


# Admission


@pytest.mark.parametrize(
    ("domain", "case", "words"),
    [
        (Domain(ndim=(2, 2)), x_case((2,), 0), "asks for"),
        (Domain(ndim=(1, 1)), x_case((2, 2), 0), "2 axes"),
        (Domain(dim="last"), x_case((2, 2), 0), "not the last"),
        (Domain(dim=(0,)), x_case((2, 2), 1), "none of"),
        (Domain(), x_case((2, 2), 2), "names no axis"),
        (Domain(max_elements=3), x_case((2, 2), 1), "4 elements"),
        (Domain(layouts=("offset",)), x_case((2, 2), 1, layout=Layout((1, 0))), "transposed"),
        (Domain(finite=True), x_case((2, 2), 1, Row("nan-at", 1)), "inf or NaN"),
        (Domain(finite=True), x_case((2, 2), 1, Row("gaussian", 1, plant=((0, "inf"),))), "not finite"),
        (Domain(finite=True), x_case((2, 2), 1, Row("special:all -inf")), "inf or NaN"),
        (Domain(max_abs=2.0), x_case((2, 2), 1, Row("gaussian", 1)), "not clipped"),
        (Domain(max_abs=2.0), x_case((2, 2), 1, Row("literal", values=("0x1p+2",))), "exceeds"),
        (Domain(dtypes=(("x", "bf16"),)), x_case((2, 2), 1), "the domain has bf16"),
        (Domain(allowed=(("shape", ((2, 3),)),)), x_case((2, 2), 1), "none of"),
        (Domain(allowed=(("dim", (0,)),)), x_case((2, 2), 1), "none of"),
    ],
)
def test_objections(domain: Domain, case: Case, words: str) -> None:
    assert objection(rowwise, x_case((2, 3), -1), Domain()) is None
    found = objection(rowwise, case, domain)
    assert found is not None and words in found


def test_objections_to_empty_axes_and_choices() -> None:
    x = Recipe("float16", Layout.contiguous(2), (Row("gaussian", 1),))
    case = Case({"*batch": (3,), "N": 0}, {"mode": None}, {"x": x, "weight": None, "bias": None})
    assert "must not be empty" in str(objection(norm, case, Domain()))
    full = replace(case, sizes={"*batch": (0,), "N": 3})
    assert objection(norm, full, Domain()) is None
    assert "none of" in str(objection(norm, replace(full, scalars={"mode": "c"}), Domain()))
    assert "none of" in str(objection(norm, full, Domain(allowed=(("mode", ("a",)),))))
    assert attention.situations({"B": 2, "H": 3, "S": 4, "D": 1, "T": 1}, {}) == 24


# Products, integers and lists


def plain_case(found: Contract, sizes: dict[str, Any], scalars: dict[str, Any], fmt: str = "float16") -> Case:
    """A case of contiguous tensors; distinct numbers everywhere, as far as the format has them."""
    whole = found.at(sizes)
    tensors: dict[str, Recipe | None] = {}
    for seed, (name, spec) in enumerate(whole.tensors.items()):
        dtype = spec.dtype or fmt
        layout = Layout.contiguous(len(whole.shape(spec.shape, sizes, scalars)))
        family = "whole-uniform" if dtype.startswith("int") else "gaussian"
        tensors[name] = Recipe(dtype, layout, (Row(family, seed),))
    return Case(sizes, scalars, tensors)


def test_a_product_is_shortened_by_its_sizes() -> None:
    sizes = {"B": 2, "Hkv": 2, "G": 3, "S": 4, "D": 5, "T": 3, "Dv": 2}
    case = plain_case(grouped_attention, sizes, {"causal": None, "window": None})
    q, k = (logical_values(grouped_attention, case, name) for name in "qk")
    found = simplify.axes(grouped_attention, case)
    assert found == {(name, 0): n for name, n in sizes.items()}
    fewer = simplify.restrict(grouped_attention, case, ("Hkv", 0), [1])
    assert same(logical_values(grouped_attention, fewer, "q"), q[:, 3:])
    assert same(logical_values(grouped_attention, fewer, "k"), k[:, 1:])
    group = simplify.restrict(grouped_attention, case, ("G", 0), [0, 2])
    assert same(logical_values(grouped_attention, group, "q"), q[:, [0, 2, 3, 5]])
    assert group.tensors["k"] == case.tensors["k"]
    half = plain_case(rope, {"B": 1, "H": 2, "S": 3, "D2": 4}, {"interleaved": False})
    shorter = simplify.cut(rope, half, ("D2", 0), 3)
    x = logical_values(rope, half, "x")
    assert same(logical_values(rope, shorter, "x"), x[..., [0, 1, 2, 4, 5, 6]])
    assert logical_values(rope, shorter, "cos").shape == (3, 3)
    with pytest.raises(HarnessError, match="no size"):
        simplify.cut(rope, half, ("2*D2", 0), 3)


def test_situations_along_a_product() -> None:
    @contract(args={"q": "B Hkv*G S D", "k": "B Hkv T D"}, returns="B Hkv*G S", rows="B Hkv*G S")
    def scores(q: Any, k: Any) -> Any: ...

    sizes = {"B": 2, "Hkv": 2, "G": 3, "S": 4, "D": 5, "T": 3}
    case = plain_case(scores, sizes, {})
    q, k = logical_values(scores, case, "q"), logical_values(scores, case, "k")
    for situation in (0, 17, 47):
        b, h, i = np.unravel_index(situation, (2, 6, 4))
        one = simplify.only_situations(scores, case, [situation])
        assert scores.situations(one.sizes, {}) == 1
        assert same(logical_values(scores, one, "q")[0, 0, 0], q[b, h, i])
        assert same(logical_values(scores, one, "k")[0, 0], k[b, h // 3])
    two = simplify.only_situations(scores, case, [0, 47])
    assert (two.sizes["Hkv"], two.sizes["G"], two.sizes["S"]) == (2, 2, 2)
    assert used_rows(scores, case, "k").tolist() == [0] * 24 + [1] * 24


def test_blocks_of_a_quotient_follow_their_elements() -> None:
    @contract(args={"q": "N", "scale": "N/block", "block": Choice((4,))}, returns="N", rows="")
    def scaled(q: Any, scale: Any, block: int) -> Any: ...

    case = plain_case(scaled, {"N": 10}, {"block": 4})
    scale = logical_values(scaled, case, "scale")
    assert scale.shape == (3,)
    kept = ((range(5), [0, 1]), ([0, 1, 8, 9], [0]), ([1, 2, 3, 4, 9], [0, 2]), (range(4, 10), [1, 2]))
    for keep, blocks in kept:
        small = simplify.restrict(scaled, case, ("N", 0), list(keep))
        assert same(logical_values(scaled, small, "scale"), scale[blocks])


def test_labels_follow_the_classes_that_stay() -> None:
    case = plain_case(cross_entropy, {"N": 6, "V": 10}, {"ignore_index": -100, "reduction": "sum"})
    case = simplify.with_values(cross_entropy, case, "target", np.array([0.0, 2, 5, 9, -100, 3]))
    small = simplify.restrict(cross_entropy, case, ("V", 0), [1, 2, 5, 7])
    assert logical_values(cross_entropy, small, "target").tolist() == [0, 1, 2, 3, -100, 1]
    one = simplify.cut(cross_entropy, small, ("V", 0), 1)
    assert logical_values(cross_entropy, one, "target").tolist() == [0, 0, 0, 0, -100, 0]
    assert objection(cross_entropy, one, Domain()) is None
    assert materialise(cross_entropy, one).named["target"].dtype == torch.int64
    wrong = simplify.with_values(cross_entropy, small, "target", np.array([0.0, 4, 2, 3, -100, 1]))
    with pytest.raises(HarnessError, match=r"'target' would hold 4; it is of int64 in \[0, 4\) or -100"):
        materialise(cross_entropy, wrong)
    assert "would hold 4" in str(objection(cross_entropy, wrong, Domain()))


def test_integers_take_other_rows_too() -> None:
    case = plain_case(cross_entropy, {"N": 4, "V": 5}, {"ignore_index": -100, "reduction": "none"})
    mine = logical_values(cross_entropy, case, "target")[1]
    for fill, value in (("nan", -100), ("+large", 4), ("-large", 0)):
        other = simplify.changed_others(cross_entropy, case, 1, fill)
        assert logical_values(cross_entropy, other, "target").tolist() == [value, mine, value, value]
    data = plain_case(int8_matmul, {"M": 3, "K": 4, "N": 2}, {}, "int8")
    assert materialise(int8_matmul, data).args[0].dtype == torch.int8
    large = simplify.changed_others(int8_matmul, data, 0, "+large")
    assert (logical_values(int8_matmul, large, "a")[1:] == 127).all()


@pytest.mark.parametrize("name", NAMES)
def test_integers_and_lists_take_every_layout(name: str) -> None:
    shape = (3, 16) if name != "size1" else (3, 1)
    for layout in variants(name, shape):
        rows = (Row("whole-uniform", 1),)
        a, b = Recipe("int8", layout, rows), Recipe("int8", Layout.contiguous(2), rows)
        inputs = materialise(int8_matmul, Case({"M": 3, "K": shape[1], "N": 4}, {}, {"a": a, "b": b}))
        assert same(numbers(inputs.args[0]), inputs.exact["a"]) and inputs.blocks["a"].damage() == []
        assert inputs.args[0].stride() == layout.strides(shape)
        shards: dict[str, Recipe | None] = {
            f"shards[{rank}]": Recipe("float16", layout, (Row("gaussian", rank),)) for rank in range(2)
        }
        both = materialise(all_reduce, Case({"*shape": shape, "world": 2}, {"op": "sum"}, shards)).args[0]
        assert [shard.stride() for shard in both] == [layout.strides(shape)] * 2
        assert not same(decode(both[0]), decode(both[1]))


def test_lists_of_tensors() -> None:
    sizes = {"k@": (2, 0, 3), "*rest": (2,), "world": 3}
    case = plain_case(all_gather, sizes, {})
    inputs = materialise(all_gather, case)
    assert [tuple(shard.shape) for shard in inputs.args[0]] == [(2, 2), (0, 2), (3, 2)]
    assert len({block.storage.data_ptr() for block in inputs.blocks.values()}) == 3
    assert simplify.axes(all_gather, case) == {
        ("k@", 0): 2, ("k@", 1): 0, ("k@", 2): 3, ("*rest", 0): 2, ("world", 0): 3
    }  # fmt: skip
    last = logical_values(all_gather, case, "shards[2]")
    pair = simplify.restrict(all_gather, case, ("world", 0), [1, 2])
    assert pair.sizes == {"k@": (0, 3), "*rest": (2,), "world": 2}
    assert list(pair.tensors) == ["shards[0]", "shards[1]"]
    assert same(logical_values(all_gather, pair, "shards[1]"), last)
    short = simplify.restrict(all_gather, pair, ("k@", 1), [0, 2])
    assert short.sizes["k@"] == (0, 2) and same(logical_values(all_gather, short, "shards[1]"), last[[0, 2]])
    assert simplify.squeeze(all_gather, simplify.cut(all_gather, case, ("k@", 0), 1), ("k@", 0)) is None
    whole = plain_case(reduce_scatter, {"world": 2, "k": 3, "*rest": ()}, {})
    first = logical_values(reduce_scatter, whole, "shards[0]")
    single = simplify.restrict(reduce_scatter, whole, ("world", 0), [0])
    assert same(logical_values(reduce_scatter, single, "shards[0]"), first[:3])
    mistakes = (({"world": 2}, "needs 2 lengths"), ({"world": 0}, "positive"), ({"k@": 3}, "needs 3 lengths"))
    for wrong, words in mistakes:
        with pytest.raises(HarnessError, match=words):
            materialise(all_gather, replace(case, sizes={**sizes, **wrong}))


def test_golden_json_of_a_list() -> None:
    case = plain_case(all_reduce, {"*shape": (2,), "world": 2}, {"op": "sum"})
    assert case.to_json() == (
        '{"scalars":{"op":"sum"},"sizes":{"*shape":[2],"world":2},"tensors":{'
        '"shards[0]":{"format":"float16","layout":{"order":[0]},"rows":[{"family":"gaussian"}]},'
        '"shards[1]":{"format":"float16","layout":{"order":[0]},"rows":[{"family":"gaussian","seed":1}]}}}'
    )
    ragged = plain_case(all_gather, {"k@": (2, 0), "*rest": (), "world": 2}, {})
    assert Case.from_json(ragged.to_json()).sizes["k@"] == (2, 0)


def test_packs_beside_products_are_counted_by_their_axes() -> None:
    sizes = {"B": 1, "G": 2, "Cg": 2, "*spatial": (3, 2)}
    case = plain_case(group_norm, sizes, {"eps": 1e-5})
    assert objection(group_norm, case, Domain()) is None
    assert "4 axes" in str(objection(group_norm, case, Domain(ndim=(1, 3))))
    attended = plain_case(
        grouped_attention,
        {"B": 1, "Hkv": 1, "G": 1, "S": 1, "D": 16, "T": 1, "Dv": 16},
        {"causal": None, "window": 3},
    )
    assert objection(grouped_attention, attended, Domain(ndim=(1, 2))) is None
    narrow = Domain(allowed=(("D", (32,)),))
    assert "size D=16 is none of" in str(objection(grouped_attention, attended, narrow))
    blocks = plain_case(quantize_block, {"*batch": (2,), "N": 130}, {"dtype": "float8_e5m2", "block": 32})
    owners = situation_of(quantize_block, blocks, quantize_block.outputs[1])
    assert owners.tolist() == [[0] * 5, [1] * 5]


def test_many_rows_come_again_after_64_repetitions() -> None:
    recipe = Recipe("float16", Layout.contiguous(2), (Row("gaussian", 1), Row("equal", 2)))
    case = Case({"*shape": (66_000, 2)}, {"dim": -1}, {"x": recipe})
    values = logical_values(rowwise, case, "x")
    assert same(values[4], values[4 + 2 * 64]) and not same(values[0], values[2 * 63])
    assert same(values[65_537], row_values(rowwise, "equal", recipe.row(65_537).seed, 2, FLOAT16))


@pytest.mark.parametrize(
    ("values", "dim", "message"),
    [
        (
            ("1", "2"),
            0,
            r"a row of tensor 'x' has 3 elements, and the case 2 values for it: give one for each",
        ),
        (("1", "2", "3", "4"), 0, r"has 3 elements, and the case 4 values"),
        (("1", "2", "3"), 7, r"case has dim=7, and x has 1 axes: give dim from -1 to 0"),
    ],
    ids=["few", "many", "axis"],
)
def test_a_case_that_does_not_fit_is_refused(values: tuple[str, ...], dim: int, message: str) -> None:
    row = Row("literal", values=tuple(float(value).hex() for value in values))
    case = Case({"*shape": (3,)}, {"dim": dim}, {"x": Recipe("float32", Layout.contiguous(1), (row,))})
    with pytest.raises(HarnessError, match=message):
        check_written(references.softmax, case)
    plain = Row("literal", values=("0x1p+0",) * 3)
    check_written(
        references.softmax,
        Case({"*shape": (3,)}, {"dim": -1}, {"x": Recipe("float32", Layout.contiguous(1), (plain,))}),
    )


def _written(change: str, value: Any) -> str:
    """A case of one element as JSON, with another value at a path such as ``tensors.x.rows.0.family``."""
    row = {"family": "literal", "values": ["0x1p+0"]}
    x = {"format": "float32", "layout": {"order": [0, 1]}, "rows": [row]}
    case = {"scalars": {"dim": 0}, "sizes": {"*shape": [1, 1]}, "tensors": {"x": x}}
    at: Any = case
    *path, last = (int(step) if step.isdigit() else step for step in change.split("."))
    for step in path:
        at = at[step]
    at[last] = value
    return json.dumps(case)


PLANTED = {"family": "gaussian", "plant": [[0, "0x1.8p+600"]]}


@pytest.mark.parametrize(
    ("change", "value", "message"),
    [
        ("foo", 1, r"this is no case: it has 'foo'; known: sizes, scalars, tensors"),
        ("tensor", {}, r"this is no case: it has 'tensor'; did you mean 'tensors'\? known"),
        (
            "tensors.x.formats",
            1,
            r"tensor 'x' has 'formats'; did you mean 'format'\? known: format, layout, rows",
        ),
        ("tensors.x.layout.pad", [0, 1], r"the layout of tensor 'x' has 'pad'; did you mean 'pads'\?"),
        (
            "tensors.x.rows.0.value",
            [],
            r"a row of tensor 'x' has 'value'; did you mean 'values'\? known: family, seed",
        ),
        (
            "tensors.x.rows.0.values",
            ["0x1.8p+600"],
            r"tensor 'x': '0x1\.8p\+600' is no number of float32; the nearest is",
        ),
        (
            "tensors.x.rows.0.values",
            ["0x1.00000001p+0"],
            r"is no number of float32; the nearest is '0x1p\+0'",
        ),
        ("tensors.x.rows.0", PLANTED, r"tensor 'x': '0x1\.8p\+600' is no number of float32; the nearest is"),
        ("tensors.x.rows.0.values", ["1.5"], r"'1\.5' is no hexadecimal float"),
        (
            "tensors.x.rows.0.family",
            "gaussian",
            r"a row of tensor 'x' is of family 'gaussian', and has values",
        ),
        (
            "tensors.x.rows.0.start",
            -3,
            r"a row of tensor 'x' starts at -3: give start from 0, or leave it out",
        ),
        ("sizes.*shape", 1, r"size \*shape=1: give a list of lengths, such as \[4, 5\]"),
        ("sizes.*shape", [1, -1], r"size \*shape=\(1, -1\): give lengths from 0"),
        ("sizes.*shape", [1, 10**15], r"size \*shape=.*: no device holds more than 1099511627776 elements"),
        ("sizes.*shape", [10**9, 10**9], r"tensor 'x' has shape .*: no device holds more than"),
    ],
)
def test_a_written_case_says_only_what_it_can_mean(change: str, value: Any, message: str) -> None:
    with pytest.raises(HarnessError, match=message) as raised:
        check_written(references.softmax, Case.from_json(_written(change, value)))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("fmt", ["float8_e4m3fn", "float16", "float32"])
def test_values_of_every_kind_may_be_written(fmt: str) -> None:
    texts = ["nan", "0x0p+0", "-0x1p-3"] + (["inf"] if fmt != "float8_e4m3fn" else [])
    case = x_case((1, len(texts)), -1, Row("literal", values=tuple(texts)), fmt=fmt)
    check_written(rowwise, Case.from_json(case.to_json()))
    if fmt == "float8_e4m3fn":
        case = x_case((1, 1), -1, Row("literal", values=("inf",)), fmt=fmt)
        with pytest.raises(HarnessError, match="'inf' is no number of float8_e4m3fn; the nearest is 'nan'"):
            check_written(rowwise, case)


def test_a_plain_size_is_one_length() -> None:
    case = json.loads(plain_case(cross_entropy, {"N": 2, "V": 3}, {}).to_json())
    case["sizes"]["N"] = [2]
    with pytest.raises(HarnessError, match=r"size N=\(2,\): give a length, such as 4"):
        check_written(cross_entropy, Case.from_json(json.dumps(case)))
