"""`pyrometer db`: the database itself."""

import typer

from db.engine import upgrade as upgrade_database

from .context import context, in_one_sentence

app = typer.Typer(help="Look after the database.", no_args_is_help=True)


@app.callback()
def _db() -> None:
    """A group even while it has one command."""


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
