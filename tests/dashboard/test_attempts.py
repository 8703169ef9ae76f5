"""Attempts at tasks as the pages show them: what one waits for, how long all of them took."""

from datetime import timedelta

from db.connection.engine import Database
from db.queue import commands as queue
from support.builders.schedule_nights import HOSTILE, Mornings
from support.pages import SCHEDULE, TODAY, Open, html


def test_a_night_took_as_long_as_all_attempts_at_it(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    due = mornings.due(0)
    mornings.trigger(due, ("nightly", ""))
    lost = mornings.begin(due, "bench-1")
    assert queue.lose(database, lost, "killed", due + timedelta(minutes=20), 5) == "waiting"
    mornings.measure(due)
    assert "took 1 h 00 min in 2 attempts" in html(open_page(url, TODAY))


def test_a_task_that_waits_for_another_run_says_so(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    mornings.trigger(mornings.due(0), ("nightly", ""))
    token = mornings.begin(mornings.due(0), "bench-1")
    assert queue.set_wait_reason(database, token, f"another run measures this machine {HOSTILE}")
    page = open_page(url, SCHEDULE)
    assert "for 6 hours; another run measures this machine" in html(page)
    assert HOSTILE not in html(page)
