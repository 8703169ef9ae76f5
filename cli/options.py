"""Options of several commands."""

import re
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from common.text import has_credentials


class CaseOrCommand(TyperGroup):
    """A group whose first argument may also be a case: `profile CASE` means `profile case CASE`."""

    #: The command that takes the case.
    default = "case"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command before an argument that is neither a command nor a request for help."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


def finite(value: float | None) -> float | None:
    """`value`; refuses `inf` and `nan`, which Python accepts as numbers."""
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is not a number of seconds")
    return value


def named_file(text: str) -> Path:
    """The given path; refuses an empty one, for example from an unset variable, which would mean the current
    folder.
    """
    if not text:
        raise typer.BadParameter("the name of the file is empty")
    return Path(text)


Device = Annotated[
    Literal["auto", "cpu", "cuda"] | None,
    typer.Option(
        help="cpu: measure the CPU even if there is a GPU; cuda: require a GPU [default: from the suite]"
    ),
]


LockClocks = Annotated[
    int | None,
    typer.Option(
        "--lock-clocks",
        metavar="MHZ",
        min=1,
        help="lock the SM clock of the measured GPUs meanwhile (requires root)",
    ),
]


def _run_name(value: str | None) -> str | None:
    """`value`; refuses a text that cannot be the name of a folder."""
    if value is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
        raise typer.BadParameter(f"{value!r} cannot be the name of a run")
    return value


#: For the scheduler, which chooses the id of a run before it begins.
RunId = Annotated[str | None, typer.Option("--run-id", hidden=True, callback=_run_name)]
#: For the scheduler, which measures candidates of detection in the same way, but not as an upgrade.
Confirms = Annotated[bool, typer.Option("--confirms", hidden=True)]

On = Annotated[
    list[str] | None,
    typer.Option(
        "--on", metavar="LABEL", help="on all machines with this label, by their schedulers (repeatable)"
    ),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="with --on: wait for the verdicts")]

Pairs = Annotated[int | None, typer.Option(help="largest number of pairs of each case [default: 32]")]
Waived = Annotated[
    list[str] | None,
    typer.Option("--waive", metavar="CASE", help="exclude a case from the decision: a key or a glob"),
]
Because = Annotated[
    list[str] | None,
    typer.Option(
        "--because", metavar="TEXT", help="the reason for --waive; the report shows it with name and date"
    ),
]
WaivedBy = Annotated[
    str | None,
    typer.Option("--waived-by", metavar="NAME", help="the name to show with --waive [default: this user]"),
]
ColdPairs = Annotated[
    int | None,
    typer.Option(
        min=1, help="number of pairs of each compiled case that start without a compile cache [default: 1]"
    ),
]

Also = Annotated[
    list[str] | None,
    typer.Option(help="also measure until this metric is decided, for example compile_warm (repeatable)"),
]

Reports = Annotated[
    list[Path] | None,
    typer.Option("--report", help="write the report to FILE.html, .md, .json or .xml (JUnit; repeatable)"),
]

Port = Annotated[int, typer.Option(min=1, max=65535, help="port to listen on")]
Host = Annotated[str, typer.Option(help="address to listen on; only this machine by default")]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(help="a host name that browsers may use (repeatable) [default: any with --host]"),
]

Cases = Annotated[
    list[str] | None,
    typer.Option(
        "--case",
        help="only matching cases: a key, the first parts of a key, or a glob (repeatable); "
        "without --suite, a workload's name alone selects a small case of it",
    ),
]
CaseFiles = Annotated[
    list[Path] | None, typer.Option("--cases", help="a Python file with your own cases (repeatable)")
]

CensusFile = Annotated[
    Path | None,
    typer.Option("--census", help="measure the operators of this census (`pyrometer record` writes one)"),
]

Tests = Annotated[
    list[str] | None,
    typer.Option(
        "--pytest",
        metavar="PATH",
        help="measure the tests below this path that use fixture pyrometer or benchmark (repeatable)",
    ),
]

StepFile = Annotated[
    str | None,
    typer.Option(
        "--step",
        metavar="FILE.py[:FUNCTION]",
        help="measure a function of this script instead of cases [default function: step]",
    ),
]


#: Other users can read a command line while the command runs, and readers of the run can read it later.
NO_PASSWORDS = (
    "an address on the command line must have no user and password: keep them in ~/.netrc, or write the "
    "address into pyrometer.toml, under [environments.NAME]"
)


def _requirements(values: list[str] | None) -> list[str]:
    """Requirements for pip: names, versions, addresses, and files by their absolute paths."""
    for value in values or ():
        if has_credentials(value):
            raise typer.BadParameter(NO_PASSWORDS)
        if not value.strip() or value.startswith("-"):
            raise typer.BadParameter(f"{value!r} is no package")
    return [str(Path(one).absolute()) if Path(one).is_file() else one for one in values or ()]


Packages = Annotated[
    list[str] | None,
    typer.Option(
        "--package",
        help="also install this into an environment that is built (repeatable)",
        callback=_requirements,
    ),
]

LogForm = Annotated[
    Literal["plain", "json"] | None,
    typer.Option("--log", help="format of the log [default: plain on a terminal, else json]"),
]
Measuring = Annotated[bool, typer.Option("--measuring/--no-measuring", help="measure on this machine")]

Json = Annotated[bool, typer.Option("--json", help="JSON on stdout")]
JsonLines = Annotated[bool, typer.Option("--json", help="one JSON object per line on stdout")]

#: The largest number of a database column.
LARGEST = 2**63 - 1
