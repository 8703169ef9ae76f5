"""What a scheduler says that it serves: its timetable as plain values, made anew when it must be."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from configuration.settings import Settings
from scheduled_jobs.scheduler.planner import advertised_facts
from support.servers.schedulers import settings_of

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
TOML = """
timezone = "Europe/Berlin"
[schedules.nightly]
cron = "30 2 * * 1-5"
environments = ["nightly", "2.13.0"]
baseline = "2.13.0"
machines = ["h200", "a10"]
[schedules.judge]
cron = "0 6 1 * *"
job = "upgrade"
old = "2.13.0"
new = "latest"
enabled = false
[alerts]
targets = ["mailto://me:secret@example.org"]
overdue_hours = 5
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_of(TOML, tmp_path)


def test_every_schedule_is_advertised_with_its_next_moments_in_utc(settings: Settings) -> None:
    facts = advertised_facts(settings, NOW, measures=True)
    assert (facts["timezone"], facts["silent_minutes"], facts["overdue_hours"]) == ("Europe/Berlin", 30, 5)
    schedules = {each["schedule"]: each for each in facts["schedules"]}
    nightly = schedules["nightly"]
    # A Sunday: half past two in Berlin on the next seven working days.
    assert nightly["next"] == [
        *(f"2026-11-{day}T01:30:00+00:00" for day in (23, 24, 25, 26, 27, 30)),
        "2026-12-01T01:30:00+00:00",
    ]
    assert (nightly["suite"], nightly["labels"], nightly["baseline"]) == ("smoke", ["h200", "a10"], "2.13.0")
    assert nightly["environments"] == ["nightly", "2.13.0"] and not nightly["built_in"]
    judge = schedules["judge"]
    assert (judge["job"], judge["enabled"], judge["next"]) == ("upgrade", False, [])
    assert judge["environments"] == ["2.13.0", "latest"]
    assert schedules["check"]["built_in"] and schedules["check"]["environments"] == []


def test_it_is_plain_json_and_holds_no_secret(settings: Settings) -> None:
    text = json.dumps(advertised_facts(settings, NOW, measures=False))
    assert "secret" not in text and json.loads(text)["measures"] is False
