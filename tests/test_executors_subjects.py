"""Triton kernels through ``harness.check``: what the CPU executor sees, as checks of the ordinary verdict."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import harness
from harness.declaration import contract


@contract(args={"x": "M N"}, returns="M N", rows="M", nonempty=("M", "N"))
def double(x):
    return x + x


@triton.jit
def rows_kernel(x, y, scratch, rows, n, stride, HOW: tl.constexpr, BLOCK: tl.constexpr):
    row, index = tl.program_id(0), tl.arange(0, BLOCK)
    inside = index < n
    at = row * n + index
    value = tl.load(x + at, mask=inside, other=0.0)
    # right
    if HOW == "wild addresses":
        far = tl.where(inside, at, 1000000000)
        value = tl.load(x + far, mask=inside, other=0.0)
        at = far
    elif HOW == "unchosen":
        value = tl.where(inside, tl.load(x + at, mask=inside), 0.0)
    elif HOW == "redundant":
        tl.store(scratch + index, index * 1.0)
        tl.store(
            y + (row + 1) % rows * n + index,
            2 * tl.load(x + (row + 1) % rows * n + index, mask=inside),
            mask=inside,
        )
    elif HOW == "unchosen offset":
        value = tl.load(x + tl.where(inside, at, at * stride), mask=inside, other=0.0)
    elif HOW == "last one":
        tl.store(scratch + row, 1.0)
        if tl.atomic_add(scratch + rows, 1.0) == rows - 1:
            ones = tl.load(scratch + index, mask=index < rows, other=0.0)
            tl.store(scratch + rows, tl.sum(ones, 0))
    elif HOW == "waiting":
        if row + 1 < rows:
            while tl.atomic_add(scratch + row + 1, 0.0) == 0.0:
                pass
        tl.atomic_xchg(scratch + row, 1.0)
    # wrong
    elif HOW == "maximum":
        value = value + 0 * tl.minimum(tl.maximum(tl.max(tl.load(x + at, mask=inside), 0), 0.0), 0.0)
    elif HOW == "comparison":
        least = tl.min((tl.load(x + at, mask=inside) < float("inf")).to(tl.int32), 0)
        value = value + tl.where(least < 0, 1.0, 0.0)
    elif HOW == "branch":
        if tl.max(tl.load(x + at, mask=inside), 0) > 1e38:
            value = value * 1.0
    elif HOW == "scan":
        value = value + 0 * tl.sum(
            (tl.cumsum(tl.load(x + at, mask=inside), 0, reverse=True) > 0).to(tl.float32), 0
        )
    elif HOW == "gap":
        beyond = tl.load(x + at)  # past the last row
        value = value + tl.where(tl.max(beyond, 0) < -1e38, 1.0, 0.0)
    elif HOW == "outside":
        inside = index < n + 1
    elif HOW == "offset":
        at = row * n + index + tl.minimum(row * stride, 0)
    elif HOW == "endless":
        left = tl.load(x).to(tl.float32) * 0 + 1
        while left > 0:
            left = left * 1
    elif HOW == "race":
        tl.store(y + index, value, mask=inside)
    elif HOW == "lanes":
        tl.store(scratch + index // 2, index)
    elif HOW == "handed on":
        tl.store(scratch + row, 1.0)
        value = value + tl.load(scratch + tl.maximum(row - 1, 0)) - 1.0
    elif HOW == "overwritten":
        tl.store(scratch + row, tl.load(scratch + row + 1) + 1.0)
    elif HOW == "mixed":
        if row == 0:
            tl.store(scratch, 1.0)
        else:
            tl.atomic_add(scratch, 1.0)
    elif HOW == "missing":
        inside = index < n - 1
    tl.store(y + at, value + value, mask=inside)


@triton.jit
def empty_kernel(total, y):
    tl.atomic_add(total, 1.0)


def launcher(how):
    def doubled(x):
        x, y = x.contiguous(), torch.empty(x.shape, dtype=x.dtype)
        rows, n = x.shape
        scratch = torch.zeros(rows + 64)
        if how == "first element":
            rows_kernel[(rows,)](x[0], y[0], scratch, rows, n, 2**30 + 1, HOW="", BLOCK=64)
        elif how == "flat":
            rows_kernel[(1,)](x, y, scratch, rows, n, 2**30 + 1, HOW="", BLOCK=64)
            if rows > 1:
                x, y_rest = x.view(-1)[n:], y.view(-1)[n:]
                rows_kernel[(rows - 1,)](x, y_rest, scratch, rows, n, 2**30 + 1, HOW="", BLOCK=64)
        else:
            rows_kernel[(rows,)](x, y, scratch, rows, n, 2**30 + 1, HOW=how, BLOCK=64)
        if how == "empty":
            empty_kernel[(3,)](torch.empty(1), y)
        return y

    return doubled


def judged(how):
    domain = {"M": (1, 3, 6), "N": (1, 7, 33, 63), "max_elements": 400}
    return harness.check(launcher(how), double, "float32", domain=domain, examples=60, shrink=False)


@pytest.mark.parametrize(
    "how",
    [
        "first element",
        "flat",
        "wild addresses",
        "unchosen",
        "redundant",
        "unchosen offset",
        "last one",
        "waiting",
    ],
)
def test_right_kernels_pass(how):
    verdict = judged(how)
    assert verdict.ok, verdict


WRONG = {
    "maximum": "undefined values",
    "comparison": "undefined values",
    "branch": "undefined values",
    "scan": "undefined values",
    "gap": "undefined values",
    "empty": "undefined values",
    "outside": "out of bounds",
    "offset": "offset overflow",
    "endless": "hangs",
    "race": "race",
    "lanes": "race",
    "handed on": "race",
    "overwritten": "race",
    "mixed": "race",
    "missing": "written",
}


@pytest.mark.parametrize("how", WRONG)
def test_wrong_kernels_are_found(how):
    verdict = judged(how)
    assert WRONG[how] in {finding.check for finding in verdict.findings}, verdict
