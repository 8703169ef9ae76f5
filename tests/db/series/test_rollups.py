"""What a release comes to in a series: always what its measurements say, in whatever order they arrived."""

import random
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from statistics import median

import pytest
from builders import (
    MLP,
    RESNET,
    a_machine,
    a_night,
    a_profile,
    a_run,
    an_environment,
    an_outcome,
    measurements_for,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select, update

from db.connection.aggregates import Median
from db.connection.engine import Database, open_database
from db.connection.transaction import together
from db.runs import store
from db.schema import core_tables as tables
from db.series import rollups
from records.environments import Environment
from records.series import ReleasePoint

OLD, NEW = an_environment("2.9.1+cu126"), an_environment("2.10.0+cu126")


def _measure(
    database: Database, night: int, latency: float, *environments: Environment, case: str = MLP, **run: object
) -> None:
    """One run with a point in each environment; each is slower by 1 than the one before."""
    used = environments or (NEW,)
    outcomes = [
        an_outcome(case, environment=each, metrics={"latency": latency + place})
        for place, each in enumerate(used)
    ]
    record = replace(a_run(f"night-{night}", environments=used, started_at=a_night(night)), **run)
    store.save_run(database, record)
    store.save_measurements(database, record.id, measurements_for(outcomes))


def _only(database: Database, *versions: str) -> ReleasePoint:
    (found,) = rollups.release_points(database, versions or (NEW.torch_version,), "latency")
    return found


def test_a_release_is_the_median_of_its_runs_with_their_range(database: Database) -> None:
    for night, latency in enumerate((5.0, 3.0, 4.0, 10.0)):
        _measure(database, night, latency)
    found = _only(database)
    assert (found.runs, found.median, found.lowest, found.highest) == (4, 4.5, 3.0, 10.0)
    assert (found.torch_version, found.newest_at) == ("2.10.0+cu126", a_night(3))
    assert (found.key.case, found.key.metric, found.key.profile_name) == (MLP, "latency", "quiet")


def test_a_measurement_that_is_replaced_counts_once(database: Database) -> None:
    _measure(database, 0, 5.0)
    _measure(database, 1, 7.0)
    _measure(database, 0, 6.0)
    found = _only(database)
    assert (found.runs, found.median, found.lowest, found.highest) == (2, 6.5, 6.0, 7.0)


def test_two_environments_of_one_release_are_one_run(database: Database) -> None:
    twin = an_environment("2.10.0+cu126", name="with-other-packages")
    _measure(database, 0, 5.0, NEW, twin)
    found = _only(database)
    assert (found.runs, found.median, found.lowest, found.highest) == (1, 5.5, 5.0, 6.0)


def test_builds_of_a_version_are_releases_of_their_own(database: Database) -> None:
    for night, version in enumerate(("2.10.0+cpu", "2.10.0+cu126", "2.10.0")):
        _measure(database, night, night + 1.0, an_environment(version))
    assert rollups.releases(database) == ["2.10.0+cu126", "2.10.0+cpu", "2.10.0"]
    assert _only(database, "2.10.0").median == 3.0


def test_releases_come_as_versions_and_not_as_text(database: Database) -> None:
    versions = ["2.9.1", "2.10.0", "2.14.0.dev20261120", "2.14.0", "2.14.0a0+git1f3a", "built on Tuesday"]
    for night, version in enumerate(versions):
        _measure(database, night, 1.0, an_environment(version))
    newest_first = [versions[number] for number in (3, 4, 2, 1, 0, 5)]
    assert rollups.releases(database) == newest_first
    points = rollups.release_points(database, versions, "latency")
    assert [point.torch_version for point in points] == newest_first[::-1]


def test_what_has_no_version_is_no_release(database: Database) -> None:
    _measure(database, 0, 1.0, an_environment("", name="canary"))
    assert rollups.releases(database) == []
    assert rollups.release_points(database, [""], "latency") == []
    assert rollups.rebuild_rollups(database) == 0


def test_machines_that_differ_and_other_metrics_stay_apart(database: Database) -> None:
    _measure(database, 0, 1.0)
    _measure(database, 1, 2.0, machine=a_machine("other", "EPYC"))
    _measure(database, 2, 3.0, profile=a_profile("other"))
    _measure(database, 3, 4.0, case=RESNET)
    points = rollups.release_points(database, [NEW.torch_version], "latency")
    labels = [(each.key.case, each.key.hardware_label, each.key.profile_name) for each in points]
    assert labels == [
        (MLP, "EPYC", "quiet"),
        (MLP, "Xeon 6430, 2 cores", "other"),
        (MLP, "Xeon 6430, 2 cores", "quiet"),
        (RESNET, "Xeon 6430, 2 cores", "quiet"),
    ]
    assert [each.median for each in points] == [2.0, 3.0, 1.0, 4.0]
    (only,) = rollups.release_points(database, [NEW.torch_version], "latency", cases=[RESNET])
    assert only.median == 4.0
    assert rollups.release_points(database, [NEW.torch_version], "throughput") == []
    assert rollups.release_points(database, [], "latency") == []


def test_whatever_the_order_of_arrival_they_are_what_the_measurements_say(database: Database) -> None:
    draw = random.Random(20261121)
    nights = [(night, draw.uniform(1, 9), draw.choice([(OLD,), (NEW,), (OLD, NEW)])) for night in range(40)]
    arrived = [*nights, *draw.sample(nights, 10)]
    draw.shuffle(arrived)
    for number, (night, latency, environments) in enumerate(arrived):
        _measure(database, night, latency + number % 3, *environments)
    assert rollups.rollup_differences(database) == []
    kept = rollups.release_points(database, rollups.releases(database), "latency")
    assert rollups.rebuild_rollups(database) == len(kept) == 2
    assert rollups.release_points(database, rollups.releases(database), "latency") == kept


def _missing(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(delete(tables.ReleaseRollup).where(tables.ReleaseRollup.median < 2))


def _wrong(database: Database) -> None:
    with database.writing() as connection:
        table = tables.ReleaseRollup
        connection.execute(update(table).where(table.median < 2).values(median=table.median * (1 + 2**-52)))


def _left_over(database: Database) -> None:
    with database.writing() as connection:
        table = tables.Measurement
        connection.execute(delete(table).where(table.point < 2))


@pytest.mark.parametrize("spoil", [_missing, _wrong, _left_over])
def test_a_difference_is_found_and_mended(database: Database, spoil: Callable[[Database], None]) -> None:
    _measure(database, 0, 1.0)
    _measure(database, 1, 5.0, OLD, case=RESNET)
    spoil(database)
    ((version, key),) = rollups.rollup_differences(database)
    assert (version, key.case, key.metric) == (NEW.torch_version, MLP, "latency")
    rollups.rebuild_rollups(database)
    assert rollups.rollup_differences(database) == []


def test_writers_at_the_same_time_leave_no_point_out(url: str) -> None:
    ready = threading.Barrier(4)

    def write(worker: int) -> None:
        with open_database(url, timeout=60) as database:
            ready.wait()
            for number in range(8):
                _measure(database, worker * 8 + number, 1.0 + worker + number)

    open_database(url).close()
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(write, worker) for worker in range(4)]:
            done.result()
    with open_database(url) as database:
        assert rollups.rollup_differences(database) == []
        assert _only(database).runs == 32


def test_who_comes_second_sees_what_the_first_wrote(url: str) -> None:
    with open_database(url, timeout=60) as database, ThreadPoolExecutor(1) as pool:
        _measure(database, 0, 1.0)
        with together(database) as first:
            _measure(first, 1, 2.0)
            second = pool.submit(_measure, database, 2, 3.0)
            with pytest.raises(TimeoutError):
                second.result(0.3)
        second.result()
        assert rollups.rollup_differences(database) == []
        assert _only(database).runs == 3


def test_only_the_time_of_the_release_is_read(database: Database) -> None:
    for night in range(6):
        _measure(database, night, 1.0 + night, NEW if night % 2 else OLD)
    table = tables.Measurement
    # A point that the store would never leave behind, before the first run of the release.
    with database.writing() as connection:
        connection.execute(
            update(table).where(table.started_at == a_night(1)).values(started_at=a_night(1) - timedelta(9))
        )
        connection.execute(update(tables.ReleaseRollup).values(oldest_at=a_night(2)))
    _measure(database, 5, 8.0)
    found = _only(database)
    assert (found.runs, found.lowest, found.highest) == (2, 4.0, 8.0)


def test_a_new_run_is_counted_in_without_a_look_at_the_others(database: Database) -> None:
    for night in range(3):
        _measure(database, night, 1.0 + night)
    table = tables.Measurement
    with database.writing() as connection:
        connection.execute(delete(table).where(table.started_at < a_night(2)))
    _measure(database, 3, 9.0)
    assert (_only(database).runs, _only(database).median) == (4, 2.5)
    assert len(rollups.rollup_differences(database)) == 1
    _measure(database, 3, 8.0)
    assert (_only(database).runs, _only(database).median) == (2, 5.5), "of what is stored again all is read"
    assert rollups.rollup_differences(database) == []


def test_a_run_that_comes_in_pieces_is_one_run(database: Database) -> None:
    twin = an_environment("2.10.0+cu126", name="with-other-packages")
    run = a_run("night-0", environments=(NEW, twin), started_at=a_night(0))
    store.save_run(database, run)
    for case, environment, latency in ((MLP, NEW, 5.0), (RESNET, NEW, 1.0), (MLP, twin, 6.0)):
        outcome = an_outcome(case, environment=environment, metrics={"latency": latency})
        store.save_measurements(database, run.id, measurements_for([outcome]))
    found = {each.key.case: each for each in rollups.release_points(database, [NEW.torch_version], "latency")}
    assert (found[MLP].runs, found[MLP].median, found[RESNET].runs) == (1, 5.5, 1)
    assert rollups.rollup_differences(database) == []


def test_of_two_measurements_of_the_same_the_last_one_counts(database: Database) -> None:
    run = a_run("night-0", environments=(NEW,), started_at=a_night(0))
    store.save_run(database, run)
    outcomes = [an_outcome(environment=NEW, metrics={"latency": latency}) for latency in (5.0, 6.0)]
    twice = [each for one in outcomes for each in measurements_for([one])]
    store.save_measurements(database, run.id, twice * 4)
    assert (_only(database).runs, _only(database).median) == (1, 6.0)
    assert rollups.rollup_differences(database) == []


def test_one_zero_is_as_good_as_the_other(database: Database) -> None:
    for night, value in enumerate((0.0, -0.0, 0.0, -0.0, 1.0)):
        _measure(database, night, value)
    assert rollups.rollup_differences(database) == []
    stored = _points(database)
    rollups.rebuild_rollups(database)
    assert _points(database) == stored == struct.pack(">5d", 0, 0, 0, 0, 1)


def _points(database: Database) -> bytes:
    with database.reading() as connection:
        return connection.execute(select(tables.ReleaseRollup.points)).scalar_one()


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=9))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_median_is_the_middle_one_or_between_the_two(values: list[float]) -> None:
    group = Median()
    for value in values:
        group.step(value)
    found = group.finalize()
    ordered = sorted(values)
    assert found is not None
    assert ordered[(len(values) - 1) // 2] <= found <= ordered[len(values) // 2]
    assert found == pytest.approx(median(values), rel=1e-12, abs=1e-300 + 1e-12 * max(map(abs, values)))


def test_both_databases_know_the_same_median(database: Database) -> None:
    draw = random.Random(7)
    for night in range(9):
        _measure(database, night, draw.lognormvariate(0, 20))
        expected = Median()
        for each in range(night + 1):
            expected.step(_point(database, each))
        assert _only(database).median == expected.finalize()


def _point(database: Database, night: int) -> float:
    with database.reading() as connection:
        query = tables.Measurement.__table__.select().where(tables.Measurement.started_at == a_night(night))
        return connection.execute(query).one().point


def test_numbers_at_the_end_of_the_range_are_no_obstacle(database: Database) -> None:
    for night, value in enumerate((1.7e308, 1.6e308, 5e-324, 1.5e308)):
        _measure(database, night, value)
    found = _only(database)
    assert (found.median, found.lowest) == (1.55e308, 5e-324)
    assert rollups.rollup_differences(database) == []
