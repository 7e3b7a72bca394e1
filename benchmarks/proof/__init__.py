"""Proof by test: no reading is further from mpmath at 300 bits than the radius that it claims, or allows less.

    python -m benchmarks.proof [CONTRACT ...] [--outputs 20000] [--reading float64] [--seed 0]

Every contract of ``references`` without being named here: arguments are made from its declaration. Rows are
adversarial: sums and dots that cancel to condition numbers of 1e60 (Ogita, Rump & Oishi,
doi:10.1137/030601818, §6), half ulps, values near overflow, subnormals, means large beside the spread, long
rows, beside the families of the contract. One line per contract and reading: outputs compared, how many the
reading gave up (LOST: they go up a tier), of how many it says nothing (or only what values they lie among), the
largest error over the radius, and how many lay outside it, or are allowed less than the same rules allow at 300
bits, which must be none. The exit status says so.
"""

import references
from benchmarks.proof.comparison import BITS, Found, compare
from benchmarks.proof.readings import READINGS

CONTRACTS = tuple(references.__all__)
"""Names of all that ``references`` offers."""

__all__ = ["BITS", "CONTRACTS", "READINGS", "Found", "compare"]
