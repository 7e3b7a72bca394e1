"""Whole large tensors in pieces: what they hold, how a definition is read over them, and what is found in them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from processes import peak_gib

import harness
import references
from harness import formats, numbers
from harness.arithmetic import Arithmetic
from harness.case import Case, Recipe, Row, materialise
from harness.contracts import Contract
from harness.formats import to_hex
from harness.large import Contents, run_large
from harness.large.contents import TILE
from harness.layouts import Layout
from harness.numbers import Answer, Number, read_float64
from harness.numbers.pieces import InPieces, Long, NotInPieces
from harness.strategies import whole
from harness.strategies.whole import ELEMENTS
from harness.trial import Subject, Trial

COUNT = 3_000_000
"""Elements of the large launches here: more than a tile."""


def first(contract: Contract, fmt: str = "bfloat16", number: int = 0) -> Case:
    return list(whole(contract, fmt, elements=COUNT))[number]


def tried(function: Callable[..., Any], contract: Contract, case: Case, **claims: Any) -> Trial:
    return run_large(Subject(function, "f", contract, Arithmetic(**claims)), case)


def total(x: torch.Tensor, dim: int) -> torch.Tensor:
    return x.sum(dim, dtype=torch.float32).to(x.dtype)


ROWS = {
    "ordinary": lambda n: torch.arange(n, dtype=torch.float64).remainder(37.0) - 11,
    "rounding": lambda n: torch.linspace(-3.0, 5.0, n, dtype=torch.float64).float().double(),
    "infinite": lambda n: torch.where(torch.arange(n) == 777, torch.inf, 1.0).double(),
    "nan": lambda n: torch.where(torch.arange(n) == 777, torch.nan, 1.0).double(),
    "overflow": lambda n: torch.full((n,), 1e38, dtype=torch.float64).float().double(),
}


@pytest.mark.parametrize("values", ROWS)
@pytest.mark.parametrize(
    "name", ["sum", "mean", "amax", "amin", "argmax", "argmin", "logsumexp", "var", "vector_norm"]
)
def test_a_definition_reads_the_same_in_pieces(name: str, values: str) -> None:
    contract: Contract = getattr(references, name)
    x = ROWS[values](4001)
    model = Arithmetic().model(contract, formats.FLOAT32)
    call = {"dim": 0, **({"correction": 1} if name == "var" else {})}
    long = Long((4001,), 0, 100, lambda start, stop: x[start:stop])
    (a,) = read_float64(contract.definition, {"x": long, **call}, model, [()], backend=InPieces())
    (b,) = read_float64(contract.definition, {"x": x, **call}, model, [()])
    # Each value is within its radius of the exact one, and each t is inflated by it, and rounded in n operations.
    apart = a.radius + b.radius
    assert torch.equal(a.value.isfinite(), b.value.isfinite())
    same = (a.value == b.value) | (a.value.isnan() & b.value.isnan())
    assert bool((same | ((a.value - b.value).abs() <= a.radius * a.t + b.radius * b.t)).all())
    assert torch.allclose(a.t, b.t, rtol=apart + 4 * 4001 * 2.0**-53, atol=0)
    assert torch.equal(a.may, b.may)


@pytest.mark.parametrize("name", ["prod", "cumsum", "softmax"])
def test_what_needs_a_row_as_a_whole_says_so(name: str) -> None:
    contract: Contract = getattr(references, name)
    long = Long((4001,), 0, 100, lambda start, stop: torch.ones(stop - start, dtype=torch.float64))
    model = Arithmetic().model(contract, formats.FLOAT32)
    with pytest.raises(NotInPieces):
        read_float64(contract.definition, {"x": long, "dim": 0}, model, [None], backend=InPieces())


Definition = Callable[[Number], Number]
IN_PIECES: dict[str, Definition] = {
    "where": lambda x: numbers.sum(numbers.where(x > 0, x, 0.0), 0),
    "conditions joined": lambda x: numbers.sum(numbers.where((x > 0) ^ (x < 3), x, 1.0), 0),
    "a mask by place": lambda x: numbers.sum(numbers.where(numbers.positions(x, 0) % 7 == 3, x, 0.0), 0),
    "places divided": lambda x: numbers.amax(numbers.where(numbers.positions(x, 0) // 2000 == 1, x, -9.0), 0),
    "the last place": lambda x: numbers.argmax(numbers.where(numbers.positions(x, -1) == 4000, x, -99.0), -1),
}
AS_A_WHOLE: dict[str, Definition] = {
    "reshape": lambda x: numbers.sum(numbers.reshape(x, (1, 4001)), 1),
    "transpose": lambda x: numbers.sum(numbers.transpose(numbers.unsqueeze(x, 0)), 1),
    "expand": lambda x: numbers.sum(numbers.expand(x, (2, 4001)), 1),
    "take_along": lambda x: numbers.take_along(x, numbers.argmax(x, 0), 0),
    "matmul": lambda x: numbers.matmul(x, x),
    "concatenate": lambda x: numbers.sum(numbers.concatenate([x, x], 0), 0),
    "every other": lambda x: numbers.sum(x[::2], 0),
    "repeat": lambda x: numbers.sum(numbers.repeat_interleave(x, 2, 0), 0),
}


def read_long(definition: Definition) -> tuple[Answer, Answer]:
    """Of a row that is long, and of the same as a whole."""
    x = ROWS["rounding"](4001)
    long = Long((4001,), 0, 100, lambda start, stop: x[start:stop])
    model = Arithmetic().model(references.sum, formats.FLOAT32)
    (a,) = read_float64(definition, {"x": long}, model, [None], backend=InPieces())
    (b,) = read_float64(definition, {"x": x}, model, [None])
    return a, b


@pytest.mark.parametrize("what", IN_PIECES)
def test_conditions_are_read_in_pieces(what: str) -> None:
    a, b = read_long(IN_PIECES[what])
    assert bool((abs(a.value - b.value) <= a.radius * a.t + b.radius * b.t).all())
    assert torch.equal(a.t == 0, b.t == 0)


@pytest.mark.parametrize("what", AS_A_WHOLE)
def test_whatever_needs_the_axis_as_a_whole_says_so(what: str) -> None:
    with pytest.raises(NotInPieces):
        read_long(AS_A_WHOLE[what])


def one_row(row: Row, n: int = COUNT, fmt: str = "bfloat16") -> Case:
    return Case({"*shape": (n,)}, {"dim": 0}, {"x": Recipe(fmt, Layout((0,)), (row,))})


def test_a_long_row_repeats_its_beginning_and_keeps_what_is_planted() -> None:
    at = (5, COUNT - 1, TILE)
    row = Row("gaussian", 3, plant=tuple((place, to_hex(8.0 + i)) for i, place in enumerate(at)))
    held = Contents(references.sum, one_row(row), "x", "cpu")
    whole_ = held.stored(0, COUNT)
    assert [float(whole_[place]) for place in at] == [8.0, 9.0, 10.0]
    for start, stop in ((0, 1), (7, 5000), (TILE - 3, TILE + 9), (COUNT - 4, COUNT)):
        assert torch.equal(held.stored(start, stop), whole_[start:stop])
    period = TILE - 1
    assert torch.equal(whole_[6:500], whole_[6 + period : 500 + period])
    assert not torch.equal(whole_[:1000], whole_[TILE : TILE + 1000])
    assert torch.equal(held.block(0, 999_983).view, whole_)


def test_a_tensor_that_fits_into_a_tile_is_that_of_any_launch() -> None:
    case = next(case for case in whole(references.softmax, "bfloat16", elements=200_000))
    small = materialise(references.softmax, case)
    held = Contents(references.softmax, case, "x", "cpu")
    assert held.count <= TILE
    assert torch.equal(
        held.exact(0, held.count).nan_to_num(7.0), small.exact["x"].reshape(-1).nan_to_num(7.0)
    )


@pytest.mark.parametrize("fmt", ["bfloat16", "float8_e4m3fn"])
def test_right_functions_are_right(fmt: str) -> None:
    for case in whole(references.sum, fmt, elements=COUNT):
        trial = tried(total, references.sum, case)
        assert not trial.failures and not trial.tally.declined, trial
        assert trial.tally.elements == trial.tally.situations > 0


def test_every_row_of_a_large_launch_is_judged() -> None:
    trial = tried(torch.softmax, references.softmax, first(references.softmax))
    assert not trial.failures
    rows, n = trial.case.sizes["*shape"]  # type: ignore[misc]
    assert trial.tally.situations == rows and trial.tally.elements == rows * n >= COUNT
    assert 0 < trial.tally.decisive_situations <= trial.tally.plain_situations <= 40


@pytest.mark.parametrize("place", [0, 1_234_567, -1])
def test_one_wrong_element_is_found_and_named(place: int) -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        out = torch.nn.functional.silu(x)
        out.view(-1)[place] += 0.5 + out.view(-1)[place].abs()
        return out

    def calm(x: Row) -> bool:
        return x.family in ("gaussian", "unit", "positive", "window", "small-integers")

    case = first(references.silu)
    recipe = case.tensors["x"]
    assert recipe is not None
    rows = tuple(filter(calm, recipe.rows)) or (Row("gaussian", start=0),)
    case = Case(case.sizes, case.scalars, {"x": Recipe(recipe.format, recipe.layout, rows)})
    (failure,) = tried(wrong, references.silu, case).failures
    shape = case.sizes["*shape"]
    assert failure.check == "accuracy" and failure.element is not None
    at = place % math.prod(shape)  # type: ignore[arg-type]
    assert failure.element == divmod(at, shape[1])  # type: ignore[index]
    assert f"out[{failure.element[0]}, {failure.element[1]}]" in failure.message


def test_a_changed_argument_is_found() -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        out = torch.nn.functional.silu(x)
        x.view(-1)[2_000_003] = 3.0
        return out

    (failure,) = tried(wrong, references.silu, first(references.silu)).failures
    assert failure.check == "inputs unchanged" and "2000003" in failure.message


def test_what_is_never_written_is_wrong() -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        out[:-1] = torch.nn.functional.silu(x[:-1])
        return out

    assert tried(wrong, references.silu, first(references.silu, number=1)).failures


def test_results_of_another_shape_and_errors_are_found() -> None:
    case = first(references.silu)
    assert [f.check for f in tried(lambda x: x[0], references.silu, case).failures] == ["shape"]
    assert [f.check for f in tried(lambda x: 1 // 0, references.silu, case).failures] == ["raises"]


@pytest.mark.parametrize("fmt", ["float32", "bfloat16", "float8_e4m3fn"])
def test_a_sum_that_loses_a_marked_element_is_found(fmt: str) -> None:
    case = first(references.sum, fmt, 2)
    recipe = case.tensors["x"]
    assert recipe is not None
    marked = [place for place, _ in recipe.rows[0].plant]
    assert {0, COUNT - 1} <= set(marked)
    for place in marked:

        def loses(x: torch.Tensor, dim: int, place: int = place) -> torch.Tensor:
            return total(torch.cat([x[:place], x[place + 1 :]]), dim)

        assert tried(loses, references.sum, case).failures, place


def test_marks_stand_where_indices_and_addresses_of_32_bits_end() -> None:
    case = list(whole(references.sum, "bfloat16"))[2]
    recipe = case.tensors["x"]
    assert recipe is not None
    marked = {place for place, _ in recipe.rows[0].plant}
    assert {2**31 - 1, 2**31, 2**30 - 1, 2**30, 0, ELEMENTS - 1} <= marked


def test_a_search_launches_whole_tensors_of_the_size_that_its_domain_asks_for() -> None:
    asked = {"large": 1 << 26, "layouts": ("contiguous",), "ndim": 1}
    verdict = harness.check(
        total, references.sum, "bfloat16", claims={"depth": 4096}, domain=asked, examples=4
    )
    assert verdict.ok, verdict
    tally = verdict.tallies["bfloat16"]
    assert not tally.notes and tally.families["literal"]

    def short(x: torch.Tensor, dim: int) -> torch.Tensor:
        return total(x[: (1 << 26) - 1], dim)

    verdict = harness.check(
        short, references.sum, "bfloat16", claims={"depth": 4096}, domain=asked, examples=4
    )
    assert [finding.check for finding in verdict.findings] == ["accuracy"], verdict
    assert "(67108864,)" in str(verdict.findings[0].case.sizes.values()) and verdict.findings[0].replay


def test_a_contract_without_large_launches_says_so() -> None:
    verdict = harness.check(
        torch.nn.functional.silu, references.silu, "bfloat16",
        domain={"large": 1 << 26, "max_elements": 1000}, examples=4,
    )  # fmt: skip
    assert "no launch has a tensor of 67108864 elements" in verdict.tallies["bfloat16"].notes, verdict


CHECK = """
import torch, harness, references
def total(x, dim):
    return x.sum(dim)
asked = {"large": 10**8, "layouts": ("contiguous",), "ndim": 1}
verdict = harness.check(total, references.sum, "float32", domain=asked, examples=4)
assert verdict.ok, verdict
"""


@pytest.mark.slow
def test_a_check_of_a_sum_of_1e8_elements_takes_less_than_its_tensors_twice_and_1_gib() -> None:
    assert peak_gib(CHECK) < 3 * 4 * 10**8 / 2**30 + 1.0
