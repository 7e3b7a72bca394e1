"""The decorator that makes a contract of a definition, and refuses what cannot be one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from harness import wellformed
from harness.contracts import (
    Choice,
    Contract,
    Dim,
    Output,
    Relation,
    Scalar,
    SizeOf,
    SpecialRow,
    Tensor,
    ValueFamily,
    Written,
)
from harness.errors import HarnessError, nearest

_P = ParamSpec("_P")
_R = TypeVar("_R")

_WRITE = "write @harness.contract(args={'x': '*shape'}, returns='*shape')"


def _described(build: Callable[_P, _R]) -> Callable[_P, _R]:
    """Raise HarnessError for keywords that the function does not have, that it lacks, and for no parentheses."""
    parameters = inspect.signature(build).parameters

    @functools.wraps(build)
    def described(*positional: _P.args, **keywords: _P.kwargs) -> _R:
        if positional:
            name = getattr(positional[0], "__name__", repr(positional[0]))
            raise HarnessError(f"harness.contract takes keywords only; {_WRITE} above {name}")
        for key in keywords:
            if key not in parameters:
                raise HarnessError(
                    f"harness.contract has no argument {key!r}; {nearest(key, parameters)}known: {', '.join(parameters)}"
                )
        for key, parameter in parameters.items():
            if parameter.default is parameter.empty and key not in keywords:
                raise HarnessError(f"harness.contract is not given {key}; {_WRITE}")
        return build(*positional, **keywords)

    return described


@_described
def contract(
    *,
    args: Mapping[str, Any],
    returns: str | Output | tuple[Output, ...],
    rows: Written = "",
    nonempty: tuple[str, ...] = (),
    families: tuple[str | ValueFamily, ...] = (),
    special: tuple[SpecialRow, ...] = (),
    roundings: Mapping[str, str] | None = None,
    usual: tuple[str, ...] = (),
    online: bool = False,
    given: tuple[str, ...] = (),
    relations: Mapping[str, Relation] | None = None,
    sizes: Mapping[str, tuple[Any, ...]] | None = None,
    formats: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Contract]:
    """Turn a definition over abstract numbers into a contract.

    args: for every parameter, a shape (``"*shape"``), a :class:`Tensor`, a :class:`Dim` or a tuple of
    allowed values. returns: the shape of the result, an :class:`Output` or several. rows: axes along which
    results are independent: ``"all but dim"``, ``"all but last"``, a shape of named axes, or "" for none; or a
    function of the scalars that writes it.
    nonempty: sizes and Dim scalars whose axis is never empty. families: names of generic value families to
    stress, and the contract's own. special: rows of special values with their answers. roundings: places
    in the definition (see :func:`harness.numbers.rounded`) whose rounding an author may claim; usual: those
    allowed without a claim. online: an online softmax is a usual form, so that the default depth of sums
    doubles. given: outputs, as *returned*, that the definition receives in a dict ``given`` to compute later
    ones from. relations: exact predicates on what was returned, by name. sizes: values that named sizes are
    drawn from, where any length will not do (the number of ranks, a head dimension). formats: those that
    the contract is judged in, integer dtypes among them, where they are not the usual floating-point ones.

    Raises HarnessError when a parameter is not described or a description has no parameter.
    """

    _check_mappings(
        {"args": args, "roundings": roundings, "relations": relations, "sizes": sizes},
        {
            **{"nonempty": nonempty, "families": families, "special": special},
            **{"usual": usual, "given": given, "formats": formats},
        },
    )

    def build(definition: Callable[..., Any]) -> Contract:
        if not callable(definition):
            raise HarnessError(f"a contract decorates its definition, a function, not {definition!r}")
        parameters = [name for name in inspect.signature(definition).parameters if name != "given"]
        name = getattr(definition, "__name__", "contract")
        _same_names(name, parameters, list(args))
        described = {key: _argument(key, args[key]) for key in parameters}
        if not any(isinstance(spec, Tensor) for spec in described.values()):
            raise HarnessError(
                f"contract {name}: no argument is a tensor; describe one by its shape, as x='*shape'"
            )
        if isinstance(returns, str):
            outputs: tuple[Output, ...] = (Output(returns),)
        elif isinstance(returns, Output):
            outputs = (returns,)
        elif all(isinstance(item, Output) for item in _items(returns)) and _items(returns):
            outputs = _items(returns)
        else:
            raise HarnessError(
                f"contract {name}: returns={returns!r}; give a shape, or an Output(shape, name=…) for each result"
            )
        made = Contract(
            name=name,
            definition=definition,
            args=described,
            outputs=outputs,
            rows=rows,
            nonempty=tuple(nonempty),
            families=tuple(families),
            special=tuple(special),
            roundings=dict(roundings or {}),
            usual=tuple(usual),
            online=online,
            given=tuple(given),
            relations=dict(relations or {}),
            sizes=dict(sizes or {}),
            formats=tuple(formats),
        )
        wellformed.check(made)
        return made

    return build


def _argument(name: str, given: Any) -> Tensor | Scalar:
    if isinstance(given, Tensor | Dim | Choice | SizeOf):
        return given
    if isinstance(given, str):
        return Tensor(given)
    if isinstance(given, tuple) and given:
        return Choice(given)
    raise HarnessError(
        f"argument {name!r} is described by {given!r}; give a shape such as '*shape', a Tensor, a Dim or a tuple of values"
    )


def _same_names(contract_name: str, parameters: list[str], described: list[str]) -> None:
    for name in parameters:
        if name not in described:
            raise HarnessError(f"contract {contract_name}: parameter {name!r} is not described in args")
    for name in described:
        if name not in parameters:
            raise HarnessError(
                f"contract {contract_name}: args describes {name!r}, which is no parameter; {nearest(name, parameters)}"
                f"parameters: {', '.join(parameters)}"
            )


def _check_mappings(mappings: Mapping[str, Any], tuples: Mapping[str, Any]) -> None:
    for name, given in mappings.items():
        if given is not None and not isinstance(given, Mapping):
            raise HarnessError(f"contract {name}={given!r}: give a dict, by name")
    for name, given in tuples.items():
        if not isinstance(given, tuple | list):
            raise HarnessError(f"contract {name}={given!r}: give a tuple, such as ({given!r},)")


def _items(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, tuple | list) else ()
