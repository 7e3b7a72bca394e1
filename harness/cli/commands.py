"""The commands. Each returns its exit status: PASS 0; FAIL, ERROR 1; INCONCLUSIVE, EMPTY 2."""

from __future__ import annotations

import shlex
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

import harness
from harness import files, records
from harness.case import Case
from harness.cli import options
from harness.cli.settings import element, names, settings
from harness.cli.table import show_table
from harness.cli.view import view
from harness.errors import HarnessError
from harness.jobs import Budget, Died, Local, Runner, Supervised, judge, judge_case, plan
from harness.jobs.messages import Event, Explain, Found, Planned, Said, UnderTest
from harness.limits import check_timeout
from harness.records import FindingRecord, SavedFinding, VerdictRecord
from harness.verdict import EXIT_STATUS

USAGE = 3
"""Exit status of a usage error and of an error of the harness itself."""

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Exit status: PASS 0; FAIL, ERROR 1; INCONCLUSIVE, EMPTY 2; usage or internal error 3; "
    "interrupted before anything was judged 130.",
)


@app.callback(invoke_without_command=True)
def _harness(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version")] = False,
) -> None:
    """Tell whether GPU kernels are numerically right."""
    if version:
        print(f"harness {harness.__version__}")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(USAGE)


@app.command()
def check(
    target: options.Target,
    contract: options.As = "",
    dtype: options.Dtypes = None,
    device: options.Device = "cpu",
    claims: options.Claims = None,
    domain: options.Domain = None,
    examples: options.Examples = None,
    seconds: options.Seconds = None,
    seed: options.Seed = 0,
    timeout: options.Timeout = 60.0,
    configs: options.Configs = "some",
    json: options.Json = None,
    explain_bound: options.ExplainBound = None,
    in_process: options.InProcess = False,
    debug: options.Debug = False,
) -> int:
    """Judge a kernel: search the inputs of its contract for one that it gets wrong."""
    _check_json(json)
    if explain_bound is not None:
        element(explain_bound)
    under = _under(target, contract, device, claims, domain, timeout, "all" if configs == "all" else "")
    with _runner(in_process) as runner:
        with view() as show:
            planned = plan(runner, under, _formats(dtype))
            record = judge(runner, planned, Budget(examples, seconds, seed), show)
        _tell(record, json)
        if explain_bound is not None:
            _explain(runner, planned, record, explain_bound)
    return EXIT_STATUS[record.outcome]


@app.command()
def fuzz(
    target: options.Target,
    contract: options.As = "",
    dtype: options.Dtypes = None,
    device: options.Device = "cpu",
    claims: options.Claims = None,
    domain: options.Domain = None,
    seconds: Annotated[float, typer.Option(metavar="S", help="Time to spend on it")] = 60.0,
    seed: options.Seed = 0,
    timeout: options.Timeout = 60.0,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where findings and the example database are kept")
    ] = Path(".harness"),
    json: options.Json = None,
    in_process: options.InProcess = False,
    debug: options.Debug = False,
) -> int:
    """Search for a time, going on after a finding, and save what is found. Ctrl-C ends with the summary."""
    _check_json(json)
    files.check_folder(folder, (), f"--folder {folder}")
    under = _under(target, contract, device, claims, domain, timeout)
    saved: dict[Path, None] = {}
    unsaved: list[HarnessError] = []

    def save(planned: Planned, fmt: str, finding: FindingRecord) -> None:
        found = planned.under
        item = SavedFinding(
            schema=records.SCHEMA,
            target=found.target,
            contract=found.contract,
            device=found.device,
            claims=found.claims or {},
            domain=found.domain or {},
            format=fmt,
            finding=finding,
            environment=planned.environment,
        )
        try:
            saved[records.save_finding(folder, item)] = None
        except HarnessError as error:  # the search goes on, and the verdict holds the finding
            unsaved.append(error)

    with _runner(in_process) as runner, view() as show:
        planned = plan(runner, under, _formats(dtype))

        def watch(event: Event) -> None:
            show(event)
            if isinstance(event, Found):
                save(planned, event.format, event.finding)

        record = judge(runner, planned, Budget(seconds=seconds, seed=seed, folder=str(folder)), watch)
    for each in record.formats:
        for finding in each.findings:
            save(planned, each.format, finding)
    _tell(record, json)
    for path in saved:
        print(f"saved: harness replay {path}")
    if unsaved:
        raise unsaved[0]
    return EXIT_STATUS[record.outcome]


@app.command()
def replay(
    target: Annotated[str, typer.Argument(metavar="TARGET|FILE.json", help="A kernel, or a saved finding")],
    contract: options.As = "",
    case: Annotated[str, typer.Option(metavar="JSON", help="The case, as a finding shows it")] = "",
    device: options.Device = "",
    claims: options.Claims = None,
    domain: options.Domain = None,
    timeout: options.Timeout = 60.0,
    json: options.Json = None,
    explain_bound: options.ExplainBound = None,
    in_process: options.InProcess = False,
    debug: options.Debug = False,
) -> int:
    """Judge one case again: that of a saved finding, or one given as JSON."""
    _check_json(json)
    place = element(explain_bound) if explain_bound is not None else ("", None)
    if target.endswith(".json"):
        if case:
            raise HarnessError(f"{target} holds a case; give either the file or --case")
        saved = _saved(Path(target))
        under = UnderTest(
            target=saved.target,
            contract=contract or saved.contract,
            device=device or saved.device,
            claims=saved.claims if claims is None else settings(claims, "--claims"),
            domain=saved.domain if domain is None else settings(domain, "--domain"),
            timeout=timeout,
        )
        given = saved.finding.case
    elif case:
        under = _under(target, contract, device or "cpu", claims, domain, timeout)
        given = Case.from_json(case)
    else:
        raise HarnessError(
            "replay needs a case: --case JSON as a finding shows it, or the file of a saved finding"
        )
    with _runner(in_process) as runner:
        planned = plan(runner, under)
        terms: list[str] = []
        if explain_bound is not None and place[1] is not None:  # refused, if it is not there, before a launch
            terms = _terms(runner, planned, given, explain_bound, place)
        record = judge_case(runner, planned, given)
        _tell(record, json)
        if terms:
            print("\n".join(["", *terms]))
        elif explain_bound is not None:
            _explain(runner, planned, record, explain_bound, given)
    return EXIT_STATUS[record.outcome]


@app.command()
def report(
    folder: options.Folder = "kernels/",
    out: options.Out = Path("report"),
    dtype: options.Dtypes = None,
    device: options.Device = "cpu",
    examples: options.Examples = None,
    seconds: options.Seconds = None,
    seed: options.Seed = 0,
    timeout: options.Timeout = 60.0,
    mutants: options.Mutants = True,
    reduce_mutants: options.ReduceMutants = False,
    torch: options.Torch = False,
    in_process: options.InProcess = False,
    debug: options.Debug = False,
) -> int:
    """Judge every declared subject of a folder and its mutants, and write a report. --seconds is for each."""
    from harness.report import NAMES, Campaign, exit_status, save  # loads jinja2

    _check_timeout(timeout)
    files.check_folder(out, NAMES, f"--out {out}")
    campaign = Campaign(
        folder=folder,
        budget=Budget(examples, seconds, seed),
        device=device,
        dtypes=_formats(dtype),
        timeout=timeout,
        mutants=mutants,
        reduce_mutants=reduce_mutants,
        torch=torch,
        command=shlex.join(["harness", *sys.argv[1:]]),
    )
    with _runner(in_process) as runner, view() as show:
        done = campaign.run(runner, show)
    show_table(done)
    if not done.verdicts and not done.mutants:
        print(f"harness: nothing was judged: {out} is left as it was", file=sys.stderr)
        return exit_status(done)
    for path in save(done, out):
        print(f"written: {path}")
    return exit_status(done)


@app.command(name="list")
def list_(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC]",
            help="contracts, formats, families, layouts, checks, claims or domain; or a contract",
        ),
    ] = None,
    debug: options.Debug = False,
) -> int:
    """List contracts with their calls and named roundings, formats, value families, layouts, checks, claims and domain keys."""
    from harness.cli.listing import listing  # loads torch

    for line in listing(topic):
        print(line)
    return 0


def _under(
    target: str,
    contract: str,
    device: str,
    claims: list[str] | None,
    domain: list[str] | None,
    timeout: float,
    configs: str = "",
) -> UnderTest:
    _check_timeout(timeout)
    return UnderTest(
        target=target,
        contract=contract,
        device=device,
        claims=settings(claims or (), "--claims"),
        domain=settings(domain or (), "--domain"),
        timeout=timeout,
        configs=configs,
    )


def _saved(path: Path) -> SavedFinding:
    """A saved finding; a verdict, which --json wrote, is told from other files."""
    try:
        return records.read(path, SavedFinding)
    except HarnessError as error:
        try:
            records.read(path, VerdictRecord)
        except HarnessError:
            raise error from None
        raise HarnessError(
            f"{str(path)!r} is a verdict, and no saved finding; run one of the replay commands that it holds"
        ) from error


def _formats(given: list[str] | None) -> tuple[str, ...]:
    """The names given by --dtype."""
    found = names(given or ())
    if given and not found:
        raise HarnessError(f"--dtype {given[0]!r} names no format; give NAME,NAME or leave it out")
    return found


def _check_json(json: Path | None) -> None:
    """Raise HarnessError, before anything runs, where the file of --json could not be written."""
    if json is None:
        return
    if not json.parent.exists():
        raise HarnessError(f"--json {json}: there is no folder {str(json.parent)!r}; make it first")
    files.check_file(json, f"--json {json}")


def _check_timeout(timeout: float) -> None:
    check_timeout(timeout, f"--timeout {timeout:.15g}")


def _runner(in_process: bool) -> AbstractContextManager[Runner]:
    return nullcontext(Local()) if in_process else Supervised()


def _tell(record: VerdictRecord, json: Path | None) -> None:
    print(record.verdict())
    if json is not None:
        records.write(json, record)


def _explain(
    runner: Runner, planned: Planned, record: VerdictRecord, given: str, case: Case | None = None
) -> None:
    """Print the bound at an element of a case: by default of the first finding, or of the largest ratio.

    Where there is no such element, the verdict stands.
    """
    place = element(given)
    findings = [finding for each in record.formats for finding in each.findings]
    if findings:
        case = case or findings[0].case
        if place == ("", None):
            place = findings[0].output, findings[0].element
    case = case or max(record.formats, key=lambda each: each.ratio).largest_ratio_case
    if case is None:
        exact = any(each.elements for each in record.formats)
        why = "every answer was exact; replay a case" if exact else "no element was judged"
        print(f"no bound to explain: {why}")
        return
    try:
        print("\n".join(["", *_terms(runner, planned, case, given, place)]))
    except HarnessError as error:
        print(f"harness: {error}", file=sys.stderr)


def _terms(
    runner: Runner, planned: Planned, case: Case, given: str, place: tuple[str, tuple[int, ...] | None]
) -> list[str]:
    """The bound at an element of a case, which is launched only to find the worst. Raises HarnessError."""
    lines: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, Said):
            lines.extend(event.lines)

    try:
        runner.run(Explain(under=planned.under, case=case, output=place[0], element=place[1]), note)
    except Died as death:
        return [f"no bound to explain: {death}"]
    except HarnessError as error:
        raise HarnessError(f"--explain-bound {given}: {error}") from error
    return lines
