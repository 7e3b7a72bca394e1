# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""What the CPU executor supports of Python in a kernel, as `constructs` has it of Triton's operations."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import triton
import triton.language as tl


@triton.jit
def _early(a):
    if a > 3:
        return a * 10
    b = a + 1
    return b


@triton.jit
def _returns(x, y):
    tl.store(y, _early(tl.load(x + 5)))
    tl.store(y + 1, _early(tl.load(x + 2)))
    if tl.load(x) == 0:
        return
    tl.store(y + 2, 5.0)


@triton.jit
def _loops(x, y):
    for i in range(10):
        if i == 5:
            break
        if i == 2:
            continue
        for _ in range(i):
            tl.store(y + i, tl.load(y + i) + 1)


@triton.jit
def _conditions(x, y):
    at = tl.load(x).to(tl.int32)
    total = 0.0
    while (at < 10) & (total < 20):
        total += tl.load(x + at)
        at += 1
    count = 0
    while count < 3 and at > 0:
        count += 1
    tl.store(y, total)
    tl.store(y + 1, at)
    tl.store(y + 2, count)
    tl.store(y + 3, total if at > 100 else total + 1)


@triton.jit
def _augmented(x, y):
    index = tl.arange(0, 16)
    value = tl.load(x + index).to(tl.int32)
    value += 1
    value -= 2
    value *= 3
    value //= 2
    value %= 7
    value <<= 2
    value >>= 1
    value |= 1
    value &= 31
    value ^= 3
    half = value.to(tl.float32)
    half /= 2
    tl.store(y + index, half)
    pointer = y
    pointer += 15
    tl.store(pointer, 99.0)


@triton.jit
def _both(a, b):
    return a + b, (a - b, a * b)


@triton.jit
def _tuples(x, y):
    total, (difference, product) = _both(tl.load(x + 3), tl.load(x + 5))
    several = (total, difference, product, 7)
    for at in tl.static_range(len(several)):
        tl.store(y + at, several[at])
    tl.store(y + 4, several[-1] + len(several))


class _Point(NamedTuple):
    first: Any
    second: Any


@triton.jit
def _area(point):
    return point.first * point.second


@triton.jit
def _named_tuples(x, y):
    point = _Point(tl.load(x + 3), tl.load(x + 4))
    tl.store(y, _area(point))
    tl.store(y + 1, point[1] + point.first)


@triton.constexpr_function
def _twice(n):
    return n * 2


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def _apply(x, FUNCTION: tl.constexpr):
    return FUNCTION(tl.load(x + 3), tl.load(x + 4))


@triton.jit
def _compile_time(x, y, z=None, N: tl.constexpr = 4):
    tl.static_assert(N == 4 and N % 2 == 0, "N is 4")
    size: tl.constexpr = _twice(N) if z is None else N
    kind: tl.constexpr = x.dtype.element_ty
    tl.store(y + tl.arange(0, size), tl.full((size,), 2, kind))
    tl.store(y + size, _apply(x, _times))
    if z is not None:
        tl.store(z, 1.0)


@triton.jit
def _methods(x, y):
    value = tl.load(x + tl.arange(0, 16))
    tl.store(y, value.sum() + value.max(axis=0))
    tl.store(y + 1, value.reshape(4, 4).trans().sum(1).max())
    tl.store(y + 2, value.to(tl.float16).abs().sum() + value.argmax(0) + value.numel)
    tl.store(y + 3, tl.cast(value.exp2().min(), tl.int32) + value.shape[0])


@triton.jit
def _pointers(x, y):
    index = tl.arange(0, 16)
    chosen = tl.where(index < 8, x + index, x + 15 - index)
    tl.store(y + 15 + index * -1, tl.load(chosen))
    source = x if tl.load(x + 1) > 0 else y
    tl.store(y, tl.load(source + 2))


_COUNT = [float(i) for i in range(16)]
_ZEROS = [0.0] * 16

SYNTAX: Final[dict[str, tuple[Any, tuple[int, ...], list[float]]]] = {
    "return anywhere": (_returns, (1,), [50.0, 3.0, *_ZEROS[2:]]),
    "break, continue": (_loops, (1,), [0.0, 1.0, 0.0, 3.0, 4.0, *_ZEROS[5:]]),
    "conditions of tensors and constants": (_conditions, (1,), [21.0, 7.0, 3.0, 22.0, *_ZEROS[4:]]),
    "augmented assignments": (
        _augmented,
        (1,),
        [14.0, 1.0, 0.0, 2.0, 5.0, 7.0, 1.0, 3.0, 2.0, 4.0, 7.0, 0.0, 3.0, 5.0, 4.0, 99.0],
    ),
    "tuples": (_tuples, (1,), [8.0, -2.0, 15.0, 7.0, 11.0, *_ZEROS[5:]]),
    "named tuples": (_named_tuples, (1,), [12.0, 7.0, *_ZEROS[2:]]),
    "constexpr functions, functions and None as arguments": (
        _compile_time,
        (1,),
        [*[2.0] * 8, 12.0, *_ZEROS[9:]],
    ),
    "methods of tensors": (_methods, (1,), [135.0, 36.0, 151.0, 17.0, *_ZEROS[4:]]),
    "pointers that are chosen, negative strides": (
        _pointers,
        (1,),
        [2.0, *_COUNT[1:8], *_COUNT[7::-1]],
    ),
}
