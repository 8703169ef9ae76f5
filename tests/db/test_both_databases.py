"""One contract, two databases: every public function that takes a database answers alike on both."""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from builders import (
    MLP,
    RESNET,
    a_machine,
    a_night,
    a_recording,
    a_run,
    an_environment,
    an_outcome,
    measurements_for,
)
from postgres_server import PostgresServer

import db
from db import (
    check,
    check_runs,
    metrics,
    prune,
    queries,
    replicates,
    rollups,
    store,
    telemetry,
    together,
    traces,
)
from db.engine import Database, open_database
from db.records import MetricDefinition

OLD, NEW = an_environment("2.9.1+cpu"), an_environment("2.10.0+cpu")


def _fill(database: Database) -> None:
    """Three nights on two machines, traces, telemetry, failures, a metric from outside."""
    for night in range(3):
        outcomes = [
            an_outcome(
                case,
                environment=environment,
                replicate=replicate,
                latency=1 + night + replicate / 3,
                telemetry=[a_recording()] if night else [],
                started_at=a_night(night),
            )
            for case in (MLP, RESNET)
            for environment in (OLD, NEW)
            for replicate in range(2)
        ]
        outcomes[-1] = an_outcome(RESNET, environment=NEW, replicate=1, status="crashed", reason="signal 9")
        run = a_run(
            f"night-{night}",
            environments=[OLD, NEW],
            started_at=a_night(night),
            machine=a_machine("other" if night % 2 else "bench-1"),
        )
        store.save_run(database, run)
        assert store.save_outcomes(database, run.id, outcomes) == 8
        store.save_measurements(database, run.id, measurements_for(outcomes))
    store.save_run(database, a_run("traced", suite=traces.SUITE, started_at=a_night(3)))
    facts = {"operators": [{"name": "aten::mm", "calls": 3}], "device": "cpu"}
    store.save_outcomes(database, "traced", [an_outcome(MLP, metrics={}, facts=facts, blocks=())])
    metrics.save_metrics(database, [MetricDefinition("dynamo.speedup", "Speed-up", "x", "higher")])


def _latency(database: Database) -> list[Any]:
    return [key for key in queries.series_keys(database) if key.metric == "latency"]


def _in_one(database: Database) -> int:
    with together.together(database) as one:
        store.save_run(one, a_run("night-2", environments=[OLD, NEW], started_at=a_night(2)))
        return queries.count_runs(one)


_OUTCOME = ("night-2", MLP, NEW.fingerprint, 0)

#: How each function is called; the last ones delete. An answer that is not empty tells more.
CALLS: dict[Callable[..., Any], Callable[[Database], Any]] = {
    store.save_run: lambda database: store.save_run(database, a_run("more", started_at=a_night(4))),
    store.save_outcomes: lambda database: store.save_outcomes(database, "more", [an_outcome(), an_outcome()]),
    store.save_measurements: lambda database: store.save_measurements(
        database, "more", measurements_for([an_outcome()])
    ),
    metrics.save_metrics: lambda database: metrics.save_metrics(
        database, [MetricDefinition("dynamo.graphs", "Graphs", "", "neither")]
    ),
    metrics.metric_definitions: metrics.metric_definitions,
    queries.recent_runs: lambda database: queries.recent_runs(database, limit=3, offset=1),
    queries.count_runs: queries.count_runs,
    queries.run_summary: lambda database: queries.run_summary(database, "night-2"),
    queries.run_ids: queries.run_ids,
    queries.latest_run_id: queries.latest_run_id,
    queries.run_record: lambda database: queries.run_record(database, "night-2"),
    queries.outcomes_of_run: lambda database: queries.outcomes_of_run(database, "night-2"),
    queries.samples: lambda database: queries.samples(database, *_OUTCOME),
    queries.measurements_of_run: lambda database: queries.measurements_of_run(database, "night-2"),
    queries.series_keys: queries.series_keys,
    queries.series: lambda database: queries.series(database, _latency(database), newest=2),
    queries.headlines: lambda database: queries.headlines(database, "latency"),
    replicates.replicates_of_run: lambda database: replicates.replicates_of_run(database, "night-2"),
    replicates.stored_outcomes: replicates.stored_outcomes,
    rollups.releases: rollups.releases,
    rollups.release_points: lambda database: rollups.release_points(
        database, rollups.releases(database), "latency"
    ),
    rollups.rebuild_rollups: rollups.rebuild_rollups,
    rollups.rollup_differences: lambda database: [rollups.rollup_differences(database)],
    telemetry.windows: lambda database: telemetry.windows(database, case=MLP, limit=5),
    telemetry.recording: lambda database: telemetry.recording(database, *_OUTCOME, "host"),
    together.together: _in_one,
    traces.operator_tables: lambda database: traces.operator_tables(
        database, workload=MLP.rpartition("/")[0]
    ),
    check.schema_check: check.schema_check,
    # Pages of a file: Postgres has none to look at.
    check.file_check: lambda database: check.file_check(database).problems == (),
    check.reference_check: check.reference_check,
    check.count_check: check.count_check,
    check.point_check: check.point_check,
    check.metric_check: lambda database: check.metric_check(database, {"latency"}),
    check.rollup_check: check.rollup_check,
    check_runs.measurement_check: lambda database: check_runs.measurement_check(database, measurements_for),
    check_runs.sample_check: check_runs.sample_check,
    check_runs.telemetry_check: check_runs.telemetry_check,
    prune.prune_samples: lambda database: prune.prune_samples(database, a_night(1)),
    prune.prune_telemetry: lambda database: prune.prune_telemetry(database, a_night(2)),
}
WRITERS = {store.save_run, store.save_measurements, metrics.save_metrics}


def _contract() -> set[Callable[..., Any]]:
    """Every public function of the room whose first parameter is a database."""
    found: set[Callable[..., Any]] = set()
    for module in pkgutil.iter_modules(db.__path__, "db."):
        for name, function in inspect.getmembers(importlib.import_module(module.name), inspect.isfunction):
            parameters = list(inspect.signature(function).parameters.values())
            mine = function.__module__ == module.name and not name.startswith("_")
            if mine and parameters and parameters[0].annotation is Database:
                found.add(function)
    return found


def test_no_function_is_left_out() -> None:
    assert {each.__qualname__ for each in _contract()} == {each.__qualname__ for each in CALLS}


@pytest.fixture(scope="module")
def both(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Database]]:
    file: Path = tmp_path_factory.mktemp("both") / "pyrometer.db"
    opened = [open_database(url) for url in (f"sqlite:///{file}", postgres.new_database("template0"))]
    for database in opened:
        _fill(database)
    yield opened
    for database in opened:
        database.close()


@pytest.mark.postgres
@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_both_databases_answer_alike(both: list[Database], function: Callable[..., Any]) -> None:
    called: set[CodeType] = set()
    sys.setprofile(lambda frame, *_: called.add(frame.f_code))
    try:
        sqlite, postgres = (CALLS[function](database) for database in both)
    finally:
        sys.setprofile(None)
    assert inspect.unwrap(function).__code__ in called, "CALLS has something else under this name"
    assert sqlite == postgres
    assert sqlite or function in WRITERS, "an empty answer proves nothing"
