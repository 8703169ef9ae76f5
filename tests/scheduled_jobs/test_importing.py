"""From strangers' files to the database: once, each run whole or not at all, nothing overwritten."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import BERT, MLP, a_machine, a_run, an_environment, an_outcome, measurements_for
from exchange_samples import PYTEST, SAMPLES, TORCHBENCH, of_json, written

from db import queries
from db.engine import Database, open_database
from db.metrics import metric_definitions
from db.records import Measurement, MetricDefinition, Run
from exchange.errors import BadFile, Place
from exchange.imported import Imported, ImportedRun, Problem
from runner import journal
from runner.records import Outcome
from scheduled_jobs.header import Header
from scheduled_jobs.importing import Amount, Arrived, arrive, files, keep

NOTHING = Amount()
SPEED = MetricDefinition("tool.speed", "Speed", "x", "higher")


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    """A database for what does not depend on which one it is."""
    with open_database(f"sqlite:///{tmp_path}/database/pyrometer.db") as opened:
        yield opened


def everything(database: Database) -> list[Any]:
    """All that queries tell of every run."""
    runs = queries.recent_runs(database, limit=1000)
    parts = (queries.run_record, queries.outcomes_of_run, queries.measurements_of_run)
    told = [ask(database, run.id) for run in runs for ask in parts]
    return [runs, told, queries.series_keys(database), metric_definitions(database)]


def read(path: Path, database: Database | None, **how: Any) -> Arrived:
    return arrive(path, how.pop("name", None), database, lambda stored: None, **how)


def kept(database: Database | None, *runs: ImportedRun, metrics: Sequence[MetricDefinition] = ()) -> Arrived:
    imported = Imported("tool", runs, tuple(metrics))
    return keep("tool", [imported], Place("file.json"), database, lambda stored: None)


def a_foreign_run(
    id: str = "20260901-020000-tool-0123abcd", *, cases: Sequence[str] = (MLP,), **metrics: float
) -> ImportedRun:
    """A run as an importer makes it."""
    outcomes = [an_outcome(case, metrics=metrics or {"latency": 2.0}, blocks=()) for case in cases]
    run = a_run(id, planned=len(outcomes))
    return ImportedRun(run, tuple(outcomes), tuple(measurements_for(outcomes)))


@pytest.mark.parametrize("name", SAMPLES)
def test_importing_twice_changes_nothing_and_says_so(tmp_path: Path, database: Database, name: str) -> None:
    path = written(tmp_path, SAMPLES[name])
    first = read(path, database)
    assert first.format == name and first.new == first.held and first.held.measurements > 0
    stored = everything(database)
    summaries = queries.recent_runs(database)
    assert sum(sum(summary.counts.values()) for summary in summaries) == first.held.outcomes
    assert all(summary.planned == sum(summary.counts.values()) for summary in summaries)
    again = read(path, database)
    assert again == replace(first, new=NOTHING)
    assert everything(database) == stored


@pytest.mark.parametrize("name", ["pyrometer", "torchbench", "asv"])
def test_a_dry_run_tells_the_same_and_keeps_nothing(tmp_path: Path, sqlite: Database, name: str) -> None:
    path = written(tmp_path, SAMPLES[name])
    nothing = everything(sqlite)
    told = read(path, sqlite, dry_run=True)
    assert everything(sqlite) == nothing
    assert told == read(path, None) == read(path, sqlite)
    assert read(path, sqlite, dry_run=True).new == NOTHING


def test_a_run_that_does_not_fit_is_left_out_whole_and_the_others_go_in(database: Database) -> None:
    good, other = a_foreign_run(), a_foreign_run("20260902-020000-tool-0123abcd", cases=(MLP, BERT))
    stranger = replace(other.outcomes[1], environment="of-no-run")
    bad = replace(other, outcomes=(other.outcomes[0], stranger))
    third = a_foreign_run("20260903-020000-tool-0123abcd")
    arrived = kept(database, good, bad, third)
    assert arrived.held == arrived.new == Amount(2, 2, 2)
    (problem,) = arrived.set_aside
    assert f"run {bad.run.id} is left out: environment of-no-run" in problem.sentence
    assert queries.run_ids(database) == {good.run.id, third.run.id}


def test_a_run_in_several_parts_is_one_and_left_out_whole_as_well(database: Database) -> None:
    whole = a_foreign_run(cases=(MLP, BERT))
    pieces = [
        Imported("tool", (ImportedRun(whole.run, (outcome,), (measurement,)),))
        for outcome, measurement in zip(whole.outcomes, whole.measurements, strict=True)
    ]
    outcome = replace(whole.outcomes[1], environment="of-no-run")
    broken = [pieces[0], Imported("tool", (ImportedRun(whole.run, (outcome,), ()),))]
    assert keep("tool", broken, Place("f"), database, lambda stored: None).held == NOTHING
    assert not queries.run_ids(database)
    assert keep("tool", pieces, Place("f"), database, lambda stored: None).new == Amount(1, 2, 2)
    assert len(queries.measurements_of_run(database, whole.run.id)) == 2


def test_a_metric_that_is_stored_in_another_unit_is_set_aside_and_its_points_left_out(
    database: Database,
) -> None:
    kept(database, a_foreign_run(**{"tool.speed": 2.0}), metrics=[SPEED])
    other = a_foreign_run("20260902-020000-tool-0123abcd", **{"tool.speed": 200.0, "latency": 3.0})
    arrived = kept(database, other, metrics=[replace(SPEED, unit="%")])
    assert arrived.new == Amount(1, 1, 1)
    (problem,) = arrived.set_aside
    assert "tool.speed is stored as x" in problem.sentence and "its points are left out" in problem.sentence
    assert [m.metric for m in queries.measurements_of_run(database, other.run.id)] == ["latency"]
    (outcome,) = queries.outcomes_of_run(database, other.run.id)
    assert dict(outcome.metrics) == {"latency": 3.0}
    assert metric_definitions(database) == {"tool.speed": SPEED}


def test_a_definition_is_stored_although_the_first_run_with_it_is_left_out(sqlite: Database) -> None:
    good = a_foreign_run(**{"tool.speed": 2.0})
    bad = a_foreign_run("20260831-020000-tool-0123abcd", **{"tool.speed": 2.0})
    bad = replace(bad, outcomes=(replace(bad.outcomes[0], environment="of-no-run"),))
    kept(sqlite, bad, good, metrics=[SPEED])
    assert metric_definitions(sqlite) == {"tool.speed": SPEED}


def test_one_of_our_own_metrics_is_not_defined_anew(sqlite: Database) -> None:
    arrived = kept(sqlite, a_foreign_run(), metrics=[MetricDefinition("latency", "Latency", "s", "lower")])
    assert arrived.new == Amount(1, 1, 0)
    (problem,) = arrived.set_aside
    assert "latency is one of Pyrometer's own, in ms" in problem.sentence


def test_what_is_stored_stays_whatever_a_file_tells_later(sqlite: Database) -> None:
    kept(sqlite, a_foreign_run(cases=(MLP, BERT)))
    stored = everything(sqlite)
    changed = a_foreign_run(cases=(MLP, BERT), latency=9.0)
    crashed = an_outcome(BERT, status="crashed", blocks=())
    arrived = kept(
        sqlite,
        replace(changed, outcomes=(changed.outcomes[0], crashed), measurements=changed.measurements[:1]),
    )
    assert arrived.new == NOTHING and everything(sqlite) == stored
    assert {problem.sentence.partition(": ")[2] for problem in arrived.set_aside} == {
        f"latency of {MLP} is stored as 2.0 and here as 9.0; the first stays",
        f"{BERT} is stored as ok and here as crashed; the first stays",
    }


def test_a_second_file_of_the_same_run_adds_to_it(sqlite: Database) -> None:
    kept(sqlite, a_foreign_run())
    arrived = kept(sqlite, a_foreign_run(cases=(BERT,)))
    assert arrived.new == Amount(0, 1, 1)
    (summary,) = queries.recent_runs(sqlite)
    assert (summary.planned, summary.counts) == (2, {"ok": 2})


def test_facts_that_nobody_could_show_are_left_out_with_their_run(sqlite: Database) -> None:
    facts: dict[str, Any] = {}
    for _ in range(900):
        facts = {"in": facts}
    one = a_foreign_run()
    deep = replace(one, outcomes=(replace(one.outcomes[0], facts=facts),))
    arrived = kept(sqlite, deep)
    assert arrived.held == NOTHING and "nested too deep" in arrived.set_aside[0].sentence
    assert not queries.run_ids(sqlite)


def test_the_canary_of_an_export_is_in_no_plan(sqlite: Database) -> None:
    canary = replace(an_environment("", name="canary"), torch_version="")
    outcomes = [an_outcome(), an_outcome("canary_compute/infer/-/eager", environment=canary)]
    run = a_run("20260901-020000-1f3a", environments=[an_environment(), canary], planned=1)
    kept(sqlite, ImportedRun(run, tuple(outcomes), tuple(measurements_for(outcomes))))
    (summary,) = queries.recent_runs(sqlite)
    assert summary.counts == {"ok": 1} and len(queries.outcomes_of_run(sqlite, run.id)) == 2


def test_an_interrupted_run_becomes_complete_and_never_the_other_way(sqlite: Database) -> None:
    def state(now: str) -> str:
        one = a_foreign_run("20260901-020000-1f3a")
        kept(sqlite, replace(one, run=replace(one.run, state=now)))
        run = queries.run_record(sqlite, one.run.id)
        assert isinstance(run, Run)
        return run.state

    assert [state("interrupted"), state("complete"), state("interrupted")] == [
        "interrupted",
        "complete",
        "complete",
    ]


def test_a_run_that_went_on_since_is_measured_by_all_of_its_processes(sqlite: Database) -> None:
    outcomes = [
        an_outcome(replicate=number, metrics={"latency": 2.0 + number}, blocks=()) for number in range(3)
    ]
    run = a_run("20260901-020000-1f3a", planned=3)
    first = ImportedRun(
        replace(run, state="interrupted"), tuple(outcomes[:2]), tuple(measurements_for(outcomes[:2]))
    )
    kept(sqlite, first)
    arrived = kept(sqlite, ImportedRun(run, tuple(outcomes), tuple(measurements_for(outcomes))))
    assert arrived.new == Amount(0, 1, 1) and arrived.set_aside == ()
    assert queries.measurements_of_run(sqlite, run.id) == measurements_for(outcomes)
    # The older file tells of fewer, and changes nothing.
    assert kept(sqlite, first).new == NOTHING
    assert queries.measurements_of_run(sqlite, run.id) == measurements_for(outcomes)


def a_journal(folder: Path, cut: int = 0) -> Path:
    """The journal of another machine's run of two replicates, in the run's folder; without its last bytes."""
    machine, environment = a_machine("bench-2"), an_environment()
    header = Header(
        run="20260901-020000-1f3a",
        suite="smoke",
        started_at="2026-09-01T02:00:00+00:00",
        command="pyrometer run",
        machine={
            "fingerprint": machine.fingerprint,
            "name": machine.name,
            "hardware_fingerprint": machine.hardware.fingerprint,
            "hardware_label": machine.hardware.label,
            "hardware": {},
            "conditions": {},
        },
        environments=(
            {
                "fingerprint": environment.fingerprint,
                "name": environment.name,
                "python": "/python",
                "facts": {"torch": environment.torch_version, "python": environment.python_version},
            },
        ),
        profile={"fingerprint": "profile", "name": "quiet", "settings": {}},
        harness="harness-1f3a",
        harness_path="harness.zip",
        user_version="",
        timing={},
        device="cpu",
        budget_seconds=60.0,
        planned=((MLP, environment.fingerprint, 0), (MLP, environment.fingerprint, 1)),
    )
    with journal.Journal(folder / header.run) as written_to:
        written_to.header(header.to_body())
        for replicate in range(2):
            values = {"latency": 2.0 + replicate}
            written_to.outcome(Outcome(MLP, environment.fingerprint, replicate, "ok", metrics=values))
    path = folder / header.run / journal.FILE
    path.write_bytes(path.read_bytes()[: -cut or None])
    return path


@pytest.mark.parametrize("pick", [lambda path: path, lambda path: path.parent], ids=["journal", "folder"])
def test_a_journal_of_another_machine_goes_in_as_one_of_ours(
    tmp_path: Path, sqlite: Database, pick: Callable[[Path], Path]
) -> None:
    path = a_journal(tmp_path)
    arrived = read(pick(path), sqlite)
    assert arrived == Arrived("journal", Amount(1, 2, 1), Amount(1, 2, 1))
    assert read(pick(path), sqlite).new == NOTHING
    (summary,) = queries.recent_runs(sqlite)
    assert (summary.id, summary.machine, summary.state) == (path.parent.name, "bench-2", "complete")
    # How much of it is stored, and where, is for its own machine to remember.
    assert [each.name for each in path.parent.iterdir()] == [journal.FILE]


def test_a_torn_journal_goes_in_as_far_as_it_can_be_read(tmp_path: Path, sqlite: Database) -> None:
    path = a_journal(tmp_path, cut=20)
    arrived = read(path, sqlite)
    assert arrived.new == Amount(1, 1, 1)
    assert arrived.set_aside == (Problem(Place(journal.FILE, 3), "torn or not a journal line"),)
    assert queries.recent_runs(sqlite)[0].state == "interrupted"
    assert read(a_journal(tmp_path / "whole"), sqlite).new == Amount(0, 1, 0)
    assert queries.recent_runs(sqlite)[0].state == "complete"


def test_a_journal_without_a_header_is_refused_in_a_sentence(tmp_path: Path, sqlite: Database) -> None:
    path = a_journal(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"run":"2026', b'"run":"2025'))
    with pytest.raises(BadFile, match=r"^journal\.jsonl: has no readable header$"):
        read(path, sqlite)
    with pytest.raises(BadFile, match=r"is no journal\.jsonl, and no folder of a run"):
        read(written(tmp_path, SAMPLES["asv"]), sqlite, name="journal")


def test_a_journal_that_is_being_written_is_left_alone(tmp_path: Path, sqlite: Database) -> None:
    path = a_journal(tmp_path)
    with journal.Journal(path.parent), pytest.raises(BadFile, match="a run is writing it just now"):
        read(path, sqlite)


def test_a_folder_is_read_file_by_file_and_what_is_one_thing_as_one(tmp_path: Path) -> None:
    written(tmp_path, SAMPLES["asv"])
    written(tmp_path / "more", SAMPLES["timm-csv"])
    run = a_journal(tmp_path / "runs").parent
    (tmp_path / "notes.txt").write_text("nothing to read here")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = list(files(tmp_path))
    table = tmp_path / "more" / SAMPLES["timm-csv"][1]
    assert found == [table, tmp_path / "notes.txt", tmp_path / "results", run]
    assert list(files(table)) == [table]


def test_two_files_that_differ_in_what_they_measured_share_no_series(
    tmp_path: Path, sqlite: Database
) -> None:
    read(written(tmp_path, of_json("metrics-20240307222831.json", TORCHBENCH)), sqlite)
    read(written(tmp_path, of_json("steps.json", PYTEST)), sqlite)
    keys = [key for key in queries.series_keys(sqlite) if key.metric == "latency"]
    assert len({(key.case, key.hardware, key.profile) for key in keys}) == len(keys) == 2
    assert {key.profile_name for key in keys} == {"torchbench", "pytest-benchmark"}


def test_every_number_comes_back_to_the_bit(tmp_path: Path, sqlite: Database) -> None:
    value = 0.1 + 0.2
    document = json.loads(json.dumps(TORCHBENCH))
    (key, *_) = document["metrics"]
    document["metrics"][key] = value
    read(written(tmp_path, of_json("metrics-20240307222831.json", document)), sqlite)
    points: list[Measurement] = queries.measurements_of_run(sqlite, queries.recent_runs(sqlite)[0].id)
    assert [each.point for each in points if each.metric == "latency"] == [value]
