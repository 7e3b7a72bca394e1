"""One kernel launch on the CPU: bind the arguments as Triton's launcher does, then run the grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from . import compat
from .casts import convert
from .compat import core, tl
from .elementwise import numpy_type
from .handles import Handle
from .language import Language
from .storage import Region


class Launcher:
    """Runs launches through a `Language`, one program at a time."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.warps = 4
        self._kernel = ""
        self._descriptors: dict[int, Any] = {}

    def describe(self) -> str:
        """The running kernel and program, for messages."""
        return f"kernel {self._kernel!r}, program {self.language.builder.program},"

    def run(self, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        jit = compat.as_jit(kernel)
        for hook in kernel.pre_run_hooks:
            hook(*args, **kwargs)
        bound, options = _bind(jit, args, kwargs)
        size = _grid(grid(dict(bound)) if callable(grid) else grid, self.language.builder.profile.max_grid)
        builder = self.language.builder
        outer = (builder.options.debug, builder.grid, builder.program, self.warps, self._kernel)
        builder.options.debug = bool(options.get("debug") or jit.debug)
        builder.grid, self.warps, self._kernel = size, options.get("num_warps", 4), jit.fn.__name__
        try:
            body = self.language.body(jit)
            values = self._arguments(jit, bound)
            with np.errstate(all="ignore"):
                for z in range(size[2]):
                    for y in range(size[1]):
                        for x in range(size[0]):
                            builder.program = (x, y, z)
                            body(**values)
        finally:
            builder.options.debug, builder.grid, builder.program, self.warps, self._kernel = outer

    def _arguments(self, jit: Any, bound: Mapping[str, Any]) -> dict[str, Any]:
        values = {}
        for parameter in jit.params:
            value = core._unwrap_if_constexpr(bound[parameter.name])
            values[parameter.name] = value if parameter.is_constexpr else self._argument(parameter, value)
        return values

    def _argument(self, parameter: Any, value: Any) -> Any:
        """What a kernel gets for a run-time argument: pointers and numbers as scalar tensors."""
        if isinstance(value, tuple):
            parts = [self._argument(parameter, part) for part in value]
            return type(value)(*parts) if compat.is_namedtuple(value) else tuple(parts)
        if isinstance(value, compat.TensorDescriptor):
            return self._descriptor(parameter, value)
        if hasattr(value, "data_ptr"):
            return self._pointer(parameter, value)
        if not isinstance(value, bool | int | float):
            return value
        ty = compat.scalar_type(value, parameter.annotation_type)
        dtype = numpy_type(ty)
        # A Python float enters as fp32, whatever arithmetic the launcher did on it in fp64.
        exact = np.array([value], np.float64) if isinstance(value, float) else np.array([value])
        return core.tensor(Handle(convert(exact, dtype), ty), ty)

    def _pointer(self, parameter: Any, value: Any) -> Any:
        base: torch.Tensor = getattr(value, "base", value) if not isinstance(value, torch.Tensor) else value
        if base.device.type != "cpu":
            raise ValueError(
                f"argument {parameter.name!r} is on {base.device}, but kernels run on the CPU here"
            )
        region = Region(base.untyped_storage(), f"argument {parameter.name!r}")
        ty = compat.pointer_to(compat.scalar_type(value, None), const=parameter.is_const)
        return core.tensor(Handle(np.array([value.data_ptr()], np.uint64), ty, region), ty)

    def _descriptor(self, parameter: Any, value: Any) -> Any:
        def whole(number: Any) -> Any:
            return core.tensor(Handle(np.array([number], np.int64), tl.int64), tl.int64)

        made = self.language.semantic.make_tensor_descriptor(
            base=self._pointer(parameter, value.base),
            shape=[whole(size) for size in value.shape],
            strides=[*(whole(stride) for stride in value.strides[:-1]), core.constexpr(value.strides[-1])],
            block_shape=[core.constexpr(size) for size in value.block_shape],
            padding_option=value.padding,
        )
        made.handle.round_to_tf32 = getattr(value, "round_f32_to_tf32", False)
        return made


def _bind(
    jit: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The kernel's own arguments, with defaults, and the launch options."""
    own = {name: value for name, value in kwargs.items() if name in jit.signature.parameters}
    options = {name: value for name, value in kwargs.items() if name not in own}
    for name in options:
        if name not in compat.LAUNCH_OPTIONS:
            raise KeyError(f"{jit.fn.__name__} has no parameter {name!r}, and a launch no such option")
    bound = jit.signature.bind(*args, **own)
    bound.apply_defaults()
    return dict(bound.arguments), options


def _grid(grid: Any, limits: tuple[int, int, int]) -> tuple[int, int, int]:
    sizes = [int(size) for size in grid]
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"a grid has one to three sizes, got {tuple(grid)}")
    sizes += [1] * (3 - len(sizes))
    if any(size > limit or size < 0 for size, limit in zip(sizes, limits, strict=True)):
        raise ValueError(f"grid {tuple(sizes)} exceeds what a device launches, {limits}")
    return sizes[0], sizes[1], sizes[2]
