"""The CPU executor against Triton's own interpreter, on the same kernels in one run.

    python benchmarks/executor.py

For each kernel: milliseconds of the first launch (which includes Triton's front end) and of later ones
(which replay what it recorded), of Triton's interpreter, and the ratio of the last two. The sanitizer is on.
Triton's interpreter runs in a process of its own, since it replaces Triton when it is imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
import triton
import triton.language as tl

import harness


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    row, index = tl.program_id(0), tl.arange(0, BLOCK)
    mask = index < columns
    value = tl.load(x + row * columns + index, mask=mask, other=-float("inf"))
    value = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * columns + index, value / tl.sum(value, axis=0), mask=mask)


@triton.jit
def matmul(a, b, c, M, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K, BLOCK):
        x = tl.load(
            a + rows[:, None] * K + (k + inner)[None, :],
            mask=(rows[:, None] < M) & ((k + inner)[None, :] < K),
            other=0.0,
        )
        y = tl.load(
            b + (k + inner)[:, None] * N + columns[None, :],
            mask=((k + inner)[:, None] < K) & (columns[None, :] < N),
            other=0.0,
        )
        acc += tl.dot(x, y, input_precision="ieee")
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], acc, mask=mask)


@triton.jit
def attention(q, k, v, out, scale, S, D: tl.constexpr, BLOCK: tl.constexpr):
    """Causal; q, k, v, out [heads, S, D]."""
    block, head = tl.program_id(0), tl.program_id(1)
    rows, axis = block * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    base = head * S * D
    inside = rows[:, None] < S
    query = tl.load(q + base + rows[:, None] * D + axis[None, :], mask=inside, other=0.0)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, (block + 1) * BLOCK, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        key = tl.load(k + base + columns[None, :] * D + axis[:, None], mask=columns[None, :] < S, other=0.0)
        score = tl.dot(query, key, input_precision="ieee") * scale
        score = tl.where((columns[None, :] <= rows[:, None]) & (columns[None, :] < S), score, -float("inf"))
        new = tl.maximum(largest, tl.max(score, axis=1))
        p = tl.exp(score - new[:, None])
        shrink = tl.exp(largest - new)
        total = total * shrink + tl.sum(p, axis=1)
        value = tl.load(v + base + columns[:, None] * D + axis[None, :], mask=columns[:, None] < S, other=0.0)
        acc = acc * shrink[:, None] + tl.dot(p, value, input_precision="ieee")
        largest = new
    tl.store(out + base + rows[:, None] * D + axis[None, :], acc / total[:, None], mask=inside)


@triton.jit
def layer_norm_backward(x, dy, weight, dx, dweight, columns, eps, BLOCK: tl.constexpr):
    row, index = tl.program_id(0), tl.arange(0, BLOCK)
    mask = index < columns
    value = tl.load(x + row * columns + index, mask=mask, other=0.0)
    gradient = tl.load(dy + row * columns + index, mask=mask, other=0.0)
    w = tl.load(weight + index, mask=mask, other=0.0)
    mean = tl.sum(value, axis=0) / columns
    centred = tl.where(mask, value - mean, 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    normal = centred * inverse
    scaled = w * gradient
    a = tl.sum(normal * scaled, axis=0) / columns
    b = tl.sum(scaled, axis=0) / columns
    tl.store(dx + row * columns + index, (scaled - (normal * a + b)) * inverse, mask=mask)
    tl.atomic_add(dweight + index, gradient * normal, mask=mask)


def cases():
    """name -> (launch, outputs)"""
    torch.manual_seed(0)
    x, y = torch.randn(256, 1000), torch.empty(256, 1000)
    yield "softmax 256x1000", lambda: softmax[(256,)](x, y, 1000, BLOCK=1024), y
    a, b, c = torch.randn(200, 170), torch.randn(170, 150), torch.empty(200, 150)
    yield "matmul 200x150x170", lambda: matmul[(7, 5)](a, b, c, 200, 150, 170, BLOCK=32), c
    q, k, v = (torch.randn(16, 130, 32) for _ in range(3))
    out = torch.empty_like(q)
    yield (
        "causal attention 2x8x130x32",
        lambda: attention[(5, 16)](q, k, v, out, 32**-0.5, 130, D=32, BLOCK=32),
        out,
    )
    x2, dy, w, dx, dw = (
        torch.randn(64, 500),
        torch.randn(64, 500),
        torch.randn(500),
        torch.empty(64, 500),
        torch.zeros(500),
    )
    yield (
        "layer norm backward 64x500",
        lambda: layer_norm_backward[(64,)](x2, dy, w, dx, dw.zero_(), 500, 1e-5, BLOCK=512),
        dx,
    )
    x3, y3 = torch.randn(4, 16), torch.empty(4, 16)
    yield "softmax 4x16", lambda: softmax[(4,)](x3, y3, 16, BLOCK=16), y3


def timed(launch, seconds: float) -> tuple[float, float]:
    """Milliseconds of the first call, and the least of the later ones within ``seconds``."""
    start = time.perf_counter()
    launch()
    first = last = time.perf_counter() - start
    best, ends = first, start + seconds
    while time.perf_counter() < ends or best is first:
        start = time.perf_counter()
        launch()
        last = time.perf_counter() - start
        best = min(best, last) if best is not first else last
    return first * 1e3, best * 1e3


def main() -> None:
    if "--interpreter" in sys.argv:
        found = {name: (timed(launch, 1.0)[1], out.tolist()) for name, launch, out in cases()}
        print(json.dumps(found))
        return
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--interpreter"]
    stock = json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    print(f"Triton {triton.__version__}\n{'':30}{'first':>10}{'later':>10}{'stock':>10}   (ms){'ratio':>8}")
    with harness.cpu():
        for name, launch, out in cases():
            first, later = timed(launch, 1.0)
            milliseconds, expected = stock[name]
            difference = float((out - torch.tensor(expected)).abs().max())
            print(
                f"{name:30}{first:10.2f}{later:10.3f}{milliseconds:10.1f}{milliseconds / later:15.1f}x"
                f"   largest difference {difference:.1e}"
            )


if __name__ == "__main__":
    main()
