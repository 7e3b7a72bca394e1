"""Every kernel compiles for an H100 or H200 (sm_90), in every format and for every class of arguments.

No GPU is needed: the launches of each subject are intercepted, and what Triton would compile for them is
compiled down to PTX and machine code. The interpreter accepts much that the compiler does not (a loop
variable that changes its type, a method called on an argument that is the constant 1, exp of a float16
tile), and it hides additions in float16, which stand in the PTX.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import distributed_examples
import product_examples
import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from harness import Unsupported

KERNELS = sorted(path.stem for path in (Path(__file__).parents[1] / "kernels").glob("[!_]*.py"))
POINTERS = {
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float64: "*fp64",
    torch.float8_e4m3fn: "*fp8e4nv",
    torch.float8_e5m2: "*fp8e5",
    torch.int8: "*i8",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
HOPPER = GPUTarget("cuda", 90, 32)

# Triton compiles an argument apart where it equals 1 (it becomes a constant) or is divisible by 16.
EXAMPLES: dict[tuple[str, ...], dict[str, Any]] = {
    ("q", "k", "v", "scale", "causal", "window"): {
        "odd": lambda dtype: (
            torch.zeros(1, 7, 4, 24, dtype=dtype).transpose(1, 2),
            torch.zeros(1, 13, 2, 24, dtype=dtype).transpose(1, 2),
            torch.zeros(1, 13, 2, 40, dtype=dtype).transpose(1, 2),
            {"scale": 0.2, "causal": "bottom-right", "window": 5},
        ),
        "aligned": lambda dtype: (
            torch.zeros(1, 2, 64, 32, dtype=dtype),
            *torch.zeros(2, 1, 2, 64, 32, dtype=dtype),
            {"scale": 0.2, "causal": None, "window": None},
        ),
    },
    ("x", "dim"): {
        "odd": lambda dtype: (torch.zeros(3, 3, 1301, 5, dtype=dtype)[:, :, 1::2, ::2], 2),
        "aligned": lambda dtype: (torch.zeros(4, 1024, dtype=dtype), -1),
        "ones": lambda dtype: (torch.zeros(1, dtype=dtype), 0),
    },
    ("x", "dim", "correction"): {
        "odd": lambda dtype: (torch.zeros(3, 3, 1301, 5, dtype=dtype)[:, :, 1::2, ::2], 2, 0),
        "aligned": lambda dtype: (torch.zeros(4, 1024, dtype=dtype), -1, 1),
        "ones": lambda dtype: (torch.zeros(1, dtype=dtype), 0, 1),
    },
    ("x", "weight", "bias", "eps"): {
        "odd": lambda dtype: (_odd(dtype), _odd_vector(dtype), _odd_vector(dtype), 1e-5),
        "aligned": lambda dtype: (
            torch.zeros(4, 1024, dtype=dtype),
            *torch.zeros(2, 1024, dtype=dtype),
            1e-5,
        ),
        "absent": lambda dtype: (torch.zeros(1, dtype=dtype), None, None, 1e-5),
    },
    ("x", "weight", "eps"): {
        "odd": lambda dtype: (_odd(dtype), _odd_vector(dtype), 1e-5),
        "aligned": lambda dtype: (torch.zeros(4, 1024, dtype=dtype), torch.zeros(1024, dtype=dtype), 1e-5),
        "absent": lambda dtype: (torch.zeros(1, dtype=dtype), None, 1e-5),
    },
    ("x", "residual", "weight", "eps"): {
        "odd": lambda dtype: (_odd(dtype), _odd(dtype), _odd_vector(dtype), 1e-5),
        "aligned": lambda dtype: (
            *torch.zeros(2, 4, 1024, dtype=dtype),
            torch.zeros(1024, dtype=dtype),
            1e-5,
        ),
        "absent": lambda dtype: (*torch.zeros(2, 1, dtype=dtype), None, 1e-5),
    },
    ("x", "num_groups", "weight", "bias", "eps"): {
        "odd": lambda dtype: (
            torch.zeros(3, 6, 21, 5, dtype=dtype)[:, :, 1::2, ::2],
            3,
            *torch.zeros(2, 6, dtype=dtype),
            1e-5,
        ),
        "aligned": lambda dtype: (
            torch.zeros(4, 32, 16, 16, dtype=dtype),
            2,
            *torch.zeros(2, 32, dtype=dtype),
            1e-5,
        ),
        "absent": lambda dtype: (torch.zeros(1, 1, dtype=dtype), 1, None, None, 1e-5),
    },
    ("x", "approximate"): {
        "odd": lambda dtype: (_odd(dtype), "none"),
        "aligned": lambda dtype: (torch.zeros(4, 1024, dtype=dtype), "tanh"),
    },
    ("x",): {
        "odd": lambda dtype: (_odd(dtype),),
        "aligned": lambda dtype: (torch.zeros(4, 1024, dtype=dtype),),
    },
    ("x", "cap"): {
        "odd": lambda dtype: (_odd(dtype), 30.0),
        "aligned": lambda dtype: (torch.zeros(4, 1024, dtype=dtype), 1.0),
    },
    ("gate", "up"): {
        "odd": lambda dtype: (_odd(dtype), torch.zeros(3, 3, 7, 650, dtype=dtype)),
        "aligned": lambda dtype: tuple(torch.zeros(2, 4, 1024, dtype=dtype)),
    },
    ("x", "cos", "sin", "interleaved"): {
        "odd": lambda dtype: (
            torch.zeros(2, 3, 7, 74, dtype=dtype)[:, :, ::2, 1::2][..., :36],
            *torch.zeros(2, 4, 37, dtype=dtype)[..., 1::2],
            False,
        ),
        "interleaved": lambda dtype: (
            torch.zeros(1, 4, 16, 64, dtype=dtype),
            *torch.zeros(2, 16, 32, dtype=dtype),
            True,
        ),
    },
    ("logits", "target", "ignore_index", "reduction"): {
        "odd": lambda dtype: (
            torch.zeros(7, 1301, dtype=dtype)[:, 1::2],
            torch.zeros(14, dtype=torch.int64)[::2],
            1,
            "mean",
        ),
        "aligned": lambda dtype: (
            torch.zeros(16, 1024, dtype=dtype),
            torch.zeros(16, dtype=torch.int64),
            -100,
            "sum",
        ),
        "none": lambda dtype: (
            torch.zeros(16, 1024, dtype=dtype),
            torch.zeros(16, dtype=torch.int64),
            -100,
            "none",
        ),
    },
}


def _odd(dtype: torch.dtype) -> torch.Tensor:
    """[3, 3, 7, 650], no stride of which is divisible by 16."""
    return torch.zeros(3, 3, 15, 1301, dtype=dtype)[:, :, 1::2, 1::2]


def _odd_vector(dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(1301, dtype=dtype)[1::2]


ROUNDED_SUMS = ("add_rms_norm", "cumsum")
"""Kernels that round float32 sums of two 16-bit numbers to 16 bits at once: the compiler may add in 16 bits.

Both are the same number, since float32 has more than twice the precision (Figueroa 1995).
"""

LOW_PRECISION = re.compile(r"\b(?:add|sub|mul|fma)(?:\.\w+)*\.b?f16(?:x2)?\b")


def compile_launch(kernel: JITFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The PTX of `kernel[grid](*args, **kwargs)` for HOPPER."""
    values = dict(zip(kernel.arg_names, args, strict=False))
    values |= {name: kwargs.pop(name) for name in list(kwargs) if name in kernel.arg_names}
    assert list(values) == list(kernel.arg_names), f"{kernel.__name__} was launched with {list(values)}"
    signature, constants, attributes = {}, {}, {}
    for index, parameter in enumerate(kernel.params):
        value = values[parameter.name]
        specialised = not parameter.is_constexpr and not parameter.do_not_specialize
        if parameter.is_constexpr or (specialised and isinstance(value, int) and value == 1):
            signature[parameter.name], constants[parameter.name] = "constexpr", value
            continue
        if isinstance(value, torch.Tensor):
            signature[parameter.name] = "*i64" if value.dtype == torch.int64 else POINTERS[value.dtype]
        elif isinstance(value, float):
            signature[parameter.name] = "fp32"
        else:
            assert type(value) is int, f"{parameter.name} is {value!r}"
            signature[parameter.name] = "i32" if abs(value) < 2**31 else "i64"
        address = value.data_ptr() if isinstance(value, torch.Tensor) else value
        if specialised and isinstance(address, int) and address % 16 == 0:
            attributes[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, constants, attributes)
    return str(triton.compile(source, target=HOPPER, options=kwargs).asm["ptx"])


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The PTX of every launch made during the test; none of them runs."""
    compiled: list[str] = []

    def run(kernel: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        compiled.append(compile_launch(kernel, args, kwargs))

    monkeypatch.setattr(JITFunction, "run", run)
    return compiled


def _launcher(name: str) -> Any:
    return getattr(importlib.import_module(f"kernels.{name}"), name)


CASES = [
    pytest.param(name, getattr(torch, fmt), id=f"{name}-{fmt}")
    for name in KERNELS
    for fmt in dict.fromkeys((*_launcher(name).__subject__.dtypes, "float64"))
]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_compiles_for_sm_90(name: str, dtype: torch.dtype, launches: list[str]) -> None:
    launcher = _launcher(name)
    parameters = tuple(inspect.signature(launcher).parameters)
    known = EXAMPLES | product_examples.EXAMPLES | distributed_examples.EXAMPLES
    examples = known.get((name,)) or known.get(parameters)
    assert examples, f"add arguments for {parameters} to EXAMPLES"
    for which, arguments in examples.items():
        before = len(launches)
        given = arguments(dtype)
        *positional, keywords = given if isinstance(given[-1], dict) else (*given, {})
        try:
            launcher(*positional, **keywords)
        except Unsupported as reason:
            pytest.skip(str(reason))
        assert len(launches) > before, f"{which}: nothing was launched"
    for ptx in launches:
        assert ".target sm_90" in ptx
        if name in ROUNDED_SUMS:
            continue
        assert not (found := LOW_PRECISION.findall(ptx)), f"arithmetic in a 16-bit format: {found}"
