"""Attention emulated with one rounding per operation, in the forms that kernels use, and its naive mpmath loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from emulation import Unit, tree
from judging import Array, Truth, mp

from harness.formats import FLOAT32, Format, round_to

SCALE = 0.3
Held = tuple[Array, Array]
"""Results [B, S, Dv] and logsumexps [B, S]."""


def data(fmt: Format, t: int = 40, d: int = 8, dv: int = 6, s: int = 4, seed: int = 0) -> dict[str, Array]:
    """q [B, S, D], k [B, T, D], v [B, T, Dv]: each batch one situation that has broken a looser rule or a kernel."""
    random = np.random.default_rng(seed)
    normal = random.standard_normal
    j = np.arange(t)
    q, k, v = normal((s, d)), normal((t, d)), normal((t, dv))
    g = np.full(d, 0.7)
    along = abs(normal((s, 1))) * g
    ramp = j[:, None] * g / 4
    constant, ones = np.ones((t, 1)) * normal(d), np.ones((t, dv))
    hot = normal((t, d)) / 8
    hot[t // 2] = 6.0
    half = np.full((t, dv), 2.0**-fmt.precision)
    half[0] = 1.0
    two = np.zeros((t, d))
    two[1:, 0] = np.linspace(-1, -4, t - 1)
    first = np.zeros((s, d))
    first[:, 0] = 1 + np.arange(s) / 7
    peak = np.zeros((t, dv))
    peak[t // 3] = 1.0
    pairs = (
        (q, k, v),
        (along, ramp, v),
        (along, -ramp, v),
        (along, ramp, 100 + v / 64),
        (along, hot, v),
        (q, constant, 0.1 * ones),
        (q, constant, v),
        (q, constant, ones * np.where(j % 2, -1.0, 1.0)[:, None]),
        (q, k, 100 + v / 256),
        (q, k, v * 2.0**14),
        (q, k, v * 2.0**-24),
        (-20 * np.ones((s, d)), 5 + abs(normal((t, d))), v),
        (12 * q, 12 * k, v),
        (q * 0, k, half),
        (first, two, peak),
        (first, two, half),
        (q, k, np.sort(v, axis=0)),
    )
    found = [np.stack([round_to(pair[i], fmt) for pair in pairs]) for i in range(3)]
    return dict(zip("qkv", found, strict=True))


def mask(s: int, t: int, causal: str | None, window: int | None) -> Array:
    """Visible keys [S, T], from the words of the contract."""
    found = np.ones((s, t), dtype=bool)
    for i in range(s):
        for j in range(t):
            at = i + (t - s if causal == "bottom-right" else 0)
            if causal is not None or window is not None:
                found[i, j] = j <= at and (window is None or at - j < window)
    return found


def exact(q: Array, k: Array, v: Array, visible: Array) -> tuple[Truth, Truth]:
    """The formula, term by term."""
    shape = (*q.shape[:2], v.shape[2])
    out, lse = np.empty(shape, dtype=object), np.empty(shape[:2], dtype=object)
    scale = mp.mpf(SCALE)
    for b in range(shape[0]):
        keys = [[mp.mpf(float(x)) for x in row] for row in k[b]]
        values = [[mp.mpf(float(x)) for x in row] for row in v[b]]
        for i in range(shape[1]):
            query = [mp.mpf(float(x)) for x in q[b, i]]
            seen = [j for j in range(k.shape[1]) if visible[i, j]]
            z = {j: scale * mp.fsum(x * y for x, y in zip(query, keys[j], strict=True)) for j in seen}
            largest = max(z.values(), default=mp.mpf(0))
            e = {j: mp.exp(z[j] - largest) for j in seen}
            total = mp.fsum(e.values())
            lse[b, i] = largest + mp.log(total) if seen else -mp.inf
            for c in range(shape[2]):
                out[b, i, c] = mp.fsum(e[j] * values[j][c] for j in seen) / total if seen else mp.mpf(0)
    return _truth(out), _truth(lse)


def _truth(found: Array) -> Truth:
    hi = found.astype(np.float64)
    flat = [
        float(x - mp.mpf(h)) if math.isfinite(h) else 0.0 for x, h in zip(found.flat, hi.flat, strict=True)
    ]
    return Truth(hi, np.array(flat).reshape(hi.shape))


def chain(unit: Unit, a: Array, b: Array, start: Array | None = None) -> Array:
    """a [B, M, K] @ b [B, K, N] as one FMA chain that goes on from ``start``."""
    total = np.zeros((a.shape[0], a.shape[1], b.shape[2])) if start is None else start
    for i in range(a.shape[2]):
        total = unit.fma(a[:, :, i, None] + 0 * total, b[:, None, i, :] + 0 * total, total)
    return total


def row_sum(unit: Unit, x: Array) -> Array:
    """Σ along the last axis, as a tree, [..., 1]."""
    return tree(unit, x.reshape(-1, x.shape[-1]))[0].reshape(*x.shape[:-1], 1)


Scores = Callable[[Unit, Array, Array], Array]


def scale_after(unit: Unit, q: Array, k: Array) -> Array:
    return unit.mul(
        chain(unit, q, k.transpose(0, 2, 1)), float(unit.round(np.array(SCALE))) + 0 * q[:, :, :1]
    )


def scale_before(unit: Unit, q: Array, k: Array) -> Array:
    return chain(unit, unit.mul(q, float(unit.round(np.array(SCALE))) + 0 * q), k.transpose(0, 2, 1))


def scale_both(unit: Unit, q: Array, k: Array) -> Array:
    root = float(unit.round(np.sqrt(np.array(SCALE))))
    return chain(unit, unit.mul(q, root + 0 * q), unit.mul(k, root + 0 * k).transpose(0, 2, 1))


class Form:
    """One way to compute attention. cast: of the probabilities; base: 2 where exp2 takes scores times log2 e;
    block: keys at a time, backwards where it is negative."""

    def __init__(
        self,
        unit: Unit,
        *,
        scores: Scores = scale_after,
        cast: Format = FLOAT32,
        base: int = 0,
        block: int = 16,
    ) -> None:
        self.unit, self.scores, self.cast, self.base, self.block = unit, scores, cast, base, block

    def _z(self, q: Array, k: Array, visible: Array) -> Array:
        z = self.scores(self.unit, q, k)
        if self.base:
            z = self.unit.mul(z, self.unit.log2e + 0 * z)
        return np.where(visible, z, -np.inf)

    def _exp(self, z: Array, m: Array) -> Array:
        with np.errstate(invalid="ignore"):
            shifted = self.unit.sub(z, m + np.zeros_like(z))
            e = self.unit.exp2(shifted) if self.base else self.unit.exp(shifted)
        return np.where(np.isneginf(z), 0.0, e)

    def _natural(self, m: Array, total: Array) -> Array:
        if not self.base:
            return self.unit.add(m, self.unit.log(total))
        log2 = self.unit.div(self.unit.log(total), self.unit.round(np.array(math.log(2))) + 0 * total)
        return self.unit.mul(self.unit.add(m, log2), self.unit.round(np.array(math.log(2))) + 0 * total)

    def running(self, q: Array, k: Array, v: Array, visible: Array) -> tuple[Array, Array, Array]:
        """Maximum, normaliser [B, S, 1] and numerator [B, S, Dv] after all keys, online."""
        z = self._z(q, k, visible)
        m, total = np.full((*q.shape[:2], 1), -np.inf), np.zeros((*q.shape[:2], 1))
        acc = np.zeros((*q.shape[:2], v.shape[2]))
        starts = list(range(0, k.shape[1], abs(self.block)))
        for start in starts if self.block > 0 else starts[::-1]:
            part = slice(start, start + abs(self.block))
            new = np.maximum(m, z[:, :, part].max(axis=-1, keepdims=True))
            shift = np.where(np.isneginf(new), 0.0, new)
            alpha = self._exp(m, shift)
            p = self._exp(z[:, :, part], shift)
            total = self.unit.add(self.unit.mul(total, alpha), row_sum(self.unit, p))
            acc = chain(self.unit, round_to(p, self.cast), v[:, part], self.unit.mul(acc, alpha + 0 * acc))
            m = new
        return m, total, acc

    def online(self, q: Array, k: Array, v: Array, visible: Array) -> Held:
        m, total, acc = self.running(q, k, v, visible)
        some = total > 0
        safe = np.where(some, total, 1.0)
        lse = np.where(some, self._natural(np.where(some, m, 0.0), safe), -np.inf)
        return self.unit.div(acc, safe + 0 * acc), lse[..., 0]

    def two_pass(self, q: Array, k: Array, v: Array, visible: Array) -> Held:
        """The maximum of all scores first; the numerator from products that are rounded one by one."""
        z = self._z(q, k, visible)
        m = z.max(axis=-1, keepdims=True)
        some = ~np.isneginf(m)
        p = self._exp(z, np.where(some, m, 0.0))
        total = np.where(some, row_sum(self.unit, p), 1.0)
        products = self.unit.mul(round_to(p, self.cast)[:, :, None, :], v.transpose(0, 2, 1)[:, None])
        acc = row_sum(self.unit, products)[..., 0]
        lse = np.where(some, self._natural(np.where(some, m, 0.0), total), -np.inf)
        return self.unit.div(acc, total + 0 * acc), lse[..., 0]

    def normalised(self, q: Array, k: Array, v: Array, visible: Array) -> Held:
        """Probabilities are divided by their sum, and then rounded, before the product with v."""
        z = self._z(q, k, visible)
        m = z.max(axis=-1, keepdims=True)
        some = ~np.isneginf(m)
        p = self._exp(z, np.where(some, m, 0.0))
        total = np.where(some, row_sum(self.unit, p), 1.0)
        out = chain(self.unit, round_to(self.unit.div(p, total + 0 * p), self.cast), v)
        lse = np.where(some, self._natural(np.where(some, m, 0.0), total), -np.inf)
        return out, lse[..., 0]

    def split(
        self, q: Array, k: Array, v: Array, visible: Array, parts: int = 3, partials: Format = FLOAT32
    ) -> Held:
        """Normalised results of parts of the keys, merged by their logsumexps."""
        length = -(-k.shape[1] // parts)
        pieces: list[Any] = []
        for start in range(0, k.shape[1], length):
            part = slice(start, start + length)
            out, lse = self.online(q, k[:, part], v[:, part], visible[:, part])
            pieces.append((round_to(out, partials), lse[..., None]))
        highest = np.maximum.reduce([lse for _, lse in pieces])
        shift = np.where(np.isneginf(highest), 0.0, highest)
        total, acc = np.zeros_like(shift), np.zeros((*q.shape[:2], v.shape[2]))
        for out, lse in pieces:
            weight = np.where(np.isneginf(lse), 0.0, self.unit.exp(self.unit.sub(lse, shift)))
            total = self.unit.add(total, weight)
            acc = self.unit.fma(out, weight + 0 * acc, acc)
        some = total > 0
        safe = np.where(some, total, 1.0)
        lse = np.where(some, self.unit.add(shift, self.unit.log(safe)), -np.inf)
        return self.unit.div(acc, safe + 0 * acc), lse[..., 0]
