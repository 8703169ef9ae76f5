"""What a release comes to in a series."""

from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.connection.engine import Database
from db.runs import releases as runs_releases
from db.runs import store
from records.environments import Environment
from records.series import ReleasePoint
from support.builders.run_records import (
    MLP,
    RESNET,
    a_machine,
    a_night,
    a_preset,
    a_run,
    an_environment,
    an_outcome,
    measurements_for,
)

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
    (found,) = runs_releases.release_points(database, versions or (NEW.torch_version,), "latency")
    return found


def test_a_release_is_the_median_of_its_runs_with_their_range(database: Database) -> None:
    for night, latency in enumerate((5.0, 3.0, 4.0, 10.0)):
        _measure(database, night, latency)
    found = _only(database)
    assert (found.runs, found.median, found.lowest, found.highest) == (4, 4.5, 3.0, 10.0)
    assert found.torch_version == "2.10.0+cu126"
    assert (found.key.case, found.key.metric, found.key.preset_name) == (MLP, "latency", "quiet")


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
    assert runs_releases.releases(database) == ["2.10.0+cu126", "2.10.0+cpu", "2.10.0"]
    assert _only(database, "2.10.0").median == 3.0


def test_releases_come_as_versions_and_not_as_text(database: Database) -> None:
    versions = ["2.9.1", "2.10.0", "2.14.0.dev20261120", "2.14.0", "2.14.0a0+git1f3a", "built on Tuesday"]
    for night, version in enumerate(versions):
        _measure(database, night, 1.0, an_environment(version))
    newest_first = [versions[number] for number in (3, 4, 2, 1, 0, 5)]
    assert runs_releases.releases(database) == newest_first
    points = runs_releases.release_points(database, versions, "latency")
    assert [point.torch_version for point in points] == newest_first[::-1]


def test_what_has_no_version_is_no_release(database: Database) -> None:
    _measure(database, 0, 1.0, an_environment("", name="canary"))
    assert runs_releases.releases(database) == []
    assert runs_releases.release_points(database, [""], "latency") == []


def test_machines_that_differ_and_other_metrics_stay_apart(database: Database) -> None:
    _measure(database, 0, 1.0)
    _measure(database, 1, 2.0, machine=a_machine("other", "EPYC"))
    _measure(database, 2, 3.0, preset=a_preset("other"))
    _measure(database, 3, 4.0, case=RESNET)
    points = runs_releases.release_points(database, [NEW.torch_version], "latency")
    labels = [(each.key.case, each.key.hardware_label, each.key.preset_name) for each in points]
    assert labels == [
        (MLP, "EPYC", "quiet"),
        (MLP, "Xeon 6430, 2 cores", "other"),
        (MLP, "Xeon 6430, 2 cores", "quiet"),
        (RESNET, "Xeon 6430, 2 cores", "quiet"),
    ]
    assert [each.median for each in points] == [2.0, 3.0, 1.0, 4.0]
    assert runs_releases.release_points(database, [NEW.torch_version], "throughput") == []
    assert runs_releases.release_points(database, [], "latency") == []


def test_a_run_that_comes_in_pieces_is_one_run(database: Database) -> None:
    twin = an_environment("2.10.0+cu126", name="with-other-packages")
    run = a_run("night-0", environments=(NEW, twin), started_at=a_night(0))
    store.save_run(database, run)
    for case, environment, latency in ((MLP, NEW, 5.0), (RESNET, NEW, 1.0), (MLP, twin, 6.0)):
        outcome = an_outcome(case, environment=environment, metrics={"latency": latency})
        store.save_measurements(database, run.id, measurements_for([outcome]))
    found = {
        each.key.case: each for each in runs_releases.release_points(database, [NEW.torch_version], "latency")
    }
    assert (found[MLP].runs, found[MLP].median, found[RESNET].runs) == (1, 5.5, 1)


def test_of_two_measurements_of_the_same_the_last_one_counts(database: Database) -> None:
    run = a_run("night-0", environments=(NEW,), started_at=a_night(0))
    store.save_run(database, run)
    outcomes = [an_outcome(environment=NEW, metrics={"latency": latency}) for latency in (5.0, 6.0)]
    twice = [each for one in outcomes for each in measurements_for([one])]
    store.save_measurements(database, run.id, twice * 4)
    assert (_only(database).runs, _only(database).median) == (1, 6.0)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=9).map(sorted))
def test_the_median_is_the_middle_one_or_between_the_two(values: list[float]) -> None:
    found = runs_releases.median(values)
    assert values[(len(values) - 1) // 2] <= found <= values[len(values) // 2]
    assert found == pytest.approx(median(values), rel=1e-12, abs=1e-300 + 1e-12 * max(map(abs, values)))


def test_numbers_at_the_end_of_the_range_are_no_obstacle(database: Database) -> None:
    for night, value in enumerate((1.7e308, 1.6e308, 5e-324, 1.5e308)):
        _measure(database, night, value)
    found = _only(database)
    assert (found.median, found.lowest) == (1.55e308, 5e-324)
