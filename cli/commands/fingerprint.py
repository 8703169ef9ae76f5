"""`pyrometer fingerprint`: the operators and kernels of one step of a case, and their differences."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from analysis.dispatch_difference import CaseDifference, compare_cases
from common.interrupts import interruptible
from configuration.settings import DEFAULT_ENVIRONMENT
from records.dispatch import CaseFingerprint, DispatchPart
from reports.text.dispatch_text import PARTS, case_words, summary_words
from workflows.fingerprints import Fingerprints
from workflows.run_locally import FingerprintRequest, fingerprints_of

from ..context import FAILED, context, in_one_sentence
from ..options import CaseFiles, CaseOrCommand, Device, Json, finite
from ..output.console import print_line, report_console

#: The most lines of one case on a terminal; the JSON has all.
_MOST = 12

app = typer.Typer(
    cls=CaseOrCommand,
    help="Record which operators and kernels a case runs, and compare two environments.\n\n"
    "A fingerprint counts ATen operators, oneDNN's and MKL's kernels, CUDA kernels and, of a compiled case, "
    "graphs, guards, fused kernels and hashes of the generated code. Nothing is timed: one step of each case "
    "runs in its own process. A fingerprint is stored, and recorded again only for another environment, "
    "machine, preset or harness.",
    no_args_is_help=True,
)

Suite = Annotated[str | None, typer.Option(help="all cases of this suite")]
Preset = Annotated[str | None, typer.Option(help="measurement preset [default: quiet]")]
Deadline = Annotated[
    float | None,
    typer.Option(min=1, callback=finite, help="time limit of one case, in seconds"),
]
Again = Annotated[bool, typer.Option("--again", help="record again, also if a fingerprint is stored")]


@app.command(CaseOrCommand.default)
def take(
    cases_: Annotated[
        list[str],
        typer.Argument(metavar="CASE...", help="cases: keys, first parts of keys, or globs"),
    ],
    environment: Annotated[
        str, typer.Option("--environment", "-e", help="environment: a name, a version or a path")
    ] = DEFAULT_ENVIRONMENT,
    cases: CaseFiles = None,
    device: Device = None,
    preset: Preset = None,
    deadline: Deadline = None,
    again: Again = False,
    as_json: Json = False,
) -> None:
    """Print the fingerprint of each case: names and numbers of calls. Exit code 1 if a case has none."""
    wanted = (environment,)
    request = FingerprintRequest(
        wanted, tuple(cases_), None, tuple(cases or ()), preset, device, deadline, again
    )
    with in_one_sentence(), interruptible() as interrupts:
        (found,) = fingerprints_of(context(as_json=False), request, interrupts)
    if as_json:
        typer.echo(json.dumps([_body(one) for one in found.cases.values()], indent=2))
    else:
        _print(found)
    if any(one.fingerprint is None for one in found.cases.values()):
        raise typer.Exit(FAILED)


@app.command("diff")
def diff(
    old: Annotated[str, typer.Argument(metavar="A", help="environment: a name, a version or a path")],
    new: Annotated[str, typer.Argument(metavar="B", help="the environment that is compared with A")],
    cases_: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CASE...]", help="cases: keys, first parts of keys, or globs"),
    ] = None,
    suite: Suite = None,
    cases: CaseFiles = None,
    device: Device = None,
    preset: Preset = None,
    deadline: Deadline = None,
    again: Again = False,
    as_json: Json = False,
) -> None:
    """Print the kernels, operators and fusions that differ in B, warnings first.

    The exit code is 0 also if something differs: nothing is timed.
    """
    request = FingerprintRequest(
        (old, new), tuple(cases_ or ()), suite, tuple(cases or ()), preset, device, deadline, again
    )
    with in_one_sentence(), interruptible() as interrupts:
        a, b = fingerprints_of(context(), request, interrupts)
    found = compare_cases(a.cases, b.cases)
    if as_json:
        body = {"a": _side(a), "b": _side(b), "cases": [one.to_body() for one in found]}
        typer.echo(json.dumps(body, indent=2))
        return
    console = report_console()
    _print_differences(console, found)
    print_line(console, f"{_environment_label(a)} against {_environment_label(b)}: {summary_words(found)}")


def _print_differences(console: Console, cases: Sequence[CaseDifference]) -> None:
    """Each case that runs differently, or could not be compared, with its changes."""
    for one in cases:
        if lines := case_words(one, _MOST):
            print_line(console, one.case)
            for line in lines:
                print_line(console, f"  {line}")


def _print(found: Fingerprints) -> None:
    console = report_console()
    for one in found.cases.values():
        print_line(console, f"{one.case}, {_environment_label(found)}")
        if one.fingerprint is None:
            print_line(console, f"  {one.status}: {one.reason}")
            continue
        for part in DispatchPart:
            for name, count in sorted(one.fingerprint.parts.get(part, {}).items()):
                print_line(console, f"  {PARTS[part]}: {name}, {count}x")
        for part, reason in one.fingerprint.missing.items():
            print_line(console, f"  {PARTS[DispatchPart(part)]}: not recorded: {reason}")


def _environment_label(found: Fingerprints) -> str:
    return f"{found.environment.name} (torch {found.environment.torch_version})"


def _side(found: Fingerprints) -> dict[str, str]:
    return {"environment": found.environment.name, "torch": found.environment.torch_version}


def _body(one: CaseFingerprint) -> dict[str, Any]:
    content = one.fingerprint.to_body() if one.fingerprint else None
    return {"case": one.case, "status": one.status, "reason": one.reason, "fingerprint": content}
