"""The CPU executor at the level `bitwise` against what an H200 computed, operation by operation."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import triton

import harness

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
RECORD = BENCHMARKS / "records" / "h200-triton-3.6.0.npz"

REMAINING = {
    "binary clamp fp16",  # the sign of a NaN that is widened to fp32
}
"""Probes that differ, as docs/executor.md says."""

SINCE_3_9 = {
    # −x turns the sign of zero, and tl.cumsum of bf16 adds in fp32
    *(f"unary negative {name}" for name in ("fp16", "in fp16", "bf16", "in bf16", "fp32")),
    "scan cumsum bf16",
}
"""What Triton 3.9 compiles otherwise than 3.6, of which the record is."""


@pytest.fixture(scope="module")
def device_ops():
    spec = importlib.util.spec_from_file_location("device_ops", BENCHMARKS / "device_ops.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_recorded_operation(device_ops):
    with np.load(RECORD) as stored:
        arrays = {name: stored[name] for name in stored.files}
    recorded = {name.partition("|")[0] for name in arrays if "|" in name}
    different, compared = {}, set()
    with harness.cpu(level="bitwise"):
        for probe in device_ops.probes():
            if probe.name not in recorded:  # newer than the record
                continue
            compared.add(probe.name)
            text = device_ops.compared(probe, device_ops.bits_of(probe.run("cpu")), arrays)
            if text:
                different[probe.name] = text
    assert compared == recorded
    newer = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 9)
    assert set(different) == (REMAINING | SINCE_3_9 if newer else REMAINING), different
