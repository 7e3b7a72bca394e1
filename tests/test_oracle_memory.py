"""The memory that the oracle takes for one long row."""

from __future__ import annotations

import pytest
from processes import peak_gib

LONG_SUM = """
import torch
import references
from harness import oracle
from harness.arithmetic import Arithmetic
from harness.case import Case, Recipe, Row
from harness.layouts import Layout

n = 10**8
x = torch.empty(n, dtype=torch.float64)
for part in x.split(1 << 20):
    part.copy_(torch.rand(len(part), dtype=torch.float32))
case = Case({"*shape": (n,)}, {"dim": 0}, {"x": Recipe("float32", Layout((0,)), (Row("gaussian"),))})
got = x.sum(0, keepdim=True).reshape(()).float().double()
judged = oracle.judge_case(references.sum, Arithmetic(), case, {"x": x}, [got]).outputs[0]
assert bool(judged.right), judged
"""


@pytest.mark.slow
def test_a_sum_of_1e8_elements_takes_less_than_4_gib() -> None:
    assert peak_gib(LONG_SUM) < 4.0
