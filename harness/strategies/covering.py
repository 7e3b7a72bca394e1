"""A deterministic list of cases that meets everything a search must have seen, the most telling first."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import replace

from harness.admission import narrowed
from harness.case import Case, Grid, Recipe, Row
from harness.contracts import Choice, Contract
from harness.domain import Domain
from harness.formats import Format, is_integer
from harness.layouts import Layout
from harness.strategies import contents, shapes
from harness.strategies.contents import Demand
from harness.strategies.cost import Budget, least, products
from harness.strategies.schedule import FOLLOWING, LAYOUTS, Launch, schedule, with_many_rows
from harness.strategies.shapes import Wish
from harness.strategies.supply import DISTINCT, HIGHEST, LONG, UNIFORM, VERY_LONG, Supply, demands, mixture
from harness.values import SEVERAL, SPECIAL, Family, Stream, max_abs_params

FIRST_FOLLOWING = 2000
"""The number of a launch that follows another one, less that one's."""

INT16 = 1 << 15
"""Lengths from which an index of 16 bits overflows."""

FIRST_SMALL = 3000
"""The first number of launches of short axes."""

TINY = 3
"""Elements up to which a row is a tiny one."""

MODERATE = (33, 65, 100, 64, 129, 127, 128)
"""Lengths of the main size in most launches of a product of two tensors, both sides of which cost."""


def cover(
    contract: Contract,
    fmt: Format | str,
    domain: Domain | None = None,
    seed: int = 0,
    *,
    many_rows: bool = False,
) -> Iterator[Case]:
    """An endless, deterministic sequence of cases that covers the inputs of a contract.

    The first 200 situations meet, as far as contract, format and domain admit them: every family and special
    row that the contract lists, every class of decisive positions, every generic family, the layouts
    transposed, step, offset, padded, broadcast and size1, negative and positive axes, 1 to 4 dimensions, axes
    of length 0, 1, block edges and primes. Then come the other edges, many short rows and a few long ones,
    and after them an unending mix. Extreme and special rows go to one tensor of a launch; the others hold
    ordinary data but for some launches. many_rows: for fast devices, also 65,535 to 65,537 rows.

    fmt: a format, or an integer dtype that the contract names. Raises HarnessError if the domain admits no
    case.
    """
    given = narrowed(contract, domain or Domain())
    return Cover(contract, contents.tested_format(fmt), given, seed).cases(many_rows)


def small(
    contract: Contract, fmt: Format | str, domain: Domain | None = None, seed: int = 0
) -> Iterator[Case]:
    """An endless, deterministic sequence of cheap cases: short axes, any scalars, layouts and absent tensors together.

    What is wrong for one combination only, as the last axis of a padded plane or a window beside one query, is met
    where a launch costs next to nothing. Raises HarnessError if the domain admits no case.
    """
    given = narrowed(contract, domain or Domain())
    return Cover(contract, contents.tested_format(fmt), given, seed).small()


class Cover:
    """The state of one covering sequence: whose turn it is, and what positions and values families have met."""

    def __init__(self, contract: Contract, fmt: Format | str, domain: Domain, seed: int) -> None:
        self.contract, self.fmt, self.domain, self.seed = contract, fmt, domain, seed
        self.budget = Budget.of(fmt)
        self.product = products(contract, shapes.fit(contract, domain, self.budget, Wish(2))) > 0
        self.combine = sum(isinstance(spec, Choice) for spec in contract.scalars.values()) > 1
        self.formats = contents.formats(contract, domain, fmt)
        self.numbers = itertools.count()
        self.mixtures = (itertools.count(seed), itertools.count())
        self.met: defaultdict[str, set[int]] = defaultdict(set)
        self.served: Counter[str] = Counter()
        self.tensors = {
            name: Supply.of(contract, domain, name, whole=is_integer(dtype))
            for name, dtype in self.formats.items()
        }
        self.first = next(iter(contract.tensors))
        floats = [name for name, dtype in self.formats.items() if not is_integer(dtype)]
        self.main = floats or list(self.formats)
        shared = [name for name in self.main if not contract.tensors[name].families]
        queue = (
            demands(contract, domain, self.tensors[shared[0]].pool, self.first in shared)
            if shared
            else deque()
        )
        for name in self.main:
            own = demands(contract, domain, self.tensors[name].pool, name == self.first)
            self.tensors[name].queue = queue if name in shared else own

    def cases(self, many_rows: bool) -> Iterator[Case]:
        first = schedule(self.seed)
        first = with_many_rows(first) if many_rows else first
        for number in itertools.count():
            launch = first[number] if number < len(first) else self._mixed(number)
            case = self.case(number, launch)
            if case is not None:
                yield case
            if number in FOLLOWING:
                following = self.case(FIRST_FOLLOWING + number, FOLLOWING[number])
                if following is not None:
                    yield following

    def small(self) -> Iterator[Case]:
        """See the function of this name."""
        for place in itertools.count():
            # Numbers whose launches have no tiles, no largest sizes and no plain scalars.
            number = FIRST_SMALL + 12 * (place // 5) + (0, 3, 4, 6, 9)[place % 5]
            case = self.case(number, self._small_launch(number))
            if case is not None:
                yield case

    def case(self, number: int, launch: Launch) -> Case | None:
        """The case of one launch; None if it was to have an empty axis and the contract admits none."""
        wish = self._affordable(number, launch.wish)
        fitted = shapes.fit(self.contract, self.domain, self.budget, wish)
        if 0 in (wish.content, wish.rows) and least(self.contract, fitted):
            return None
        whole = self.contract.at(fitted.sizes)
        grids = {name: contents.grid_of(whole, fitted, name) for name in whole.tensors}
        focus = self._focus(number, grids)
        odd = self._odd(number, [name for name in grids if name not in focus])
        tensors: dict[str, Recipe | None] = {}
        same = None
        for place, (name, cells) in enumerate(grids.items()):
            base = name.partition("[")[0]
            if self._absent(number, base):
                tensors[name] = None
                continue
            domain = contents.placement(whole, self.domain, name)
            layout = self._layout(domain, launch, number, place, name == focus[0], cells)
            distinct = contents.distinct_rows(layout, cells)
            if base not in self.main:
                theme = HIGHEST if launch.wish.content > INT16 else None
                theme = UNIFORM if launch.tiny else theme
                rows = self.tensors[base].labels(number, place, distinct, cells, self._seed, theme)
            elif name in focus and contents.visible(layout, cells) == cells.length:
                alone = not whole.row_labels(fitted.sizes, fitted.scalars)
                drawn = same or (self._mixture(number, cells, base) if alone else None)
                rows = drawn or self._demanded(layout, cells, base, launch)
                same = [replace(row, seed=self._seed()) for row in rows] if len(focus) > 1 else None
            else:
                kind = "ordinary" if name != odd else "extreme" if number % 3 == 0 else "odd"
                rows = self._companions(layout, cells, base, kind, tiny=launch.tiny)
            tensors[name] = contents.recipe(self.formats[base], layout, cells, rows)
        return Case(fitted.sizes, fitted.scalars, tensors)

    def _affordable(self, number: int, wish: Wish) -> Wish:
        """The wish with as many rows as the budget allows, and only now and then a row longer than it.

        Where two tensors meet in a product, most launches have moderate lengths on both sides. Every sixth
        launch, a long one at first, and one with the largest sizes have the first value of all choices, where there
        are several; others differ from seed to seed.
        """
        content = wish.content
        if self.budget.elements < 1000 and content > self.budget.elements and number % 6 != 1:
            content = (257, 513, 129, 511, 251, 33)[number % 6]
        if self.product and content > MODERATE[-1] and number % 6 != 1:
            content = MODERATE[number % len(MODERATE)]
        if self.product and content > VERY_LONG and content % 1024 == 0:
            content -= 1  # the only one so long: no multiple of any block
        long = wish.rows > shapes.MANY_ROWS or content > self.budget.elements
        most = self.budget.long if long else self.budget.elements
        rows = min(wish.rows, max(1, most // max(1, content)))
        tiles = self.product and number % 3 == 2 and 1 < wish.rows <= shapes.MANY_ROWS
        wide = self.budget.elements >= 1000
        deep = tiles and wide and number % 12 == 2
        content = shapes.DEEP if deep else content
        usual = wide and 1 < content <= LONG and 1 < rows <= DISTINCT
        beyond = shapes.BEYOND[number // 4 % len(shapes.BEYOND)] if usual and number % 12 in (8, 10) else 0
        choice, main = wish.choice + 5 * self.seed, wish.main + self.seed
        largest = (1 if number % 6 == 5 else 2 if number % 12 == 8 else 0) if self.product else 0
        largest, beyond = (0, 0) if deep else (largest, beyond)
        wish = replace(
            wish,
            choice=choice,
            main=main,
            plain=self.combine and (number % 6 == 1 or number % 24 == 11),
            largest=largest,
            beyond=beyond,
        )
        return replace(wish, content=content, rows=rows, tiles=tiles)

    def _focus(self, number: int, grids: dict[str, Grid]) -> list[str]:
        """The tensors that take the demanded rows: the first, or in turn another that has row axes.

        Of a list, all tensors or one of them, in turn.
        """
        bases = list(dict.fromkeys(name.partition("[")[0] for name in grids))
        main = [base for base in bases if base in self.main]
        by_base = {base: [name for name in grids if name.partition("[")[0] == base] for base in main}
        wide = [base for base in main if not self.contract.rows or grids[by_base[base][0]].row_axes]
        wide = wide or main[:1]
        base = wide[(number // 2 + 1) % len(wide)] if len(wide) > 1 and number % 2 else wide[0]
        names = by_base[base]
        return names if number % 4 < 2 else [names[number // 4 % len(names)]]

    def _odd(self, number: int, others: list[str]) -> str | None:
        """The tensor beside the focus that holds no ordinary data: one in every fifth launch."""
        floating = [name for name in others if name.partition("[")[0] in self.main]
        return floating[number // 5 % len(floating)] if floating and number % 5 == 3 else None

    def _absent(self, number: int, name: str) -> bool:
        """Whether an optional tensor is left out: in every other launch, all combinations in turn."""
        optional = [key for key, spec in self.contract.tensors.items() if spec.optional]
        if name not in optional or number % 2 == 0:
            return False
        return bool((number // 2 + 1) >> optional.index(name) & 1)

    def _layout(
        self, domain: Domain, launch: Launch, number: int, place: int, focus: bool, cells: Grid
    ) -> Layout:
        if self.product and launch.wish.square and number > 0:
            # What a kernel would tell apart by lengths it can tell by strides alone: a bias along either axis.
            name, turn = ("broadcast", number // 2 + self.seed) if focus else ("transposed", number)
            return contents.layout(domain, name, cells.shape, turn, cells.row_axes)
        if focus:
            rows = cells.row_axes if launch.turn % 2 == 0 else ()
            return contents.layout(domain, launch.layout, cells.shape, launch.turn + self.seed, rows)
        turn = number + 3 * place
        name = ("contiguous", "step", "contiguous", "offset", "transposed", "broadcast", "padded")[turn % 7]
        return contents.layout(domain, name, cells.shape, number, cells.row_axes)

    def _demanded(self, layout: Layout, cells: Grid, name: str, launch: Launch) -> list[Row]:
        """The rows of a tensor, as their turn comes; every third long one decisive at an edge.

        Where every element is a row, there are as many families as rows were wished for, and only the mildest
        in a launch of a few elements: nothing in it is to be clamped, masked or saturated.
        """
        wish, every = launch.wish, self.tensors[name].pool.every
        simple = Row(every[0].name, self._seed(), max_abs_params(self.domain))
        if not cells.rows:
            return [simple]
        rows = []
        count = min(contents.distinct_rows(layout, cells), DISTINCT)
        if not cells.content_axes:
            mild = [family.name for family in every if "mild" in family.tags]
            if wish.units and wish.content == 1 and mild:
                return [replace(simple, family=mild[0], start=0)]
            count = min(count, max(1, wish.rows))
        n = contents.extent(layout, cells, count)
        if cells.content_axes and n <= TINY and (launch.tiny or next(self.numbers) % 2):
            return [self._tiny(cells, name, n, number) for number in range(count)]
        for number in range(count):
            # Of a long sum of products a few terms are less than its error, but for such as are nearly all of it.
            # Of two that are each alone in their launch, the one that ends in no full block shows a loss anywhere.
            several = count > 1 or self.product or n % 2 == 1
            leads = number == 0 and (several if n > VERY_LONG else wish.rows == 1 and n > LONG)
            row = self._everywhere(cells, name, n) if leads and cells.content_axes else None
            row = row or self._take(cells, name, n, at_edges=n > LONG and number % 3 == 1)
            row = row or self._take(cells, name, n)
            rows.append(row or replace(simple, seed=self._seed()))
        return rows

    def _tiny(self, cells: Grid, name: str, n: int, number: int) -> Row:
        """A row of few elements, for which kernels have shortcuts: all its elements are extreme in most rows.

        Nothing is taken off the demands, most of which such a row does not meet.
        """
        given = self.tensors[name]
        edges = [family for family in given.pool.every if "edges" in family.tags]
        fitting = [demand for demand in given.special if name == self.first and n >= demand.least]
        if number % 4 < 3 and edges:
            values = edges[0].params[0].values
            self.served[edges[0].name] += 1
            demand = Demand(edges[0], params=(("first", values[self.served[edges[0].name] % len(values)]),))
        elif number % 12 == 3 and fitting:
            demand = fitting[number // 12 % len(fitting)]
        else:
            queue = given.by_kind["ordinary" if number % 12 == 11 else "extreme"]
            demand = queue[0]
            queue.rotate(-1)
        row = demand.row(self._seed(), cells, self.domain, next(self.numbers), n=n)
        return row or Row(demand.family.name, self._seed(), max_abs_params(self.domain))

    def _mixture(self, number: int, cells: Grid, name: str) -> list[Row] | None:
        """In most launches that are one situation: vectors of a family each, many or one of them wild."""
        inner = cells.inner[number % len(cells.inner)] if cells.inner else 0
        several = inner >= SEVERAL
        if not inner or (number % 3 == 0 and not several):
            return None
        turn, mode = divmod(next(self.mixtures[several]), 3)
        families = mixture(self.tensors[name].pool, turn, DISTINCT, (1, 0, DISTINCT // 2)[mode], inner)
        return [contents.mixed(families, self._seed(), inner, cells, self.domain)] if families else None

    def _everywhere(self, cells: Grid, name: str, n: int) -> Row | None:
        demand = self.tensors[name].everywhere(self.seed)
        return None if demand is None else demand.row(self._seed(), cells, self.domain, n=n)

    def _take(self, cells: Grid, name: str, n: int, *, at_edges: bool = False) -> Row | None:
        """The first demand that a row can meet; it goes to the end of the queue."""
        queue = self.tensors[name].queue
        for place, demand in enumerate(queue):
            family = demand.family
            if family.name.startswith(SPECIAL) and name != self.first:
                continue
            if at_edges and demand.where not in ("edge", "before-edge"):
                continue
            met = self.met[family.name]
            row = demand.row(self._seed(), cells, self.domain, next(self.numbers), met, n)
            if row is not None:
                del queue[place]
                queue.append(demand)
                met.update(int(at) for key, at in row.params if key in family.positions)
                return self._in_turn(row, family)
        return None

    def _in_turn(self, row: Row, family: Family) -> Row:
        """The row with the next value of its family's first parameter, where nothing has set that one."""
        free = [param for param in family.params if not (param.position or param.inner)]
        if not free or free[0].name in dict(row.params):
            return row
        number = self.served[family.name]
        self.served[family.name] += 1
        value = free[0].values[number % len(free[0].values)]
        return replace(row, params=((free[0].name, value), *row.params))

    def _companions(
        self, layout: Layout, cells: Grid, name: str, kind: str, *, tiny: bool = False
    ) -> list[Row]:
        """Rows for a tensor beside the focus, of families of one kind in turn; every other one extreme if ``tiny``.

        Very long rows of integers begin with one that is decisive everywhere, as the focus does. One row alone is
        no flat one: it would not show which of its elements were read; and a dense one beside very long rows.
        """
        rows = []
        queue = self.tensors[name].by_kind[kind]
        count = min(max(contents.distinct_rows(layout, cells), 1), 6)
        n = contents.extent(layout, cells, count)
        whole = "whole" in self.tensors[name].pool.every[0].tags
        if whole and n > VERY_LONG and (lead := self._everywhere(cells, name, n)):
            rows.append(lead)
        if count == 1 and cells.length > 1:
            queue.rotate(
                -next((at for at, demand in enumerate(queue) if "flat" not in demand.family.tags), 0)
            )
        if count == 1 and n > VERY_LONG and self.product and self.tensors[self.first].everywhere(0):
            rows += [Row(f.name, self._seed(), max_abs_params(self.domain)) for f in self.tensors[name].dense]
        for at in range(count - len(rows)):
            if tiny and at % 2:
                rows.append(self._tiny(cells, name, n, at // 2))
                continue
            row = queue[0].row(self._seed(), cells, self.domain, next(self.numbers), n=n)
            rows.append(row or Row(queue[0].family.name, self._seed(), max_abs_params(self.domain)))
            queue.rotate(-1)
        return rows

    def _seed(self) -> int:
        return Stream(self.seed).number(next(self.numbers)) >> 44

    def _small_launch(self, number: int) -> Launch:
        """A launch of short axes, all of its choices at random."""
        s = Stream(Stream(self.seed).number(number) ^ number)
        wish = Wish(
            s.choice((2, 3, 4, 5, 7, 8, 9, 1), 1),
            rows=s.choice((6, 2, 4, 9, 12, 1), 3),
            ndim=s.integer(1, 4, 4),
            axis=s.integer(0, 11, 5),
            choice=s.integer(0, 1 << 20, 10),
            spread=s.integer(0, 11, 6),
            units=s.integer(0, 2, 7) == 0,
            main=s.integer(0, 11, 11),
            square=s.integer(0, 4, 12) == 0,
        )
        # What is plainly wrong is told of a plain launch.
        name = "contiguous" if number < FIRST_SMALL + 6 else s.choice(LAYOUTS, 8)
        return Launch(wish, name, s.integer(0, 1 << 20, 9))

    def _mixed(self, number: int) -> Launch:
        """One launch of the unending mix."""
        s = Stream(Stream(self.seed).number(number) ^ number)
        size_class = s.choice((shapes.SMALL, shapes.EDGES, shapes.PRIMES, range(13, 600), (0, 1)), 1)
        content = size_class[s.number(2) % len(size_class)]
        wish = Wish(
            content,
            rows=s.choice((24, 24, 16, 7, 1, 0 if number % 5 == 0 else 12), 3),
            ndim=s.integer(1, 4, 4),
            axis=s.integer(0, 11, 5),
            choice=number,
            spread=s.integer(0, 11, 6),
            units=s.integer(0, 4, 7) == 0,
            main=number,
        )
        return Launch(wish, s.choice(LAYOUTS, 8), s.integer(0, 11, 9))
