"""A migration that is killed in its middle leaves schema and rows as they were, on both databases."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import inspect

from db.connection.connection import make_engine, parse_url
from db.connection.engine import SchemaUpgrade, open_database, upgrade
from db.runs import queries
from db.schema import version as schema
from support.builders.run_records import a_run, an_outcome
from support.builders.stored_run import store_run
from support.site import ROOT

pytestmark = pytest.mark.slow

#: A revision that changes a table, deletes rows, and never comes to its end.
KILLED = """
import os
import signal

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"


def upgrade() -> None:
    with op.batch_alter_table("machine") as table:
        table.add_column(sa.Column("rack", sa.Text(), nullable=True))
    op.execute("DELETE FROM measurement")
    os.kill(os.getpid(), signal.SIGKILL)
"""
#: `pyrometer db upgrade` of a program with other migrations, whose folder is the first argument.
UPGRADE = """
import sys
from pathlib import Path
from db.connection.engine import upgrade
from db.schema import version
version.MIGRATIONS = Path(sys.argv[1])
upgrade(sys.argv[2])
"""


def test_a_killed_migration_changes_nothing(
    url: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    outcomes = [an_outcome(replicate=number) for number in range(2)]
    with open_database(url) as database:
        store_run(database, a_run("run-0"), outcomes)
        before = queries.measurements_of_run(database, "run-0")
    migrations = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, migrations, ignore=shutil.ignore_patterns("__pycache__"))
    (migrations / "versions" / "9999_next.py").write_text(KILLED.format(head=schema.head()))
    words = [sys.executable, "-c", UPGRADE, str(migrations), url]
    assert subprocess.run(words, cwd=ROOT).returncode == -signal.SIGKILL
    record_property("kills", 1)
    assert upgrade(url) == SchemaUpgrade(schema.head(), schema.head(), None)
    engine = make_engine(parse_url(url), timeout=30)
    with engine.connect() as connection:
        assert "rack" not in {column["name"] for column in inspect(connection).get_columns("machine")}
    engine.dispose()
    with open_database(url, create=False) as database:
        assert queries.measurements_of_run(database, "run-0") == before and before
