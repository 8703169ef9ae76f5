"""`pyrometer report` prints the report of a run again, `pyrometer reproduce` the command and the packages of
it.
"""

import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.console import Console

from common.text import printable
from configuration.suggestions import unknown
from records.kinds import RunSource
from reports.run_report import RUN_FORMATS
from reports.upgrade_report import FORMATS
from workflows.errors import UsageError
from workflows.ingest import store_pending
from workflows.load_run import LATEST, LoadedRun, judge_cases, judge_loaded, load_run
from workflows.planning.plan_upgrade import unmatched_waivers, waivers
from workflows.planning.reproduction import (
    EnvironmentLock,
    Reproduction,
    check_repeated,
    reproduction,
)

from ..context import FAILED, context, in_one_sentence, say
from ..options import Because, Json, Reports, Waived
from ..output.console import report_console
from ..output.progress import JsonWatcher
from ..output.run_report import print_loaded
from ..output.upgrade_report import check_reports, report_upgrade, write_reports


def report(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="the id of a run, or `latest`")] = LATEST,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="as JSON: lines `outcome` and `ended` as of `run --json`; of an upgrade `verdict`"
        ),
    ] = False,
    files: Reports = None,
    waive: Waived = None,
    because: Because = None,
) -> None:
    """Print the report of a stored run or upgrade again."""
    with in_one_sentence():
        check_reports(files or ())
        app_context = context(reading=True)
        store_pending(app_context)
        loaded = load_run(app_context.places.data_dir, run, app_context.open_database)
        waived = waivers(tuple(waive or ()), tuple(because or ()))
        judged = judge_loaded(loaded, waived)
        if waive and judged is None:
            raise UsageError(f"run {loaded.result.run} is not an upgrade: --waive needs one")
        cases = [one.case for one in judged.results] if judged else []
        for glob in unmatched_waivers(waived, cases):
            raise UsageError(f"--waive: {unknown('case', glob, cases)}")
        measured = judge_cases(loaded, app_context.open_database) if files and judged is None else None
    console = report_console()
    if judged is not None:
        report_upgrade(console, judged, as_json=as_json, local=loaded.header is not None)
        if not write_reports(FORMATS, judged, files or ()):
            raise typer.Exit(FAILED)
        return
    if as_json:
        _print_events(console, loaded)
    else:
        print_loaded(console, loaded, app_context.runs / loaded.result.run)
    if measured is not None and not write_reports(RUN_FORMATS, measured, files or ()):
        raise typer.Exit(FAILED)


def _print_events(console: Console, loaded: LoadedRun) -> None:
    watcher = JsonWatcher(console)
    for outcome in loaded.result.outcomes:
        watcher.report_outcome(outcome)
    # An imported run has no gains: which of its processes were alive at once is unknown.
    foreign = loaded.source != RunSource.MEASURED
    watcher.report_end(replace(loaded.result, outcomes=()) if foreign else loaded.result)


REPRODUCE_HELP = """Print how a run or one case was measured, or measure it again.

\b
pyrometer reproduce latest                                     the command of the run, and locks
pyrometer reproduce latest:resnet50/infer/batch=1/eager        the command of one case
pyrometer reproduce latest:resnet50/infer/batch=1/eager --run  measure it again

The output has the command, the preset and the harness as comments, and each environment as requirements: for
a run of one environment it is a file for `pip install -r`. With --run an environment that was built here and
still exists is measured; any other is built again, and its packages besides torch may be newer than those
printed.
"""


def reproduce(
    text: Annotated[
        str, typer.Argument(metavar="RUN", help="the id of a run, or `latest`; RUN:CASE for one case")
    ],
    again: Annotated[bool, typer.Option("--run", help="run the command instead of printing it")] = False,
    as_json: Json = False,
) -> None:
    """Print how a run was measured (the help text is a constant, which keeps its layout)."""
    with in_one_sentence():
        app_context = context(reading=True)
        store_pending(app_context)
        found = reproduction(app_context, text)
        if again:
            check_repeated(found)
    if again:
        # The packages of the scheduler take long to import; other commands should not wait for them.
        from scheduled_jobs.scheduler.child_process import OURSELVES

        command = found.commands[0]
        say(shlex.join(command))
        os.execv(OURSELVES[0], [*OURSELVES, *command[1:]])
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2, default=str))
        return
    for line in _reproduction_lines(found):
        typer.echo(printable(line))


def _reproduction_lines(found: Reproduction) -> Iterator[str]:
    """The output as lines; all but the requirements are comments for pip."""
    yield f"# run {found.run}, {found.hardware}, Pyrometer {found.pyrometer or 'of an unknown version'}"
    yield from (f"# command: {shlex.join(command)}" for command in found.commands)
    yield f"# preset {found.preset}: {json.dumps(dict(found.settings), sort_keys=True, default=str)}"
    same = (
        "that of this program"
        if found.harness == found.own_harness
        else "different from that of this program"
    )
    yield f"# harness {found.harness}: {same}"
    for lock in found.environments:
        yield from _lock_lines(lock)


def _lock_lines(lock: EnvironmentLock) -> Iterator[str]:
    where = f"here: {lock.python}" if lock.python else "not built here any more"
    yield f"# environment {lock.name}: torch {lock.torch}, Python {lock.python_version}, {where}"
    yield from lock.packages or ("# its packages were not recorded",)
