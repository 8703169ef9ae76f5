"""What is written is read back the same, and writing it again changes nothing."""

import math
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import func, select

from db.connection.engine import Database, open_database
from db.errors import DatabaseError, SchemaTooNew
from db.runs import metric_definitions, queries, series_queries, store
from db.runs.fingerprints import save_fingerprints
from db.schema import core_tables as tables
from records.outcomes import Measurement, MetricDefinition, Outcome, OutcomeStatus
from support.builders.run_records import (
    BERT,
    MLP,
    RESNET,
    a_case_fingerprint,
    a_machine,
    a_night,
    a_preset,
    a_recording,
    a_run,
    an_environment,
    an_outcome,
    fingerprint_conditions,
    measurements_for,
)
from support.builders.stored_run import store_run


def _everything(database: Database) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table that measuring fills."""
    ours = {
        each.local_table for each in tables.Base.registry.mappers if each.class_.__module__ == tables.__name__
    }
    with database.reading() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
            for table in tables.Base.metadata.sorted_tables
            if table in ours
        }


def _counts(database: Database, run_id: str) -> Mapping[str, int] | None:
    found = queries.run_summary(database, run_id)
    return found and found.counts


def _without_blocks(outcomes: list[Outcome]) -> list[Outcome]:
    return [replace(each, blocks=()) for each in outcomes]


def _full_run(database: Database) -> None:
    old, new = an_environment("2.12.1+cpu"), an_environment("2.13.0+cpu")
    outcomes = [
        an_outcome(
            case,
            environment=environment,
            replicate=replicate,
            latency=2 + replicate / 10,
            telemetry=[] if replicate else [a_recording(), a_recording("GPU-1", utilisation_source="gpm")],
        )
        for case in (MLP, RESNET)
        for environment in (old, new)
        for replicate in range(2)
    ]
    store_run(database, a_run(environments=[old, new]), outcomes)
    metric_definitions.save_metrics(database, [MetricDefinition("dynamo.speedup", "Speed-up", "x", "higher")])
    save_fingerprints(database, fingerprint_conditions(), [a_case_fingerprint(MLP)])


def test_storing_everything_twice_changes_nothing(database: Database) -> None:
    _full_run(database)
    once = _everything(database)
    _full_run(database)
    assert _everything(database) == once
    empty = [name for name, rows in once.items() if not rows]
    assert not empty, "a table that nothing was written to proves nothing"


def test_a_run_comes_back_as_it_was_given(database: Database) -> None:
    environments = [an_environment("2.13.0+cpu"), an_environment("2.12.1+cpu")]
    run = a_run(environments=environments, notes=("left out: bert_base, over budget",), planned=7)
    store.save_run(database, run)
    assert queries.run_record(database, "run-1") == run


def test_times_of_any_zone_come_back_as_the_same_moment_in_utc(database: Database) -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    started = datetime(2026, 11, 21, 3, 4, 5, 678901, tzinfo=zone)
    store.save_run(database, a_run(started_at=started))
    found = queries.run_summary(database, "run-1")
    assert found is not None
    assert found.started_at == started
    assert found.started_at.utcoffset() == timedelta(0)


def test_a_time_without_a_zone_is_refused(database: Database) -> None:
    with pytest.raises(DatabaseError, match="no time zone"):
        store.save_run(database, a_run(started_at=datetime(2026, 11, 21)))
    assert queries.count_runs(database) == 0


def test_a_later_record_of_a_run_updates_it(database: Database) -> None:
    store.save_run(database, a_run(state="running"))
    done = a_run(state="complete", planned=5, notes=("one left out",))
    store.save_run(database, done)
    assert queries.run_record(database, "run-1") == done


def test_an_interrupted_run_can_be_taken_up_again(database: Database) -> None:
    store.save_run(database, a_run(state="interrupted"))
    store.save_run(database, a_run(state="running"))
    assert queries.run_record(database, "run-1") == a_run(state="running")


@pytest.mark.parametrize("older", ["running", "interrupted"])
def test_a_complete_run_stays_complete(database: Database, older: str) -> None:
    store.save_run(database, a_run(state="complete"))
    store.save_run(database, a_run(state=older, planned=99))
    assert queries.run_record(database, "run-1") == a_run(state="complete")


def test_an_unknown_state_or_status_is_refused_and_nothing_stays(database: Database) -> None:
    with pytest.raises(DatabaseError, match="refused"):
        store.save_run(database, a_run(state="asleep"))
    assert _everything(database)["machine"] == []
    store.save_run(database, a_run())
    with pytest.raises(DatabaseError, match="refused"):
        store.save_outcomes(database, "run-1", [an_outcome(), an_outcome(RESNET, status="bored")])
    assert queries.outcomes_of_run(database, "run-1") == []


def test_a_status_that_a_newer_pyrometer_stored_is_named(database: Database) -> None:
    store.save_run(database, a_run())
    store.save_outcomes(database, "run-1", [an_outcome()])
    with database.writing() as connection:
        sqlite = connection.dialect.name == "sqlite"
        connection.exec_driver_sql(
            "PRAGMA ignore_check_constraints = ON"
            if sqlite
            else "ALTER TABLE outcome DROP CONSTRAINT ck_outcome_status"
        )
        connection.exec_driver_sql("UPDATE outcome SET status = 'paused'")
    with pytest.raises(SchemaTooNew, match=r"has 'paused'; .* only ok, .* install that version here"):
        queries.outcomes_of_run(database, "run-1")


def test_the_database_takes_every_status_of_the_worker(database: Database) -> None:
    outcomes = [an_outcome(replicate=i, status=status) for i, status in enumerate(OutcomeStatus)]
    store.save_run(database, a_run())
    assert store.save_outcomes(database, "run-1", outcomes) == len(OutcomeStatus)
    assert _counts(database, "run-1") == dict.fromkeys(OutcomeStatus, 1)


def test_outcomes_come_back_as_they_were_given(database: Database) -> None:
    outcomes = [
        an_outcome(MLP, facts={"parameters": 3, "nested": {"warm_up": ["steady", 1.5, None, True]}}),
        an_outcome(
            RESNET, status="crashed", reason="killed by signal 9", phase="warm_up", log_tail="é\n" * 50
        ),
        an_outcome(RESNET, replicate=1, metrics={"latency": 0.1 + 0.2, "recompiles": 0.0}),
    ]
    store.save_run(database, a_run())
    assert store.save_outcomes(database, "run-1", outcomes) == 3
    assert queries.outcomes_of_run(database, "run-1") == _without_blocks(outcomes)


def test_what_a_log_may_hold_and_a_database_refuses_is_replaced(database: Database) -> None:
    store.save_run(database, a_run())
    store.save_outcomes(database, "run-1", [an_outcome(status="crashed", log_tail="a\0b\udc80c")])
    (found,) = queries.outcomes_of_run(database, "run-1")
    assert found.log_tail == "a\N{SYMBOL FOR NULL}b?c"


def test_facts_keep_what_json_databases_refuse(database: Database) -> None:
    store.save_run(database, a_run())
    store.save_outcomes(database, "run-1", [an_outcome(facts={"loss": math.nan, "text": "\0\udc80"})])
    (found,) = queries.outcomes_of_run(database, "run-1")
    assert math.isnan(found.facts["loss"])
    assert found.facts["text"] == "\0\udc80"


def test_samples_come_back_to_the_nanosecond(database: Database) -> None:
    blocks = ((2_000_001, 2_000_000, 9_223_372_036_854_775_807), (1,), ())
    outcome = an_outcome(blocks=blocks)
    store.save_run(database, a_run())
    store.save_outcomes(database, "run-1", [outcome, an_outcome(replicate=1, blocks=())])
    assert queries.samples(database, "run-1", MLP, outcome.environment, 0) == blocks
    assert queries.samples(database, "run-1", MLP, outcome.environment, 1) is None
    assert queries.samples(database, "run-2", MLP, outcome.environment, 0) is None


def test_more_than_goes_into_one_message_comes_back_to_the_last_bit(database: Database) -> None:
    outcomes = [an_outcome(replicate=number, blocks=((number, 2**62),)) for number in range(1203)]
    outcomes[7] = replace(outcomes[7], wall_seconds=3, log_tail='{"quoted": \\N, "NULL", {}}')
    environment = an_environment().fingerprint
    # Whole numbers and none at all among the others: all of a column go to Postgres as one array.
    points = [(5e-324, None), (0.1 + 0.2, 1 / 3), (2, 3), (-(2**60), None), (1.7e308, 1e-300)] * 201
    measured = [
        Measurement(MLP, environment, f"metric_{number}", point, None, high, point, point, high, number)
        for number, (point, high) in enumerate(points)
    ]
    store.save_run(database, a_run())
    assert store.save_outcomes(database, "run-1", outcomes) == 1203
    store.save_measurements(database, "run-1", measured)
    assert queries.outcomes_of_run(database, "run-1") == _without_blocks(outcomes)
    assert queries.samples(database, "run-1", MLP, environment, 1202) == ((1202, 2**62),)
    found = queries.measurements_of_run(database, "run-1")
    assert found == sorted(measured, key=lambda each: each.metric)


def test_of_two_outcomes_of_one_replicate_the_first_stays(database: Database) -> None:
    store.save_run(database, a_run())
    first, second = an_outcome(latency=2.0), an_outcome(status="crashed")
    assert store.save_outcomes(database, "run-1", [first, second]) == 1
    assert store.save_outcomes(database, "run-1", [second]) == 0
    assert queries.outcomes_of_run(database, "run-1") == _without_blocks([first])
    assert queries.samples(database, "run-1", MLP, first.environment, 0) == first.blocks
    assert _counts(database, "run-1") == {"ok": 1}


def test_counts_follow_the_outcomes_and_not_the_run(database: Database) -> None:
    store.save_run(database, a_run(state="running"))
    store.save_outcomes(database, "run-1", [an_outcome(), an_outcome(RESNET, status="oom")])
    store.save_outcomes(database, "run-1", [an_outcome(), an_outcome(BERT)])
    store.save_run(database, a_run(state="complete"))
    assert _counts(database, "run-1") == {"ok": 2, "oom": 1}


def test_measurements_made_again_replace_the_old_ones(database: Database) -> None:
    outcomes = [an_outcome(replicate=i, latency=2 + i) for i in range(3)]
    store.save_run(database, a_run())
    store.save_outcomes(database, "run-1", outcomes)
    store.save_measurements(database, "run-1", measurements_for(outcomes[:1]))
    store.save_measurements(database, "run-1", measurements_for(outcomes))
    found = {each.metric: each for each in queries.measurements_of_run(database, "run-1")}
    assert found == {each.metric: each for each in measurements_for(outcomes)}
    assert found["latency"].n == 3


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_measurement_that_is_no_number_is_refused(database: Database, value: float) -> None:
    store.save_run(database, a_run())
    (good, *_) = measurements_for([an_outcome()])
    with pytest.raises(ValueError, match="latency of mlp_overhead"):
        store.save_measurements(database, "run-1", [good, replace(good, point=value)])
    assert queries.measurements_of_run(database, "run-1") == []


def test_what_belongs_to_nothing_stored_is_refused(database: Database) -> None:
    with pytest.raises(ValueError, match="run run-1 was never stored"):
        store.save_outcomes(database, "run-1", [an_outcome()])
    store.save_run(database, a_run())
    stranger = an_outcome(environment=an_environment("1.0"))
    with pytest.raises(ValueError, match=r"environment-torch-1\.0-1\.0 does not belong"):
        store.save_outcomes(database, "run-1", [an_outcome(), stranger])
    with pytest.raises(ValueError, match="does not belong"):
        store.save_measurements(database, "run-1", measurements_for([stranger]))
    with pytest.raises(ValueError, match="not a case key"):
        store.save_outcomes(database, "run-1", [an_outcome("resnet50")])
    assert queries.outcomes_of_run(database, "run-1") == []
    assert _everything(database)["benchmark_case"] == []


def test_nothing_to_store_is_no_mistake(database: Database) -> None:
    assert store.save_outcomes(database, "run-1", []) == 0
    store.save_measurements(database, "run-1", list[Measurement]())


def test_the_parts_of_a_case_are_stored_with_its_key(database: Database) -> None:
    store.save_run(database, a_run())
    store.save_outcomes(database, "run-1", [an_outcome(BERT), an_outcome("lstm_lm/infer/-/eager")])
    with database.reading() as connection:
        rows = connection.execute(
            select(tables.BenchmarkCaseRow.__table__.c["name", "phase", "parameters", "technique"])
        )
        found = sorted(tuple(row) for row in rows)
    assert found == [
        ("bert_base", "train", {"batch": "4", "length": "128"}, {"precision": "amp-bf16"}),
        ("lstm_lm", "infer", {}, {}),
    ]


def test_writers_at_the_same_time_lose_nothing(url: str) -> None:
    """Several connections store the same new identities and the outcomes of one run, all at once."""

    def write(number: int) -> int:
        with open_database(url, timeout=60) as database:
            own = f"run-{number}"
            for run in (a_run("shared"), a_run(own, started_at=a_night(number))):
                store.save_run(database, run)
            outcomes = [an_outcome(case, replicate=number) for case in (RESNET, MLP, BERT)]
            store.save_measurements(database, own, measurements_for(outcomes))
            return sum(store.save_outcomes(database, "shared", [each, outcomes[0]]) for each in outcomes)

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(write, range(6))) == [3] * 6
    with open_database(url) as database:
        assert _counts(database, "shared") == {"ok": 18}
        assert len(queries.outcomes_of_run(database, "shared")) == 18
        keys = series_queries.series_keys(database)
        assert len(keys) == 9
        assert len(series_queries.series(database, keys)) == 54
        with database.reading() as connection:
            for table in (tables.MachineRow, tables.HardwareRow, tables.EnvironmentRow, tables.PresetRow):
                assert connection.execute(select(func.count()).select_from(table)).scalar_one() == 1


def test_hardware_and_presets_keep_series_apart(database: Database) -> None:
    variants = [
        a_run("a"),
        a_run("b", machine=a_machine("bench-2")),
        a_run("c", machine=a_machine("gpu-1", hardware="8 x H200")),
        a_run("d", preset=a_preset("as-it-comes")),
    ]
    for run in variants:
        store.save_run(database, run)
        store.save_measurements(database, run.id, measurements_for([an_outcome(metrics={"latency": 2.0})]))
    keys = series_queries.series_keys(database)
    points = {(key.hardware_label, key.preset_name): series_queries.series(database, [key]) for key in keys}
    assert {name: [point.run for point in found] for name, found in points.items()} == {
        ("8 x H200", "quiet"): ["c"],
        ("Xeon 6430, 2 cores", "as-it-comes"): ["d"],
        ("Xeon 6430, 2 cores", "quiet"): ["a", "b"],
    }
    assert len(keys) == 3


def test_a_host_measured_with_other_hardware_has_series_of_its_own(database: Database) -> None:
    """With and without its GPUs, on fewer CPUs, with a card exchanged: one machine, nothing to compare."""
    for night, hardware in enumerate(("Xeon 6430, 2 cores", "8 x H200")):
        run = a_run(f"night-{night}", machine=a_machine(hardware=hardware), started_at=a_night(night))
        store.save_run(database, run)
        outcomes = [an_outcome(metrics={"latency": 2.0 / 1000**night})]
        store.save_outcomes(database, run.id, outcomes)
        store.save_measurements(database, run.id, measurements_for(outcomes))
        assert queries.run_record(database, run.id) == run
    assert [run.hardware for run in queries.recent_runs(database)] == ["8 x H200", "Xeon 6430, 2 cores"]
    headlines = series_queries.headlines(database, "latency")
    assert sorted((each.key.hardware_label, each.latest.point, each.previous) for each in headlines) == [
        ("8 x H200", 0.002, None),
        ("Xeon 6430, 2 cores", 2.0, None),
    ]


@pytest.mark.parametrize(
    ("otherwise", "what"),
    [
        ({"machine": a_machine("bench-2")}, "machine"),
        ({"machine": a_machine(hardware="8 x H200")}, "hardware"),
        ({"started_at": a_night(7)}, "start"),
        ({"suite": "another"}, "suite"),
        ({"harness": "another"}, "harness"),
        ({"preset": a_preset("loud"), "suite": "another"}, "suite and another preset"),
    ],
)
def test_two_runs_of_one_name_are_never_merged(
    database: Database, otherwise: dict[str, Any], what: str
) -> None:
    store.save_run(database, a_run("night"))
    with pytest.raises(ValueError, match=f"run night is stored with another {what}$"):
        store.save_run(database, replace(a_run("night"), notes=("not mine",), **otherwise))
    assert queries.run_record(database, "night") == a_run("night")


@pytest.mark.parametrize(
    ("otherwise", "what"),
    [
        (
            {"environments": (replace(an_environment(), torch_version="2.99"),)},
            "environment .* torch version",
        ),
        (
            {"environments": (replace(an_environment(), python_version="3.9"),)},
            "environment .* python version",
        ),
        ({"preset": replace(a_preset(), settings={"threads": 64})}, "preset .* settings"),
    ],
)
def test_a_fingerprint_that_stands_for_something_else_is_refused(
    database: Database, otherwise: dict[str, Any], what: str
) -> None:
    store.save_run(database, a_run("mine"))
    with pytest.raises(ValueError, match=what):
        store.save_run(database, replace(a_run("strange"), **otherwise))
    assert queries.run_ids(database) == {"mine"}


def test_records_need_no_sqlalchemy() -> None:
    """Importing records and errors does not load the database's libraries."""
    code = "import sys, records.runs, db.errors; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
