"""Scaled matrix products, of which it is open where the scale goes: into a factor, the product, or both factors."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.numbers.backend import Array
from harness.numbers.dots import dot_growth, matmul
from harness.numbers.exactness import looser
from harness.numbers.model import Model
from harness.numbers.number import Number, is_zero, settle
from harness.numbers.selection import rounded
from harness.numbers.share import Share


def scaled_matmul(
    a: Number, b: Number, scale: float, *, operand: str | None = None, product: str | None = None
) -> Number:
    """scale·(a @ b) with the largest error of three ways: (scale·a) @ b, scale·(a @ b), (√scale·a) @ (√scale·b).

    a: [..., M, K], b: [..., K, N]. operand, product: places where an author may claim that scale·a and a @ b
    are rounded to a narrower format.
    """
    found = _in_one_product(a, b, scale, (operand, product))
    if found is not None:
        return found
    first = a * scale if operand is None else rounded(a * scale, operand)
    second = matmul(a, b) if product is None else rounded(matmul(a, b), product)
    found = looser(matmul(first, b), second * scale)
    if scale > 0:
        root = math.sqrt(scale)
        found = looser(found, matmul(a * root, b * root))
    return found


@dataclass(frozen=True)
class _Error:
    """products·|scale||A||B| + value·|v| + rows·Σ|a| + columns·Σ|b| + rest, sums over K."""

    products: float
    value: float
    rows: float
    columns: float
    rest: float

    def at(self, products: float, sums: float) -> float:
        """The most that it can be, |v| being at most the products."""
        return (self.products + self.value) * products + (self.rows + self.columns) * sums + self.rest

    def exceeds(self, other: _Error, products: float, sums: float) -> bool:
        """Whether it is certainly the larger one where the products are at least, and the sums at most, these."""
        gap = (self.products - (other.products + other.value) * (1 + 2.0**-30)) * products
        return gap > 2 * ((other.rows + other.columns) * sums + other.rest)

    def of(self, products: Array, v: Array, rows: Array, columns: Array, *, last: bool) -> Array:
        """In place of the products, if they are asked for the last time."""
        t = products
        if last:
            t *= self.products
        else:
            t = products * self.products
        if self.value:
            t += abs(v) * self.value
        t += rows * self.rows + self.rest
        t += columns * self.columns
        return t


def _in_one_product(a: Number, b: Number, scale: float, places: tuple[str | None, ...]) -> Number | None:
    """The same from one |A||B|, of exact numbers far from overflow, where no claim tells the ways apart."""
    reading, xp = a.reading, a.reading.backend
    model, dot, k = reading.model, reading.model.dot, a.shape[-1]
    claimed = any(model.claimed(place) is not None for place in places)
    if not (xp.shares and a.exact and b.exact and scale and k) or claimed or model.flush == "all":
        return None
    if dot.u_in or dot.eta_in:
        return None
    if reading.brief:
        return _brief(a, b, scale)
    size_a, size_b = abs(a.v), abs(b.v)
    products = xp.matmul(size_a * abs(scale), size_b)
    rows, columns = xp.sum(size_a, len(a.shape) - 1), xp.sum(size_b, len(b.shape) - 2)
    sums, (least, most) = max(xp.most(rows, 0.0), xp.most(columns, 0.0)), xp.extremes(products)
    errors = _errors(model, k, scale)
    largest = (1 + dot_growth(model, k)) * most + max(error.at(most, sums) for error in errors)
    if not 2 * largest / min(1.0, abs(scale)) < model.overflow:
        return None
    v = xp.matmul(a.v * scale, b.v)
    last = errors[-1]
    if all(error is last or last.exceeds(error, least, sums) for error in errors):
        errors = [last]
    t: Array = 0.0
    for error in errors:
        own = error.of(products, v, rows, columns, last=error is last)
        t = own if is_zero(t) else xp.maximum(t, own)
    return settle(reading, v, t)


def _brief(a: Number, b: Number, scale: float) -> Number | None:
    """The product, and an error that each of its magnitudes |A||B| >= |v| has."""
    reading, xp, k = a.reading, a.reading.backend, a.shape[-1]
    if not 4 * k * xp.most(a.v, 0.0) * xp.most(b.v, 0.0) * max(1.0, abs(scale)) < reading.model.overflow:
        return None
    reading.shortened.append("scaled_matmul")
    share = _errors(reading.model, k, scale)[-1].products
    return settle(reading, xp.matmul(a.v * scale, b.v), Share(share * (1 - 2.0**-30)))


def _errors(model: Model, k: int, scale: float) -> list[_Error]:
    """Those of the three ways, by the rules of products and dots."""
    u, eta, growth, size = model.u, model.underflow(), dot_growth(model, k), abs(scale)
    given = model.constant_error(scale) / size
    factor = given + u * (1 + given)
    before = _Error(factor + growth * (1 + factor), 0.0, 0.0, (1 + growth) * eta, k * eta)
    grown = (1 + u) * (1 + given)
    after = _Error(grown * growth, given + u * (1 + given), 0.0, 0.0, grown * size * k * eta + eta)
    if scale < 0:
        return [after, before]
    root = math.sqrt(scale)
    given = model.constant_error(root) / root
    factor = given + u * (1 + given)
    pair = 2 * factor + factor * factor
    each = (1 + growth) * eta * (1 + factor) * root
    both = _Error(pair + growth * (1 + pair), 0.0, each, each, (1 + growth) * k * eta * eta + k * eta)
    return [after, before, both]
