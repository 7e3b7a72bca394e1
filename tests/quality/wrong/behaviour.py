"""Functions that answer with something else than one right tensor, or not the same one twice."""

from __future__ import annotations

import sys

import numpy as np
import torch

import references
from quality.contracts import larger
from quality.declare import wrong


@wrong(references.sum, "dtype", smallest=8)
def sum_in_float64(x, dim):
    """The result keeps the accumulator's dtype."""
    return x.double().sum(dim)


@wrong(references.amax, "dtype", smallest=8)
def amax_of_bfloat16_is_float32(x, dim):
    """Another dtype for bfloat16 only."""
    return x.float().amax(dim) if x.dtype is torch.bfloat16 else x.amax(dim)


@wrong(references.softmax, "returns", smallest=8)
def softmax_returns_nothing(x, dim):
    """The result was meant to be written to an output argument."""
    torch.softmax(x, dim)


@wrong(references.softmax, "returns", smallest=8)
def softmax_returns_its_sum_too(x, dim):
    """(softmax, Σ)."""
    return torch.softmax(x.double(), dim).to(x.dtype), x.exp().sum(dim)


@wrong(references.logsumexp, "returns", smallest=8)
def logsumexp_returns_an_array(x, dim):
    """A NumPy array."""
    return np.asarray(x.double().logsumexp(dim))


@wrong(references.mean, "returns", "accuracy", smallest=2)
def mean_of_a_vector_is_a_float(x, dim):
    """.item() where the result has no axes."""
    mean = x.double().mean(dim).to(x.dtype)
    return mean.item() if mean.ndim == 0 else mean


@wrong(references.prod, "raises", smallest=0)
def product_raises_on_empty(x, dim):
    """An empty axis is a division by zero."""
    1 // x.shape[dim]
    return x.double().prod(dim).to(x.dtype)


@wrong(references.sum, "raises", smallest=8)
def sum_raises_on_bfloat16(x, dim):
    """NumPy has no bfloat16."""
    return torch.from_numpy(np.asarray(x.numpy().sum(dim, dtype=np.float64))).to(x.dtype)


@wrong(references.sum, "hangs", smallest=None, timeout=1.0)
def sum_never_ends(x, dim):
    """A spin lock that nobody releases, for rows of more than one element."""
    while x.shape[dim] > 1:
        pass
    return x.double().sum(dim).to(x.dtype)


@wrong(references.sum, "raises", smallest=8)
def sum_exits(x, dim):
    """sys.exit in a library."""
    if x.ndim == 3:
        sys.exit(0)
    return x.double().sum(dim).to(x.dtype)


@wrong(references.sum, "raises", smallest=None, domain={"max_elements": 3000})
def sum_recurses(x, dim):
    """One call for each element: too deep for long rows."""

    def total(part):
        return (
            part.select(dim, 0).double() + total(part.narrow(dim, 1, part.shape[dim] - 1))
            if part.shape[dim] > 1
            else part.double().sum(dim)
        )

    return total(x).to(x.dtype)


_PLANS: dict[object, tuple[int, ...]] = {}


@wrong(
    references.sum,
    "layout",
    "surroundings",
    "repeatable",
    "accuracy",
    "special values",
    smallest=None,
    stateful=True,
)
def sum_plan_cached_by_shape(x, dim):
    """The strides of the first call with this shape serve all others."""
    strides = _PLANS.setdefault((x.shape, dim), x.stride())
    return torch.as_strided(x, x.shape, strides).double().sum(dim).to(x.dtype)


_ANSWERS: dict[object, torch.Tensor] = {}


@wrong(
    references.softmax,
    "repeatable",
    "rows independent",
    "accuracy",
    "special values",
    "layout",
    smallest=None,
    stateful=True,
)
def softmax_answer_cached_by_address(x, dim):
    """The answer is kept for an address and a shape, whatever the contents now are."""
    key = (x.data_ptr() % 4096, x.shape, x.stride(), dim, x.dtype)
    if key not in _ANSWERS:
        _ANSWERS[key] = torch.softmax(x.double(), dim).to(x.dtype)
    return _ANSWERS[key].clone()


_BY_SHAPE: dict[object, torch.Tensor] = {}


@wrong(references.softmax, "repeatable", "accuracy", "special values", smallest=None, stateful=True)
def softmax_answer_cached_by_shape(x, dim):
    """The answer of the first call with this shape serves all others."""
    key = (tuple(x.shape), x.dtype, dim)
    if key not in _BY_SHAPE:
        _BY_SHAPE[key] = torch.softmax(x.double(), dim).to(x.dtype)
    return _BY_SHAPE[key].clone()


_CALLS = [0]


@wrong(references.amin, "repeatable", "accuracy", "special values", "written", smallest=8, stateful=True)
def amin_every_third_call(x, dim):
    """Every third call is wrong."""
    _CALLS[0] += 1
    return x.amax(dim) if _CALLS[0] % 3 == 0 else x.amin(dim)


@wrong(references.amax, "repeatable", "accuracy", "special values", smallest=8, stateful=True)
def amax_of_random_samples(x, dim):
    """Some elements are skipped at random."""
    kept = torch.rand(x.shape) < 0.9
    return torch.where(kept | x.isnan(), x, x.amin(dim, keepdim=True)).amax(dim)


@wrong(references.sum, "accuracy", "repeatable", smallest=8, stateful=True)
def sum_with_noise(x, dim):
    """A relative error of up to 1e-5, another one in each call."""
    return (x.double().sum(dim) * (1 + 1e-5 * torch.rand(1, dtype=torch.float64).item())).to(x.dtype)


@wrong(references.softmax, "accuracy", "special values", smallest=2)
def softmax_of_zeros(x, dim):
    """Zeros."""
    return torch.zeros(x.shape, dtype=x.dtype)


@wrong(references.log_softmax, "special values", bug="B138", smallest=2)
def log_softmax_of_nan(x, dim):
    """NaN everywhere."""
    return torch.full(x.shape, torch.nan, dtype=x.dtype)


@wrong(references.amax, "accuracy", "special values", smallest=2)
def amax_of_seven(x, dim):
    """7 everywhere."""
    return torch.full_like(x.sum(dim), 7.0)


@wrong(references.softmax, "accuracy", "special values", smallest=2)
def softmax_is_the_input(x, dim):
    """A copy of the input."""
    return x.clone()


@wrong(references.amax, "raises", smallest=8)
def amax_gives_up_late(x, dim):
    """Raises NotImplementedError from a helper after part of the work is done, for 4-D inputs."""
    best = x.amax(dim)
    if x.ndim == 4:
        raise ValueError(best.shape)
    return best


@wrong(larger, "shape", smallest=8)
def larger_of_outer(x, y):
    """[n, n] for vectors."""
    return torch.maximum(x[:, None], y) if x.ndim == 1 else torch.maximum(x, y)


@wrong(references.amax, "returns", "dtype", smallest=8)
def amax_with_indices(x, dim):
    """torch.max returns (values, indices)."""
    return torch.max(x, dim)


@wrong(references.sum, "accuracy", "special values", "raises", "dtype", smallest=8)
def sum_changes_default_dtype(x, dim):
    """Leaves torch's default dtype at float16."""
    torch.set_default_dtype(torch.float16)
    return (torch.ones(()) * x.half()).sum(dim).to(x.dtype)


_CONTIGUOUS: dict[object, bool] = {}


@wrong(references.mean, "layout", "accuracy", "special values", "surroundings", smallest=None)
def mean_planned_by_shape(x, dim):
    """Whether a tensor is contiguous is remembered by its shape, from the first call on."""
    plain = _CONTIGUOUS.setdefault((tuple(x.shape), dim, x.dtype), x.is_contiguous())
    if plain and x.numel():
        x = torch.as_strided(x, x.shape, torch.empty(x.shape, device="meta").stride())
    return x.double().mean(dim).to(x.dtype)


_SCRATCH: dict = {}


@wrong(references.sum, "accuracy", "special values", "dtype", smallest=None, formats=("float32", "bfloat16"))
def sum_in_scratch_of_the_first_dtype(x, dim):
    """Two partial sums, kept in a buffer that the first call has made in its dtype."""
    dtype = _SCRATCH.setdefault("dtype", x.dtype)
    half = x.shape[dim] // 2
    parts = x.double().tensor_split([half], dim)
    return (parts[0].sum(dim).to(dtype).double() + parts[1].sum(dim).to(dtype).double()).to(x.dtype)


_SQUARES: dict[object, torch.Tensor] = {}


@wrong(
    references.kmeans_assign,
    "layout",
    "rows independent",
    "repeatable",
    "accuracy",
    "surroundings",
    smallest=None,
    stateful=True,
)
def nearest_by_squares_of_before(x, codebook):
    """The squares of a codebook are kept by its address, though it is updated in place."""
    key = (codebook.data_ptr(), codebook.shape, codebook.dtype)
    squares = _SQUARES.setdefault(key, codebook.double().square().sum(1))
    return (squares - 2 * x.double() @ codebook.double().T).argmin(1)
