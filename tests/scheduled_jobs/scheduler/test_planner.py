"""Settings and a clock make scheduled runs: each once, for any clock and number of schedulers."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from configuration.settings import Settings
from db.connection.engine import Database
from db.errors import DatabaseError
from db.queue.commands import claim, finish, release, set_run
from db.queue.queries import scheduled_runs, tasks
from scheduled_jobs.scheduler.planner import Planner, tasks_of, trigger_schedule
from support.servers.databases import on_both
from support.servers.schedulers import settings_of
from workflows.errors import NoSuchSchedule

TOML = """
timezone = "Europe/Berlin"
[schedules.nightly]
cron = "30 2 * * *"
environments = ["2.13.0", "nightly"]
baseline = "2.13.0"
machines = ["h200", "a10"]
replicates = 3
budget_seconds = 7200
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_of(TOML, tmp_path)


def utc(text: str) -> datetime:
    """A moment of June 2026, day to second."""
    return datetime.fromisoformat(f"2026-06-{text}").replace(tzinfo=UTC)


def nightly(database: Database) -> list[tuple[str, str, int]]:
    """The runs of schedule `nightly`, oldest first: fire time, kind, number of tasks."""
    found = scheduled_runs(database, "nightly")
    return [(f"{each.due_at:%d %H:%M}", each.kind, len(each.tasks)) for each in reversed(found)]


def test_a_task_is_made_for_each_environment_on_each_label(settings: Settings) -> None:
    made = tasks_of(settings, "nightly")
    assert [(each.part, each.label, each.job) for each in made] == [
        ("2.13.0@h200", "h200", "measure"),
        ("nightly@h200", "h200", "measure"),
        ("2.13.0@a10", "a10", "measure"),
        ("nightly@a10", "a10", "measure"),
    ]
    assert made[1].spec == {
        "track": "nightly",
        "baseline": "2.13.0",
        "suite": "smoke",
        "replicates": 3,
        "budget_seconds": 7200.0,
    }


def test_what_each_job_has_to_do(tmp_path: Path) -> None:
    settings = settings_of(
        """
        [schedules.nightly]
        cron = "30 2 * * *"
        cases = ["resnet50"]
        [schedules.move]
        cron = "0 0 1 * *"
        job = "upgrade"
        old = "2.12.1"
        new = "latest"
        suite = "cpu"
        [schedules.strict]
        cron = "0 0 1 * *"
        job = "upgrade"
        old = "2.12.1"
        new = "latest"
        policy = "strict"
        pairs = 8
        waive = { "gpt2_small/*" = "ticket 12", "mlp/*" = "known since May" }
        [policies.strict]
        slower_share = 0.0
        [schedules.look]
        cron = "0 9 * * *"
        job = "detect"
        """,
        tmp_path,
    )
    (only,) = tasks_of(settings, "nightly")
    assert (only.part, only.label) == ("default", "")
    assert only.spec == {"track": "default", "baseline": None, "cases": ["resnet50"]}
    (move,) = tasks_of(settings, "move")
    assert (move.job, move.spec) == ("upgrade", {"old": "2.12.1", "new": "latest", "suite": "cpu"})
    (strict,) = tasks_of(settings, "strict")
    assert strict.spec == {
        "old": "2.12.1",
        "new": "latest",
        "policy": "strict",
        "pairs": 8,
        "waive": ["gpt2_small/*", "mlp/*"],
        "because": ["ticket 12", "known since May"],
        "waived_by": "schedule strict",
    }
    looked_at = {"schedule": "nightly", "track": "default", "label": ""}
    for name, part in (("look", "nightly/default"), ("detect:nightly", "default")):
        (look,) = tasks_of(settings, name)
        assert (look.job, look.part, look.spec) == ("detect", part, looked_at)
    for name in ("digest", "discover", "check", "prune"):
        (task,) = tasks_of(settings, name)
        assert (task.job, task.spec) == (name, {})
    for name in ("detect:look", "detect:", "nightl"):
        with pytest.raises(NoSuchSchedule, match="unknown schedule"):
            tasks_of(settings, name)


@on_both
def test_what_is_due_is_planted_once_by_however_many(database: Database, settings: Settings) -> None:
    one, other = Planner(), Planner()
    for planner in (one, other):
        planner.plan(database, settings, utc("01 12:00:00"))
    assert nightly(database) == [("01 12:00", "first seen", 0)]
    triggered = [
        each.schedule
        for planner in (one, other, one, Planner())
        for each in planner.plan(database, settings, utc("02 00:30:01"))
    ]
    assert triggered.count("nightly") == 1
    assert nightly(database)[1:] == [("02 00:30", "timetable", 4)]


def test_nothing_is_caught_up_of_a_schedule_that_is_new(database: Database, settings: Settings) -> None:
    Planner().plan(database, settings, utc("01 12:00:00"))
    assert tasks(database) == []


def test_a_scheduler_that_was_away_catches_up_once(database: Database, settings: Settings) -> None:
    Planner().plan(database, settings, utc("01 12:00:00"))
    Planner().plan(database, settings, utc("04 09:00:00"))
    assert nightly(database)[1:] == [
        ("02 00:30", "missed", 0),
        ("03 00:30", "missed", 0),
        ("04 00:30", "caught up", 4),
    ]


@on_both
def test_a_clock_set_forward_is_caught_up_once_and_set_back_repeats_nothing(
    database: Database, settings: Settings
) -> None:
    planner = Planner()
    planner.plan(database, settings, utc("01 12:00:00"))
    planner.plan(database, settings, utc("02 00:30:00"))
    # A wrong clock: three days ahead.
    planner.plan(database, settings, utc("05 06:00:00"))
    assert [kind for _, kind, _ in nightly(database)[2:]] == ["missed", "missed", "caught up"]
    # And right again: what was called missed is yet to come.
    planner.plan(database, settings, utc("02 06:00:00"))
    assert nightly(database)[2:] == [("05 00:30", "caught up", 4)]
    for day in ("03", "04", "05", "06"):
        planner.plan(database, settings, utc(f"{day} 00:30:20"))
    assert nightly(database)[1:] == [
        ("02 00:30", "timetable", 4),
        ("03 00:30", "timetable", 4),
        ("04 00:30", "timetable", 4),
        ("05 00:30", "caught up", 4),
        ("06 00:30", "timetable", 4),
    ]


def test_a_clock_set_back_over_a_fire_time_does_not_repeat_it(database: Database, settings: Settings) -> None:
    planner = Planner()
    for moment in ("01 12:00:00", "02 00:30:00", "02 00:10:00", "02 00:29:59", "02 00:30:00", "02 01:00:00"):
        planner.plan(database, settings, utc(moment))
    assert nightly(database)[1:] == [("02 00:30", "timetable", 4)]


def test_a_new_scheduler_under_a_clock_that_was_set_back_goes_on(
    database: Database, settings: Settings
) -> None:
    Planner().plan(database, settings, utc("01 12:00:00"))
    Planner().plan(database, settings, utc("09 00:31:00"))
    Planner().plan(database, settings, utc("03 00:29:00"))
    Planner().plan(database, settings, utc("03 00:30:00"))
    assert nightly(database) == [
        ("01 12:00", "first seen", 0),
        ("02 00:30", "missed", 0),
        ("03 00:30", "timetable", 4),
        ("09 00:30", "timetable", 4),
    ]


def test_a_timetable_that_changes_while_it_is_kept(database: Database, tmp_path: Path) -> None:
    planner = Planner()
    planner.plan(database, settings_of(TOML, tmp_path), utc("01 12:00:00"))
    hourly = settings_of(TOML.replace("30 2 * * *", "0 * * * *"), tmp_path)
    planner.plan(database, hourly, utc("01 12:10:00"))
    planner.plan(database, hourly, utc("01 13:00:05"))
    off = settings_of(
        TOML.replace("30 2 * * *", "0 * * * *").replace("replicates", "enabled = false\n#"), tmp_path
    )
    planner.plan(database, off, utc("01 15:00:05"))
    assert nightly(database)[1:] == [("01 13:00", "timetable", 4)]


def test_a_scheduler_that_begins_after_a_change_of_the_timetable_catches_up_nothing_from_before_it(
    database: Database, tmp_path: Path
) -> None:
    nights = settings_of(TOML, tmp_path)
    hourly = settings_of(TOML.replace("30 2 * * *", "0 * * * *"), tmp_path)
    planner = Planner()
    planner.plan(database, nights, utc("01 12:00:00"))
    planner.plan(database, nights, utc("02 00:30:05"))
    planner.advance(utc("02 09:40:00"))
    planner.plan(database, hourly, utc("02 09:40:01"))
    # Another one takes over at once: at none of the hours before was one due, and none was missed.
    Planner().plan(database, hourly, utc("02 09:50:00"))
    assert [kind for _, kind, _ in nightly(database)] == ["first seen", "timetable", "first seen"]
    Planner().plan(database, hourly, utc("02 12:10:00"))
    assert nightly(database)[3:] == [
        ("02 10:00", "missed", 0),
        ("02 11:00", "missed", 0),
        ("02 12:00", "caught up", 4),
    ]


@pytest.mark.parametrize("off", ['timezone = "Europe/Berlin"', TOML + "enabled = false"])
def test_a_schedule_enabled_during_an_outage_has_no_missed_runs(
    sqlite: Database, tmp_path: Path, off: str
) -> None:
    on, without, memory = settings_of(TOML, tmp_path), settings_of(off, tmp_path), tmp_path / "data" / "off"
    before = Planner(memory)
    before.plan(sqlite, on, utc("01T12:00"))
    before.plan(sqlite, without, utc("01T13:00"))
    # Off for three nights, and no scheduler runs when it is switched on.
    Planner(memory).plan(sqlite, without, utc("02T12:00"))
    after = Planner(memory)
    after.plan(sqlite, on, utc("04T12:00"))
    assert [kind for _, kind, _ in nightly(sqlite)] == ["first seen", "first seen"]
    # From then on it counts again, and what was on all the time is caught up as before.
    after.plan(sqlite, on, utc("05T00:31"))
    Planner(memory).plan(sqlite, on, utc("07T12:00"))
    assert [kind for _, kind, _ in nightly(sqlite)][2:] == ["timetable", "missed", "caught up"]


def test_a_memory_that_cannot_be_kept_is_none(sqlite: Database, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    memory = tmp_path / "file" / "off"
    planner = Planner(memory)
    planner.plan(sqlite, settings_of(TOML + "enabled = false", tmp_path), utc("01T12:00"))
    planner.plan(sqlite, settings_of(TOML, tmp_path), utc("02T12:00"))
    assert [kind for _, kind, _ in nightly(sqlite)] == ["first seen"]


@pytest.mark.parametrize("off", ['timezone = "Europe/Berlin"', TOML + "enabled = false"])
def test_what_is_switched_off_misses_nothing(database: Database, tmp_path: Path, off: str) -> None:
    on, without, planner = settings_of(TOML, tmp_path), settings_of(off, tmp_path), Planner()
    planner.plan(database, on, utc("05T00:00"))
    planner.plan(database, without, utc("06T00:00"))
    planner.plan(database, without, utc("09T00:00"))
    planner.plan(database, on, utc("10T00:00"))
    planner.plan(database, on, utc("10T00:31"))
    assert nightly(database) == [
        ("05 00:00", "first seen", 0),
        ("10 00:00", "first seen", 0),
        ("10 00:30", "timetable", 4),
    ]
    # Another one that begins there sees the same.
    Planner().plan(database, on, utc("10T00:32"))
    assert len(nightly(database)) == 3


def test_a_manual_trigger_leaves_the_timetable_alone(database: Database, settings: Settings) -> None:
    planner = Planner()
    planner.plan(database, settings, utc("01 12:00:00"))
    now = utc("03 08:00:00")
    first, second = (trigger_schedule(database, settings, "nightly", now) for _ in range(2))
    assert (first, second) == (now, now + timedelta(microseconds=1))
    planner.plan(database, settings, utc("03 09:00:00"))
    # What was done by hand says nothing about what the timetable owes.
    assert [kind for _, kind, _ in nightly(database)[1:]] == ["missed", "caught up", "by hand", "by hand"]
    assert trigger_schedule(database, settings, "detect:nightly", now) == now


def test_of_tasks_that_did_not_begin_only_the_newest_wait(database: Database, settings: Settings) -> None:
    planner = Planner()
    planner.plan(database, settings, utc("01 12:00:00"))
    trigger_schedule(database, settings, "nightly", utc("01 13:00:00"))
    planner.plan(database, settings, utc("02 00:30:00"))
    triggered = [
        each for each in planner.plan(database, settings, utc("03 00:30:00")) if each.schedule == "nightly"
    ]
    states = [
        (f"{each.due_at:%d %H}", each.part, each.state)
        for each in reversed(tasks(database, schedule="nightly"))
        if each.label == "a10"
    ]
    # A manual trigger is a person's wish, begun or not.
    by_hand = [("01 13", part, "waiting") for part in ("2.13.0@a10", "nightly@a10")]
    assert states == [
        *by_hand,
        ("02 00", "2.13.0@a10", "cancelled"),
        ("02 00", "nightly@a10", "cancelled"),
        ("03 00", "2.13.0@a10", "waiting"),
        ("03 00", "nightly@a10", "waiting"),
    ]
    assert [each.instead_of for each in triggered] == [4]


def test_a_night_is_planned_in_one_transaction_with_what_it_replaces(
    sqlite: Database, settings: Settings
) -> None:
    """As a planner that is killed between the two, or a disk that is full then."""
    planner = Planner()
    planner.plan(sqlite, settings, utc("01 12:00:00"))
    planner.plan(sqlite, settings, utc("02 00:30:00"))
    refuses = "CREATE TRIGGER refuses BEFORE UPDATE ON task BEGIN SELECT RAISE(ABORT, 'no space left'); END"
    with sqlite.writing() as connection:
        connection.exec_driver_sql(refuses)
    with pytest.raises(DatabaseError, match="no space left"):
        planner.plan(sqlite, settings, utc("03 00:30:00"))
    with sqlite.writing() as connection:
        connection.exec_driver_sql("DROP TRIGGER refuses")
    planner.plan(sqlite, settings, utc("03 00:30:00"))
    states = {(each.due_at.day, each.state) for each in tasks(sqlite, schedule="nightly")}
    assert states == {(2, "cancelled"), (3, "waiting")}


def test_no_part_is_left_out_where_all_take_longer_than_a_night(database: Database, tmp_path: Path) -> None:
    tracks = ("2.13.0", "2.14.0", "nightly")
    settings = settings_of(TOML.replace('["2.13.0", "nightly"]', str([*tracks]).replace("'", '"')), tmp_path)
    planner, begun = Planner(), list[str]()
    planner.plan(database, settings, utc("01 12:00:00"))
    for day in range(2, 8):
        planner.plan(database, settings, utc(f"{day:02} 00:30:00"))
        # There is time for two of three until the next run; the first night's order is as it is written.
        for hour in (1, 12):
            now = utc(f"{day:02} {hour:02}:00:00")
            task = claim(database, owner="o/1", labels=["a10"], jobs=["measure"], token=f"{now}", now=now)
            assert task is not None and finish(database, f"{now}", "done", {}, "", now)
            begun.append(task.part.removesuffix("@a10"))
    assert begun == [*tracks] * 4


def test_what_has_begun_is_gone_on_with_in_a_later_night(database: Database, settings: Settings) -> None:
    planner = Planner()
    planner.plan(database, settings, utc("01 12:00:00"))
    planner.plan(database, settings, utc("02 00:30:00"))
    begun = claim(database, owner="o", labels=["a10"], jobs=["measure"], token="t", now=utc("02 00:30:00"))
    running = claim(database, owner="o", labels=["a10"], jobs=["measure"], token="u", now=utc("02 00:30:00"))
    assert begun is not None and running is not None
    assert set_run(database, "t", "a-run")
    assert release(database, "t", "stopped", utc("02 00:31:00"))
    planner.plan(database, settings, utc("03 00:30:00"))
    states = {each.id: each.state for each in tasks(database, schedule="nightly")}
    assert (states[begun.id], states[running.id]) == ("waiting", "running")
