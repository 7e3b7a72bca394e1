"""Searching inputs: a covering list of cases, and Hypothesis strategies that draw and shrink cases."""

from harness.strategies.cost import Budget
from harness.strategies.covering import cover, small
from harness.strategies.drawing import cases
from harness.strategies.far import far
from harness.strategies.session import climb, drawn
from harness.strategies.whole import whole

__all__ = ["Budget", "cases", "climb", "cover", "drawn", "far", "small", "whole"]
