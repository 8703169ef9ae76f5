"""Which nights the Today page says are missing, and how long a night took."""

from datetime import timedelta

import pytest

from dashboard.today import load
from dashboard.today.headlines import TRACKS
from dashboard.today.track_status import NIGHTS
from db.connection.engine import Database
from db.queue import commands as queue
from support.builders.schedule_nights import Mornings
from support.pages import TODAY, Open, html, text


def test_a_part_misses_no_night_before_it_joined_its_schedule_or_after_it_left(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    """No scheduler ran for two nights; meanwhile one track left, and another one came."""
    both = ("nightly", ""), ("old", "")
    for age in (4, 3):
        mornings.trigger(mornings.due(age), *both)
        mornings.measure(mornings.due(age))
        mornings.measure(mornings.due(age), version="2.12.0+cpu")
    for age in (2, 1):
        mornings.trigger(mornings.due(age), kind="missed")
    mornings.trigger(mornings.due(0), ("nightly", ""), ("new", ""))
    mornings.measure(mornings.due(0))
    mornings.measure(mornings.due(0), version="2.15.0+cpu")
    parts = {one.newest.track: one for one in load.morning(url).parts}
    expected = {
        track: ([state for _, state in reversed(one.nights)], one.missing) for track, one in parts.items()
    }
    assert expected == {
        "nightly": (["done", "done", "missed", "missed", "done"], 2),
        "new": (["done"], 0),
        "old": (["done", "done"], 0),
    }
    assert "✓ All quiet" in html(open_page(url, TODAY))


def test_nights_that_a_part_misses_after_its_newest_one_are_missed(url: str, mornings: Mornings) -> None:
    mornings.nights([3, 2])
    for age in (1, 0):
        mornings.trigger(mornings.due(age), kind="missed")
    (part,) = load.morning(url).parts
    assert (part.state, part.missing) == ("missed", 2)


def test_nights_are_missing_after_an_outage_longer_than_the_window(url: str, mornings: Mornings) -> None:
    mornings.nights([42, 41])
    for age in range(40, 0, -1):
        mornings.trigger(mornings.due(age), kind="missed")
    mornings.nights([0])
    (part,) = load.morning(url).parts
    assert (len(part.nights), part.missing) == (NIGHTS, NIGHTS - 1)


@pytest.mark.parametrize("missed", [False, True])
def test_the_card_of_a_missed_night_says_that_its_numbers_are_an_earlier_ones(
    open_page: Open, url: str, mornings: Mornings, missed: bool
) -> None:
    mornings.nights([2, 1])
    if missed:
        mornings.trigger(mornings.due(0), kind="missed")
    shown = html(open_page(url, TODAY))
    assert (", took " in shown, shown.count("an earlier night: ")) == (not missed, 2 if missed else 0)


def test_the_page_says_how_many_of_the_tracks_its_changes_and_canaries_are_of(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    names = [f"track{number}" for number in range(TRACKS + 1)]
    mornings.trigger(mornings.due(0), *((name, "") for name in names))
    for name in names:
        mornings.measure(mornings.due(0), f"bench-{name}", version=f"{name}+cpu")
    shown = text(open_page(url, TODAY))
    assert f"{TRACKS} of {TRACKS + 1} tracks" in shown
    assert f"the canary was checked on {TRACKS} of {TRACKS + 1} machines" in shown


def test_a_night_took_as_long_as_all_attempts_at_it(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    due = mornings.due(0)
    mornings.trigger(due, ("nightly", ""))
    lost = mornings.begin(due, "bench-1")
    assert queue.lose(database, lost, "killed", due + timedelta(minutes=20), 5) == "waiting"
    mornings.measure(due)
    assert "took 1 h 00 min in 2 attempts" in html(open_page(url, TODAY))
