"""Which nights are reported as missing, on both databases: planned, superseded, cancelled and begun ones."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from configuration.settings import Settings, load_settings
from db.connection.engine import Database
from db.queue import commands as queue
from db.queue.queries import tasks
from records.tasks import NewTask
from reports.text.staleness_text import silence
from scheduled_jobs.notifications.collect import outages
from support.builders.notifications import DUE
from support.servers.databases import on_both

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(cwd=tmp_path, environ={})


def due(
    database: Database, moment: datetime, machines: Sequence[str] = ("h200",), schedule: str = "nightly"
) -> None:
    """The night is due on each of these machines, and replaces those that did not begin."""
    new = [NewTask(f"{schedule}@{machine}", "measure", {}, machine) for machine in machines]
    assert queue.plan_run(database, schedule, moment, "timetable", new, moment)
    queue.supersede(database, schedule, moment, moment)


def test_a_cancelled_night_is_no_missing_night_a_day_later(database: Database, settings: Settings) -> None:
    due(database, DUE)
    (task,) = tasks(database)
    assert queue.cancel(database, task.id, DUE + HOUR)
    due(database, DUE + DAY)
    assert outages(database, settings, DUE + DAY + HOUR) == []
    found = outages(database, settings, DUE + DAY + 13 * HOUR)
    assert [one.since for one in found] == [DUE + DAY]


@on_both
def test_an_outage_is_the_same_over_the_nights_however_many_other_tasks_there_are(
    database: Database, settings: Settings
) -> None:
    fleet = [f"m{number}" for number in range(300)]
    keys: list[str] = []
    for night in range(3):
        moment = DUE + night * DAY
        due(database, moment)
        # So many that are over, and newer than it.
        due(database, moment, fleet, "other")
        queue.supersede(database, "other", moment + HOUR, moment)
        found = outages(database, settings, moment + 13 * HOUR)
        keys += [one.key for one in found]
    assert keys == [f"night nightly@h200 {DUE.isoformat()}"] * 3
    assert silence(found[0]).startswith("nightly@h200 was due 2 days ago and has not begun")
