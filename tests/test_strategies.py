"""The covering list keeps its promises within 200 situations; random cases are admissible and shrink."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from example_contracts import (
    CONTRACTS,
    SHAPED,
    adam,
    add,
    add_each,
    all_gather,
    all_reduce,
    attention,
    cross_entropy,
    dequantize,
    formats_of,
    group_norm,
    grouped_attention,
    int8_matmul,
    matmul,
    norm,
    quantize_block,
    reduction,
    rope,
    rowwise,
)
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

import references
from harness import layouts
from harness.admission import narrowed, objection
from harness.case import Case, grid, logical_values, materialise
from harness.contracts import Contract, SizeOf, Tensor, Whole
from harness.declaration import contract as contract_of
from harness.domain import Domain
from harness.errors import HarnessError
from harness.formats import FORMATS, format_of
from harness.layouts import Layout
from harness.search.one_format import COVERING
from harness.strategies import Budget, cases, cover, drawn, small
from harness.strategies.contents import POSITIONS, layout, positions
from harness.strategies.cost import Fitted, products
from harness.strategies.schedule import FOLLOWING
from harness.strategies.shapes import Wish, fit
from harness.values import FAMILIES, WHOLE, available, specials, stressed

STORED = [name for name in FORMATS if name != "tf32"]
REDUCTIONS = ("sum", "mean", "prod", "amax", "amin", "logsumexp", "softmax", "log_softmax")
EVERY = [*CONTRACTS, *(getattr(references, name) for name in REDUCTIONS)]
ROWWISE = [rowwise, reduction, *EVERY[len(CONTRACTS) :]]
PRODUCTS = (matmul, attention, grouped_attention, int8_matmul)
SHAPED_IN = [(contract, formats_of(contract)[0]) for contract in SHAPED]


def first_cases(contract: Contract, fmt: str, count: int, **more: Any) -> list[Case]:
    return list(itertools.islice(cover(contract, fmt, **more), count))


def families(case: Case, name: str) -> set[str]:
    recipe = case.tensors.get(name)
    return set() if recipe is None else {row.family for row in recipe.rows}


def parts(names: set[str]) -> list[str]:
    """The families of rows, of those of several vectors the family of each."""
    return [part for name in names for part in name.removeprefix("each:").split("|")]


@dataclass
class Seen:
    """What the first situations of a covering list have met."""

    cases: list[Case] = field(default_factory=list)
    situations: int = 0
    families: set[str] = field(default_factory=set)
    layouts: set[str] = field(default_factory=set)
    lengths: set[int] = field(default_factory=set)
    ndims: set[int] = field(default_factory=set)
    axes: set[int] = field(default_factory=set)
    positions: set[str] = field(default_factory=set)
    at: set[tuple[str, int]] = field(default_factory=set)

    def add(self, contract: Contract, case: Case) -> None:
        self.cases.append(case)
        self.situations += contract.situations(case.sizes, case.scalars)
        recipe = case.tensors["x"]
        assert recipe is not None
        shape = case.sizes["*shape"]
        assert isinstance(shape, tuple)
        axis = case.scalars["dim"]
        self.layouts.add(recipe.layout.name)
        self.lengths.add(shape[axis])
        self.ndims.add(len(shape))
        self.axes.add(axis)
        expanded = {a % len(shape) for a in recipe.layout.expand}
        if 0 in shape or axis % len(shape) in expanded:
            return
        for row in recipe.rows:
            self.families.add(row.family)
            tags = FAMILIES[row.family].tags if row.family in FAMILIES else frozenset()
            for name, value in row.params:
                if name == "position" and "decisive" in tags:
                    n = shape[axis]
                    self.at.add((row.family, int(value)))
                    self.positions |= {kind for kind in POSITIONS if value in positions(kind, n)}


def first_situations(contract: Contract, fmt: str, domain: Domain | None = None, seed: int = 0) -> Seen:
    seen = Seen()
    for case in cover(contract, fmt, domain, seed):
        seen.add(contract, case)
        if seen.situations >= 200:
            return seen
    raise AssertionError


@pytest.mark.parametrize("fmt", STORED)
@pytest.mark.parametrize("contract", ROWWISE, ids=lambda contract: contract.name)
def test_200_situations_meet_what_cover_promises(contract: Contract, fmt: str) -> None:
    seen = first_situations(contract, fmt)
    wanted = {
        f.name
        for f in (
            *stressed(contract, Domain()),
            *specials(contract, Domain()),
            *available(contract, Domain()),
        )
    }
    assert wanted - seen.families == set()
    assert {"transposed", "step", "offset", "padded", "broadcast", "size1"} <= seen.layouts
    assert seen.positions == set(POSITIONS)
    assert seen.ndims == {1, 2, 3, 4}
    assert any(axis < 0 for axis in seen.axes) and any(axis >= 0 for axis in seen.axes)
    assert len(seen.axes) >= 4
    assert {1, 17, 1025, 1000, 128, 788} - seen.lengths == (set() if fmt != "float64" else {788})
    assert (0 in seen.lengths) == ("dim" not in contract.nonempty)
    assert any(0 in case.sizes["*shape"] for case in seen.cases)  # type: ignore[operator]


@pytest.mark.parametrize("fmt", STORED)
@pytest.mark.parametrize("seed", [1, 5])
def test_other_seeds_keep_the_promises(fmt: str, seed: int) -> None:
    seen = first_situations(rowwise, fmt, seed=seed)
    assert {family.name for family in available(rowwise, Domain())} <= seen.families
    assert seen.positions == set(POSITIONS)


def test_stride_0_repeats_rows_first_and_elements_later() -> None:
    found = []
    for case in itertools.islice(cover(rowwise, "float16"), 80):
        recipe, shape = case.tensors["x"], case.sizes["*shape"]
        assert recipe is not None and isinstance(shape, tuple)
        if recipe.layout.name == "broadcast":
            found.append(case.scalars["dim"] % len(shape) in recipe.layout.expand)
    assert not found[0] and True in found


def test_a_layout_expands_row_axes_when_asked() -> None:
    """One of them, or all axes at once."""
    found = {layout(Domain(), "broadcast", (5, 6, 7), turn, rows=(1,)).expand for turn in range(4)}
    assert found == {(1,), (0, 1, 2)}
    without_rows = {layout(Domain(), "broadcast", (5, 6), turn).expand for turn in range(3)}
    assert without_rows == {(0,), (1,), (0, 1)}
    assert layout(Domain(layouts=("transposed",)), "offset", (5, 6)).name == "transposed"
    assert layout(Domain(layouts=("transposed",)), "offset", (5,)).name == "contiguous"


def test_each_decisive_family_meets_each_class_of_positions() -> None:
    """Later on, every family that the contract stresses meets each position beside each power of two."""
    seen = Seen()
    for case in itertools.islice(cover(rowwise, "float16"), 150):
        seen.add(rowwise, case)
    for family in ("decisive-max", "decisive-one-hot"):
        wanted = {0, -1, -2} | {2**k + d for k in range(1, 11) for d in (0, -1)}
        assert wanted <= {at for name, at in seen.at if name == family}


def test_rare_sizes_come_a_little_later() -> None:
    met = list(itertools.islice(cover(rowwise, "float16"), 49))
    shapes = [case.sizes["*shape"] for case in met]
    lengths = {shape[case.scalars["dim"]] for shape, case in zip(shapes, met, strict=True)}  # type: ignore[index]
    assert {69_997, 135_169, 131_072, 4124, 2049, 257, 255, 256, 2, 3, 7, 13, 97, 251} <= lengths
    situations = [rowwise.situations(case.sizes, case.scalars) for case in met]
    assert 306 in situations and max(situations) == 999


def test_searches_of_other_formats_go_on_with_other_lengths() -> None:
    """Seeds 0, 1 and 2 are those of float32, float16 and bfloat16."""
    lengths = set()
    for seed in range(3):
        for case in itertools.islice(cover(rowwise, "float32", seed=seed), COVERING):
            lengths.add(case.sizes["*shape"][case.scalars["dim"]])  # type: ignore[index]
    assert {1, 2, 7, 16, 17, 31, 32, 64, 65, 128, 129} <= lengths
    assert {0, 1, 8, 20, 24, 28} <= {length % 32 for length in lengths if length > 64}
    assert {256, 257, 512, 1000, 1024, 1025, 2048, 2049, 4124} <= lengths


def test_the_first_and_the_last_row_axis_are_longer_than_usual_blocks() -> None:
    """Positions beyond a block of 64 or 128 are met in the default search, and so is a 33rd batch."""
    met = first_cases(rope, "float32", 27)
    assert max(case.sizes["S"] for case in met) > 128  # type: ignore[type-var, operator]
    assert max(case.sizes["B"] for case in met) > 32  # type: ignore[type-var, operator]


@pytest.mark.parametrize("contract", [*EVERY, *SHAPED], ids=lambda contract: contract.name)
@pytest.mark.parametrize("fmt", ["bfloat16", "float64"])
def test_launches_are_affordable(contract: Contract, fmt: str) -> None:
    fmt = fmt if fmt in (contract.formats or (fmt,)) else contract.formats[0]
    largest, situations, work = [], [], []
    budget = Budget.of(format_of(fmt) if "float" in fmt else fmt)
    for case in first_cases(contract, fmt, 80):
        whole = contract.at(case.sizes)
        shapes = [whole.shape(t.shape, case.sizes, case.scalars) for t in whole.tensors.values()]
        largest.append(max(math.prod(shape) for shape in shapes))
        limit = budget.elements if largest[-1] <= budget.elements else budget.long
        assert sum(math.prod(shape) for shape in shapes) <= 2 * limit
        situations.append(whole.situations(case.sizes, case.scalars))
        work.append(_work(contract, case))
    assert max(largest) <= budget.long
    assert sum(size > budget.elements for size in largest) <= 8
    assert sum(largest) / len(largest) < (750 if fmt == "float64" else 20_000)
    assert max(work) <= budget.products * budget.long / budget.elements
    assert sum(work) / len(work) <= budget.products
    if contract not in PRODUCTS:
        assert max(situations) <= 1000
        assert sum(n > 64 for n in situations) <= 4 and sum(situations) / len(situations) < 64


def _work(contract: Contract, case: Case) -> int:
    """Products of a matmul or of the scores of attention."""
    if contract not in PRODUCTS:
        return 0
    named = {name: n for name, n in case.sizes.items() if isinstance(n, int)}
    return math.prod(n for name, n in named.items() if name not in ("Dv", "B")) * named.get("B", 1)


@pytest.mark.parametrize("contract", [*EVERY, *SHAPED], ids=lambda contract: contract.name)
def test_the_same_seed_gives_the_same_cases(contract: Contract) -> None:
    fmt = formats_of(contract)[0]
    a = first_cases(contract, fmt, 40, seed=3)
    assert a == first_cases(contract, fmt, 40, seed=3) and a != first_cases(contract, fmt, 40, seed=0)


DOMAINS = [
    Domain(),
    Domain(ndim=(2, 2), dim="last"),
    Domain(ndim=(1, 3), dim=(0,)),
    Domain(dim=(-2,), layouts=("transposed", "offset")),
    Domain(max_elements=100, finite=True),
    Domain(layouts=("contiguous",), max_abs=2.0),
    Domain(layouts=(), finite=True, max_abs=1000.0),
    Domain(allowed=(("shape", ((4, 5), (3,), (2, 3, 4))),)),
    Domain(
        allowed=(
            ("dim", (0, -1)),
            ("N", (8, 16, 48)),
            ("mode", ("a",)),
            ("K", (32,)),
            ("D", (4, 8)),
            ("M", (1, 300)),
        )
    ),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: " ".join(domain.exclusions()) or "all")
@pytest.mark.parametrize("contract", [*CONTRACTS, *SHAPED], ids=lambda contract: contract.name)
def test_covering_cases_lie_in_the_domain(contract: Contract, domain: Domain) -> None:
    tested = ("float16", "float64") if contract in CONTRACTS else formats_of(contract)[:1]
    for fmt in tested:
        for case in first_cases(contract, fmt, 30, domain=domain):
            assert objection(contract, case, domain) is None


@given(st.data())
def test_random_cases_lie_in_the_domain(data: st.DataObject) -> None:
    contract = data.draw(st.sampled_from([*EVERY, *SHAPED]))
    domain = data.draw(st.sampled_from(DOMAINS))
    fmt = data.draw(st.sampled_from(contract.formats or STORED))
    case = data.draw(cases(contract, fmt, domain))
    assert objection(contract, case, domain) is None
    budget = Budget.of(format_of(fmt) if "float" in fmt else fmt)
    contract = contract.at(case.sizes)
    for name, tensor in contract.tensors.items():
        shape = contract.shape(tensor.shape, case.sizes, case.scalars)
        elements = 1
        for n in shape:
            elements *= n
        assert elements <= max(budget.long, 300 * 48), name


def test_a_finite_bounded_domain_has_finite_bounded_values() -> None:
    domain = Domain(finite=True, max_abs=50.0)
    for contract in (rowwise, matmul, norm, add):
        for case in itertools.islice(cover(contract, "float16", domain), 12):
            for values in materialise(contract, case).exact.values():
                assert bool(values.isfinite().all()) and (
                    values.numel() == 0 or float(values.abs().max()) <= 50
                )


def test_scalars_and_optional_tensors_take_turns() -> None:
    met = list(itertools.islice(cover(norm, "float16"), 24))
    assert {case.scalars["mode"] for case in met} == {"a", "b", None}
    absent = {tuple(case.tensors[name] is None for name in ("weight", "bias")) for case in met}
    assert absent == set(itertools.product((False, True), repeat=2))
    assert {case.tensors["bias"].format for case in met if case.tensors["bias"]} == {"float32"}
    assert {case.tensors["weight"].format for case in met if case.tensors["weight"]} == {"float16"}
    narrowed = Domain(dtypes=(("bias", "bf16"), ("weight", "float32")))
    narrow = list(itertools.islice(cover(norm, "float16", narrowed), 9))
    assert {case.tensors["weight"].format for case in narrow if case.tensors["weight"]} == {"float32"}
    assert {case.tensors["bias"].format for case in narrow if case.tensors["bias"]} == {"bfloat16"}


def test_sizes_that_the_contract_restricts_and_scalars_that_are_sizes() -> None:
    @contract_of(
        args={"x": "B G K", "groups": SizeOf("G")},
        returns="B G",
        rows="B G",
        sizes={"G": (2, 4), "K": (8, 64)},
    )
    def grouped(x: object, groups: int) -> object: ...

    for domain, groups in ((Domain(), {2, 4}), (Domain(allowed=(("G", (3,)),)), {3})):
        met = list(itertools.islice(cover(grouped, "float16", domain), 20))
        assert {case.sizes["G"] for case in met} == groups and {case.sizes["K"] for case in met} == {8, 64}
        assert all(objection(grouped, case, domain) is None for case in met)
        inputs = materialise(grouped, met[0])
        assert inputs.args[1] == met[0].sizes["G"] and "groups" not in met[0].scalars
    assert "none of" in str(objection(grouped, met[0], Domain()))


def test_every_tensor_with_rows_has_its_turn() -> None:
    met = first_cases(matmul, "float16", 40)
    for name in ("a", "b"):
        recipes = [recipe for case in met if (recipe := case.tensors[name]) is not None]
        assert {"transposed", "step", "offset"} <= {recipe.layout.name for recipe in recipes}
        assert "decisive-large" in {row.family for recipe in recipes for row in recipe.rows}


def test_impossible_domains_raise() -> None:
    with pytest.raises(HarnessError, match="domain admits no shape for contract rowwise"):
        next(cover(rowwise, "float16", Domain(ndim=(1, 1), dim=(1,))))
    with pytest.raises(HarnessError, match="domain admits no shape"):
        cases(rowwise, "float16", Domain(ndim=(1, 1), dim=(1,)))
    with pytest.raises(HarnessError, match="max_elements=5 admits no shape"):
        next(cover(norm, "float16", Domain(max_elements=5, allowed=(("N", (8,)),))))
    with pytest.raises(HarnessError, match="unknown layout"):
        next(cover(rowwise, "float16", Domain(layouts=("strided",))))


@pytest.mark.parametrize(
    ("n", "wanted"),
    [
        (0, [[], [], [], [], [], []]),
        (1, [[0], [], [], [], [], []]),
        (2, [[0], [-1], [], [], [], []]),
        (5, [[0], [-1], [-2], [2], [3, 1], [4, 2]]),
        (17, [[0], [-1], [-2], [8], [15, 7, 3, 1], [16, 8, 4, 2]]),
    ],
)
def test_positions(n: int, wanted: list[list[int]]) -> None:
    assert [positions(kind, n) for kind in POSITIONS] == wanted


def test_wishes_are_met_where_nothing_forbids_it() -> None:
    found = fit(rowwise, Domain(), Budget(), Wish(1025, 18, 3, axis=2, spread=1))
    assert found.scalars["dim"] == 2 and found.sizes["*shape"][2] == 1025  # type: ignore[index]
    assert rowwise.situations(found.sizes, found.scalars) == 18
    empty = fit(rowwise, Domain(), Budget(), Wish(5, 0, 2))
    assert rowwise.situations(empty.sizes, empty.scalars) == 0
    flat = fit(add, Domain(), Budget(), Wish(100, 1, 1))
    assert flat.sizes["*shape"] == (100,)


def test_short_rows_hold_every_kind_of_extreme_values_soon() -> None:
    """A shortcut for one, two or three elements that forgets NaN or an infinity is seen."""
    for seed in range(3):
        met: dict[int, list[np.ndarray]] = {1: [], 2: [], 3: []}
        for case in first_cases(references.softmax, "float32", 20, seed=seed):
            n = case.sizes["*shape"][case.scalars["dim"]]  # type: ignore[index]
            if n in met:
                values = np.moveaxis(logical_values(references.softmax, case, "x"), case.scalars["dim"], -1)
                met[n] += list(values.reshape(-1, n))
        assert all(
            {"nan", "inf", "-inf", "0.0"} <= {str(value) for row in rows for value in row}
            for rows in met.values()
        )
        assert any(row[0] == row[1] == np.inf for row in met[2]) or any(np.isnan(row[1]) for row in met[2])


def test_small_cases_meet_combinations() -> None:
    """The last axis of padded planes, any layout of three axes and four, absent tensors, one query with a window."""
    met: set[tuple[str, bool, int]] = set()
    for seed in range(3):
        for case in itertools.islice(small(references.softmax, "float32", seed=seed), 48):
            shape, recipe = case.sizes["*shape"], case.tensors["x"]
            assert isinstance(shape, tuple) and recipe is not None and max(shape) <= 12
            last = case.scalars["dim"] in (-1, len(shape) - 1)
            met.add((recipe.layout.name, last, len(shape)))
    assert len(met) > 45 and {("padded", True, 3), ("permuted", False, 4), ("padded", True, 4)} <= met
    queries = [
        case
        for seed in range(3)
        for case in itertools.islice(small(references.attention, "float32", seed=seed), 48)
    ]
    calls = {(case.sizes["S"] == 1, case.scalars["causal"], bool(case.scalars["window"])) for case in queries}
    assert len(calls) == 12
    absent = itertools.islice(small(references.layer_norm, "float32"), 30)
    assert len({tuple(recipe is None for recipe in case.tensors.values()) for case in absent}) == 4


def test_kernels_meet_the_last_axis_in_every_number_of_axes() -> None:
    for seed in range(3):
        met = first_cases(references.softmax, "float32", 26, seed=seed)
        last = {len(c.sizes["*shape"]) for c in met if c.scalars["dim"] in (-1, len(c.sizes["*shape"]) - 1)}  # type: ignore[arg-type]
        assert last == {1, 2, 3, 4}


def test_elements_that_are_situations_come_in_long_tensors() -> None:
    """A kernel that leaves out what lies beyond a block, or beyond 2^16 elements, is seen."""
    met = first_cases(add_each, "float32", 22)
    sizes = [math.prod(case.sizes["*shape"]) for case in met]  # type: ignore[arg-type]
    assert sum(size > 1024 for size in sizes) >= 6 and max(sizes) > 2**17 - 1 and sizes[1] > 4096
    assert {1025, 1000, 4124, 2049} <= {n for case in met for n in case.sizes["*shape"]}  # type: ignore[union-attr]
    assert sorted(sizes)[-3] <= Budget().single
    drawn = [len(set(case.sizes["*shape"])) for case in drawn_cases(add_each, "float32", 60)]  # type: ignore[arg-type]
    assert max(drawn) > 1


def test_elements_that_are_situations_hold_whole_rows_of_their_families() -> None:
    """Ties stand beside the largest code, and no element repeats another one for want of seeds."""
    case = first_cases(add_each, "float32", 2)[1]
    focus = next(name for name, recipe in case.tensors.items() if len(recipe.rows) > 6)  # type: ignore[union-attr]
    recipe, values = case.tensors[focus], logical_values(add_each, case, focus).reshape(-1)
    assert recipe is not None and len(recipe.rows) < 25
    (at,) = [i for i, row in enumerate(recipe.rows) if row.family == "code-midpoints"][:1]
    assert len(set(values[at :: len(recipe.rows)])) > 30
    assert len(set(values)) > 1536


def test_a_few_elements_hold_nothing_to_clamp() -> None:
    for seed in range(3):
        met = first_cases(add_each, "float16", 5, seed=seed)
        few = [case for case in met if 1 <= math.prod(case.sizes["*shape"]) <= 6]  # type: ignore[arg-type]
        assert any((abs(logical_values(add_each, case, name)) < 1).all() for case in few for name in "xy")


def test_some_launches_are_square() -> None:
    """Two axes of one length hide no transposition, and show one that is meant for other shapes."""
    met = [case.sizes["*shape"] for case in first_cases(rowwise, "float16", 25)]
    square = {len(shape): shape for shape in met if len(set(shape)) == 1 and shape[0] > 1}  # type: ignore[arg-type, index]
    assert set(square) >= {2, 3, 4} and met[0] == (17, 17)
    sides = [tuple(case.sizes.values()) for case in first_cases(matmul, "float16", 22)]
    assert (17, 17, 17) in sides
    drawn = [case.sizes["*shape"] for case in drawn_cases(rowwise, "float16", 100)]
    assert any(len(shape) > 2 and len(set(shape)) == 1 and shape[0] > 2 for shape in drawn)  # type: ignore[arg-type, index]


def test_a_square_summand_is_a_bias_along_either_axis() -> None:
    """Expanded along one axis, and multiplied by something: a kernel that takes the other one is found."""
    for seed in range(3):
        met = [
            case for case in first_cases(references.addmm, "float16", 24, seed=seed) if case.scalars["beta"]
        ]
        square = [case for case in met if len(set(case.sizes.values())) == 1 and case.sizes["M"] > 1]  # type: ignore[operator]
        assert any(case.tensors["c"].layout.expand for case in square)  # type: ignore[union-attr]


def drawn_cases(contract: Contract, fmt: str, count: int, seed: int = 0) -> list[Case]:
    found = drawn(contract, format_of(fmt), narrowed(contract, Domain()), seed=seed)
    return list(itertools.islice(found, count))


def test_planes_are_padded_soon() -> None:
    """No two of three axes can be taken for one: the outer stride is no multiple of the inner ones'."""
    for seed in range(4):
        found = []
        for case in first_cases(rowwise, "float16", 22, seed=seed):
            recipe, shape = case.tensors["x"], case.sizes["*shape"]
            assert recipe is not None and isinstance(shape, tuple)
            strides = recipe.layout.strides(shape)
            if recipe.layout.name == "padded" and len(shape) > 2:
                found.append(strides[-3] != shape[-2] * strides[-2])
        assert found and (any(found) or seed % 2)


@pytest.mark.parametrize(("name", "family"), [("mean", "decisive-many"), ("prod", "decisive-factors")])
def test_a_very_long_row_is_decisive_everywhere(name: str, family: str) -> None:
    contract = getattr(references, name)
    found = []
    for case in first_cases(contract, "float16", 22):
        n = case.sizes["*shape"][case.scalars["dim"]]  # type: ignore[index]
        found += [n] if family in families(case, "x") else []
    assert any(n > 65_536 for n in found) and sum(n > 2000 for n in found) >= 3


@pytest.mark.parametrize("most", [1000, 3000])
def test_small_tensors_hold_half_ulps_in_rows_that_are_long_enough(most: int) -> None:
    """From 257 elements on a float32 accumulator that adds one by one is further off than laned ones may be."""
    for seed in range(3):
        met = first_cases(references.sum, "float32", 6, domain=Domain(max_elements=most), seed=seed)
        rows = [
            (case.sizes["*shape"][case.scalars["dim"]], dict(row.params))  # type: ignore[index]
            for case in met
            for row in case.tensors["x"].rows  # type: ignore[union-attr]
            if row.family == "half-ulps"
        ]
        assert any(n > 257 and params.get("narrow") == 0 == params.get("over") for n, params in rows)


def test_companions_are_large_now_and_then() -> None:
    """A bias of 1000 shows a maximum taken before it is added; a weight beyond [-8, 8] its own range."""
    for seed in range(3):
        met = first_cases(norm, "float16", 30, seed=seed)
        biases = {row for case in met if case.tensors["bias"] for row in case.tensors["bias"].rows}
        given = {(row.family, dict(row.params).get("offset")) for row in biases}
        assert ("offset", 1000.0) in given and "window" in {family for family, _ in given}


@pytest.mark.parametrize("seed", range(4))
def test_a_launch_of_one_situation_has_rows_of_many_families(seed: int) -> None:
    contract = references.cross_entropy
    met = first_cases(contract, "float32", 22, seed=seed)
    mixed = [case for case in met if len(parts(families(case, "logits"))) > 3]
    assert len(mixed) >= 8 and max(case.sizes["N"] for case in mixed) > 100  # type: ignore[type-var]
    alone = [case for case in met if len(parts(families(case, "logits"))) == 1]
    assert len(alone) >= 5
    masked = 0
    for case in met:
        logits = logical_values(contract, case, "logits")
        whole = np.isneginf(logits[:, :128]).all(axis=1) & ~np.isneginf(logits).all(axis=1)
        masked += case.sizes["V"] > 128 and whole.any()  # type: ignore[operator]
    assert masked
    drawn_mixed = [
        case
        for number in range(3)
        for case in drawn_cases(contract, "float32", 60, number)
        if len(parts(families(case, "logits"))) > 1
    ]
    assert len(drawn_mixed) >= 5


# Products, integers, lists, several tensors


@pytest.mark.parametrize(("contract", "fmt"), SHAPED_IN, ids=lambda value: getattr(value, "name", value))
def test_sizes_and_scalars_take_all_their_values(contract: Contract, fmt: str) -> None:
    met = first_cases(contract, fmt, 40)
    for name, values in contract.sizes.items():
        assert {case.sizes[name] for case in met} == set(values), name
    for name, spec in contract.scalars.items():
        if not isinstance(spec, SizeOf):
            assert {case.scalars[name] for case in met} == set(spec.values), name  # type: ignore[union-attr]
    for case in met:
        assert Case.from_json(case.to_json()) == case


def test_any_two_choices_meet_in_all_combinations() -> None:
    met = first_cases(grouped_attention, "bfloat16", 36)
    for a, b in itertools.combinations(("Hkv", "G", "causal", "window"), 2):
        found = {tuple((case.sizes | case.scalars)[name] for name in (a, b)) for case in met}
        assert len(found) == 9, (a, b)
    assert len({(case.sizes["D"], case.sizes["Dv"]) for case in met}) >= 8


def test_queries_and_keys_have_unequal_moderate_lengths() -> None:
    met = first_cases(grouped_attention, "float16", 44)
    lengths = [(case.sizes["S"], case.sizes["T"]) for case in met]
    assert sum(s > 1 and t > 1 for s, t in lengths) > 25
    assert any(s > t > 8 for s, t in lengths) and any(t > s > 8 for s, t in lengths)
    assert any(s == t > 8 for s, t in lengths) and max(t for _, t in lengths) >= 1000  # type: ignore[type-var]
    rows = sorted(math.prod(case.sizes[name] for name in ("B", "Hkv", "G", "S")) for case in met)  # type: ignore[misc]
    assert rows[len(rows) // 2] <= 160


def test_products_of_two_tensors_stay_within_their_budget() -> None:
    for main, contract in itertools.product(range(4), (grouped_attention, matmul)):
        found = fit(
            contract, narrowed(contract, Domain()), Budget(products=30_000), Wish(129, 600, main=main)
        )
        assert 1_000 < products(contract, found) <= 30_000
    sizes = {"B": 2, "Hkv": 3, "G": 1, "S": 5, "T": 7, "D": 16, "Dv": 48}
    scores = Fitted(sizes, {"causal": None, "window": None})
    assert products(grouped_attention, scores) == 2 * 3 * 5 * 7 * 48  # never queries by values
    assert products(matmul, Fitted({"M": 2, "K": 5, "N": 7}, {})) == 70
    assert products(norm, Fitted({"*batch": (3,), "N": 4}, {"mode": None})) == 0


def test_products_of_two_tensors_have_several_tiles() -> None:
    for contract, fmt in ((matmul, "float16"), (int8_matmul, "int8")):
        shapes = [case.sizes for case in first_cases(contract, fmt, 24)]
        assert sum(s["M"] > 16 and s["N"] > 16 for s in shapes) >= 4  # type: ignore[operator]
        assert any(s["M"] > 64 and s["N"] > 16 for s in shapes)  # type: ignore[operator]
        assert any(s["N"] > 64 and s["M"] > 16 for s in shapes)  # type: ignore[operator]


@pytest.mark.parametrize("contract", [references.matmul, references.bmm, references.addmm])
def test_products_have_tiles_of_128_along_both_axes(contract: Contract) -> None:
    """A grid that is right for one row or column of tiles, and an index of 16 bits, show in no smaller one."""
    for seed in range(3):
        sides = [case.sizes for case in first_cases(contract, "bfloat16", 24, seed=seed)]
        assert any(min(s["M"], s["N"]) > 256 and s["M"] * s["N"] > 65_536 for s in sides)  # type: ignore[operator, type-var]


def test_attention_has_several_tiles_of_128_queries_and_keys_and_wide_heads() -> None:
    for seed in range(3):
        met = first_cases(references.attention, "bfloat16", 20, seed=seed)
        long = [case for case in met if case.sizes["S"] > 128 and case.sizes["T"] > 128]  # type: ignore[operator]
        assert {case.scalars["causal"] for case in long} - {None}
        assert {case.scalars["window"] for case in long} - {None}
        wide = [case for case in met if case.sizes["D"] >= 128 and case.sizes["T"] > 1]  # type: ignore[operator]
        assert wide and any(case.scalars["scale"] != 1 for case in wide)


@pytest.mark.parametrize("contract", [references.matmul, references.bmm, references.addmm])
def test_the_longest_product_ends_within_a_block_and_shows_it(contract: Contract) -> None:
    """A path for a long K that drops what its parts leave over loses less than the sum may err by, but here."""
    for seed in range(3):
        met = first_cases(contract, "float32", 24, seed=seed)
        case = max(met, key=lambda case: case.sizes["K"])  # type: ignore[arg-type, return-value]
        assert case.sizes["K"] == 131_071
        a, b = (logical_values(contract, case, name).ravel() for name in "ab")
        assert abs(a[-1] * b[-1]) > np.abs(a * b).sum() / 1000


def test_codebooks_have_several_tiles_of_128() -> None:
    met = first_cases(references.kmeans_assign, "bfloat16", 20)
    assert sum(case.sizes["K"] > 128 and case.sizes["D"] > 0 for case in met) >= 2  # type: ignore[operator]


def test_one_row_of_keys_or_values_beside_long_queries_is_not_flat() -> None:
    """Where all keys, or values, are alike, it does not show which of them a query sees."""
    beside = []
    for seed in range(4):
        for case in first_cases(references.attention, "bfloat16", 28, seed=seed):
            if case.sizes["S"] > 128 and case.sizes["B"] == case.sizes["Hkv"] == 1:  # type: ignore[operator]
                beside += [families(case, name) for name in "kv"]
    assert len(beside) >= 20 and not set().union(*beside) & {"equal", "zeros", "identical-vectors"}


def test_very_long_products_of_integers_leave_24_bits() -> None:
    met = first_cases(references.matmul, "int8", 20)
    both = [[families(case, name) for name in "ab"] for case in met if case.sizes["K"] > 2000]  # type: ignore[operator]
    assert any(all("whole-large" in found for found in pair) for pair in both)


@pytest.mark.parametrize("contract", [norm, matmul, group_norm, grouped_attention, rope, adam])
def test_mostly_one_tensor_holds_anything_but_ordinary_data(contract: Contract) -> None:
    met = first_cases(contract, "bfloat16", 48)

    def wild(case: Case, name: str) -> bool:
        return any(
            FAMILIES[family].tags & {"special", "range"}
            for family in families(case, name)
            if family in FAMILIES
        )

    crowded = [case for case in met if sum(wild(case, name) for name in contract.tensors) > 1]
    assert len(crowded) <= 4 + len(FOLLOWING)
    assert sum(any(wild(case, name) for name in contract.tensors) for case in met) >= 6
    shared = [name for name, spec in contract.tensors.items() if not grid(contract, met[0], name).row_axes]
    for name in shared if contract.rows != "B" or contract is group_norm else ():
        drawn = [families(case, name) for case in met if case.tensors[name] is not None]
        if not contract.tensors[name].families:
            assert 1 <= sum(wild(case, name) for case in met) <= 6
        simple = {family.name for family in FAMILIES.values() if family.tags & {"ordinary", "decisive"}}
        assert sum(found <= simple for found in drawn) >= 0.7 * len(drawn)


def test_tensors_with_families_of_their_own_draw_no_others() -> None:
    for contract in (grouped_attention, rope, adam, all_gather, dequantize):
        for case in first_cases(contract, formats_of(contract)[0], 40):
            for name, spec in contract.at(case.sizes).tensors.items():
                if spec.families:
                    assert set(parts(families(case, name))) <= set(spec.families)
    met = first_cases(adam, "float32", 40)
    assert all(case.tensors["exp_avg_sq"].format == "float32" for case in met)  # type: ignore[union-attr]
    for name in ("grad", "exp_avg_sq"):
        assert set().union(*(families(case, name) for case in met)) == set(adam.tensors[name].families)


def test_families_of_vectors_know_their_inner_axes() -> None:
    found: dict[str, set[tuple[float, bool]]] = {}
    for case in first_cases(grouped_attention, "float16", 60):
        inner = {"q": (case.sizes["D"],), "k": (case.sizes["D"],), "v": (case.sizes["Dv"],)}
        for name in ("q", "k", "v"):
            cells = grid(grouped_attention, case, name)
            for row in case.tensors[name].rows:  # type: ignore[union-attr]
                given = dict(row.params).get("inner")
                if given is not None:
                    assert given in cells.inner
                    found.setdefault(row.family, set()).add((given, given in inner[name]))
    assert set(found) == {"ascending-vectors", "identical-vectors", "factor-vectors", "one-hot-vectors"}
    assert all({last for _, last in seen} == {True, False} for seen in found.values() if len(seen) > 3)


def test_integers_take_turns_at_their_themes() -> None:
    met = first_cases(cross_entropy, "float16", 60)
    seen: set[str] = set()
    planted, ascending, equal = [], [], []
    for case in met:
        labels = logical_values(cross_entropy, case, "target")
        ignored, classes = case.scalars["ignore_index"], case.sizes["V"]
        assert ((labels == ignored) | ((labels >= 0) & (labels < classes))).all()
        assert case.tensors["target"].format == "int64"  # type: ignore[union-attr]
        seen |= families(case, "target")
        if len(labels) > 4:
            planted.append((labels == ignored).mean())
            ascending.append((labels[:20] == range(min(len(labels), 20))).all() and classes > 20)
            equal.append(len(set(labels)) == 1)
    assert seen == set(WHOLE)
    assert 1.0 in planted and any(0 < share < 1 for share in planted) and 0.0 in planted
    assert any(ascending) and any(equal)
    assert cross_entropy.nonempty == ("V",) and any(case.sizes["N"] == 0 for case in met)


@pytest.mark.parametrize("seed", range(3))
def test_ignored_labels_meet_every_reduction(seed: int) -> None:
    met = itertools.islice(cover(references.cross_entropy, "float32", seed=seed), COVERING)
    some = set()
    for case in met:
        ignored = logical_values(references.cross_entropy, case, "target") == case.scalars["ignore_index"]
        if ignored.any() and not ignored.all():
            some.add(case.scalars["reduction"])
    assert some == {"none", "sum", "mean"}


def test_labels_need_classes_even_where_nothing_says_so() -> None:
    @contract_of(
        args={
            "x": "N V",
            "label": Tensor("N", dtype="int32", whole=Whole(0, "classes")),
            "classes": SizeOf("V"),
        },
        returns="N",
        rows="N",
    )
    def pick(x: object, label: object, classes: int) -> object: ...

    met = first_cases(pick, "float16", 40)
    assert all(case.sizes["V"] for case in met) and any(case.sizes["N"] == 0 for case in met)
    assert all(str(materialise(pick, case).args[1].dtype) == "torch.int32" for case in met[:10])


def test_integer_dtypes_under_test() -> None:
    met = first_cases(int8_matmul, "int8", 40)
    assert all(
        recipe is not None and recipe.format == "int8" for case in met for recipe in case.tensors.values()
    )
    seen = set().union(*(families(case, name) for case in met for name in "ab"))
    assert seen == set(WHOLE)
    values = [logical_values(int8_matmul, case, "a") for case in met]
    assert min(v.min() for v in values if v.size) == -128 and max(v.max() for v in values if v.size) == 127
    for fmt in dequantize.formats:
        case = next(cover(dequantize, fmt))
        assert (case.tensors["q"].format, case.tensors["scale"].format) == (fmt, "float32")  # type: ignore[union-attr]
    for draw in (lambda: next(cover(matmul, "int8")), lambda: cases(matmul, "int8")):
        with pytest.raises(HarnessError, match="matmul is not judged in int8"):
            draw()
    with pytest.raises(HarnessError, match="needs its range"):
        next(cover(contract_of(args={"x": Tensor("N", dtype="int64")}, returns="N", rows="")(_id), "float16"))
    kept = Domain(dtypes=(("target", "int32"),))
    assert next(cover(cross_entropy, "float16", kept)).tensors["target"].format == "int32"  # type: ignore[union-attr]


def _id(x: object) -> object: ...


def test_lists_have_every_count_and_unequal_lengths() -> None:
    met = first_cases(all_gather, "float16", 40)
    assert {case.sizes["world"] for case in met} == {1, 2, 3, 4}
    lengths = [case.sizes["k@"] for case in met if case.sizes["world"] > 1]  # type: ignore[operator]
    assert any(0 in each and max(each) > 8 for each in lengths)  # type: ignore[operator, arg-type, type-var]
    assert any(len(set(each)) == 1 and each[0] > 8 for each in lengths)  # type: ignore[arg-type, index]
    assert any(len(set(each)) == len(each) > 2 for each in lengths)  # type: ignore[arg-type]
    layouts_met = [{recipe.layout.name for recipe in case.tensors.values() if recipe} for case in met]
    assert any(len(names) > 1 for names in layouts_met)
    assert {"transposed", "step", "offset"} <= set().union(*layouts_met)


def test_lists_share_a_family_or_leave_it_to_one_tensor() -> None:
    together = alone = 0
    for case in first_cases(all_reduce, "float16", 40):
        drawn = [families(case, name) for name in case.tensors]
        seeds = {recipe.rows[0].seed for recipe in case.tensors.values() if recipe}
        if len(drawn) > 1 and len(seeds) > 1:
            wild = ["near-overflow" in found for found in drawn]
            together += all(wild)
            alone += sum(wild) == 1
    assert together and alone


def test_many_rows_are_for_fast_devices() -> None:
    few = first_cases(rowwise, "float16", 25)
    many = first_cases(rowwise, "float16", 25, many_rows=True)
    count = [rowwise.situations(case.sizes, case.scalars) for case in many]
    assert {65_535, 65_536, 65_537} <= set(count) and len(set(count)) > 6
    assert max(rowwise.situations(case.sizes, case.scalars) for case in few) <= 1000
    for case, rows in zip(many, count, strict=True):
        if rows > 60_000:
            assert math.prod(case.sizes["*shape"]) == 2 * rows  # type: ignore[arg-type]
            assert logical_values(rowwise, case, "x").size == 2 * rows
    double = [
        rowwise.situations(c.sizes, c.scalars) for c in first_cases(rowwise, "float64", 25, many_rows=True)
    ]
    assert max(double) < 5000


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
@pytest.mark.parametrize("fmt", ["float32", "float16", "bfloat16"])
def test_settings_of_families_are_met_first(name: str, fmt: str) -> None:
    """-inf over whole blocks, then -200: what shows 0 taken for the maximum of a masked block."""
    found = []
    for case in first_cases(getattr(references, name), fmt, 20):
        n = case.sizes["*shape"][case.scalars["dim"]]  # type: ignore[index]
        for row in case.tensors["x"].rows:  # type: ignore[union-attr]
            params = dict(row.params)
            if row.family == "leading-minus-inf" and params.get("level") == -200:
                found.append((n, params["position"]))
    assert len(found) >= 2 and all(n >= 600 and position >= 511 for n, position in found[:2])


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_half_ulps_come_in_a_long_row(name: str) -> None:
    """Several in each lane of a block: what shows errors kept for one block, or one lane, only."""
    wanted = {("narrow", 0), ("over", 0), ("exponent", 15), ("position", 3)}
    rows = [
        (case.sizes["*shape"][case.scalars["dim"]], row)  # type: ignore[index]
        for case in first_cases(getattr(references, name), "float32", 14)
        for row in case.tensors["x"].rows  # type: ignore[union-attr]
    ]
    assert any(n >= 2000 and row.family == "half-ulps" and wanted == set(row.params) for n, row in rows)


@pytest.mark.parametrize("name", ["argmax", "amin", "softmax"])
def test_nan_and_inf_come_first_in_long_rows(name: str) -> None:
    found = set()
    for case in first_cases(getattr(references, name), "float32", 12):
        n = case.sizes["*shape"][case.scalars["dim"]]  # type: ignore[index]
        found |= {(row.family, n > 300) for row in case.tensors["x"].rows if ("position", 0) in row.params}  # type: ignore[union-attr]
    assert {("nan-at", True), ("inf-at", True)} <= found


def test_parameters_of_families_take_turns() -> None:
    met: dict[str, list[float]] = {}
    for case in first_cases(rowwise, "float32", 20):
        for row in case.tensors["x"].rows:  # type: ignore[union-attr]
            first = FAMILIES[row.family].params[:1] if row.family in FAMILIES else ()
            if first and not first[0].position and first[0].name in dict(row.params):
                met.setdefault(row.family, []).append(dict(row.params)[first[0].name])
    assert len(met) > 20
    for name, values in met.items():
        options = FAMILIES[name].params[0].values
        assert len(values) < 2 * len(options) or set(values) == set(options), name
        assert len(values) < 2 or len(set(values)) > 1, name


def test_launches_without_rows_use_up_no_demand() -> None:
    for case in first_cases(rowwise, "float16", 40):
        if rowwise.situations(case.sizes, case.scalars) == 0:
            assert families(case, "x") == {"small-integers"}


def test_quotients_are_as_long_as_their_blocks_say() -> None:
    for case in first_cases(quantize_block, "bfloat16", 12):
        batch, n, block = case.sizes["*batch"], case.sizes["N"], case.scalars["block"]
        scale = quantize_block.shape("*batch N/block", case.sizes, case.scalars)
        assert scale == (*batch, -(-n // block))  # type: ignore[misc, operator]


# Shrinking

quiet = settings(max_examples=2000, database=None, deadline=None, suppress_health_check=list(HealthCheck))


def test_cases_shrink_to_the_smallest() -> None:
    for contract in (rowwise, reduction):
        case = find(cases(contract, "float16"), lambda case: True, settings=quiet)
        assert str(case) == "*shape=(1,) | dim=-1 | x: float16 contiguous small-integers#0"


def test_a_failure_shrinks_to_its_cause() -> None:
    def broken(case: Case) -> bool:
        shape = case.sizes["*shape"]
        assert isinstance(shape, tuple)
        return shape[case.scalars["dim"]] > 16 and case.tensors["x"].layout.name == "transposed"  # type: ignore[union-attr]

    case = find(cases(rowwise, "float16"), broken, settings=quiet)
    recipe = case.tensors["x"]
    assert recipe is not None and recipe.layout == Layout((1, 0))
    assert [row.family for row in recipe.rows] == ["small-integers"]
    assert case.sizes["*shape"] in ((17, 2), (2, 17))


def test_a_wrong_value_shrinks_to_one_row() -> None:
    def broken(case: Case) -> bool:
        return bool((abs(logical_values(rowwise, case, "x")) > 500).any())

    case = find(cases(rowwise, "float16"), broken, settings=quiet)
    recipe = case.tensors["x"]
    assert recipe is not None and recipe.layout.name == "contiguous"
    (length,) = case.sizes["*shape"]  # type: ignore[misc]
    assert length <= 16 and len(recipe.rows) == 1


@pytest.mark.parametrize("contract", [*CONTRACTS, *SHAPED], ids=lambda contract: contract.name)
def test_random_cases_vary(contract: Contract) -> None:
    names: set[str] = set()
    drawn: set[str] = set()
    digests: set[str] = set()

    @settings(max_examples=120, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(cases(contract, formats_of(contract)[0]))
    def collect(case: Case) -> None:
        digests.add(case.digest)
        for recipe in case.tensors.values():
            if recipe is not None:
                names.add(recipe.layout.name)
                drawn.update(row.family for row in recipe.rows)

    collect()
    few = 3 if contract in (all_gather, dequantize, int8_matmul) else 20
    assert len(names) >= 5 and names <= set(layouts.NAMES) and len(drawn) >= few and len(digests) > 60
