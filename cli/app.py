"""The command people type: `pyrometer ...`."""

import io
import os
import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import Annotated, Literal

import typer

from . import catalogue, database, doctor, profile, show, suites, telemetry
from . import run as runs
from .context import UsageError, context, in_one_sentence
from .interrupts import Interrupts, interruptible

app = typer.Typer(
    name="pyrometer",
    help="Measures PyTorch on machines you own, keeps every number, and shows how it moves.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # A mistake on the command line gets a sentence, not a box.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(catalogue.cases, name="cases")
app.add_typer(suites.app, name="suites")
app.add_typer(catalogue.environments, name="environments")
app.add_typer(database.app, name="db")
app.add_typer(telemetry.app, name="telemetry")
app.add_typer(profile.app, name="profile")
app.command("doctor")(doctor.doctor)
app.command("dashboard")(show.dashboard)

Device = Annotated[
    Literal["auto", "cpu"] | None,
    typer.Option(help="cpu: measure the CPU even where a GPU is [default: as the suite says]"),
]

_RUN_HELP = """Measure this machine with a suite and keep every number.

\b
pyrometer run                                  suite `smoke`, environment `default`
pyrometer run --suite cpu --replicates 5
pyrometer run --case resnet50 --case 'gpt2*'   cases by name or glob
pyrometer run --cases my_cases.py              cases of your own (see CONTRIBUTING.md)
pyrometer run --python ~/venv/bin/python       measure the PyTorch of an interpreter you have
pyrometer run --resume latest                  go on with what was interrupted

Ctrl-C ends it cleanly: what is measured stays, and the command to go on with is printed.
Exit code: 0 all went well or was skipped, 1 some case did not, 2 the call makes no sense, 130 interrupted.
"""


@app.command("run", help=_RUN_HELP)
def run(
    suite: Annotated[
        str | None, typer.Option("--suite", "-s", help="suite to measure [default: smoke]")
    ] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", "-e", help="environment by name [default: default]")
    ] = None,
    python: Annotated[Path | None, typer.Option(help="measure this interpreter's PyTorch instead")] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case", help="only cases that match: key, whole parts of its beginning, or glob (repeatable)"
        ),
    ] = None,
    cases: Annotated[
        list[Path] | None, typer.Option("--cases", help="a Python file with cases of your own (repeatable)")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="measurement profile [default: quiet]")] = None,
    device: Device = None,
    replicates: Annotated[int | None, typer.Option(min=1, help="fresh processes per case")] = None,
    budget: Annotated[float | None, typer.Option(min=1, help="seconds the whole run may take")] = None,
    deadline: Annotated[float | None, typer.Option(min=1, help="seconds one replicate may take")] = None,
    resume: Annotated[str | None, typer.Option(help="go on with this run: its id, or `latest`")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per line on stdout")] = False,
) -> None:
    """Measure this machine (the help text is above, where its layout survives)."""
    request = runs.RunRequest(
        suite=suite,
        environment=environment,
        python=python,
        profile=profile,
        device=device,
        cases=tuple(case or ()),
        case_files=tuple(cases or ()),
        replicates=replicates,
        budget=budget,
        deadline=deadline,
        json=as_json,
    )
    with in_one_sentence(), interruptible() as interrupts:
        raise typer.Exit(_run(request, resume, interrupts))


def _run(request: runs.RunRequest, resume: str | None, interrupts: Interrupts) -> int:
    if resume is not None and request != runs.RunRequest(json=request.json):
        raise UsageError("--resume goes on with what was planned; it takes no other selection")
    if resume is not None:
        return runs.exit_code(lambda: runs.resume(context(), resume, request.json, interrupts))
    return runs.exit_code(lambda: runs.start(context(), request, interrupts))


@app.command("version")
def version() -> None:
    """The version of Pyrometer."""
    typer.echo(installed("pyrometer"))


def main() -> None:
    """Entry point of the console script."""
    _mend_streams()
    app()


def _mend_streams() -> None:
    """Let no closed stream and no narrow encoding of a terminal end a run."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
