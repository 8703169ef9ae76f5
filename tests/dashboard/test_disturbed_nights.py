"""A night whose task is done and whose numbers are not good: its card, its line, a row for each cause."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from configuration.settings import load_settings
from dashboard.today import load
from dashboard.today.problems import CaseProblem, causes, table
from dashboard.today.track_status import TrackStatus
from db.connection.engine import Database
from scheduled_jobs.notifications.collect import collect_digest_data
from support.builders.run_records import BERT, MLP, RESNET
from support.builders.schedule_nights import Mornings
from support.pages import TODAY, Open, html


def standing(url: str) -> TrackStatus:
    """The only part."""
    (one,) = load.results(url, load.morning(url).parts)
    return one


@pytest.mark.parametrize(
    ("not_ok", "tone"),
    [
        ({}, "good"),
        ({MLP: "throttled"}, "odd"),
        ({MLP: "contended"}, "odd"),
        ({MLP: "crashed"}, "odd"),
        ({MLP: "unsupported"}, "good"),
        ({MLP: "throttled", BERT: "crashed"}, "odd"),
    ],
)
def test_a_card_is_as_bad_as_the_worst_of_task_outcomes_and_disturbance(
    open_page: Open, url: str, mornings: Mornings, not_ok: dict[str, str], tone: str
) -> None:
    mornings.nights([3, 2, 1, 0], not_ok=not_ok)
    assert standing(url).tone == tone
    page = html(open_page(url, TODAY))
    (card,) = re.findall(r'<section class="py-card py-edge.*?</section>', page, re.DOTALL)
    assert f"py-edge-{tone}" in card and f'class="py-state py-{tone}"' in card


def test_a_case_that_is_measured_no_longer_is_worse_than_a_disturbance(url: str, mornings: Mornings) -> None:
    mornings.nights([3, 2, 1])
    mornings.nights([0], not_ok={MLP: "throttled", BERT: "crashed"})
    assert standing(url).tone == "bad"


@pytest.mark.parametrize("state", ["done", "failed"])
def test_the_digest_and_the_page_name_the_same_lost_cases(
    url: str, database: Database, mornings: Mornings, tmp_path: Path, state: str
) -> None:
    mornings.nights([12, 11, 10, 3, 2, 1])
    mornings.nights([0], not_ok={BERT: "crashed", MLP: "oom"}, state=state)
    shown = standing(url).coverage
    settings = load_settings(cwd=tmp_path, environ={})
    now = mornings.now
    reported = collect_digest_data(database, settings, now.date(), now - timedelta(days=1), now).lost_cases
    assert shown is not None and tuple(reported) == shown.lost
    assert {(one.case, one.status) for one in reported} == {(BERT, "crashed"), (MLP, "oom")}


def test_the_morning_is_not_quiet_where_a_machine_was_disturbed(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    mornings.nights([3, 2, 1, 0], not_ok={MLP: "throttled"})
    one = standing(url).disturbed
    assert one is not None and (one.throttled, one.outcomes) == (2, 6)
    page = html(open_page(url, TODAY))
    assert "! 1 machine disturbed" in page and "2 throttled of 6 outcomes (33 %)" in page


def test_a_share_below_the_one_that_the_scheduler_reports_is_not_shown(url: str, mornings: Mornings) -> None:
    mornings.scheduler("bench-1", facts={"silent_minutes": 20, "overdue_hours": 5, "disturbed_share": 0.4})
    mornings.nights([3, 2, 1, 0], not_ok={MLP: "throttled"})
    assert standing(url).disturbed is None and standing(url).tone == "good"


def a_problem(case: str, status: str, reason: str, since: str = "new", machine: str = "h200") -> CaseProblem:
    return CaseProblem("nightly", machine, f"run-{machine}", case, status, reason, 2, since, newly=True, of=3)


def test_one_cause_is_one_row_that_opens_to_its_cases() -> None:
    held = "its GPU held the clock down for {} % of the time (power cap)"
    items = [
        *(a_problem(case, "throttled", held.format(n)) for n, case in enumerate((MLP, RESNET, BERT))),
        a_problem(MLP, "throttled", held.format(9), machine="a100"),
        a_problem(RESNET, "crashed", "killed by signal 9"),
        a_problem(BERT, "crashed", "killed by signal 9"),
        a_problem(MLP, "crashed", "killed by signal 11"),
    ]
    found = [(one.items[0].status, one.items[0].machine, one.count, len(one.items)) for one in causes(items)]
    assert sorted(found) == [
        ("crashed", "h200", 2, 1),
        ("crashed", "h200", 4, 2),
        ("throttled", "a100", 2, 1),
        ("throttled", "h200", 6, 3),
    ]
    shown = table(items)
    assert shown.count("<tr>") == 1 + 4
    (opened,) = [each for each in re.findall(r"<details>.*?</details>", shown) if "3 cases" in each]
    assert all(name in opened for name in ("mlp_overhead", "resnet50", "bert_base", "for 2 % of the time"))


def test_a_cause_that_was_there_in_the_earlier_night_too_counts_what_is_new() -> None:
    items = [a_problem(MLP, "throttled", "x"), a_problem(BERT, "throttled", "y", since="")]
    (one,) = causes(items)
    assert one.count == 4 and "1 of them new" in table(items)
    assert causes([a_problem(BERT, "throttled", "y", since="")]) == []
