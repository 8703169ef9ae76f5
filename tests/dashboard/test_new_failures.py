"""The morning's line names what failed last night and not the night before, also where a number is left."""

import re
from datetime import timedelta

import pytest

from db.queue import commands as queue
from support.builders.run_records import BERT, MLP, a_run, an_environment, an_outcome
from support.builders.schedule_nights import Mornings
from support.builders.stored_run import store_run
from support.pages import TODAY, Open, html


def a_night(
    mornings: Mornings,
    age: int,
    *ailing: str,
    status: str = "crashed",
    from_replicate: int = 1,
    replicates: int = 2,
    last: str = "",
) -> None:
    """A night of two cases with two replicates, the second (or each) of which ends badly in some cases.

    `last` is how the last one of those ends where it ends otherwise.
    """
    due = mornings.due(age)
    mornings.trigger(due, ("nightly", ""))
    token = mornings.begin(due, "bench-1")
    environment = an_environment("2.14.0+cpu")
    ended = ["ok"] * from_replicate + [status] * (replicates - from_replicate)
    ended[-1] = last or ended[-1]
    outcomes = [
        an_outcome(
            case,
            environment=environment,
            replicate=replicate,
            status=how if case in ailing else "ok",
            started_at=due,
        )
        for case in (MLP, BERT)
        for replicate, how in enumerate(ended)
    ]
    run = f"night-{age}"
    planned = len(outcomes)
    store_run(
        mornings.database, a_run(run, environments=[environment], started_at=due, planned=planned), outcomes
    )
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
    page = html(open_page(url, TODAY))
    assert "✓ 2 of 2 usual cases measured" in page
    assert morning_line(page) == "! 1 case newly with failures"


@pytest.mark.parametrize(
    ("ailing", "well", "shown"), [((BERT,), 2, (1, 3)), ((BERT,), 0, (3, 3)), ((BERT, MLP), 1, (4, 6))]
)
def test_one_failed_process_of_three_differs_from_three_of_three(
    open_page: Open,
    url: str,
    mornings: Mornings,
    ailing: tuple[str, ...],
    well: int,
    shown: tuple[int, int],
) -> None:
    for age in (3, 2, 1):
        a_night(mornings, age, replicates=3)
    a_night(mornings, 0, *ailing, replicates=3, from_replicate=well)
    many, ended = shown
    assert f"× {many} crashed</span><small>of {ended} processes</small>" in html(open_page(url, TODAY))


def test_what_failed_the_night_before_too_is_no_news(open_page: Open, url: str, mornings: Mornings) -> None:
    for age in (3, 2, 1, 0):
        a_night(mornings, age, BERT)
    page = html(open_page(url, TODAY))
    assert morning_line(page) == "✓ All quiet" and "As in the earlier night: 1 crashed in" in page


def test_in_a_first_night_every_failure_is_news(open_page: Open, url: str, mornings: Mornings) -> None:
    a_night(mornings, 0, BERT)
    assert morning_line(html(open_page(url, TODAY))) == "! 1 case newly with failures"


def test_a_case_that_fails_in_two_ways_is_one_case(open_page: Open, url: str, mornings: Mornings) -> None:
    for age in (3, 2, 1):
        a_night(mornings, age, replicates=3)
    a_night(mornings, 0, BERT, replicates=3, last="timeout")
    page = html(open_page(url, TODAY))
    assert morning_line(page) == "! 1 case newly with failures"
    assert page.count("ok in the earlier night") == 2


def test_a_case_that_failed_in_another_way_the_night_before_is_no_new_one(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    for age in (3, 2, 1):
        a_night(mornings, age, BERT)
    a_night(mornings, 0, BERT, status="timeout")
    page = html(open_page(url, TODAY))
    assert morning_line(page) == "✓ All quiet"
    # What is new about it still stands in its row.
    assert "timeout" in page and "ok in the earlier night" in page


@pytest.mark.parametrize(
    ("status", "line", "edge"),
    [("not_compiled", "! 1 case newly with failures", "odd"), ("lost", "✓ All quiet", "good")],
)
def test_what_runs_eager_fails_and_what_was_lost_with_its_machine_does_not(
    open_page: Open, url: str, mornings: Mornings, status: str, line: str, edge: str
) -> None:
    for age in (3, 2, 1):
        a_night(mornings, age)
    a_night(mornings, 0, BERT, status=status)
    page = html(open_page(url, TODAY))
    assert morning_line(page) == line and f"py-edge-{edge}" in page
    assert "ok in the earlier night" in page, "it is listed all the same"


def test_a_case_that_was_only_disturbed_the_night_before_is_new_when_it_fails(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    for age in (3, 2, 1):
        a_night(mornings, age, BERT, status="contended")
    a_night(mornings, 0, BERT)
    assert morning_line(html(open_page(url, TODAY))) == "! 1 case newly with failures"


@pytest.mark.parametrize("nights", [1, 2])
def test_a_night_without_a_number_is_never_quiet(
    open_page: Open, url: str, mornings: Mornings, nights: int
) -> None:
    for age in reversed(range(nights)):
        a_night(mornings, age, BERT, MLP, status="contended", from_replicate=0)
    assert morning_line(html(open_page(url, TODAY))).startswith("× 1 night without a number")


def test_cases_that_fell_say_more_than_that_none_is_left(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    for age in (3, 2, 1):
        a_night(mornings, age)
    a_night(mornings, 0, BERT, MLP, status="contended", from_replicate=0)
    assert morning_line(html(open_page(url, TODAY))) == "× 2 cases no longer measured, 1 machine disturbed"
