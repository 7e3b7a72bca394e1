"""The first launches of a covering list: lengths, rows and layouts, the cheapest that differ most first."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.strategies.shapes import Wish


@dataclass(frozen=True)
class Launch:
    """A wish for a launch, and the layout of its main tensor: a name, and which of its variants.

    tiny: every row has a few elements, most of them extreme.
    """

    wish: Wish
    layout: str
    turn: int = 0
    tiny: bool = False


LAYOUTS = (
    "contiguous",
    "transposed",
    "step",
    "offset",
    "padded",
    "broadcast",
    "permuted",
    "size1",
    "combined",
)


LAST = 11
"""A spread whose long row axis is the last of 2, 3 or 4: the positions of a sequence, the rows of a plane."""


NDIMS = (2, 3, 4, 2, 3, 2, 4, 2, 3, 2, 1)
"""Axes of the later launches: a 1-D tensor is one row, which shows little."""


def _launch(
    content: int,
    rows: int,
    ndim: int,
    axis: int,
    layout: str,
    spread: int = 0,
    *,
    units: bool = False,
    square: bool = False,
) -> Launch:
    return Launch(Wish(content, rows, ndim, axis, spread=spread, units=units, square=square), layout)


def _schedule() -> tuple[Launch, ...]:
    """The first launches, from many different rows at small cost to the rarer sizes.

    Lengths are block edges, one more or less, and what leaves other rests of 32, of 16 and of 8, as vector loads
    and unrolled loops meet them: 120, 1000, 788 and 4124 leave 24, 8, 20 and 28 of 32.
    """
    first = [
        _launch(17, 24, 2, 0, "contiguous", square=True),
        _launch(1025, 18, 2, 1, "transposed"),
        _launch(128, 20, 3, 2, "padded"),
        _launch(1, 6, 3, 0, "size1", units=True),
        _launch(0, 3, 2, 0, "contiguous"),
        _launch(257, 20, 4, 3, "step", spread=1),
        _launch(5, 0, 2, 1, "contiguous"),
        _launch(1000, 16, 2, 2, "offset"),
        _launch(31, 24, 3, 0, "broadcast", spread=1),
        _launch(788, 1, 1, 1, "step"),
        _launch(64, 24, 4, 4, "permuted"),
        _launch(2049, 8, 2, 0, "combined"),
        _launch(120, 18, 3, 1, "transposed", spread=2),
        _launch(4124, 4, 2, 3, "offset"),
        _launch(1024, 12, 2, 0, "contiguous"),
    ]
    rare = [
        _launch(69_997, 2, 2, 1, "contiguous"),
        _launch(9, 306, 2, 0, "contiguous"),
        _launch(131_072, 1, 2, 1, "step", units=True),
        _launch(5, 999, 2, 1, "transposed", spread=LAST),
    ]
    lengths = (
        *(16, 7, 512, 129, 2, 256, 32, 2048, 65, 248, 200, 15, 3, 60, 516),
        *(1016, 97, 2044, 500, 255, 251, 13, 4096),
    )
    others = [
        _launch(n, 20, NDIMS[place % len(NDIMS)], place, LAYOUTS[(2 * place + 1) % len(LAYOUTS)], place)
        for place, n in enumerate(lengths)
    ]
    squares = [
        _launch(5, 24, 3, 3, "contiguous", square=True),
        _launch(3, 24, 4, 5, "transposed", square=True),
    ]
    beside = [*squares, *others]
    mixed = [launch for pair in zip(rare, beside, strict=False) for launch in pair]
    listed = [*first, *mixed, *beside[len(rare) :]]
    names = [launch.layout for launch in listed]
    found = [
        Launch(
            replace(launch.wish, choice=place, main=place), launch.layout, names[:place].count(launch.layout)
        )
        for place, launch in enumerate(listed)
    ]
    vector = _launch(316, 1, 1, 1, "offset")  # which of few axes an odd offset may lie before
    return (*found[: TURNING - 3], replace(vector, turn=2), *found[TURNING - 3 :])


TURNING = 23
"""Launches that every search has; of those after them a default search reaches the next three."""

SCHEDULE = _schedule()

FOLLOWING = {
    4: replace(_launch(2, 24, 3, 0, "permuted"), tiny=True),
    8: replace(_launch(1, 24, 2, 0, "step"), tiny=True),
    12: replace(_launch(3, 24, 2, 1, "transposed"), tiny=True),
    16: _launch(135_169, 1, 2, 0, "contiguous"),
}
"""Launches by the one that they follow, so that the others keep their turns: of rows of a few elements, for which
kernels have shortcuts, and of one that ends a little beyond 2^17."""


def schedule(seed: int) -> tuple[Launch, ...]:
    """The first launches of a search: another seed, as each format's, goes on with other lengths."""
    always, turning = SCHEDULE[:TURNING], SCHEDULE[TURNING:]
    start = 3 * seed % len(turning)
    return (*always, *turning[start:], *turning[:start])


def with_many_rows(schedule: tuple[Launch, ...]) -> tuple[Launch, ...]:
    """The schedule with three launches of about 2**16 rows: beside the limits of a grid axis and of int16."""
    found = list(schedule)
    for place, rows in ((7, 65_537), (12, 65_535), (17, 65_536)):
        wish = Wish(2, rows, 2, choice=len(schedule) + place)
        found.insert(place, Launch(wish, "contiguous" if place % 2 else "transposed"))
    return tuple(found)
