"""The right to triage is known before a triage is tried, and the query changes nothing."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import make_url, text

from db.connection.engine import Database, open_database
from db.findings import store as findings
from db.findings.store import triage_refusal
from support.builders.detection_nights import Nights, a_finding
from support.servers.postgres import PostgresServer

STRANGER = """
import os, sys
from db.connection.engine import open_database
from db.findings.store import triage_refusal
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with open_database(sys.argv[1], create=False) as database:
    print(triage_refusal(database))
"""


def test_the_owner_of_the_database_may(database: Database) -> None:
    Nights(database).add(range(3))
    found = a_finding(database)
    assert triage_refusal(database) == ""
    assert findings.findings(database) == [found] and findings.triage_log(database, found.id) == []


@pytest.mark.postgres
def test_an_account_that_only_looks_may_not(postgres: PostgresServer) -> None:
    url = postgres.new_database("postgres")
    try:
        with open_database(url) as database, database.writing() as connection:
            connection.execute(text("CREATE ROLE looker LOGIN"))
            connection.execute(text("GRANT SELECT ON ALL TABLES IN SCHEMA public TO looker"))
        looker = make_url(url).set(username="looker").render_as_string(hide_password=False)
        with open_database(looker, create=False) as database:
            assert "may only be read by this account" in triage_refusal(database)
        with open_database(url) as database, database.writing() as connection:
            # As much as deploy/roles.sql gives to the reader.
            connection.execute(text("GRANT INSERT ON triage TO looker"))
            connection.execute(text("GRANT UPDATE (triage, muted_until, link) ON finding TO looker"))
            connection.execute(text("GRANT USAGE ON SEQUENCE triage_id_seq TO looker"))
        with open_database(looker, create=False) as database:
            assert triage_refusal(database) == ""
    finally:
        postgres.drop_database(url)


def test_in_a_folder_of_another_user_no_triage_is_possible() -> None:
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    with TemporaryDirectory(prefix="pyrometer-") as name:
        os.chmod(name, 0o755)
        url = f"sqlite:///{name}/pyrometer.db"
        open_database(url).close()
        command = [sys.executable, "-c", STRANGER, url]
        done = subprocess.run(
            command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
        )
        assert "may only be read by this account" in done.stdout
