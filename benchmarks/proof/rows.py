"""Adversarial rows of a format: what drives a sum, a product or a function to its least digits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from harness.formats import Format, round_to
from harness.values.counter import Floats

STEEPEST = 200
"""Exponent that ill-conditioned rows start from at most: condition numbers to 1e60."""

FEWEST = 4
"""Elements of a row that can cancel."""


class Rows:
    """Adversarial rows of a format, as float64 arrays."""

    def __init__(self, fmt: Format, random: np.random.Generator) -> None:
        self.fmt, self.random = fmt, random
        self._mild = (
            self._cancelling,
            self._half_ulps,
            self._spread,
            self._large_mean,
            self._equal,
            self._normal,
            self._powers,
        )
        self._wild = (self._near_overflow, self._subnormal, self._ill_conditioned)

    def draw(self, count: int, n: int, *, moderate: bool) -> Floats:
        """[count, n], each row of one family; moderate: none whose squares or exponentials leave the range."""
        if not count * n:
            return np.zeros((count, n))
        kinds = self._mild if moderate else (*self._mild, *self._wild)
        found = [kinds[int(self.random.integers(len(kinds)))](n) for _ in range(count)]
        held = np.clip(np.stack(found), -self.fmt.max, self.fmt.max)
        rows: Floats = round_to(held, self.fmt)
        return rows

    def _normal(self, n: int) -> Floats:
        return self.random.standard_normal(n) * 10.0 ** self.random.uniform(-3, 2)

    def _equal(self, n: int) -> Floats:
        return np.full(n, self.random.standard_normal())

    def _powers(self, n: int) -> Floats:
        """Powers of two: a product with them keeps the condition of what they meet."""
        return np.exp2(self.random.integers(-3, 4, n).astype(np.float64))

    def _cancelling(self, n: int) -> Floats:
        row = self.random.standard_normal(n)
        half = n // 2
        row[half : 2 * half] = -row[:half] * (1 + self.fmt.u * self.random.integers(-4, 5, half))
        return self.random.permutation(row)

    def _half_ulps(self, n: int) -> Floats:
        row = np.full(n, 2.0 ** (8 - self.fmt.precision))
        row[self.random.integers(n)] = 2.0**8
        return row

    def _spread(self, n: int) -> Floats:
        return self.random.choice([-1.0, 1.0], n) * np.exp2(self.random.uniform(-40, 6, n))

    def _large_mean(self, n: int) -> Floats:
        spread = self.random.standard_normal(n) * self.random.choice([1, 1e-3])
        return 10.0 ** self.random.uniform(1, 3) + spread

    def _near_overflow(self, n: int) -> Floats:
        row = self.random.choice([-1.0, 1.0], n) * self.fmt.max * self.random.uniform(0.5, 1.0, n)
        return row / self.random.choice([1.0, 2.0, 2.0 * n])

    def _subnormal(self, n: int) -> Floats:
        return self.fmt.eta * self.random.integers(-9, 10, n).astype(np.float64)

    def _ill_conditioned(self, n: int) -> Floats:
        """A ramp up to 2^100 (2^200 in float64), then cancelled term by term (Ogita, Rump & Oishi)."""
        if n < FEWEST:
            return self._cancelling(n)
        most = min(STEEPEST, self.fmt.emax * 4 // 5)
        top = int(self.random.integers(most // 5, most + 1))
        half = n // 2
        exponents = self.random.integers(0, top + 1, half)
        exponents[0], exponents[-1] = top, 0
        row = list(round_to(np.ldexp(2 * self.random.random(half) - 1, exponents), self.fmt))
        total = sum((Fraction(v) for v in row), Fraction(0))
        for e in np.linspace(top, 0, n - half).round().astype(int):
            term = Fraction(math.ldexp(2 * self.random.random() - 1, int(e))) - total
            row.append(float(round_to(float(term), self.fmt)))
            total += Fraction(row[-1])
        return self.random.permutation(np.array(row))
