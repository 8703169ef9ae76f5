"""An upgrade is judged from the database exactly as from its journal, also after a journey by file."""

import io
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.comparison.policy import Policy
from analysis.comparison.thresholds import Threshold
from analysis.decision.comparison import COMPARED, DECIDED, stored_comparison
from db.connection.engine import Database, open_database
from db.runs import queries
from db.runs.queries import upgrade_runs
from records.kinds import RunKind
from reports.body import upgrade_json
from reports.text.reason_text import sentence
from reports.text.verdict_text import left_out_because
from reports.upgrade_report import JudgedUpgrade, judge_upgrade
from runner import journal
from runner.errors import JournalError
from runner.journal import Journal
from support.builders.upgrade_journals import (
    BEGUN,
    GPT_COMPILED,
    NEW,
    OLD,
    RUN,
    Story,
    store_upgrades,
    write_upgrade,
)
from support.servers.databases import on_both
from support.site import COMMAND
from workflows.ingest import ingest
from workflows.load_run import judge_loaded, load_run
from workflows.run_header import Header
from workflows.transfer import export_runs, import_runs

pytestmark = pytest.mark.slow

STORIES = {
    "mixed": Story(),
    "broken": Story(broken=(GPT_COMPILED,)),
    "own rules": Story(
        policy=Policy(
            thresholds={"latency_floor": Threshold(0.08)},
            must_not_regress=("bert_base/*",),
            weights={"gpt2_small/*": 3.0, "*": 0.25},
        )
    ),
    "interrupted": Story(unfinished=True),
    "screened": Story(screened=True),
}


def from_journal(data_dir: Path) -> JudgedUpgrade:
    """The verdict as `pyrometer report` makes it where the journal lies."""
    loaded = load_run(data_dir, RUN, lambda: open_database("sqlite://"))
    assert loaded.header is not None
    found = judge_loaded(loaded)
    assert found is not None
    return found


def from_database(database: Database) -> JudgedUpgrade:
    """The verdict of what the database holds, and nothing else."""
    run = queries.run_record(database, RUN)
    assert run is not None
    comparison = stored_comparison(run.facts)
    assert comparison is not None
    return judge_upgrade(run, comparison, queries.outcomes_of_run(database, RUN))


def as_json(found: JudgedUpgrade) -> dict[str, Any]:
    """The report, but for its end, which a journal that is imported later does not have."""
    body = upgrade_json(found)
    del body["run"]["ended_at"]
    return body


@on_both
@pytest.mark.parametrize("name", STORIES)
def test_the_database_judges_as_the_journal_does(name: str, tmp_path: Path, database: Database) -> None:
    path = write_upgrade(tmp_path / "data", STORIES[name])
    ingest(path, database)
    before, after = from_journal(tmp_path / "data"), from_database(database)
    assert after.upgrade == before.upgrade and after.results == before.results
    assert as_json(after) == as_json(before)
    # It is about something: the change that was planted is seen to the last digit.
    if name == "mixed":
        (slower,) = [case for case, one in after.upgrade.verdicts.items() if one.word == "slower"]
        change = after.upgrade.verdicts[slower].change
        assert slower.startswith("resnet50") and change is not None and abs(change - 0.0677) < 0.002
        assert any(
            "of its core" in left_out_because(why)
            for one in after.upgrade.verdicts.values()
            for why in one.left_out
        )


def test_short_pairs_of_a_screen_are_kept_and_enter_no_measurement(tmp_path: Path, sqlite: Database) -> None:
    with open_database(f"sqlite:///{tmp_path}/plain.db") as plain:
        ingest(write_upgrade(tmp_path / "plain", Story()), plain)
        expected, verdicts = queries.measurements_of_run(plain, RUN), from_database(plain).upgrade.verdicts
    ingest(write_upgrade(tmp_path / "data", STORIES["screened"]), sqlite)
    assert queries.measurements_of_run(sqlite, RUN) == expected
    found = from_database(sqlite)
    assert found.upgrade.verdicts == verdicts
    screens = [one.screen for one in found.results if one.screen]
    assert all(one.selection == "change" and min(one.changes) > 0.2 for one in screens)
    assert len(screens) == len(found.results)
    short = [one for one in queries.outcomes_of_run(sqlite, RUN) if "screening" in one.facts]
    assert len(short) == 2 * 2 * len(screens) and not any(one.metrics for one in short)


def test_a_journey_by_file_changes_no_verdict(tmp_path: Path, sqlite: Database) -> None:
    ingest(write_upgrade(tmp_path / "data", STORIES["own rules"]), sqlite)
    sink = io.BytesIO()
    export_runs.export(sqlite, [RUN], sink, form="pyrometer", table="", progress=lambda _: None, note=print)
    file = tmp_path / "run.jsonl"
    file.write_bytes(sink.getvalue())
    with open_database(f"sqlite:///{tmp_path}/elsewhere.db") as elsewhere:
        import_runs.import_path(file, None, elsewhere, lambda _: None)
        assert from_database(elsewhere) == from_database(sqlite)
        # And `pyrometer report` prints it there, where no journal lies.
        loaded = load_run(
            tmp_path / "nothing", RUN, lambda: open_database(f"sqlite:///{tmp_path}/elsewhere.db")
        )
        found = judge_loaded(loaded)
        assert loaded.header is None and found is not None
        assert as_json(found) == as_json(from_journal(tmp_path / "data"))


def test_the_command_tells_it_where_no_journal_lies(tmp_path: Path) -> None:
    url = store_upgrades(tmp_path, STORIES["broken"])
    (tmp_path / "elsewhere").mkdir()
    done = subprocess.run(
        [COMMAND, "report", RUN, "--json"],
        cwd=tmp_path / "elsewhere",
        env={**os.environ, "PYROMETER_DATABASE_URL": url},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    body = json.loads(done.stdout)
    assert body.pop("event") == "verdict" and body["run"].pop("ended_at").startswith("2026-11-21T15:46")
    assert body == as_json(from_journal(tmp_path / "data"))


def test_what_it_came_to_is_stored_where_a_list_finds_it(tmp_path: Path, sqlite: Database) -> None:
    ingest(write_upgrade(tmp_path / "data", STORIES["broken"]), sqlite)
    (listed,) = upgrade_runs(sqlite)
    reasons = from_database(sqlite).upgrade.reasons
    decided = listed.facts[DECIDED]
    assert (decided["decision"], decided["because"]) == ("no-go", sentence(reasons[0]))
    assert [each.fingerprint for each in listed.environments] == [OLD.fingerprint, NEW.fingerprint]
    assert listed.hardware_label == "Xeon 6430, 2 cores" and listed.state == "complete"


def test_one_that_was_interrupted_has_come_to_nothing(tmp_path: Path, sqlite: Database) -> None:
    ingest(write_upgrade(tmp_path / "data", STORIES["interrupted"]), sqlite)
    (listed,) = upgrade_runs(sqlite)
    assert listed.state == "interrupted" and DECIDED not in listed.facts and COMPARED in listed.facts


@pytest.mark.parametrize(
    ("story", "decision", "before_the_end"),
    [(Story(still=True, memory=1.0), "go", "unclear"), (Story(broken=(GPT_COMPILED,)), "no-go", "no-go")],
)
def test_no_upgrade_is_a_go_before_its_end(
    tmp_path: Path, sqlite: Database, story: Story, decision: str, before_the_end: str
) -> None:
    ingest(write_upgrade(tmp_path / "data", story), sqlite)
    run = queries.run_record(sqlite, RUN)
    assert run is not None
    outcomes = queries.outcomes_of_run(sqlite, RUN)
    decisions: list[str] = []
    for state in ("complete", "interrupted", "running"):
        found = judge_upgrade(replace(run, state=state), story.comparison, outcomes)
        decisions.append(found.upgrade.decision)
        assert found.upgrade.grounds
        assert state == "complete" or found.upgrade.without_blockers != "go"
    assert decisions == [decision, before_the_end, before_the_end]


def test_only_upgrades_are_listed_newest_first(tmp_path: Path, sqlite: Database) -> None:
    for day, kind in enumerate((RunKind.RUN, RunKind.UPGRADE, RunKind.BISECTION)):
        begun = BEGUN.replace(day=20 + 2 * day)
        ingest(write_upgrade(tmp_path, Story(f"{begun:%Y%m%d}-aaaa", kind=kind, begun=begun)), sqlite)
    ingest(write_upgrade(tmp_path, Story()), sqlite)
    assert [each.id for each in upgrade_runs(sqlite)] == ["20261122-aaaa", RUN]
    assert [each.id for each in upgrade_runs(sqlite, newest=1)] == ["20261122-aaaa"]


def test_sessions_about_findings_take_no_room_from_upgrades(tmp_path: Path, sqlite: Database) -> None:
    ingest(write_upgrade(tmp_path, Story()), sqlite)
    for day in (22, 23, 24):
        begun = BEGUN.replace(day=day)
        ingest(write_upgrade(tmp_path, Story(f"{begun:%Y%m%d}-aaaa", begun=begun, confirms=True)), sqlite)
    assert [each.id for each in upgrade_runs(sqlite, newest=2)] == [RUN]
    assert [each.id for each in upgrade_runs(sqlite, RunKind.CONFIRMATION, newest=2)] == [
        "20261124-aaaa",
        "20261123-aaaa",
    ]


def test_a_comparison_from_another_time_is_stored_and_refused_in_a_sentence(
    tmp_path: Path, sqlite: Database
) -> None:
    lines = journal.read_contents(write_upgrade(tmp_path / "whole"))
    header = Header.from_body(lines.header)
    with Journal(tmp_path / "data" / "runs" / RUN) as changed:
        changed.header(replace(header, comparison={"old": "a", "rules": "of the future"}).to_body())
        for outcome in lines.outcomes:
            changed.outcome(outcome)
    ingest(tmp_path / "data" / "runs" / RUN / journal.FILE, sqlite)
    (listed,) = upgrade_runs(sqlite)
    assert DECIDED not in listed.facts
    loaded = load_run(tmp_path / "data", RUN, lambda: open_database("sqlite://"))
    with pytest.raises(JournalError, match=f"run {RUN} holds a comparison that this Pyrometer cannot read"):
        judge_loaded(loaded)
