"""What a contract and a domain admit: numbers of axes, values of scalars and named sizes, empty axes."""

from __future__ import annotations

from math import prod
from typing import Any

from harness import shapes
from harness.contracts import AxisLabel, Choice, Contract, Dim, SizeOf
from harness.domain import Domain
from harness.errors import HarnessError

Sizes = dict[str, int | tuple[int, ...]]

WORLDS = (2, 3, 1, 4)
"""How many tensors a list has where the contract does not say."""


def turn(number: int, place: int, options: int) -> int:
    """Which of several options the ``place``-th of a launch's choices takes in launch ``number``.

    Each option comes once in ``options`` launches, counted from a multiple of it, and any two choices of the
    same number of options meet in all combinations within its square or its cube of launches.
    """
    square = number // options // options
    return (number + (place + 1) * (number // options) + (place + 1) // options * square) % options


def dimensions(contract: Contract, domain: Domain) -> tuple[int, ...]:
    """The numbers of axes that a tensor with a pack may have, so that every Dim has a value."""
    low, high = domain.ndim
    found = []
    for ndim in range(low, high + 1):
        sizes = unit_sizes(contract, domain, ndim, 0)
        if all(
            axes_of(contract, domain, name, sizes)
            for name, spec in contract.scalars.items()
            if isinstance(spec, Dim)
        ) and _allowed_packs(contract, domain, ndim):
            found.append(ndim)
    if not found:
        raise HarnessError(
            f"domain admits no shape for contract {contract.name}: no ndim in {domain.ndim} has an axis in "
            f"dim={domain.dim!r} and the allowed sizes {dict(domain.allowed)}"
        )
    return tuple(found)


def axes_of(contract: Contract, domain: Domain, scalar: str, sizes: Sizes) -> tuple[int, ...]:
    """The values a Dim scalar may take, simplest first: the last axis, then negative and positive ones in turn."""
    spec = contract.scalars[scalar]
    assert isinstance(spec, Dim)
    ndim = _ndim(contract, spec, sizes)
    order = [-1, ndim - 1]
    for axis in range(ndim - 1):
        order += [-2 - axis, axis]
    possible = [axis for axis in dict.fromkeys(order) if -ndim <= axis < ndim]
    if domain.dim == "last":
        possible = [axis for axis in possible if axis in (-1, ndim - 1)]
    elif isinstance(domain.dim, tuple):
        possible = [axis for axis in possible if axis in domain.dim]
    allowed = domain.allowed_values(scalar)
    return tuple(axis for axis in possible if allowed is None or axis in allowed)


def _in_turn(axes: tuple[int, ...], ndim: int, number: int) -> int:
    """In every other launch the last axis, for which kernels have a way of its own, by either of its numbers; else
    another one in turn."""
    last = [axis for axis in axes if axis in (-1, ndim - 1)]
    others = [axis for axis in axes if axis not in last]
    which = (others or last) if number % 2 else (last or others)
    return which[number // 2 % len(which)]


def _ndim(contract: Contract, spec: Dim, sizes: Sizes) -> int:
    """The axes of the tensor that a Dim scalar is an axis of."""
    written = contract.tensors[spec.of].shape
    return sum(1 if not word.startswith("*") else len(_pack(sizes, word)) for word in written.split())


def choices(contract: Contract, domain: Domain, scalar: str) -> tuple[Any, ...]:
    """The values a Choice scalar may take."""
    spec = contract.scalars[scalar]
    assert isinstance(spec, Choice)
    allowed = domain.allowed_values(scalar)
    return spec.values if allowed is None else tuple(allowed)


def scalar_values(contract: Contract, domain: Domain, sizes: Sizes, axis: int, number: int) -> dict[str, Any]:
    """The scalars of a launch: the ``axis``-th admissible value of each Dim, choices as their turn comes."""
    found: dict[str, Any] = {}
    for place, (name, spec) in enumerate(contract.scalars.items()):
        if isinstance(spec, Dim):
            found[name] = _in_turn(axes_of(contract, domain, name, sizes), _ndim(contract, spec, sizes), axis)
        elif isinstance(spec, Choice):
            values = choices(contract, domain, name)
            found[name] = values[turn(number, place, len(values))]
    return found


def lengths_of(domain: Domain, slot: AxisLabel) -> tuple[int, ...] | None:
    """The lengths allowed for a named size; None for a pack, or where the domain says nothing."""
    return None if slot[0].startswith("*") else domain.allowed_values(slot[0])


def may_be_empty(contract: Contract, slot: AxisLabel, sizes: Sizes, scalars: dict[str, Any]) -> bool:
    """Whether the contract is defined where this size is 0."""
    for name in contract.nonempty:
        spec = contract.args.get(name)
        if isinstance(spec, Dim):
            axes = contract.axes(contract.tensors[spec.of].shape, sizes, scalars)
            if slot in shapes.slots(axes[scalars[name] % len(axes)].label, sizes):
                return False
        elif slot[0].strip("*@") == name.strip("*@"):
            return False
    return not any(
        slot[0] == _bounding(contract, spec.whole.high) for spec in contract.tensors.values() if spec.whole
    )


def _bounding(contract: Contract, high: int | str) -> str | None:
    """The size below which the integers of a tensor lie: an empty one would leave them no value."""
    spec = contract.args.get(high) if isinstance(high, str) else None
    return spec.size if isinstance(spec, SizeOf) else high if isinstance(high, str) else None


def unit_sizes(contract: Contract, domain: Domain, ndim: int, number: int) -> Sizes:
    """Sizes of the right number of axes, and of tensors in lists, with all other lengths 1.

    Packs have as many axes as ``ndim`` leaves them; those of allowed shapes are one of these.
    """
    sizes: Sizes = {}
    counts = {spec.many: spec.shape for spec in contract.tensors.values() if spec.many}
    for place, name in enumerate(counts):
        options = lengths_of(domain, (name, 0)) or WORLDS
        sizes[name] = options[turn(number, len(contract.scalars) + place, len(options))]
    for name in contract.size_names:
        if name in sizes:
            continue
        if name.endswith("@"):
            count = next(count for count, written in counts.items() if name in shapes.names(written))
            sizes[name] = (1,) * int(sizes[count])  # type: ignore[arg-type]
        elif not name.startswith("*"):
            sizes[name] = 1
        else:
            allowed = _allowed_pack(contract, domain, name, ndim)
            if allowed is None:
                sizes[name] = (1,) * _pack_axes(contract, name, ndim)
            else:
                sizes[name] = allowed[number % len(allowed)] if allowed else ()
    return {name: sizes[name] for name in contract.size_names}


def _pack_axes(contract: Contract, pack: str, ndim: int) -> int:
    """Axes that tensors of ``ndim`` axes leave to a pack."""
    found = ndim
    for tensor in contract.tensors.values():
        words = tensor.shape.split()
        packs = shapes.packs(tensor.shape)
        if pack in packs and not any(shapes.removed_scalars(tensor.shape)):
            free = ndim - (len(words) - len(packs))
            share = free // len(packs) + (packs.index(pack) < free % len(packs))
            found = min(found, max(0, share))
    return found


def _allowed_pack(contract: Contract, domain: Domain, pack: str, ndim: int) -> list[tuple[int, ...]] | None:
    allowed = domain.allowed_values(pack.lstrip("*"))
    if allowed is None:
        return None
    given = [tuple(shape) if isinstance(shape, list | tuple) else (int(shape),) for shape in allowed]
    most = domain.max_elements
    return [
        shape
        for shape in given
        if len(shape) == _pack_axes(contract, pack, ndim) and (most is None or prod(shape) <= most)
    ]


def _allowed_packs(contract: Contract, domain: Domain, ndim: int) -> bool:
    packs = [name for name in contract.size_names if name.startswith("*")]
    return all(_allowed_pack(contract, domain, pack, ndim) != [] for pack in packs)


def _pack(sizes: Sizes, word: str) -> tuple[int, ...]:
    size = sizes[word.partition("-")[0]]
    assert isinstance(size, tuple)
    return size
