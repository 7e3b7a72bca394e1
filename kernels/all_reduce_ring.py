"""All-reduce around a ring, in the payload's own format: ranks pass one part on and add one they receive.

The elements are cut into `world` parts of ⌈count / world⌉, the last ones shorter or empty. In step s = 0, …,
world − 2, rank r receives part (r − 1 − s) mod world from rank r − 1 and combines it with its own:

    mine = round(theirs ∘ mine)                  (float32, rounded to the payload's format at each hop)

Then rank r holds part (r + 1) mod world of the result, divides it for avg, and as many steps pass the
finished parts on as bits, so that every rank holds the same ones. A product is not offered: the contract
knows the rounding at every hop of sums only.

Cost: each rank reads and writes 2 (world − 1) / world of a shard, whatever the number of ranks.
"""

import torch
import triton
import triton.language as tl

import references
from harness import Unsupported, subject
from kernels._shards import BLOCK, copy

OPERATIONS = {"sum": 0, "avg": 0, "min": 1, "max": 2}
PASS = 3
DIVIDE = 4


@triton.jit(do_not_specialize=("world", "count", "part", "shift", "one"))
def ring_step(work_ptr, world, count, part, shift, one, OPERATION: tl.constexpr, BLOCK: tl.constexpr):
    """One step of every rank on work [world, count]: rank r works on part (r + shift) mod world.

    one: 1.0, a factor that keeps a compiler from adding in 16 bits.
    """
    FORMAT: tl.constexpr = work_ptr.dtype.element_ty
    ACC: tl.constexpr = tl.float64 if FORMAT == tl.float64 else tl.float32
    rank = tl.program_id(0).to(tl.int64)
    lane = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    i = (rank + shift) % world * part + lane
    inside = (lane < part) & (i < count)
    mine_at = work_ptr + rank * count + i
    mine = tl.load(mine_at, mask=inside, other=0.0).to(ACC)
    theirs_at = work_ptr + (rank + world - 1) % world * count + i
    theirs = tl.load(theirs_at, mask=inside, other=0.0).to(ACC)
    if OPERATION == 0:
        result = theirs * one + mine
    elif OPERATION == 1:
        result = tl.minimum(theirs, mine, propagate_nan=tl.PropagateNan.ALL)
    elif OPERATION == 2:
        result = tl.maximum(theirs, mine, propagate_nan=tl.PropagateNan.ALL)
    elif OPERATION == 3:
        result = theirs
    else:
        result = mine / world
    tl.store(mine_at, result.to(FORMAT), mask=inside)


@subject(
    references.all_reduce,
    claims={"roundings": ("hop",)},
    domain={"op": ("sum", "avg", "min", "max")},
    mutants={
        # {2, 3, 5}: MIN 5
        "min-and-max-swapped": ('"min": 1, "max": 2', '"min": 2, "max": 1'),
        # {NaN, 1}, min
        "nan-lost-in-min": (
            "tl.minimum(theirs, mine, propagate_nan=tl.PropagateNan.ALL)",
            "tl.where(theirs < mine, theirs, mine)",
        ),
        # {1, NaN}, max
        "nan-lost-in-max": (
            "tl.maximum(theirs, mine, propagate_nan=tl.PropagateNan.ALL)",
            "tl.where(theirs > mine, theirs, mine)",
        ),
        # 10 elements over 4 ranks: the last two are those of each rank
        "remainder-not-reduced": ("part = triton.cdiv(count, world)", "part = count // world"),
        # {2, 3, 5}: one of them is passed on instead of added
        "first-hop-replaces": (
            "launch(world - 1 - step, OPERATIONS[op])",
            "launch(world - 1 - step, OPERATIONS[op] if step else PASS)",
        ),
        # {2, 3, 5}: what the neighbour had of the finished part is added to it once more
        "one-step-too-many": (
            "launch(world - 1 - step, OPERATIONS[op])",
            "launch(world - 1 - step, OPERATIONS[op])\n    launch(1, OPERATIONS[op])",
        ),
        # each rank reduces all parts by itself, in an order of its own, and keeps them
        "ranks-with-different-bits": (
            "launch(world - step, PASS)",
            "work[1:] *= 1.0 + 2.0**-7 * (step == 0)",
        ),
        # rank 1 never gets part 1
        "gather-off-by-one": ("launch(world - step, PASS)", "launch(world - step - 1, PASS)"),
        # {2, 3, 5}: 10
        "average-is-a-sum": ('if op == "avg":', "if False:"),
        # divided by every rank for every part, then added up again
        "divided-before-the-last-hop": ("launch(1, DIVIDE)", "launch(0, DIVIDE)"),
        # 1 + 2^-7 in float16: hops of bfloat16
        "hop-in-bfloat16": ("result.to(FORMAT)", "result.to(tl.bfloat16).to(ACC)"),
        # an infinity: 3 · 10⁴ added three times
        "hop-in-float16": ("result.to(FORMAT)", "result.to(tl.float16).to(ACC)"),
        # shards of unlike strides
        "strides-ignored": (
            "copy(shard, work[rank])",
            "copy(shard.as_strided(shape, work[0].stride()), work[rank])",
        ),
    },
)
def all_reduce_ring(shards: list[torch.Tensor], op: str) -> list[torch.Tensor]:
    """For every rank, shards [one shape of 1 to 4 dims, any strides each] reduced by any op but a product."""
    if op not in OPERATIONS:
        raise Unsupported(f"op must be one of {', '.join(OPERATIONS)}; got {op}")
    world, count, shape = len(shards), shards[0].numel(), shards[0].shape
    work = torch.empty((world, *shape), dtype=shards[0].dtype, device=shards[0].device)
    for rank, shard in enumerate(shards):
        copy(shard, work[rank])
    if not count or world == 1:
        return list(work)
    part = triton.cdiv(count, world)
    grid = (world, triton.cdiv(part, BLOCK))

    def launch(shift: int, operation: int) -> None:
        ring_step[grid](work, world, count, part, shift, 1.0, OPERATION=operation, BLOCK=BLOCK)

    for step in range(world - 1):
        launch(world - 1 - step, OPERATIONS[op])
    if op == "avg":
        launch(1, DIVIDE)
    for step in range(world - 1):
        launch(world - step, PASS)
    return list(work)
