"""Where the allowed error of one element comes from: each source taken out of the model in turn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from harness import formats, oracle
from harness.arithmetic import Arithmetic
from harness.arithmetic import arithmetic as claimed
from harness.case import Case, materialise
from harness.contracts import Contract
from harness.errors import HarnessError
from harness.executors import neutral
from harness.numbers import Model, read_exactly, read_float64


@neutral()
def explain_bound(
    contract: Contract,
    claims: Arithmetic | Mapping[str, Any] | None,
    case: Case,
    output: int,
    element: tuple[int, ...],
) -> list[str]:
    """The terms of t at one element, largest first, each with its source and its share, and the final rounding.

    A term is what t loses when its source is taken out of the model, so that the terms add up to first order.
    Raises HarnessError for an element that the output does not have.
    """
    arithmetic = claimed(claims)
    contract = contract.at(case.sizes)
    shape = contract.shape(contract.outputs[output].shape, case.sizes, case.scalars)
    if len(element) != len(shape) or not all(0 <= i < n for i, n in zip(element, shape, strict=True)):
        raise HarnessError(
            f"output {contract.outputs[output].name} of shape {list(shape)} has no element {list(element)}"
        )
    exact = materialise(contract, case).exact
    fmt = oracle.format_under_test(contract, case)
    model = arithmetic.model(contract, fmt)
    value, t = _allowed(contract, model, case, exact, output, element)
    lines = [f"exact value {value:.9g} ({formats.to_hex(value)}), t = {t:.4g}"]
    if not math.isfinite(t):
        return [*lines, "  t is not finite: the element cannot be tested"]
    terms = []
    for source, without in _without(model):
        term = t - _allowed(contract, without, case, exact, output, element)[1]
        if term > 1e-6 * t:
            terms.append((term, source))
    rest = t - sum(term for term, _ in terms)
    if rest > 1e-6 * t:
        terms.append(
            (rest, "additions, multiplications and what earlier errors grow to (u of the accumulator each)")
        )
    lines += [
        f"  {term:.4g} ({100 * term / t:.3g} %) {source}" for term, source in sorted(terms, reverse=True)
    ]
    target = oracle.targets(contract, arithmetic, case)[output]
    if target.fmt is not None and target.rounds:
        half = float(formats.half_ulp(torch.tensor(abs(value) + t, dtype=torch.float64), target.fmt))
        lines.append(f"  and the final rounding to {target.fmt.name}: half an ulp, {half:.4g}")
    return lines


def _allowed(
    contract: Contract,
    model: Model,
    case: Case,
    exact: dict[str, torch.Tensor],
    output: int,
    element: tuple[int, ...],
) -> tuple[float, float]:
    shapes: list[tuple[int, ...] | None] = [
        contract.shape(item.shape, case.sizes, case.scalars) for item in contract.outputs
    ]
    read = read_exactly if model.u < 2.0**-40 else read_float64
    answer = read(contract.definition, oracle.arguments(contract, case, exact), model, shapes)[output]
    return float(answer.value[element]), float(answer.t[element])


def _without(model: Model) -> Iterator[tuple[str, Model]]:
    """The sources of error of a model, each with the model that lacks it."""
    depth = {None: "the default depth", "sequential": "depth n-1"}.get(model.depth, f"depth {model.depth}")  # type: ignore[arg-type]
    yield f"roundings of reductions at {depth} (Higham, 2nd ed., §4.2)", replace(model, depth=0)
    for primitive, error in model.errors.items():
        source = f"{primitive}: {error:g} u (PTX ISA 9.1; measured on an H200)"
        yield source, replace(model, errors={**model.errors, primitive: 0.0})
    for place, fmt in model.roundings.items():
        others = {name: other for name, other in model.roundings.items() if name != place}
        yield f"claimed rounding {place!r} to {fmt.name}", replace(model, roundings=others)
    if model.dot.u_in or model.dot.extra:
        yield (
            "reduced operands of dots",
            replace(model, dot=replace(model.dot, u_in=0.0, eta_in=0.0, extra=0.0)),
        )
    yield "underflow and flushing", replace(model, eta=0.0, tiny=0.0)
    if model.float32_scalars:
        yield "Python scalars rounded to float32", replace(model, float32_scalars=False)
