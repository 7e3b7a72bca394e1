"""Where the rows of a tensor come from: what is to be met, what is ordinary, what integers take turns at."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from harness.case import Grid, Row
from harness.contracts import Contract
from harness.domain import Domain
from harness.strategies.contents import POSITIONS, Demand
from harness.values import SEVERAL, SPECIAL, WHOLE, Family, Pool, pool, specials

DISTINCT = 24
"""Recipes in a tensor; further rows repeat them with other seeds."""

LONG = 300
"""Elements of a row that takes several of the usual blocks; there are few such rows."""

VERY_LONG = 2000
"""Elements of a row that only launches of a few rows have, where one row is to show a loss anywhere."""

TELLING: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = (
    ("offset", (("offset", 1000.0),)),
    ("window", (("ordinary", 0),)),
    ("offset", (("offset", -100.0),)),
    ("scaled", ()),
)
"""What a tensor beside the focus holds first where it is not ordinary: a bias, or a weight, that decides."""

DENSE = "positive"
"""The family whose elements are all of one size and sign."""

HIGHEST = Demand(WHOLE["whole-large"])
"""The demand of integers that are all among the highest of their range."""

UNIFORM = Demand(WHOLE["whole-uniform"])
"""The demand of integers of which each is as likely as any other, none of them planted."""

SHORT = 8
"""Rows of integers up to which counting goes on from row to row."""


@dataclass
class Supply:
    """Where the rows of one tensor come from: its demands, families of each kind, themes of integers."""

    pool: Pool
    by_kind: dict[str, deque[Demand]]
    themes: tuple[Demand, ...] = ()
    special: tuple[Demand, ...] = ()
    queue: deque[Demand] = field(default_factory=deque)

    @staticmethod
    def of(contract: Contract, domain: Domain, name: str, *, whole: bool) -> Supply:
        """The supply of a tensor: integers, if ``whole``, take turns at their own themes."""
        found = pool(contract, domain, name, whole=whole)
        extreme = [family for family in found.every if family.tags & {"special", "range"}]
        calm = [family for family in found.every if not family.tags & {"special", "range"}]
        ordinary = [family for family in calm if "ordinary" in family.tags]
        decisive = [f for f in calm if "decisive" in f.tags and "everywhere" not in f.tags]
        telling: list[Demand] = []
        if not contract.tensors[name].families:
            calm = [family for family in calm if not family.tags & {"ordinary", "decisive"}]
            mixed = _merged(ordinary, decisive)
            known = {family.name: family for family in found.every}
            telling = [Demand(known[key], params=params) for key, params in TELLING if key in known]
        else:
            mixed = [family for family in calm if "cancellation" not in family.tags]
        by_kind = {
            "ordinary": deque(map(Demand, mixed or found.every)),
            "odd": deque([*telling, *map(Demand, calm or mixed or found.every)]),
            "extreme": deque(map(Demand, extreme or calm or mixed or found.every)),
        }
        themes = tuple(_themes(found.every)) if whole else ()
        return Supply(found, by_kind, themes, () if whole else tuple(_special(contract, domain)))

    def everywhere(self, number: int) -> Demand | None:
        """A row that is decisive at all positions at once; factors where the contract lists such, or in turn."""
        families = [family for family in self.pool.every if "everywhere" in family.tags]
        if not families:
            return None
        listed = {family.name for family in self.pool.listed}
        which = number % 2 if not listed else int("decisive-factor" in listed)
        return Demand(families[which % len(families)], "last")

    @property
    def dense(self) -> list[Family]:
        """The family without zeros or small numbers, if the tensor has it: no factor hides another."""
        return [family for family in self.pool.every if family.name == DENSE][:1]

    def labels(
        self,
        number: int,
        place: int,
        count: int,
        cells: Grid,
        seed: Callable[[], int],
        theme: Demand | None = None,
    ) -> list[Row]:
        """The rows of an integer tensor beside floating-point ones: all of one theme, that given or in turn.

        In every fourth launch some hold a planted value, as an ignored label, so that it meets all values of
        the scalars and all kinds of rows soon.
        """
        planted = [theme for theme in self.themes if theme.family.name == "whole-planted"]
        turning = planted[:1] if planted and number % 4 == 1 else self.themes
        demand = theme or turning[(number + place) % len(turning)]
        params = dict(demand.params)
        rows = []
        for at in range(min(max(count, 1), DISTINCT)):
            if "start" in params and cells.length <= SHORT:
                params["start"] = at * cells.length
            rows.append(Row(demand.family.name, seed(), tuple(params.items())))
        return rows


def mixture(given: Pool, number: int, count: int, wild: int, n: int) -> list[Family]:
    """``count`` families for the vectors, of n elements, of a row; the listed ones twice as often.

    wild: how many are special or extreme, of one family, and half of many of one with settings that such
    vectors are long enough for; that one comes first. One NaN, or one huge vector, is all that is left of a
    mean over them; many infinities, or many vectors that have a result each, show more.
    """
    usable = [*given.listed, *given.every[:4], *given.listed, *given.every[4:]]
    calm = [f for f in usable if not f.tags & {"special", "range", "cancellation", "vectors"}]
    extreme = [f for f in given.listed if "special" in f.tags]
    extreme = extreme or [f for f in given.every if f.tags & {"special", "range"}]
    settled = [f for f in given.listed if n >= SEVERAL and any(s.least > 1 for s in f.settings)]
    found = [calm[(number * count + at) % len(calm)] for at in range(count)] if calm else []
    for at in range(min(wild, len(found)) if extreme else 0):
        source = settled if settled and at % 2 == 0 else extreme
        found[(number + 2 * at) % count] = source[number % len(source)]
    return found


def _merged(many: list[Family], few: list[Family]) -> list[Family]:
    """Two of the one, then one of the other, over again to the end of both."""
    found: list[Family] = []
    for at in range(max(-(-len(many) // 2), len(few))):
        found += [*many[2 * at : 2 * at + 2], *few[at : at + 1]]
    return found


def _themes(families: Iterable[Family]) -> Iterator[Demand]:
    """Each family of integers with each value of its first parameter that is no position."""
    for family in families:
        free = [param for param in family.params if not param.position]
        for value in free[0].values if free else ():
            yield Demand(family, params=((free[0].name, value),))
        if not free:
            yield Demand(family)


def demands(contract: Contract, domain: Domain, given: Pool, special: bool) -> deque[Demand]:
    """Everything to be met in one round, each kind spread evenly over it; most listed families come twice.

    The settings of listed families come first, all that the contract itself lists soon. special: the special
    rows are among it.
    """
    listed, every = given.listed, given.every
    decisive = [family for family in listed if "decisive" in family.tags]
    decisive = decisive or [family for family in every if "decisive" in family.tags]
    kinds = [
        [Demand(family) for family in listed],
        [*_special(contract, domain)] if special and "whole" not in every[0].tags else [],
        [Demand(family, where) for where in POSITIONS for family in decisive],
        [demand for family in every if "special" in family.tags for demand in _placed(family)],
        [Demand(family) for family in every if family not in listed and "special" not in family.tags],
        [Demand(family) for family in listed if "special" not in family.tags],
    ]
    spread = [
        (share * (place + (0.5 if kind < len(kinds) - 1 else 1.0)) / len(each), kind, place, demand)
        for kind, (each, share) in enumerate(zip(kinds, (0.7, 0.7, 1, 1, 1, 1), strict=True))
        for place, demand in enumerate(each)
    ]
    settings = [Demand(family, s.where, s.least, s.params) for family in listed for s in family.settings]
    return deque([*settings, *(demand for *_, demand in sorted(spread, key=lambda item: item[:3]))])


def _special(contract: Contract, domain: Domain) -> Iterator[Demand]:
    """The special rows that a domain admits, each long enough to show its whole pattern."""
    rows = {SPECIAL + row.name: row for row in contract.special}
    for family in specials(contract, domain):
        row = rows[family.name]
        yield Demand(family, least=max(1, len(row.lead) + len(row.rest)))


def _placed(family: Family) -> Iterator[Demand]:
    """A family of inf or NaN where it matters: at both ends, in the middle, in the first of several blocks."""
    if not family.positions:
        yield Demand(family)
        return
    for where in ("first", "last", "middle"):
        yield Demand(family, where)
    if not family.settings:
        yield Demand(family, "first", LONG)
