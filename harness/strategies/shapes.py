"""Sizes and scalars of a launch: a wish for them, fitted to what a contract and a domain admit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness import shapes
from harness.contracts import AxisLabel, Contract
from harness.domain import Domain
from harness.strategies.cost import Budget, Fitted, afford, length, tensor_slots
from harness.strategies.options import (
    dimensions,
    lengths_of,
    may_be_empty,
    scalar_values,
    turn,
    unit_sizes,
)

EDGES = tuple(2**k + d for k in range(4, 11) for d in (0, 1, -1))
"""Lengths at and beside block edges, 15 to 1025."""

PRIMES = (2, 3, 5, 7, 11, 13, 23, 37, 97, 251, 509, 769, 1021)

SMALL = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12)

FEW_BESIDE = 256
"""Rows from which the other row axes have length 2, so that the long one has more than a block of 128."""

MANY_ROWS = 1000
"""Rows beyond which a launch has them all along one axis."""


@dataclass(frozen=True)
class Wish:
    """What a launch should look like; :func:`fit` comes as near as it may.

    content: length of the main size that is no row axis, or of one where all are; rows: situations; ndim: axes of tensors with a
    pack; axis: which of the admissible values the Dim scalars take, counted on past the end; choice: whose
    turn it is among the values of scalars and of sizes with allowed values; spread: how rows are divided
    among the row axes; spread and main: which content size is the main one; units: at least one row axis has
    length 1; tiles: at least two row axes, where there are two, are longer than usual blocks, and beside a
    short content longer than the largest ones; largest: where row axes have allowed values, which of the sizes
    that have them takes its largest, 1 the row axis that may be longest, 2 the longest of the others, 0 none;
    square: all sizes that are free to be so have one length, as
    far as the budget admits it; beyond: 0, or by how much the main size is longer than the longest row axis that
    has a name, as the keys of an attention over earlier ones; plain: every Choice scalar takes its first value.
    """

    content: int
    rows: int = 1
    ndim: int = 2
    axis: int = 0
    choice: int = 0
    spread: int = 0
    units: bool = False
    main: int = 0
    tiles: bool = False
    largest: int = 0
    square: bool = False
    beyond: int = 0
    plain: bool = False

    @property
    def large_tiles(self) -> bool:
        """Whether there are enough rows, each short, for two long row axes."""
        return self.tiles and self.content <= SHALLOW and self.rows >= MANY_TILES


def fit(contract: Contract, domain: Domain, budget: Budget, wish: Wish) -> Fitted:
    """The admissible sizes and scalars nearest to a wish.

    Raises HarnessError if the domain admits none.
    """
    ndims = dimensions(contract, domain)
    ndim = min(ndims, key=lambda n: (abs(n - wish.ndim), n))
    sizes = unit_sizes(contract, domain, ndim, wish.choice)
    scalars = scalar_values(contract, domain, sizes, wish.axis, 0 if wish.plain else wish.choice)
    whole = contract.at(sizes)
    by_tensor = tensor_slots(whole, sizes, scalars)
    labels = [axis.label for axis in whole.row_labels(sizes, scalars)]
    rows = list(dict.fromkeys(slot for label in labels for slot in shapes.slots(label, sizes)))
    every = list(dict.fromkeys([*rows, *(slot for own in by_tensor.values() for slot in own)]))

    # A named size takes one of the values the domain allows; a pack with allowed shapes has its lengths.
    counts = {(count, 0) for count in whole.counts}
    fixed = {s for s in every if s in counts or (s[0].startswith("*") and domain.allowed_values(s[0][1:]))}
    lengths = {slot: length(sizes, slot) for slot in every if slot in fixed}
    kept = _largest(domain, every, rows, wish.largest)
    if wish.largest == 1 and kept:
        wish = replace(wish, content=LONG_BESIDE[wish.choice // 6 % len(LONG_BESIDE)])
    for place, slot in enumerate(every):
        options = lengths_of(domain, slot)
        if options is not None and slot not in fixed:
            lengths[slot] = options[turn(wish.choice, len(scalars) + place, len(options))]
            lengths[slot] = max(options) if slot in kept else lengths[slot]
    free = [slot for slot in every if slot not in lengths]
    large = wish.large_tiles and sum(slot in rows for slot in free) > 1
    single = [slot for slot in free if slot in rows] if len(rows) == len(every) else []
    main: tuple[AxisLabel, ...] = ()
    if wish.square and free:
        lengths |= dict.fromkeys(free, _side(wish.content, budget, len(free)))
    elif single:
        # Every element is a situation: one axis is as long as a row would be, the others make the rows.
        main = (single[(wish.spread + wish.main) % len(single)],)
        lengths[main[0]] = _wished(whole, by_tensor, main[0], wish.content)
        lengths |= _row_lengths(wish, [slot for slot in rows if slot not in main], lengths)
        rows = [slot for slot in rows if slot not in main]
        budget = replace(budget, elements=budget.single)
    else:
        lengths |= _row_lengths(wish, rows, lengths)
        left = [slot for slot in free if slot not in lengths]
        named = [lengths[slot] for slot in rows if slot in lengths and not slot[0].startswith("*")]
        if wish.beyond and max(named, default=0) > 1:
            wish = replace(wish, content=max(named) + wish.beyond)
        content, main = _content_lengths(wish, left, by_tensor, whole, alone=not rows)
        lengths |= content
    for slot in lengths:
        if not may_be_empty(whole, slot, sizes, scalars) and slot not in fixed:
            lengths[slot] = max(1, lengths[slot])
    fitted = Fitted(shapes.resized(sizes, lengths), scalars, (*main, *kept))
    long = wish.content > budget.elements or wish.rows > MANY_ROWS or large
    return afford(contract, domain, budget, fitted, rows, fixed, long=long)


def _largest(
    domain: Domain, every: Sequence[AxisLabel], rows: Sequence[AxisLabel], which: int
) -> tuple[AxisLabel, ...]:
    """The size with allowed values, of a row axis (``which`` 1) or not (2), that may be longest; none for 0."""
    options = {slot: max(lengths_of(domain, slot) or (0,)) for slot in every}
    if which == 0 or not any(options[slot] for slot in rows):
        return ()
    among = [slot for slot in every if options[slot] and (slot in rows) == (which == 1)]
    return (max(among, key=lambda slot: options[slot]),) if among else ()


def _side(content: int, budget: Budget, axes: int) -> int:
    """The wished length, or the largest of which so many axes fit the budget."""
    return min(content, max(2, int(min(budget.single, budget.products) ** (1 / axes))))


def _row_lengths(wish: Wish, rows: Sequence[AxisLabel], given: dict[AxisLabel, int]) -> dict[AxisLabel, int]:
    """The wished number of situations over the row axes that have no length yet."""
    free = [slot for slot in rows if slot not in given]
    others = 1
    for slot in rows:
        others *= max(1, given.get(slot, 1))
    count = wish.rows and max(1, wish.rows // others)
    if wish.tiles and len(free) > 1:
        return dict(zip(free, _tiles(len(free), wish), strict=True))
    return dict(zip(free, _divide(count, len(free), wish), strict=True))


TILES = ((33, 65), (17, 129), (65, 31), (130, 16))
"""Lengths of two row axes that take several tiles of usual blocks, the last of them not full."""

LONG_BESIDE = (263, 200, 137)
"""Contents beside the largest value of a row axis."""

SHALLOW = 9
"""Content beside which two row axes can be long at once."""

MANY_TILES = 200
"""Rows from which a launch may be one of large tiles: few launches have so many."""

LARGE_TILES = (257, 263)
"""Lengths of two row axes that both take several tiles of 128, and more than 2**16 elements."""


def _tiles(axes: int, wish: Wish) -> list[int]:
    """Two long row axes, the last two in most launches, and short ones."""
    if wish.content == DEEP:
        return [*[1] * (axes - 2), *DEEP_TILES]
    if wish.large_tiles:
        return [*[1] * (axes - 2), *LARGE_TILES]
    lengths = [(1, 2)[(wish.spread + wish.choice) % 2]] * axes
    last = axes - 1 if wish.spread % 3 else wish.spread % axes
    lengths[last], lengths[last - 1] = TILES[wish.choice % len(TILES)]
    return lengths


def _divide(rows: int, axes: int, wish: Wish) -> list[int]:
    """``rows`` situations over the row axes: the product is ``rows`` or a little less."""
    if axes == 0:
        return []
    lengths = [1] * axes
    main = wish.spread % axes
    if rows == 0:
        lengths = [3] * axes
        lengths[main] = 0
        return lengths
    rest = rows
    unit = (main + 1) % axes if wish.units and axes > 1 else None
    for axis in range(axes):
        if axis not in (main, unit) and 4 <= rest <= MANY_ROWS:
            lengths[axis] = (2, 3)[(axis + wish.spread) % 2] if rest < FEW_BESIDE else 2
            rest //= lengths[axis]
    lengths[main] = 1 if wish.units and axes == 1 else rest
    return lengths


BEYOND = (19, 3, 35, 1, 50)
"""Differences of two sizes: beside the rests of usual blocks."""

DEEP, DEEP_TILES = 67, (72, 69)
"""Lengths of a product all of whose sizes take more than a block of 64, of which the last holds several results."""

BESIDE = (17, 3, 0, 33, 1, 64, 5, 130, 8)
"""Lengths, beside the main one, of a size that no tensor has together with it; 0 stands for the same."""


def _content_lengths(
    wish: Wish,
    slots: Sequence[AxisLabel],
    by_tensor: dict[str, list[AxisLabel]],
    contract: Contract,
    *,
    alone: bool,
) -> tuple[dict[AxisLabel, int], tuple[AxisLabel, ...]]:
    """The content length on the main size, shorter ones on the others; and which sizes are the main one.

    Sizes in the same tensor as the main one are short. The lengths of a list count as one size, unequal ones.
    """
    names = list(dict.fromkeys(slot if not slot[0].endswith("@") else (slot[0], 0) for slot in slots))
    if not names:
        return {}, ()
    main = names[(wish.spread + wish.main) % len(names)]
    listed = main[0].endswith("@")
    mine = [slot for slot in slots if slot == main or (listed and slot[0] == main[0])]
    near = {slot for own in by_tensor.values() if set(mine) & set(own) for slot in own}
    factors = {factor for name in by_tensor for factor in _factors(contract, name)}
    # Of a launch that is one situation the tensor's other axes make the rows.
    others = [slot for slot in slots if slot in near and slot not in mine and not slot[0].endswith("@")]
    beside = dict(zip(others, _divide(wish.rows, len(others), wish), strict=True)) if alone else {}
    found: dict[AxisLabel, int] = {}
    for place, slot in enumerate(slots):
        if slot in mine:
            found[slot] = _wished(contract, by_tensor, slot, wish.content)
        elif slot in beside and slot not in factors:
            found[slot] = beside[slot]
        elif slot in near or slot in factors or wish.content == 1:
            found[slot] = 1 if wish.content == 1 else (2, 3, 1)[(place + wish.spread) % 3]
        else:
            found[slot] = BESIDE[(wish.choice + place) % len(BESIDE)] or wish.content or 7
        if slot[0].endswith("@"):
            found[slot] = _ragged(found[slot], slot[1], wish.choice)
    return found, tuple(mine)


def _ragged(length: int, rank: int, number: int) -> int:
    """The length of one tensor of a list: all equal in every third launch, else unequal, 0 among them."""
    if number % 3 == 0 or length == 0:
        return length
    return (length, 0, length + 1, 1, length // 2 + 1)[(rank + number) % 5]


def _wished(contract: Contract, by_tensor: dict[str, list[AxisLabel]], slot: AxisLabel, content: int) -> int:
    """The number for a size so that its axis has the wished length, where the axis is a multiple of it."""
    for name, own in by_tensor.items():
        for word in contract.tensors[name].shape.split() if slot in own else ():
            if slot[0] in _product(word):
                return -(-content // shapes.coefficient((word, 0)))
    return content


def _factors(contract: Contract, name: str) -> list[AxisLabel]:
    """The sizes that are multiplied with others in the axes of a tensor."""
    words = [_product(word) for word in contract.tensors[name].shape.split()]
    return [(factor, 0) for word in words if len([f for f in word if not f.isdigit()]) > 1 for factor in word]


def _product(word: str) -> list[str]:
    return [] if word.startswith("*") else word.partition("/")[0].split("*")
