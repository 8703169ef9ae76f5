"""`pyrometer profile`: where the time of one case goes, and what differs between two tables of that."""

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from analysis.operators import OperatorChange, difference, operators, unlike
from common.interrupts import interruptible
from configuration.suggestions import unknown
from db.connection.engine import Database
from db.runs.traces import operator_tables
from interchange.exporters.tables import cell
from records.outcomes import OperatorTable
from runner.suites import plan
from workflows.errors import UsageError
from workflows.ingest import store_pending
from workflows.run_locally import RunRequest

from ..context import context, in_one_sentence
from ..options import CaseFiles, CaseOrCommand, Device, RunId, finite
from ..output.operator_tables import print_difference
from .run import measure

app = typer.Typer(
    cls=CaseOrCommand,
    help="Trace one case with torch.profiler (`profile CASE`), or compare two traces (`profile diff A B`).",
    no_args_is_help=True,
)


@app.command(CaseOrCommand.default)
def trace(
    case: Annotated[str, typer.Argument(help="a case: its key, or the first parts of it")],
    against: Annotated[
        str | None, typer.Option(help="also trace this technique of the same workload, and subtract it")
    ] = None,
    steps: Annotated[
        int, typer.Option(min=1, max=1000, help="steps under the profiler, after a warm-up")
    ] = 5,
    environment: Annotated[
        str | None, typer.Option("--environment", "-e", help="environment: a name [default: default]")
    ] = None,
    python: Annotated[Path | None, typer.Option(help="trace the PyTorch of this interpreter instead")] = None,
    cases: CaseFiles = None,
    device: Device = None,
    preset: Annotated[str | None, typer.Option(help="measurement preset [default: quiet]")] = None,
    deadline: Annotated[
        float | None, typer.Option(min=1, callback=finite, help="time limit of one case, in seconds")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per line on stdout")] = False,
    run_id: RunId = None,
) -> None:
    """Run one case under torch.profiler and store its operator table and trace as a run."""
    request = RunRequest(
        environment=environment,
        python=python,
        preset=preset,
        device=device,
        cases=(case,) if against is None else (case, _whole(case, against)),
        case_files=tuple(cases or ()),
        deadline=deadline,
        trace_steps=steps,
        run_id=run_id,
    )
    with in_one_sentence(), interruptible() as interrupts:
        raise typer.Exit(measure(request, interrupts, as_json=as_json))


def _whole(case: str, against: str) -> str:
    """The case under the technique `against`, where that is all that was typed of it."""
    workload, slash, _ = case.rpartition("/")
    return f"{workload}/{against}" if slash and "/" not in against and case.count("/") == 3 else against


@app.command("diff")
def diff(
    run_a: Annotated[str, typer.Argument(metavar="A", help="RUN or RUN:CASE; RUN may be `latest`")],
    run_b: Annotated[str, typer.Argument(metavar="B", help="the run that A is subtracted from")],
    case: Annotated[str | None, typer.Option(help="the case, if a run has several")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on stdout")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV on stdout")] = False,
) -> None:
    """Subtract the operator table of A from that of B: a positive number means B is slower."""
    with in_one_sentence():
        if as_json and as_csv:
            raise UsageError("--json and --csv cannot be combined")
        app_context = context()
        store_pending(app_context)
        with app_context.open_database() as database:
            a, b = (_table(database, wanted, case) for wanted in (run_a, run_b))
        if why := unlike(a, b):
            raise UsageError(
                f"{_name(a)} and {_name(b)} cannot be subtracted: they differ in their {why.name}: "
                f"{why.one} and {why.other}"
            )
        changes = difference(operators(a.rows), operators(b.rows))
        if as_json:
            body = {"a": _about(a), "b": _about(b), "changes": [_row(change) for change in changes]}
            typer.echo(json.dumps(body, indent=2))
        elif as_csv:
            _write_csv(changes)
        else:
            print_difference(Console(highlight=False), (_name(a), _name(b)), changes)


def _table(database: Database, wanted: str, case: str | None) -> OperatorTable:
    """The table that `RUN` or `RUN:CASE` means; raises UsageError when it means none, or several."""
    run, _, named = wanted.partition(":")
    pattern = named or case
    if run == "latest":
        newest = operator_tables(database, limit=1)
        if not newest:
            raise UsageError("no run has an operator table: `pyrometer profile CASE` records one")
        run = newest[0].run
    tables = operator_tables(database, run=run)
    if not tables:
        raise UsageError(_no_table(database, run))
    meant = [table for table in tables if pattern is None or plan.matches(table.case, pattern)]
    cases = [table.case for table in tables]
    if not meant:
        raise UsageError(f"run {run}: {unknown('case', pattern or '', cases)}")
    if len(meant) > 1:
        raise UsageError(f"run {run} has several tables: name one, such as {run}:{meant[0].case}")
    return meant[0]


def _no_table(database: Database, run: str) -> str:
    known = list(dict.fromkeys(table.run for table in operator_tables(database)))
    if not known:
        return "no run has an operator table: `pyrometer profile CASE` records one"
    return f"{unknown('run', run, [*known, 'latest'])} (runs with an operator table)"


def _name(table: OperatorTable) -> str:
    return f"{table.case}, run {table.run}, {table.environment}, torch {table.torch_version}"


def _about(table: OperatorTable) -> dict[str, str]:
    return {
        "run": table.run,
        "case": table.case,
        "environment": table.environment,
        "torch": table.torch_version,
    }


def _row(change: OperatorChange) -> dict[str, object]:
    return {**asdict(change), "delta_us": change.delta_us}


def _write_csv(changes: Sequence[OperatorChange]) -> None:
    rows = [_row(change) for change in changes]
    writer = csv.writer(sys.stdout)
    writer.writerow(rows[0])
    writer.writerows([cell(value) for value in row.values()] for row in rows)
