"""Contracts of a user's own: what a definition may be written with, and what is refused with a clear error."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import harness
import references
from harness import Dim, HarnessError, Output, Tensor, numbers
from harness.arithmetic import Arithmetic
from harness.contracts import Choice, Dtype, SizeOf, SpecialRow, Whole
from harness.definition import check_answer
from harness.formats import FLOAT32
from harness.numbers import read_double, read_exactly, read_float64


def masked(x: Any, mask: Any) -> Any:
    return numbers.where(mask, x, float("-inf"))


@pytest.mark.parametrize("read", [read_float64, read_double, read_exactly])
def test_a_bool_or_integer_argument_is_a_condition(read: Any) -> None:
    contract = harness.contract(args={"x": "*s", "mask": Tensor("*s", dtype="bool")}, returns="*s")(masked)
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    model = Arithmetic().model(contract, FLOAT32)
    for mask in ([0.0, 1.0, 1.0], [0.0, 1.0, -7.0]):
        call = {"x": x, "mask": torch.tensor(mask, dtype=torch.float64)}
        (answer,) = read(masked, call, model, [(3,)])
        assert getattr(answer.value, "hi", answer.value).tolist() == [-torch.inf, 2.0, 3.0]


def test_a_masked_kernel_is_judged() -> None:
    contract = harness.contract(args={"x": "*s", "mask": Tensor("*s", dtype="bool")}, returns="*s")(masked)

    def right(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.where(mask, x, -torch.inf)

    def wrong(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.where(mask, x, -1e30)

    assert harness.check(right, contract, "float32", examples=40).outcome == "PASS"
    assert harness.check(wrong, contract, "float32", examples=40, shrink=False).outcome == "FAIL"


@pytest.mark.parametrize(
    ("definition", "returns", "words"),
    [
        (
            lambda x: x,
            "M",
            r"returned out of shape \[\d+, \d+\], and the contract declares 'M', here \[\d+\]",
        ),
        (lambda x: numbers.transpose(x, 0, 1), "M N", r"declares 'M N', here"),
        (lambda x: numbers.sum(x, -1), "M N", r"declares 'M N', here"),
        (lambda x: (x, x), "M N", r"returned 2 results; it declares 1 output"),
    ],
)
def test_a_definition_of_another_shape_is_told_before_a_kernel_is_blamed(
    definition: Any, returns: str, words: str
) -> None:
    definition.__name__ = "own"
    contract = harness.contract(args={"x": "M N"}, returns=returns)(definition)
    for kernel in (lambda x: x.clone(), lambda x: x.sum(-1)):
        with pytest.raises(HarnessError, match=words):
            harness.check(kernel, contract, "float32", examples=40)


@pytest.mark.parametrize(
    ("args", "returns", "rows", "words"),
    [
        (
            {"x": "N", "p": "float"},
            "N",
            "",
            "argument 'p': shape 'float' would be an axis named 'float'; a scalar",
        ),
        ({"x": "N", "p": "int"}, "N", "", r"a tuple of its values, such as \(1e-5, 0.1\)"),
        ({"x": "N", "p": Tensor("bool")}, "N", "", "named 'bool'"),
        (
            {"x": "**b N", "p": (1,)},
            "N",
            "",
            r"contract own, argument 'x': '\*\*b' in shape '\*\*b N' is no axis",
        ),
        ({"x": "b, N", "p": (1,)}, "N", "", "'b,' in shape 'b, N' is no axis; write a name"),
        ({"x": "[N]", "p": (1,)}, "N", "", r"'\[N\]'"),
        ({"x": "N", "p": (1,)}, "(N,)", "", r"output 'out': '\(N,\)' in shape"),
        ({"x": "N-1", "p": (1,)}, "N", "", "'N-1'"),
        ({"x": "N", "p": (1,)}, "N", "*", r"rows: '\*'"),
    ],
)
def test_what_is_no_shape_is_refused(args: Any, returns: str, rows: str, words: str) -> None:
    with pytest.raises(HarnessError, match=words):

        @harness.contract(args=args, returns=returns, rows=rows)
        def own(x: Any, p: Any) -> Any:
            return x


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"args": ["x", "y"]}, r"contract args=\['x', 'y'\]: give a dict"),
        ({"roundings": ("a",)}, r"contract roundings=\('a',\): give a dict"),
        ({"returns": ("batch", "batch")}, r"returns=\('batch', 'batch'\); give a shape, or an Output"),
        ({"returns": None}, "returns=None; give a shape"),
        ({"returns": Output("batch", kind="cod")}, "kind='cod' of output 'out'; did you mean 'code'"),
        ({"returns": Output("batch", dtype="flot32")}, "unknown format 'flot32'; did you mean 'float32'"),
        ({"args": {"x": "batch", "y": Tensor("batch", dtype="flot32")}}, "unknown format 'flot32'"),
        ({"args": {"x": "batch", "y": Dim("z")}}, r"y is Dim\('z'\), which is no tensor; tensors: x"),
        ({"args": {"x": "batch", "y": SizeOf("bach")}}, r"y is SizeOf\('bach'\), .* did you mean 'batch'"),
        ({"nonempty": "batch"}, r"contract nonempty='batch': give a tuple, such as \('batch',\)"),
        ({"nonempty": ("bach",)}, "nonempty names 'bach'; did you mean 'batch'"),
        ({"families": "offset"}, "contract families='offset': give a tuple"),
        ({"formats": "float32"}, "contract formats='float32': give a tuple"),
        ({"usual": "a"}, "contract usual='a': give a tuple"),
        ({"sizes": {"bach": (1, 2)}}, "sizes names 'bach'; did you mean 'batch'\\? sizes: batch"),
        ({"sizes": {"*batch": (1, 2)}}, r"sizes names '\*batch'; did you mean 'batch'"),
        ({"sizes": {"batch": 5}}, r"sizes batch=5: give a tuple of lengths, such as \(64, 128\)"),
        ({"sizes": {"batch": ()}}, r"sizes batch=\(\): give a tuple of lengths"),
        ({"sizes": {"batch": (1.0,)}}, r"sizes batch=\(1.0,\): give a tuple of lengths"),
        ({"sizes": {"batch": (True,)}}, r"sizes batch=\(True,\): give a tuple of lengths"),
        ({"formats": ("int9",)}, "unknown dtype 'int9'; did you mean 'int8'"),
        ({"formats": ("flot32",)}, "unknown format 'flot32'; did you mean 'float32'"),
        ({"args": {"x": "batch", "y": Tensor("batch", dtype="int9")}}, "unknown dtype 'int9'"),
        ({"returns": Output("batch", dtype="uint9")}, "unknown dtype 'uint9'; did you mean 'uint8'"),
        ({"returns": Output("batch", dtype=("float32", "flot32"))}, "unknown format 'flot32'"),
    ],
)
def test_what_a_contract_names_is_there(changes: dict[str, Any], words: str) -> None:
    described = {"args": {"x": "batch", "y": "batch"}, "returns": "batch", **changes}
    with pytest.raises(HarnessError, match=words) as raised:

        @harness.contract(**described)
        def own(x: Any, y: Any) -> Any:
            return x

    assert "\n" not in str(raised.value)


ROW = SpecialRow("a", ("1",), ("0",), "7")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"rows": 3},
            r"rows=3: give the row axes as a shape, such as '\*batch', or a function of the scalars",
        ),
        ({"rows": ["*batch"]}, r"rows=\['\*batch'\]: give the row axes as a shape"),
        ({"online": 1}, "online=1: give True or False"),
        ({"nonempty": (3,)}, r"nonempty=\(3,\): give names, such as \('N',\)"),
        ({"usual": (3,)}, r"usual=\(3,\): give names"),
        ({"given": (3,)}, r"given=\(3,\): give names"),
        ({"formats": (3,)}, r"formats=\(3,\): give names"),
        ({"families": (3,)}, r"families=\(3,\): give names of value families, or Family objects"),
        ({"special": ("x",)}, r"special=\('x',\): give a SpecialRow\(name, lead, rest, answer\) for each"),
        ({"roundings": {"a": 3}}, r"roundings=\{'a': 3\}: give what each place is, in words"),
        ({"roundings": {3: "a"}}, r"roundings=\{3: 'a'\}: give what each place is"),
        ({"relations": {"a": 3}}, r"relations=\{'a': 3\}: give a function for each name"),
        ({"sizes": {3: (1,)}}, "sizes names 3; sizes: N, batch"),
        ({"special": (replace(ROW, name=1),)}, "SpecialRow name=1: give a name"),
        (
            {"special": (replace(ROW, lead=(1,)),)},
            r"SpecialRow lead=\(1,\): give numbers as text, such as \('0', 'nan'\)",
        ),
        ({"special": (replace(ROW, rest="1"),)}, "SpecialRow rest='1': give numbers as text"),
        ({"special": (replace(ROW, rest=("one",)),)}, r"SpecialRow rest=\('one',\): give numbers as text"),
        (
            {"special": (replace(ROW, answer=7),)},
            "SpecialRow answer=7: give a number as text, such as '0', or None",
        ),
        ({"special": (replace(ROW, answer="much"),)}, "SpecialRow answer='much': give a number as text"),
        ({"special": (ROW, ROW)}, "two special rows are named 'a'; give each a name of its own"),
        ({"x": Tensor(3)}, "argument 'x': Tensor shape=3: give a shape, such as"),
        ({"x": Tensor("*batch N", dtype=3)}, "Tensor dtype=3: give the name of a format, or None"),
        ({"x": Tensor("*batch N", optional=1)}, "Tensor optional=1: give True or False"),
        (
            {"x": Tensor("*batch N", families="offset")},
            "Tensor families='offset': give names of value families",
        ),
        ({"x": Tensor("*batch N", many=3)}, "Tensor many=3: give the name of a size"),
        ({"x": Tensor("*batch N", whole=(0, 3))}, r"Tensor whole=\(0, 3\): give Whole\(low, high\)"),
        (
            {"x": Tensor("N", dtype="int64", whole=Whole(0.0, 3))},
            "low=0.0: give a whole number, or the name of a size",
        ),
        ({"x": Tensor("N", dtype="int64", whole=Whole(0, None))}, "Whole high=None: give a whole number"),
        (
            {"x": Tensor("N", dtype="int64", whole=Whole(0, 3, 5))},
            r"Whole planted=5: give a tuple of whole numbers",
        ),
        (
            {"x": Tensor("N", dtype="int64", whole=Whole(0, "M"))},
            "high='M' of argument 'x' is no size or scalar; known: .*, N",
        ),
        ({"y": Dim(0)}, "argument 'y': Dim of=0: give the name of a tensor"),
        ({"y": SizeOf(3)}, "argument 'y': SizeOf size=3: give the name of a size"),
        ({"y": Choice(())}, r"argument 'y': Choice values=\(\): give a tuple of values"),
        ({"y": Choice(3)}, "argument 'y': Choice values=3: give a tuple of values"),
        ({"y": Dtype((3,))}, r"argument 'y': Dtype values=\(3,\): give names of formats"),
        ({"y": Dtype(("float33",))}, "unknown format 'float33'"),
        (
            {"returns": Output(3)},
            "Output shape=3: give a shape, such as '.batch N', or a function of the scalars",
        ),
        ({"returns": Output("*batch", dtype=3)}, "Output dtype=3: give the name of a format, a function"),
        ({"returns": Output("*batch", name=3)}, "Output name=3: give a name"),
        ({"returns": Output("*batch", argument=None)}, "Output argument=None: give the name of a tensor"),
        ({"returns": Output("*batch", many=3)}, "Output many=3: give the name of a size"),
        ({"returns": Output("*batch", clamp=3)}, r"Output clamp=3: give \(lowest, highest\)"),
        ({"returns": Output("*batch", kind=3)}, "kind=3 of output 'out'"),
    ],
    ids=str,
)
def test_what_a_contract_is_described_with_is_of_the_right_kind(changes: dict[str, Any], words: str) -> None:
    arguments = {"x": changes.pop("x", "*batch N"), "y": changes.pop("y", "*batch N"), "z": "*batch N"}
    described: dict[str, Any] = {"args": arguments, "returns": "*batch", "rows": "*batch", **changes}
    with pytest.raises(HarnessError, match=words) as raised:

        @harness.contract(**described)
        def own(x: Any, y: Any, z: Any) -> Any:
            return x

    assert "\n" not in str(raised.value)


def test_a_stated_answer_may_be_hexadecimal() -> None:
    contract = _doubled(SpecialRow("eighth", (), ("0x1p-3",), "0x1p-2"), lambda x: x * 2.0)
    assert harness.check(lambda x: x * 2, contract, "float32", examples=20).outcome == "PASS"


def test_a_tuple_of_one_is_the_one_and_none_is_no_result() -> None:
    contract = harness.contract(args={"x": "N"}, returns="N", rows="N")(lambda x: -x)
    assert harness.check(lambda x: (-x,), contract, "float32", examples=24).ok
    verdict = harness.check(lambda x: (-x, None), contract, "float32", examples=24, shrink=False)
    assert [finding.check for finding in verdict.findings] == ["returns"]
    assert "returned tuple (tensor(" in str(verdict) and "the contract wants a dense tensor" in str(verdict)


def test_an_argument_that_is_reshaped_is_a_condition_still() -> None:
    @harness.contract(
        args={"x": "B T", "mask": Tensor("B T", dtype="bool")}, returns="B", rows="B", nonempty=("T",)
    )
    def kept(x: Any, mask: Any) -> Any:
        mask = numbers.reshape(mask, x.shape)
        return numbers.mean(x, -1, where=mask) + numbers.amax(x, -1, where=mask)

    def right(x: Any, mask: Any) -> torch.Tensor:
        x = x.double()
        mean = torch.where(mask, x, 0.0).sum(-1) / mask.sum(-1)
        return mean + torch.where(mask, x, -torch.inf).amax(-1)

    verdict = harness.check(lambda x, mask: right(x, mask).to(x.dtype), kept, "float32", examples=48)
    assert verdict.outcome == "PASS", str(verdict)


def test_what_is_judged_in_place_is_not_to_be_returned() -> None:
    def returning(grads: Any, scale: float) -> Any:
        for grad in grads:
            grad.copy_(grad.double() / scale)
        return grads, not all(bool(grad.isfinite().all()) for grad in grads)

    verdict = harness.check(returning, "unscale", "float32", examples=24, shrink=False)
    assert "the contract wants a dense tensor, found_inf; grads is judged in place" in str(verdict)


@harness.contract(args={"x": "M N"}, returns="M", rows="M")
def row_maximum(x: Any) -> Any:
    """A maximum, which no empty row has."""
    return numbers.amax(x, -1)


def test_a_kernel_that_raises_for_an_empty_axis_is_shown_nonempty() -> None:
    verdict = harness.check(lambda x: x.amax(-1), row_maximum, "float32", examples=200)
    assert verdict.outcome == "ERROR"
    assert (
        "N is empty here; where the operation has no answer for that, give its contract nonempty=('N',)"
        in str(verdict)
    )
    assert "nonempty=('N',)" not in str(harness.check(lambda x: 1 / 0, row_maximum, "float32", examples=40))


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (numbers.exp, "a definition tests the truth of a number that carries a rounding error"),
        (lambda x: True, "where is given True for all elements; write a if condition else b"),
        (
            lambda x: "x > 0",
            "where is given a str as its condition; give a comparison of inputs, such as x > 0",
        ),
        (lambda x: numbers.positions(x, -1), "where is given a Tensor as its condition"),
    ],
)
def test_other_conditions_are_refused(condition: Any, words: str) -> None:
    @harness.contract(args={"x": "*s"}, returns="*s")
    def chosen(x: Any) -> Any:
        return numbers.where(condition(x), x, 0.0)

    with pytest.raises(HarnessError, match=rf"of contract chosen failed: .*:\d+: TypeError: {words}"):
        harness.check(torch.relu, chosen, "float32", examples=4)


def _asserts(x: Any) -> Any:
    assert x.shape[-1] < 0, "no rows of so many"
    return x


def _branches(x: Any) -> Any:
    if x > 0:
        return x
    return -x


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (lambda x: x / sum(x, -1), r"cannot be looped over: use harness\.numbers\.sum\(x, dim\)"),
        (lambda x: x - max(x), r"cannot be looped over: .*harness\.numbers\.amax\(x, dim\)"),
        (lambda x: max(x, 0.0), r"may not branch on a number; use where\(condition, a, b\)"),
        (lambda x: x / len(x), r"has no length: use x\.shape"),
        (_branches, r"may not branch on a number; use where\(condition, a, b\)"),
        (lambda x: 2.0 * torch.exp(x), r"use harness\.numbers\.exp"),
        (lambda x: 2.0 * math.exp(x), r"use harness\.numbers\.exp"),
        (lambda x: x.exp(), r"use harness\.numbers\.exp"),
        (lambda x: x.sum(-1), r"use harness\.numbers\.sum"),
        (lambda x: 2.0 * np.exp(x), r"use harness\.numbers\.exp"),
        (lambda x: 2.0 * abs(x), r"use harness\.numbers\.absolute"),
        (lambda x: x / (1 // (x.shape[-1] - x.shape[-1])), r"ZeroDivisionError"),
        (lambda x: x * math.factorial(x.shape[-1] + 200), r"OverflowError"),
        (_asserts, r"AssertionError: no rows of so many"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_a_definition_may_not_be_written_with_is_said_with_its_line(
    definition: Any, words: str, dtype: str
) -> None:
    """Python's, torch's and NumPy's own functions in a definition, none of which knows its numbers."""
    contract = harness.contract(args={"x": "*batch N"}, returns="*batch N", rows="*batch")(definition)
    line = rf"of contract .* failed: .*test_contracts\.py:\d+: .*{words}"
    with pytest.raises(HarnessError, match=line):
        harness.check(lambda x: x, contract, dtype, examples=20)


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (lambda x: None, r"returned None; it declares 1 output"),
        (lambda x: 1.0, r"returned 1\.0, no number of the definition; it declares 1 output"),
        (lambda x: (x, x), r"returned 2 results; it declares 1 output"),
        (lambda x: x > 0, r"returned a mask, .*; it declares 1 output"),
    ],
)
def test_what_a_definition_returns_is_told_by_its_contract(definition: Any, words: str) -> None:
    definition.__name__ = "own"
    contract = harness.contract(args={"x": "*s"}, returns="*s", rows="all but last")(definition)
    with pytest.raises(HarnessError, match=rf"contract own \(.*test_contracts\.py:\d+\) {words}") as caught:
        harness.check(lambda x: x, contract, "float32", examples=20)
    assert "0x" not in str(caught.value)


@pytest.mark.parametrize(
    "definition",
    [
        lambda x: numbers.sum(numbers.rounded(x * 2.0, "shiftd"), -1),
        lambda x: numbers.rounded(numbers.sum(x, -1), "shiftd", at=numbers.sum(x, -1)),
        lambda x: numbers.sum(x, -1, partials="shiftd"),
        lambda x: numbers.sum(x, -1, hop="shiftd"),
        lambda x: numbers.mean(x, -1, partials="shiftd"),
    ],
)
def test_a_place_that_a_definition_rounds_at_and_its_contract_does_not_name_is_told(definition: Any) -> None:
    contract = harness.contract(
        args={"x": "*batch N"},
        returns="*batch",
        rows="*batch",
        roundings={"shifted": "2x", "total": "the sum"},
    )(definition)
    words = r"contract <lambda> .*'shiftd' is no place of its roundings; did you mean 'shifted'\? places: shifted, total"
    with pytest.raises(HarnessError, match=words):
        harness.check(lambda x: x.sum(-1), contract, "float32", examples=20)


def _doubled(special: SpecialRow, definition: Any, **more: Any) -> Any:
    definition.__name__ = "doubled"
    args = {"x": "*batch N", **more}
    return harness.contract(args=args, returns="*batch N", rows="*batch", special=(special,))(definition)


@pytest.mark.parametrize(
    ("special", "words"),
    [
        (SpecialRow("z", (), ("1",), "3"), r"gives 2 for the special row 'z', which says 3"),
        (
            SpecialRow("far", ("1", "inf"), ("inf",), "nan"),
            r"gives 2 for the special row 'far', which says nan",
        ),
        (SpecialRow("nan", (), ("nan",), "0"), r"gives nan for the special row 'nan', which says 0"),
    ],
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_a_stated_answer_is_a_second_opinion_on_the_definition(
    special: SpecialRow, words: str, dtype: str
) -> None:
    contract = _doubled(special, lambda x: x * 2.0)
    with pytest.raises(HarnessError, match=rf"contract doubled \(.*:\d+\) {words}"):
        harness.check(lambda x: x * 2, contract, dtype, examples=20)


@pytest.mark.parametrize(
    ("special", "words"),
    [
        (SpecialRow("one", ("1",), ("0",), "7"), "gives 2 for the special row 'one', which says 7"),
        (
            SpecialRow("last", ("0",), ("0", "1", "0"), "0"),
            "gives 2 for the special row 'last', which says 0",
        ),
        (SpecialRow("equal", (), ("1",), "7"), "gives 2 for the special row 'equal', which says 7"),
    ],
)
def test_a_stated_answer_is_of_all_elements_where_each_is_a_situation(
    special: SpecialRow, words: str
) -> None:
    def doubled(x: Any) -> Any:
        return x * 2.0

    made = harness.contract(args={"x": "*shape"}, returns="*shape", rows="*shape", special=(special,))(
        doubled
    )
    with pytest.raises(HarnessError, match=words):
        harness.check(lambda x: x * 2, made, "float32", examples=20)
    right = SpecialRow("signs", ("0x1p-3",), ("0x1p-3", "0x1p-3"), "0.25")
    made = harness.contract(args={"x": "*shape"}, returns="*shape", rows="*shape", special=(right,))(doubled)
    assert harness.check(lambda x: x * 2, made, "float32", examples=20).outcome == "PASS"


COUPLED: dict[str, tuple[str, Any]] = {
    "a maximum over all": ("N", lambda x: x - numbers.amax(numbers.reshape(x, (-1,)), 0)),
    "a softmax along the rows": ("N", lambda x: numbers.exp(x) / numbers.sum(numbers.exp(x), 0)),
    "the row before": ("N", lambda x: x - numbers.concatenate([x[-1:], x[:-1]], 0)),
    "how many rows there are": ("N", lambda x: x / float(x.shape[0])),
    "a mean over rows": ("all but last", lambda x: x - numbers.mean(x, 0)),
}


@pytest.mark.parametrize("what", COUPLED)
def test_a_definition_whose_rows_depend_on_each_other_is_told_before_a_kernel_is_blamed(what: str) -> None:
    rows, definition = COUPLED[what]
    contract = harness.contract(args={"x": "N M"}, returns="N M", rows=rows)(definition)
    with pytest.raises(
        HarnessError, match=r"contract <lambda> \(.*:\d+\) gives .* beside others and .* alone"
    ):
        harness.check(lambda x: x, contract, "float32", examples=20)


@pytest.mark.parametrize(
    "special",
    [
        SpecialRow("tenth", (), ("0x1p-3",), "0.25"),
        SpecialRow("nan", (), ("nan",), "nan"),
        SpecialRow("inf", (), ("-inf",), "-inf"),
        SpecialRow("none", (), ("1",)),
    ],
)
def test_a_right_answer_is_no_contradiction(special: SpecialRow) -> None:
    """An optional tensor, of which the answer says nothing, is left out."""

    def definition(x: Any, weight: Any) -> Any:
        return x * 2.0 if weight is None else x * 2.0 * weight

    contract = _doubled(special, definition, weight=Tensor("N", optional=True))
    launch = lambda x, weight: x * 2 if weight is None else x * 2 * weight  # noqa: E731
    assert harness.check(launch, contract, "float32", examples=20).outcome == "PASS"


@pytest.mark.parametrize("name", sorted(references.__all__))
def test_the_stated_answers_of_the_references_agree_with_their_definitions(name: str) -> None:
    """Read, too, wherever nothing but the first tensor has a say."""
    contract = getattr(references, name)
    others = list(contract.tensors.values())[1:]
    if not any(special.answer for special in contract.special) or not all(spec.optional for spec in others):
        return
    read = []

    def counted(*given: Any) -> None:
        read.append(given)
        check_answer(*given)

    def unread(*args: Any, **kwargs: Any) -> Any:
        raise harness.Unsupported

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.definition.check_answer", counted)
        for dtype in contract.formats or ("float32", "float64", "float16"):
            harness.check(unread, contract, dtype, examples=1)
    assert read


@pytest.mark.parametrize(
    ("described", "words"),
    [
        ({"row": "all but last"}, r"has no argument 'row'; did you mean 'rows'\? known: args, returns, rows"),
        ({"arg": {"x": "*s"}}, r"has no argument 'arg'; did you mean 'args'\?"),
        ({"args": {"x": "*s"}}, r"is not given returns; write @harness\.contract\(args=.*, returns=.*\)"),
        ({"returns": "*s"}, r"is not given args; write"),
    ],
)
def test_a_contract_of_unknown_or_missing_arguments(described: dict[str, Any], words: str) -> None:
    described = (
        described if described.keys() & {"args", "returns"} else {"args": {}, "returns": "", **described}
    )
    with pytest.raises(HarnessError, match=rf"harness\.contract {words}"):
        harness.contract(**described)


def test_a_contract_without_parentheses() -> None:
    undescribed: Any = harness.contract
    with pytest.raises(HarnessError, match=r"write @harness\.contract\(args=.*, returns=.*\) above masked"):
        undescribed(masked)
