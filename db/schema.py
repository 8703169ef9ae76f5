"""Which schema a database has, and how it gets the one this program needs."""

import threading
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from .errors import BadDatabaseUrl, DatabaseError, SchemaTooNew

MIGRATIONS = Path(__file__).parent / "migrations"

#: Named after us, so that a database shared with another Alembic user is not mistaken for ours.
VERSION_TABLE = "pyrometer_schema"

#: Key of the Postgres advisory lock under which a schema changes ("pyro" in ASCII).
_LOCK = 0x7079726F

#: Alembic keeps what it is doing in a module, so that two threads cannot both use it.
_ALEMBIC = threading.Lock()


def head() -> str:
    """The revision this program needs."""
    revision = _scripts(MIGRATIONS).get_current_head()
    assert revision is not None
    return revision


def revision_of(connection: Connection, name: str) -> str | None:
    """The revision of the database, None for an empty one.

    Raises SchemaTooNew for a revision that this program does not know, and BadDatabaseUrl for a database
    that holds somebody else's tables.
    """
    # Before the revision: another process may just be making our tables, and then has written both.
    tables = set(inspect(connection).get_table_names()) - {VERSION_TABLE}
    options = {"version_table": VERSION_TABLE}
    revision = MigrationContext.configure(connection, opts=options).get_current_revision()
    if revision is None and tables:
        raise BadDatabaseUrl(f"{name} holds other tables ({min(tables)}, ...) and is no Pyrometer database.")
    if revision is not None and revision not in {
        each.revision for each in _scripts(MIGRATIONS).walk_revisions()
    }:
        raise SchemaTooNew(
            f"{name} was written by a newer Pyrometer (schema {revision}; this one knows up to {head()}): "
            "install the newer one here too."
        )
    return revision


def lock(connection: Connection) -> None:
    """Let nobody else change the schema until this transaction ends (SQLite's write lock does so already)."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def migrate(connection: Connection) -> None:
    """Bring the database to `head()` inside the connection's transaction, which the caller commits."""
    config = _config(MIGRATIONS)
    config.attributes["connection"] = connection
    with _ALEMBIC:
        command.upgrade(config, "head")
    # Checked afterwards because SQLite rebuilds a table by dropping it, with foreign keys switched off.
    if connection.dialect.name == "sqlite" and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
        raise DatabaseError(
            "The migration would leave rows without the rows they refer to; nothing was changed."
        )


def _config(migrations: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


@cache
def _scripts(migrations: Path) -> ScriptDirectory:
    return ScriptDirectory.from_config(_config(migrations))
