"""What an author says that a kernel supports: values that the contract cannot mean are refused, with the nearest."""

from __future__ import annotations

from typing import Any

import pytest

import harness
import references
from harness.contracts import Contract
from harness.domain import Domain, domain
from harness.errors import HarnessError


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
