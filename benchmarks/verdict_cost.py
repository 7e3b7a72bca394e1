"""What an accuracy verdict costs, beside what people do today, and mpmath beside the float64 reading.

    python benchmarks/verdict_cost.py [REPEATS]

One line per case ending in ``ratio R``. Of *verdict* lines R is the time of our accuracy verdict on one launch
(the oracle and the checks of its elements) over that of ``torch.testing.assert_close`` against the same function
in float64; of *mpmath* lines that of mpmath over that of the float64 reading, per element. *With counts* is the
time where it is also asked, as a search does of the first launch of each case, how many elements are decisive or
left open and what the largest ratio is: an attention is then read in full.

All sides are timed in turns in one run, and the least of each counts: machines are noisy. The program starts itself
anew so that glibc keeps what memory it has: pages mapped again and again would be most of what either side costs.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

import references
from harness import oracle
from harness.arithmetic import Arithmetic
from harness.case import Case, Recipe, Row, materialise, situation_of
from harness.checks.agreement import wrong_elements
from harness.contracts import Contract
from harness.layouts import Layout
from harness.numbers import read_exactly, read_float64

Function = Callable[..., torch.Tensor]

KEPT = {"MALLOC_TRIM_THRESHOLD_": str(1 << 32), "MALLOC_MMAP_THRESHOLD_": str(1 << 32)}
"""Environment in which glibc maps no memory for one array alone, and gives none back."""


@dataclass(frozen=True)
class Subject:
    """A contract, the torch function that people compare with, and the sizes and scalars of a launch."""

    name: str
    contract: Contract
    function: Function
    sizes: Mapping[str, Any]
    scalars: Mapping[str, Any]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.125, is_causal=causal)


def subjects(rows: int, columns: int, side: int, queries: int) -> list[Subject]:
    """softmax, layer_norm and logsumexp of [rows, columns], matmul of side³, attention of 2 × 8 × queries × 64, causal too."""
    shape = f"{rows}x{columns}"
    heads = {"B": 2, "Hkv": 8, "G": 1, "S": queries, "T": queries, "D": 64, "Dv": 64}
    scalars = {"scale": 0.125, "causal": None, "window": None}
    return [
        Subject(
            f"softmax {shape}",
            references.softmax,
            lambda x: torch.softmax(x, -1),
            {"*shape": (rows, columns)},
            {"dim": -1},
        ),
        Subject(
            f"layer_norm {shape}",
            references.layer_norm,
            lambda x, weight, bias: torch.nn.functional.layer_norm(x, (columns,), weight, bias, 1e-5),
            {"*batch": (rows,), "N": columns},
            {"eps": 1e-5},
        ),
        Subject(
            f"logsumexp {shape}",
            references.logsumexp,
            lambda x: torch.logsumexp(x, -1),
            {"*shape": (rows, columns)},
            {"dim": -1},
        ),
        Subject(
            f"matmul {side}^3",
            references.matmul,
            lambda a, b: a @ b,
            {"M": side, "N": side, "K": side},
            {},
        ),
        Subject(
            f"attention 2x8x{queries}x64",
            references.attention,
            functools.partial(attention, causal=False),
            heads,
            scalars,
        ),
        Subject(
            f"causal 2x8x{queries}x64",
            references.attention,
            functools.partial(attention, causal=True),
            heads,
            {**scalars, "causal": "top-left"},
        ),
    ]


def launch(subject: Subject, fmt: str) -> tuple[Case, dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """A case of standard normal rows, its exact values, and its tensors."""
    contract = subject.contract
    tensors = {}
    for salt, (name, spec) in enumerate(contract.tensors.items()):
        ndim = len(contract.shape(spec.shape, subject.sizes, subject.scalars))
        tensors[name] = Recipe(
            fmt, Layout(tuple(range(ndim))), (Row("gaussian", seed=salt, params=(("scale", 1.0),)),)
        )
    case = Case(dict(subject.sizes), dict(subject.scalars), tensors)
    inputs = materialise(contract, case)
    return case, inputs.exact, {name: block.view for name, block in inputs.blocks.items()}


def verdict_line(subject: Subject, fmt: str, repeats: int) -> str:
    """Time the comparison that people make, and our verdict, of what the function gives in ``fmt``."""
    case, exact, tensors = launch(subject, fmt)
    arithmetic, contract = Arithmetic(), subject.contract
    wide = {name: tensor.float() for name, tensor in tensors.items()}
    got = subject.function(**wide).to(next(iter(tensors.values())).dtype)

    def usual() -> None:
        wanted = subject.function(**{name: tensor.double() for name, tensor in tensors.items()})
        torch.testing.assert_close(got, wanted.to(got.dtype), rtol=1e-2, atol=1e-2)

    def ours(counted: bool = False) -> int:
        values = [oracle.decoded(got)]
        judged = oracle.judge_case(contract, arithmetic, case, exact, values).outputs
        owners = [situation_of(contract, case, output) for output in contract.outputs]
        formats = [target.fmt for target in oracle.targets(contract, arithmetic, case)]
        nothing = [torch.zeros(value.shape, dtype=torch.bool) for value in values]
        wrong = wrong_elements(values, judged, ["out"], formats, owners, nothing)
        if counted:
            for output in judged:
                _ = output.decisive, output.unspecified, output.unbounded, output.largest_ratio
        return len(wrong)

    assert not ours(), subject.name
    before, after, all_of_it = least(repeats, usual, ours, functools.partial(ours, counted=True))
    times = f"usual {1e3 * before:9.3f} ms  ours {1e3 * after:9.3f} ms  with counts {1e3 * all_of_it:9.3f} ms"
    return f"verdict {subject.name:22} {fmt:9} {times}  ratio {after / before:.2f}"


def mpmath_line(name: str, contract: Contract, scalars: Mapping[str, Any], large: Any, small: Any) -> str:
    """Time the float64 reading of a large launch and mpmath's of a small one with rows of the same length."""
    seconds = []
    readings: tuple[tuple[Callable[..., Any], Any], ...] = ((read_float64, large), (read_exactly, small))
    for reading, sizes in readings:
        case, exact, _ = launch(Subject(name, contract, torch.sum, sizes, scalars), "float32")
        model = oracle.model_for(contract, Arithmetic(), case)
        call = oracle.arguments(contract, case, exact)
        shapes = [contract.shape(output.shape, case.sizes, case.scalars) for output in contract.outputs]
        elements = math.prod(shapes[0])
        call_once = functools.partial(reading, contract.definition, call, model, shapes)
        (took,) = least(1 if reading is read_exactly else 5, call_once)
        seconds.append(took / elements)
    each = f"float64 {1e9 * seconds[0]:9.3f} ns  mpmath {1e9 * seconds[1]:12.0f} ns per output"
    return f"mpmath  {name:32} {each}  ratio {seconds[1] / seconds[0]:.0f}"


def mpmath_lines() -> Iterator[str]:
    rows = {"dim": -1}
    for name in ("sum", "softmax"):
        yield mpmath_line(
            f"{name} of 4096", getattr(references, name), rows, {"*shape": (256, 4096)}, {"*shape": (2, 4096)}
        )
    dots = ({"M": side, "N": side, "K": 512} for side in (512, 6))
    yield mpmath_line("dot of 512", references.matmul, {}, *dots)
    attended = (
        {"B": 1, "Hkv": heads, "G": 1, "S": queries, "T": 256, "D": 64, "Dv": 64}
        for heads, queries in ((8, 256), (1, 1))
    )
    scalars = {"scale": 0.125, "causal": None, "window": None}
    yield mpmath_line("attention over 256 keys", references.attention, scalars, *attended)


def least(repeats: int, *functions: Callable[[], Any]) -> list[float]:
    """The least time of each function, in seconds, of calls in turns; of the processor, not by the clock."""
    times = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.process_time()
            function()
            times[i] = min(times[i], time.process_time() - start)
    return times


def main(repeats: int = 15) -> None:
    torch.manual_seed(0)
    for sizes in ((256, 4096, 512, 256), (16, 64, 16, 16)):
        for subject in subjects(*sizes):
            for fmt in ("float32", "bfloat16"):
                print(verdict_line(subject, fmt, repeats), flush=True)
    for line in mpmath_lines():
        print(line, flush=True)


if __name__ == "__main__":
    if not KEPT.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **KEPT})
    main(*(int(argument) for argument in sys.argv[1:2]))
