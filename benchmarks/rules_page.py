"""Writes docs/rules.md: every rule of the error algebra, why it holds, its source, and how tight it was seen to be.

    python -m benchmarks.rules_page [EXAMPLES] > docs/rules.md

Rules are the docstrings of the functions that apply them. The tables are measured: every kernel of the folder
``kernels`` is checked on EXAMPLES situations in each of its formats, and the largest error over the allowed
error of each contract and format is shown; and every reading is held against mpmath (see benchmarks/proof).
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import references
from benchmarks.proof import CONTRACTS, READINGS, compare
from benchmarks.proof.launches import launches
from harness import numbers
from harness.numbers import averages, elementary, model, number, reductions, standardised, variance
from harness.search import check
from harness.subjects import Target, discover

EXAMPLES = 60
OUTPUTS = 1000

SMALL, LONGER = 0.1, 4
"""A ratio that is small, and how many times as many situations are looked at before it is said to be."""

REASONS = {
    "cross_entropy": (
        "A loss is a difference of two numbers that are computed apart: the bound has 5u for every exp and for "
        "log, as devices have (the CPU executor rounds them once), and the additions of any order, doubled for an "
        "online form, of which a tree of depth log₂ V takes few. For 8 to 128 bell-shaped logits it is 11 to 46 u of "
        "the loss, and 3 u under claims of depth 1 and of exp and log within 1u; a right kernel errs by about one."
    ),
    "matmul": (
        "An fp8 dot of K products may round K times, as a chain does. The CPU executor adds the products of one "
        "tl.dot in float64 and rounds them once, so that 1/K is all it reaches: 1/17 in rows of 17. Its profile "
        "with an H200's tensor cores, whose fp8 accumulator has 13 bits, needs the claim dot='fp8'. int8 products "
        "are exact: any other integer is wrong."
    ),
}
"""Why right kernels stay far below the bound of a contract, in the formats in which they do."""

RULES: dict[str, tuple[Callable[..., Any], str]] = {
    "a ± b": (
        number._add,
        "The operands differ from the exact ones by at most ta and tb, so that their sum differs by ta + tb, and "
        "is at most |v| + ta + tb; rounding to nearest adds u of that. A sum that is subnormal is a multiple of "
        "the smallest subnormal number, and exact (Hauser, ACM TOPLAS 18 (1996), doi:10.1145/227699.227701).",
    ),
    "a · b": (
        number._multiply,
        "(a + δa)(b + δb) - ab = a·δb + b·δa + δa·δb; then a rounding of u, or of half a subnormal where the "
        "product is one (Higham, Accuracy and Stability, 2nd ed., §2.2, (2.8)).",
    ),
    "a / b": (
        number._divide,
        "(a + δa)/(b + δb) - v = (δa - v·δb)/(b + δb), whose denominator is at least |b| - tb; then the "
        "division's own error.",
    ),
    "bⁿ": (
        number.power,
        "By the mean value theorem |(b + δ)ⁿ - bⁿ| <= n|δ|(|b| + |δ|)ⁿ⁻¹; n - 1 products round n - 1 times.",
    ),
    "sum": (
        reductions.sum,
        "Every term passes through as many additions as the tree is deep on its path, each of which multiplies "
        "it by 1 + δ, |δ| <= u: with depth d the computed sum is Σxᵢ(1 + θᵢ), |θᵢ| <= (1 + u)^d - 1 (Higham, "
        "2nd ed., §4.2). In any order (n - 1)u suffices, without a restriction of n·u (Jeannerod & Rump, SIAM J. "
        "Matrix Anal. Appl. 34 (2013), doi:10.1137/120894488).",
    ),
    "product": (
        reductions.prod,
        "n - 1 roundings in any order multiply the product by at most (1 + u)^(n-1).",
    ),
    "prefix sums": (reductions.cumsum, "Each is a sum of i + 1 terms."),
    "maximum": (
        reductions.amax,
        "max is 1-Lipschitz in the largest change of any argument, and comparing rounds nothing.",
    ),
    "exp": (
        elementary.exp,
        "exp(a + δ) = exp(a)·(1 + expm1(δ)). GPUs compute exp2(a·log2 e): the product and the rounded constant "
        "change the argument by λ·u·|a|. λ and the error of exp2 are measured (docs/decisions.md).",
    ),
    "log": (elementary.log, "log(a - ta) = log a + log1p(-ta/a): the lower end is the farther one."),
    "sqrt": (elementary.sqrt, "√a - √(a - t) = t/(√a + √(a - t))."),
    "1/√a": (
        elementary.rsqrt,
        "(a - t)^(-1/2) = a^(-1/2)·(1 - t/a)^(-1/2), computed as expm1(-log1p(-t/a)/2).",
    ),
    "tanh": (
        elementary.tanh,
        "The mean value theorem at the point of the interval where the slope is largest.",
    ),
    "erf": (
        elementary.erf,
        "The mean value theorem at the point of the interval where the slope is largest.",
    ),
    "matrix product": (
        numbers.matmul,
        "An FMA chain of K terms rounds each term at most K times; a tensor core adds blocks of products, "
        "aligned and truncated, which c counts (Blanchard, Higham, Lopez, Mary & Pranesh, SIAM J. Sci. Comput. "
        "42 (2020), doi:10.1137/19M1289546; Khattak & Mikaitis, arXiv:2512.07004).",
    ),
    "scaled matrix product": (
        numbers.scaled_matmul,
        "Whichever way an implementation goes, it is one of the three, each bounded by the rules of products and of "
        "matrix products; the largest of the bounds covers them all.",
    ),
    "variance, two passes": (
        variance._two_pass_error,
        "Σ(xᵢ - m)² = Σ(xᵢ - μ)² + n(m - μ)²: the error of the mean enters squared (Chan, Golub & LeVeque, "
        "doi:10.1080/00031305.1983.10483115).",
    ),
    "variance, Welford and Chan": (
        variance.Moments.welford_error.func,  # type: ignore[attr-defined]
        "Each step adds a product of two deviations from running means, whose errors dl enter linearly; summed "
        "over a lane they weigh with D1, the mean absolute deviation.",
    ),
    "variance, E[x²] - μ²": (
        variance._textbook_error,
        "A sum of squares and a squared mean, subtracted: errors of the size of mean x² stay.",
    ),
    "standardised rows": (
        standardised,
        "The error of the mean can only add to a two-pass variance, so that the quotient shrinks, and stays "
        "bounded where a plain quotient of intervals would not.",
    ),
    "softmax averages": (
        averages.softmax_average,
        "With weights wⱼ(1 + εⱼ) in numerator and normaliser alike, Σwⱼ(1 + εⱼ)(vⱼ - O)/Σwⱼ(1 + εⱼ) is what the "
        "average moves by, as Σwⱼ(vⱼ - O) = 0. See the module's docstring for the εⱼ.",
    ),
    "logsumexp": (
        averages.log_sum_exp,
        "log of a sum whose terms are all positive: relative errors become absolute.",
    ),
}


def page(examples: int) -> Iterator[str]:
    yield "# The rules of the error algebra"
    yield ""
    yield (
        f"Written by `python -m benchmarks.rules_page {examples}`; do not edit. Every number carries v, its exact "
        "value, and t >= |what any implementation within its claims may hold - v|. u is the accumulator's unit "
        "roundoff, eta its smallest subnormal number; c is the error of a primitive in u. Every rule states t "
        "from the operands' v and t, in running error analysis (Wilkinson; Higham, 2nd ed., ch. 3)."
    )
    for name, (function, why) in RULES.items():
        yield from ("", f"## {name}", "", why, "", "```text", inspect.getdoc(function) or "", "```")
        yield f"`{function.__module__}.{function.__qualname__}`"
    yield from ("", "## Errors of primitives", "")
    yield "Largest error in u, the final rounding included, unless a claim says otherwise:"
    yield ""
    yield from ("| primitive | c |", "|---|---|")
    yield from (f"| {name} | {error:g} |" for name, error in model.PRIMITIVE_ERRORS.items())
    yield from ("", "## How tight the rules are", "")
    yield (
        f"Largest error over allowed error of right kernels, over {examples} situations of each kernel and format "
        f"on the CPU executor, {LONGER} times as many where these stay below {SMALL}. 1 is what no right kernel "
        "exceeds; a small figure is a bound that leaves room."
    )
    yield ""
    yield from tightness(examples)
    yield from ("", "## How exact the oracle is", "")
    yield (
        f"Largest error over radius of the readings against mpmath at 300 bits, over {OUTPUTS} adversarial "
        "outputs each (`python -m benchmarks.proof` compares 20000 of each). In brackets the share of outputs that "
        "the reading gives up for the next one: values whose low words underflow, or steps that overflow."
    )
    yield ""
    yield from exactness()


def exactness() -> Iterator[str]:
    """The table of contracts and readings."""
    yield f"| contract | {' | '.join(READINGS)} |"
    yield "|---|" + "---|" * len(READINGS)
    for name in CONTRACTS:
        cells = []
        for reading in READINGS:
            found = compare(getattr(references, name), reading, OUTPUTS, seed=2)
            lost = f" ({100 * found.lost / found.outputs:.0f} %)" if found.lost else ""
            cells.append(f"{found.largest:.2g}{lost}")
            print(f"{name} {reading}: outside {found.outside}", file=sys.stderr, flush=True)
        yield f"| {name} | {' | '.join(cells)} |"


def tightness(examples: int) -> Iterator[str]:
    """The table of contracts and formats, and why figures in it are small."""
    largest: dict[str, dict[str, float]] = defaultdict(dict)
    for target in discover("kernels"):
        declared = target.declaration
        assert declared is not None
        name = declared.contract if isinstance(declared.contract, str) else declared.contract.name
        name = name.rpartition(":")[2]
        for fmt in declared.dtypes:
            found = _largest_ratio(target, fmt, examples)
            if found < SMALL and not _exact(name):
                found = max(found, _largest_ratio(target, fmt, LONGER * examples))
            largest[name][str(fmt)] = max(largest[name].get(str(fmt), 0.0), found)
    formats = sorted({fmt for row in largest.values() for fmt in row})
    yield f"| contract | {' | '.join(formats)} |"
    yield "|---|" + "---|" * len(formats)
    for name, row in sorted(largest.items()):
        cells = " | ".join(f"{row[fmt]:.2g}" if fmt in row else "" for fmt in formats)
        yield f"| {name} | {cells} |"
    yield from ("", f"Where a figure is below {SMALL}:", "")
    yield from small(largest)


def small(largest: dict[str, dict[str, float]]) -> Iterator[str]:
    """A reason for each contract with a small figure; of those whose results are exact all at once."""
    names = [name for name, row in sorted(largest.items()) if min(row.values()) < SMALL]
    exact = ", ".join(name for name in names if _exact(name))
    yield f"- {exact}: their bound is 0, as nothing is rounded, or a result is right or wrong."
    for name in names:
        if not _exact(name):
            formats = ", ".join(fmt for fmt, ratio in sorted(largest[name].items()) if ratio < SMALL)
            yield f"- {name} ({formats}): {REASONS.get(name, 'no reason is known.')}"


def _largest_ratio(target: Target, fmt: Any, examples: int) -> float:
    declared = target.declaration
    assert declared is not None
    verdict = check(
        target, declared.contract, fmt, claims=declared.claims, domain=declared.domain, examples=examples
    )
    print(f"{target.spec} {fmt}: {verdict.outcome}", file=sys.stderr, flush=True)
    return max((tally.largest_ratio for tally in verdict.tallies.values()), default=0.0)


def _exact(name: str) -> bool:
    """Whether no output of a contract is a number that some launch allows an error."""
    contract = getattr(references, name)
    numbers_ = [output for output in contract.outputs if output.kind == "number"]
    if not numbers_:
        return True
    some = itertools.islice(launches(contract, READINGS["float64"], 0, seed=0), 20)
    answers = [
        answer
        for launch in some
        for answer in READINGS["float64"](
            contract.definition, launch.arguments, launch.model, [None] * len(launch.contract.outputs)
        )
    ]
    return not any(bool((answer.t > 0).any()) for answer in answers)


def main(examples: int = EXAMPLES) -> None:
    for line in page(examples):
        print(line, flush=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
