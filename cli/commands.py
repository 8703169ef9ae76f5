"""The command people type: `pyrometer ...`, its commands and their options."""

from importlib.metadata import version as installed
from pathlib import Path
from typing import Annotated

import typer

from . import bisect as bisects
from . import (
    catalogue,
    database,
    digest,
    doctor,
    environments,
    export,
    fleet,
    imports,
    lend,
    profile,
    regressions,
    report,
    schedule,
    scheduler,
    serving,
    show,
    submit,
    suites,
    telemetry,
)
from . import run as runs
from . import upgrade as upgrades
from .context import UsageError, context, in_one_sentence
from .interrupts import Interrupts, interruptible
from .neighbours import Beside, SecretFile
from .options import CaseFiles, Cases, ColdPairs, Confirms, Device, Pairs, Reports, RunId, finite

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
app.add_typer(environments.app, name="environments")
app.add_typer(database.app, name="db")
app.add_typer(telemetry.app, name="telemetry")
app.add_typer(profile.app, name="profile")
app.add_typer(regressions.app, name="regressions")
app.add_typer(schedule.app, name="schedule")
app.add_typer(digest.alerts, name="alerts")
app.add_typer(fleet.app, name="fleet")
app.command("report")(report.report)
app.command("export", help=export.HELP)(export.export)
app.command("import", help=imports.HELP)(imports.import_files)
app.command("submit", help=submit.HELP)(submit.submit_file)
app.command("doctor")(doctor.doctor)
app.command("dashboard")(show.dashboard)
app.command("digest", help=digest.HELP)(digest.digest)
app.command("lend", help=lend.HELP)(lend.lend)
app.command("scheduler", help=scheduler.HELP)(scheduler.scheduler)
app.command("serve", help=serving.HELP)(serving.serve)

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
        str | None,
        typer.Option("--environment", "-e", help="a name, or a version, built if need be [default: default]"),
    ] = None,
    python: Annotated[Path | None, typer.Option(help="measure this interpreter's PyTorch instead")] = None,
    case: Cases = None,
    cases: CaseFiles = None,
    profile: Annotated[str | None, typer.Option(help="measurement profile [default: quiet]")] = None,
    device: Device = None,
    replicates: Annotated[int | None, typer.Option(min=1, help="fresh processes per case")] = None,
    budget: Annotated[
        float | None, typer.Option(min=1, callback=finite, help="seconds the whole run may take")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(min=1, callback=finite, help="seconds one replicate may take")
    ] = None,
    resume: Annotated[str | None, typer.Option(help="go on with this run: its id, or `latest`")] = None,
    neighbour: Beside = None,
    secret_file: SecretFile = None,
    run_id: RunId = None,
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
        run_id=run_id,
        neighbours=tuple(neighbour or ()),
        secret_file=secret_file,
        json=as_json,
    )
    with in_one_sentence(), interruptible() as interrupts:
        raise typer.Exit(_run(request, resume, interrupts))


_UPGRADE_HELP = """Should this machine move from OLD to NEW? Both are measured together, and judged.

\b
pyrometer upgrade 2.12.1 2.13.0                     built if need be, suite `smoke`
pyrometer upgrade default nightly --suite cpu
pyrometer upgrade default ~/venv/bin/python --case resnet50 --report verdict.html
pyrometer upgrade default default                   against itself: what the method makes up
pyrometer upgrade --resume latest                   go on with what was interrupted

OLD and NEW: a declared name, a version, `nightly`, a wheel, or an interpreter. Each case is measured in pairs
of fresh processes that take turns, until its verdict stands: faster, slower, same, or honestly unclear. The
policy in pyrometer.toml ([policies.NAME]) makes one verdict of all of them.
Exit code: 0 go, 1 no-go, 3 unclear, 2 the call makes no sense, 130 interrupted.
"""


@app.command("upgrade", help=_UPGRADE_HELP)
def upgrade(
    old: Annotated[str | None, typer.Argument(help="what you have")] = None,
    new: Annotated[str | None, typer.Argument(help="what you may move to")] = None,
    suite: Annotated[
        str | None, typer.Option("--suite", "-s", help="suite to measure [default: smoke]")
    ] = None,
    case: Cases = None,
    cases: CaseFiles = None,
    profile: Annotated[str | None, typer.Option(help="measurement profile [default: quiet]")] = None,
    policy: Annotated[str | None, typer.Option(help="policy to judge by [default: default]")] = None,
    device: Device = None,
    pairs: Pairs = None,
    cold_pairs: ColdPairs = None,
    budget: Annotated[
        float | None, typer.Option(min=1, callback=finite, help="seconds the measuring may take")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(min=1, callback=finite, help="seconds one process may take")
    ] = None,
    report: Reports = None,
    resume: Annotated[str | None, typer.Option(help="go on with this upgrade: its run, or `latest`")] = None,
    run_id: RunId = None,
    confirms: Confirms = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per line on stdout")] = False,
) -> None:
    """Judge an upgrade (the help text is above, where its layout survives)."""
    request = upgrades.UpgradeRequest(
        old=old or "",
        new=new or "",
        suite=suite,
        cases=tuple(case or ()),
        case_files=tuple(cases or ()),
        profile=profile,
        policy=policy,
        device=device,
        pairs=pairs,
        cold_pairs=cold_pairs,
        budget=budget,
        deadline=deadline,
        reports=tuple(report or ()),
        run_id=run_id,
        confirms=confirms,
        json=as_json,
    )
    with in_one_sentence(), interruptible() as interrupts:
        raise typer.Exit(upgrades.run(context, request, resume, interrupts))


_BISECT_HELP = """Between which two of GOOD, those between and BAD did a case become slower, or break?

\b
pyrometer bisect 2.10.0 2.13.0 --case resnet50/infer/batch=1,image=64/eager
pyrometer bisect 'nightly 2026-11-01' 'nightly 2026-11-20' --case KEY --pairs 20
pyrometer bisect default ~/new/.venv --candidates ~/a/.venv,~/b/.venv --case KEY --cases my_cases.py
pyrometer bisect --resume latest                go on with what was interrupted

GOOD and BAD: as in `upgrade`. Between two versions lie the releases that the package index offers, between
two nightlies the nightlies, between anything else what --candidates lists in order. The ends are compared
first, then the middle with GOOD, and at last the two that remain with each other. What cannot be built or
imported is skipped. Each comparison is an upgrade of its own, with a run that `pyrometer report` tells.
Exit code: 0 the pair is found, 3 it is not (the ends do not differ, or those between cannot be told), 2 the
call makes no sense, 130 interrupted.
"""


@app.command("bisect", help=_BISECT_HELP)
def bisect(
    good: Annotated[str | None, typer.Argument(help="where the case is as it should be")] = None,
    bad: Annotated[str | None, typer.Argument(help="where it is slower, or broken")] = None,
    case: Annotated[
        str | None, typer.Option("--case", help="the case to follow: its key, or a pattern")
    ] = None,
    candidates: Annotated[
        str | None, typer.Option(help="what lies between, in order: specs or names, with commas")
    ] = None,
    suite: Annotated[str | None, typer.Option("--suite", "-s", help="suite whose timing to use")] = None,
    cases: CaseFiles = None,
    profile: Annotated[str | None, typer.Option(help="measurement profile [default: quiet]")] = None,
    policy: Annotated[str | None, typer.Option(help="policy to judge by [default: default]")] = None,
    device: Device = None,
    pairs: Annotated[
        int | None, typer.Option(help="at most so many pairs in each comparison [default: 12]")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(min=1, callback=finite, help="seconds one process may take")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="write it to FILE.json")] = None,
    resume: Annotated[str | None, typer.Option(help="go on with this bisection: its id, or `latest`")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per line on stdout")] = False,
) -> None:
    """Find where a case changed (the help text is above, where its layout survives)."""
    request = bisects.BisectRequest(
        good=good or "",
        bad=bad or "",
        case=case or "",
        candidates=candidates,
        suite=suite,
        case_files=tuple(cases or ()),
        profile=profile,
        policy=policy,
        device=device,
        pairs=pairs,
        deadline=deadline,
        report=report,
        json=as_json,
    )
    with in_one_sentence(), interruptible() as interrupts:
        raise typer.Exit(bisects.run(context, request, resume, interrupts))


def _run(request: runs.RunRequest, resume: str | None, interrupts: Interrupts) -> int:
    if resume is not None and request != runs.RunRequest(json=request.json, secret_file=request.secret_file):
        raise UsageError("--resume goes on with what was planned; it takes no other selection")
    if resume is not None:
        return runs.exit_code(lambda: runs.resume(context(), resume, request, interrupts))
    return runs.exit_code(lambda: runs.start(context(), request, interrupts))


@app.command("version")
def version() -> None:
    """The version of Pyrometer."""
    typer.echo(installed("pyrometer"))


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def pyrometer(
    asked: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and exit"),
    ] = False,
) -> None:
    """What stands before a command (the help is the program's own)."""
