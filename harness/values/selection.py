"""The families that a contract and a domain admit: generic ones, the contract's own, its special rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.contracts import Contract, SpecialRow
from harness.domain import Domain
from harness.errors import HarnessError, nearest
from harness.formats import Format, number_of, round_to
from harness.values.counter import Floats, Stream, child
from harness.values.family import INNER, MAX_ABS, Family, typical_positions
from harness.values.generic import FAMILIES
from harness.values.whole import WHOLE

SPECIAL = "special:"
"""Before the name of a special row: the name of its family."""


def special_family(row: SpecialRow) -> Family:
    """A special row as a family: ``lead``, then ``rest`` over and over (zeros if there is no ``rest``)."""
    lead = np.array([number_of(text) for text in row.lead])
    rest = np.array([number_of(text) for text in row.rest] or [0.0])

    def make(stream: Stream, n: int, fmt: Format) -> Floats:
        return np.concatenate([lead, np.resize(rest, max(n - len(lead), 0))])[:n]

    finite = bool(np.isfinite(lead).all() and np.isfinite(rest).all())
    return Family(SPECIAL + row.name, make, tags=frozenset({"structured" if finite else "special"}))


def special_applies(row: SpecialRow, n: int) -> bool:
    """Whether a row of n elements shows the whole pattern, so that its answer holds."""
    return n >= max(1, len(row.lead) + len(row.rest))


SEVERAL = 257
"""Elements of a vector that takes several blocks, so that settings of long rows show something in it."""

EACH = "each:"
"""Before the names, joined by |, of families that fill the vectors of one row in turn."""


def in_turn(families: Sequence[Family]) -> Family:
    """Families that take turns at the vectors of a row: for tensors that are one row, but whose rows differ.

    Every vector has a seed of its own; a position lies where one of the vector is decisive.
    """

    def make(stream: Stream, n: int, fmt: Format, inner: float) -> Floats:
        size = max(1, int(inner))
        parts = []
        for number in range(-(-n // size)):
            family, own = families[number % len(families)], Stream(child(stream.seed, number + 1))
            given = dict.fromkeys(family.inner, INNER.values[0])
            given |= dict.fromkeys(family.positions, own.choice(typical_positions(size), 950))
            for setting in family.settings:
                edges = tuple(2**k - 1 for k in range(7, size.bit_length()))
                if min(setting.least, SEVERAL) <= size and edges:
                    given |= dict.fromkeys(family.positions, own.choice(edges, 951)) | dict(setting.params)
            parts.append(family.fill(own, size, fmt, given))
        return np.concatenate([*parts, np.empty(0)])[:n]

    shared = frozenset.intersection(*(family.tags for family in families)) - {"vectors", "exact"}
    tags = shared | (frozenset.union(*(family.tags for family in families)) & {"special", "cancellation"})
    return Family(EACH + "|".join(family.name for family in families), make, (INNER,), tags)


@functools.lru_cache(maxsize=1024)
def find(contract: Contract, name: str) -> Family:
    """The family of this name: generic, the contract's own, or ``special:<name>`` of its special rows.

    Raises HarnessError with the nearest name if there is none.
    """
    if name in FAMILIES or name in WHOLE:
        return FAMILIES.get(name) or WHOLE[name]
    if name.startswith(EACH):
        return in_turn([find(contract, part) for part in name.removeprefix(EACH).split("|")])
    own = _own(contract)
    for family in (*own, *map(special_family, contract.special)):
        if family.name == name:
            return family
    known = [
        *FAMILIES,
        *WHOLE,
        *(family.name for family in own),
        *(SPECIAL + row.name for row in contract.special),
    ]
    hint = f"{nearest(name, known)}families: {', '.join(known)}"
    raise HarnessError(f"contract {contract.name} has no value family {name!r}; {hint}")


def _listed(contract: Contract) -> Iterator[object]:
    """What the contract and its tensors list: names and Family objects."""
    yield from contract.families
    for tensor in contract.tensors.values():
        yield from tensor.families


def _own(contract: Contract) -> list[Family]:
    """The Family objects that the contract lists; HarnessError for one that hides a generic family."""
    found: dict[str, Family] = {}
    for item in _listed(contract):
        if isinstance(item, str):
            continue
        if not isinstance(item, Family):
            raise HarnessError(f"contract {contract.name} lists family {item!r}; give a name or a Family")
        if item.name in FAMILIES or item.name in WHOLE:
            raise HarnessError(
                f"contract {contract.name}: family {item.name!r} has the name of a generic one"
            )
        found[item.name] = item
    return list(found.values())


def _named(contract: Contract, listed: Iterable[object]) -> list[Family]:
    return [find(contract, item if isinstance(item, str) else item.name) for item in listed]  # type: ignore[attr-defined]


def stressed(contract: Contract, domain: Domain) -> tuple[Family, ...]:
    """The families that the contract lists and the domain admits, in the contract's order."""
    _own(contract)
    return _admitted(domain, _named(contract, contract.families))


def specials(contract: Contract, domain: Domain) -> tuple[Family, ...]:
    """The special rows, as families, that the domain admits."""
    return _admitted(domain, map(special_family, contract.special))


def available(contract: Contract, domain: Domain) -> tuple[Family, ...]:
    """Every family that may be drawn, simplest first: generic ones, then those that the contract lists.

    Families of vectors are for rows that have an inner axis: only a contract that lists them draws them.
    """
    generic = (family for family in FAMILIES.values() if "vectors" not in family.tags)
    return _admitted(domain, dict.fromkeys((*generic, *stressed(contract, domain))))


@dataclass(frozen=True)
class Pool:
    """What one tensor draws from: the families listed for it, and all of them."""

    listed: tuple[Family, ...]
    every: tuple[Family, ...]


def pool(contract: Contract, domain: Domain, name: str, *, whole: bool) -> Pool:
    """The families of a tensor: its own where it has any, else the contract's and the generic ones.

    whole: the tensor holds integers. Raises HarnessError if the domain leaves none.
    """
    own = _admitted(domain, _named(contract, contract.tensors[name].families))
    own = tuple(family for family in own if ("whole" in family.tags) == whole)
    if contract.tensors[name].families:
        found = Pool(own, own)
    elif whole:
        found = Pool((), tuple(WHOLE.values()))
    else:
        found = Pool(stressed(contract, domain), available(contract, domain))
    if not found.every:
        kind = "integer" if whole else "floating-point"
        raise HarnessError(
            f"tensor {name!r} of contract {contract.name} has no {kind} family that the domain admits"
        )
    return found


def _admitted(domain: Domain, families: Iterable[Family]) -> tuple[Family, ...]:
    return tuple(family for family in families if admits(domain, family) and "poison" not in family.tags)


def admits(domain: Domain, family: Family) -> bool:
    """Whether a domain admits the family: one of finite inputs has no rows with inf or NaN."""
    return not (domain.finite and "special" in family.tags)


def max_abs_params(domain: Domain) -> tuple[tuple[str, float], ...]:
    """The parameter that keeps a row within the domain's ``max_abs``; none where it is unlimited."""
    if domain.max_abs is None or math.isinf(domain.max_abs):
        return ()
    return ((MAX_ABS, float(domain.max_abs)),)


def one(fmt: Format, domain: Domain) -> float:
    """1, or the largest power of two of a format that a domain's ``max_abs`` admits; 0 where none is."""
    if domain.max_abs is None or domain.max_abs >= 1:
        return 1.0
    largest = float(round_to(float(domain.max_abs), fmt, mode="toward-zero"))
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest else 0.0
