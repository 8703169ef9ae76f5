"""The report at the end of a run, and `pyrometer report`, which prints it again."""

from dataclasses import replace
from typing import Annotated

import typer

from records.kinds import RunSource
from workflows.errors import UsageError
from workflows.ingest import store_pending
from workflows.load_run import LATEST, judge_told, retell
from workflows.planning.plan_upgrade import waivers

from ..context import FAILED, context, in_one_sentence
from ..options import Because, Reports, Waived
from ..output.console import report_console
from ..output.progress import JsonWatcher
from ..output.run_report import print_told
from ..output.upgrade_report import check_reports, tell, write_reports


def report(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="a run's id, or `latest`")] = LATEST,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="the lines `outcome` and `ended` of `run --json`, of an upgrade `verdict`"
        ),
    ] = False,
    files: Reports = None,
    waive: Waived = None,
    because: Because = None,
) -> None:
    """Print again what `run` printed at its end, or the verdict of an upgrade."""
    with in_one_sentence():
        check_reports(files or ())
        here = context()
        store_pending(here)
        told = retell(here.places.data_dir, run, here.open_database)
        judged = judge_told(told, waivers(tuple(waive or ()), tuple(because or ())))
        if waive and judged is None:
            raise UsageError(f"run {told.result.run} is no upgrade: it has no decision to waive a case of")
        if files and judged is None:
            raise UsageError(f"run {told.result.run} is no upgrade: only of one there is a report to write")
    console = report_console()
    if judged is not None:
        tell(console, judged, as_json=as_json, here=told.header is not None)
        if not write_reports(judged, files or ()):
            raise typer.Exit(FAILED)
        return
    if not as_json:
        print_told(console, told, here.runs / told.result.run)
        return
    watcher = JsonWatcher(console)
    for outcome in told.result.outcomes:
        watcher.measured(outcome)
    # Of what others measured nobody knows what was alive together: there are no gains.
    foreign = told.source != RunSource.MEASURED
    watcher.finished(replace(told.result, outcomes=()) if foreign else told.result)
