"""What was reported as a bug and is none: right as it stands, or under the claim that its author makes.

Each that needs a claim stands in ``wrong/`` too, without it: there the verdict's first line is that claim.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional

import references
from kernels import all_reduce_ring as ring
from kernels import attention as flash
from kernels import gelu as activation
from kernels import matmul_tf32 as tf32
from kernels import rope as rotation
from kernels import sum_atomic as atomics
from kernels import swiglu as gated
from quality.contracts import jensen_shannon, normalised_twice
from quality.declare import right
from quality.products import one_tile, short_accumulator

HALVES = ("float16", "bfloat16")
EIGHT = ("float8_e4m3fn", "float8_e5m2")
TF32 = {"dot": "tf32"}


@right(references.matmul, bug="C01", claims=TF32, formats=("float32",), why="TF32 is claimed")
def matmul_in_tf32(a, b):
    """A TF32 dot."""
    return tf32.matmul_tf32(a, b)


@right(references.matmul, bug="C02", claims=TF32, formats=("float32",), why="TF32 is claimed")
def matmul_of_the_default_precision(a, b):
    """tl.dot without input_precision."""
    return one_tile(a, b)


@right(references.matmul, claims={"dot": "fp8"}, formats=EIGHT, why="the accumulator of Hopper is claimed")
def matmul_of_fp8_in_13_bits(a, b):
    """The fp8 accumulator of Hopper's tensor cores."""
    return short_accumulator(a, b)


@right(normalised_twice, bug="C04")
def unit_of_unit(x):
    """A vector divided by its norm twice: the condition of the first division is not the second's fault."""
    wide = x.float()
    once = wide / wide.norm(dim=-1, keepdim=True)
    return (once / once.norm(dim=-1, keepdim=True)).to(x.dtype)


@right(references.attention, bug="C06", formats=HALVES)
def attention_in_half_precision(q, k, v, *, scale, causal, window):
    """Flash attention with probabilities in the input's format, as every one on tensor cores."""
    return flash.attention(q, k, v, scale=scale, causal=causal, window=window)


@right(references.swiglu, bug="C08")
def swiglu_fused(gate, up):
    """float32 between the operations, where eager code rounds."""
    return gated.swiglu(gate, up)


@right(references.swiglu, bug="C08", formats=HALVES, claims={"roundings": ("silu",)}, why="each call rounds")
def swiglu_of_two_calls(gate, up):
    """silu, then a product."""
    return functional.silu(gate) * up


@right(
    references.attention, bug="C11", domain={"causal": ("bottom-right",)}, why="the alignment is asked for"
)
def attention_of_more_queries_than_keys(q, k, v, *, scale, causal, window):
    """Bottom-right: the first S - T rows see no key, and are 0."""
    return flash.attention(q, k, v, scale=scale, causal=causal, window=window)


@right(references.adam, bug="C13")
def adam_of_torch(param, grad, exp_avg, exp_avg_sq, *, step, lr, beta1, beta2, eps, weight_decay, decoupled):
    """torch.optim's own step, in float64: decay times lr, eps outside the root, after the correction."""
    wide = [tensor.double().contiguous() for tensor in (param, grad, exp_avg, exp_avg_sq)]
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    wide[0].grad = wide[1]
    optimizer = kind([wide[0]], lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay)
    state = {"step": torch.tensor(float(step - 1)), "exp_avg": wide[2], "exp_avg_sq": wide[3]}
    optimizer.state[wide[0]] = state
    optimizer.step()
    for tensor, result in zip((param, exp_avg, exp_avg_sq), (wide[0], wide[2], wide[3]), strict=True):
        tensor.copy_(result)


@right(references.rope, bug="C14")
def rope_of_both_layouts(x, cos, sin, interleaved):
    """Halves or neighbours, as asked."""
    return rotation.rope(x, cos, sin, interleaved)


@right(references.addmm, bug="C15")
def addmm_of_an_unwritten_buffer(c, a, b, beta, alpha):
    """torch.addmm: beta = 0 ignores c, NaN or not."""
    return torch.addmm(c.double(), a.double(), b.double(), beta=beta, alpha=alpha).to(c.dtype)


@right(
    references.matmul, bug="C17", claims={"roundings": ("partials",)}, formats=HALVES, why="partials round"
)
def matmul_with_rounded_partials(a, b):
    """Split-K with partial products in the input's format."""
    half = a.shape[1] // 2
    parts = [(a[:, k].float() @ b[k].float()).to(a.dtype) for k in (slice(half), slice(half, None))]
    return parts[0] + parts[1]


@right(
    references.all_reduce,
    bug="C17",
    formats=HALVES,
    claims={"roundings": ("hop",)},
    domain={"op": ("sum", "avg", "min", "max")},
    why="hops round; a product is not offered",
)
def all_reduce_rounds_at_every_hop(shards, op):
    """A ring in the payload's format."""
    return ring.all_reduce_ring(shards, op)


@right(references.sum, bug="C18")
def sum_by_float_atomics(x, dim):
    """Atomic additions in whatever order the programs come."""
    return atomics.sum_atomic(x, dim)


@right(references.sum, bug="C18")
def sum_in_another_order_each_time(x, dim):
    """Bits differ from run to run, as under float atomics, and stay within the bound."""
    order = torch.randperm(x.shape[dim])
    return x.index_select(dim, order).float().sum(dim).to(x.dtype)


@right(references.softmax, bug="C19")
def softmax_with_approximate_division(x, dim):
    """A product with 1 / Σ in place of a division: 2 ulp."""
    if not x.numel():
        return torch.empty_like(x)
    e = torch.exp(x.float() - x.float().amax(dim, keepdim=True))
    return (e * (1.0 / e.sum(dim, keepdim=True))).to(x.dtype)


@right(references.gelu, bug="B100")
def gelu_by_a_bracket(x, approximate):
    """1 + tanh in float32, which cancels for negative x, as PyTorch's own: only an absolute error is asked for."""
    return activation.gelu(x, approximate)


@right(
    references.silu,
    bug="B106",
    formats=("float32", "bfloat16"),
    claims={"flush": "all"},
    why="flushing is claimed",
)
def silu_flushes_subnormal_results(x):
    """Results below the smallest normal number are 0."""
    y = functional.silu(x.double()).to(x.dtype)
    return torch.where(y.abs() < torch.finfo(x.dtype).tiny, 0.0, y)


@right(
    jensen_shannon, bug="B114", domain={"finite": True, "max_abs": 250.0}, why="log-probabilities are finite"
)
def jensen_shannon_by_logaddexp(p, q):
    """The mean of two log-probabilities by torch.logaddexp."""
    a, b = p.double(), q.double()
    middle = torch.logaddexp(a, b) - math.log(2.0)
    return (0.5 * ((a.exp() * (a - middle)).sum(-1) + (b.exp() * (b - middle)).sum(-1))).to(p.dtype)
