"""Memory and its owners: inputs stay as they were, nothing outside a view is written, results are new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import torch

from harness.checks.failure import Failure
from harness.contracts import Output
from harness.executors import Execution
from harness.memory import Block


def changed_inputs(
    blocks: Mapping[str, Block], snapshots: Mapping[str, torch.Tensor], mutated: set[str]
) -> Iterator[Failure]:
    """Arguments that were reshaped, or whose elements were written although they are no outputs."""
    for name, block in blocks.items():
        if not block.intact:
            now = f"shape {list(block.view.shape)} and strides {list(block.view.stride())}"
            yield Failure("inputs unchanged", f"argument {name} itself was changed: it now has {now}")
            continue
        changed = block.changed(snapshots[name])
        if changed and name not in mutated:
            where = tuple(changed[0])
            text = f"argument {name} was written to at {list(where)} ({len(changed)} elements)"
            yield Failure("inputs unchanged", text, where)


def written_outside(blocks: Mapping[str, Block], execution: Execution) -> Iterator[Failure]:
    """Writes outside the views of the arguments and of what the function allocated."""
    own = ((f"an allocation of shape {list(block.view.shape)}", block) for block in execution.blocks)
    for name, block in chain(blocks.items(), own):
        damage = block.damage() if block.intact else []
        if damage:
            text = f"wrote outside {name}: {len(damage)} elements, the first {_beside(damage[0], block)}"
            yield Failure("out of bounds", text)


def shared_with_arguments(
    tensors: Sequence[torch.Tensor], outputs: Sequence[Output], blocks: Mapping[str, Block]
) -> Iterator[Failure]:
    """Results that lie in an argument's memory, of outputs that are not that argument."""
    for number, (tensor, output) in enumerate(zip(tensors, outputs, strict=True)):
        if output.argument or not tensor.numel():
            continue
        for name, block in blocks.items():
            if block.holds(tensor):
                text = f"{output.name} lies in the memory of argument {name}; results must be new tensors"
                yield Failure("returns", text, output=number)


def shared_between_calls(
    first: Sequence[torch.Tensor], second: Sequence[torch.Tensor], outputs: Sequence[Output]
) -> Iterator[Failure]:
    """Results of a second call that lie in the memory of the first call's, which are still in use."""
    memory = {_address(tensor) for tensor, output in zip(first, outputs, strict=True) if _new(tensor, output)}
    for number, (tensor, output) in enumerate(zip(second, outputs, strict=True)):
        if _new(tensor, output) and _address(tensor) in memory:
            text = f"{output.name} of a second call lies in the memory of the first call's, and overwrites it"
            yield Failure("returns", f"{text}; results must be new tensors", output=number)


def _new(tensor: torch.Tensor, output: Output) -> bool:
    return not output.argument and tensor.numel() > 0


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _beside(offset: int, block: Block) -> str:
    if offset < 0:
        return f"{-offset} elements before its start"
    if offset >= block.span:
        return f"{offset - block.span + 1} elements past its end"
    return f"in a gap between its elements, at offset {offset}"


def seen_by_executor(execution: Execution, known: set[str]) -> list[Failure]:
    """What the CPU executor saw a Triton kernel do, one failure of each kind that no other check has reported.

    Elements that nobody wrote are left to the check that compares two fills.
    """
    found: dict[str, Failure] = {}
    for fault in execution.findings:
        if fault.kind not in known and fault.kind not in found and fault.kind != "written":
            where = f"{fault.line}: " if fault.line else ""
            found[fault.kind] = Failure(fault.kind, where + fault.message)  # type: ignore[arg-type]
    return list(found.values())
