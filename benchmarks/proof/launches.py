"""Arguments of any contract, made from its declaration: sizes, scalars, formats, families, and adversarial rows.

Nothing here knows a contract by name. Sizes and scalars are those that a search would draw
(:mod:`harness.strategies`), so that every value of every scalar, optional tensors, lists and formats come in
turn; tensors hold adversarial rows (:mod:`benchmarks.proof.rows`), families of the contract, or both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch

from benchmarks.proof.readings import Read
from benchmarks.proof.rows import Rows
from harness import formats, oracle
from harness.admission import narrowed
from harness.arithmetic import Arithmetic
from harness.case import Case, Grid, Recipe, Row, logical_values
from harness.contracts import Contract, Sizes
from harness.domain import Domain
from harness.formats import FLOAT64, Format, format_of, is_integer
from harness.layouts import Layout
from harness.numbers.model import PRIMITIVE_ERRORS, Model
from harness.strategies import Budget, contents, shapes
from harness.strategies.contents import Demand
from harness.strategies.shapes import Wish
from harness.values import pool
from harness.values.counter import Floats

CONTENT = (24, 5, 17, 2, 33, 8, 24, 1, 64, 3)
ROWS = (24, 8, 48, 1, 16)
OUTPUTS = 256
"""Elements of all results of a launch, about, beyond which it has fewer rows: so many launches have all choices."""
LONG = 4_001
EVERY = 40
"""One launch in so many has a row of LONG elements."""

BUDGET = Budget(elements=1_200, long=3 * LONG, products=5_000, single=400)

_HALF_AN_ULP = dict.fromkeys(PRIMITIVE_ERRORS, 0.5)
CLAIMS = (
    Arithmetic(flush="none"),
    Arithmetic(flush="none", depth=1, variance="two-pass", ulp=_HALF_AN_ULP),
)
"""What allows a kernel least, and so the reading: no flushing, the usual depth; and the tightest claims."""


@dataclass(frozen=True)
class Launch:
    """One evaluation of a contract's definition: the contract without lists, its arguments, its error model."""

    number: int
    contract: Contract
    arguments: dict[str, Any]
    model: Model


def launches(contract: Contract, read: Read, tier: int, seed: int) -> Iterator[Launch]:
    """Endless launches that the oracle would judge by the reading of this tier."""
    random = np.random.default_rng(seed)
    dtypes = _formats(contract, tier)
    for number in itertools.count():
        fmt, accumulator = dtypes[number % len(dtypes)]
        claims = CLAIMS[number // len(dtypes) % len(CLAIMS)]
        case, exact = _case(contract, fmt, number, random)
        whole = contract.at(case.sizes)
        arithmetic = Arithmetic(**{**claims.claimed(), "accumulator": accumulator})
        model = oracle.model_for(contract, arithmetic, case)
        given = _returned(whole, case, exact, read, model) if whole.given else []
        yield Launch(number, whole, oracle.arguments(whole, case, exact, given), model)


def _formats(contract: Contract, tier: int) -> list[tuple[Format | str, str]]:
    """Formats that a reading judges, each with a claimed accumulator: the widest ones every other time."""
    own = contract.formats or ("float32", "float16", "bfloat16", "float64")
    named: list[Format | str] = [name if is_integer(name) else format_of(name) for name in own]
    narrow = [fmt for fmt in named if fmt is not FLOAT64]
    if tier == 0:
        return [(fmt, "float32") for other in narrow for fmt in dict.fromkeys((narrow[0], other))]
    if FLOAT64 not in named:
        return [(fmt, "float64") for fmt in narrow]
    return [(fmt, "float64") for other in narrow for fmt in (FLOAT64, FLOAT64, FLOAT64, other)]


def _case(
    contract: Contract, fmt: Format | str, number: int, random: np.random.Generator
) -> tuple[Case, dict[str, torch.Tensor]]:
    """The case of a launch and the values of its tensors, some of which adversarial rows have replaced."""
    domain = narrowed(contract, Domain())
    wish = Wish(
        content=LONG if number % EVERY == EVERY - 1 else CONTENT[int(random.integers(len(CONTENT)))],
        rows=1 if number % EVERY == EVERY - 1 else ROWS[int(random.integers(len(ROWS)))],
        ndim=int(random.integers(1, 5)),
        **{key: int(random.integers(10_000)) for key in ("axis", "choice", "spread", "main")},
    )
    fitted = shapes.fit(contract, domain, BUDGET, wish)
    many = sum(prod(size) for size in _sizes(contract.at(fitted.sizes), fitted.sizes, fitted.scalars))
    if many > OUTPUTS:
        wish = replace(wish, rows=max(1, wish.rows * OUTPUTS // many))
        fitted = shapes.fit(contract, domain, BUDGET, wish)
    whole = contract.at(fitted.sizes)
    dtypes = contents.formats(contract, domain, fmt)
    grids = {name: contents.grid_of(whole, fitted, name) for name in whole.tensors}
    recipes: dict[str, Recipe | None] = {}
    for name, cells in grids.items():
        base = name.partition("[")[0]
        absent = whole.tensors[name].optional and random.integers(3) == 0
        recipes[name] = None if absent else _recipe(contract, domain, base, dtypes[base], cells, random)
    case = Case(fitted.sizes, fitted.scalars, recipes)
    present = [name for name, recipe in recipes.items() if recipe is not None]
    exact = {name: torch.from_numpy(logical_values(contract, case, name)) for name in present}
    floating = [name for name in present if not is_integer(dtypes[name.partition("[")[0]])]
    for name in _adversarial(floating, random):
        rows = Rows(format_of(dtypes[name.partition("[")[0]]), random)
        values = _values(rows, grids[name], moderate=bool(random.integers(2)))
        positive = _positive(contract, domain, name, exact[name])
        exact[name] = torch.from_numpy(np.abs(values) if positive else values)
    _cancel(whole, exact, dtypes, random)
    return case, exact


def _recipe(
    contract: Contract, domain: Domain, name: str, dtype: str, cells: Grid, random: np.random.Generator
) -> Recipe:
    """Rows of families that the contract draws the tensor from."""
    families = pool(contract, domain, name, whole=is_integer(dtype)).every
    rows = []
    for _ in range(max(1, min(cells.rows, 24))):
        family = families[int(random.integers(len(families)))]
        seed, turn = int(random.integers(1 << 16)), int(random.integers(12))
        rows.append(Demand(family).row(seed, cells, domain, turn) or Row(family.name, seed))
    return Recipe(dtype, Layout.contiguous(len(cells.shape)), tuple(rows))


def _adversarial(names: list[str], random: np.random.Generator) -> list[str]:
    """Which tensors hold adversarial rows: all, one of them or, in one launch of five, none."""
    turn = int(random.integers(5))
    if turn == 0 or not names:
        return []
    return names if turn > 2 else [names[int(random.integers(len(names)))]]


def _values(rows: Rows, cells: Grid, *, moderate: bool) -> Floats:
    """A tensor of adversarial rows: of its situations, or, in every other one, of the vectors they consist of."""
    inner = (cells.length, *cells.inner)
    n = inner[int(rows.random.integers(len(inner)))]
    if not n:
        return np.zeros(cells.shape)
    drawn = rows.draw(cells.rows * (cells.length // n), n, moderate=moderate)
    return cells.arrange(drawn.reshape(cells.rows, cells.length))


def _positive(contract: Contract, domain: Domain, name: str, values: torch.Tensor) -> bool:
    """Whether a tensor is of magnitudes, as a mean of squares: no family that is listed for it is ever negative."""
    own = contract.tensors[name.partition("[")[0]].families
    return bool(own) and not bool((values < 0).any()) and _never_negative(contract, domain, name)


def _never_negative(contract: Contract, domain: Domain, name: str) -> bool:
    from harness.values.rows import raw_row

    families = pool(contract, domain, name.partition("[")[0], whole=False).every
    rows = (raw_row(contract, f.name, seed, 8, formats.FLOAT32, {}) for f in families for seed in range(3))
    return not any(bool((row < 0).any()) for row in rows)


def _cancel(
    contract: Contract,
    exact: dict[str, torch.Tensor],
    dtypes: Mapping[str, str],
    random: np.random.Generator,
) -> None:
    """In every other launch the tensors of a list, where they have one shape, make rows across the list."""
    for base in contract.lists:
        names = [name for name in exact if name.startswith(f"{base}[")]
        if random.integers(2) or len({exact[name].shape for name in names}) != 1 or is_integer(dtypes[base]):
            continue
        shape = exact[names[0]].shape
        rows = Rows(format_of(dtypes[base]), random)
        drawn = rows.draw(shape.numel(), len(names), moderate=bool(random.integers(2)))
        for place, name in enumerate(names):
            exact[name] = torch.from_numpy(drawn[:, place].copy()).reshape(shape)


def _sizes(contract: Contract, sizes: Sizes, scalars: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """The shape of every output."""
    return [contract.shape(output.shape, sizes, scalars) for output in contract.outputs]


def _returned(
    contract: Contract, case: Case, exact: Mapping[str, torch.Tensor], read: Read, model: Model
) -> list[torch.Tensor]:
    """Outputs that the definition is given, as a kernel would return them: rounded to their dtypes."""
    sizes = _sizes(contract, case.sizes, case.scalars)
    zeros = [torch.zeros(size, dtype=torch.float64) for size in sizes]
    answers = read(contract.definition, oracle.arguments(contract, case, exact, zeros), model, sizes)
    found = []
    for answer, names in zip(answers, oracle.output_dtypes(contract, case), strict=True):
        values = getattr(answer.value, "hi", answer.value)
        found.append(values if is_integer(names[0]) else formats.round_to(values, format_of(names[0])))
    return found
