"""Wrong use of the Python interface: one HarnessError, which shows the value and says what to write."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import triton

import harness
import references
from harness import HarnessError


def softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.softmax(x.double(), dim).to(x.dtype)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"fill": "zzz"}, r"cpu\(fill='zzz'\): choose from nan, \+large, -large"),
        ({"fill": 3}, r"cpu\(fill=3\)"),
        ({"fill": "large"}, "did you mean"),
        ({"level": "zz"}, r"cpu\(level='zz'\): choose from fast, bitwise"),
    ],
)
def test_an_executor_that_there_is_not(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(HarnessError, match=words), harness.cpu(**arguments):
        pass


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x, r"calls <lambda>\(x, dim\), and <lambda>\(x\) does not take that: too many positional"),
        (lambda x, dim, block: x, r"missing a required argument: 'block'; wrap it: def launch\(x, dim\)"),
        (lambda x, *, dim: x, "too many positional arguments"),
    ],
)
def test_a_function_of_other_parameters_is_not_launched(function: Any, words: str) -> None:
    with pytest.raises(HarnessError, match=words):
        harness.check(function, references.softmax, "float32", examples=4)


def test_a_kernel_is_not_called() -> None:
    bare = triton.jit(softmax)
    for kernel in (bare, triton.heuristics({})(bare)):
        with pytest.raises(HarnessError, match=r"^softmax is a @triton\.jit kernel; give the function that"):
            harness.check(kernel, references.softmax, "float32", examples=4)


def test_functions_of_more_parameters_than_needed_are_called() -> None:
    for function in (softmax, lambda x, dim, block=64: softmax(x, dim), torch.softmax):
        assert harness.check(function, references.softmax, "float32", examples=4).findings == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seconds": math.nan}, "seconds=nan: give a positive, finite"),
        ({"seconds": math.inf}, "seconds=inf: give a positive, finite"),
        ({"seconds": -1}, "seconds=-1"),
        ({"seconds": "5"}, "seconds='5'"),
        ({"timeout": -1}, "timeout=-1: give a positive, finite"),
        ({"timeout": math.nan}, "timeout=nan"),
        ({"timeout": None}, "timeout=None"),
        ({"timeout": 1e12}, r"timeout=1000000000000.0: give at most 2592000 seconds \(30 days\)"),
        ({"timeout": 10**400}, "give at most 2592000 seconds"),
        ({"seconds": 10**400}, "give at most 2592000 seconds"),
        ({"claims": {"ulp": {"exp": 10**400}}}, r"claim ulp\['exp'\]="),
        (
            {"examples": 10**30},
            r"examples=1000000000000000000000000000000: give at most 1000000000 situations",
        ),
        ({"examples": 2.5}, "examples=2.5: give a positive whole number"),
        ({"examples": "5"}, "examples='5'"),
        ({"examples": True}, "examples=True"),
        ({"seed": None}, "seed=None: give a whole number"),
        ({"seed": "a"}, "seed='a'"),
        ({"domain": {"ndim"}}, r"domain=\{'ndim'\}: give a Domain or a dict"),
        ({"domain": {"ndim": 2.5}}, "domain ndim=2.5: give a number of axes"),
        ({"domain": {"ndim": (1, 2, 3)}}, r"domain ndim=\(1, 2, 3\)"),
        ({"domain": {"dtypes": "float32"}}, "domain dtypes='float32': give formats by tensor"),
        ({"claims": {"x"}}, r"claims=\{'x'\}: give an Arithmetic or a dict"),
        ({"claims": "depth=sequential"}, "claims='depth=sequential': give an Arithmetic or a dict"),
        ({"claims": {"deterministic": "no"}}, "claim deterministic='no': choose from True, False"),
        ({"claims": {"batch_invariant": 1}}, "claim batch_invariant=1: choose from True, False"),
        ({"claims": {"layout_invariant": None}}, "claim layout_invariant=None"),
        ({"claims": {"saturate": 0}}, "claim saturate=0: choose from None, True, False"),
        ({"claims": {"depth": True}}, "claim depth=True"),
        ({"claims": {"dot": "tf23"}}, "claim dot='tf23': did you mean 'tf32'"),
        ({"claims": {"roundings": 3}}, "claim roundings=3"),
        ({"claims": {"ulp": 3}}, "claim ulp=3: give errors in u by primitive"),
        ({"claims": {"ulp": {"exp": "3"}}}, r"claim ulp\['exp'\]='3'"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any], words: str) -> None:
    given = {"dtypes": "float32", **arguments}
    if not {"examples", "seconds"} & given.keys():
        given["examples"] = 4
    with pytest.raises(HarnessError, match=words) as raised:
        harness.check(softmax, references.softmax, **given)
    assert "\n" not in str(raised.value)
