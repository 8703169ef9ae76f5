"""A dashboard whose account may only read: it serves everything, and says what it leaves to others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from cli.output.reporter import TerminalReporter
from configuration.data_dirs import DataDirs
from configuration.settings import load_settings
from db.connection.engine import open_database
from db.runs import queries, store
from support.builders.journals import write_journal
from support.builders.run_records import a_run
from support.servers.postgres import PostgresServer
from workflows.app_context import AppContext
from workflows.ingest import store_pending

pytestmark = pytest.mark.postgres

ROLES = Path(__file__).parents[2] / "deploy" / "roles.sql"


@pytest.mark.slow
def test_a_reader_serves_and_leaves_journals_to_others(
    postgres: PostgresServer,
    serve: Callable[..., Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = postgres.new_database("postgres")
    with open_database(url) as database:
        store.save_run(database, a_run())
        with database.writing() as connection:
            connection.exec_driver_sql(ROLES.read_text().replace("%", "%%"))
    reader = make_url(url).set(username="pyrometer_reader").render_as_string(hide_password=False)
    dashboard = serve(reader)
    assert dashboard.get("/readyz")[0] == 200

    path = write_journal(tmp_path, "run-2")
    settings = load_settings(environ={}, cwd=tmp_path)
    store_pending(AppContext(settings, DataDirs(tmp_path, reader, ()), TerminalReporter(), ""))
    said = capsys.readouterr().err
    assert said.startswith("note: The database postgresql://pyrometer_reader@") and said.count("\n") == 1
    assert "may only be read by this account: permission denied for" in said
    assert not path.with_name("stored").exists()
    with open_database(url) as database:
        assert queries.run_ids(database) == {"run-1"}
    assert dashboard.get("/readyz")[0] == 200 and "Traceback" not in dashboard.log
    dashboard.stop()
    postgres.drop_database(url)
