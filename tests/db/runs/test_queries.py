"""Every question gets its own rows, in a stated order, however the runs arrived."""

import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Cursor
from sqlalchemy import event

from db.connection.engine import Database
from db.runs import environments_in_use, queries, series_queries, store, traces
from db.runs import releases as runs_releases
from db.telemetry import queries as telemetry
from records.environments import Environment
from records.runs import RunSummary
from records.series import SeriesKey, SeriesOnly, SeriesPoint
from support.builders.run_records import (
    BERT,
    FIRST_NIGHT,
    MLP,
    RESNET,
    RESNET_COMPILED,
    a_machine,
    a_night,
    a_preset,
    a_recording,
    a_run,
    an_environment,
    an_outcome,
    measurements_for,
)
from support.builders.stored_run import store_run


def _night(
    database: Database,
    number: int,
    latency: float,
    *,
    torch_version: str = "2.13.0+cpu",
    cases: Sequence[str] = (MLP,),
) -> None:
    environment = an_environment(torch_version)
    run = a_run(f"night-{number}", environments=[environment], started_at=a_night(number))
    outcomes = [
        an_outcome(case, environment=environment, replicate=replicate, latency=latency + replicate / 4)
        for case in cases
        for replicate in range(3)
    ]
    store_run(database, run, outcomes)


def _comparison(database: Database, number: int, environments: Sequence[Environment]) -> None:
    """A run of several environments; each is as many milliseconds fast as its place in the list."""
    run = a_run(f"night-{number}", environments=environments, started_at=a_night(number))
    outcomes = [
        an_outcome(MLP, environment=environment, latency=float(place))
        for place, environment in enumerate(environments, start=1)
    ]
    store.save_run(database, run)
    store.save_measurements(database, run.id, measurements_for(outcomes))


def _key(database: Database, case: str, metric: str = "latency") -> SeriesKey:
    (found,) = [
        key for key in series_queries.series_keys(database) if (key.case, key.metric) == (case, metric)
    ]
    return found


def test_an_empty_database_answers_every_question(database: Database) -> None:
    nowhere = SeriesKey(MLP, "latency", "hardware", "", "profile", "")
    assert queries.recent_runs(database) == []
    assert queries.count_runs(database) == 0
    assert queries.run_summary(database, "run-1") is None
    assert queries.latest_run_id(database) is None
    assert queries.run_record(database, "run-1") is None
    assert queries.outcomes_of_run(database, "run-1") == []
    assert queries.samples(database, "run-1", MLP, "environment", 0) is None
    assert queries.measurements_of_run(database, "run-1") == []
    assert series_queries.series_keys(database) == []
    assert series_queries.series(database, []) == []
    assert series_queries.series(database, [nowhere]) == []
    assert series_queries.headlines(database, "latency") == []


def test_series_are_listed_by_case_metric_hardware_and_preset(database: Database) -> None:
    for number, preset in enumerate((a_preset(), replace(a_preset(), fingerprint="other"))):
        outcomes = [an_outcome(case) for case in (MLP, RESNET)]
        run = replace(a_run(f"run-{number}"), preset=preset)
        store.save_run(database, run)
        store.save_measurements(database, run.id, measurements_for(outcomes))
    every = series_queries.series_keys(database)
    assert len({(key.case, key.preset) for key in every}) == 4
    hardware = every[0].hardware
    for only in (
        SeriesOnly(case=MLP),
        SeriesOnly(metric="latency"),
        SeriesOnly(hardware=hardware),
        SeriesOnly(preset="other"),
        SeriesOnly(MLP, "latency", hardware, "other"),
        SeriesOnly(case="no/infer/-/such"),
        SeriesOnly(hardware="none"),
    ):
        wanted = {name: value for name, value in asdict(only).items() if value}
        assert series_queries.series_keys(database, only) == [
            key for key in every if all(getattr(key, name) == value for name, value in wanted.items())
        ]


def test_what_a_name_stood_for_last_on_a_machine(database: Database) -> None:
    first, then, other = (replace(an_environment(f"2.{minor}.0"), name="ours") for minor in (9, 10, 11))
    pinned = replace(an_environment("2.8.0"), name="pinned")
    machine, another = a_machine(), a_machine("another")
    for night, environments, where in (
        # The newest one is stored before the others.
        (4, [pinned, then], machine),
        (2, [first, pinned], machine),
        (6, [pinned], machine),
        (8, [other], another),
    ):
        run = a_run(f"night-{night}", environments=environments, started_at=a_night(night), machine=where)
        store.save_run(database, run)
    assert environments_in_use.newest_named(database, machine.name, "ours") == then.fingerprint
    assert environments_in_use.newest_named(database, "another", "ours") == other.fingerprint
    assert environments_in_use.newest_named(database, "another", "pinned") is None
    assert environments_in_use.newest_named(database, "nobody's", "ours") is None
    submitted = a_run("20260910-020000-submitted-0123456789abcdef", environments=[first], machine=machine)
    store.save_run(database, replace(submitted, started_at=a_night(9)))
    assert environments_in_use.newest_named(database, machine.name, "ours") == then.fingerprint


def test_recent_runs_come_by_start_and_not_by_arrival(database: Database) -> None:
    for number in (2, 0, 3, 1):
        store.save_run(database, a_run(f"night-{number}", started_at=a_night(number)))
    assert [run.id for run in queries.recent_runs(database)] == ["night-3", "night-2", "night-1", "night-0"]
    assert [run.id for run in queries.recent_runs(database, limit=2, offset=1)] == ["night-2", "night-1"]
    assert queries.recent_runs(database, offset=4) == []
    assert queries.count_runs(database) == 4
    assert queries.latest_run_id(database) == "night-3"


def test_a_list_goes_on_after_a_run_among_those_of_one_moment(database: Database) -> None:
    for number in range(4):
        store.save_run(database, a_run(f"run-{number}", started_at=a_night(min(number, 2))))
    every = [run.id for run in queries.recent_runs(database)]
    assert every == ["run-3", "run-2", "run-1", "run-0"]
    for number, run in enumerate(every):
        place = queries.place_of_run(database, run)
        assert [one.id for one in queries.recent_runs(database, after=place)] == every[number + 1 :]
    assert queries.place_of_run(database, "nothing") is None


def test_a_summary_names_what_a_list_shows(database: Database) -> None:
    environments = [
        an_environment("2.9.1", "old"),
        an_environment("2.13.0", "new"),
        an_environment("2.9.1", "b"),
    ]
    run = a_run(environments=environments, state="running", planned=4)
    store.save_run(database, run)
    store.save_outcomes(database, "run-1", [an_outcome(environment=environments[0])])
    assert queries.run_summary(database, "run-1") == RunSummary(
        id="run-1",
        suite="smoke",
        started_at=FIRST_NIGHT,
        ended_at=None,
        state="running",
        machine="bench-1",
        hardware="Xeon 6430, 2 cores",
        torch_versions=("2.9.1", "2.13.0"),
        preset="quiet",
        planned=4,
        counts={"ok": 1},
    )
    assert queries.recent_runs(database) == [queries.run_summary(database, "run-1")]


def test_outcomes_come_in_the_order_in_which_they_started(database: Database) -> None:
    store.save_run(database, a_run())
    starts = {RESNET: 3, BERT: 1, MLP: 2}
    for case, minutes in starts.items():
        outcome = an_outcome(case, started_at=FIRST_NIGHT + timedelta(minutes=minutes))
        store.save_outcomes(database, "run-1", [outcome])
    store.save_run(database, a_run("run-2"))
    store.save_outcomes(database, "run-2", [an_outcome(RESNET_COMPILED)])
    assert [outcome.case for outcome in queries.outcomes_of_run(database, "run-1")] == [BERT, MLP, RESNET]


def test_measurements_are_those_of_the_run(database: Database) -> None:
    _night(database, 0, 2.0, cases=(RESNET, MLP))
    _night(database, 1, 3.0)
    found = queries.measurements_of_run(database, "night-0")
    metrics = ["latency", "rss_peak", "throughput"]
    assert [(each.case, each.metric) for each in found] == [
        (case, m) for case in (MLP, RESNET) for m in metrics
    ]
    latency = found[0]
    assert (latency.point, latency.n) == (2.25, 3)
    assert (latency.low, latency.high, latency.smallest, latency.largest) == (2.0, 2.5, 2.0, 2.5)
    assert latency.spread == pytest.approx(0.1116, abs=1e-4)


def test_a_series_comes_by_case_and_start_with_what_a_chart_needs(database: Database) -> None:
    for number in (1, 0):
        _night(database, number, 2.0 + number, torch_version=f"2.{12 + number}.0", cases=(RESNET, MLP))
    points = series_queries.series(database, [_key(database, RESNET), _key(database, MLP)])
    assert [(point.case, point.run) for point in points] == [
        (MLP, "night-0"),
        (MLP, "night-1"),
        (RESNET, "night-0"),
        (RESNET, "night-1"),
    ]
    assert points[1] == SeriesPoint(
        case=MLP,
        run="night-1",
        started_at=a_night(1),
        environment=an_environment("2.13.0").fingerprint,
        torch_version="2.13.0",
        machine="bench-1",
        harness="harness-1f3a",
        point=3.25,
        low=3.0,
        high=3.5,
        smallest=3.0,
        largest=3.5,
        spread=points[1].spread,
        n=3,
    )


def test_a_series_is_found_whatever_its_labels_say(database: Database) -> None:
    _night(database, 0, 2.0)
    relabelled = replace(_key(database, MLP), hardware_label="the old box", preset_name="silent")
    assert [point.run for point in series_queries.series(database, [relabelled])] == ["night-0"]


def test_a_single_replicate_has_no_interval(database: Database) -> None:
    store.save_run(database, a_run())
    store.save_measurements(database, "run-1", measurements_for([an_outcome()]))
    (point,) = series_queries.series(database, [_key(database, MLP)])
    assert (point.low, point.high, point.spread, point.n) == (None, None, None, 1)


def test_a_headline_is_the_newest_point_and_the_one_before(database: Database) -> None:
    for number in (3, 1, 2):  # the newest arrives first
        _night(database, number, float(number), cases=(MLP, RESNET) if number == 2 else (MLP,))
    mlp, resnet = series_queries.headlines(database, "latency")
    assert (mlp.key, resnet.key) == (_key(database, MLP), _key(database, RESNET))
    assert mlp.latest.run == "night-3"
    assert mlp.previous is not None
    assert mlp.previous.run == "night-2"
    assert mlp.latest == series_queries.series(database, [mlp.key])[-1]
    assert (resnet.latest.run, resnet.previous) == ("night-2", None)
    assert [each.key.metric for each in series_queries.headlines(database, "rss_peak")] == ["rss_peak"] * 2
    assert series_queries.headlines(database, "graph_breaks") == []


def test_of_a_comparison_the_environment_given_last_is_the_headline(database: Database) -> None:
    old, new = an_environment("2.9.1"), an_environment("2.13.0")
    _comparison(database, 0, [new, old])
    _comparison(database, 1, [old, new])
    (headline,) = series_queries.headlines(database, "latency")
    assert headline.previous is not None
    assert (headline.latest.run, headline.latest.torch_version) == ("night-1", "2.13.0")
    assert (headline.previous.run, headline.previous.torch_version) == ("night-0", "2.9.1")


def test_runs_that_started_at_once_stay_apart(database: Database) -> None:
    for name in ("bench-1", "bench-2"):
        run = a_run(f"on-{name}", machine=a_machine(name))
        store.save_run(database, run)
        store.save_measurements(database, run.id, measurements_for([an_outcome()]))
    (headline,) = series_queries.headlines(database, "latency")
    assert headline.previous is not None
    assert (headline.latest.machine, headline.previous.machine) == ("bench-2", "bench-1")
    assert len(series_queries.series(database, [headline.key])) == 2


def test_of_a_long_series_the_newest_points_will_do(database: Database) -> None:
    for night in range(6):
        run = a_run(f"night-{night}", started_at=a_night(night))
        store.save_run(database, run)
        cases = (MLP, RESNET) if night < 2 else (MLP,)
        store.save_measurements(database, run.id, measurements_for([an_outcome(case) for case in cases]))
    keys = [_key(database, MLP), _key(database, RESNET)]

    def nights(newest: int | None) -> list[tuple[str, str]]:
        return [(point.case, point.run) for point in series_queries.series(database, keys, newest=newest)]

    resnet = [(RESNET, "night-0"), (RESNET, "night-1")]
    assert nights(3) == [(MLP, "night-3"), (MLP, "night-4"), (MLP, "night-5"), *resnet]
    assert nights(1) == [(MLP, "night-5"), resnet[1]]
    assert nights(6) == nights(7) == nights(None)
    assert len(nights(None)) == 8


def _history(database: Database, nights: range) -> None:
    """A run a night, with a point for each of twenty series of latency."""
    outcomes = [an_outcome(f"case_{i:02d}/infer/-/eager", metrics={"latency": 1.0}) for i in range(20)]
    for night in nights:
        run = a_run(f"night-{night}", started_at=a_night(night))
        store.save_run(database, run)
        store.save_outcomes(database, run.id, [an_outcome(outcomes[0].case, telemetry=[a_recording()])])
        store.save_measurements(database, run.id, measurements_for(outcomes))


def _open_the_pages(database: Database) -> None:
    """The questions whose answers are as long after ten years as after ten nights."""
    assert len(series_queries.headlines(database, "latency")) == 20
    assert len(queries.recent_runs(database, limit=10)) == 10
    assert queries.latest_run_id(database) == queries.recent_runs(database, limit=1)[0].id
    assert len(queries.measurements_of_run(database, "night-7")) == 20
    assert len(series_queries.series_keys(database)) == 20
    assert len(series_queries.series(database, series_queries.series_keys(database)[:4], newest=5)) == 20
    assert runs_releases.releases(database) == ["2.13.0+cpu"]
    assert len(telemetry.windows(database, limit=6)) == 6
    assert traces.operator_tables(database) == []


def _instructions(database: Database) -> int:
    """How many tens of instructions SQLite's virtual machine executes to open the pages."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    def watch(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_progress_handler(count, 10)

    event.listen(database.engine, "checkout", watch)
    _open_the_pages(database)
    event.remove(database.engine, "checkout", watch)
    return steps


def _blocks_read(database: Database) -> int:
    """How many blocks Postgres looks at to open the pages."""
    blocks = 0

    def explain(
        _connection: object, cursor: Cursor[Any], statement: str, parameters: Any, *_: object
    ) -> None:
        nonlocal blocks
        # A table of a few pages is rightly read whole. Asked is whether there is a way that stays short.
        plain = cursor.connection.cursor()
        plain.execute("SET enable_seqscan = off")
        plain.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}".encode(), parameters)
        ((((explained,),),),) = (plain.fetchall(),)
        blocks += explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"]

    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")
    event.listen(database.engine, "before_cursor_execute", explain)
    _open_the_pages(database)
    event.remove(database.engine, "before_cursor_execute", explain)
    return blocks


@pytest.mark.slow
def test_work_does_not_grow_with_history(database: Database) -> None:
    work_of = _instructions if database.name.startswith("sqlite") else _blocks_read
    _history(database, range(30))
    short = work_of(database)
    _history(database, range(30, 150))
    long = work_of(database)
    assert long < 1.5 * short, (short, long)
