"""The arguments of a launch: run-time values in registers, and a key of everything that is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from . import compat
from .casts import convert
from .compat import core, tl
from .elementwise import numpy_type
from .handles import Handle
from .memory_map import Window, element_of
from .storage import Memory
from .trace import Tracer
from .value import Value


@dataclass
class _Register:
    """A run-time scalar or pointer."""

    number: int
    ty: Any
    origin: str | None


@dataclass
class _Descriptor:
    """A descriptor made on the host."""

    base: _Register
    shape: list[_Register]
    strides: list[_Register]
    last: int
    block: tuple[int, ...]
    padding: Any
    round_to_tf32: bool


@dataclass
class Binding:
    """``key``: types and compile-time values; ``values``: what is in the first registers."""

    values: list[Value] = field(default_factory=list)
    windows: dict[str, Window] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    key: tuple[Any, ...] = ()

    def made(self, tracer: Tracer, semantic: Any) -> dict[str, Any]:
        """What the front end gets."""
        return {name: _made(value, tracer, semantic) for name, value in self.parameters.items()}


def bind(jit: Any, arguments: Mapping[str, Any], memory: Memory) -> Binding:
    binding = Binding()
    key = []
    for parameter in jit.params:
        value = arguments[parameter.name]
        if parameter.is_constexpr:
            binding.parameters[parameter.name] = value
            key.append(_frozen(value, binding.kept))
        else:
            made, part = _Binder(binding, memory, parameter).argument(value, parameter.name)
            binding.parameters[parameter.name] = made
            key.append(part)
    binding.key = tuple(key)
    return binding


class _Binder:
    def __init__(self, binding: Binding, memory: Memory, parameter: Any) -> None:
        self._binding, self._memory, self._parameter = binding, memory, parameter

    def argument(self, value: Any, name: str) -> tuple[Any, Any]:
        """A placeholder for a run-time argument and its part of the key."""
        if isinstance(value, tuple):
            parts = [self.argument(part, f"{name}[{at}]") for at, part in enumerate(value)]
            made = [part[0] for part in parts]
            key = (type(value), *(part[1] for part in parts))
            return (type(value)(*made) if compat.is_namedtuple(value) else tuple(made)), key
        if isinstance(value, compat.TensorDescriptor):
            return self._descriptor(value, name)
        if hasattr(value, "data_ptr"):
            return self._pointer(value, name)
        if not isinstance(value, bool | int | float):
            return value, _frozen(value, self._binding.kept)
        ty = compat.scalar_type(value, self._parameter.annotation_type)
        # A Python float enters as fp32, whatever arithmetic the launcher did on it in fp64.
        exact = np.array([value], np.float64) if isinstance(value, float) else np.array([value])
        return self._register(Value(convert(exact, numpy_type(ty))), ty, None), ty.name

    def _register(self, value: Value, ty: Any, origin: str | None) -> _Register:
        self._binding.values.append(value)
        return _Register(len(self._binding.values) - 1, ty, origin)

    def _pointer(self, value: Any, name: str) -> tuple[Any, Any]:
        base: torch.Tensor = getattr(value, "base", value) if not isinstance(value, torch.Tensor) else value
        if base.device.type != "cpu":
            raise ValueError(f"argument {name!r} is on {base.device}, but kernels run on the CPU here")
        region = self._memory.region(base)
        ty = compat.pointer_to(compat.scalar_type(value, None), const=self._parameter.is_const)
        element = element_of(value, base, region)
        self._binding.windows[name] = Window(name, region, base, int(value.data_ptr()))
        if element is None or numpy_type(ty.element_ty).itemsize != base.element_size():
            data = np.array([value.data_ptr()], np.uint64)
            return self._register(Value(data), ty, None), (ty.name, "by address")
        return self._register(Value(np.array([element])), ty, name), ty.name

    def _descriptor(self, value: Any, name: str) -> tuple[Any, Any]:
        def whole(number: Any) -> _Register:
            return self._register(Value(np.array([number], np.int64)), tl.int64, None)

        base, key = self._pointer(value.base, name)
        made = _Descriptor(
            base,
            [whole(size) for size in value.shape],
            [whole(stride) for stride in value.strides[:-1]],
            value.strides[-1],
            tuple(value.block_shape),
            value.padding,
            bool(getattr(value, "round_f32_to_tf32", False)),
        )
        return made, (key, made.last, made.block, str(made.padding), made.round_to_tf32)


def _made(value: Any, tracer: Tracer, semantic: Any) -> Any:
    if isinstance(value, _Register):
        return core.tensor(Handle(value.number, (), value.ty, value.origin, tracer), value.ty)
    if isinstance(value, _Descriptor):
        made = semantic.make_tensor_descriptor(
            base=_made(value.base, tracer, semantic),
            shape=[_made(size, tracer, semantic) for size in value.shape],
            strides=[
                *(_made(stride, tracer, semantic) for stride in value.strides),
                core.constexpr(value.last),
            ],
            block_shape=[core.constexpr(size) for size in value.block],
            padding_option=value.padding,
        )
        made.handle.round_to_tf32 = value.round_to_tf32
        return made
    if isinstance(value, tuple):
        parts = [_made(part, tracer, semantic) for part in value]
        return type(value)(*parts) if compat.is_namedtuple(value) else tuple(parts)
    return value


def _frozen(value: Any, kept: list[Any]) -> Any:
    """A hashable stand-in that tells 1, 1.0 and True apart; functions stand for themselves by identity."""
    if value is None or isinstance(value, bool | int | str):
        return type(value), value
    if isinstance(value, float):
        return float, value.hex()
    if isinstance(value, tuple | list):
        return (type(value), *(_frozen(part, kept) for part in value))
    if isinstance(value, compat.JITFunction | compat.InterpretedFunction):
        kept.append(value)
        return type(value), id(value)
    return type(value), value
