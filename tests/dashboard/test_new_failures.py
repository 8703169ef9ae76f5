"""The morning's line names what failed last night and not the night before, also where a number is left."""

import re
from datetime import timedelta

import pytest
from builders import BERT, MLP, a_run, an_environment, an_outcome, measurements_for
from dashboard_pages import OVERVIEW, Open, html
from mornings import Mornings

from db import queue, store


def a_night(
    mornings: Mornings, age: int, *ailing: str, status: str = "crashed", from_replicate: int = 1
) -> None:
    """A night of two cases with two replicates, the second (or each) of which ends badly in some cases."""
    due = mornings.due(age)
    mornings.fire(due, ("nightly", ""))
    token = mornings.begin(due, "bench-1")
    environment = an_environment("2.14.0+cpu")
    outcomes = [
        an_outcome(
            case,
            environment=environment,
            replicate=replicate,
            status=status if replicate >= from_replicate and case in ailing else "ok",
            started_at=due,
        )
        for case in (MLP, BERT)
        for replicate in range(2)
    ]
    run = f"night-{age}"
    store.save_run(mornings.database, a_run(run, environments=[environment], started_at=due, planned=4))
    store.save_outcomes(mornings.database, run, outcomes)
    store.save_measurements(mornings.database, run, measurements_for(outcomes))
    assert queue.set_run(mornings.database, token, run)
    assert queue.finish(mornings.database, token, "done", {}, "", due + timedelta(minutes=40))


def morning_line(page: str) -> str:
    found = re.search(r'class="py-morning[^"]*"><p class="py-value">([^<]*)<', page)
    assert found is not None
    return found[1]


def test_a_replicate_that_crashed_is_named_though_its_case_has_a_number(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    for age in (3, 2, 1):
        a_night(mornings, age, BERT)
    a_night(mornings, 0, BERT, MLP)
    page = html(open_page(url, OVERVIEW))
    assert "✓ 2 of 2 usual cases measured" in page
    assert morning_line(page) == "! 1 case newly with failures"


def test_what_failed_the_night_before_too_is_no_news(open_page: Open, url: str, mornings: Mornings) -> None:
    for age in (3, 2, 1, 0):
        a_night(mornings, age, BERT)
    page = html(open_page(url, OVERVIEW))
    assert morning_line(page) == "✓ All quiet" and "As the night before: 1 crashed in" in page


def test_in_a_first_night_every_failure_is_news(open_page: Open, url: str, mornings: Mornings) -> None:
    a_night(mornings, 0, BERT)
    assert morning_line(html(open_page(url, OVERVIEW))) == "! 1 case newly with failures"


@pytest.mark.parametrize("nights", [1, 2])
def test_a_night_without_a_number_is_never_quiet(
    open_page: Open, url: str, mornings: Mornings, nights: int
) -> None:
    for age in reversed(range(nights)):
        a_night(mornings, age, BERT, MLP, status="contended", from_replicate=0)
    assert morning_line(html(open_page(url, OVERVIEW))) == "× 1 night without a number"


def test_cases_that_fell_say_more_than_that_none_is_left(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    for age in (3, 2, 1):
        a_night(mornings, age)
    a_night(mornings, 0, BERT, MLP, status="contended", from_replicate=0)
    assert morning_line(html(open_page(url, OVERVIEW))) == "× 2 cases no longer measured"
