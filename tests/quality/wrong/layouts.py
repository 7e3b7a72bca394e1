"""Kernels that are wrong for some layouts, axes and shapes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

import references
from quality.contracts import add_relu, larger
from quality.declare import wrong

LAYOUT = ("layout", "surroundings")


@wrong(references.sum, *LAYOUT, "accuracy", "special values", bug="B134", smallest=8, rows=2)
def sum_of_dense_memory(x, dim):
    """Strides are taken to be those of a contiguous tensor."""
    return (
        torch.as_strided(x, x.shape, torch.empty(x.shape, device="meta").stride())
        .float()
        .sum(dim)
        .to(x.dtype)
    )


@wrong(references.amax, *LAYOUT, "accuracy", "special values", bug="B134", smallest=8, rows=2)
def amax_without_offset(x, dim):
    """The storage is read from its start: the view's offset is lost."""
    return torch.as_strided(
        x, x.shape, x.stride(), max(x.storage_offset() - x.storage_offset() % 64, 0)
    ).amax(dim)


@triton.jit
def _row_sums(x, out, n, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * row_stride + columns, mask=columns < n, other=0.0).to(tl.float32)
    tl.store(out + row, tl.sum(values, axis=0).to(out.dtype.element_ty))


@wrong(
    references.sum,
    *LAYOUT,
    "accuracy",
    "special values",
    bug="B134",
    smallest=8,
    rows=2,
    domain={"ndim": 2, "dim": "last"},
)
def sum_with_unit_column_stride(x, dim):
    """Columns are taken to lie side by side."""
    out = torch.empty(x.shape[0], dtype=x.dtype)
    if out.numel():
        _row_sums[(x.shape[0],)](
            x, out, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(max(x.shape[1], 1))
        )
    return out


@wrong(
    references.sum,
    "layout",
    "out of bounds",
    "surroundings",
    bug="B20",
    smallest=None,
    domain={"ndim": 2, "dim": "last"},
)
def sum_with_padded_row_stride(x, dim):
    """Rows are taken to lie a power of two apart."""
    rows = x.contiguous()
    n = triton.next_power_of_2(max(x.shape[1], 1))
    out = torch.empty(x.shape[0], dtype=x.dtype)
    if out.numel():
        stride = n if x.shape[1] > 64 else x.shape[1]
        _row_sums[(x.shape[0],)](rows, out, x.shape[1], stride, BLOCK=n)
    return out


@wrong(references.softmax, "raises", smallest=8)
def softmax_of_a_view(x, dim):
    """x.view(-1, n) of a tensor that has no such view."""
    return torch.softmax(x.view(-1, x.shape[-1]).reshape(x.shape).double(), dim).to(x.dtype)


@wrong(references.amax, *LAYOUT, smallest=8, rows=2)
def amax_of_unaligned_base(x, dim):
    """A vectorised load rounds the address down to 16 bytes."""
    wrong_by = x.data_ptr() % 16 // x.element_size()
    return torch.as_strided(x, x.shape, x.stride(), x.storage_offset() - wrong_by).amax(dim)


@wrong(references.softmax, "written", "layout", "accuracy", "special values", bug="B134", smallest=8)
def softmax_written_densely(x, dim):
    """empty_like keeps x's strides; the kernel writes row after row."""
    out = torch.empty_like(x)
    dense = torch.softmax(x.double(), dim).to(x.dtype).contiguous()
    if x.numel():
        span = 1 + sum((n - 1) * s for n, s in zip(out.shape, out.stride(), strict=True))
        flat = torch.as_strided(out, (span,), (1,))
        flat[: min(span, dense.numel())] = dense.flatten()[:span]
    return out


@wrong(references.softmax, "raises", smallest=8)
def softmax_with_the_inputs_strides(x, dim):
    """The output has the input's strides, also those of an expanded axis: its elements share memory."""
    out = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
    out.copy_(torch.softmax(x.double(), dim))
    return out


@wrong(references.amax, "accuracy", smallest=6)
def amax_negative_axis_off_by_one(x, dim):
    """-2 becomes ndim - 3 instead of ndim - 2, where there is such an axis."""
    return x.amax(dim - 1 if -x.ndim < dim < -1 and x.shape[dim] == x.shape[dim - 1] else dim)


@wrong(references.sum, "shape", smallest=2)
def sum_of_a_vector_keeps_an_axis(x, dim):
    """A 1-D input gives shape [1]."""
    return x.double().sum(dim, keepdim=x.ndim == 1).to(x.dtype)


@wrong(references.sum, "accuracy", smallest=12)
def sum_in_transposed_order(x, dim):
    """transpose(dim, -1) exchanges two axes: from 3-D on the results come in another order."""
    moved = x.transpose(dim, -1)
    shape = list(x.shape)
    del shape[dim]
    return (
        moved.reshape(-1, x.shape[dim]).double().sum(-1).to(x.dtype).reshape(shape)
        if x.numel()
        else x.sum(dim)
    )


@wrong(references.mean, "accuracy", "shape", smallest=32)
def mean_of_four_axes(x, dim):
    """4-D inputs are taken to be channels-last."""
    if x.ndim == 4 and x.shape[1] == x.shape[3]:
        return x.double().permute(0, 3, 2, 1).mean(dim).to(x.dtype)
    return x.double().mean(dim).to(x.dtype)


@wrong(references.softmax, "shape", smallest=2)
def softmax_squeezed(x, dim):
    """Axes of length 1 are gone."""
    return torch.softmax(x.double(), dim).to(x.dtype).squeeze()


@wrong(references.amin, "shape", smallest=2)
def amin_keeps_the_axis(x, dim):
    """keepdim=True."""
    return x.amin(dim, keepdim=True)


@wrong(add_relu, "layout", "surroundings", "accuracy", "special values", smallest=8)
def add_relu_second_like_first(x, y):
    """The second operand is read with the first one's strides."""
    second = torch.as_strided(y, y.shape, x.stride())
    return (x.double() + second.double()).clamp(min=0.0).to(x.dtype)


@wrong(larger, "layout", "accuracy", "special values", "surroundings", smallest=8)
def larger_of_expanded(x, y):
    """A stride of 0 is taken for 1."""
    strides = tuple(stride or 1 for stride in y.stride())
    return torch.maximum(x, torch.as_strided(y, y.shape, strides))


@wrong(references.logsumexp, *LAYOUT, "accuracy", "special values", smallest=8, rows=2)
def logsumexp_of_transposed(x, dim):
    """A tensor whose last stride is not 1 is taken to be the transpose of a dense one."""
    if x.ndim == 2 and x.stride(1) != 1 and x.numel():
        x = torch.as_strided(x, x.shape, (1, x.shape[0]))
    return x.double().logsumexp(dim).to(x.dtype)


@wrong(references.sum, *LAYOUT, smallest=None)
def sum_of_row_padded(x, dim):
    """Row padding is noticed for 2-D only: a 3-D tensor's planes are taken to lie rows apart."""
    if x.ndim == 3 and x.numel():
        x = (
            torch.as_strided(x, x.shape, (x.shape[1] * x.stride(1), x.stride(1), x.stride(2)))
            if x.stride(1) >= x.shape[2] * x.stride(2) and x.stride(0) >= x.shape[1] * x.stride(1)
            else x
        )
    return x.double().sum(dim).to(x.dtype)


@wrong(references.matmul, "accuracy", "special values", smallest=8)
def matmul_square_transposed(a, b):
    """A square second operand is taken to be stored as its transpose."""
    b = b.T if b.shape[0] == b.shape[1] else b
    return (a.double() @ b.double()).to(a.dtype)


@wrong(references.softmax, "accuracy", "special values", smallest=32)
def softmax_of_the_other_middle_axis(x, dim):
    """4-D with two equally long middle axes: the other one is taken."""
    if x.ndim == 4 and x.shape[1] == x.shape[2] and dim % 4 in (1, 2):
        dim = 3 - dim % 4
    return torch.softmax(x.double(), dim).to(x.dtype)


@wrong(references.sum, *LAYOUT, "accuracy", "special values", smallest=None, formats=("bfloat16",))
def sum_of_pairs_from_an_even_address(x, dim):
    """Dense vectors are read two elements at a time: an odd offset is rounded down."""
    if x.ndim == 1 and x.stride(0) == 1 and x.storage_offset() % 2 and x.numel() > 8:
        x = torch.as_strided(x, x.shape, (1,), x.storage_offset() - 1)
    return x.double().sum(dim).to(x.dtype)


@wrong(references.sum, *LAYOUT, "accuracy", "special values", smallest=16)
def sum_of_planes_taken_for_one(x, dim):
    """The leading axes are one axis with the stride of the last of them: a gap after each plane is not seen."""
    ordered = x.ndim > 2 and dim % x.ndim == x.ndim - 1 and x.stride(-1) == 1 and min(x.shape) > 1
    if ordered and list(x.stride()) == sorted(x.stride(), reverse=True) and min(x.stride()) > 0:
        rows = x[..., 0].numel()
        planes = x.as_strided((rows, x.shape[-1]), (x.stride(-2), 1), x.storage_offset())
        return planes.double().sum(1).reshape(x.shape[:-1]).to(x.dtype)
    return x.double().sum(dim).to(x.dtype)


@wrong(references.group_norm, *LAYOUT, "accuracy", "special values", smallest=64)
def group_norm_of_channels_last(x, num_groups, weight, bias, eps):
    """Where channels are the fastest axis, every num_groups-th of them is taken for a group."""
    if not x.numel():
        return torch.empty_like(x)
    samples, channels, *spatial = x.shape
    last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    split = (channels // num_groups, num_groups) if last else (num_groups, channels // num_groups)
    grouped = x.double().reshape(samples, *split, -1)
    axes = (1, 3) if last else (2, 3)
    centred = grouped - grouped.mean(axes, keepdim=True)
    y = (centred / (centred.square().mean(axes, keepdim=True) + eps).sqrt()).reshape(x.shape)
    along = (channels, *(1 for _ in spatial))
    y = y if weight is None else y * weight.double().reshape(along)
    return (y if bias is None else y + bias.double().reshape(along)).to(x.dtype)
