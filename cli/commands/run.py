"""`pyrometer run`: measure this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from common.interrupts import Interrupts, interruptible
from records.kinds import RunState
from records.outcomes import OutcomeStatus
from reports.run_report import RUN_FORMATS
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.load_run import LoadedRun, judge_cases
from workflows.measure import RunResult
from workflows.run_header import Header
from workflows.run_locally import Conclude, RunRequest, resume_run, start_run

from ..context import (
    FAILED,
    INTERRUPTED,
    context,
    in_one_sentence,
    interrupted_beforehand,
    refused_for_good,
)
from ..options import CaseFiles, Cases, CensusFile, Device, JsonLines, LockClocks, Reports, RunId, finite
from ..output.console import watching_console
from ..output.reporter import end_output
from ..output.run_report import print_loaded
from ..output.upgrade_report import UpgradeConclusion, check_reports, write_reports

RUN_HELP = """Measure a suite of cases on this machine and store every result.

\b
pyrometer run                                  suite `smoke`, environment `default`
pyrometer run --suite cpu --replicates 5
pyrometer run --case resnet50                  its cases in `smoke`, or else its smallest case
pyrometer run --case 'gpt2*' --budget 600      all matching cases, for at most ten minutes
pyrometer run --cases my_cases.py              your own cases (see CONTRIBUTING.md)
pyrometer run --python ~/venv/bin/python       measure the PyTorch of this interpreter
pyrometer run --suite cpu --report cpu.html    also write a file, with the change against earlier runs
pyrometer run --resume latest                  resume an interrupted run

Ctrl-C stops the run: finished results are kept, and the command that resumes it is printed.
Exit code: 0 every case is ok, skipped or unsupported; 1 a case failed; 2 wrong usage, or it cannot start;
130 interrupted; with --resume also 4: this run can never be resumed.
"""


EnvironmentName = Annotated[
    str | None,
    typer.Option(
        "--environment",
        "-e",
        help="a declared name, or a version, which is built if missing [default: default]",
    ),
]
Interpreter = Annotated[Path | None, typer.Option(help="measure the PyTorch of this interpreter instead")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="measure the selected cases even if they take long")]
Fingerprint = Annotated[
    bool, typer.Option("--fingerprint", help="then take the missing fingerprints, as scheduled runs do")
]
#: The variable with the file of `--nodes`; the job of a fleet sets it.
NODES_VARIABLE = "PYROMETER_NODES_FILE"


def run(
    suite: Annotated[
        str | None, typer.Option("--suite", "-s", help="suite to measure [default: smoke]")
    ] = None,
    environment: EnvironmentName = None,
    python: Interpreter = None,
    case: Cases = None,
    cases: CaseFiles = None,
    census: CensusFile = None,
    preset: Annotated[str | None, typer.Option(help="measurement preset [default: quiet]")] = None,
    device: Device = None,
    lock_clocks: LockClocks = None,
    replicates: Annotated[int | None, typer.Option(min=1, help="fresh processes per case")] = None,
    budget: Annotated[
        float | None, typer.Option(min=1, callback=finite, help="time limit of the whole run, in seconds")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(min=1, callback=finite, help="time limit of one replicate, in seconds")
    ] = None,
    resume: Annotated[str | None, typer.Option(help="resume this run: its id, or `latest`")] = None,
    nodes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar=NODES_VARIABLE,
            help="a file with the nodes of this job, for cases with axis nodes; a fleet sets it",
        ),
    ] = None,
    yes: Yes = False,
    run_id: RunId = None,
    fingerprint: Fingerprint = False,
    report: Reports = None,
    as_json: JsonLines = False,
) -> None:
    """Measure this machine (the help text is a constant, which keeps its layout)."""
    request = RunRequest(
        suite=suite,
        environment=environment,
        python=python,
        preset=preset,
        device=device,
        cases=tuple(case or ()),
        case_files=tuple(cases or ()),
        census=census,
        replicates=replicates,
        budget=budget,
        deadline=deadline,
        run_id=run_id,
        nodes=nodes,
        yes=yes,
        fingerprints=fingerprint,
        lock_clocks=lock_clocks,
    )
    with in_one_sentence(), interruptible() as interrupts:
        check_reports(report or ())
        raise typer.Exit(_run(request, resume, interrupts, report or (), as_json=as_json))


def _run(
    request: RunRequest,
    resumed: str | None,
    interrupts: Interrupts,
    reports: Sequence[Path],
    *,
    as_json: bool,
) -> int:
    if resumed is None:
        return measure(request, interrupts, reports, as_json=as_json)
    if request != RunRequest(nodes=request.nodes):
        raise UsageError("--resume continues the stored plan; it cannot be combined with a selection")
    with refused_for_good(), interrupted_beforehand():
        app_context = context(noting=False, as_json=as_json)
        conclude = conclusion(app_context, reports, as_json=as_json)
        result = resume_run(app_context, resumed, request.nodes, interrupts, conclude, reported=bool(reports))
    return exit_code(result)


def measure(
    request: RunRequest, interrupts: Interrupts, reports: Sequence[Path] = (), *, as_json: bool
) -> int:
    """Plan and measure a new run, and write `reports`; returns the exit code.

    Raises UsageError, RunnerError or JobError.
    """
    app_context = context(noting=False, as_json=as_json)
    conclude = conclusion(app_context, reports, as_json=as_json)
    with interrupted_beforehand():
        result = start_run(app_context, request, interrupts, conclude)
    return exit_code(result)


def exit_code(result: RunResult) -> int:
    """The exit code of a run."""
    if result.state == RunState.INTERRUPTED:
        return INTERRUPTED
    well = (OutcomeStatus.OK, OutcomeStatus.SKIPPED, OutcomeStatus.UNSUPPORTED)
    return 0 if all(outcome.status in well for outcome in result.outcomes) else FAILED


def conclusion(app: AppContext, reports: Sequence[Path] = (), *, as_json: bool) -> Conclude:
    """Prints the report of a run, or the verdict of one that compares two environments; writes `reports`."""

    def conclude(header: Header, result: RunResult) -> None:
        if header.comparison is not None:
            UpgradeConclusion(reports, as_json=as_json)(header, result)
            return
        console, loaded = watching_console(), LoadedRun.of(header, result)
        if not as_json:
            print_loaded(console, loaded, app.runs / header.run)
        if reports:
            write_reports(RUN_FORMATS, judge_cases(loaded, app.open_database), reports)
        end_output(console, header, result, as_json=as_json)

    return conclude
