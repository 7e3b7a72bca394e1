"""Memory and its owners: inputs stay as they were, nothing outside a view is written, results are new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import torch

from harness.checks.failure import Failure
from harness.contracts import Output
from harness.executors import Execution
from harness.memory import Block


@dataclass(frozen=True)
class Before:
    """An argument before the call: its bits, and torch's count of writes to it."""

    bits: torch.Tensor
    version: int

    @staticmethod
    def of(block: Block) -> Before:
        """What a block's view holds now."""
        return Before(block.snapshot(), block.view._version)


def changed_inputs(
    blocks: Mapping[str, Block], before: Mapping[str, Before], mutated: set[str]
) -> Iterator[Failure]:
    """Arguments that were reshaped, or that were written, even if put back, although they are no outputs."""
    for name, block in blocks.items():
        if not block.intact:
            now = f"shape {list(block.view.shape)} and strides {list(block.view.stride())}"
            yield Failure("inputs unchanged", f"argument {name} itself was changed: it now has {now}")
            continue
        if name in mutated:
            continue
        changed = block.changed(before[name].bits)
        if changed:
            where = tuple(changed[0])
            text = f"argument {name} was written to at {list(where)} ({len(changed)} elements)"
            yield Failure("inputs unchanged", text, where)
        elif block.view._version != before[name].version and not block.damage():
            yield Failure(
                "inputs unchanged", f"argument {name} was written to (it holds the values that it had)"
            )


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
