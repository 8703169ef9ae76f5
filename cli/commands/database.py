"""`pyrometer db`: the database itself."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from analysis.metrics import METRICS
from common.text import plural, printable, printable_lines
from configuration.suggestions import unknown
from db.admin.backup import back_up
from db.admin.check import CheckResult, open_read_only
from db.admin.delete_run import DeletedRun
from db.connection.engine import open_database
from db.connection.engine import upgrade as upgrade_database
from db.errors import StillReferred
from db.runs.metric_definitions import correct_metric, metric_definitions
from workflows import database_upkeep
from workflows.database_upkeep import Retention
from workflows.database_upkeep import check as check_all
from workflows.database_upkeep import forget as forget_run
from workflows.database_upkeep import repair as repair_runs
from workflows.errors import UsageError

from ..context import FAILED, context, in_one_sentence
from ..options import JsonLines

app = typer.Typer(help="Upgrade, check, back up and prune the database.", no_args_is_help=True)

#: The number of newest runs whose measurements, samples and recordings are checked without --all.
_NEWEST = 200
#: Problems of one kind that are printed; JSON has them all.
_PRINTED = 10


@app.command("upgrade")
def upgrade() -> None:
    """Upgrade the database to the schema of this version (an SQLite file is copied first)."""
    with in_one_sentence():
        done = upgrade_database(context().places.database_url)
    if done.before == done.after:
        typer.echo(f"already at {done.after}")
        return
    typer.echo(f"upgraded from {done.before or 'nothing'} to {done.after}")
    if done.backup:
        typer.echo(f"copy of the file before the upgrade: {done.backup}")


_CHECK_HELP = f"""Check that the database is consistent. It is only read, except with --repair.

Checks the schema, the pages of an SQLite file, references, counts, times and metrics of the whole database;
and measurements (against their outcomes), outcomes (against the journals of this data folder), samples and
recordings of the newest {_NEWEST} runs, or with --all of all runs. Reports journals that are not completely
stored. With --repair a run that differs from its journal is first stored again from the journal: rows that
the journal does not have, for example imported ones, are deleted. A run whose journal lacks stored outcomes
of its plan is not changed.

Exit code: 0 no problem, 1 a problem, printed with its remedy, 2 the database cannot be opened.
"""


@app.command("check", help=_CHECK_HELP)
def check(
    every: Annotated[bool, typer.Option("--all", help="check all runs, not only the newest")] = False,
    as_json: JsonLines = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="first store runs again that differ from their journals")
    ] = False,
) -> None:
    """Check the database (the help text is a constant, which keeps its layout)."""
    sound = True
    with in_one_sentence():
        app_context = context(reading=not repair)
        newest = None if every else _NEWEST
        if repair:
            with app_context.open_database() as database:
                for sentence in repair_runs(database, app_context.places.data_dir):
                    typer.echo(printable(sentence), err=as_json)
        with open_read_only(app_context.places.database_url) as database:
            for checked in check_all(
                database, app_context.places.data_dir, newest=newest, progress=_progress
            ):
                sound = sound and not checked.problems
                _wipe()
                # Names of cases and metrics may come from files.
                typer.echo(json.dumps(asdict(checked)) if as_json else printable_lines(_in_lines(checked)))
    if as_json:
        typer.echo(json.dumps({"sound": sound}))
    else:
        typer.echo(
            "no problem found" if sound else f"problems found{'' if repair else '; nothing was changed'}"
        )
    if not sound:
        raise typer.Exit(FAILED)


def _in_lines(checked: CheckResult) -> str:
    count = len(checked.problems)
    found = plural(count, "problem") if count else "sound"
    lines = [f"{checked.name:12} {checked.count:>9} {checked.unit:12} {found}"]
    lines += [f"    {note}" for note in checked.notes]
    for problem in checked.problems[:_PRINTED]:
        lines += [f"    {problem.sentence}", f"        {problem.mend}"]
    if count > _PRINTED:
        lines.append(f"    and {count - _PRINTED} more; --json lists all")
    return "\n".join(lines)


def _progress(what: str, done: int, there: int) -> None:
    if sys.stderr.isatty() and (done % 10 == 0 or done == there):
        sys.stderr.write(f"\r\033[K{what}: {done} of {there}")
        sys.stderr.flush()


def _wipe() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()


_BACKUP_HELP = """Copy the whole database to FILE, consistent as of one moment, while runs continue.

The copy is checked and written to disk before it gets its name: FILE is complete or absent.

\b
SQLite     FILE is an SQLite database. To restore it, stop every pyrometer process, move pyrometer.db,
           pyrometer.db-wal and pyrometer.db-shm away, and copy FILE to pyrometer.db. SQLite would apply an
           old -wal file to the copy.
Postgres   FILE is an archive made by pg_dump. To restore it into a new, empty database:
           createdb NAME && pg_restore --no-owner --dbname=NAME FILE

After a restore, the next command stores the results that are in the journals but not in the backup.
"""


@app.command("backup", help=_BACKUP_HELP)
def backup(
    file: Annotated[Path, typer.Argument(help="the file to write")],
    force: Annotated[bool, typer.Option("--force", help="replace an existing file")] = False,
) -> None:
    """Copy the database (the help text is a constant, which keeps its layout)."""
    with in_one_sentence():
        size = back_up(context(reading=True).places.database_url, file, force=force)
    typer.echo(f"{file}: {size / 2**20:.1f} MiB, checked")


@app.command("prune")
def prune(
    telemetry_days: Annotated[
        int | None,
        typer.Option(min=1, help="keep telemetry for this many days [default: from the settings]"),
    ] = None,
    samples_days: Annotated[
        int | None,
        typer.Option(min=1, help="keep samples for this many days [default: from the settings]"),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes/--dry-run", help="delete, or only report what would be deleted")
    ] = False,
) -> None:
    """Delete telemetry rows and samples of old runs; all outcomes and metrics are kept.

    By default, telemetry is kept for 90 days, samples for ever, and tasks without a run for 400 days. Each
    run also prunes at its end. An SQLite file keeps its size; the free pages are used again.
    """
    with in_one_sentence():
        app_context = context()
        settings = app_context.settings
        retention = Retention(
            telemetry_days or settings.telemetry_days, samples_days or settings.samples_days
        )
        with open_database(app_context.places.database_url, create=False) as database:
            found = False
            for sentence in database_upkeep.prune(database, retention, dry_run=not yes):
                found = True
                typer.echo(f"deleted {sentence}" if yes else f"would delete {sentence}; --yes deletes it")
    if not found:
        typer.echo("nothing is old enough to be deleted")


_FORGET_HELP = """Delete RUN from the database for good: outcomes, measurements, samples, telemetry.

The machine, preset and environments that no other run names are deleted too. Without --yes it only reports
what would be deleted. The journal of the run stays on disk with a file `forgotten` beside it: while that
file exists, no command stores the journal again. If the journal is on another machine, run the same command
there too.

A run that findings or tasks refer to is kept. With --force it is deleted, and the findings with their triage
too. On Postgres this needs the role that owns the tables.
"""


@app.command("forget", help=_FORGET_HELP)
def forget(
    run: Annotated[str, typer.Argument(help="the id of a run")],
    yes: Annotated[
        bool, typer.Option("--yes/--dry-run", help="delete, or only report what would be deleted")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="also if findings or tasks refer to it")] = False,
) -> None:
    """Delete a run (the help text is a constant, which keeps its layout)."""
    with in_one_sentence():
        app_context = context()
        with open_database(app_context.places.database_url, create=False) as database:
            try:
                deleted = forget_run(database, app_context.places.data_dir, run, force=force, dry_run=not yes)
            except StillReferred as error:
                raise UsageError(f"{error} --force deletes the findings too.") from None
    if deleted is None:
        did = "its journal is marked and stays" if yes else "--yes marks its journal, which stays"
        typer.echo(f"run {run} is not in the database; {did}")
        return
    line = f"forgot {_gone(deleted)}" if yes else f"would forget {_gone(deleted)}; --yes deletes it"
    typer.echo(printable(line))


def _gone(deleted: DeletedRun) -> str:
    counts = (
        (deleted.outcomes, "outcome"),
        (deleted.measurements, "measurement"),
        (deleted.samples, "outcome's samples", "outcomes' samples"),
        (deleted.recordings, "recording"),
        (deleted.findings, "finding"),
    )
    named = [f"{n} {word if n == 1 else (more or [word + 's'])[0]}" for n, word, *more in counts if n]
    tasks = f"; {deleted.tasks} tasks lose their run" if deleted.tasks else ""
    return f"run {deleted.run}: {', '.join(named) or 'no results'}{tasks}"


@app.command("metric")
def metric(
    name: Annotated[str, typer.Argument(help="an imported metric")],
    unit: Annotated[str | None, typer.Option(help="the unit, '' for none")] = None,
    better: Annotated[
        Literal["lower", "higher", "neither"] | None, typer.Option(help="which direction is better")
    ] = None,
    title: Annotated[str | None, typer.Option(help="the title that pages show")] = None,
) -> None:
    """Show or correct the definition of an imported metric; no number changes.

    From then on, imported files with the old definition are set aside.
    """
    with in_one_sentence():
        if known := METRICS.get(name):
            raise UsageError(
                f"metric {name} is built in, with unit {known.unit or 'none'}, and cannot be changed"
            )
        if title is not None and not title.strip():
            raise UsageError("--title is empty")
        with open_database(context().places.database_url, create=False) as database:
            found = correct_metric(database, name, title=title, unit=unit, better=better)
            if found is None:
                names = metric_definitions(database)
                raise UsageError(unknown("metric", name, names) if names else f"there is no metric {name}")
    direction = "no direction" if found.better == "neither" else f"{found.better} is better"
    typer.echo(printable(f"{found.name}: {found.title}, in {found.unit or 'no unit'}, {direction}"))
