"""From strangers' files to the database: once, each run whole or not at all, nothing overwritten."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from db.connection.engine import Database, open_database
from db.runs import queries, series_queries
from db.runs.metric_definitions import metric_definitions, save_metrics
from db.schema import core_tables as tables
from interchange.errors import SourcePlace
from interchange.runs import ImportBatch, ImportedRun
from records.outcomes import Measurement, MetricDefinition
from records.runs import Run
from support.builders.exports import file_of
from support.builders.foreign_files import PYTEST, SAMPLES, TORCHBENCH, of_json, written
from support.builders.run_records import (
    BERT,
    MLP,
    a_machine,
    a_run,
    an_environment,
    an_outcome,
    measurements_for,
)
from support.servers.databases import on_both
from support.sqlite_files import sqlite_with_tables
from workflows.database_upkeep import check
from workflows.transfer import export_runs
from workflows.transfer.import_runs import Amount, ChangedRun, ImportSummary, import_path, keep

NOTHING = Amount()
SPEED = MetricDefinition("tool.speed", "Speed", "x", "higher")


def everything(database: Database) -> list[Any]:
    """The answers of all queries about every run."""
    runs = queries.recent_runs(database, limit=1000)
    parts = (queries.run_record, queries.outcomes_of_run, queries.measurements_of_run)
    answers = [ask(database, run.id) for run in runs for ask in parts]
    return [runs, answers, series_queries.series_keys(database), metric_definitions(database)]


def read(path: Path, database: Database | None, **how: Any) -> ImportSummary:
    return import_path(path, how.pop("name", None), database, lambda stored: None, **how)


def kept(
    database: Database | None, *runs: ImportedRun, metrics: Sequence[MetricDefinition] = ()
) -> ImportSummary:
    imported = ImportBatch("tool", runs, tuple(metrics))
    return keep("tool", [imported], SourcePlace("file.json"), database, lambda stored: None)


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


@on_both
def test_a_dated_table_that_has_grown_adds_its_new_rows(tmp_path: Path, database: Database) -> None:
    (content,) = SAMPLES["dynamo-csv"][0].values()
    table = tmp_path / "inductor_torchbench_performance_cuda_performance_20240307.csv"
    table.write_bytes(content)
    first = read(table, database)
    table.write_bytes(content + b"cuda,vgg16,8,1.5,12.5,20.5\n")
    grown = read(table, database)
    assert (first.new.runs, grown.new) == (1, Amount(0, 1, 3)) and grown.set_aside == ()
    (run,) = queries.recent_runs(database)
    assert [each.run for each in grown.changed] == [run.id]
    assert (run.counts, run.planned) == ({"ok": 2}, 2)
    stored = {each.case.partition("/")[0]: each for each in queries.outcomes_of_run(database, run.id)}
    assert stored["resnet50"].metrics["dynamo.speedup"] == 1.1437
    assert stored["vgg16"].metrics["dynamo.speedup"] == 1.5


@pytest.mark.parametrize(
    ("name", "header", "row", "metric"),
    [
        (
            "inductor_torchbench_20240307.csv",
            "dev,name,batch_size,speedup",
            "cuda,vgg16,8,1.5",
            "dynamo.speedup",
        ),
        ("timm_20240307.csv", "model,infer_samples_per_sec", "vgg16,512.5", "timm.infer_samples_per_sec"),
    ],
)
def test_of_a_number_that_is_half_written_the_whole_one_is_stored(
    tmp_path: Path, sqlite: Database, name: str, header: str, row: str, metric: str
) -> None:
    table = tmp_path / name
    whole = f"{header}\n{row.replace('vgg16', 'resnet50')}\n{row}\n"
    table.write_text(whole.removesuffix(".5\n"))
    (half,) = read(table, sqlite).set_aside
    assert "has no end of line" in half.sentence
    table.write_text(whole)
    assert read(table, sqlite).set_aside == ()
    (run,) = queries.recent_runs(sqlite)
    outcomes = queries.outcomes_of_run(sqlite, run.id)
    assert [each.metrics[metric] for each in outcomes] == [float(row.rpartition(",")[2])] * 2


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["timm-csv", "dynamo-csv"])
def test_a_table_without_a_time_whose_last_line_is_ended_later_is_the_same_run(
    tmp_path: Path, sqlite: Database, name: str, ends: str
) -> None:
    table = written(tmp_path, SAMPLES[name])
    whole = table.read_text().replace("\n", ends)
    rows = whole.count(ends) - 1
    more = whole + whole.splitlines()[-1].replace("resnet50", "vgg16")
    table.write_bytes(more.encode())
    (half,) = read(table, sqlite).set_aside
    assert "has no end of line" in half.sentence
    table.write_bytes((more + ends).encode())
    added = read(table, sqlite)
    assert (added.new.runs, added.new.outcomes, added.set_aside) == (0, 1, ())
    (run,) = queries.recent_runs(sqlite)
    assert (run.counts, run.planned) == ({"ok": rows + 1}, rows + 1)


@pytest.mark.parametrize("name", ["pyrometer", "torchbench", "asv"])
def test_a_dry_run_tells_the_same_and_keeps_nothing(tmp_path: Path, sqlite: Database, name: str) -> None:
    path = written(tmp_path, SAMPLES[name])
    nothing = everything(sqlite)
    dry_run_result = read(path, sqlite, dry_run=True)
    assert everything(sqlite) == nothing
    assert dry_run_result == read(path, None) == read(path, sqlite)
    assert read(path, sqlite, dry_run=True).new == NOTHING


@on_both
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
        ImportBatch("tool", (ImportedRun(whole.run, (outcome,), (measurement,)),))
        for outcome, measurement in zip(whole.outcomes, whole.measurements, strict=True)
    ]
    outcome = replace(whole.outcomes[1], environment="of-no-run")
    broken = [pieces[0], ImportBatch("tool", (ImportedRun(whole.run, (outcome,), ()),))]
    assert keep("tool", broken, SourcePlace("f"), database, lambda stored: None).held == NOTHING
    assert not queries.run_ids(database)
    assert keep("tool", pieces, SourcePlace("f"), database, lambda stored: None).new == Amount(1, 2, 2)
    assert len(queries.measurements_of_run(database, whole.run.id)) == 2


@on_both
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


def definition_of(name: str) -> MetricDefinition:
    return MetricDefinition(name, name.title(), "kB/s", "higher")


def export_of(database: Database) -> bytes:
    sink = io.BytesIO()
    export_runs.export(
        database,
        export_runs.all_run_ids(database),
        sink,
        form="pyrometer",
        progress=lambda _: None,
        note=pytest.fail,
    )
    return sink.getvalue()


def test_every_run_of_an_export_brings_its_definitions(
    tmp_path: Path, sqlite: Database, database: Database
) -> None:
    runs = [
        a_foreign_run(f"2026090{day}-020000-tool-0123abcd", **{f"tool.m{day}": 1.0, "tool.all": 2.0})
        for day in range(1, 6)
    ]
    defined = {name: definition_of(name) for name in ("tool.all", *(f"tool.m{day}" for day in range(1, 6)))}
    kept(sqlite, *runs, metrics=list(defined.values()))
    first = export_of(sqlite)
    path = tmp_path / "runs.jsonl"
    path.write_bytes(first)
    assert read(path, database, dry_run=True) == read(path, None)
    arrived = read(path, database)
    assert (arrived.new, arrived.set_aside) == (Amount(5, 5, 10), ())
    assert metric_definitions(database) == defined
    assert export_of(database).splitlines()[:-1] == first.splitlines()[:-1]
    assert read(path, database).new == NOTHING
    # Of a store that forgot some, the same file is the mend.
    with database.writing() as connection:
        connection.execute(delete(tables.MetricRow).where(tables.MetricRow.name != "tool.m3"))
    found = {each.name: each for each in check(database, tmp_path)}["metrics"]
    assert [problem.sentence for problem in found.problems] == [
        f"Metric {name} has 1 series and no known unit." for name in sorted(defined) if name != "tool.m3"
    ]
    assert read(path, database).new == NOTHING
    assert metric_definitions(database) == defined
    assert all(not each.problems for each in check(database, tmp_path))


def test_definitions_of_a_run_that_is_left_out_go_in_with_the_next(database: Database) -> None:
    bad = a_foreign_run("20260831-020000-tool-0123abcd", **{"tool.one": 2.0})
    bad = replace(bad, outcomes=(replace(bad.outcomes[0], environment="of-no-run"),))
    good = a_foreign_run(**{"tool.one": 2.0, "tool.two": 3.0})
    last = a_foreign_run("20260903-020000-tool-0123abcd", **{"tool.three": 3.0})
    parts = [
        ImportBatch("tool", (bad,), (definition_of("tool.one"),)),
        # Comes after what ends the run, and is not looked at.
        ImportBatch("tool", (bad,), (definition_of("tool.two"),)),
        ImportBatch("tool", (good,)),
        ImportBatch("tool", (last,), (definition_of("tool.three"),)),
    ]
    arrived = keep("tool", parts, SourcePlace("f"), database, lambda stored: None)
    assert arrived.new == Amount(2, 2, 3)
    (problem,) = arrived.set_aside
    assert f"run {bad.run.id} is left out" in problem.sentence
    assert metric_definitions(database) == {
        name: definition_of(name) for name in ("tool.one", "tool.two", "tool.three")
    }


def test_of_a_metric_that_a_file_defines_twice_the_first_meaning_stays(sqlite: Database) -> None:
    runs = [a_foreign_run(f"2026090{day}-020000-tool-0123abcd", **{"tool.speed": 2.0}) for day in (1, 2)]
    other = replace(SPEED, unit="%")
    parts = [ImportBatch("tool", (run,), (each,)) for run, each in zip(runs, (SPEED, other), strict=True)]

    def stored(database: Database | None, dry_run: bool) -> ImportSummary:
        return keep("tool", parts, SourcePlace("f"), database, lambda stored: None, dry_run=dry_run)

    dry, wet = stored(sqlite, True), stored(sqlite, False)
    assert dry == wet and wet.new == Amount(2, 2, 1)
    (problem,) = wet.set_aside
    assert "metric tool.speed is defined twice in the file, with different definitions" in problem.sentence
    assert metric_definitions(sqlite) == {"tool.speed": SPEED}


def test_points_of_undefined_metrics_are_set_aside(tmp_path: Path, sqlite: Database) -> None:
    runs = [
        a_foreign_run(f"2026090{day}-020000-tool-0123abcd", **{"tool.speed": 2.0, "latency": 3.0})
        for day in (1, 2)
    ]
    kept(sqlite, *runs, metrics=[SPEED])
    path = tmp_path / "runs.jsonl"
    path.write_bytes(export_of(sqlite).replace(b'"title":"Speed"', b'"title":"Spaed"'))
    with open_database(sqlite_with_tables(tmp_path / "other.db")) as other:
        arrived = read(path, other)
        assert arrived.new == Amount(2, 2, 2)
        damaged, *reasons = (problem.sentence for problem in arrived.set_aside)
        assert "checksum" in damaged and reasons and all("tool.speed" in reason for reason in reasons)
        assert {key.metric for key in series_queries.series_keys(other)} == {"latency"}
        assert dict(queries.outcomes_of_run(other, runs[0].run.id)[0].metrics) == {"latency": 3.0}
        # What it means here says nothing of what it meant there.
        save_metrics(other, [SPEED])
        assert read(path, other).new == NOTHING
    with open_database(sqlite_with_tables(tmp_path / "third.db")) as third:
        arrived = kept(third, *runs)
        assert [problem.sentence for problem in arrived.set_aside] == [
            "metric tool.speed is not defined in the file or here; its points are left out"
        ]
        assert {key.metric for key in series_queries.series_keys(third)} == {"latency"}


def test_one_of_our_own_metrics_is_not_defined_anew(sqlite: Database) -> None:
    arrived = kept(sqlite, a_foreign_run(), metrics=[MetricDefinition("latency", "Latency", "s", "lower")])
    assert arrived.new == Amount(1, 1, 0)
    (problem,) = arrived.set_aside
    assert "latency is a metric of Pyrometer, in ms" in problem.sentence


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
        f"latency of {MLP} is stored as 2.0 and here as 9.0; the first is kept",
        f"{BERT} is stored as ok and here as crashed; the first is kept",
    }


def test_a_second_file_of_the_same_run_adds_to_it(sqlite: Database) -> None:
    kept(sqlite, a_foreign_run())
    arrived = kept(sqlite, a_foreign_run(cases=(BERT,)))
    assert arrived.new == Amount(0, 1, 1)
    (summary,) = queries.recent_runs(sqlite)
    assert (summary.planned, summary.counts) == (2, {"ok": 2})


def test_facts_too_large_to_show_are_left_out_with_their_run(sqlite: Database) -> None:
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
    assert numbers(sqlite, run) == [(3.0, 2.0, 4.0, 3)]
    # The older file has fewer, and changes nothing.
    assert kept(sqlite, first).new == NOTHING
    assert numbers(sqlite, run) == [(3.0, 2.0, 4.0, 3)]


def numbers(database: Database, run: Run) -> list[tuple[float, float, float, int]]:
    """Point, range and processes of each measurement of a run."""
    stored = queries.measurements_of_run(database, run.id)
    return [(each.point, each.smallest, each.largest, each.n) for each in stored]


def test_a_file_changes_no_number_of_a_run_that_was_measured_locally(sqlite: Database) -> None:
    outcomes = [an_outcome(replicate=number, metrics={"latency": 2.0}, blocks=()) for number in range(2)]
    run = a_run("20260901-020000-1f3a", planned=2, notes=("mine",))
    kept(sqlite, ImportedRun(run, tuple(outcomes), tuple(measurements_for(outcomes))))
    changed = [replace(outcomes[0], metrics={"latency": 50.0}), *outcomes[1:]]
    lies = [replace(each, point=1.0, smallest=0.5, n=5) for each in measurements_for(outcomes)]
    theirs = replace(run, notes=("theirs",), facts={"imported_from": "x"})
    arrived = kept(sqlite, ImportedRun(theirs, tuple(changed), tuple(lies)))
    assert arrived.new == NOTHING and queries.run_record(sqlite, run.id) == run
    assert numbers(sqlite, run) == [(2.0, 2.0, 2.0, 2)]
    problem, facts = arrived.set_aside
    assert "latency of " in problem.sentence and "stored as 2.0 and here as 50.0" in problem.sentence
    assert "imported_from" in facts.sentence
    # With more processes than are stored: the run is complete without them.
    more = [an_outcome(replicate=number, metrics={"latency": 4.0}, blocks=()) for number in range(2, 4)]
    arrived = kept(sqlite, ImportedRun(theirs, (*outcomes, *more), tuple(lies)))
    assert (arrived.new, arrived.changed) == (NOTHING, ())
    assert "the run is complete without 2 outcomes of the file" in arrived.set_aside[0].sentence
    assert numbers(sqlite, run) == [(2.0, 2.0, 2.0, 2)] and queries.run_record(sqlite, run.id) == run


def test_of_an_interrupted_run_the_planned_processes_count_and_no_more(sqlite: Database) -> None:
    outcomes = [an_outcome(replicate=number, metrics={"latency": 2.0}, blocks=()) for number in range(2)]
    run = a_run("20260901-020000-1f3a", planned=4, state="interrupted", notes=("mine",))
    kept(sqlite, ImportedRun(run, tuple(outcomes), tuple(measurements_for(outcomes))))
    lies = [replace(each, point=1.0, smallest=0.5, n=5) for each in measurements_for(outcomes)]
    theirs = replace(run, notes=("theirs",), facts={"imported_from": "x"})
    more = [an_outcome(replicate=number, metrics={"latency": 4.0}, blocks=()) for number in range(2, 5)]
    arrived = kept(sqlite, ImportedRun(replace(theirs, planned=5), (*outcomes, *more), tuple(lies)))
    assert (arrived.new, arrived.changed) == (NOTHING, ())
    assert [
        word in each.sentence
        for word, each in zip(
            ("planned 4 outcomes", "planned", "imported_from"), arrived.set_aside, strict=True
        )
    ] == [True] * 3
    arrived = kept(sqlite, ImportedRun(theirs, (*outcomes, *more[:2]), tuple(lies)))
    assert arrived.changed == (ChangedRun(run.id, Amount(0, 2, 1)),)
    # The numbers are those of the processes.
    assert numbers(sqlite, run) == [(3.0, 2.0, 4.0, 4)]
    stored = queries.run_record(sqlite, run.id)
    assert stored and (stored.notes, stored.facts) == (("mine", "theirs"), run.facts)


def test_another_run_of_the_same_name_is_left_out(sqlite: Database) -> None:
    mine, theirs = a_foreign_run("20260901-020000-1f3a"), a_foreign_run("20260901-020000-1f3a", latency=0.1)
    kept(sqlite, mine)
    other = replace(theirs.run, machine=a_machine("other-box", hardware="8 x H200"))
    more = (an_outcome(replicate=1, metrics={"latency": 0.1}, blocks=()),)
    arrived = kept(sqlite, replace(theirs, run=other, outcomes=more, measurements=()))
    assert "is stored with another machine and another hardware" in arrived.set_aside[0].sentence
    assert numbers(sqlite, mine.run) == [(2.0, 2.0, 2.0, 1)]


def test_two_files_that_differ_in_what_they_measured_share_no_series(
    tmp_path: Path, sqlite: Database
) -> None:
    read(written(tmp_path, of_json("metrics-20240307222831.json", TORCHBENCH)), sqlite)
    read(written(tmp_path, of_json("steps.json", PYTEST)), sqlite)
    keys = [key for key in series_queries.series_keys(sqlite) if key.metric == "latency"]
    assert len({(key.case, key.hardware, key.preset) for key in keys}) == len(keys) == 2
    assert {key.preset_name for key in keys} == {"torchbench", "pytest-benchmark"}


def test_every_number_comes_back_to_the_bit(tmp_path: Path, sqlite: Database) -> None:
    value = 0.1 + 0.2
    document = json.loads(json.dumps(TORCHBENCH))
    (key, *_) = document["metrics"]
    document["metrics"][key] = value
    read(written(tmp_path, of_json("metrics-20240307222831.json", document)), sqlite)
    points: list[Measurement] = queries.measurements_of_run(sqlite, queries.recent_runs(sqlite)[0].id)
    assert [each.point for each in points if each.metric == "latency"] == [value]


def test_an_import_that_is_refused_half_way_counts_what_it_stored(tmp_path: Path, sqlite: Database) -> None:
    several = [a_run(f"2026090{day}-020000-1f3a") for day in range(1, 5)]
    outcomes = (an_outcome(metrics={"latency": 2.0}, blocks=()),)
    runs = [ImportedRun(replace(each, planned=1), outcomes, ()) for each in several]
    path = tmp_path / "runs.jsonl"
    path.write_bytes(file_of(*runs, definitions={}) + b"\n" * (2 << 20))
    arrived = read(path, sqlite)
    assert arrived.new.runs == arrived.held.runs == len(queries.run_ids(sqlite)) == 2
    assert "blank lines; the rest of the file is not read" in arrived.set_aside[-1].sentence
