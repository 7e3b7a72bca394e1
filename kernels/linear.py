"""A linear layer with its bias and activation in the epilogue: out = f(x @ weight.T + bias).

    acc += x[tile_m, i : i + BLOCK_K] @ weight[tile_n, i : i + BLOCK_K].T      (float32; float64 for float64)
    out  = f(acc + bias)                                                        (rounded to x's format)

    f:  relu, NaN staying NaN;  silu z / (1 + exp(−z));  gelu z (1 + erf(z / √2)) / 2

The rows of x [..., I] need not lie evenly: their offsets come from three sizes and strides.

Cost: 2 operations for each row, input and output; nothing is written but the result.
"""

import torch
import triton
import triton.language as tl

import references
from harness import subject
from kernels._launch import SIZES, row_offset, rows_of
from kernels._tiles import tile


@triton.jit(do_not_specialize=(*SIZES, "columns"))
def linear_tiles(
    x_ptr, weight_ptr, bias_ptr, out_ptr, rows, n, size1, size2, stride0, stride1, stride2, step,
    columns, stride_wo, stride_wi, stride_b,
    BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    ACC: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = x_ptr + row_offset(row, size1, size2, stride0, stride1, stride2)
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, n, BLOCK_K):
        i = start + tl.arange(0, BLOCK_K).to(tl.int64)
        x_inside = (row < rows)[:, None] & (i < n)[None, :]
        w_inside = (i < n)[:, None] & (column < columns)[None, :]
        x = tl.load(first[:, None] + i[None, :] * step, mask=x_inside, other=0.0)
        w = tl.load(
            weight_ptr + column[None, :] * stride_wo + i[:, None] * stride_wi, mask=w_inside, other=0.0
        )
        acc = tl.dot(x, w, acc, input_precision="ieee", out_dtype=ACC)
    if BIAS:
        acc += tl.load(bias_ptr + column * stride_b, mask=column < columns, other=0.0).to(ACC)[None, :]
    if ACTIVATION == "relu":
        acc = tl.where(acc < 0, 0.0, acc)
    if ACTIVATION == "silu":
        acc = acc / (1.0 + tl.exp(-acc))
    if ACTIVATION == "gelu":
        acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    tl.store(out_ptr + row[:, None] * columns + column[None, :], acc, mask=inside)


@subject(
    references.linear,
    mutants={
        # bias 1
        "bias-lost": ("BIAS=bias is not None", "BIAS=False"),
        # bias [1, 2]: of the first output for all
        "first-bias-for-all": ("column * stride_b, mask", "column * 0, mask"),
        # bias[::2]
        "unit-stride-of-bias": ("column * stride_b, mask", "column, mask"),
        # NaN
        "relu-drops-nan": ("tl.where(acc < 0, 0.0, acc)", "tl.where(acc > 0, acc, 0.0)"),
        # [1] @ [1] + 1, gelu: 1.95450 for 1.95460
        "gelu-by-tanh": (
            "(1.0 + tl.erf(acc * 0.7071067811865476))",
            "(2.0 - 2.0 / (1.0 + tl.exp(1.5957691216 * (acc + 0.044715 * acc * acc * acc))))",
        ),
        # [1] @ [1], silu
        "silu-without-minus": ("tl.exp(-acc)", "tl.exp(acc)"),
        # float16: 1025 · 1.5 is rounded, then relu
        "product-rounded-before-bias": (
            "    if BIAS:\n",
            "    acc = acc.to(out_ptr.dtype.element_ty).to(ACC)\n    if BIAS:\n",
        ),
        # I = 17: 0 · NaN
        "i-unmasked-in-weight": (
            "(i < n)[:, None] & (column < columns)[None, :]",
            "(column < columns)[None, :]",
        ),
        # weight (3, 2) contiguous
        "weight-not-transposed": (
            "column[None, :] * stride_wo + i[:, None] * stride_wi",
            "column[None, :] * stride_wi + i[:, None] * stride_wo",
        ),
        # 1 + 2^-10 of all ones
        "tf32": ('"ieee"', '"tf32"'),
        # x transposed in its leading axes
        "contiguous-rows": ("row_offset(row, size1, size2, stride0, stride1, stride2)", "row * n"),
        # I = 0: the bias alone is not written
        "nothing-for-i-0": ("if out.numel():", "if out.numel() and x.shape[-1]:"),
    },
)
def linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str | None
) -> torch.Tensor:
    """activation(x [..., I] @ weight [O, I].T + bias), bias [O] or None, any strides.

    activation: None, "gelu", "silu" or "relu".
    """
    view = rows_of(x, -1)
    columns = weight.shape[0]
    out = torch.empty((*view.shape, columns), dtype=x.dtype, device=x.device)
    if out.numel():
        block_m, block_n, block_k = tile(view.rows, columns, view.n)
        grid = (triton.cdiv(view.rows, block_m), triton.cdiv(columns, block_n))
        linear_tiles[grid](
            x, weight, x if bias is None else bias, out, *view.arguments,
            columns, *weight.stride(), 0 if bias is None else bias.stride(0),
            BIAS=bias is not None, ACTIVATION=activation,
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        )  # fmt: skip
    return out
