"""What a launch costs, and sizes brought within a budget."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from harness import shapes
from harness.contracts import AxisLabel, Contract
from harness.domain import Domain
from harness.errors import HarnessError
from harness.formats import FLOAT32, Format
from harness.limits import memory
from harness.strategies.options import Sizes, lengths_of

HELD = 4 * 8
"""Bytes of an element of a launch, at least: in float64 as drawn, as rounded, as arranged, and as it is judged."""


@dataclass(frozen=True)
class Budget:
    """What a launch may cost: elements of its largest tensor, half of all; products of two tensors.

    ``products`` bounds what tensors that meet multiply: M·K·N of a matmul, B·H·S·T·D of attention. ``long``
    bounds the elements of the rare launches of one or two long rows, ``single`` those of usual ones where
    each element is a row of its own. The judge of float64 kernels is far
    slower per element than that of narrower formats.
    """

    elements: int = 20_000
    long: int = 140_000
    products: int = 400_000
    single: int = 6_000

    @staticmethod
    def of(fmt: Format | str) -> Budget:
        """The usual budget for a format, or an integer dtype, under test."""
        wide = isinstance(fmt, Format) and fmt.precision > FLOAT32.precision
        return Budget(600, 5_000, 4_000, 600) if wide else Budget()


@dataclass(frozen=True)
class Fitted:
    """The sizes and scalars of a launch; ``main`` are the sizes that got the length that was wished for."""

    sizes: Sizes
    scalars: dict[str, Any]
    main: tuple[AxisLabel, ...] = ()


def tensor_slots(contract: Contract, sizes: Sizes, scalars: Mapping[str, Any]) -> dict[str, list[AxisLabel]]:
    """The sizes that the shape of each tensor has, in order of appearance; the contract without lists."""
    found: dict[str, list[AxisLabel]] = {}
    for name, tensor in contract.tensors.items():
        axes = contract.axes(tensor.shape, sizes, scalars)
        found[name] = list(dict.fromkeys(slot for axis in axes for slot in shapes.slots(axis.label, sizes)))
    return found


def length(sizes: Sizes, slot: AxisLabel) -> int:
    """The number in a slot of the sizes."""
    size = sizes[slot[0]]
    return size[slot[1]] if isinstance(size, tuple) else size


def elements(contract: Contract, fitted: Fitted) -> list[int]:
    """Elements of each tensor; the contract without lists."""
    tensors = contract.tensors.values()
    return [prod(contract.shape(tensor.shape, fitted.sizes, fitted.scalars)) for tensor in tensors]


def least(contract: Contract, fitted: Fitted) -> int:
    """The length of the shortest axis of any tensor."""
    contract = contract.at(fitted.sizes)
    lengths = [
        n
        for tensor in contract.tensors.values()
        for n in contract.shape(tensor.shape, fitted.sizes, fitted.scalars)
    ]
    return min(lengths, default=1)


def products(contract: Contract, fitted: Fitted) -> int:
    """The largest number of products that meeting tensors make, 0 if none do: M·K·N of a matmul.

    The tensors are taken to meet one after the other, in the order of the arguments, as queries, keys and
    values do; a size that neither the results nor a later tensor have is summed over by then.
    """
    contract = contract.at(fitted.sizes)
    sizes, scalars = fitted.sizes, fitted.scalars
    first, *later = (frozenset(slots) for slots in tensor_slots(contract, sizes, scalars).values())
    kept = {
        slot
        for output in contract.outputs
        for axis in contract.axes(output.shape, sizes, scalars)
        for slot in shapes.slots(axis.label, sizes)
    }
    found = 0
    for place, other in enumerate(later):
        both = first | other
        if both not in (first, other):
            found = max(found, prod(length(sizes, slot) for slot in both))
        first = both & kept.union(*later[place + 1 :])
    return found


def afford(
    contract: Contract,
    domain: Domain,
    budget: Budget,
    fitted: Fitted,
    rows: Collection[AxisLabel],
    fixed: Collection[AxisLabel],
    *,
    long: bool,
) -> Fitted:
    """Shorten sizes until the launch fits the budget and the domain's max_elements.

    First the row axes, down to a few rows, then what is neither row axis nor main, down to a few elements,
    then sizes with allowed values, a main one last. ``long`` admits the rare launches of few long rows.
    """
    whole = contract.at(fitted.sizes)
    slots = tensor_slots(whole, fitted.sizes, fitted.scalars)
    everything = [
        slot for slot in dict.fromkeys(s for own in slots.values() for s in own) if slot not in fixed
    ]
    most = domain.max_elements
    limit = budget.long if long else budget.elements
    while True:
        each = elements(whole, fitted)
        largest = max(each)
        within = largest <= limit and sum(each) <= 2 * limit
        within = within and products(whole, fitted) <= budget.products * limit // budget.elements
        if within and (most is None or largest <= most):
            return fitted
        now = {slot: length(fitted.sizes, slot) for slot in everything}
        shorter = {
            slot: found for slot in everything if (found := _shorter(domain, slot, now[slot])) is not None
        }
        if not shorter:
            if most is not None and largest > most:
                raise HarnessError(
                    f"domain max_elements={most} admits no shape for contract {contract.name}: "
                    f"the smallest allowed sizes {fitted.sizes} have {largest} elements"
                )
            _check_memory(whole, fitted)
            return fitted
        free = [slot for slot in shorter if lengths_of(domain, slot) is None]
        row = [slot for slot in free if slot in rows]
        beside = [slot for slot in free if slot not in rows and slot not in fitted.main]
        pools = (
            row if prod(now[slot] for slot in everything if slot in rows) > 4 else [],
            [slot for slot in beside if now[slot] > 4],
            [slot for slot in shorter if slot not in free and slot not in fitted.main],
            row,
            [slot for slot in fitted.main if slot in free and now[slot] > 8 and not long],
            [slot for slot in shorter if slot not in free],
            beside,
            free,
            list(shorter),
        )
        pool = next(pool for pool in pools if pool)
        chosen = max(pool, key=lambda slot: now[slot])
        fitted = replace(fitted, sizes=shapes.resized(fitted.sizes, {chosen: shorter[chosen]}))


def _check_memory(contract: Contract, fitted: Fitted) -> None:
    """Raise HarnessError where a launch that cannot be shortened is more than this machine's memory holds."""
    results = [contract.shape(output.shape, fitted.sizes, fitted.scalars) for output in contract.outputs]
    count = sum(elements(contract, fitted)) + sum(map(prod, results))
    if count * HELD > memory():
        raise HarnessError(
            f"the smallest allowed sizes {fitted.sizes} of contract {contract.name} have {count} elements in all, of "
            f"{HELD} bytes each while they are made and judged, and this machine has {memory() >> 30} GiB: allow smaller ones"
        )


def _shorter(domain: Domain, slot: AxisLabel, length: int) -> int | None:
    """A shorter admissible length of a size, not 0; None if there is none."""
    options = lengths_of(domain, slot)
    if options is None:
        return None if length <= 1 else length * 3 // 4
    below = [option for option in options if 0 < option < length]
    return max(below, default=None)
