"""What an author says that a kernel supports: values that the contract cannot mean are refused, with the nearest."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import torch

import harness
import references
from harness.admission import objection
from harness.case import Case, Recipe, Row, logical_values
from harness.cli.settings import settings
from harness.contracts import Contract
from harness.domain import Domain, domain
from harness.errors import HarnessError
from harness.layouts import Layout
from harness.search import replay
from harness.strategies import cover, drawn, far, whole


@pytest.mark.parametrize(
    ("contract", "given", "words"),
    [
        (
            references.attention,
            {"causal": "bottom-rigth"},
            "domain causal='bottom-rigth': did you mean 'bottom-right'? values: None, 'bottom-right', 'top-left'",
        ),
        (
            references.attention,
            {"causal": "none"},
            "domain causal='none': did you mean None? values: None, 'bottom-right', 'top-left'",
        ),
        (references.attention, {"causal": (None, "NULL")}, "domain causal='NULL': did you mean None? values"),
        (references.attention, {"causal": True}, "domain causal=True: values: None, 'bottom-right'"),
        (references.attention, {"causal": 1}, "domain causal=1: values: None, 'bottom-right'"),
        (
            references.attention,
            {"window": "none"},
            "domain window='none': did you mean None? values: None, 5, 1, 40, or another number",
        ),
        (
            references.attention,
            {"window": True},
            "domain window=True: values: None, 5, 1, 40, or another number",
        ),
        (
            references.cross_entropy,
            {"reduction": "men"},
            "domain reduction='men': did you mean 'mean'? values",
        ),
        (
            references.cross_entropy,
            {"reduction": ["sum", "men"]},
            "domain reduction='men': did you mean 'mean'?",
        ),
        (
            references.cross_entropy,
            {"ignore_index": None},
            "domain ignore_index=None: values: -100, 1, -1, or",
        ),
        (references.gelu, {"approximate": "tahn"}, "domain approximate='tahn': did you mean 'tanh'? values"),
        (
            references.layer_norm,
            {"eps": "abc"},
            "domain eps='abc': values: 1e-05, 0.001, 1e-12, 1e-06, or another",
        ),
        (
            references.adam,
            {"decoupled": "TRUE"},
            "domain decoupled='TRUE': did you mean True? values: False, True",
        ),
        (
            references.group_norm,
            {"num_groups": "two"},
            "domain num_groups='two': give whole numbers, such as (2, 4)",
        ),
    ],
)
def test_a_domain_admits_only_values_that_a_contract_can_mean(
    contract: Contract, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(HarnessError) as raised:
        domain(contract, given)
    assert str(raised.value).startswith(words)
    allowed = tuple((key, tuple(v) if isinstance(v, list | tuple) else (v,)) for key, v in given.items())
    with pytest.raises(HarnessError) as raised:
        domain(contract, Domain(allowed=allowed))
    assert str(raised.value).startswith(words)


def test_a_domain_may_name_numbers_that_a_contract_does_not_list() -> None:
    assert domain(references.layer_norm, {"eps": 1e-4}).allowed == (("eps", (1e-4,)),)
    assert domain(references.attention, {"window": (None, 7), "causal": None}).allowed == (
        ("window", (None, 7)),
        ("causal", (None,)),
    )


def test_a_domain_may_name_tuples_that_a_contract_does_not_list() -> None:
    @harness.contract(args={"x": "*s", "stride": ((1, 1), (2, 1))}, returns="*s")
    def strided(x: Any, stride: Any) -> Any:
        return x

    assert domain(strided, {"stride": ((3, 3),)}).allowed == (("stride", ((3, 3),)),)
    with pytest.raises(HarnessError, match=r"domain stride='both': values: \(1, 1\), \(2, 1\)"):
        domain(strided, {"stride": "both"})


def test_a_domain_names_only_sizes_and_scalars_of_the_contract() -> None:
    with pytest.raises(HarnessError, match=r"unknown domain key 'casual' .* did you mean 'causal'\?"):
        domain(references.attention, Domain(allowed=(("casual", (None,)),)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_elements": True}, "domain max_elements=True: give a positive whole number"),
        ({"max_elements": 0}, "domain max_elements=0: give a positive whole number"),
        ({"max_elements": 2.0}, "domain max_elements=2.0: give a positive whole number"),
        ({"dim": True}, "domain dim=True: give 'any', 'last' or a tuple of axes"),
        ({"dim": (0, False)}, "domain dim=(0, False): give 'any', 'last' or a tuple of axes"),
        ({"dim": ()}, "domain dim=(): give 'any', 'last' or a tuple of axes"),
        ({"dim": 0.0}, "domain dim=0.0: give 'any', 'last' or a tuple of axes"),
        ({"ndim": True}, "domain ndim=True: give a number of axes, or (lowest, highest)"),
        ({"max_abs": True}, "domain max_abs=True: give a positive number"),
        ({"max_abs": float("nan")}, "domain max_abs=nan: give a positive number"),
        ({"max_abs": "1"}, "domain max_abs='1': give a positive number"),
        ({"layouts": 5}, "domain layouts=5: give names of layouts, such as ('contiguous', 'step')"),
        ({"layouts": (5,)}, "domain layouts=(5,): give names of layouts, such as ('contiguous', 'step')"),
        ({"layouts": ()}, "domain layouts=(): give names of layouts, such as ('contiguous', 'step')"),
        ({"layouts": "stepp"}, "unknown layout 'stepp'; did you mean 'step'? layouts: "),
        ({"finite": 1}, "domain finite=1: give True or False"),
        ({"large": 0}, "domain large=0: give True, False or a positive number of elements"),
        ({"large": 1.5}, "domain large=1.5: give True, False or a positive number of elements"),
        (
            {"large": 10**15},
            "domain large=1000000000000000: no device holds more than 1099511627776 elements",
        ),
        ({"dtypes": 5}, "domain dtypes=5: give formats by tensor, such as {'x': 'float32'}"),
        ({"dtypes": {"x": 5}}, "domain dtypes={'x': 5}: give formats by tensor, such as {'x': 'float32'}"),
        ({"dtypes": {"x": "float33"}}, "unknown format 'float33'; did you mean 'float32'?"),
        ({"dtypes": {"y": "float32"}}, "domain dtypes names 'y', which is no tensor of softmax"),
        ({5: 1}, "unknown domain key 5 for contract softmax; known: "),
        ({"shape": ()}, "domain shape=(): give shapes, such as ((4, 5), (3,))"),
        ({"shape": ((2, True),)}, "domain shape=(2, True): give shapes, such as ((4, 5), (3,))"),
        ({"shape": ((10**9, 10**9),)}, "domain shape=(1000000000, 1000000000): no device holds more than"),
        ({"shape": ((0, 2**70),)}, "domain shape=(0, 1180591620717411303424): no device holds more than"),
    ],
    ids=str,
)
def test_a_domain_says_only_what_it_can_mean(given: dict[Any, Any], words: str) -> None:
    with pytest.raises(HarnessError) as raised:
        domain(references.softmax, given)
    assert str(raised.value).startswith(words)
    if all(key in vars(Domain()) for key in given) and not isinstance(given.get("dtypes", ()), int):
        fields = {key: tuple(v.items()) if isinstance(v, dict) else v for key, v in given.items()}
        with pytest.raises(HarnessError) as raised:
            domain(references.softmax, Domain(**fields))
        assert str(raised.value).startswith(words)


@pytest.mark.parametrize(
    "fields", [{"dtypes": 5}, {"dtypes": ("x",)}, {"allowed": 5}, {"allowed": ("x",)}], ids=str
)
def test_a_domain_made_of_no_pairs_is_refused(fields: dict[str, Any]) -> None:
    (key,) = fields
    with pytest.raises(HarnessError, match=f"domain {key}=.*: give pairs"):
        domain(references.softmax, Domain(**fields))


def test_lengths_that_no_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.strategies.cost.memory", lambda: 1 << 30)
    words = (
        r"sizes \{'\*shape': \(20000, 1000\)\} .* have 40000000 elements in all, .* 1 GiB: allow smaller ones"
    )
    with pytest.raises(HarnessError, match=words):
        harness.check(torch.softmax, references.softmax, "float32", domain={"shape": ((20000, 1000),)})
    monkeypatch.setattr("harness.strategies.cost.memory", lambda: 1 << 34)
    next(iter(cover(references.softmax, "float32", Domain(allowed=(("shape", ((20000, 1000),)),)))))


def test_whole_tensors_that_no_memory_holds_are_noted() -> None:
    asked = 1 << 40
    verdict = harness.check(
        torch.nn.functional.silu, references.silu, "float32", domain={"large": asked}, examples=4
    )
    assert f"no memory for tensors of {asked} elements" in str(verdict)


# What a kernel receives

SOME = 1 << 15
"""Elements of a tensor that is whole: a few, for the recipes are the same."""

NARROW = {"max_abs": 0.5, "finite": True}


def _recorded(function: Callable[..., Any], seen: list[float]) -> Callable[..., Any]:
    """The function, which first notes what each of its floating-point tensors holds that lies outside of NARROW."""

    def record(*args: Any) -> Any:
        for given in args:
            if isinstance(given, torch.Tensor) and given.is_floating_point():
                values = given.double().reshape(-1)
                seen.extend(values[~(values.abs() <= 0.5)].tolist()[:3])
        return function(*args)

    return record


def _linear_norm(x: torch.Tensor, weight: Any, eps: float) -> torch.Tensor:
    wide = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    return (wide if weight is None else wide * weight.float()).to(x.dtype)


@pytest.mark.parametrize(
    ("contract", "function"),
    [
        (references.silu, lambda x: torch.nn.functional.silu(x.float()).to(x.dtype)),
        (references.softmax, lambda x, dim: torch.softmax(x.double(), dim).to(x.dtype)),
        (references.rms_norm, _linear_norm),
        (references.matmul, lambda a, b: (a.double() @ b.double()).to(a.dtype)),
        (
            references.cross_entropy,
            lambda logits, labels, ignored, reduction: torch.nn.functional.cross_entropy(
                logits.double(), labels, ignore_index=ignored, reduction=reduction
            ).to(logits.dtype),
        ),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_all_that_a_kernel_receives_lies_within_its_domain(
    contract: Contract, function: Callable[..., Any]
) -> None:
    """Contents of other rows too."""
    seen: list[float] = []
    verdict = harness.check(_recorded(function, seen), contract, "float32", domain=NARROW, examples=300)
    assert verdict.outcome == "PASS", str(verdict)
    assert verdict.tallies["float32"].reruns > 0
    assert not seen


@pytest.mark.parametrize("name", ["far", "whole", "cover", "drawn"])
def test_every_source_of_cases_keeps_to_a_domain(name: str) -> None:
    given = Domain(finite=True, max_abs=0.5)
    contracts = (references.silu, references.softmax, references.sum, references.cross_entropy)
    for contract in contracts if name == "whole" else (*contracts, references.matmul):
        if name == "whole":
            cases = whole(contract, "float16", given, elements=SOME)
        elif name == "drawn":
            cases = islice(drawn(contract, "float16", given, seed=3), 20)
        else:
            cases = islice({"far": far, "cover": cover}[name](contract, "float16", given), 60)
        met = list(cases)
        assert met or name == "whole"
        for case in met:
            assert objection(contract, case, given) is None
            for tensor, recipe in case.tensors.items():
                if recipe is not None and not recipe.format.startswith("int"):
                    assert (abs(logical_values(contract, case, tensor)) <= 0.5).all()


def test_a_marked_row_of_a_narrow_domain_holds_its_largest_power_of_two() -> None:
    ends = list(whole(references.sum, "float16", Domain(finite=True, max_abs=0.7), elements=SOME))
    planted = [
        row.plant for case in ends if (recipe := case.tensors["x"]) for row in recipe.rows if row.plant
    ]
    assert planted and {value for _, value in planted[0]} == {"0x1p-1"}


def test_a_kernel_that_refuses_what_is_outside_its_domain_is_right() -> None:
    def strict(x: torch.Tensor) -> torch.Tensor:
        if not bool(x.isfinite().all()):
            raise ValueError("not finite")
        return torch.nn.functional.silu(x.float()).to(x.dtype)

    verdict = harness.check(strict, references.silu, domain={"finite": True}, examples=200)
    assert verdict.outcome == "PASS", str(verdict)


def _raising(above: float) -> Callable[..., Any]:
    def raising(x: torch.Tensor) -> torch.Tensor:
        if bool((x.abs() > above).any()):
            raise ValueError("too large")
        return torch.nn.functional.silu(x.float()).to(x.dtype)

    return raising


@pytest.mark.parametrize(
    ("above", "restriction"),
    [
        (0.3, {"max_abs": 0.5}),
        (0.3, {"max_abs": 0.5, "finite": True}),
        (0.3, {"ndim": 3}),
        (0.3, {"shape": ((4, 3),)}),
        (0.3, {"shape": ((4, 3), (5, 7)), "max_abs": 0.7}),
    ],
    ids=str,
)
def test_a_reduced_input_lies_within_the_domain(above: float, restriction: dict[str, Any]) -> None:
    verdict = harness.check(_raising(above), references.silu, "float16", domain=restriction)
    assert verdict.findings
    given = domain(references.silu, restriction)
    for found in verdict.findings:
        assert objection(references.silu, found.case, given) is None
        values = logical_values(references.silu, found.case, "x")
        plain = {0.0, 1.0} if given.max_abs is None else {0.0, 0.5}
        assert set(abs(values).reshape(-1)) <= plain, "as plain as the domain admits"
        assert given.allowed or values.size == 1


def test_a_kernel_that_is_wrong_outside_its_domain_alone_is_right() -> None:
    verdict = harness.check(_raising(0.5), references.silu, "float32", domain=NARROW, examples=200)
    assert verdict.outcome == "PASS", str(verdict)


def _square_of_finite(x: torch.Tensor) -> torch.Tensor:
    """Raises for what lies outside its domain, and is wrong at 3 within it."""
    if not bool((x.abs() <= 8).all()):
        raise ValueError("outside")
    return torch.where(x == 3, x * 8, torch.nn.functional.silu(x.double()).to(x.dtype))


def test_a_replay_is_judged_in_the_domain_of_its_search() -> None:
    restriction = {"max_abs": 8.0, "finite": True, "ndim": (1, 2), "layouts": "contiguous", "large": True}
    wanted = {"ndim": [1, 2], "layouts": ["contiguous"], "finite": True, "max_abs": 8.0}
    verdict = harness.check(_square_of_finite, references.silu, "float16", domain=restriction)
    found = verdict.findings[0]
    words = shlex.split(found.replay)
    written = settings([words[words.index("--domain") + 1]], "--domain")
    assert written == wanted
    again = domain(references.silu, written)
    assert replace(again, large=True) == domain(references.silu, restriction)
    for rows in (2, 3, 5, 6):
        recipe = found.case.tensors["x"]
        assert recipe is not None
        row = (Row("literal", values=("0x1p+0",)),) * rows
        case = Case({"*shape": (rows,)}, {}, {"x": replace(recipe, rows=row, layout=Layout.contiguous(1))})
        assert replay(_square_of_finite, references.silu, case, domain=written).outcome != "ERROR"


def test_a_replayed_case_outside_the_domain_is_judged_and_said_to_lie_outside() -> None:
    recipe = Recipe("float32", Layout.contiguous(1), (Row("literal", values=("0x1p+9",)),))
    verdict = replay(
        _square_of_finite, references.silu, Case({"*shape": (1,)}, {}, {"x": recipe}), domain={"max_abs": 8}
    )
    assert verdict.outcome == "ERROR"
    assert "1 noted: the case lies outside the domain: tensor 'x': row [512] exceeds max_abs=8" in str(
        verdict
    )


def test_the_dict_of_a_domain_gives_it_again() -> None:
    for given in (
        {"causal": (None, "top-left"), "window": (None, 3), "dtypes": {"q": "float16"}, "dim": "last"},
        {"ndim": 2, "max_elements": 7, "layouts": ("step", "offset"), "max_abs": 1e4, "large": False},
    ):
        made = domain(references.attention, given)
        assert domain(references.attention, made.written()) == made


def test_a_case_for_which_there_is_no_memory_is_refused() -> None:
    recipe = Recipe("float32", Layout.contiguous(1), (Row("gaussian", 1),))
    case = Case({"*shape": (1 << 40,)}, {}, {"x": recipe})
    with pytest.raises(HarnessError, match=r"no memory for the case: .* give a smaller one"):
        replay(torch.nn.functional.silu, references.silu, case)
