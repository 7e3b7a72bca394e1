"""Triton's typing rules over our builder."""

from __future__ import annotations

from typing import Any

from .compat import TritonSemantic, core


class Semantic(TritonSemantic):  # type: ignore[type-arg, unused-ignore]
    """Promotion, casts and checks are Triton's own; the commonest broadcasts take a shorter way.

    A block's array has the block's shape, so that most operands can be seen to fit without building types.
    """

    def __init__(self, builder: Any) -> None:
        super().__init__(builder)
        self._types: dict[tuple[str, tuple[int, ...]], Any] = {}

    def broadcast_impl_value(self, lhs: Any, rhs: Any) -> tuple[Any, Any]:
        left, right = lhs.type.is_block(), rhs.type.is_block()
        if left and right:
            if lhs.handle.shape == rhs.handle.shape:
                return lhs, rhs
            both: tuple[Any, Any] = super().broadcast_impl_value(lhs, rhs)
            return both
        if left:
            return lhs, self._splat(rhs, lhs.handle.shape)
        return (self._splat(lhs, rhs.handle.shape), rhs) if right else (lhs, rhs)

    def _splat(self, scalar: Any, shape: tuple[int, ...]) -> Any:
        key = (scalar.dtype.name, shape)
        if key not in self._types:
            self._types[key] = core.block_type(scalar.dtype, list(shape))
        ty = self._types[key]
        return core.tensor(self.builder.create_splat(ty, scalar.handle), ty)

    def multiple_of(self, x: Any, values: Any) -> Any:
        return x

    def max_contiguous(self, x: Any, values: Any) -> Any:
        return x

    def max_constancy(self, x: Any, values: Any) -> Any:
        return x

    def _has_native_tma(self) -> bool:
        return True
