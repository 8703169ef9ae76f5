"""The list of runs: its filters live in the address, and the database does the choosing."""

import re
from dataclasses import replace
from datetime import timedelta
from html import escape
from pathlib import Path

import pytest

from dashboard.components import query_params, tables
from dashboard.exports.page_recorder import PageRecord
from dashboard.runs import page as runs
from db.connection.engine import Database
from db.queue import commands as queue
from db.runs import queries
from db.runs.store import save_run
from records.kinds import RunCategory, RunState
from records.runs import RunsOnly, RunSummary
from support.builders.run_records import a_machine, a_night, a_run
from support.builders.schedule_nights import Mornings
from support.pages import RUNS, Open, csv_of_section, html, text
from support.sqlite_files import open_with_tables

HOSTILE = "<img src=x onerror=alert(1)> & all"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Sixty runs: every third of suite gpu, every second on another machine, the last one running."""
    made = f"sqlite:///{tmp_path}/pyrometer.db"
    with open_with_tables(made) as database:
        for night in range(60):
            run = a_run(
                f"run-{night:02d}",
                started_at=a_night(night),
                suite="smoke" if night % 3 else "gpu",
                machine=a_machine(HOSTILE if night % 2 else "bench-1"),
                state="running" if night == 59 else "complete",
            )
            save_run(database, run)
    return made


def test_the_database_leaves_out_what_is_not_requested(url: str) -> None:
    with open_with_tables(url) as database:
        every = queries.recent_runs(database, limit=100)
        assert queries.count_runs(database, RunsOnly()) == len(every) == 60
        for only in (
            RunsOnly(suite="gpu"),
            RunsOnly(machine=HOSTILE),
            RunsOnly(state="running"),
            RunsOnly(suite="smoke", machine="bench-1", state="complete"),
            RunsOnly(suite="complete"),
            RunsOnly(text="GPU"),
            RunsOnly(text="un-5 smoke"),
            RunsOnly(text="%"),
        ):
            wanted = [
                each
                for each in every
                if only.suite in ("", each.suite)
                and only.machine in ("", each.machine)
                and only.state in ("", each.state)
                and all(_says(each, word) for word in only.text.lower().split())
            ]
            assert queries.recent_runs(database, limit=100, only=only) == wanted
            assert queries.recent_runs(database, limit=5, offset=2, only=only) == wanted[2:7]
            assert queries.count_runs(database, only) == len(wanted)
        assert queries.suites_and_machines(database) == (["gpu", "smoke"], [HOSTILE, "bench-1"])


def _says(run: RunSummary, word: str) -> bool:
    said = (run.id, run.suite, run.machine, run.hardware, *run.torch_versions)
    return any(word in each.lower() for each in said)


def test_a_text_is_looked_for_in_the_versions_of_a_run_and_in_its_hardware(url: str) -> None:
    with open_with_tables(url) as database:
        (newest, *_) = queries.recent_runs(database, limit=1)
        for word in (newest.torch_versions[0], newest.hardware.split()[0].upper(), newest.id[1:].upper()):
            found = queries.recent_runs(database, limit=100, only=RunsOnly(text=word))
            assert newest in found and all(_says(each, word.lower()) for each in found)
        assert queries.count_runs(database, RunsOnly(text=f"{newest.id} nowhere")) == 0
        assert queries.count_runs(database, RunsOnly(text="run_5")) == 0, "a sign is no pattern"


def test_a_search_of_the_list_finds_runs_of_other_pages(open_page: Open, url: str) -> None:
    at = open_page(url, RUNS)
    assert "run-03" not in html(at)
    at.text_input(key="choose-text").input("RUN-03").run()
    assert [each.value for each in at.header] == ["1 run"] and "run-03" in html(at)
    assert at.query_params["text"] in ("RUN-03", ["RUN-03"])
    at.text_input(key="choose-text").input("nowhere").run()
    assert "No such run." in text(at)


def test_each_run_is_in_one_category(database: Database, mornings: Mornings) -> None:
    (nightly,) = mornings.nights([0])
    for number, how in enumerate(
        [{}, *({"kind": kind} for kind in ("upgrade", "confirmation", "bisection", "trace"))]
    ):
        save_run(database, replace(a_run(f"run-{number}", started_at=a_night(number)), **how))
    for source in ("imported", "submitted"):
        save_run(database, replace(a_run(source), source=source, source_format="hud"))
    found = {
        each: _added(queries.recent_runs(database, limit=100, only=RunsOnly(category=each)))
        for each in RunCategory
    }
    assert found == {
        "nightly": [nightly],
        "manual": ["run-0"],
        "upgrade": ["run-1"],
        "confirmation": ["run-2"],
        "bisection": ["run-3"],
        "trace": ["run-4"],
        "imported": ["imported"],
        "submitted": ["submitted"],
    }


def test_the_run_of_an_attempt_that_was_lost_is_no_persons(database: Database, mornings: Mornings) -> None:
    due = mornings.due(0)
    mornings.trigger(due, ("nightly", ""))
    token = mornings.begin(due, "bench-1")
    save_run(database, a_run("lost", started_at=due))
    assert queue.set_run(database, token, "lost")
    assert queue.lose(database, token, "its machine went away", due, most=3)
    again = mornings.measure(due + timedelta(hours=1), "bench-2")
    found = {
        each: set(_added(queries.recent_runs(database, limit=100, only=RunsOnly(category=each))))
        for each in (RunCategory.NIGHTLY, RunCategory.MANUAL)
    }
    assert found == {"nightly": {"lost", again}, "manual": set()}


def _added(runs: list[RunSummary]) -> list[str]:
    """The runs that the fixture has not made, whose ids have two digits."""
    return [run.id for run in runs if len(run.id) != len("run-00")]


def test_a_kind_is_chosen_among_those_that_there_are(open_page: Open, url: str) -> None:
    at = open_page(url, RUNS)
    kinds = at.button_group(key="choose-kind")
    assert list(kinds.options) == ["All 60", "Manual 60"]
    at = open_page(url, RUNS, kind="upgrade")
    assert "No run of that kind." in text(at)
    assert "Upgrade 0" in at.button_group(key="choose-kind").options


def test_filters_are_read_from_the_address_and_written_to_it(open_page: Open, url: str) -> None:
    at = open_page(url, RUNS, suite="gpu", machine=HOSTILE)
    assert [each.value for each in at.header] == ["10 runs"]
    assert "run-57" in html(at) and "run-54" not in html(at) and "<img" not in html(at)
    at.selectbox(key="choose-machine").select("bench-1").run()
    assert {name: at.query_params[name] for name in ("suite", "machine", "state")} in (
        {"suite": ["gpu"], "machine": ["bench-1"], "state": ["all"]},
        {"suite": "gpu", "machine": "bench-1", "state": "all"},
    )
    assert "run-54" in html(at)


def test_a_filtered_list_has_pages_of_its_own(open_page: Open, url: str) -> None:
    at = open_page(url, RUNS)
    assert [each.value for each in at.header] == ["60 runs"]
    assert 'href="/runs?kind=all&amp;suite=all&amp;machine=all&amp;state=all&amp;page=2"' in html(at)
    at.query_params["page"] = "2"
    at.run()
    assert html(at).count('href="/runs?run=run-0') == 10 and "page 2 of 2" in html(at)
    assert " data-paged>" in html(at), "a filter of its rows says that it searches this page"
    at.query_params["suite"] = "gpu"
    at.run()
    assert "20 runs" in text(at) and "Newer" not in html(at) and "data-paged" not in html(at)


@pytest.mark.parametrize(("query", "many"), [({}, 60), ({"suite": "gpu"}, 20)])
def test_the_file_has_all_that_the_heading_counts(
    open_page: Open,
    url: str,
    records: list[PageRecord],
    monkeypatch: pytest.MonkeyPatch,
    query: dict[str, str],
    many: int,
) -> None:
    monkeypatch.setattr("dashboard.components.load._RUNS_AT_ONCE", 7)
    at = open_page(url, RUNS, **query)
    # The page itself shows no more than before.
    assert html(at).count('href="/runs?run=run-') == min(many, runs.PAGE)
    frame = csv_of_section(records[-1], f"{many} runs")
    ids = [f"run-{night:02d}" for night in reversed(range(60)) if many == 60 or night % 3 == 0]
    assert list(frame["run"]) == ids


def test_unknown_values_and_filters_without_a_match_are_said(open_page: Open, url: str) -> None:
    at = open_page(url, RUNS, suite="gpuu")
    assert 'did you mean "gpu"' in at.warning[0].value and "60 runs" in text(at)
    at = open_page(url, RUNS, state="interrupted")
    assert "No run of that kind." in text(at) and 'href="/runs"' in html(at)


def test_a_run_that_is_not_there_leaves_the_whole_list(open_page: Open, url: str) -> None:
    at = open_page(url, RUNS, run="run-99", suite="gpu")
    assert "There is no run 'run-99'" in at.warning[0].value and "60 runs" in text(at)


def test_states_are_those_that_a_run_can_have() -> None:
    view, complaints = runs.selection({}, ["smoke"], ["bench-1"])
    assert view.only == RunsOnly() and not complaints
    assert view.query() == {name: [query_params.ALL] for name in ("kind", "suite", "machine", "state")}
    for state in RunState:
        view, complaints = runs.selection({"state": [state]}, ["smoke"], ["bench-1"])
        assert view.only == RunsOnly(state=state) and not complaints


def test_a_suite_that_is_called_all_is_one_of_them() -> None:
    names = ["all", "=all", "cpu"]
    assert query_params.choice_labels("All suites", names) == {
        "all": "All suites",
        "=all": "all",
        "==all": "=all",
        "cpu": "cpu",
    }
    for name in names:
        query = {"suite": [query_params.encode_name(name)]}
        view, complaints = runs.selection(query, names, [])
        assert (view.only, complaints) == (RunsOnly(suite=name), [])
    view, complaints = runs.selection({"suite": ["all"]}, names, [])
    assert (view.only, complaints) == (RunsOnly(), [])


def test_a_machine_that_is_called_after_its_hardware_is_named_once(url: str) -> None:
    with open_with_tables(url) as database:
        (summary, *_) = queries.recent_runs(database, limit=1)
    foreign = replace(summary, machine=summary.hardware)
    for shown in (
        tables.runs([foreign], foreign.started_at).html(),
        tables.run_title(foreign, foreign.started_at),
    ):
        assert re.sub(r'title="[^"]*"', "", shown).count(summary.hardware) == 1
    assert escape(summary.machine) in tables.runs([summary], summary.started_at).html()
