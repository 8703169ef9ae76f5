"""From a real run's journal to the database: as often as one likes, whatever has become of the journal."""

import json
import math
import sqlite3
import statistics
import zlib
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from db.connection.engine import Database, open_database
from db.runs import queries
from db.runs.queries import stored_outcomes
from records.outcomes import Measurement, Outcome
from runner import journal
from runner.errors import JournalError
from support.builders.run_records import a_run
from support.site import ADD, LINEAR, RAISES, WOBBLES, of_the_plan
from workflows.ingest import (
    IngestResult,
    JournalPart,
    Position,
    finite_outcome,
    ingest,
    ingest_pending,
    pending_journals,
)

pytestmark = pytest.mark.torch


def everything(tmp_path: Path) -> dict[str, list[Any]]:
    """Every row of every table."""
    with closing(sqlite3.connect(tmp_path / "pyrometer.db")) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}


def a_line(kind: str, body: object, version: int = 1) -> bytes:
    """A line as the journal's format says: the crc covers kind and body."""
    crc = zlib.crc32(json.dumps([kind, body], sort_keys=True, separators=(",", ":")).encode())
    return json.dumps({"v": version, "kind": kind, "crc": crc, "body": body}).encode() + b"\n"


def lines_of(path: Path) -> list[bytes]:
    """The lines of a journal but the canary's."""
    lines = path.read_bytes().splitlines(keepends=True)
    return [line for line in lines if json.loads(line)["kind"] != "canary"]


def test_storing_twice_changes_nothing(the_journal: Path, database: Database, tmp_path: Path) -> None:
    first = ingest(the_journal, database)
    rows = everything(tmp_path)
    assert first == IngestResult(the_journal.parent.name, 8, ())
    sung = len(journal.read_contents(the_journal).canaries)
    assert len(rows["outcome"]) == 8 + sung > 8 and len(rows["run"]) == 1 and rows["measurement"]
    assert ingest(the_journal, database) == IngestResult(first.run, 0, ())
    assert everything(tmp_path) == rows


def test_what_the_run_stored_itself_is_what_its_journal_stores(
    the_journal: Path, database: Database, measured_once: Any
) -> None:
    site, done = measured_once
    ingest(the_journal, database)
    with open_database(site.url, create=False) as original:
        for ask in (queries.run_record, queries.outcomes_of_run, queries.measurements_of_run):
            assert ask(database, done.run) == ask(original, done.run)


def test_a_run_stores_its_harness_and_the_capabilities_of_its_machine_which_an_older_one_lacks(
    the_journal: Path, database: Database
) -> None:
    header, *lines = lines_of(the_journal)
    run = ingest(the_journal, database).run
    stored = queries.run_record(database, run)
    assert stored is not None
    assert stored.harness == json.loads(header)["body"]["harness"] != ""
    capabilities = stored.facts["telemetry"]
    assert {"absent", "driver", "gpus"} <= capabilities["gpu"].keys()
    assert {"core_busy", "steal"} <= {each["name"] for each in capabilities["cpu"]}
    older = json.loads(header)["body"]
    del older["telemetry"], older["timing"]["contention_limit"]
    the_journal.write_bytes(b"".join([a_line("header", older), *lines]))
    assert ingest(the_journal, database) == IngestResult(run, 0, ())
    stored = queries.run_record(database, run)
    assert stored is not None and "telemetry" not in stored.facts


def test_measurements_are_the_medians_of_what_went_well(the_journal: Path, database: Database) -> None:
    run = ingest(the_journal, database).run
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for raw in lines_of(the_journal):
        line = json.loads(raw)
        if line["kind"] == "outcome" and line["body"]["status"] == "ok":
            samples = [ns for block in line["body"]["blocks"] for ns in block]
            values[line["body"]["case"], "latency"].append(statistics.median(samples) / 1e6)
            values[line["body"]["case"], "latency_min"].append(min(samples) / 1e6)
    stored = of_the_plan(queries.measurements_of_run(database, run))
    assert {m.case for m in stored} == {ADD, LINEAR}, "what crashed or was wrong measures nothing"
    found = {(m.case, m.metric): m for m in stored}
    assert values.keys() <= found.keys()
    for key, each in values.items():
        m = found[key]
        assert m.n == 2 and (m.smallest, m.largest) == pytest.approx((min(each), max(each)))
        assert m.point == pytest.approx(sum(each) / 2)
        # Student's t of one degree of freedom at 97.5 % is tan(0.475 pi).
        logs = [math.log(value) for value in each]
        half = math.tan(0.475 * math.pi) * statistics.stdev(logs) / math.sqrt(2)
        assert m.spread == pytest.approx(statistics.stdev(logs))
        assert m.high == pytest.approx(max(m.point, math.exp(statistics.fmean(logs) + half)))
        assert m.low == pytest.approx(min(m.point, math.exp(statistics.fmean(logs) - half)))


def test_what_went_wrong_is_kept_with_its_reason(the_journal: Path, database: Database) -> None:
    outcomes = queries.outcomes_of_run(database, ingest(the_journal, database).run)
    by_case = defaultdict(list)
    for outcome in outcomes:
        by_case[outcome.case].append((outcome.status, outcome.reason))
    assert by_case[RAISES] == [("crashed", "RuntimeError: no such weather")] * 2
    assert [status for status, _ in by_case[WOBBLES]] == ["wrong"] * 2
    assert all("relative error" in reason for _, reason in by_case[WOBBLES])


def measurements(outcomes: list[Outcome]) -> list[Measurement]:
    """What outcomes say together."""
    return JournalPart(Path(), Position(), a_run(), tuple(map(finite_outcome, outcomes)), ()).measurements


def test_a_wrong_answer_measures_nothing_however_fast() -> None:
    fast = {"status": "wrong", "metrics": {"latency": 0.1}}
    right = {"status": "ok", "metrics": {"latency": 2.0}}
    outcomes = [Outcome(ADD, "env", n, **about) for n, about in enumerate((right, fast, right))]
    (only,) = measurements(outcomes)
    assert (only.point, only.smallest, only.n) == (2.0, 2.0, 2)


def test_numbers_that_are_none_reach_no_database() -> None:
    facts = {"check": {"error": math.nan}, "list": [1.0, math.inf]}
    outcome = Outcome(ADD, "env", 0, "ok", metrics={"latency": 1.0, "model_tflops": math.nan}, facts=facts)
    assert [m.metric for m in measurements([outcome])] == ["latency"]
    stored = finite_outcome(outcome)
    assert stored.metrics == {"latency": 1.0}
    assert stored.facts == {"check": {"error": None}, "list": [1.0, None]}


def test_one_metric_of_any_size_keeps_no_run_out() -> None:
    outcomes = [Outcome(ADD, "env", n, "ok", metrics={"error": each}) for n, each in enumerate((1e-60, 1.0))]
    (only,) = measurements(outcomes)
    assert (only.point, only.low, only.high, only.n) == (0.5, None, None, 2)


def test_damaged_lines_are_set_aside_and_the_rest_is_stored(the_journal: Path, database: Database) -> None:
    header, *outcomes, ended = lines_of(the_journal)
    damaged = outcomes[1].replace(b'"status":"', b'"status":"x', 1)
    newer = a_line("outcome", {}, version=2)
    stranger = a_line("greeting", {})
    the_journal.write_bytes(
        b"".join([header, outcomes[0], damaged, newer, stranger, *outcomes[2:], ended, outcomes[1][:-20]])
    )
    done = ingest(the_journal, database)
    assert done.new_outcomes == 7
    assert [line.split(":")[0] for line in done.set_aside] == ["line 3", "line 4", "line 5", "line 13"]
    assert "damaged" in done.set_aside[0] and "version 2" in done.set_aside[1]
    assert "unknown kind 'greeting'" in done.set_aside[2] and "torn" in done.set_aside[3]
    summary = queries.run_summary(database, done.run)
    assert summary is not None and summary.state == "interrupted" and sum(summary.counts.values()) == 7


def test_a_line_that_comes_later_completes_the_run(
    the_journal: Path, database: Database, data_dir: Path
) -> None:
    *most, last, _ended = lines_of(the_journal)
    the_journal.write_bytes(b"".join(most))
    (done,) = ingest_pending(data_dir, database)
    assert isinstance(done, IngestResult) and done.new_outcomes == 7
    assert pending_journals(data_dir, stored_outcomes(database)) == []
    with the_journal.open("ab") as file:
        file.write(last)
    (done,) = ingest_pending(data_dir, database)
    assert isinstance(done, IngestResult) and done.new_outcomes == 1
    summary = queries.run_summary(database, done.run)
    assert summary is not None and summary.state == "complete"


def test_what_another_database_holds_is_stored_in_this_one_as_well(
    the_journal: Path, database: Database, data_dir: Path, tmp_path: Path
) -> None:
    assert len(list(ingest_pending(data_dir, database))) == 1
    assert list(ingest_pending(data_dir, database)) == []
    with open_database(f"sqlite:///{tmp_path / 'another.db'}") as another:
        (done,) = ingest_pending(data_dir, another)
        assert isinstance(done, IngestResult) and done.new_outcomes == 8
        assert list(ingest_pending(data_dir, another)) == []


def test_a_bad_journal_is_reported_and_does_not_stop_the_others(
    the_journal: Path, database: Database, data_dir: Path
) -> None:
    header, *rest = lines_of(the_journal)
    body = json.loads(header)["body"] | {"run": "5-unfit"}
    stranger = json.loads(rest[0])["body"] | {"environment": "another"}
    planned = [*body["planned"], [stranger["case"], "another", stranger["replicate"]]]
    bad = {
        "0-empty": b"",
        "1-headless": b"".join(rest),
        "2-torn": header[:100],
        "3-strange": a_line("header", {"run": "3-strange"}),
        "5-unfit": a_line("header", body | {"planned": planned}) + a_line("outcome", stranger),
        "6-odd": a_line("header", json.loads(header)["body"] | {"run": "6-odd", "started_at": 5}),
    }
    for name, content in bad.items():
        (data_dir / "runs" / name).mkdir()
        (data_dir / "runs" / name / journal.FILE).write_bytes(content)
    (data_dir / "runs" / "4-folder" / journal.FILE).mkdir(parents=True)
    done = list(ingest_pending(data_dir, database))
    (good,) = (one for one in done if isinstance(one, IngestResult))
    assert good.new_outcomes == 8
    said = [str(one) for one in done if isinstance(one, JournalError)]
    reported = ("1-headless", "2-torn", "3-strange", "4-folder", "5-unfit", "6-odd")
    assert [[name for name in bad | {"4-folder": b""} if name in each] for each in said] == [
        [name] for name in reported
    ]


def test_a_journal_that_is_being_written_is_left_to_its_writer(
    the_journal: Path, database: Database, data_dir: Path
) -> None:
    with journal.Journal(the_journal.parent):
        assert list(ingest_pending(data_dir, database)) == []
    assert len(list(ingest_pending(data_dir, database))) == 1


def test_a_mark_that_makes_no_sense_costs_nothing(
    the_journal: Path, data_dir: Path, database: Database
) -> None:
    the_journal.with_name("stored").write_text("yes")
    assert pending_journals(data_dir, stored_outcomes(database)) == [the_journal]
    ingest(the_journal, database)
    assert pending_journals(data_dir, stored_outcomes(database)) == []
