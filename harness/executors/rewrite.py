"""Turns a kernel's source into a Python function that means what Triton's compiler makes of it.

Python runs the control flow; five things differ from Python and go through a hook (`Hooks`):

- every call, since a builtin of ``tl`` needs its semantics, a ``@triton.jit`` function is inlined, and
  ``range``, ``min``, ``max``, ``print`` have their own meaning;
- every assignment: a number becomes a scalar tensor (``x = 0.0`` is fp32), unless annotated ``tl.constexpr``;
- conditions: a block of several elements is none, and a ``while`` may wait for ever;
- ``and``, ``or``, ``not``: elementwise on tensors, short-circuit on compile-time values;
- ``assert``: on the device, and only in debug mode.

The function keeps the kernel's globals, closure, file and line numbers.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Callable
from typing import Any, Protocol

from . import compat
from .faults import NotSimulated

_PREFIX = "__harness_"


class Hooks(Protocol):
    """What the rewritten code calls; each method's name is its name in the code, after a prefix."""

    def call(self, function: Any) -> Any: ...
    def bind(self, value: Any) -> Any: ...
    def static(self, value: Any) -> Any: ...
    def truth(self, value: Any) -> bool: ...
    def again(self, value: Any) -> bool: ...
    def negation(self, value: Any) -> Any: ...
    def conjunction(self, *operands: Callable[[], Any]) -> Any: ...
    def disjunction(self, *operands: Callable[[], Any]) -> Any: ...
    def assertion(self, condition: Callable[[], Any], message: Callable[[], Any]) -> None: ...


_HOOKS = ("call", "bind", "static", "truth", "again", "negation", "conjunction", "disjunction", "assertion")


def rewrite(jit: Any, hooks: Hooks) -> Callable[..., Any]:
    """The kernel as a Python function that goes through ``hooks``."""
    source, filename, line = compat.source_of(jit)
    tree = ast.parse(source)
    kernel = tree.body[0]
    if not isinstance(kernel, ast.FunctionDef):
        raise NotSimulated(f"the source of {jit.fn.__name__!r} does not start with def")
    original: types.FunctionType = jit.fn
    free = original.__code__.co_freevars
    cells = dict(zip(free, original.__closure__ or (), strict=True))
    cells |= {_PREFIX + name: types.CellType(getattr(hooks, name)) for name in _HOOKS}

    factory = ast.FunctionDef(
        name=_PREFIX + "factory",
        args=_parameters(list(cells)),
        body=[_Rewriter().kernel(kernel), ast.Return(ast.Name(kernel.name, ast.Load()))],
        decorator_list=[],
    )
    module = ast.fix_missing_locations(ast.Module(body=[factory], type_ignores=[]))
    ast.increment_lineno(module, line - 1)
    namespace: dict[str, Any] = {}
    exec(compile(module, filename, "exec", dont_inherit=True), namespace)
    code = namespace[factory.name](*cells).__code__
    function = types.FunctionType(
        code, original.__globals__, original.__name__, original.__defaults__,
        tuple(cells[name] for name in code.co_freevars),
    )  # fmt: skip
    function.__kwdefaults__ = original.__kwdefaults__
    return function


def _parameters(names: list[str]) -> ast.arguments:
    return ast.arguments(
        posonlyargs=[], args=[ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )


def _hook(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(_PREFIX + name, ast.Load()), args=list(arguments), keywords=[])


def _later(value: ast.expr) -> ast.Lambda:
    return ast.Lambda(args=_parameters([]), body=value)


class _Rewriter(ast.NodeTransformer):
    def kernel(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """The definition without what was evaluated with it: decorators, annotations, defaults."""
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            argument.annotation = None
        arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
        node.decorator_list, node.returns = [], None
        node.body = [part for statement in node.body for part in self._statements(statement)]
        return node

    def _statements(self, statement: ast.stmt) -> list[ast.stmt]:
        result = self.visit(statement)
        return result if isinstance(result, list) else [result]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.func = ast.copy_location(_hook("call", node.func), node.func)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        node.value = ast.copy_location(_hook("bind", node.value), node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        target = copy.deepcopy(node.target)
        target.ctx = ast.Load()
        value = ast.copy_location(ast.BinOp(target, node.op, node.value), node)
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], value), node))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        plain = ast.copy_location(ast.Assign([node.target], node.value), node)
        if not ast.unparse(node.annotation).strip("'\"").endswith("constexpr"):
            return self.visit_Assign(plain)
        self.generic_visit(plain)
        plain.value = ast.copy_location(_hook("static", plain.value), plain.value)
        return plain

    def _conditional(self, node: ast.If | ast.While | ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        hook = "again" if isinstance(node, ast.While) else "truth"
        node.test = ast.copy_location(_hook(hook, node.test), node.test)
        return node

    visit_If = visit_While = visit_IfExp = _conditional

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return (
            ast.copy_location(_hook("negation", node.operand), node) if isinstance(node.op, ast.Not) else node
        )

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        name = "conjunction" if isinstance(node.op, ast.And) else "disjunction"
        return ast.copy_location(_hook(name, *map(_later, node.values)), node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """A chain a < b < c becomes a < b and b < c; b must be cheap to evaluate twice."""
        if len(node.ops) == 1:
            self.generic_visit(node)
            return node
        if not all(isinstance(middle, ast.Name | ast.Constant) for middle in node.comparators[:-1]):
            raise NotSimulated("the CPU executor chains comparisons of names and constants only")
        terms = [node.left, *node.comparators]
        pairs: list[ast.expr] = [
            ast.copy_location(
                ast.Compare(copy.deepcopy(terms[at]), [operator], [copy.deepcopy(terms[at + 1])]), node
            )
            for at, operator in enumerate(node.ops)
        ]
        return self.visit_BoolOp(ast.copy_location(ast.BoolOp(ast.And(), pairs), node))

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        self.generic_visit(node)
        hook = _hook("assertion", _later(node.test), _later(node.msg or ast.Constant("")))
        return ast.copy_location(ast.Expr(hook), node)
