"""What the CPU executor sees a kernel do wrong, and what it must not complain of."""

from __future__ import annotations

import inspect
import math

import pytest
import torch
import triton
import triton.language as tl

from harness.executors import Fault, MemoryFault, execute
from harness.memory import allocate


def findings(fn, *args, outcome="returned"):
    execution = execute(fn, args, timeout=20)
    assert execution.outcome == outcome, execution.where()
    return execution.findings


def one(fn, *args, outcome="returned") -> Fault:
    (fault,) = findings(fn, *args, outcome=outcome)
    return fault


def line(kernel, text):
    """``file:line`` of the first line of a kernel that contains ``text``."""
    source, first = inspect.getsourcelines(kernel.fn)
    return f"{__file__}:{first + next(at for at, each in enumerate(source) if text in each)}"


def guarded(*shape, strides=None, value=1.0, dtype=torch.float32):
    strides = strides or [math.prod(shape[at + 1 :]) for at in range(len(shape))]
    block = allocate(shape, strides, dtype, "cpu", fill="nan")
    block.view.fill_(value)
    return block


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr, AHEAD: tl.constexpr = 0):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + index, mask=index < n, other=0.0)
    tl.store(y + index + AHEAD, value, mask=index < n)


def test_a_right_kernel_has_no_findings():
    def launch(x):
        y = torch.empty(10, 3)
        copy[(4,)](x, y, 30, BLOCK=8)
        return y

    assert findings(launch, guarded(30).view) == []


def test_a_read_outside_the_storage():
    x, y = torch.zeros(20), torch.zeros(64)
    fault = one(lambda: copy[(8,)](x, y, 64, BLOCK=8), outcome="raised")
    assert fault == Fault(
        "out of bounds",
        "reads 4 bytes 4 bytes past the end of argument 'x'",
        line(copy, "tl.load"),
        (2, 0, 0),
        "x",
        (20,),
    )


def test_an_error_while_running_is_located_in_the_kernel():
    x, y = torch.zeros(20), torch.zeros(64)
    execution = execute(lambda: copy[(8,)](x, y, 64, BLOCK=8))
    assert isinstance(execution.error, MemoryFault)
    number = line(copy, "tl.load").rpartition(":")[2]
    assert f"test_executors_findings.py:{number}: MemoryFault" in execution.where()


def test_a_write_outside_its_view():
    def launch(x):
        y = torch.empty(30)
        copy[(4,)](x, y, 30, BLOCK=8, AHEAD=1)
        return y

    fault, unwritten = findings(launch, guarded(30).view)
    assert (fault.kind, fault.program, fault.argument, fault.index) == (
        "out of bounds",
        (3, 0, 0),
        "y",
        (30,),
    )
    assert fault.line == line(copy, "tl.store") and "1 elements past the end of y" in fault.message
    assert (unwritten.kind, unwritten.index) == ("written", (0,))


@triton.jit
def fill(y, n, step, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(y + index * step, 1.0, mask=index < n)


def test_a_write_into_a_gap():
    block = guarded(4, 3, strides=[8, 2])
    fault = one(lambda y: fill[(1,)](y, 6, 1, BLOCK=8), block.view)
    assert (fault.kind, fault.argument, fault.index) == ("out of bounds", "y", (1,))
    assert "a gap between the elements of y, at offset 1" in fault.message
    assert findings(lambda y: fill[(1,)](y, 3, 2, BLOCK=4), block.view) == []


def test_a_read_between_view_and_storage_is_undefined():
    def launch(x):
        y = torch.empty(32)
        copy[(4,)](x, y, 32, BLOCK=8)
        return y

    fault = one(launch, guarded(30).view)
    assert (fault.kind, fault.argument, fault.index) == ("undefined values", "y", (30,))
    assert fault.program == (3, 0, 0) and fault.line == line(copy, "tl.store")


@triton.jit
def summed(x, y, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    mask = index < n
    value = tl.load(x + index, mask=mask)
    if HOW == "maximum":
        value = tl.max(value, axis=0)
    elif HOW == "where":
        value = tl.sum(tl.where(mask, value * 2, 0.0), axis=0)
    elif HOW == "and":
        value = tl.sum((mask & (value > 0)).to(tl.float32), axis=0)
    elif HOW == "dot":
        square = tl.reshape(value, (16, 16))
        value = tl.sum(tl.where(index < 1, tl.reshape(tl.dot(square, square), (256,)), 0.0), axis=0)
    elif HOW == "scan":
        value = tl.sum(tl.where(mask, tl.cumsum(value, 0), 0.0), axis=0)
    elif HOW == "scan back":
        value = tl.sum(tl.where(mask, tl.cumsum(value, 0, reverse=True), 0.0), axis=0)
    elif HOW == "branch":
        if tl.max(value, axis=0) > 3:  # noqa: SIM108
            value = 1.0
        else:
            value = 2.0
    elif HOW == "mask":
        value = tl.sum(tl.load(x + index, mask=value > 0, other=0.0), axis=0)
    elif HOW == "address":
        value = tl.sum(tl.load(x + (value * 0).to(tl.int32)), axis=0)
    tl.store(y, value)


@pytest.mark.parametrize(
    ("how", "texts"),
    [
        ("maximum", ["a stored value depends"]),
        ("where", []),
        ("and", []),
        ("dot", ["a stored value depends"]),
        ("scan", []),
        ("scan back", ["a stored value depends"]),
        ("branch", ["a branch depends"]),
        ("mask", ["a mask depends"]),
        ("address", ["an address depends", "a stored value depends"]),
    ],
)
def test_an_undefined_lane_that_reaches_a_store_or_a_branch(how, texts):
    def launch(x):
        y = torch.empty(1)
        summed[(1,)](x, y, 200, HOW=how, BLOCK=256)
        return y

    found = findings(launch, guarded(256).view)
    assert {fault.kind for fault in found} <= {"undefined values"}
    assert len(found) == len(texts) and all(text in f.message for f, text in zip(found, texts, strict=True))


@triton.jit
def plus(x, y, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(y + index, tl.load(x + index, mask=index < n, other=0.0) + 1.0, mask=index < n)


def test_memory_never_written():
    def launch(written):
        x, y = torch.empty(8), torch.empty(8)
        if written:
            written(x)
        plus[(1,)](x, y, 8, BLOCK=8)
        return y

    fault = one(launch, None)
    assert fault.kind == "undefined values" and "memory that was never written" in fault.message
    ways = (
        lambda x: x.fill_(1),
        lambda x: torch.add(torch.ones(8), 1, out=x),
        lambda x: x.numpy().fill(3),
        lambda x: x.copy_(torch.ones(8)),
        lambda x: plus[(1,)](torch.ones(8), x, 8, BLOCK=8),
    )
    for way in ways:
        assert findings(launch, way) == []
    half = one(launch, lambda x: plus[(1,)](torch.ones(8), x, 5, BLOCK=8))
    assert half.index == (5,)


@triton.jit
def overlapping(y, SAME: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * (BLOCK - 1) + tl.arange(0, BLOCK)
    if SAME:  # noqa: SIM108
        value = index
    else:
        value = tl.arange(0, BLOCK)
    tl.store(y + index, value)


def test_two_programs_that_store_different_values_race_and_equal_ones_do_not():
    def launch(same):
        y = torch.empty(22, dtype=torch.int32)
        overlapping[(3,)](y, SAME=same, BLOCK=8)
        return y

    fault = one(launch, False)
    assert (fault.kind, fault.argument, fault.index, fault.program) == ("race", "y", (7,), (1, 0, 0))
    assert findings(launch, True) == []


@triton.jit
def handing_on(x, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + index + BLOCK, tl.load(x + index) + 1)


def test_reading_what_another_program_wrote_races():
    fault = one(lambda x: handing_on[(3,)](x, BLOCK=8), guarded(32).view)
    assert (fault.kind, fault.line) == ("race", line(handing_on, "tl.store"))


@triton.jit
def locked(lock, total):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + tl.program_id(0))
    tl.atomic_xchg(lock, 0)


def test_programs_that_take_a_lock_do_not_race():
    def launch():
        lock, total = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        locked[(5,)](lock, total)
        return total

    execution = execute(launch)
    assert execution.value.item() == 10 and execution.findings == []


def test_elements_never_stored():
    def launch(x):
        y = torch.empty(4, 10)
        plus[(1,)](x, y, 37, BLOCK=64)
        return {"y": y, "x": x}

    fault = one(launch, guarded(40).view)
    assert (fault.kind, fault.index) == ("written", (3, 7))
    assert "was never written (3 of 40 elements)" in fault.message


@triton.jit
def far(x, y, stride, WIDE: tl.constexpr):
    row = tl.program_id(0) + 5
    if WIDE:
        row = row.to(tl.int64)
    offset = row * stride
    tl.store(y + tl.program_id(0), tl.load(x + offset % 7))


def test_an_int32_offset_that_wraps_around():
    x = guarded(8).view
    for stride, wide, kinds in ((2**30, False, ["offset overflow"]), (2**30, True, []), (2**10, False, [])):

        def launch(x, stride=stride, wide=wide):
            y = torch.empty(2)
            far[(2,)](x, y, stride, WIDE=wide)
            return y

        assert [f.kind for f in findings(launch, x) if f.kind == "offset overflow"] == kinds


@triton.jit
def hashed(y, seed, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    mixed = index * 1664525 * 1013904223 + seed
    tl.store(y + index, mixed % 16)
    tl.store(y + BLOCK + index, tl.randint(seed, index) % 16)


def test_wrapping_in_a_hash_that_is_no_address_is_fine():
    def launch():
        y = torch.empty(64, dtype=torch.int32)
        hashed[(1,)](y, 12345, BLOCK=32)
        return y

    assert findings(launch) == []


@triton.jit
def wild(x, y, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    offset = tl.where(index < n, index, 1000000000)
    tl.store(y + offset, tl.load(x + offset, mask=index < n, other=0.0), mask=index < n)


def test_masked_off_addresses_are_no_finding():
    def launch(x):
        y = torch.empty(5)
        wild[(1,)](x, y, 5, BLOCK=8)
        return y

    assert findings(launch, guarded(5).view) == []


def test_a_finding_is_made_once_for_each_line_and_argument():
    def launch(x):
        y = torch.empty(8)
        for _ in range(3):
            copy[(4,)](x, y, 32, BLOCK=8)
        return y

    assert len(findings(launch, guarded(32).view)) == 1


@triton.jit
def by_address(table, n, AHEAD: tl.constexpr, BLOCK: tl.constexpr):
    """The table holds the addresses of x and y."""
    index = tl.arange(0, BLOCK)
    x = tl.load(table).to(tl.pointer_type(tl.float32))
    y = tl.load(table + 1).to(tl.pointer_type(tl.float32))
    tl.store(y + index + AHEAD, tl.load(x + index, mask=index < n, other=0.0), mask=index < n)


def test_accesses_through_addresses_are_watched_too():
    def launch(x, n, ahead):
        y = torch.zeros(8)
        table = torch.tensor([x.data_ptr(), y.data_ptr()])
        by_address[(1,)](table, n, AHEAD=ahead, BLOCK=16)
        return y

    x = guarded(8).view
    assert findings(launch, x, 8, 0) == []
    assert [(f.kind, f.line) for f in findings(launch, x, 8, 1)] == [
        ("out of bounds", line(by_address, "tl.store"))
    ]
    kinds = [fault.kind for fault in findings(launch, x, 9, 0)]
    assert kinds == ["undefined values", "out of bounds"]


# what is right, and must not be complained of


@triton.jit
def rows_of(x, y, stride, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(y + index, tl.load(x + index))


@triton.jit
def backwards(x, y, BLOCK: tl.constexpr):
    tl.store(y + tl.arange(0, BLOCK), tl.load(x - tl.arange(0, BLOCK)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
def test_a_launcher_may_point_into_the_view_that_a_pointer_is_a_part_of(dtype):
    def rows(x):
        y = torch.empty_like(x)
        rows_of[(4,)](x[0], y[0], 8, 8, BLOCK=8)
        return y

    def rest(x):
        y = torch.zeros_like(x)
        rows_of[(3,)](x.view(-1)[8:], y.view(-1)[8:], 8, 8, BLOCK=8)
        return y

    def wider(x):
        y = torch.empty(x.shape, dtype=x.dtype)
        rows_of[(4,)](x.view(torch.int8), y.view(torch.int8), 8 * x.itemsize, 0, BLOCK=8 * x.itemsize)
        return y

    def end(x):
        y = torch.empty(8, dtype=x.dtype)
        backwards[(1,)](x[1, 1:], y, BLOCK=8)
        return y

    for launch in (rows, rest, wider, end):
        assert findings(launch, guarded(4, 8, dtype=dtype).view) == []


def test_a_pointer_into_a_view_reaches_that_view_only():
    block = guarded(4, 6, strides=[8, 1])

    def launch(x):
        y = torch.empty(4, 8)
        rows_of[(4,)](x[0], y[0], 8, 8, BLOCK=8)
        return y

    fault = one(launch, block.view)
    assert (fault.kind, fault.argument, fault.index) == ("undefined values", "y", (6,))

    def halves(x, out):
        rows_of[(4,)](x, out, 8, 4, BLOCK=4)

    storage = torch.zeros(4, 8)
    assert findings(halves, guarded(4, 8).view, storage[:, :4]) == []
    fault = one(lambda x, left, right: rows_of[(4,)](x, left, 8, 8, BLOCK=8),
                guarded(4, 8).view, storage[:, :4], storage[:, 4:])  # fmt: skip
    assert (fault.kind, fault.argument, fault.index) == ("out of bounds", "y", (4,))


def test_a_launcher_may_have_a_wider_buffer_written():
    def launch(x):
        y = torch.empty(4, 8)[:, :5]
        rows_of[(4,)](x, y, 8, 8, BLOCK=8)
        return y

    assert findings(launch, guarded(4, 8).view) == []


@triton.jit
def last_block(x, parts, count, out, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    program = tl.program_id(0)
    tl.store(parts + program, tl.sum(tl.load(x + program * BLOCK + tl.arange(0, BLOCK)), 0))
    if tl.atomic_add(count, 1) == PROGRAMS - 1:
        tl.store(out, tl.sum(tl.load(parts + tl.arange(0, PROGRAMS)), 0))
        tl.store(count, 0)


@triton.jit
def looking_back(x, y, flags, carries, BLOCK: tl.constexpr):
    program, index = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.cumsum(tl.load(x + program * BLOCK + index), 0)
    before = 0.0
    if program > 0:
        while tl.load(flags + program - 1, volatile=True) == 0:
            pass
        before = tl.load(carries + program - 1)
    tl.store(y + program * BLOCK + index, value + before)
    tl.store(carries + program, tl.max(value, 0) + before)
    tl.atomic_xchg(flags + program, 1)


def test_programs_that_look_at_each_others_atomics_or_volatile_memory_are_in_order():
    def summed_up(x):
        parts, out, count = torch.empty(4), torch.empty(1), torch.zeros(1, dtype=torch.int32)
        last_block[(4,)](x, parts, count, out, BLOCK=8, PROGRAMS=4)
        return out

    def scanned(x):
        y, carries, flags = torch.empty_like(x), torch.empty(4), torch.zeros(4, dtype=torch.int32)
        looking_back[(4,)](x, y, flags, carries, BLOCK=8)
        return y

    for launch, expected in ((summed_up, 32.0), (scanned, 528.0)):
        execution = execute(launch, (guarded(32).view,), timeout=20)
        assert execution.findings == [] and execution.value.sum().item() == expected, execution.where()


@triton.jit
def looked_up(x, y, n, stride, HOW: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    if HOW == "hash":
        at = (index * 1103515245 + 12345) & 15
    elif HOW == "remainder":
        at = tl.abs(index * 1103515245) % 16
    elif HOW == "where":
        at = tl.where(index < n, index * stride, 0)
    else:
        at = tl.minimum(tl.abs(index * stride), 15)
    tl.store(y + index, tl.load(x + at))


@pytest.mark.parametrize(("how", "wrong"), [("hash", 0), ("where", 0), ("remainder", 1), ("minimum", 1)])
def test_lower_bits_and_what_is_not_chosen_do_not_wrap(how, wrong):
    def launch(x):
        y = torch.empty(32)
        looked_up[(1,)](x, y, 1, 2**30 + 1, HOW=how, BLOCK=32)
        return y

    assert [f.kind for f in findings(launch, guarded(16).view)] == ["offset overflow"] * wrong


@triton.jit
def masks(x, at, y, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    inside = index < n
    found = tl.load(at + index, mask=inside)
    tl.store(y + index, tl.load(x + found, mask=inside * (found >= 0), other=0.0), mask=inside)
    narrow = found.to(tl.int32)
    tl.store(y + index, tl.load(x + narrow * inside.to(tl.int32)))
    tl.store(y + index, tl.load(x + tl.where((narrow & inside) != 0, index, 0)))


def test_what_a_zero_decides_is_defined():
    def launch(x, at):
        y = torch.empty(8)
        masks[(1,)](x, at, y, 5, BLOCK=8)
        return y

    assert findings(launch, guarded(5).view, torch.arange(5)) == []


@triton.jit
def overlapping_tiles(a, b, c, M, N, K: tl.constexpr, TILE: tl.constexpr):
    """The last tiles are moved back to end where the matrix does."""
    row = tl.minimum(tl.program_id(0) * TILE, M - TILE) + tl.arange(0, TILE)
    column = tl.minimum(tl.program_id(1) * TILE, N - TILE) + tl.arange(0, TILE)
    inner = tl.arange(0, K)
    left = tl.load(a + row[:, None] * K + inner[None, :])
    right = tl.load(b + inner[:, None] * N + column[None, :])
    tl.store(c + row[:, None] * N + column[None, :], tl.dot(left, right, input_precision="ieee"))


@pytest.mark.parametrize("level", ["fast", "bitwise"])
def test_tiles_that_overlap_store_equal_values(level):
    def launch(a, b):
        c = torch.empty(50, 45)
        overlapping_tiles[(2, 2)](a, b, c, 50, 45, K=64, TILE=32)
        return c

    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(*shape, generator=generator) for shape in ((50, 64), (64, 45)))
    execution = execute(launch, (a, b), level=level)
    assert execution.outcome == "returned" and execution.findings == []
    exact, sizes = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    assert ((execution.value - exact).abs() <= 65 * 2.0**-24 * sizes).all()  # 64 products, 1 more rounding


@triton.jit
def nans(y, BITS: tl.constexpr):
    """Every program has another payload, as it may come of the order of a sum."""
    bits = tl.full((4,), BITS, tl.int32) + tl.program_id(0)
    tl.store(y + tl.arange(0, 4), bits.to(tl.float32, bitcast=True))


@pytest.mark.parametrize(("bits", "kinds"), [(0x7FC00000, []), (0x3F800000, ["race"])], ids=["NaN", "1"])
def test_one_nan_is_like_another(bits, kinds):
    def launch():
        y = torch.empty(4)
        nans[(3,)](y, BITS=bits)
        return y

    assert [fault.kind for fault in findings(launch)] == kinds


# what is wrong


@triton.jit
def shifted(x, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + index, tl.load(x + index + 1, mask=index + 1 < n, other=0.0), mask=index < n)


@pytest.mark.parametrize("programs", [2, 4])
def test_storing_what_another_program_has_read_races(programs):
    block = guarded(8 * programs)
    block.view.copy_(torch.arange(8.0 * programs))
    fault = one(lambda x: shifted[(programs,)](x, len(x), BLOCK=8), block.view)
    assert (fault.kind, fault.argument, fault.index, fault.program) == ("race", "x", (8,), (1, 0, 0))
    assert "has read" in fault.message and fault.line == line(shifted, "tl.store")
    block.view.fill_(0)
    assert findings(lambda x: shifted[(programs,)](x, len(x), BLOCK=8), block.view) == []


@triton.jit
def crowded(y, SAME: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    if SAME:
        tl.store(y + index // 4, index // 4)
    else:
        tl.store(y + index // 4, index)


def test_lanes_that_store_different_values_race():
    def launch(same, programs):
        y = torch.empty(2, dtype=torch.int32)
        crowded[(programs,)](y, SAME=same, BLOCK=8)
        return y

    for programs in (1, 3):
        fault = one(launch, False, programs)
        assert (fault.kind, fault.argument, fault.index) == (
            "race",
            "y",
            (0,),
        ) and "two lanes" in fault.message
        assert findings(launch, True, programs) == []


@triton.jit
def mixed(x, y, HOW: tl.constexpr, BLOCK: tl.constexpr):
    program, index = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + program * BLOCK + index)
    if HOW == "store first":
        if program == 0:
            tl.store(y + index, value)
        else:
            tl.atomic_add(y + index, value)
    elif HOW == "store last":
        if program == 3:
            tl.store(y + index, value)
        else:
            tl.atomic_add(y + index, value)
    elif HOW == "read":
        tl.atomic_add(y + index, value)
        tl.store(x + program * BLOCK + index, tl.load(y + index))
    else:
        tl.atomic_add(y + index, value)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("store first", "changes atomically what another program of the same launch stored"),
        ("store last", "stores to what another program of the same launch changes atomically"),
        ("read", "reads what another program of the same launch changes atomically"),
        ("atomics alone", ""),
    ],
)
def test_atomics_beside_plain_accesses_race(how, text):
    def launch(x):
        y = torch.zeros(8)
        mixed[(4,)](x, y, HOW=how, BLOCK=8)
        return y

    found = findings(launch, guarded(32).view)
    assert bool(found) == bool(text) and {fault.kind for fault in found} <= {"race"}
    assert any(text in fault.message and fault.argument == "y" for fault in found) or not text


@triton.jit
def counted(y, HOW: tl.constexpr):
    if HOW == "add":
        tl.atomic_add(y, 1)
    elif HOW == "cas":
        tl.atomic_cas(y, 0, 1)
    else:
        tl.atomic_xchg(y, 1)


@pytest.mark.parametrize(("how", "wrong"), [("add", 1), ("cas", 1), ("xchg", 0)])
@pytest.mark.parametrize("programs", [1, 3])
def test_atomics_on_memory_never_written(how, wrong, programs):
    def launch(y):
        y = torch.empty(1, dtype=torch.int32) if y is None else y
        counted[(programs,)](y, HOW=how)
        return y

    found = findings(launch, None)
    assert [fault.kind for fault in found] == ["undefined values"] * wrong
    assert all(f.argument == "y" and "never written" in f.message for f in found)
    assert findings(launch, torch.zeros(1, dtype=torch.int32)) == []
