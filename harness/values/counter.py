"""Counter-based random numbers: number i of a stream depends on (seed, lane, i) and on nothing else.

The hash is the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, doi 10.1145/2660193.2660195)
applied to a Weyl sequence that starts at the hash of the seed. Only integer operations, exact scalings and
the correctly rounded +, -, * reach a float, so that every machine and every NumPy gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]

_MASK = (1 << 64) - 1
_WEYL = 0x9E3779B97F4A7C15
_LANE = 0xD1B54A32D192ED03
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def mix(value: int) -> int:
    """The finaliser of SplitMix64: a bijection of the integers below 2**64."""
    value &= _MASK
    value = (value ^ (value >> 30)) * _FIRST & _MASK
    value = (value ^ (value >> 27)) * _SECOND & _MASK
    return value ^ (value >> 31)


def child(seed: int, number: int) -> int:
    """The seed of the number-th repetition of a row: ``seed`` itself for 0, else 32 hashed bits."""
    return seed if number == 0 else mix(mix(seed) + number * _LANE) >> 32


@dataclass(frozen=True)
class Stream:
    """The random numbers of one row. Lanes are independent sequences of one stream.

    >>> Stream(1).uniform(2)[0] == Stream(1).uniform(1)[0]
    True
    """

    seed: int

    def _start(self, lane: int) -> int:
        return mix(mix(self.seed + _WEYL) + lane * _LANE)

    def bits(self, n: int, lane: int = 0) -> Bits:
        """64 random bits per element, [n]."""
        z = np.arange(1, n + 1, dtype=np.uint64)
        z *= np.uint64(_WEYL)
        z += np.uint64(self._start(lane))
        z ^= z >> np.uint64(30)
        z *= np.uint64(_FIRST)
        z ^= z >> np.uint64(27)
        z *= np.uint64(_SECOND)
        z ^= z >> np.uint64(31)
        return z

    def uniform(self, n: int, lane: int = 0) -> Floats:
        """Multiples of 2**-53 in [0, 1), [n]."""
        return (self.bits(n, lane) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, n: int, low: int, high: int, lane: int = 0) -> Integers:
        """Integers in [low, high], [n]; spans are far below 2**32, so that no value is favoured visibly."""
        span = np.uint64(high - low + 1)
        scaled = (self.bits(n, lane) >> np.uint64(32)) * span >> np.uint64(32)
        return scaled.astype(np.int64) + low

    def signs(self, n: int, lane: int = 0) -> Floats:
        """+1 and -1 with equal chance, [n]."""
        return 1.0 - 2.0 * (self.bits(n, lane) >> np.uint64(63)).astype(np.float64)

    def normal(self, n: int, lane: int = 0) -> Floats:
        """Bell-shaped values of mean 0 and variance 1 within +-3.5, [n].

        The sum of four uniform numbers: unlike Box and Muller's it needs no log or cos, whose last bits
        differ between math libraries.
        """
        half = np.uint64(0xFFFFFFFF)
        first, second = self.bits(n, lane), self.bits(n, lane + 1000)
        total = (first & half) + (first >> np.uint64(32)) + (second & half) + (second >> np.uint64(32))
        centred: Floats = total.astype(np.float64) - 2.0**33
        return centred * (2.0**-32 * 1.7320508075688772)

    def number(self, lane: int = 0) -> int:
        """64 random bits for the whole row."""
        return mix(self._start(lane) ^ _SECOND)

    def integer(self, low: int, high: int, lane: int = 0) -> int:
        """One integer in [low, high] for the whole row."""
        return low + self.number(lane) % (high - low + 1)

    def choice(self, values: tuple[Any, ...], lane: int = 0) -> Any:
        """One of ``values`` for the whole row."""
        return values[self.number(lane) % len(values)]
