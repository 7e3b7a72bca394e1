"""The kernels of Triton's tutorials are right on the CPU executor, and nothing about them is found wrong."""

from __future__ import annotations

import pytest
import torch
import tutorial_kernels as kernels

from harness.executors import execute


def run(fn, *args):
    execution = execute(fn, args, timeout=30)
    assert execution.outcome == "returned", execution.where()
    assert execution.findings == []
    return execution.value


def randn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def close(got, expected, tolerance=2e-6):
    assert float((got.double() - expected.double()).abs().max()) <= tolerance * float(expected.abs().max())


def test_vector_add():
    x, y = randn(1000), randn(1000, seed=1)
    assert torch.equal(run(kernels.vector_add, x, y), x + y)


def test_softmax():
    x = randn(37, 781)
    close(run(kernels.softmax, x), torch.softmax(x.double(), 1))


@pytest.mark.parametrize("activation", ["", "leaky_relu"])
def test_matmul(activation):
    a, b = randn(70, 90, dtype=torch.float16), randn(90, 50, seed=1, dtype=torch.float16)
    expected = a.double() @ b.double()
    if activation:
        expected = torch.where(expected >= 0, expected, 0.01 * expected)
    close(run(kernels.matmul, a, b, activation), expected, 2.0**-11)


def test_dropout_keeps_about_the_share_it_should_and_is_the_same_again():
    x = randn(1000).abs() + 1
    out = run(kernels.dropout, x, 0.25, 123)
    kept = out != 0
    assert 0.7 < float(kept.double().mean()) < 0.8
    close(out[kept], x[kept] / 0.75)
    assert torch.equal(out, run(kernels.dropout, x, 0.25, 123))
    assert not torch.equal(out, run(kernels.dropout, x, 0.25, 124))


def test_layer_norm_forward_and_backward_with_locks():
    x, w, b, dy = randn(23, 150) * 2 + 1, randn(150, seed=1), randn(150, seed=2), randn(23, 150, seed=3)
    y, dx, dw, db = run(kernels.layer_norm, x, w, b, dy)
    exact = [t.double().requires_grad_() for t in (x, w, b)]
    expected = torch.nn.functional.layer_norm(exact[0], (150,), exact[1], exact[2], 1e-5)
    expected.backward(dy.double())
    close(y, expected.detach())
    for got, leaf in zip((dx, dw, db), exact, strict=True):
        close(got, leaf.grad)


@pytest.mark.parametrize("causal", [True, False])
def test_attention_forward_and_backward(causal):
    q, k, v, do = (randn(3, 77, 16, seed=seed) for seed in range(4))
    got = run(kernels.attention, q, k, v, do, causal)
    exact = [t.double().requires_grad_() for t in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*exact, is_causal=causal)
    expected.backward(do.double())
    for a, b in zip(got, (expected.detach(), *(leaf.grad for leaf in exact)), strict=True):
        close(a, b, 5e-6)


def test_grouped_gemm():
    shapes = [(40, 30, 20), (16, 16, 16), (5, 70, 33)]
    lefts = [randn(m, k, dtype=torch.float16) for m, n, k in shapes]
    rights = [randn(k, n, seed=1, dtype=torch.float16) for m, n, k in shapes]
    for got, a, b in zip(run(kernels.grouped, lefts, rights), lefts, rights, strict=True):
        close(got, a.double() @ b.double(), 2.0**-10)
