"""The words of a wrong element."""

from __future__ import annotations

import torch

from harness.checks.judgement import Target
from harness.checks.sentence import judge
from harness.checks.wording import element_text
from harness.formats import FLOAT32
from harness.numbers import Answer


def test_the_ratio_is_that_of_the_value_it_is_said_of() -> None:
    """An answer of another launch is told with its own error, not with that of the launch that was judged."""
    exact = torch.tensor([1.0], dtype=torch.float64)
    answer = Answer(exact, torch.full_like(exact, 2.0**-20), torch.zeros_like(exact, dtype=torch.uint8))
    judgement = judge(exact, answer, Target("number", FLOAT32, FLOAT32))
    assert "8 × the allowed error" in element_text("out", (0,), 1.0 + 2.0**-17, judgement, FLOAT32)
