"""What a public function was given: validated, and as the subject and the formats of a search."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from harness import formats
from harness.arithmetic import Arithmetic, arithmetic
from harness.contracts import Contract
from harness.domain import Domain, domain
from harness.errors import HarnessError
from harness.executors import ready
from harness.formats import Format, format_of
from harness.limits import check_timeout
from harness.subjects import FORMATS, Target, load_contract, refuse_kernel, spec_of
from harness.trial import Subject


def make_subject(
    fn: Callable[..., Any] | Target,
    contract: Contract | str,
    device: str,
    claims: Arithmetic | Mapping[str, Any] | None,
    restriction: Domain | Mapping[str, Any] | None,
    timeout: float,
) -> Subject:
    """Validate what a public function was given, and have the first launch as fast as the others."""
    check_timeout(timeout)
    ready()
    target = fn if isinstance(fn, Target) else None
    function = target.function if target else fn
    refuse_kernel(function)
    if not callable(function):
        raise HarnessError(f"the function under test is {function!r}; give a callable")
    if isinstance(function, Contract):
        raise HarnessError(f"the function under test is contract {function.name}; give what implements it")
    if isinstance(contract, str):
        contract = load_contract(contract)
    if not isinstance(contract, Contract):
        raise HarnessError(
            f"the contract is {contract!r}; give one of references.<name>, its name, or your own"
        )
    _check_call(function, contract)
    if torch.device(_device(device)).type == "cuda" and not torch.cuda.is_available():
        raise HarnessError(f"device {device!r} needs a GPU, and torch sees none here; use device='cpu'")
    return Subject(
        function=function,
        name=getattr(function, "__name__", type(function).__name__),
        contract=contract,
        arithmetic=arithmetic(claims),
        domain=domain(contract, restriction),
        device=device,
        target=target.spec if target else spec_of(function),
        timeout=timeout,
    )


def _check_call(function: Callable[..., Any], contract: Contract) -> None:
    """Raise HarnessError if a function does not take the arguments that its contract calls it with."""
    if hasattr(function, "__signature__"):  # made for others, as that of a pytest test is
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in function tells nothing
        return
    positional, keywords = contract.bind({name: name for name in contract.args})
    try:
        signature.bind(*positional, **keywords)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        given = signature.replace(return_annotation=inspect.Signature.empty)
        call = ", ".join([*positional, *(f"{key}={key}" for key in keywords)])
        raise HarnessError(
            f"contract {contract.name} calls {name}({call}), and {name}{given} does not take that: {error}; "
            f"wrap it: def launch({', '.join(contract.args)}): return {name}(…)"
        ) from error


def wanted_formats(subject: Subject, dtypes: Iterable[Any] | str | None) -> list[Format | str]:
    """The formats to judge, and names of integer dtypes, validated against the contract and the claims.

    By default the usual three that the contract is judged in, or all of its own if there are none among them.
    """
    if dtypes is None:
        own = subject.contract.formats
        dtypes = [name for name in FORMATS if name in own] or own or FORMATS
    names = [dtypes] if isinstance(dtypes, str) or not isinstance(dtypes, Iterable) else list(dtypes)
    if not names:
        raise HarnessError("dtypes is empty; give formats such as ('float32', 'bfloat16')")
    found = list(dict.fromkeys(_tested(subject.contract, name) for name in names))
    for fmt in found:
        if isinstance(fmt, str):
            subject.arithmetic.model(subject.contract, formats.FLOAT32)
            continue
        if fmt.dtype is None:
            raise HarnessError(f"{fmt.name} is no storage format; choose from {', '.join(_stored())}")
        subject.arithmetic.model(subject.contract, fmt)
    return found


def _tested(contract: Contract, name: Any) -> Format | str:
    """A format, or the name of an integer dtype that the contract is judged in."""
    written = str(name).removeprefix("torch.")
    if isinstance(name, Format) or not formats.is_integer(written):
        return format_of(name, stored=True)
    if written not in contract.formats:
        known = ", ".join(contract.formats) or "floating-point"
        raise HarnessError(f"contract {contract.name} is not judged in {written}; its formats: {known}")
    return written


def _device(device: str) -> str:
    try:
        return str(torch.device(device))
    except RuntimeError as error:
        raise HarnessError(f"device {device!r} is unknown; use 'cpu' or 'cuda'") from error


def _stored() -> list[str]:
    return [name for name, fmt in formats.FORMATS.items() if fmt.dtype is not None]
