"""The arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="path/to/file.py:function or package.module:function")
]
As = Annotated[
    str,
    typer.Option(
        "--as",
        metavar="CONTRACT",
        help="What it implements, if not declared: a name of references, or my_file.py:my_contract",
    ),
]
Dtypes = Annotated[
    list[str] | None,
    typer.Option("--dtype", "--dtypes", metavar="NAME,…", help="Formats to judge; may be repeated"),
]
Device = Annotated[str, typer.Option(metavar="NAME", help="cpu or cuda")]
Claims = Annotated[
    list[str] | None,
    typer.Option(
        "--claims",
        "--claim",
        metavar="KEY=VALUE,…",
        help="What the kernel's arithmetic is, in place of what its file declares; or JSON; may be repeated",
    ),
]
Domain = Annotated[
    list[str] | None,
    typer.Option(
        "--domain",
        metavar="KEY=VALUE,…",
        help="What inputs it supports, in place of what its file declares; or JSON; may be repeated",
    ),
]
Examples = Annotated[
    int | None,
    typer.Option(metavar="N", help="Situations of each format; a launch counts as 4 to 40 of them"),
]
Seconds = Annotated[
    float | None,
    typer.Option(metavar="S", help="Time to spend on it; with --examples, a cap that ends INCONCLUSIVE"),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the search")]
Timeout = Annotated[
    float,
    typer.Option(
        metavar="S",
        help="Seconds after which one launch counts as hanging, without those that other programs take",
    ),
]
Configs = Annotated[
    Literal["some", "all"],
    typer.Option(
        help="Configurations of an autotuned kernel on the CPU that each launch judges: the first and some others in turn, or all"
    ),
]
ExplainBound = Annotated[
    str | None,
    typer.Option(
        metavar="[OUTPUT:]I,J,…",
        help="Show the terms of the allowed error of an element, or of the 'worst' one, of the case found",
    ),
]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the verdict as JSON")]
InProcess = Annotated[
    bool,
    typer.Option(
        "--in-process", help="Launch in this process, as a debugger wants it; a crash then ends all"
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error of the harness itself")]
Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="Of files that declare subjects, or one file")]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Where report.json, report.md and report.html go")]
Mutants = Annotated[bool, typer.Option("--mutants/--no-mutants", help="Judge the mutants that files declare")]
ReduceMutants = Annotated[
    bool, typer.Option("--reduce-mutants", help="Reduce the inputs that catch mutants, which takes longer")
]
Torch = Annotated[bool, typer.Option("--torch", help="Judge torch's own functions too, beside the folder's")]
