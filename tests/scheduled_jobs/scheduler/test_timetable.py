"""Cron expressions against the clock: summer time both ways, gaps, long silences, and never twice."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduled_jobs.scheduler.timetable import MOST_MISSED, CronTrigger, EveryTrigger, due, next_fire_times

BERLIN = ZoneInfo("Europe/Berlin")


def utc(text: str) -> datetime:
    """A moment of 2026, month to second, in UTC."""
    return datetime.fromisoformat(f"2026-{text}").replace(tzinfo=UTC)


def fire_times_of(cron: str, since: str, now: str, zone: ZoneInfo = BERLIN) -> list[tuple[str, str]]:
    """What is due as (moment in UTC, how)."""
    found = due(cron, zone, utc(since), utc(now))
    return [(f"{each.moment:%m-%d %H:%M:%S}", each.kind) for each in found]


@pytest.mark.parametrize(
    ("since", "now", "found"),
    [
        ("06-01 00:29:59", "06-01 00:30:00", [("06-01 00:30:00", "timetable")]),
        ("06-01 00:29:00", "06-01 00:31:30", [("06-01 00:30:00", "timetable")]),
        ("06-01 00:00:00", "06-01 00:29:59", []),
        ("06-01 00:30:00", "06-01 12:00:00", []),
        (
            *("06-01 12:00:00", "06-04 09:00:00"),
            [
                ("06-02 00:30:00", "missed"),
                ("06-03 00:30:00", "missed"),
                ("06-04 00:30:00", "caught up"),
            ],
        ),
        (
            *("06-01 12:00:00", "06-03 00:30:05"),
            [("06-02 00:30:00", "missed"), ("06-03 00:30:00", "timetable")],
        ),
        # On 2026-10-25 Berlin has 02:00 to 02:59:59 twice: from 00:00 and from 01:00 UTC.
        ("10-24 12:00:00", "10-25 12:00:00", [("10-25 00:30:00", "caught up")]),
        ("10-25 00:00:00", "10-25 01:10:00", [("10-25 00:30:00", "caught up")]),
        ("10-25 00:30:00", "10-25 23:00:00", []),
        ("10-25 00:59:59", "10-25 23:00:00", []),
        ("10-25 01:10:00", "10-25 23:00:00", []),
        ("10-25 01:30:00", "10-25 23:00:00", []),
    ],
    ids=[
        *("just come", "come a minute ago", "before it", "after it was looked at"),
        *("missed for days", "missed before one in time"),
        *("a time twice", "looked at in the second of them", "looked at in the first of them"),
        *("at its end", "between them", "when the second came"),
    ],
)
def test_what_is_due_since_it_was_looked_at(since: str, now: str, found: list[tuple[str, str]]) -> None:
    assert fire_times_of("30 2 * * *", since, now) == found


def test_a_silence_of_years_leaves_a_bounded_number_of_missed_moments() -> None:
    found = due("* * * * *", BERLIN, utc("01-01 00:00:00") - timedelta(days=3650), utc("06-01 00:00:30"))
    assert len(found) == MOST_MISSED + 1
    assert [each.kind for each in found[-2:]] == ["missed", "timetable"]
    assert found[-1].moment == utc("06-01 00:00:00")


def test_a_rare_moment_long_ago_is_still_found() -> None:
    found = due("0 3 29 2 *", BERLIN, datetime(2023, 1, 1, tzinfo=UTC), utc("06-01 00:00:00"))
    assert [(each.moment, each.kind) for each in found] == [
        (datetime(2024, 2, 29, 2, tzinfo=UTC), "caught up")
    ]


def test_a_clock_that_begins_at_its_beginning_is_no_error() -> None:
    assert due("0 0 1 1 *", BERLIN, datetime(1, 1, 3, tzinfo=UTC), datetime(1, 1, 4, tzinfo=UTC)) == []


@pytest.mark.parametrize("cron", ["30 2 * * *", "0 2 * * *", "15,45 2 * * *"])
def test_a_time_that_does_not_exist_runs_once_right_after_the_gap(cron: str) -> None:
    # On 2026-03-29 Berlin goes from 01:59:59 to 03:00:00, which is 01:00 UTC.
    assert fire_times_of(cron, "03-29 00:00:00", "03-29 12:00:00") == [("03-29 01:00:00", "caught up")]
    assert fire_times_of(cron, "03-29 01:00:00", "03-29 12:00:00") == []


def test_every_two_hours_goes_by_the_time_that_passes() -> None:
    spring = [
        each.moment for each in due("30 */2 * * *", BERLIN, utc("03-28 23:00:00"), utc("03-29 05:00:00"))
    ]
    assert spring == [utc("03-28 23:30:00"), utc("03-29 02:30:00"), utc("03-29 04:30:00")]
    autumn = [
        each.moment for each in due("30 */2 * * *", BERLIN, utc("10-24 22:00:00"), utc("10-25 04:00:00"))
    ]
    assert autumn == [
        utc("10-24 22:30:00"),
        utc("10-25 00:30:00"),
        utc("10-25 01:30:00"),
        utc("10-25 03:30:00"),
    ]


@pytest.mark.parametrize("day", ["2026-03-28", "2026-10-24", "2026-06-01"])
def test_every_night_runs_once_a_night_the_year_round(day: str) -> None:
    since = datetime.fromisoformat(day).replace(tzinfo=UTC)
    nights = next_fire_times("30 2 * * *", BERLIN, since, 400)
    days = [each.astimezone(BERLIN).date() for each in nights]
    assert days == [days[0] + timedelta(days=number) for number in range(400)]


def test_there_may_be_no_next_moment() -> None:
    assert len(next_fire_times("0 0 29 2 *", UTC, utc("01-01 00:00:00"), 3)) == 3
    assert next_fire_times("0 0 1 1 *", UTC, utc("01-01 00:00:00"), 1) == [datetime(2027, 1, 1, tzinfo=UTC)]


moments = st.datetimes(min_value=datetime(2026, 1, 1), max_value=datetime(2027, 1, 1), timezones=st.just(UTC))
crons = st.sampled_from(
    ["30 2 * * *", "*/10 * * * *", "0 */6 * * *", "0 12 * * 0", "59 1 * * *", "0,30 1-3 * * *", "0 3 25 10 *"]
)


@settings(max_examples=60)
@given(cron=crons, start=moments, steps=st.lists(st.integers(1, 3 * 86400), min_size=1, max_size=8))
def test_however_often_is_looked_each_moment_comes_once_and_none_is_lost(
    cron: str, start: datetime, steps: list[int]
) -> None:
    looks = [start]
    for seconds in steps:
        looks.append(looks[-1] + timedelta(seconds=seconds))
    pieces = [each for since, now in pairwise(looks) for each in due(cron, BERLIN, since, now)]
    times = [each.moment for each in pieces]
    assert times == sorted(set(times))
    assert all(start < each <= looks[-1] for each in times)
    whole = [each.moment for each in due(cron, BERLIN, start, looks[-1])]
    assert set(whole[-MOST_MISSED:]) <= set(times)


@settings(max_examples=40)
@given(cron=crons, since=moments, passed=st.integers(1, 3 * 1440))
def test_what_is_due_is_what_was_to_come(cron: str, since: datetime, passed: int) -> None:
    now = since + timedelta(minutes=passed)
    expected: list[datetime] = []
    while (following := next_fire_times(cron, BERLIN, expected[-1] if expected else since)[0]) <= now:
        expected.append(following)
    found = [each.moment for each in due(cron, BERLIN, since, now)]
    assert found == expected[-(MOST_MISSED + 1) :]


def test_a_cron_trigger_runs_once_where_an_hour_comes_twice_and_never_names_the_past() -> None:
    trigger = CronTrigger("30 2 * * *", BERLIN)
    first = trigger.get_next_fire_time(None, utc("10-24 12:00:00"))
    assert first == utc("10-25 00:30:00")
    assert trigger.get_next_fire_time(first, utc("10-25 00:30:01")) == utc("10-26 01:30:00")
    assert trigger.get_next_fire_time(first, utc("11-01 12:00:00")) == utc("11-02 01:30:00")
    assert trigger.get_next_fire_time(first, utc("10-24 12:00:00")) == utc("10-26 01:30:00")


def test_an_interval_is_counted_from_now_however_long_ago_the_last_one_was() -> None:
    trigger, now = EveryTrigger(5.0), utc("06-01 00:00:00")
    assert trigger.get_next_fire_time(None, now) == now
    assert trigger.get_next_fire_time(utc("01-01 00:00:00"), now) == now + timedelta(seconds=5)
    assert trigger.get_next_fire_time(now + timedelta(hours=1), now) == now + timedelta(seconds=5)
