"""One kernel launch on the CPU: bind the arguments as Triton's launcher does, then run the grid."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import compat
from .atomics import apply_deferred
from .binding import Binding, bind
from .context import Context, Findings
from .engine import Run, located
from .faults import OrderMatters, StepLimit
from .handles import Handle
from .language import Language
from .storage import Memory
from .trace import Tracer, Tree
from .waiting import Waits

TOGETHER = 1 << 18
"""Elements of the largest block, over all programs that run at once."""
MOST_REGISTERS = 1 << 19
"""A tree that has grown beyond this many values is dropped after the launch."""


class Launcher:
    """Runs launches through a `Language`, as many programs at once as memory allows."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.together = TOGETHER
        self._trees: weakref.WeakKeyDictionary[Any, dict[Any, Tree]] = weakref.WeakKeyDictionary()

    def run(
        self,
        kernel: Any,
        grid: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        memory: Memory,
        fill: str,
        findings: Findings,
    ) -> None:
        jit = compat.as_jit(kernel)
        for hook in kernel.pre_run_hooks:
            hook(*args, **kwargs)
        builder = self.language.builder
        own, options = _arguments(jit, args, kwargs)
        size = _grid(grid(dict(own)) if callable(grid) else grid, builder.profile.max_grid)
        programs = math.prod(size)
        if not programs:
            return
        outer = (builder.options.debug, builder.warps)
        builder.options.debug = bool(options.get("debug") or jit.debug)
        builder.options.num_warps = options.get("num_warps", 4)
        try:
            binding = bind(jit, own, memory)
            key = (binding.key, builder.warps, builder.options.debug, builder.profile, jit.src)
            tree = self._tree(jit, key, binding)
            context = Context(jit.fn.__name__, size, binding.windows, memory, fill, findings)
            with np.errstate(all="ignore"):
                _Launch(self, jit, tree, binding, context, programs).run()
        finally:
            builder.options.debug, builder.options.num_warps = outer

    def _tree(self, jit: Any, key: Any, binding: Binding) -> Tree:
        trees = self._trees.setdefault(jit.fn, {})
        try:
            tree = trees.get(key)
        except TypeError:  # a compile-time value that cannot be hashed
            return Tree(len(binding.values), binding.kept)
        if tree is None or tree.registers > MOST_REGISTERS:
            tree = trees[key] = Tree(len(binding.values), binding.kept)
        return tree


class _Launch:
    """The programs of one launch, together or one after the other."""

    def __init__(
        self, launcher: Launcher, jit: Any, tree: Tree, binding: Binding, context: Context, programs: int
    ) -> None:
        self._launcher, self._language, self._jit = launcher, launcher.language, jit
        self._tree, self._binding, self._context, self._programs = tree, binding, context, programs

    def run(self) -> None:
        context, findings = self._context, self._context.findings
        if self._programs > 1 and not self._tree.sequential:
            mark = findings.mark()
            try:
                self._together()
            except OrderMatters:
                self._tree.sequential = True
            except Exception as error:
                # Run again to find which program it would have been, and what the others had done by then.
                if context.memory is None:
                    raise error
            else:
                return
            context.rewind()
            findings.back_to(mark)
        context.alone = True
        context.watch(self._stored() if self._programs > 1 else set())
        waiting = []
        for program in range(self._programs):
            run = self._new()
            try:
                run.all(np.array([program]), self._binding.values)
            except Waits:
                waiting.append(run)
        self._wait(waiting)

    def _wait(self, waiting: list[Run]) -> None:
        """Programs that wait for others take turns as long as memory changes."""
        while waiting:
            before, line = self._context.version, ""
            left = []
            for run in waiting:
                try:
                    run.go_on()
                except Waits as wait:
                    left.append(run)
                    line = str(wait)
            if len(left) == len(waiting) and self._context.version == before:
                raise located(StepLimit("a loop waits for what no program does"), line)
            waiting = left

    def _together(self) -> None:
        context, tree = self._context, self._tree
        # The first program goes ahead and shows how large the blocks are.
        start = 0
        while start < self._programs:
            count = max(1, self._launcher.together // tree.largest) if tree.traced else 1
            context.watch(self._stored() if tree.traced else None)
            lanes = np.arange(start, min(self._programs, start + count))
            self._new().all(lanes, self._binding.values)
            apply_deferred(context)
            start += count

    def _stored(self) -> set[int] | None:
        """The regions that the kernel is known to write; None where they may be any."""
        stored = self._tree.stored
        if None in stored:
            return None
        return {id(self._binding.windows[origin].region) for origin in stored if origin is not None}

    def _new(self) -> Run:
        return Run(self._tree, self._front, self._language.line, self._context)

    def _front(self, tracer: Tracer) -> tuple[Handle, ...]:
        with self._language.recording(tracer):
            body = self._language.body(self._jit)
            body(**self._binding.made(tracer, self._language.semantic))
        return ()


def _arguments(
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
    return {name: compat.unwrapped(value) for name, value in bound.arguments.items()}, options


def _grid(grid: Any, limits: tuple[int, int, int]) -> tuple[int, int, int]:
    sizes = [int(size) for size in grid]
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"a grid has one to three sizes, got {tuple(grid)}")
    sizes += [1] * (3 - len(sizes))
    if any(size > limit or size < 0 for size, limit in zip(sizes, limits, strict=True)):
        raise ValueError(f"grid {tuple(sizes)} exceeds what a device launches, {limits}")
    return sizes[0], sizes[1], sizes[2]
