"""What a function must return: as many tensors as its contract says, of their shapes, dtypes and device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harness import formats
from harness.checks.failure import Failure
from harness.contracts import Output

_NOTHING = object()


def returned_tensors(
    value: Any, outputs: Sequence[Output], arguments: Mapping[str, Any]
) -> list[torch.Tensor] | Failure:
    """The results in the order of the outputs, or what is wrong with what was returned.

    Outputs that are arguments after the call are taken from there; lists of tensors are taken apart. A flag
    may be a Python bool.
    """
    wanted = [output for output in outputs if not output.argument]
    returned = iter(_flat(value) if wanted else [])
    names = ", ".join(output.name for output in wanted)
    changed = ", ".join(dict.fromkeys(o.name.partition("[")[0] for o in outputs if o.argument))
    words = "a dense tensor" if len(wanted) == 1 else f"{len(wanted)} tensors ({names})"
    if changed:
        words = f"{'a dense tensor, ' if len(wanted) == 1 else ''}{names}; {changed} is judged in place"
    found: list[torch.Tensor] = []
    for output in outputs:
        result = arguments[output.argument] if output.argument else next(returned, _NOTHING)
        if output.dtype == "bool" and output.shape == "":
            result = _flag(result)
        if not isinstance(result, torch.Tensor) or result.layout != torch.strided:
            return Failure("returns", f"returned {_short(value)}; the contract wants {words}")
        found.append(result)
    if next(returned, _NOTHING) is not _NOTHING:
        return Failure("returns", f"returned {_short(value)}; the contract wants {words}")
    return found


def _flag(value: Any) -> Any:
    """A flag as a bool tensor without axes: a Python bool, or any tensor of one element."""
    if isinstance(value, bool):
        return torch.tensor(value)
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return (value != 0).reshape(())
    return value


def _flat(value: Any) -> list[Any]:
    if not isinstance(value, tuple | list):
        return [value]
    return [part for item in value for part in _flat(item)]


def mismatch(
    tensor: torch.Tensor, name: str, shape: tuple[int, ...], dtypes: Sequence[str], device: str, number: int
) -> Failure | None:
    """The first of shape, dtype and device that differs from the contract."""
    if tuple(tensor.shape) != shape:
        return Failure(
            "shape", f"{name} has shape {list(tensor.shape)}, should have {list(shape)}", output=number
        )
    wanted = [
        getattr(torch, name, None) if formats.is_integer(name) else formats.format_of(name).dtype
        for name in dtypes
    ]
    if tensor.dtype not in wanted:
        words = " or ".join(map(str, wanted))
        return Failure("dtype", f"{name} has dtype {tensor.dtype}, should have {words}", output=number)
    if tensor.device.type != torch.device(device).type:
        return Failure("device", f"{name} is on {tensor.device}, should be on {device}", output=number)
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
