"""`pyrometer db`: the database itself."""

from typing import Annotated

import typer

from db.engine import open_database
from db.engine import upgrade as upgrade_database
from scheduled_jobs import retention

from .context import context, in_one_sentence

app = typer.Typer(help="Look after the database.", no_args_is_help=True)


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


@app.command("prune")
def prune(
    telemetry_days: Annotated[
        int | None,
        typer.Option(min=1, help="Keep the telemetry of this many days; else what the settings say."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes/--dry-run", help="Delete it, or only say what would go.")
    ] = False,
) -> None:
    """Delete the telemetry rows of old runs; every outcome and every metric stays.

    A run does so at its end. An SQLite file keeps its size and fills the room again.
    """
    with in_one_sentence():
        here = context()
        days = telemetry_days or here.settings.telemetry_days
        with open_database(here.places.database_url, create=False) as database:
            pruned = retention.prune(database, days, dry_run=not yes)
    if not pruned.windows:
        typer.echo("no telemetry is old enough to go")
    elif yes:
        typer.echo(f"deleted {retention.described(pruned, days)}")
    else:
        typer.echo(f"would delete {retention.described(pruned, days)}; --yes does it")
