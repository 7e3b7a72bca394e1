# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""What the CPU executor supports of Triton's language: a small kernel for each construct, and its answer.

`missing` runs them all. On a version of Triton that was never tried it decides what can be relied on; the
tests run it on the others, and compare its names with the table in docs/executor.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.semantic import TritonSemantic

from .syntax import SYNTAX

SIZE: Final = 16


@triton.jit
def _masked(x, y):
    index = tl.arange(0, 16)
    tl.store(y + index, tl.load(x + index, mask=index < 3, other=7.0))


@triton.jit
def _block_pointer(x, y):
    source = tl.make_block_ptr(x, (16,), (1,), (8,), (8,), (0,))
    target = tl.make_block_ptr(y, (16,), (1,), (0,), (8,), (0,))
    tl.store(target, tl.load(source, boundary_check=(0,)))
    tl.store(
        tl.advance(target, (8,)),
        tl.load(tl.advance(source, (4,)), boundary_check=(0,), padding_option="zero"),
    )


@triton.jit
def _descriptor(x, y):
    source = tl.make_tensor_descriptor(x, [4, 4], [4, 1], [2, 4])
    target = tl.make_tensor_descriptor(y, [4, 4], [4, 1], [2, 4])
    target.store([2, 0], source.load([0, 0]))
    target.store([0, 0], source.load([3, 0]))


@triton.jit
def _static_range(x, y):
    for i in tl.static_range(4):
        tl.store(y + i, i * 2)


@triton.jit
def _range(x, y):
    n = tl.load(x + 5).to(tl.int32)
    for i in tl.range(0, n, 2, num_stages=2, loop_unroll_factor=2, warp_specialize=False, flatten=True):
        tl.store(y + i, i)


@triton.jit
def _while(x, y):
    left = tl.load(x + 5).to(tl.int32)
    while left > 0:
        tl.store(y + left, left)
        left -= 2


@triton.jit
def _branch(x, y):
    if tl.load(x + 5) > 3 and not tl.load(x) > 0:
        tl.store(y, 1.0)
    elif tl.load(x) > 0:
        tl.store(y, 2.0)


@triton.jit
def _larger(a, b):
    if a > b:
        return a
    else:
        return b


@triton.jit
def _scan(x, y):
    index = tl.arange(0, 16)
    tl.store(y + index, tl.associative_scan(tl.load(x + (15 - index)), 0, _larger, reverse=True))


@triton.jit
def _cumulative(x, y):
    index = tl.arange(0, 16)
    tl.store(y + index, tl.cumsum(tl.load(x + index), 0))


@triton.jit
def _pairs(a, i, b, j):
    return a + b, i + 2 * j - j


@triton.jit
def _reduce(x, y):
    value = tl.load(x + tl.arange(0, 16))
    total, twice = tl.reduce((value, value * 2), 0, _pairs)
    tl.store(y, total)
    tl.store(y + 1, twice)
    tl.store(y + 2, tl.reduce(value, 0, _larger))
    tl.store(y + 3, tl.argmax(value, 0))
    tl.store(y + 4, tl.xor_sum(value.to(tl.int32), 0))


@triton.jit
def _sort(x, y):
    index = tl.arange(0, 16)
    tl.store(y + index, tl.sort(tl.load(x + (index * 7) % 16), descending=True))


@triton.jit
def _largest(x, y):
    value = tl.load(x + (tl.arange(0, 16) * 5) % 16)
    tl.store(y + tl.arange(0, 4), tl.topk(value, 4))


@triton.jit
def _gather(x, y):
    index = tl.arange(0, 16)
    tl.store(y + index, tl.gather(tl.load(x + index), (index * 3) % 16, 0))


@triton.jit
def _histogram(x, y):
    value = tl.load(x + tl.arange(0, 16)).to(tl.int32) // 4
    tl.store(y + tl.arange(0, 4), tl.histogram(value, 4))


@triton.jit
def _join(x, y):
    index = tl.arange(0, 8)
    joined = tl.join(tl.load(x + index), tl.load(x + 8 + index))
    tl.store(y + tl.arange(0, 16), tl.reshape(joined, (16,)))


@triton.jit
def _interleave(x, y):
    index = tl.arange(0, 8)
    tl.store(y + tl.arange(0, 16), tl.interleave(tl.load(x + index), tl.load(x + 8 + index)))


@triton.jit
def _split(x, y):
    even, odd = tl.split(tl.reshape(tl.load(x + tl.arange(0, 16)), (8, 2)))
    tl.store(y + tl.arange(0, 8), odd)
    tl.store(y + 8 + tl.arange(0, 8), even)


@triton.jit
def _cat(x, y):
    index = tl.arange(0, 8)
    tl.store(y + tl.arange(0, 16), tl.cat(tl.load(x + 8 + index), tl.load(x + index), can_reorder=True))


@triton.jit
def _shapes(x, y):
    square = tl.reshape(tl.load(x + tl.arange(0, 16)), (4, 4))
    tl.store(y + tl.arange(0, 16), tl.ravel(tl.trans(square)))


@triton.jit
def _three_axes(x, y):
    at = tl.arange(0, 2)[:, None, None] * 8 + tl.arange(0, 2)[None, :, None] * 4 + tl.arange(0, 4)
    sums = tl.sum(tl.permute(tl.load(x + at), (2, 0, 1)), axis=0)
    square = tl.arange(0, 2)[:, None] * 2 + tl.arange(0, 2)
    tl.store(y + square, sums)
    tl.store(y + 8 + square, tl.broadcast_to(tl.expand_dims(tl.sum(sums, 0), 0), (2, 2)))


@triton.jit
def _exact(x, y):
    value = tl.load(x + 6)
    tl.store(y, tl.fma(value, 2.0, 3.0))
    tl.store(y + 1, tl.clamp(value, 0.0, 1.0))
    tl.store(y + 2, tl.div_rn(value, 4.0) + tl.fdiv(value, 2.0) + tl.sqrt_rn(value - 2.0))
    tl.store(y + 3, tl.umulhi(tl.full((), 1 << 31, tl.uint32), value.to(tl.uint32)))
    tl.store(y + 4, tl.cdiv(value.to(tl.int32), 4) + tl.floor(value + 0.5) + tl.ceil(value + 0.5))


@triton.jit
def _hints(x, y):
    program = tl.program_id(0)
    tl.assume(program >= 0)
    index = tl.max_contiguous(tl.multiple_of(program * 4 + tl.arange(0, 4), 4), 4)
    row, column = tl.swizzle2d(program // 2, program % 2, 2, 2, 2)
    value = tl.load(x + index, eviction_policy="evict_last", cache_modifier=".cg")
    tl.debug_barrier()
    tl.store(y + index, value + 100 * row + 1000 * column, eviction_policy="evict_first")


@triton.jit
def _random(x, y):
    index = tl.arange(0, 16)
    value = tl.rand(7, index)
    inside = (value >= 0) & (value < 1) & (tl.randn(7, index) > -10) & (tl.randint(7, index) != 0)
    tl.store(y + index, inside.to(tl.float32))


@triton.jit
def _assertion(x, y):
    tl.device_assert(tl.load(x) == 0.0, "the first element")
    tl.store(y, 1.0)


@triton.jit
def _print(x, y):
    tl.device_print("x", tl.load(x))
    tl.store(y, 1.0)


@triton.jit
def _atomics(x, y):
    index = tl.arange(0, 4)
    tl.atomic_add(y + index * 0, 1.0)
    tl.atomic_max(y + 1 + index * 0, index.to(tl.float32))
    tl.atomic_min(y + 2 + index * 0, -index.to(tl.float32) - 1)
    tl.atomic_xchg(y + 3, 5.0)


@triton.jit
def _integer_atomics(x, y):
    bits = y.to(tl.pointer_type(tl.int32))
    tl.atomic_or(bits, 6)
    tl.atomic_and(bits, 3)
    tl.atomic_xor(bits, 1)
    tl.atomic_cas(bits, 3, 0x40000000)


@triton.jit
def _grid(x, y):
    program = tl.program_id(0) + 2 * (tl.program_id(1) + 2 * tl.program_id(2))
    tl.store(y + program, program + tl.num_programs(2))


@triton.jit
def _dot(x, y):
    index = tl.arange(0, 16)
    square = (index[:, None] == index[None, :]).to(tl.float16) * 2
    product = tl.dot(square, square + 1)
    tl.store(y + index, tl.sum(product, axis=1))


@triton.jit
def _flipped(value, FLIP: tl.constexpr):
    return tl.flip(value, 0) if FLIP else value


@triton.jit
def _nested(x, y):
    index = tl.arange(0, 16)
    tl.store(y + index, _flipped(tl.load(x + index), True))


@triton.jit
def _sign(v):
    if v > 5:
        return 1.0
    else:
        return -1.0


@triton.jit
def _map(x, y):
    index = tl.arange(0, 16)
    tl.store(y + index, tl.map_elementwise(_sign, tl.load(x + index)))


@triton.jit
def _libdevice(x, y):
    index = tl.arange(0, 16)
    tl.store(y + index, libdevice.rint(tl.load(x + index) + 0.25))


@triton.jit
def _fp8(x, y):
    index = tl.arange(0, 16)
    tl.store(y + index, (tl.load(x + index) * 1000).to(tl.float8e4nv).to(tl.float32))


@triton.jit
def _bits(x, y):
    index = tl.arange(0, 16)
    value = tl.load(x + index).to(tl.int32, bitcast=True)
    tl.store(y + index, (value ^ 0).to(tl.float32, bitcast=True))


@triton.heuristics({"N": lambda args: args["x"].numel()})
@triton.jit
def _heuristics(x, y, N: tl.constexpr):
    tl.store(y + tl.arange(0, N), tl.load(x + tl.arange(0, N)))


@triton.autotune(configs=[triton.Config({"N": 16}), triton.Config({"N": 8})], key=[])
@triton.jit
def _autotune(x, y, N: tl.constexpr):
    tl.store(y + tl.arange(0, N), tl.load(x + tl.arange(0, N)))


_COUNT = [float(i) for i in range(SIZE)]


def _but(**values: float) -> list[float]:
    """Zeros, with other values at some places."""
    return [values.get(f"i{i}", 0.0) for i in range(SIZE)]


# name -> kernel, grid, what it makes of x = 0, 1, … in y = 0
CONSTRUCTS: Final[dict[str, tuple[Any, tuple[int, ...], list[float]]]] = {
    "masked load and store": (_masked, (1,), [0.0, 1.0, 2.0, *[7.0] * 13]),
    "tensor descriptors": (_descriptor, (1,), [*_COUNT[12:], *[0.0] * 4, *_COUNT[:8]]),
    "tl.static_range": (_static_range, (1,), _but(i1=2, i2=4, i3=6)),
    "range and tl.range": (_range, (1,), _but(i2=2, i4=4)),
    "while": (_while, (1,), _but(i5=5, i3=3, i1=1)),
    "if, elif, else, and, or, not": (_branch, (1,), _but(i0=1)),
    "tl.reduce with a function, tuples": (_reduce, (1,), _but(i0=120, i1=240, i2=15, i3=15)),
    "tl.associative_scan": (_scan, (1,), _COUNT[::-1]),
    "tl.cumsum, tl.cumprod": (_cumulative, (1,), [i * (i + 1) / 2 for i in range(SIZE)]),
    "tl.sort, tl.flip": (_sort, (1,), _COUNT[::-1]),
    "tl.topk": (_largest, (1,), [15.0, 14.0, 13.0, 12.0, *[0.0] * 12]),
    "tl.gather": (_gather, (1,), [float(3 * i % 16) for i in range(SIZE)]),
    "tl.histogram": (_histogram, (1,), _but(i0=4, i1=4, i2=4, i3=4)),
    "tl.join": (_join, (1,), [float(i // 2 + 8 * (i % 2)) for i in range(SIZE)]),
    "tl.interleave": (_interleave, (1,), [float(i // 2 + 8 * (i % 2)) for i in range(SIZE)]),
    "tl.split": (_split, (1,), [*_COUNT[1::2], *_COUNT[::2]]),
    "tl.cat": (_cat, (1,), [*_COUNT[8:], *_COUNT[:8]]),
    "tl.reshape, tl.trans, tl.ravel": (_shapes, (1,), [float(i % 4 * 4 + i // 4) for i in range(SIZE)]),
    "tl.permute, tl.expand_dims, tl.broadcast_to": (
        _three_axes,
        (1,),
        [6.0, 22.0, 38.0, 54.0, *[0.0] * 4, *[44.0, 76.0] * 2, *[0.0] * 4],
    ),
    "tl.fma, clamp, cdiv, umulhi, div_rn, sqrt_rn": (_exact, (1,), _but(i0=15, i1=1, i2=6.5, i3=3, i4=15)),
    "tl.assume, multiple_of, swizzle2d, cache hints": (
        _hints,
        (4,),
        [
            *_COUNT[:4],
            *(i + 100 for i in _COUNT[4:8]),
            *(i + 1000 for i in _COUNT[8:12]),
            *(i + 1100 for i in _COUNT[12:]),
        ],
    ),
    "tl.rand, tl.randn, tl.randint": (_random, (1,), [1.0] * SIZE),
    "tl.device_assert": (_assertion, (1,), _but(i0=1)),
    "tl.device_print": (_print, (1,), _but(i0=1)),
    "tl.atomic_add, _max, _min, _xchg": (_atomics, (2,), _but(i0=8, i1=3, i2=-4, i3=5)),
    "tl.atomic_and, _or, _xor, _cas": (_integer_atomics, (1,), _but(i0=2)),
    "grids of three axes": (_grid, (2, 2, 2), [*(float(i + 2) for i in range(8)), *[0.0] * 8]),
    "tl.dot": (_dot, (1,), [2.0 * (SIZE + 2)] * SIZE),
    "nested @triton.jit functions": (_nested, (1,), _COUNT[::-1]),
    "tl.map_elementwise": (_map, (1,), [-1.0] * 6 + [1.0] * 10),
    "libdevice": (_libdevice, (1,), _COUNT),
    "casts to fp8": (_fp8, (1,), [0.0, *[448.0] * 15]),
    "bitcasts": (_bits, (1,), _COUNT),
    "triton.heuristics": (_heuristics, (1,), _COUNT),
    "triton.autotune": (_autotune, (1,), _COUNT),
}
CONSTRUCTS.update(SYNTAX)
if hasattr(TritonSemantic, "make_block_ptr"):
    CONSTRUCTS["block pointers"] = (_block_pointer, (1,), [*_COUNT[8:], *_COUNT[12:], *[0.0] * 4])


def missing(run: Callable[[Callable[[], None]], BaseException | None]) -> dict[str, str]:
    """The constructs that do not work, with the reason. ``run`` calls a function on the executor."""
    found: dict[str, str] = {}
    for name, (kernel, grid, expected) in CONSTRUCTS.items():
        x, y = torch.arange(float(SIZE)), torch.zeros(SIZE)
        error = run(lambda kernel=kernel, grid=grid, x=x, y=y: kernel[grid](x, y))  # type: ignore[misc]
        if error is not None:
            found[name] = f"{type(error).__name__}: {error}"
        elif y.tolist() != expected:
            found[name] = f"gives {y.tolist()} instead of {expected}"
    return found
