"""`pyrometer profile` traces a case; `pyrometer record` records the operators of the user's program."""

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
from common.atomic_file import write_whole
from common.interrupts import interruptible
from common.text import key_matches
from configuration.suggestions import unknown
from db.connection.engine import Database
from db.runs.traces import operator_tables
from interchange.exporters.tables import cell
from records.outcomes import OperatorTable
from runner.census import Census, record_program, summary
from workflows.errors import JobError, UsageError
from workflows.ingest import store_pending
from workflows.run_locally import RunRequest

from ..context import context, in_one_sentence, say
from ..options import CaseFiles, CaseOrCommand, Device, Json, JsonLines, RunId, finite
from ..output.console import report_console, table
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
    as_json: JsonLines = False,
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
    """The case under the technique `against`, if only a technique was typed."""
    workload, slash, _ = case.rpartition("/")
    return f"{workload}/{against}" if slash and "/" not in against and case.count("/") == 3 else against


@app.command("diff")
def diff(
    run_a: Annotated[str, typer.Argument(metavar="A", help="RUN or RUN:CASE; RUN may be `latest`")],
    run_b: Annotated[str, typer.Argument(metavar="B", help="the run that A is subtracted from")],
    case: Annotated[str | None, typer.Option(help="the case, if a run has several")] = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV on stdout")] = False,
) -> None:
    """Subtract the operator table of A from that of B: a positive number means B is slower."""
    with in_one_sentence():
        if as_json and as_csv:
            raise UsageError("--json and --csv cannot be combined")
        app_context = context()
        store_pending(app_context)
        with app_context.open_database() as database:
            a, b = (_table(database, run, case) for run in (run_a, run_b))
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
            left_out = a.left_out, b.left_out
            print_difference(Console(highlight=False), (_name(a), _name(b)), changes, left_out)


def _table(database: Database, name: str, case: str | None) -> OperatorTable:
    """The table that `RUN` or `RUN:CASE` names; raises UsageError if there is none or more than one."""
    run, _, named = name.partition(":")
    pattern = named or case
    if run == "latest":
        newest = operator_tables(database, limit=1)
        if not newest:
            raise UsageError("no run has an operator table: `pyrometer profile CASE` records one")
        run = newest[0].run
    tables = operator_tables(database, run=run)
    if not tables:
        raise UsageError(_no_table(database, run))
    meant = [table for table in tables if pattern is None or key_matches(table.case, pattern)]
    cases = [table.case for table in tables]
    if not meant:
        raise UsageError(f"run {run}: {unknown('case', pattern or '', cases)}")
    if len(meant) > 1:
        raise UsageError(f"run {run} has several tables: name one, such as {run}:{meant[0].case}")
    return meant[0]


def _no_table(database: Database, run: str) -> str:
    runs = list(dict.fromkeys(table.run for table in operator_tables(database)))
    if not runs:
        return "no run has an operator table: `pyrometer profile CASE` records one"
    return f"{unknown('run', run, [*runs, 'latest'], newest_first=True)} (runs with an operator table)"


def _name(table: OperatorTable) -> str:
    return f"{table.case}, run {table.run}, {table.environment}, torch {table.torch_version}"


def _about(table: OperatorTable) -> dict[str, object]:
    return {
        "run": table.run,
        "case": table.case,
        "environment": table.environment,
        "torch": table.torch_version,
        "rows_left_out": table.left_out,
    }


def _row(change: OperatorChange) -> dict[str, object]:
    return {**asdict(change), "delta_us": change.delta_us}


def _write_csv(changes: Sequence[OperatorChange]) -> None:
    rows = [_row(change) for change in changes]
    writer = csv.writer(sys.stdout)
    writer.writerow(rows[0])
    writer.writerows([cell(value) for value in row.values()] for row in rows)


RECORD_HELP = """Record the operators that a program calls, with their share of the time.

\b
pyrometer record -- python train.py --lr 0.1        writes census.toml
pyrometer record --steps 5 -- python -m my.training
pyrometer upgrade 2.12.1 2.13.0 --census census.toml

The program runs in its own interpreter, in which nothing is installed, and is ended after its steps. A step
is a call of the outermost module, with backward pass and update. The census contains no values of tensors and
no file names. `run` and `upgrade` measure each operator as a case; a verdict weights it by its share.

From PyTorch 2.9 on, a graph that torch.compile makes is recorded as one compiled region, and measured
compiled; one that ran backward is measured with an update by AdamW. During recording it is compiled by
Inductor in its default mode, whatever options the program uses. With an older PyTorch the program runs
uncompiled during recording.
"""

#: The number of operators that are listed; the file contains all.
_LISTED = 12


def record(
    command: Annotated[list[str], typer.Argument(metavar="-- PYTHON SCRIPT ...", help="the program")],
    steps: Annotated[int, typer.Option(min=1, max=1000, help="steps that are recorded")] = 3,
    skip: Annotated[int, typer.Option(min=0, help="steps that run before them")] = 1,
    output: Annotated[Path, typer.Option("--output", "-o", help="the file")] = Path("census.toml"),
    as_json: Json = False,
) -> None:
    """Record a program (the help text is a constant, which keeps its layout)."""
    with in_one_sentence():
        if output.is_dir() or not output.absolute().parent.is_dir():
            raise UsageError(f"--output {output} is not a file that can be written")
        done = record_program(command, steps, skip)
        try:
            write_whole(output, done.census.to_toml())
        except OSError as error:
            raise JobError(f"{output}: {error.strerror or error}") from None
    if done.code:
        say(f"note: the program ended with {done.code}; the steps recorded before that are kept")
    if done.left_out:
        say(f"note: not in the census, as an argument cannot be recreated: {', '.join(done.left_out)}")
    if done.census.compiled and not done.census.regions:
        say(
            f"note: PyTorch {done.census.torch} ran the program uncompiled while it was recorded: compiled "
            "modules are recorded as separate operators"
        )
    if as_json:
        typer.echo(json.dumps(_body(done.census, output), indent=2))
        return
    _print(done.census, output)


def _body(census: Census, output: Path) -> dict[str, object]:
    operators = [
        {"name": one.name, "inputs": one.inputs, "count": one.count, "share": one.share, "case": one.case}
        for one in census.operators
    ]
    regions = [
        {
            "calls": dict(one.calls),
            "inputs": one.inputs,
            "count": one.count,
            "share": one.share,
            "case": None if one.arguments is None else one.case,
        }
        for one in census.regions
    ]
    body = {"file": str(output), "torch": census.torch, "steps": census.steps}
    return {**body, "operators": operators, "regions": regions}


def _print(census: Census, output: Path) -> None:
    typer.echo(f"{output}: {summary(census)}")
    rows = table("share", "calls", "operator", "inputs")
    listed = sorted((*census.operators, *census.regions), key=lambda one: -one.share)
    for one in listed[:_LISTED]:
        rows.add_row(f"{one.share:.1%}", str(one.count), one.name, one.inputs)
    report_console().print(rows)
    if (more := len(listed) - _LISTED) > 0:
        typer.echo(f"and {more} more in {output}")
    typer.echo(
        f"measure them: pyrometer run --census {output}, or pyrometer upgrade OLD NEW --census {output}"
    )
