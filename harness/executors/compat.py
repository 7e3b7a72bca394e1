"""Where Triton's versions differ, and what is taken from its internals (3.6 to 3.9)."""

from __future__ import annotations

import functools
import inspect
import re
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDAOptions
from triton.backends.nvidia.compiler import min_dot_size as _min_dot_size
from triton.language import core, standard, target_info
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.language.semantic import TritonSemantic
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction, mangle_type
from triton.tools.tensor_descriptor import TensorDescriptor

from .faults import NotSimulated

__all__ = [
    "Autotuner",
    "InterpretedFunction",
    "JITFunction",
    "TensorDescriptor",
    "TritonSemantic",
    "core",
    "cuda_libdevice",
    "standard",
    "target_info",
    "tl",
]

LIBDEVICE_STUBS: Final = "triton.language.extra.libdevice"
"""The module of empty functions that the compiler replaces by the backend's libdevice."""

TRIED: Final = ("3.6.", "3.7.", "3.9.")
"""Versions that the tests run under. On another one `interpreter.tried` decides."""

VERSION: Final[str] = triton.__version__

LAUNCH_OPTIONS: Final = frozenset(CUDAOptions.__dataclass_fields__)
"""Keyword arguments of a launch that are not the kernel's own: num_warps, num_stages, …"""

SM_90: Final = GPUTarget("cuda", 90, 32)
"""What a kernel that asks is told that it is compiled for."""

min_dot_size: Final[Callable[[Any, Any], tuple[int, int, int]]] = _min_dot_size(None)


_converted: weakref.WeakKeyDictionary[types.FunctionType, Any] = weakref.WeakKeyDictionary()


def as_jit(kernel: Any) -> Any:
    """The JITFunction of a kernel, also of one that was decorated under TRITON_INTERPRET=1."""
    if isinstance(kernel, InterpretedFunction):
        if kernel.fn not in _converted:
            try:
                _converted[kernel.fn] = JITFunction(kernel.fn)
            except ValueError as error:
                raise NotSimulated(
                    f"the source of kernel {kernel.fn.__name__!r} cannot be read: {error}"
                ) from error
        return _converted[kernel.fn]
    if kernel.is_gluon():
        raise NotSimulated(f"{kernel.fn.__name__!r} is a Gluon kernel, which the CPU executor does not know")
    return kernel


def source_of(jit: Any) -> tuple[str, str, int]:
    """Source from ``def`` on, file, and the line of that ``def``."""
    above = next(index for index, line in enumerate(jit.raw_src) if re.match(r"\s*def\s", line))
    return jit.src, jit.fn.__code__.co_filename, jit.starting_line_number + above


def scalar_type(value: Any, annotation: str | None) -> Any:
    """Triton's type of an argument: as annotated, else int32 or int64 by size, fp32, int1, a pointer."""
    return tl.str_to_ty(annotation or mangle_type(value), None)


def pointer_to(ty: Any, *, const: bool) -> Any:
    return core.pointer_type(ty.element_ty, const=True) if const else ty


def is_namedtuple(value: object) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def unwrapped(value: Any) -> Any:
    """Triton's own unwrapping of constexprs, which makes plain tuples of named ones in 3.6."""
    if is_namedtuple(value):
        return type(value)(*map(unwrapped, value))
    return core._unwrap_if_constexpr(value)


@functools.cache
def members_with_semantic(owner: type) -> tuple[tuple[str, Any], ...]:
    """The class's own methods that need ``_semantic``, which only code compiled by Triton passes."""
    return tuple(
        (name, member)
        for name, member in vars(owner).items()
        if isinstance(member, types.FunctionType) and "_semantic" in inspect.signature(member).parameters
    )


def jit_members(owner: type) -> Iterator[tuple[str, Any]]:
    """Methods of ``tl.tensor`` that are kernels themselves: x.sum(), x.max(), …

    Where Triton was imported under TRITON_INTERPRET=1 they hide behind a plain wrapper.
    """
    for name in list(vars(owner)):
        free = getattr(standard, name, None)
        if isinstance(free, JITFunction | InterpretedFunction):
            yield name, free
