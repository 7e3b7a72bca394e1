"""Whether a case lies within what a contract defines and the domain that an author declared."""

from __future__ import annotations

import math
from dataclasses import replace
from math import prod

import numpy as np

from harness import layouts, shapes
from harness.case import Case, Grid, Recipe, check, grid, logical_values
from harness.contracts import Choice, Contract, Dim
from harness.domain import MOST_ELEMENTS, TOO_MANY, Domain
from harness.errors import HarnessError
from harness.formats import dtype_name, format_of, from_hex, is_integer, to_hex
from harness.values import LITERAL, MAX_ABS, find, round_rows


def narrowed(contract: Contract, domain: Domain) -> Domain:
    """The domain, with the values that the contract draws a size from where the domain names none."""
    own = [(name, values) for name, values in contract.sizes.items() if domain.allowed_values(name) is None]
    return replace(domain, allowed=(*domain.allowed, *own)) if own else domain


def objection(contract: Contract, case: Case, domain: Domain) -> str | None:
    """Why the case must not be run, in words; None if it may."""
    domain = narrowed(contract, domain)
    try:
        check(contract, case)
        for name, recipe in case.tensors.items():
            if recipe is not None and is_integer(recipe.format):
                logical_values(contract, case, name)
    except HarnessError as error:
        return str(error)
    contract = contract.at(case.sizes)
    return (
        _sizes(contract, case, domain) or _scalars(contract, case, domain) or _tensors(contract, case, domain)
    )


def check_written(contract: Contract, case: Case) -> None:
    """`check`, and that of a case written by hand: lengths, as many values as elements, numbers of the format, axes
    that exist.
    """
    _check_sizes(contract, case)
    check(contract, case)
    contract = contract.at(case.sizes)
    for name, recipe in case.tensors.items():
        if recipe is not None:
            cells = grid(contract, case, name)
            if prod(cells.shape) > MOST_ELEMENTS:
                raise HarnessError(f"tensor {name!r} has shape {list(cells.shape)}: {TOO_MANY}")
            _check_values(name, recipe, cells)
            _check_numbers(name, recipe)
    for name, scalar in contract.scalars.items():
        if isinstance(scalar, Dim):
            ndim = len(contract.shape(contract.tensors[scalar.of].shape, case.sizes, case.scalars))
            if not -ndim <= case.scalars[name] < max(ndim, 1):
                what = f"case has {name}={case.scalars[name]!r}, and {scalar.of} has {ndim} axes"
                raise HarnessError(f"{what}: give {name} from {-ndim} to {ndim - 1}")


def _check_sizes(contract: Contract, case: Case) -> None:
    """Raise HarnessError unless packs and lists have lists of lengths, and other sizes one."""
    for name, size in case.sizes.items():
        several = name.startswith("*") or name.endswith("@")
        if name in contract.size_names and several != isinstance(size, tuple):
            wanted = "a list of lengths, such as [4, 5]" if several else "a length, such as 4"
            raise HarnessError(f"size {name}={size!r}: give {wanted}")
        if min(_lengths(size), default=0) < 0:
            raise HarnessError(f"size {name}={size!r}: give lengths from 0")
        if max(_lengths(size), default=0) > MOST_ELEMENTS:
            raise HarnessError(f"size {name}={size!r}: {TOO_MANY}")


def _check_numbers(name: str, recipe: Recipe) -> None:
    """Raise HarnessError for a value that the format of a floating-point tensor does not have."""
    if is_integer(recipe.format):
        return
    fmt = format_of(recipe.format)
    for row in recipe.rows:
        for text in (*row.values, *(text for _, text in row.plant)):
            value = from_hex(text)
            held = float(round_rows(np.array([value]), fmt)[0])
            if held != value and not (math.isnan(held) and math.isnan(value)):
                what = f"tensor {name!r}: {text!r} is no number of {fmt.name}"
                raise HarnessError(f"{what}; the nearest is {to_hex(held)!r}")


def _check_values(name: str, recipe: Recipe, cells: Grid) -> None:
    """Raise HarnessError unless each row that is written out has as many values as a row has elements."""
    for row in recipe.rows:
        if row.family != LITERAL and row.values:
            what = f"a row of tensor {name!r} is of family {row.family!r}, and has values"
            raise HarnessError(f"{what}: give them to a row of family {LITERAL!r}, or leave them out")
        if row.start is not None and row.start < 0:
            raise HarnessError(
                f"a row of tensor {name!r} starts at {row.start}: give start from 0, or leave it out"
            )
        if row.family == LITERAL and cells.rows and row.values and len(row.values) != cells.length:
            what = f"a row of tensor {name!r} has {cells.length} elements, and the case {len(row.values)} values for it"
            raise HarnessError(f"{what}: give one for each")


def _sizes(contract: Contract, case: Case, domain: Domain) -> str | None:
    low, high = domain.ndim
    filled = {key.strip("*@") for key in contract.nonempty}
    for name, size in case.sizes.items():
        allowed = domain.allowed_values(name.lstrip("*"))
        for part in _lengths(size) if name.endswith("@") else (size,):
            if allowed is not None and part not in [
                tuple(v) if isinstance(v, list | tuple) else v for v in allowed
            ]:
                return f"size {name}={size} is none of {allowed}"
        if name.strip("*@") in filled and 0 in _lengths(size):
            return f"size {name}={size} must not be empty"
    for name in contract.tensors:
        written = contract.tensors[name].shape
        shape = contract.shape(written, case.sizes, case.scalars)
        if _packed(written) and len(shape) > high:
            return f"tensor {name!r} has {len(shape)} axes, the domain {domain.ndim}"
        if domain.max_elements is not None and prod(shape) > domain.max_elements:
            return f"tensor {name!r} has {prod(shape)} elements, the domain {domain.max_elements}"
    packed = [spec.shape for spec in contract.tensors.values() if _packed(spec.shape)]
    if packed and max(len(contract.shape(w, case.sizes, case.scalars)) for w in packed) < low:
        return f"no tensor has the {low} axes that the domain asks for"
    return None


def _packed(written: str) -> bool:
    """Whether a shape has a pack, and the whole of it."""
    return bool(shapes.packs(written)) and not any(shapes.removed_scalars(written))


def _lengths(size: int | tuple[int, ...]) -> tuple[int, ...]:
    return size if isinstance(size, tuple) else (size,)


def _scalars(contract: Contract, case: Case, domain: Domain) -> str | None:
    for name, spec in contract.scalars.items():
        value = (
            case.scalars[name]
            if isinstance(spec, Choice)
            else contract.scalar(name, case.sizes, case.scalars)
        )
        allowed = domain.allowed_values(name)
        if allowed is not None and value not in allowed:
            return f"scalar {name}={value!r} is none of {allowed}"
        if isinstance(spec, Choice) and allowed is None and value not in spec.values:
            return f"scalar {name}={value!r} is none of {spec.values}"
        if not isinstance(spec, Dim):
            continue
        shape = contract.shape(contract.tensors[spec.of].shape, case.sizes, case.scalars)
        if not -len(shape) <= value < len(shape):
            return f"scalar {name}={value} names no axis of {spec.of!r}, which has {len(shape)}"
        if domain.dim == "last" and value not in (-1, len(shape) - 1):
            return f"scalar {name}={value} is not the last axis"
        if isinstance(domain.dim, tuple) and value not in domain.dim:
            return f"scalar {name}={value} is none of {domain.dim}"
        if name in contract.nonempty and shape[value] == 0:
            return f"axis {name}={value} must not be empty"
    return None


def _tensors(contract: Contract, case: Case, domain: Domain) -> str | None:
    for name, recipe in case.tensors.items():
        if recipe is None:
            continue
        if not layouts.permits(domain.layouts, recipe.layout):
            return f"tensor {name!r} is {recipe.layout.name}, the domain admits {domain.layouts}"
        wanted = dict(domain.dtypes).get(name)
        if wanted is not None and recipe.format != dtype_name(wanted):
            return f"tensor {name!r} is {recipe.format}, the domain has {wanted}"
        found = None if is_integer(recipe.format) else _values(contract, recipe, domain)
        if found:
            return f"tensor {name!r}: {found}"
    return None


def _values(contract: Contract, recipe: Recipe, domain: Domain) -> str | None:
    for row in recipe.rows:
        written = [from_hex(text) for text in (*row.values, *(text for _, text in row.plant))]
        if domain.finite and not all(map(math.isfinite, written)):
            return f"row {row} is not finite"
        if domain.finite and row.family != LITERAL and "special" in find(contract, row.family).tags:
            return f"row {row} may hold inf or NaN"
        if domain.max_abs is None:
            continue
        if any(abs(value) > domain.max_abs for value in written if math.isfinite(value)):
            return f"row {row} exceeds max_abs={domain.max_abs}"
        if row.family != LITERAL and dict(row.params).get(MAX_ABS, math.inf) > domain.max_abs:
            return f"row {row} is not clipped to max_abs={domain.max_abs}"
    return None
