"""The Today page in the morning: nights that went well, late ones, findings and cases."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard.components.markup import sparkline
from dashboard.today import problems, track_status, verdict
from db.connection.engine import Database
from db.findings import store as findings
from db.queue import commands as queue
from db.runs import store
from records.tasks import NewTask, SchedulerSeen
from support.builders.run_records import (
    BERT,
    MLP,
    RESNET,
    a_night,
    a_run,
    an_environment,
    an_outcome,
)
from support.builders.schedule_nights import HOSTILE, TOML, Mornings, a_finding, confirm, facts
from support.builders.stored_run import store_run
from support.pages import TODAY, Open, html, text
from workflows.fleet_status import Patience, announced_patience

HOUR = timedelta(hours=1)


def morning_line(page: AppTest) -> str:
    """The verdict."""
    found = re.search(r'class="py-morning[^"]*"><p class="py-value">([^<]*)<', html(page))
    assert found, html(page)[:500]
    return found[1]


def cards(page: AppTest) -> list[str]:
    """Each card as text."""
    sections = re.findall(r'<section class="py-card py-edge.*?</section>', html(page), re.DOTALL)
    return [re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", each)).strip() for each in sections]


def test_a_quiet_morning_is_one_line_and_a_card_for_each_track(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    for age in (3, 2, 1, 0):
        mornings.trigger(mornings.due(age), ("nightly", ""), ("2.13.0", ""))
        mornings.measure(mornings.due(age), version=f"2.14.0.dev{age}+cpu")
        mornings.measure(mornings.due(age), version="2.13.0+cpu")
    page = open_page(url, TODAY)
    assert morning_line(page) == "✓ All quiet"
    assert "2 of 2 tracks done last night" in html(page) and not page.warning
    pinned, nightly = sorted(cards(page))
    for card, track, torch in ((nightly, "nightly", "2.14.0.dev0+cpu"), (pinned, "2.13.0", "2.13.0+cpu")):
        assert f" {track} ✓ done due" in card and f"torch {torch} · Xeon 6430, 2 cores" in card
        assert "6 hours ago, took 40 min" in card and "✓ 3 of 3 usual cases measured" in card
        assert "✓ ✓ ✓ ✓ none of the last 4 nights is missing" in card
    assert "Nothing was confirmed within a day" in text(page)
    assert [each.value for each in page.header] == [
        *("New findings", "Biggest changes", "Last night", "Still open", "Next runs"),
    ]
    assert "Today: nothing needs you" in html(page)


def test_one_track_is_late_and_stands_first(open_page: Open, url: str, mornings: Mornings) -> None:
    for age in (2, 1):
        mornings.trigger(mornings.due(age, 13), ("nightly", "h200"), ("nightly", "a10"))
        mornings.measure(mornings.due(age, 13), "one", "h200")
        mornings.measure(mornings.due(age, 13), "two", "a10")
    mornings.trigger(mornings.due(0, 13), ("nightly", "h200"), ("nightly", "a10"))
    mornings.measure(mornings.due(0, 13), "one", "h200")
    mornings.scheduler("one", "h200")
    mornings.scheduler("two", "a10", seen=2 * HOUR)
    page = open_page(url, TODAY)
    assert morning_line(page) == "× 1 machine silent, 1 track late"
    shown = html(page)
    assert "Machine two is silent: no scheduler was seen there for 2 hours." in shown
    assert "was due 13 hours ago and has not begun: no scheduler is there for a10." in shown
    late, done = cards(page)
    assert "nightly · a10 nightly × late" in late and "nightly · one nightly ✓ done" in done
    # Its newest run is an earlier night's, and is not passed off as this one's.
    assert "an earlier night: ✓ 6 ok" in late and "earlier night" not in done


def test_a_night_that_no_scheduler_can_run_is_no_quiet_morning(
    open_page: Open, url: str, mornings: Mornings, tmp_path: Path
) -> None:
    mornings.nights([2, 1])
    mornings.trigger(mornings.due(0, 3), ("nightly", ""))
    mornings.scheduler("one", facts=facts(tmp_path, mornings.now, measures=False))
    page = open_page(url, TODAY)
    assert morning_line(page) == "× 1 track that no scheduler can run"
    (card,) = cards(page)
    assert "Nightly waits: no scheduler that measures is running." in html(page)
    assert "… waiting" in card and "3 hours ago; no scheduler can run it" in card
    assert "✓ an earlier night: 3 of 3 usual cases measured" in card
    mornings.scheduler("two", facts={"head": "head"})
    st.cache_resource.clear()
    assert morning_line(open_page(url, TODAY)) == "✓ All quiet so far"
    mornings.scheduler("head", facts={"measures": False, "missing": ["two"]})
    st.cache_resource.clear()
    assert morning_line(open_page(url, TODAY)) == "× 1 track that no scheduler can run"


def test_before_the_first_night_the_page_says_when_it_comes(
    open_page: Open, url: str, mornings: Mornings, tmp_path: Path
) -> None:
    body = facts(tmp_path, mornings.now)
    mornings.scheduler("one", facts=body)
    page = open_page(url, TODAY)
    first = next(each["next"][0] for each in body["schedules"] if each["schedule"] == "nightly")
    assert "Nothing measured yet" in text(page) and f"The first night is due {first[:10]} 02:30" in html(page)


def test_a_night_that_was_never_enqueued_is_late(open_page: Open, url: str, mornings: Mornings) -> None:
    mornings.nights([5, 4, 3, 2])
    page = open_page(url, TODAY)
    assert morning_line(page) == "× 1 track late"
    assert "was due 30 hours ago and was not planned: no scheduler was running" in html(page)


def test_a_confirmed_regression_comes_first_and_triaged_ones_are_counted(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    runs = mornings.nights([2, 1, 0])
    for case in (MLP, RESNET):
        confirm(database, mornings, a_finding(database, mornings, runs, case))
    confirm(database, mornings, a_finding(database, mornings, runs, BERT, "better"))
    findings.triage(database, 2, "expected", "ann", "", None, mornings.now)
    page = open_page(url, TODAY)
    assert morning_line(page) == "× 1 confirmed regression, 1 confirmed improvement"
    shown = html(page)
    assert "1 finding triaged or muted" in shown
    assert "finding=1" in shown and "finding=3" in shown and "finding=2" not in shown
    assert shown.index("finding=1") < shown.index("finding=3")


def test_an_older_regression_is_no_news_unless_the_address_asks_for_a_week(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    runs = mornings.nights([2, 1, 0])
    confirm(database, mornings, a_finding(database, mornings, runs), 50 * HOUR)
    page = open_page(url, TODAY)
    # No news, and not triaged yet.
    assert morning_line(page) == "! 1 older regression still open" and "1 older regression open" in html(page)
    assert "Today: 1 thing needs you" in html(page)
    page = open_page(url, TODAY, days="3")
    assert morning_line(page) == "× 1 confirmed regression" and "older regression" not in html(page)
    page = open_page(url, TODAY, days="2")
    assert 'Unknown days "2"' in page.warning[0].value
    assert morning_line(page) == "! 1 older regression still open"


def test_candidates_wait_however_old_they_are(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    a_finding(database, mornings, mornings.nights([2, 1, 0]))
    page = open_page(url, TODAY)
    assert morning_line(page) == "! 1 candidate not confirmed yet" and "? candidate" in html(page)


def test_a_case_that_fell_is_bad_news_and_one_that_never_worked_is_none(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    mornings.nights([3, 2, 1], not_ok={MLP: "unsupported"})
    mornings.nights([0], not_ok={MLP: "unsupported", BERT: "crashed"})
    page = open_page(url, TODAY)
    assert morning_line(page) == "× 1 case no longer measured"
    (card,) = cards(page)
    assert "× 1 of 2 usual cases measured" in card and "no longer: bert_base" in card
    shown = html(page)
    _, _, table = shown.partition('aria-label="What did not end ok"')
    table = table.partition("</table>")[0]
    assert "bert_base" in table and "used to be measured" in table and "mlp_overhead" not in table
    assert "As in the earlier night: 1 unsupported in" in shown


def test_a_night_that_broke_off_did_not_reach_its_cases(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    mornings.nights([3, 2, 1])
    due = mornings.due(0)
    mornings.trigger(due, ("nightly", ""))
    token = mornings.begin(due, "bench-1")
    store.save_run(database, a_run("torn", started_at=due, planned=6, state="interrupted"))
    store.save_outcomes(database, "torn", [an_outcome(MLP, started_at=due)])
    queue.set_run(database, token, "torn")
    queue.finish(database, token, "failed", {}, f"no space left {HOSTILE}", due + HOUR)
    page = open_page(url, TODAY)
    assert morning_line(page) == "× 1 night failed, 2 cases no longer measured"
    (card,) = cards(page)
    assert "× failed" in card and "× 1 of 3 usual cases measured" in card and "no space left" in card
    assert "… 5 not reached" in card and "1 of the last 4 nights is missing" in card
    assert "<img" not in re.sub(r'<img class="py-sparkline"[^>]*>', "", html(page))


def test_a_thousand_machines_do_not_make_the_page_long(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    labels = [f"m{number:04}" for number in range(1000)]
    mornings.trigger(mornings.due(0, 13), *(("nightly", label) for label in labels))
    page = open_page(url, TODAY)
    assert morning_line(page) == "× 1,000 tracks late"
    shown = html(page)
    assert len(cards(page)) == 12 and "and 988 tracks more: Machines →" in shown
    assert shown.count(" has not begun: no scheduler is there for ") == 6 and "And 994 more." in shown
    assert "Coverage is checked for 24 of 1,000 tracks" in text(page)


def test_late_is_since_the_first_night_that_did_not_begin_however_many_machines_wait(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    labels = [f"m{number:04}" for number in range(1600)]
    for age in (2, 1, 0):
        mornings.trigger(mornings.due(age, 13), *(("nightly", label) for label in labels))
    page = open_page(url, TODAY)
    assert morning_line(page) == "× 1,600 tracks late"
    assert html(page).count("was due 2 days ago and has not begun: no scheduler is there for m") == 6


def test_a_track_that_no_schedule_has_any_more_is_not_late(
    open_page: Open, url: str, mornings: Mornings, tmp_path: Path
) -> None:
    mornings.schedule = "given up"
    mornings.nights([5, 4, 3])
    mornings.schedule = "nightly"
    mornings.nights([2, 1, 0])
    mornings.scheduler("bench-1", facts=facts(tmp_path, mornings.now))
    page = open_page(url, TODAY)
    assert morning_line(page) == "✓ All quiet" and len(cards(page)) == 1
    assert "and 1 track that no schedule has any more: Machines →" in html(page)


def test_a_schedule_that_is_switched_off_is_shown_when_it_was_triggered_and_never_late(
    open_page: Open, url: str, mornings: Mornings, tmp_path: Path
) -> None:
    off = TOML.replace('cron = "30 2', 'enabled = false\ncron = "30 2')
    mornings.scheduler("bench-1", facts=facts(tmp_path, mornings.now, off))
    mornings.nights([5, 4, 3])
    page = open_page(url, TODAY)
    assert morning_line(page) == "✓ All quiet" and "✓ done" in cards(page)[0]
    st.cache_resource.clear()
    mornings.schedule = "long ago"
    mornings.nights([30, 29, 28, 20])
    page = open_page(url, TODAY)
    assert "and 1 track that no schedule has any more" in html(page) and len(cards(page)) == 1


def test_hostile_names_stay_text(open_page: Open, url: str, mornings: Mornings) -> None:
    for age in (1, 0):
        mornings.trigger(mornings.due(age), (HOSTILE, ""))
        mornings.measure(mornings.due(age), HOSTILE, hardware=HOSTILE, version=HOSTILE)
    page = open_page(url, TODAY)
    shown = html(page)
    assert "&lt;img src=x onerror=alert(1)&gt;" in shown
    assert "<img" not in re.sub(r'<img class="py-sparkline"[^>]*>', "", shown)
    for each in (*page.header, *page.caption, *page.markdown):
        assert "<img" not in str(each.value) and "**b**" not in str(each.value)


def test_by_hand_a_comparison_and_what_it_did_not_need_are_no_failures(
    open_page: Open, url: str, database: Database
) -> None:
    old, new = an_environment("2.13.0+cpu"), an_environment("2.14.0+cpu")
    spare = {"status": "skipped", "reason": "not needed: enough pairs"}

    def run(id: str, night: int, *environments: Any, **ended: Any) -> None:
        outcomes = [an_outcome(MLP, environment=each, latency=2.0 + night) for each in environments]
        outcomes.append(an_outcome(RESNET, environment=environments[-1], **ended))
        store_run(database, a_run(id, environments=environments, started_at=a_night(night)), outcomes)

    run("upgrade", 0, old, new, status="crashed", reason="in the comparison")
    run("spare", 1, new, **spare)
    page = open_page(url, TODAY)
    assert [each.value for each in page.header] == [
        *("Next steps", "Latest latency", "Last runs"),
    ]
    assert "1 of 2" in html(page) and "in suite smoke · 1 more were not needed" in html(page)
    run("alone", 2, new, status="crashed", reason="by itself")
    st.cache_data.clear()
    st.cache_resource.clear()
    page = open_page(url, TODAY)
    assert "by itself" in html(page) and "in the comparison" not in html(page)
    assert 'alt="3 runs, 2.00 to 4.00 ms, the last 4.00 ms"' in html(page)


def test_a_picture_says_in_words_what_it_shows() -> None:
    shown = sparkline([2.0, 4.0, 3.0], "ms", "nights", "bad")
    assert 'alt="3 nights, 2.00 to 4.00 ms, the last 3.00 ms"' in shown and shown.startswith("<img ")
    (line,) = re.findall(r'points="([^"]*)"', unquote(shown))
    heights = [float(point.split(",")[1]) for point in line.split()]
    # Down is small: the middle point is the highest.
    assert heights[1] < heights[2] < heights[0]
    assert "<img" not in sparkline([2.0], "ms", "nights") and "<img" not in sparkline([], "ms", "nights")
    assert 'points="4.0,15.0 128.0,15.0"' in unquote(sparkline([5.0, 5.0], "ms", "nights"))


def test_what_other_versions_say_that_they_serve_is_read_as_far_as_it_can_be(mornings: Mornings) -> None:
    nothing: list[Any] = [None, [], {"schedules": "x"}, {"schedules": [1, None, {}]}]
    seen = [replace(mornings.scheduler(f"m{n}"), facts=each or {}) for n, each in enumerate(nothing)]
    found = track_status.served_schedules(seen, mornings.now, 30)
    assert [(one.schedule, one.next, one.by) for one in found] == [("", (), ("m3",))]
    assert announced_patience(seen) == Patience(30, 12, 0.05)
    odd: dict[str, Any] = {"schedule": "n", "next": ["never", "2026-01-01T00:00:00", 7], "enabled": "yes"}
    (one,) = track_status.served_schedules([replace(seen[0], facts={"schedules": [odd]})], mornings.now, 30)
    assert (one.next, one.enabled, one.timezone, one.alive) == ((), False, "UTC", True)
    assert announced_patience([replace(seen[0], facts={"silent_minutes": 0, "overdue_hours": "x"})]) == (
        Patience(30, 12, 0.05)
    )


def test_schedulers_that_serve_alike_are_listed_once_and_the_newest_says_what_is_next(
    mornings: Mornings, tmp_path: Path
) -> None:
    early, late = (facts(tmp_path, mornings.now - n * timedelta(days=1)) for n in (3, 0))
    seen: list[SchedulerSeen] = [
        mornings.scheduler("one", seen=timedelta(days=3), facts=early),
        mornings.scheduler("two", facts=late),
    ]
    nightly = [
        one for one in track_status.served_schedules(seen, mornings.now, 20) if one.schedule == "nightly"
    ]
    assert [(one.by, one.alive) for one in nightly] == [(("one", "two"), True)]
    assert min(nightly[0].next) > mornings.now
    assert announced_patience(seen) == Patience(20, 5, 0.05)
    (alone,) = (
        one for one in track_status.served_schedules(seen[:1], mornings.now, 20) if one.schedule == "nightly"
    )
    assert not alone.alive and min(alone.next) < mornings.now


def test_no_requested_track_is_neither_good_nor_bad() -> None:
    summary = verdict.verdict([], [], verdict.NewFindings())
    assert (summary.tone, summary.text) == ("quiet", "… No schedule is active any more")


def test_spare_replicates_are_not_needed_and_what_the_budget_skipped_is() -> None:
    ended = [("skipped", "not needed: enough pairs"), ("skipped", "the budget is spent"), ("crashed", "x")]
    needed = [problems.needed(an_outcome(status=status, reason=reason)) for status, reason in ended]
    assert needed == [False, True, True]


def test_a_part_that_was_taken_out_of_its_schedule_is_not_waited_for(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    for age in (4, 3, 2):
        mornings.trigger(mornings.due(age), ("nightly", ""), ("old", ""))
        mornings.measure(mornings.due(age))
        mornings.measure(mornings.due(age), version="2.12.0+cpu")
    mornings.nights([1, 0])
    page = open_page(url, TODAY)
    (card,) = cards(page)
    assert morning_line(page) == "✓ All quiet" and " nightly ✓ done" in card


def test_nights_that_a_machine_missed_are_seen_in_its_row(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    mornings.nights([4, 3])
    for age in (2, 1):
        mornings.trigger(mornings.due(age), kind="missed")
    mornings.nights([0])
    queue.plan_run(database, "check", mornings.now, "timetable", [NewTask("", "check", {})], mornings.now)
    page = open_page(url, TODAY)
    (card,) = cards(page)
    assert "✓ ✓ × × ✓ 2 of the last 5 nights are missing" in card
    assert "oldest first: 3 done, 2 missed" in html(page) and morning_line(page) == "✓ All quiet"
