"""The fleet page: who lives, what runs and what waits and why, schedules, freshness, what can be measured."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard.components import parts
from dashboard.exports.page_recorder import PageRecord
from dashboard.machines import timetable
from db.connection.engine import Database
from db.queue import commands as queue
from db.runs import store
from interchange.errors import SourcePlace
from records.tasks import LastScheduledRun, NewTask
from support.builders.run_records import a_machine, a_night, a_run
from support.builders.schedule_nights import HOSTILE, Mornings, facts
from support.builders.telemetry import CAPABILITIES
from support.pages import MACHINES, SCHEDULE, Open, csv_of_section, html, text
from workflows.transfer import import_runs

HOUR = timedelta(hours=1)


def rows(page: AppTest, label: str) -> list[str]:
    """The rows of a table as text."""
    _, found, rest = html(page).partition(f'aria-label="{label}"')
    assert found, label
    body = rest.partition("<tbody>")[2].partition("</tbody>")[0]
    return [re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", row)).strip() for row in body.split("</tr>")[:-1]]


def cards(page: AppTest) -> str:
    """The row of numbers on top as text."""
    sections = re.findall(r'<section class="py-card">.*?</section>', html(page), re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", " ".join(sections)))


def test_machines_that_people_use_by_hand(open_page: Open, filled_url: str) -> None:
    page = open_page(filled_url, MACHINES)
    (machine,) = rows(page, "Machines")
    assert "– by hand no scheduler: runs by hand" in machine and "Xeon 6430, 2 cores" in machine
    assert "run-11 ! interrupted" in machine and "torch 2.14.0+cpu" in machine
    environments = rows(page, "Environments")
    assert environments[0].startswith("my nightly ") and "2.14.0+cpu 3.12.3" in environments[0]
    assert environments[0].endswith("bench-1 5") and len(environments) == 4
    assert "/runs?run=run-11" in html(page)
    assert [each.value for each in page.header] == ["Machines", "Environments"]
    page = open_page(filled_url, SCHEDULE)
    assert "No scheduler has run yet." in text(page) and "pyrometer scheduler" in text(page)
    assert "No task of a schedule is running or waiting." in text(page)
    assert [each.value for each in page.header] == ["Schedules", "Running and waiting tasks"]


def test_environments_of_older_nightlies_are_folded(open_page: Open, past_url: str) -> None:
    page = open_page(past_url, MACHINES)
    listed, older = rows(page, "Environments"), rows(page, "Earlier nightlies")
    assert [".dev" in each for each in listed].count(True) == 3
    assert older and all(".dev" in each for each in older)
    assert f"{len(older)} earlier nightl" in " ".join(each.label for each in page.expander)


def test_a_fleet_that_lives_says_what_it_serves_and_what_comes_next(
    open_page: Open, url: str, mornings: Mornings, tmp_path: Path
) -> None:
    for age in (1, 0):
        mornings.trigger(mornings.due(age), ("nightly", "h200"), ("2.13.0", "h200"))
        mornings.measure(mornings.due(age), "one", "h200")
        if age:
            mornings.measure(mornings.due(age), "one", "h200", version="2.13.0+cpu")
    mornings.begin(mornings.due(0), "one", "h200")
    mornings.trigger(mornings.due(0, 1), ("nightly", "h200"), kind="by hand")
    mornings.scheduler("one", "h200", facts=facts(tmp_path, mornings.now))
    page = open_page(url, MACHINES)
    assert "✓ 1 alive" in cards(page) and "Running now 1" in cards(page)
    (machine,) = rows(page, "Machines")
    assert "✓ alive seen just now · version 0.1.0 one, h200 nightly 2.13.0@h200" in machine
    page = open_page(url, SCHEDULE)
    running, left = rows(page, "Running and waiting tasks")
    assert running.startswith("… running nightly measure · 2.13.0@h200") and "one for 6 hours" in running
    assert left.startswith("… waiting nightly") and "one is busy" in left
    schedules = rows(page, "Schedules")
    assert schedules[0].startswith("nightly measure 30 2 * * * UTC nightly, 2.13.0 (pinned) suite smoke")
    assert "on h200" in schedules[0] and "then" in schedules[0] and "✓ alive one" in schedules[0]
    assert "… waiting 1 hour ago · by hand" in schedules[0]
    assert any(each.startswith("check check · built in") and "never" in each for each in schedules)
    nightly, pinned = sorted(rows(page, "Freshness"), reverse=True)
    assert nightly.startswith("nightly nightly · h200 … waiting 6 hours ago") and nightly.endswith("0 of 3")
    assert pinned.startswith("2.13.0 nightly · h200 … running 1 day ago") and pinned.endswith("0 of 2")


def test_a_scheduler_that_died_is_silent_and_what_it_announced_was_due(
    open_page: Open, url: str, mornings: Mornings, tmp_path: Path
) -> None:
    then = timedelta(days=2)
    mornings.scheduler("one", "h200", seen=then, facts=facts(tmp_path, mornings.now - then))
    mornings.scheduler("old", seen=timedelta(days=30))
    page = open_page(url, MACHINES)
    silent, gone = rows(page, "Machines")
    assert silent.startswith("one × silent seen 2 days ago") and gone.startswith("old – gone")
    assert "× 0 alive, 1 silent" in cards(page) and "no scheduler reported one" in cards(page)
    (nightly,) = (each for each in rows(open_page(url, SCHEDULE), "Schedules") if each.startswith("nightly "))
    assert " and its scheduler is silent never × silent one" in nightly and "× 20" in nightly


def test_who_is_silent_is_judged_by_the_clock_that_the_machines_share(
    open_page: Open, url: str, mornings: Mornings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = timedelta(days=1)
    monkeypatch.setattr("dashboard.server.database.shared_time", lambda database, now: now + ahead)
    mornings.scheduler("new", seen=-ahead)
    mornings.scheduler("old", seen=2 * HOUR - ahead)
    page = open_page(url, MACHINES)
    old, new = rows(page, "Machines")
    assert old.startswith("old × silent seen 2 hours ago") and new.startswith("new ✓ alive seen just now")
    assert "× 1 alive, 1 silent" in cards(page)


def test_a_machine_that_its_head_misses_is_gone_and_takes_nothing(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    mornings.scheduler("head", facts={"missing": ["node"]})
    mornings.scheduler("node", "h200", facts={"head": "head", "measures": True, "node": {}})
    mornings.trigger(mornings.due(0, 1), ("nightly", "h200"))
    page = open_page(url, MACHINES)
    alive, gone = rows(page, "Machines")
    assert alive.startswith("head ✓ alive") and gone.startswith("node – gone")
    (task,) = rows(open_page(url, SCHEDULE), "Running and waiting tasks")
    assert "node could run it but is silent" in task


def test_a_task_that_waits_for_a_missing_machine_comes_first(
    open_page: Open, url: str, database: Database, mornings: Mornings, tmp_path: Path
) -> None:
    planner = facts(tmp_path, mornings.now, measures=False)
    mornings.scheduler("one", facts=planner)
    mornings.trigger(mornings.due(0, 1), ("nightly", "h200"), ("nightly", ""))
    at, later = mornings.due(0, 2), mornings.now + HOUR
    tasks = [NewTask("", "check", {}), NewTask("later", "digest", {}, not_before=later)]
    assert queue.plan_run(database, "check", at, "timetable", tasks, at)
    found = rows(open_page(url, SCHEDULE), "Running and waiting tasks")
    assert "lost" not in found[2]
    assert "h200 × no scheduler that measures is running: start one with pyrometer scheduler" in found[0]
    assert "any machine × no scheduler that measures is running" in found[1]
    assert "will not begin before" in found[2] and "any machine one takes it next" in found[3]


@pytest.mark.parametrize(
    ("label", "joining"), [("h200", ""), ("rack=7", ", or by pyrometer fleet join --label rack=7")]
)
def test_a_label_without_a_scheduler_is_named_with_the_remedy(
    open_page: Open, url: str, mornings: Mornings, label: str, joining: str
) -> None:
    mornings.scheduler("one", "a10")
    mornings.trigger(mornings.due(0, 1), ("nightly", label))
    (task,) = rows(open_page(url, SCHEDULE), "Running and waiting tasks")
    sentence = f'no running scheduler has the label "{label}": add it to machine_labels'
    assert sentence in task.replace("&quot;", '"')
    assert task.rstrip().endswith(f"in the pyrometer.toml of a machine{joining}")


def test_a_task_that_rests_says_that_it_was_lost(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    mornings.scheduler("one", "h200")
    mornings.trigger(mornings.due(0, 1), ("nightly", "h200"))
    for token in ("first", "second"):
        assert queue.claim(
            database, owner="one/1", labels=["h200"], jobs=["measure"], token=token, now=mornings.now
        )
        assert queue.lose(database, token, "gone", mornings.now, 5) == "waiting"
    (task,) = rows(open_page(url, SCHEDULE), "Running and waiting tasks")
    assert "was lost 2 times and will not begin before" in task


def test_one_machine_is_opened_by_the_address(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    mornings.scheduler("one", "h200")
    mornings.scheduler("two")
    run_facts = {
        "conditions": {"driver": "580.1", "kernel": "6.8.0"},
        "telemetry": {
            "cpu": [
                {"name": "cpu_busy", "present": True, "detail": "/proc/stat"},
                {"name": "cpu_frequency", "present": False, "detail": "no cpufreq here"},
            ]
        },
    }
    run = replace(a_run("run-1", started_at=mornings.due(0), machine=a_machine("one")), facts=run_facts)
    store.save_run(database, run)
    mornings.trigger(mornings.due(0, 1), ("nightly", "h200"), ("nightly", "a10"))
    page = open_page(url, MACHINES, machine="one")
    shown = html(page)
    assert "580.1" in shown and "Conditions of its newest run" in shown and "no cpufreq here" in shown
    assert len(rows(page, "Running and waiting tasks")) == 1
    page = open_page(url, MACHINES)
    (abilities,) = rows(page, "What machines can measure")
    assert abilities == "one cpu busy No cpu frequency (no cpufreq here)."
    page.selectbox(key="choose-machine").select("two").run()
    assert page.query_params["machine"] in ("two", ["two"]) and "unknown before its first run" in html(page)
    page = open_page(url, MACHINES, machine="tow")
    assert 'did you mean "two"?' in page.warning[0].value and len(rows(page, "Machines")) == 2


def test_a_manual_run_is_shown_while_it_runs_and_that_of_a_task_is_not(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    begun = mornings.now - timedelta(minutes=30)
    for machine in ("desk", "node"):
        run = a_run(f"{machine}-run", started_at=begun, state="running", machine=a_machine(machine))
        store.save_run(database, run)
    page = open_page(url, MACHINES, machine="desk")
    sentence = (
        "No task of a schedule is running or waiting; desk-run runs on desk, started by hand 30 minutes ago."
    )
    assert parts.plain(sentence) in [each.value for each in page.caption]
    mornings.trigger(begun, ("nightly", "node"))
    assert queue.set_run(database, mornings.begin(begun, "node", "node"), "node-run")
    st.cache_resource.clear()
    page = open_page(url, MACHINES)
    desk, node = rows(page, "Machines")
    assert "desk-run by hand" in desk and "nightly" in node and "node-run by hand" not in node
    page = open_page(url, SCHEDULE)
    assert "desk-run runs on desk, started by hand" in text(page)
    assert "No task of a schedule" not in text(page) and "node-run runs by hand" not in text(page)


def test_what_a_script_submits_hides_no_run_of_the_machine_where_that_was_typed(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    own_machine, begun = import_runs.machine_of([]), mornings.now - 2 * HOUR
    own = a_run("own-run", started_at=begun, state="running", machine=own_machine)
    store.save_run(database, own)
    sent = json.dumps({"suite": "team", "case": "mine/train", "metrics": {"latency": {"value": 12.5}}})
    (later,), _ = import_runs.submit(
        sent, SourcePlace("stdin"), begun + HOUR, database, import_runs.machine_of
    )
    page = open_page(url, MACHINES)
    (machine,) = rows(page, "Machines")
    assert machine.startswith(own_machine.name) and "– by hand" in machine and "own-run by hand" in machine
    assert later not in html(page) and "The database is empty" not in text(page)


def test_a_machine_page_lists_tasks_for_any_machine_that_it_can_run(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    mornings.scheduler("head", facts={"measures": False})
    mornings.scheduler("node", facts={"head": "head", "measures": True, "node": {}})
    mornings.scheduler("gone", seen=timedelta(days=30))
    mornings.trigger(mornings.due(0, 1), ("nightly", ""))
    at = mornings.due(0, 2)
    assert queue.plan_run(database, "check", at, "timetable", [NewTask("", "check", {})], at)
    for machine, schedule in (("head", "check"), ("node", "nightly")):
        (task,) = rows(open_page(url, MACHINES, machine=machine), "Running and waiting tasks")
        assert task.startswith(f"… waiting {schedule} ") and f"any machine {machine} takes it next" in task
    assert "No task of a schedule is running or waiting." in text(open_page(url, MACHINES, machine="gone"))


def test_why_something_waits_depends_on_what_others_do(open_page: Open, url: str, mornings: Mornings) -> None:
    for machine in ("one", "two"):
        mornings.scheduler(machine)
        mornings.trigger(mornings.due(0, 2 if machine == "one" else 1), ("nightly", machine))
        mornings.begin(mornings.due(0, 1), machine, machine)
    mornings.trigger(mornings.due(0, 0.5), ("nightly", ""))
    running, left = rows(open_page(url, MACHINES, machine="one"), "Running and waiting tasks")
    assert running.startswith("… running") and "one, two are busy" in left


def test_a_thousand_machines_do_not_make_the_page_long(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    labels = [f"m{number:04}" for number in range(1000)]
    mornings.trigger(mornings.due(0, 1), *(("nightly", label) for label in labels))
    for label in labels[:50]:
        mornings.scheduler(label)
    for view, label, word, many in (
        (MACHINES, "Machines", "machine", 10),
        (SCHEDULE, "Running and waiting tasks", "task", 960),
        (SCHEDULE, "Freshness", "track", 960),
    ):
        page = open_page(url, view)
        assert len(rows(page, label)) == 40
        assert f"and {many} more {word}s; the CSV has all" in html(page)


def test_what_few_machines_can_measure_is_shown_and_the_file_has_all(
    open_page: Open, url: str, database: Database, records: list[PageRecord]
) -> None:
    # The first in the list has a run without telemetry: it takes no row.
    for number, run_facts in enumerate([{}, *[{"telemetry": CAPABILITIES}] * 12]):
        run = a_run(f"run-{number}", started_at=a_night(number), machine=a_machine(f"m{number:02}"))
        store.save_run(database, replace(run, facts=run_facts))
    page = open_page(url, MACHINES)
    shown = rows(page, "What machines can measure")
    assert [each[:3] for each in shown] == [f"m{number:02}" for number in range(1, 9)]
    below = html(page).partition('aria-label="What machines can measure"')[2].partition("</table>")[2]
    assert "and 4 more machines; the CSV has all with telemetry" in below
    frame = csv_of_section(records[-1], "What machines can measure")
    assert list(frame["machine"].unique()) == [f"m{number:02}" for number in range(1, 13)]


def test_of_more_than_is_read_the_oldest_are_listed_and_all_are_counted(
    open_page: Open, url: str, mornings: Mornings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.machines.load.TASKS", 3)
    for age in range(5):
        mornings.trigger(mornings.due(age), ("nightly", "h200"))
    mornings.begin(mornings.due(4), "one", "h200")
    mornings.trigger(mornings.due(0, 1), ("nightly", "a10"))
    mornings.scheduler("one", "h200")
    page = open_page(url, MACHINES)
    assert "Running now 1" in cards(page) and "Waiting 5" in cards(page)
    page = open_page(url, SCHEDULE)
    shown = rows(page, "Running and waiting tasks")
    assert "4 days ago" in shown[0] and "3 days ago" in shown[1]
    sentence = "Only the 3 oldest waiting tasks are listed, without 2 newer tasks."
    assert len(shown) == 4 and sentence in text(page)
    # A machine's own page asks for what is its own: older tasks of others take no room there.
    page = open_page(url, MACHINES, machine="one")
    sentence = "Only the 3 oldest waiting tasks are listed, without 1 newer task."
    assert sentence in text(page)


def test_a_file_that_lacks_the_newest_is_not_said_to_have_all(
    open_page: Open, url: str, mornings: Mornings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.machines.load.TASKS", 45)
    mornings.trigger(mornings.due(0, 1), *(("nightly", f"m{number}") for number in range(50)))
    page = open_page(url, SCHEDULE)
    assert "and 5 more tasks; the CSV has those" in html(page) and "without 5 newer tasks" in text(page)


def test_hostile_names_stay_text(open_page: Open, url: str, mornings: Mornings) -> None:
    run_facts = {
        "timezone": HOSTILE,
        "schedules": [
            {name: HOSTILE for name in ("schedule", "job", "cron", "suite", "baseline")}
            | {"environments": [HOSTILE], "labels": [HOSTILE], "enabled": True}
        ],
    }
    mornings.scheduler(HOSTILE, HOSTILE, facts=run_facts)
    mornings.trigger(mornings.due(0), (HOSTILE, ""))
    mornings.measure(
        mornings.due(0), HOSTILE, hardware=HOSTILE, version=HOSTILE, state="failed", error=HOSTILE
    )
    mornings.trigger(mornings.due(0, 1), (HOSTILE, HOSTILE))
    queries: list[dict[str, str]] = [{}, {"machine": HOSTILE}, {"machine": f"{HOSTILE}!"}]
    for view, query in [*((MACHINES, query) for query in queries), (SCHEDULE, {})]:
        page = open_page(url, view, **query)
        shown = html(page)
        assert "&lt;img src=x onerror=alert(1)&gt;" in shown and "<img" not in shown
        for each in (*page.header, *page.caption, *page.markdown, *page.warning):
            assert not re.search(r"(?<!\\)(<img|\*\*b|\[x\])", str(each.value)), each.value


def test_a_task_that_waits_for_another_run_says_so(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    mornings.trigger(mornings.due(0), ("nightly", ""))
    token = mornings.begin(mornings.due(0), "bench-1")
    assert queue.set_wait_reason(database, token, f"another run measures this machine {HOSTILE}")
    page = open_page(url, SCHEDULE)
    assert "for 6 hours; another run measures this machine" in html(page)
    assert HOSTILE not in html(page)


def test_schedules_without_a_scheduler_come_last(mornings: Mornings) -> None:
    runs = [
        LastScheduledRun(name, mornings.now, "timetable", {"done": 1}, "")
        for name in ("old", "detect:nightly", "a")
    ]
    assert [row.schedule for row in timetable.rows([], runs)] == ["detect:nightly", "a", "old"]
