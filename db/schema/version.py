"""The schema version of a database, and its migration to the one this program needs."""

import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from ..errors import BadDatabaseUrl, DatabaseError, SchemaTooNew

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parents[1] / "migrations"

#: The name of Alembic's table; it differs from the default, so that databases of other programs are
#: recognised.
VERSION_TABLE = "pyrometer_schema"

#: Key of the Postgres advisory lock under which a schema changes ("pyro" in ASCII).
_LOCK = 0x7079726F

#: Alembic keeps its state in a module, so that two threads cannot use it at once.
_ALEMBIC = threading.Lock()


def head() -> str:
    """The revision this program needs."""
    return max(_revisions(MIGRATIONS))


def revision_of(connection: Connection, name: str) -> str | None:
    """The revision of the database, None for an empty one.

    Raises SchemaTooNew for a revision that this program does not know, and BadDatabaseUrl for a database
    that holds tables of another program.
    """
    # One query: if another process is creating our tables, it sees all of them or none.
    tables = set(inspect(connection).get_table_names())
    revision = _current(connection) if VERSION_TABLE in tables else None
    others = tables - {VERSION_TABLE}
    if revision is None and others:
        raise BadDatabaseUrl(
            f"{name} contains other tables ({min(others)}, ...) and is not a Pyrometer database."
        )
    if revision is not None and revision not in _revisions(MIGRATIONS):
        raise SchemaTooNew(
            f"{name} was written by a newer Pyrometer (schema {revision}; this one knows up to {head()}): "
            "install the newer one here too."
        )
    return revision


def lock(connection: Connection) -> None:
    """Lock the schema until this transaction ends (SQLite's write lock does so already)."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def migrate(connection: Connection) -> None:
    """Bring the database to `head()` inside the connection's transaction, which the caller commits."""
    # Imported here: migrations are rare, and otherwise every command would wait for the import.
    from alembic import command

    config = _config(MIGRATIONS)
    config.attributes["connection"] = connection
    with _ALEMBIC:
        command.upgrade(config, "head")
    # Checked afterwards because SQLite rebuilds a table by dropping it, with foreign keys switched off.
    if connection.dialect.name == "sqlite" and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
        raise DatabaseError("The migration would leave rows with dangling references; nothing was changed.")


def _config(migrations: Path) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _current(connection: Connection) -> str | None:
    """The revision that Alembic recorded; None where no migration has finished."""
    return connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))


@cache
def _revisions(migrations: Path) -> frozenset[str]:
    """The revisions of all migrations: each file name begins with its revision, and later ones are larger."""
    return frozenset(file.name.partition("_")[0] for file in migrations.glob("versions/[0-9]*.py"))
