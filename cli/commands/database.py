"""`pyrometer db`: the database itself."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from analysis.metrics import METRICS
from common.text import plural, printable
from configuration.suggestions import unknown
from db.admin.backup import back_up
from db.admin.check import Checked, looking
from db.admin.delete_run import Forgotten
from db.connection.engine import open_database
from db.connection.engine import upgrade as upgrade_database
from db.errors import StillReferred
from db.runs.metric_definitions import correct_metric, metric_definitions
from workflows import database_upkeep
from workflows.database_upkeep import Kept
from workflows.database_upkeep import check as check_all
from workflows.database_upkeep import forget as forget_run
from workflows.errors import UsageError

from ..context import FAILED, context, in_one_sentence

app = typer.Typer(help="Look after the database.", no_args_is_help=True)

#: Runs whose measurements, samples and recordings are looked at unless all are asked for.
_NEWEST = 200
#: Problems of one kind that are printed; JSON has them all.
_PRINTED = 10


@app.command("upgrade")
def upgrade() -> None:
    """Bring the database to this Pyrometer's schema (an SQLite file is copied first)."""
    with in_one_sentence():
        done = upgrade_database(context().places.database_url)
    if done.before == done.after:
        typer.echo(f"already at {done.after}")
        return
    typer.echo(f"upgraded from {done.before or 'nothing'} to {done.after}")
    if done.backup:
        typer.echo(f"the file as it was before: {done.backup}")


_CHECK_HELP = f"""Check that everything is stored as it was measured. Reads the database and writes nothing.

Schema, the pages of an SQLite file, references, counts, times and metrics are looked at as a
whole; measurements (against the outcomes they are made of), samples and recordings run by run, of the newest
{_NEWEST} runs or with --all of every one. Journals that are not stored to their end are mentioned.

Exit code: 0 all is sound, 1 something is not and how to mend it is said, 2 the database cannot be had.
"""


@app.command("check", help=_CHECK_HELP)
def check(
    every: Annotated[bool, typer.Option("--all", help="Look at every run, not only the newest.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per line on stdout")] = False,
) -> None:
    """Look for what is not as it should be (the help text is above, where its layout survives)."""
    sound = True
    with in_one_sentence():
        app_context = context(reading=True)
        newest = None if every else _NEWEST
        with looking(app_context.places.database_url) as database:
            for checked in check_all(
                database, app_context.places.data_dir, newest=newest, progress=_progress
            ):
                sound = sound and not checked.problems
                _wipe()
                typer.echo(json.dumps(asdict(checked)) if as_json else _in_lines(checked))
    if as_json:
        typer.echo(json.dumps({"sound": sound}))
    else:
        typer.echo("all is sound" if sound else "not everything is sound; nothing was changed")
    if not sound:
        raise typer.Exit(FAILED)


def _in_lines(checked: Checked) -> str:
    count = len(checked.problems)
    found = plural(count, "problem") if count else "sound"
    lines = [f"{checked.name:12} {checked.count:>9} {checked.unit:12} {found}"]
    lines += [f"    {note}" for note in checked.notes]
    for problem in checked.problems[:_PRINTED]:
        lines += [f"    {problem.sentence}", f"        {problem.mend}"]
    if count > _PRINTED:
        lines.append(f"    and {count - _PRINTED} more; --json has them all")
    return "\n".join(lines)


def _progress(what: str, done: int, there: int) -> None:
    if sys.stderr.isatty() and (done % 10 == 0 or done == there):
        sys.stderr.write(f"\r\033[K{what}: {done} of {there}")
        sys.stderr.flush()


def _wipe() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()


_BACKUP_HELP = """Copy the whole database to FILE, as it is at one moment, while runs go on.

The copy is checked and on the disk before it gets its name: there is a whole one or none.

\b
SQLite     FILE is a database like the first. To restore it, stop every pyrometer, move pyrometer.db away
           with its pyrometer.db-wal and pyrometer.db-shm, and copy FILE to pyrometer.db. A -wal left behind
           would be played into the copy.
Postgres   FILE is an archive made by pg_dump. To restore it into a new, empty database:
           createdb NAME && pg_restore --no-owner --dbname=NAME FILE

After a restore the next command stores what the journals have and the backup had not yet.
"""


@app.command("backup", help=_BACKUP_HELP)
def backup(
    file: Annotated[Path, typer.Argument(help="where the copy goes")],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Copy the database (the help text is above, where its layout survives)."""
    with in_one_sentence():
        size = back_up(context(reading=True).places.database_url, file, force=force)
    typer.echo(f"{file}: {size / 2**20:.1f} MiB, checked")


@app.command("prune")
def prune(
    telemetry_days: Annotated[
        int | None,
        typer.Option(min=1, help="Keep the telemetry of this many days; else what the settings say."),
    ] = None,
    samples_days: Annotated[
        int | None,
        typer.Option(min=1, help="Keep the samples of this many days; else what the settings say."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes/--dry-run", help="Delete it, or only say what would go.")
    ] = False,
) -> None:
    """Delete the telemetry rows and the samples of old runs; every outcome and every metric stays.

    By default, telemetry is kept for 90 days and samples for ever; tasks of schedules that made no
    run for 400 days. A run does the same at its end. An SQLite file keeps its size and fills the room again.
    """
    with in_one_sentence():
        app_context = context()
        settings = app_context.settings
        kept = Kept(telemetry_days or settings.telemetry_days, samples_days or settings.samples_days)
        with open_database(app_context.places.database_url, create=False) as database:
            found = False
            for gone in database_upkeep.prune(database, kept, dry_run=not yes):
                found = True
                typer.echo(f"deleted {gone}" if yes else f"would delete {gone}; --yes does it")
    if not found:
        typer.echo("nothing is old enough to go")


_FORGET_HELP = """Delete RUN from the database for good: outcomes, measurements, samples, telemetry.

Says what would go; --yes does it. The run's journal stays on the disk with a file `forgotten` next to it: no
command stores it again while that file is there. Where the journal lies on another machine, type the same
command there too.

A run that findings or tasks of the schedule rest on is kept, unless --force: then the findings go as well,
with what people did with them. On Postgres it takes the role that owns the tables.
"""


@app.command("forget", help=_FORGET_HELP)
def forget(
    run: Annotated[str, typer.Argument(help="the id of a run")],
    yes: Annotated[
        bool, typer.Option("--yes/--dry-run", help="Delete it, or only say what would go.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Even if findings or tasks rest on it.")] = False,
) -> None:
    """Take a run out (the help text is above, where its layout survives)."""
    with in_one_sentence():
        app_context = context()
        with open_database(app_context.places.database_url, create=False) as database:
            try:
                gone = forget_run(database, app_context.places.data_dir, run, force=force, dry_run=not yes)
            except StillReferred as error:
                raise UsageError(f"{error} --force takes the findings with it.") from None
    if gone is None:
        did = "its journal is marked and stays" if yes else "--yes marks its journal, which stays"
        typer.echo(f"run {run} is not in the database; {did}")
        return
    typer.echo(f"forgot {_gone(gone)}" if yes else f"would forget {_gone(gone)}; --yes does it")


def _gone(gone: Forgotten) -> str:
    counts = (
        (gone.outcomes, "outcome"),
        (gone.measurements, "measurement"),
        (gone.samples, "outcome's samples", "outcomes' samples"),
        (gone.recordings, "recording"),
        (gone.findings, "finding"),
    )
    named = [f"{n} {word if n == 1 else (more or [word + 's'])[0]}" for n, word, *more in counts if n]
    tasks = f"; {gone.tasks} tasks lose sight of it" if gone.tasks else ""
    return f"run {gone.run}: {', '.join(named) or 'it holds nothing'}{tasks}"


@app.command("metric")
def metric(
    name: Annotated[str, typer.Argument(help="a metric that came from outside")],
    unit: Annotated[str | None, typer.Option(help="what its numbers are in, '' for none")] = None,
    better: Annotated[
        Literal["lower", "higher", "neither"] | None, typer.Option(help="which direction is better")
    ] = None,
    title: Annotated[str | None, typer.Option(help="what people call it")] = None,
) -> None:
    """Show or correct the definition of an imported metric; no number changes.

    Files that contain the old value are set aside from then on.
    """
    with in_one_sentence():
        if known := METRICS.get(name):
            raise UsageError(
                f"metric {name} is Pyrometer's own, in {known.unit or 'no unit'}: it stays as it is"
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
