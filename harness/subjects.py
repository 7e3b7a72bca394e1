"""Functions under test by name: ``path/to/file.py:function``, ``package.module:function``, and kernels with mutants.

A kernel file declares its subject beside the launcher, with the claims it is held to and the mutants that
must be caught; a mutant is a one-place edit of the file's source::

    @subject(references.softmax, mutants={"no-max-shift": ("x - m", "x")})
    def softmax(x, dim): ...

``file.py:function@no-max-shift`` names the mutant.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import linecache
import os
import sys
import tokenize
import traceback
import types
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import interrupt
from harness.contracts import Contract
from harness.errors import HarnessError, nearest, words_of

FORMATS = ("float32", "float16", "bfloat16")
"""Formats judged unless others are asked for."""


@dataclass(frozen=True)
class Declaration:
    """What a kernel file declares of its launcher."""

    contract: Contract
    claims: Mapping[str, Any] | None = None
    domain: Mapping[str, Any] | None = None
    dtypes: tuple[str, ...] = FORMATS
    mutants: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """A function found by name. spec: the name that finds it again; declaration: of a kernel file, if any."""

    function: Callable[..., Any]
    spec: str
    declaration: Declaration | None = None


def subject(
    contract: Contract,
    *,
    claims: Mapping[str, Any] | None = None,
    domain: Mapping[str, Any] | None = None,
    dtypes: tuple[str, ...] = FORMATS,
    mutants: Mapping[str, tuple[str, str]] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a launcher as a subject: its contract, claims, domain, formats, and mutants that must be caught.

    mutants: by name, the source text to replace (it occurs exactly once in the file outside the mutants
    themselves) and its replacement.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__subject__ = Declaration(contract, claims, domain, dtypes, mutants or {})  # type: ignore[attr-defined]
        return function

    return declare


def load(spec: str) -> Target:
    """The function that ``file.py:function``, ``package.module:function`` or either with ``@mutant`` names.

    Raises HarnessError when the file, the module, the function or the mutant does not exist, or when
    importing it fails.
    """
    where, separator, name = spec.rpartition(":")
    if not separator or not where or not name:
        raise HarnessError(
            f"{spec!r} names no function; write path/to/file.py:function or package.module:function"
        )
    if os.path.isdir(where) and not os.path.isfile(os.path.join(where, "__init__.py")):
        raise HarnessError(
            f"{where!r} is a folder; name a file of it, such as {where.rstrip('/')}/FILE.py:{name}"
        )
    name, _, mutant = name.partition("@")
    if not mutant:
        return _target(_module(where), where, name)
    declaration = _target(_module(where), where, name).declaration
    mutants = declaration.mutants if declaration else {}
    if mutant not in mutants:
        raise HarnessError(
            f"{where}:{name} has no mutant {mutant!r}; {nearest(mutant, mutants)}mutants: {', '.join(mutants) or 'none'}"
        )
    found = _target(_mutated(where, mutant, *mutants[mutant]), where, name)
    return Target(found.function, f"{where}:{name}@{mutant}", found.declaration)


def discover(folder: str) -> Iterator[Target]:
    """Every declared subject of the Python files of a folder (or of one file), in order of their names."""
    path = Path(folder)
    if not path.exists():
        raise HarnessError(f"{folder!r} does not exist; give a folder of kernel files or one file")
    files = [path] if path.is_file() else sorted(p for p in path.glob("*.py") if not p.name.startswith("_"))
    for file in files:
        module = _module(str(file))
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) == module.__name__ and hasattr(value, "__subject__"):
                yield Target(value, f"{file}:{name}", value.__subject__)


def load_contract(name: str) -> Contract:
    """A contract by its name in ``references``, or by ``my_file.py:my_contract``.

    Raises HarnessError for an unknown name, with the nearest one.
    """
    if ":" in name:
        found = load(name).function
        if not isinstance(found, Contract):
            raise HarnessError(
                f"{name!r} is a {type(found).__name__}, no contract; decorate it with @harness.contract"
            )
        return found
    known = contract_names()
    if name not in known:
        raise HarnessError(f"unknown contract {name!r}; {nearest(name, known)}contracts: {', '.join(known)}")
    contract: Contract = getattr(importlib.import_module("references"), name)
    return contract


def contract_names() -> list[str]:
    """The names of the contracts in ``references``."""
    references = importlib.import_module("references")
    return sorted(name for name in references.__all__)


def refuse_kernel(function: Any) -> None:
    """Raise HarnessError for a Triton kernel, tuned or not, which no call but only a launch runs."""
    if not type(function).__module__.startswith("triton.runtime."):
        return
    while type(getattr(function, "fn", None)).__module__.startswith("triton.runtime."):
        function = function.fn
    name = getattr(getattr(function, "fn", None), "__name__", type(function).__name__)
    raise HarnessError(f"{name} is a @triton.jit kernel; give the function that launches it")


def spec_of(function: Callable[..., Any], value: object = None) -> str:
    """A name by which another process finds a function, or ``value`` that was made of it; "" if there is none."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", "")
    if code is None or not name.isidentifier() or not os.path.isfile(code.co_filename):
        return ""
    module = sys.modules.get(function.__module__)
    if module is None or getattr(module, name, None) is not (function if value is None else value):
        return ""
    return f"{os.path.relpath(code.co_filename)}:{name}"


def _target(module: types.ModuleType, where: str, name: str) -> Target:
    value: Any = module
    for part in name.split("."):
        if isinstance(value, type):
            value = _instance(value, where)
        if not hasattr(value, part):
            owner = vars(value if value is module else type(value))
            known = [key for key, item in owner.items() if callable(item) and not key.startswith("_")]
            others = (
                f"; {nearest(part, known)}functions: {', '.join(known)}" if known else ", and none at all"
            )
            raise HarnessError(f"{where} has no function {name!r}{others}")
        value = getattr(value, part)
    refuse_kernel(value)
    if not callable(value):
        raise HarnessError(f"{where}:{name} is a {type(value).__name__}, no function")
    return Target(value, f"{where}:{name}", getattr(value, "__subject__", None))


def _instance(owner: type, where: str) -> Any:
    """An object of the class of a method under test."""
    try:
        return owner()
    except Exception as error:
        raise HarnessError(
            f"{where}:{owner.__name__} cannot be made without arguments ({type(error).__name__}: {words_of(error)}); "
            "name a function, or a method of a class that can"
        ) from error


def _module(where: str) -> types.ModuleType:
    if where.endswith(".py") or os.sep in where:
        return _file(where)
    if not all(part.isidentifier() for part in where.split(".")):
        raise HarnessError(f"{where!r} is no module's name; for a file, write its path ending in .py")
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name and (where == error.name or where.startswith(error.name + ".")):
            raise HarnessError(
                f"there is no module {where!r}; for a file, write its path ending in .py"
            ) from error
        raise _import_failure(where, error) from error
    except BaseException as error:
        raise _import_failure(where, error) from error


def _file(where: str) -> types.ModuleType:
    path = Path(where).resolve()
    if not path.is_file():
        raise HarnessError(f"there is no file {where!r}")
    name = _module_name(path)
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == str(path):
        return sys.modules[name]
    return _execute(name, path, _source(path), str(path))


def _source(path: Path) -> str:
    """The text of a Python file, in the encoding that it declares."""
    try:
        with tokenize.open(path) as file:
            return file.read()
    except OSError as error:
        raise HarnessError(f"importing {path} failed: {error.strerror}") from error
    except (SyntaxError, UnicodeDecodeError) as error:
        hint = "save it as UTF-8, or declare its encoding in the first line"
        raise HarnessError(f"importing {path} failed: {type(error).__name__}: {error}; {hint}") from error


def _module_name(path: Path) -> str:
    return f"harness_subject_{path.stem}_{zlib.crc32(str(path).encode()):x}"


def _execute(name: str, path: Path, source: str, filename: str) -> types.ModuleType:
    """Run source as a module whose functions Triton can read the source of."""
    module = types.ModuleType(name)
    module.__file__ = filename
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    sys.modules[name] = module
    folders = [str(path.parent), str(_package_root(path)), str(Path.cwd())]
    added = [folder for folder in folders if folder not in sys.path]
    sys.path[:0] = added
    try:
        exec(compile(source, filename, "exec"), module.__dict__)
    except BaseException as error:
        del sys.modules[name]
        raise _import_failure(str(path), error) from error
    return module


def _package_root(path: Path) -> Path:
    """The folder from which the file's package, if it is in one, is imported."""
    root = path.parent
    while (root / "__init__.py").exists():
        root = root.parent
    return root


def _import_failure(where: str, error: BaseException) -> HarnessError:
    """What an import raised, with the line of the user's own that it came from; a user's Ctrl-C is raised on."""
    if isinstance(error, KeyboardInterrupt) and interrupt.asked():
        raise error
    frames = traceback.extract_tb(error.__traceback__)
    ours = (__file__, "<")
    lines = [
        (f.filename, f.lineno)
        for f in frames
        if not f.filename.startswith(ours) and f.name != "import_module"
    ]
    own = [line for line in lines if line[0] == where] or lines
    if isinstance(error, SyntaxError):
        own = [(error.filename or where, error.lineno)]
    place = f" at {os.path.relpath(own[-1][0])}:{own[-1][1]}" if own else ""
    words = error.msg if isinstance(error, SyntaxError) else words_of(error).partition("\n")[0]
    if isinstance(error, ImportError) and words.startswith("attempted relative import"):
        words += f"; {_in_its_package(where)}"
    told = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return HarnessError(f"importing {where} failed{place}: {told}")


def _in_its_package(where: str) -> str:
    """How to name a function of a file that imports relatively, which only a module of a package can."""
    path = Path(where)
    root = _package_root(path)
    if root == path.parent:
        return "give it as package.module:function, from the folder that holds the package"
    inside = path.relative_to(root).with_suffix("")
    return f"give it as {'.'.join(inside.parts)}:function, from the folder that holds {inside.parts[0]}"


def _mutated(where: str, mutant: str, old: str, new: str) -> types.ModuleType:
    """The file with one place of its source replaced, outside the mutants themselves."""
    path = Path(where).resolve() if where.endswith(".py") else Path(str(_module(where).__file__))
    source = _source(path)
    places = [i for i in range(len(source)) if source.startswith(old, i)]
    hidden = _mutant_spans(source)
    places = [i for i in places if not any(start <= i < stop for start, stop in hidden)]
    if len(places) != 1:
        raise HarnessError(
            f"mutant {mutant!r} of {where} should match its source once, not {len(places)} times: {old!r}"
        )
    edited = source[: places[0]] + new + source[places[0] + len(old) :]
    return _execute(f"{_module_name(path)}@{mutant}", path, edited, f"{path}@{mutant}")


def _mutant_spans(source: str) -> list[tuple[int, int]]:
    """Character ranges of the ``mutants=`` arguments of decorators."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    data = source.encode()

    def position(line: int | None, column: int | None) -> int:
        assert line is not None and column is not None
        return len(data[: starts[line - 1] + column].decode())

    return [
        (
            position(node.value.lineno, node.value.col_offset),
            position(node.value.end_lineno, node.value.end_col_offset),
        )
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.keyword) and node.arg == "mutants"
    ]
