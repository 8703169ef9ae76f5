"""Which nights are told as missing, on both databases: what was planned, superseded, cancelled and begun."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from telling_builders import DUE

from configuration.settings import Settings, load_settings
from db import queue
from db.engine import Database
from db.queue_queries import tasks
from db.queue_records import NewTask
from scheduled_jobs.telling.night import silences

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(cwd=tmp_path, environ={})


def due(database: Database, moment: datetime, machines: Sequence[str] = ("h200",)) -> None:
    """The night is due on each of these machines, and stands for those that nobody began."""
    new = [NewTask(f"nightly@{machine}", "measure", {}, machine) for machine in machines]
    assert queue.plan_fire(database, "nightly", moment, "timetable", new, moment)
    queue.supersede(database, "nightly", moment, moment)


def test_what_somebody_cancelled_is_no_missing_night_a_day_later(
    database: Database, settings: Settings
) -> None:
    due(database, DUE)
    (task,) = tasks(database)
    assert queue.cancel(database, task.id, DUE + HOUR)
    due(database, DUE + DAY)
    assert silences(database, settings, DUE + DAY + HOUR) == []
    found = silences(database, settings, DUE + DAY + 13 * HOUR)
    assert [one.since for one in found] == [DUE + DAY]
