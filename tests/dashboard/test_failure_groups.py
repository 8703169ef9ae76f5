"""Failures are listed once for all replicates that ended alike, in whatever order they ran."""

import re

from dashboard.components import load, tables
from db.connection.engine import Database
from db.runs.store import save_outcomes, save_run
from support.builders.run_records import BERT, MLP, a_night, a_run, an_environment, an_outcome


def test_replicates_that_took_turns_share_a_row(database: Database, url: str) -> None:
    environment = an_environment()
    save_run(database, a_run("turns", environments=[environment], planned=6))
    outcomes = [
        an_outcome(case, environment=environment, replicate=replicate, status=status, reason="as before")
        for replicate in range(3)
        for case, status in ((MLP, "crashed"), (BERT, "wrong"))
    ]
    save_outcomes(database, "turns", outcomes)
    table = tables.failures(load.failures(url, load.recent_runs(url, limit=5)), a_night(1))
    body = table.partition("<tbody>")[2]
    assert body.count("<tr>") == 2
    assert re.findall(r'data-title="Replicates">(\d)<', body) == ["3", "3"]
