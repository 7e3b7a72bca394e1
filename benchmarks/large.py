"""Whole tensors of 2^31 elements and more: verdicts, and the memory that they take beyond the kernel's own tensors.

    python benchmarks/large.py --record FILE [--device cuda] [--elements N] [--seconds 280] [--only NAME …]

Each subject runs in a process of its own: a right kernel, which must be right, and one with 32-bit offsets, which
must not be. A line for each launch: its memory on the device and on the host beyond what there was before the launch,
as a share of the limit, twice the kernel's tensors plus 1 GiB. On the CPU PyTorch's functions stand for the Triton
kernels, and 10^8 elements for 2^31: no interpreter is fast enough for more.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

import harness
import references
from harness.case import shape_of
from harness.contracts import Contract
from harness.domain import domain
from harness.executors import lost
from harness.search.arguments import make_subject
from harness.search.one_format import judged
from harness.strategies import cover, whole
from harness.strategies.whole import ELEMENTS

GIB = 2**30
PROGRAMS = 2048
"""Of a sum over one row: each adds up a part of it."""


@triton.jit
def silu_elements(x_ptr, out_ptr, n, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    if WIDE:
        program = program.to(tl.int64)
    at = program * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    tl.store(out_ptr + at, (x / (1.0 + tl.exp(-x))).to(out_ptr.dtype.element_ty), mask=at < n)


@triton.jit
def softmax_rows(x_ptr, out_ptr, n, stride, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    if WIDE:
        row = row.to(tl.int64)
    x = tl.load(x_ptr + row * stride + column, mask=column < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    y = (e / tl.sum(e, 0)).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * n + column, y, mask=column < n)


@triton.jit
def sum_parts(x_ptr, part_ptr, n, blocks, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    if WIDE:
        program = program.to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for block in range(blocks):
        at = (program * blocks + block) * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(part_ptr + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def sum_of_parts(part_ptr, out_ptr, PARTS: tl.constexpr):
    total = tl.sum(tl.load(part_ptr + tl.arange(0, PARTS)), 0)
    tl.store(out_ptr, total.to(out_ptr.dtype.element_ty))


def silu(wide: bool) -> Callable[..., torch.Tensor]:
    """x·sigmoid(x), elementwise, of a contiguous tensor."""

    def run(x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        if x.numel():
            silu_elements[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), WIDE=wide, BLOCK=1024)
        return out

    return run


def softmax(wide: bool) -> Callable[..., torch.Tensor]:
    """Softmax of the rows of a contiguous matrix."""

    def run(x: torch.Tensor, dim: int) -> torch.Tensor:
        if x.ndim != 2 or dim not in (-1, 1):
            raise harness.Unsupported("rows of a matrix")
        x = x.contiguous()
        out = torch.empty_like(x)
        if x.numel():
            block = triton.next_power_of_2(x.shape[1])
            softmax_rows[(x.shape[0],)](x, out, x.shape[1], x.stride(0), WIDE=wide, BLOCK=block, num_warps=8)
        return out

    return run


def total(wide: bool) -> Callable[..., torch.Tensor]:
    """The sum of one contiguous row: PROGRAMS partial sums, then their sum."""

    def run(x: torch.Tensor, dim: int) -> torch.Tensor:
        if x.ndim != 1:
            raise harness.Unsupported("one row")
        x = x.contiguous()
        parts = torch.zeros(PROGRAMS, dtype=torch.float32, device=x.device)
        out = torch.empty((), dtype=x.dtype, device=x.device)
        blocks = triton.cdiv(x.numel(), PROGRAMS * 4096)
        if blocks:
            sum_parts[(PROGRAMS,)](x, parts, x.numel(), blocks, WIDE=wide, BLOCK=4096)
        sum_of_parts[(1,)](parts, out, PARTS=PROGRAMS)
        return out

    return run


@dataclass(frozen=True)
class Item:
    """A subject: the kernel, what stands for it on the CPU, and whether it is right."""

    make: Callable[[bool], Callable[..., torch.Tensor]]
    torch: Callable[..., torch.Tensor]
    contract: Contract
    format: str
    wide: bool = True
    claims: tuple[tuple[str, Any], ...] = ()
    domain: tuple[tuple[str, Any], ...] = ()


def _torch_sum(x: torch.Tensor, dim: int) -> torch.Tensor:
    return x.sum(dim, dtype=torch.float32).to(x.dtype)


SILU = Item(silu, torch.nn.functional.silu, references.silu, "bfloat16")
SOFTMAX = Item(softmax, torch.softmax, references.softmax, "bfloat16", domain=(("ndim", 2), ("dim", "last")))
SUM = Item(
    total, _torch_sum, references.sum, "bfloat16",
    # 256 blocks of 2^31 elements in turn, then 2^12 lanes and 2^11 parts in a tree
    claims=(("depth", 512),), domain=(("ndim", 1),),
)  # fmt: skip
ITEMS = {
    "silu": SILU,
    "softmax": SOFTMAX,
    "sum": SUM,
    "silu-fp8": replace(SILU, format="float8_e4m3fn"),
    "sum-fp8": replace(SUM, format="float8_e4m3fn"),
    "silu-int32": replace(SILU, wide=False),
    "softmax-int32": replace(SOFTMAX, wide=False),
    "sum-int32": replace(SUM, wide=False),
}


class Host:
    """The largest resident memory of this process from now on, beyond what it once was, in bytes, sampled."""

    def __init__(self, before: int) -> None:
        self.before, self.most = before, _resident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self.most = max(self.most, _resident())

    def end(self) -> int:
        self._over.set()
        self._thread.join()
        return max(self.most, _resident()) - self.before


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def launches(name: str, device: str, elements: int) -> list[dict[str, Any]]:
    """Every large launch of one subject, judged and measured."""
    item = ITEMS[name]
    function = item.make(item.wide) if device != "cpu" else item.torch
    given = domain(item.contract, dict(item.domain))
    subject = make_subject(function, item.contract, device, dict(item.claims), given, 120.0)
    small = next(iter(cover(item.contract, item.format, given)))
    judged(subject, small)
    found, resident = [], _resident()
    for case in whole(item.contract, item.format, given, elements=elements):
        if device != "cpu":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() if device != "cpu" else 0
        host, start = Host(resident), time.perf_counter()
        try:
            trial = judged(subject, case)
            failures = [f"{failure.check}: {failure.message}" for failure in trial.failures]
        except RuntimeError as error:
            if not lost():
                raise
            found.append({"sizes": str(case.sizes), "failures": [f"the CUDA context broke: {error}"[:200]]})
            return found
        seconds, on_host = time.perf_counter() - start, host.end()
        tensors = _own(item.contract, case)
        limit = 2 * tensors + GIB
        on_device = 0
        if device != "cpu" and not lost():
            on_device = max(0, torch.cuda.max_memory_allocated() - before - tensors)
        else:
            on_host = max(0, on_host - tensors) if device == "cpu" else on_host
        found.append(
            {
                "sizes": str(case.sizes),
                "elements": trial.tally.elements,
                "situations": trial.tally.situations,
                "decisive": f"{trial.tally.decisive_situations}/{trial.tally.plain_situations}",
                "largest_ratio": trial.tally.largest_ratio,
                "unbounded": trial.tally.unbounded,
                "failures": failures,
                "notes": dict(trial.tally.notes),
                "declined": dict(trial.tally.declined),
                "tensors_gib": tensors / GIB,
                "device_beyond_gib": on_device / GIB,
                "host_beyond_gib": on_host / GIB,
                "share_of_limit": max(on_device, on_host) / limit,
                "seconds": {**trial.tally.seconds, "all": seconds},
            }
        )
        if failures:
            break
    return found


def _own(contract: Contract, case: Any) -> int:
    """Bytes of the arguments and of the results of a launch."""
    at = contract.at(case.sizes)
    first = next(recipe for recipe in case.tensors.values() if recipe is not None)
    item = harness.formats.format_of(first.format).bits // 8
    shapes = [shape_of(at, case, name) for name, recipe in case.tensors.items() if recipe is not None]
    shapes += [at.shape(output.shape, case.sizes, case.scalars) for output in at.outputs]
    return sum(math.prod(shape) for shape in shapes) * item


def verdict(name: str, found: list[dict[str, Any]]) -> str:
    """Whether the harness said what it should, within the memory that it may take."""
    failed = any(launch["failures"] for launch in found)
    if not ITEMS[name].wide:
        return "caught" if failed else "MISSED"
    if failed or not found or any(launch["declined"] or "nobody" in str(launch["notes"]) for launch in found):
        return "WRONG"
    return "right" if all(launch["share_of_limit"] <= 1 for launch in found) else "TOO MUCH MEMORY"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--elements", type=int)
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument("--only", nargs="*", choices=tuple(ITEMS), default=())
    parser.add_argument("--one", choices=tuple(ITEMS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    elements = given.elements or (ELEMENTS if given.device == "cuda" else 10**8)
    if given.one:
        given.record.write_text(json.dumps(launches(given.one, given.device, elements)))
        return 0
    names = given.only or [name for name in ITEMS if given.device == "cuda" or ITEMS[name].wide]
    names = [name for name in names if given.device == "cuda" or name != "silu-fp8"]
    record: dict[str, Any] = {"machine": _machine(given.device), "elements": elements, "items": {}}
    end = time.monotonic() + given.seconds
    for name in names:
        left = end - time.monotonic()
        record["items"][name] = (
            _alone(name, given.device, elements, left) if left > 5 else {"verdict": "no time"}
        )
        given.record.write_text(json.dumps(record, indent=1) + "\n")
        _print(name, record["items"][name])
    return int(any(item["verdict"] not in ("right", "caught") for item in record["items"].values()))


def _alone(name: str, device: str, elements: int, seconds: float) -> dict[str, Any]:
    """One subject in a process of its own, which a kernel may break."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "launches.json"
        command = [sys.executable, __file__, "--one", name, "--device", device]
        command += ["--elements", str(elements), "--record", str(out)]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return {"verdict": "no time"}
        if not out.exists():
            last = run.stderr.strip().splitlines()[-12:]
            broke = any("CUDA error" in line for line in last)
            ok = broke and not ITEMS[name].wide
            return {"verdict": "caught" if ok else "CRASHED", "stderr": last, "status": run.returncode}
        found = json.loads(out.read_text())
        return {"verdict": verdict(name, found), "launches": found}


def _machine(device: str) -> dict[str, str]:
    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return {
        "device": name,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
    }


def _print(name: str, item: dict[str, Any]) -> None:
    print(f"{name}: {item['verdict']}", flush=True)
    for launch in item.get("launches", ()):
        if "seconds" in launch:
            print(
                f"  {launch['sizes']}: {launch['elements']} elements judged, largest ratio {launch['largest_ratio']:.3g}, "
                f"decisive {launch['decisive']}; beyond {launch['tensors_gib']:.2f} GiB of tensors: device "
                f"{launch['device_beyond_gib']:.2f} GiB, host {launch['host_beyond_gib']:.2f} GiB, "
                f"{launch['share_of_limit']:.0%} of the limit; {launch['seconds']['all']:.1f} s"
            )
        for failure in launch["failures"]:
            print(f"    {failure[:300]}")
        for reason in (*launch.get("notes", ()), *launch.get("declined", ())):
            print(f"    {reason}")
    for line in item.get("stderr", ()):
        print(f"    {line}")


if __name__ == "__main__":
    raise SystemExit(main())
