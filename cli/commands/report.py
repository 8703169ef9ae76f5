"""The report at the end of a run, and `pyrometer report`, which prints it again."""

from dataclasses import replace
from typing import Annotated

import typer

from records.kinds import RunSource
from workflows.errors import UsageError
from workflows.ingest import store_pending
from workflows.load_run import LATEST, judge_loaded, load_run
from workflows.planning.plan_upgrade import waivers

from ..context import FAILED, context, in_one_sentence
from ..options import Because, Reports, Waived
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
        app_context = context()
        store_pending(app_context)
        loaded = load_run(app_context.places.data_dir, run, app_context.open_database)
        judged = judge_loaded(loaded, waivers(tuple(waive or ()), tuple(because or ())))
        if waive and judged is None:
            raise UsageError(f"run {loaded.result.run} is not an upgrade: --waive needs one")
        if files and judged is None:
            raise UsageError(f"run {loaded.result.run} is not an upgrade: --report needs one")
    console = report_console()
    if judged is not None:
        report_upgrade(console, judged, as_json=as_json, local=loaded.header is not None)
        if not write_reports(judged, files or ()):
            raise typer.Exit(FAILED)
        return
    if not as_json:
        print_loaded(console, loaded, app_context.runs / loaded.result.run)
        return
    watcher = JsonWatcher(console)
    for outcome in loaded.result.outcomes:
        watcher.measured(outcome)
    # Which processes of an imported run were alive at once is unknown: there are no gains.
    foreign = loaded.source != RunSource.MEASURED
    watcher.finished(replace(loaded.result, outcomes=()) if foreign else loaded.result)
