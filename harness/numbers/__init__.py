"""The error algebra: one definition over abstract numbers, read with different arithmetics.

A definition uses the functions exported here and the operators of its numbers; reductions keep their axis
with length 1::

    def softmax(x, dim):                      # x: any shape
        e = exp(x - amax(x, dim))
        return e / sum(e, dim)
"""

from harness.numbers.averages import log_sum_exp, softmax_average
from harness.numbers.dots import matmul
from harness.numbers.double_reading import read_double
from harness.numbers.elementary import absolute, cos, erf, exp, log, rsqrt, sin, sqrt, tanh
from harness.numbers.exactness import exact_sum, exact_where, left_open, looser, whole
from harness.numbers.model import Dot, Model, oracle_model
from harness.numbers.number import Number, scalar
from harness.numbers.read import Answer, read_exactly, read_float64
from harness.numbers.reductions import amax, amin, cumsum, mean, prod, sum
from harness.numbers.scaled_dots import scaled_matmul
from harness.numbers.selection import isfinite, isnan, maximum, minimum, rounded, sigmoid, where
from harness.numbers.shaping import (
    argmax,
    argmin,
    concatenate,
    expand,
    numbered,
    pivot,
    positions,
    repeat_interleave,
    reshape,
    stack,
    take_along,
    transpose,
    unsqueeze,
)
from harness.numbers.standardised import standardised
from harness.numbers.variance import var

__all__ = [
    "Answer",
    "Dot",
    "Model",
    "Number",
    "absolute",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "concatenate",
    "cos",
    "cumsum",
    "erf",
    "exact_sum",
    "exact_where",
    "exp",
    "expand",
    "isfinite",
    "isnan",
    "left_open",
    "log",
    "log_sum_exp",
    "looser",
    "matmul",
    "maximum",
    "mean",
    "minimum",
    "numbered",
    "oracle_model",
    "pivot",
    "positions",
    "prod",
    "read_double",
    "read_exactly",
    "read_float64",
    "repeat_interleave",
    "reshape",
    "rounded",
    "rsqrt",
    "scalar",
    "scaled_matmul",
    "sigmoid",
    "sin",
    "softmax_average",
    "sqrt",
    "stack",
    "standardised",
    "sum",
    "take_along",
    "tanh",
    "transpose",
    "unsqueeze",
    "var",
    "where",
    "whole",
]
