"""What there is to name on a command line: contracts, formats, value families, layouts, checks, claims, domains."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator

from harness.arithmetic import CHOICES, Arithmetic
from harness.checks.failure import CHECKS
from harness.contracts import Contract
from harness.domain import Domain
from harness.errors import HarnessError, nearest
from harness.formats import FORMATS
from harness.layouts import NAMES
from harness.numbers.model import PRIMITIVE_ERRORS
from harness.subjects import FORMATS as DEFAULT
from harness.subjects import contract_names, load_contract
from harness.values import FAMILIES

TOPICS = ("contracts", "formats", "families", "layouts", "checks", "claims", "domain")


def listing(topic: str | None) -> Iterator[str]:
    """The lines of one topic or contract, or of all topics."""
    if topic is not None and topic in contract_names():
        yield from _contract(load_contract(topic))
        return
    if topic is not None and topic not in TOPICS:
        hint = nearest(topic, [*TOPICS, *contract_names()])
        raise HarnessError(
            f"there is no list of {topic!r}; {hint}lists: {', '.join(TOPICS)}, or the name of a contract"
        )
    for number, name in enumerate(TOPICS if topic is None else (topic,)):
        if number:
            yield ""
        yield from _LISTS[name]()


def _contracts() -> Iterator[str]:
    yield "contracts (--as NAME; definitions in references/)"
    for name in contract_names():
        yield from _contract(load_contract(name))


def _contract(contract: Contract) -> Iterator[str]:
    call = inspect.Signature([item.replace(annotation=item.empty) for item in _parameters(contract)])
    yield f"  {contract.name}{call} -> {_outputs(contract)}"
    document = inspect.getdoc(contract.definition)
    if document:
        yield f"      {document.splitlines()[0]}"
    for place, words in contract.roundings.items():
        usual = ", allowed without a claim" if place in contract.usual else ""
        yield f"      rounding {place!r}: {words}{usual}"


def _parameters(contract: Contract) -> list[inspect.Parameter]:
    """What a kernel is called with; a definition may be given returned values besides."""
    parameters = inspect.signature(contract.definition).parameters.values()
    return [item for item in parameters if item.name != "given"]


def _outputs(contract: Contract) -> str:
    """What a call returns, and which arguments it changes."""
    returned = [_output(output.name, output.dtype) for output in contract.outputs if not output.argument]
    changed = [output.name for output in contract.outputs if output.argument]
    in_place = f"{', '.join(changed)} in place" if changed else ""
    return "; ".join(filter(None, (", ".join(returned), in_place)))


def _output(name: str, dtype: object) -> str:
    """An output with its dtype, unless that is the one under test or depends on the arguments."""
    return f"{name}: {dtype}" if isinstance(dtype, str) else name


def _formats() -> Iterator[str]:
    yield f"formats (--dtype NAME; without it {', '.join(DEFAULT)})"
    for fmt in FORMATS.values():
        kind = "" if fmt.dtype is not None else " (of dot operands only)"
        limits = f"largest {fmt.max:.6g}, smallest normal {fmt.tiny:.6g}"
        yield f"  {fmt.name}: u = 2^-{fmt.precision}, {limits}{kind}"


def _families() -> Iterator[str]:
    yield "value families (what rows are filled with; a contract may add its own)"
    for family in FAMILIES.values():
        document = inspect.getdoc(family.make)
        words = f": {document.splitlines()[0]}" if document else ""
        yield f"  {family.name} [{', '.join(sorted(family.tags))}]{words}"


def _layouts() -> Iterator[str]:
    yield "layouts (--domain layouts=NAME,NAME)"
    yield f"  {', '.join(NAMES)}"


def _checks() -> Iterator[str]:
    yield "checks (all are on; none can be switched off)"
    yield f"  {', '.join(CHECKS)}"


def _claims() -> Iterator[str]:
    yield "claims (--claims NAME=VALUE,…; the first value is what a kernel is held to without one)"
    written = {
        "accumulator": f"float32 (float64 for float64 inputs), {', '.join(n for n in FORMATS if n != 'float32')}",
        "depth": "None (min(n-1, ceil(n/16) + 64) roundings on the longest path of a sum), sequential (n-1), a number",
        "roundings": "() or names of the contract's places: harness list contracts",
        "ulp": f"{{}} or errors in u: {', '.join(f'{name}={error:g}' for name, error in PRIMITIVE_ERRORS.items())}",
    }
    for name, item in inspect.signature(Arithmetic).parameters.items():
        given = [item.default, *(value for value in CHOICES.get(name, ()) if value != item.default)]
        yield f"  {name}: {written.get(name) or ', '.join(map(str, given))}"


def _domain() -> Iterator[str]:
    yield "domain (--domain KEY=VALUE,…; in Python a dict; what a kernel supports)"
    for item in dataclasses.fields(Domain):
        meaning = f"{item.metadata['words']}; {item.metadata['values']}"
        default = f"; without it {item.default}" if item.default not in (None, ()) else ""
        yield f"  {'NAME' if item.name == 'allowed' else item.name}: {meaning}{default}"


_LISTS = {
    "contracts": _contracts,
    "formats": _formats,
    "families": _families,
    "layouts": _layouts,
    "checks": _checks,
    "claims": _claims,
    "domain": _domain,
}
