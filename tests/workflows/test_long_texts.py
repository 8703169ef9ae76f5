"""Texts of a million characters in a run of one's own: the journal has all of them, all else a part."""

import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from common.bounded_files import MAX_LINE
from db.connection.engine import Database, open_database
from db.runs import queries
from interchange.errors import SourcePlace
from interchange.foreign_runs import machine_called
from interchange.runs import ImportedRun
from records.json_values import LONGEST_SENTENCE, LONGEST_TEXT, bounded_facts, bounded_text
from records.outcomes import Outcome
from records.runs import STEP
from runner import journal
from runner.journal import Journal
from support.builders.exports import file_of
from support.builders.journals import a_header, a_plan, an_outcome
from support.servers.databases import on_both
from support.sqlite_files import sqlite_with_tables
from workflows.ingest import ingest, pending_journals
from workflows.load_run import load_run
from workflows.transfer.import_runs import import_path, submit

MILLION = "first " + "".join(random.Random(1).choices("abcdefghij", k=1_000_000)) + " last"
RUN = "20260901-020000-0001"
MARK = "all of it"


def texts_of(outcome: Outcome) -> list[str]:
    """Those that were long."""
    return [outcome.reason, outcome.log_tail, outcome.facts["traceback"], *outcome.facts["breaks"]]


def a_long_journal(data_dir: Path) -> Path:
    """The journal of a run whose first outcome, notes and conditions are as long as can be."""
    plan, now = a_plan(), datetime.now(UTC)
    whole = a_header(RUN, plan)
    step = {"file": "repro.py", "function": "step", "text": "pass\n" * 50_000}
    machine = {**whole.machine, "conditions": {"odd": [MILLION]}}
    header = a_header(RUN, plan, machine=machine, step=step, notes=(MILLION,), command=MILLION)
    facts = {"traceback": MILLION, "breaks": [MILLION, "short"]}
    with Journal(data_dir / "runs" / RUN) as writing:
        writing.header(header.to_body())
        for number, planned in enumerate(plan):
            outcome = an_outcome(planned, now)
            if number == 0:
                outcome = replace(outcome, reason=MILLION, log_tail=MILLION, facts=facts)
            writing.outcome(outcome)
        writing.ended({"at": now.isoformat(), "state": "complete"})
    return writing.path


@on_both
def test_what_is_stored_of_a_text_is_its_ends_and_where_all_of_it_is(tmp_path: Path, url: str) -> None:
    path = a_long_journal(tmp_path)
    assert path.read_text().count(MILLION) == 7
    with open_database(url) as database:
        ingest(path, database)
        run = queries.run_record(database, RUN)
        stored = max(queries.outcomes_of_run(database, RUN), key=lambda each: len(each.reason))
        assert pending_journals(tmp_path, queries.stored_outcomes(database)) == []
    assert run is not None
    long = [*run.notes, run.command, *run.facts["conditions"]["odd"], *texts_of(stored)[:-1]]
    for text in long:
        assert text.startswith("first ") and text.endswith(" last") and MARK in text
        assert len(text) <= LONGEST_TEXT
    assert len(stored.reason) <= LONGEST_SENTENCE and stored.facts["breaks"][1] == "short"
    # What measures again is not cut.
    assert run.facts[STEP]["text"] == "pass\n" * 50_000


def test_a_run_that_is_loaded_from_its_journal_is_bounded_too(tmp_path: Path, sqlite: Database) -> None:
    path = a_long_journal(tmp_path)
    assert max(len(each.reason) for each in journal.read_contents(path).outcomes) <= LONGEST_SENTENCE
    loaded = load_run(tmp_path, RUN, lambda: sqlite)
    assert max(len(each.log_tail) for each in loaded.result.outcomes) <= LONGEST_TEXT


def test_an_export_is_small_and_comes_back_as_it_was(tmp_path: Path, sqlite: Database) -> None:
    ingest(a_long_journal(tmp_path), sqlite)
    run, outcomes = queries.run_record(sqlite, RUN), tuple(queries.outcomes_of_run(sqlite, RUN))
    assert run is not None
    file = tmp_path / "exported.jsonl"
    file.write_bytes(file_of(ImportedRun(run, outcomes, queries.measurements_of_run(sqlite, RUN))))
    assert file.stat().st_size < 600_000
    with open_database(sqlite_with_tables(tmp_path / "other.db")) as other:
        assert import_path(file, None, other, lambda runs: None).new.runs == 1
        assert import_path(file, None, other, lambda runs: None).set_aside == ()
        assert tuple(queries.outcomes_of_run(other, RUN)) == outcomes


def test_of_the_texts_of_a_file_the_ends_are_stored(sqlite: Database) -> None:
    failed = {
        **{"suite": "training", "case": "model/train", "started_at": 1_700_000_000, "status": "crashed"},
        **{"reason": MILLION[:150_000], "facts": {"odd": MILLION}},
    }
    machine = machine_called("laptop", "a CPU")
    submit(json.dumps(failed), SourcePlace("body"), None, sqlite, lambda gpus: machine)
    (run,) = queries.run_ids(sqlite)
    (outcome,) = queries.outcomes_of_run(sqlite, run)
    assert len(outcome.reason) <= LONGEST_SENTENCE and MARK in outcome.reason
    assert len(outcome.facts["odd"]) <= LONGEST_TEXT and outcome.facts["odd"].endswith(" last")


def test_a_line_that_no_reader_would_take_is_written_with_its_ends(tmp_path: Path) -> None:
    plan = a_plan()
    facts = {"traceback": "x" * (MAX_LINE + 1)}
    with Journal(tmp_path / "run-1") as writing:
        writing.header(a_header("run-1", plan).to_body())
        writing.outcome(replace(an_outcome(plan[0], datetime.now(UTC)), facts=facts))
    (read,) = journal.read_contents(writing.path).outcomes
    assert "left out" in read.facts["traceback"] and len(read.facts["traceback"]) <= LONGEST_TEXT


def test_an_outcome_with_more_samples_than_a_reader_takes_keeps_its_numbers(tmp_path: Path) -> None:
    plan = a_plan()
    outcome = replace(an_outcome(plan[0], datetime.now(UTC)), blocks=((1,) * 2_000_001,))
    with Journal(tmp_path / "run-1") as writing:
        writing.header(a_header("run-1", plan).to_body())
        writing.outcome(outcome)
    (read,) = journal.read_contents(writing.path).outcomes
    assert read.metrics == outcome.metrics and read.blocks == () and "samples" in read.facts["left_out"]


@pytest.mark.parametrize("length", [0, 2, 299, 300, 301, 1_000, 99_999, 12_345_678])
def test_a_bounded_text_is_as_long_as_it_may_be_and_stays_so(length: int) -> None:
    text = "x" * length
    bounded = bounded_text(text, 300, "a file has all of it")
    assert len(bounded) <= 300 and (bounded == text) is (length <= 300)
    assert bounded_text(bounded, 300, "nothing has") == bounded
    if length > 300:
        (left_out,) = (int(word.replace(",", "")) for word in bounded.split() if word[0].isdigit())
        assert left_out + bounded.count("x") == length


def test_facts_keep_their_shape() -> None:
    facts = {"a": 1, "b": [1.5, None, True, {"c": "short"}], "d": {"e": MILLION}, MILLION: 2}
    bounded = bounded_facts(facts, "a file has all of it")
    assert [*bounded][:3] == ["a", "b", "d"] and bounded["a"] == 1 and bounded["b"] == facts["b"]
    assert len(bounded["d"]["e"]) <= LONGEST_TEXT and all(len(name) <= LONGEST_TEXT for name in bounded)
    assert len(json.dumps(bounded)) < 3 * LONGEST_TEXT
