"""Where something was measured: places, versions, and the last points of a version."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from db.admin import delete_run
from db.connection.engine import Database
from db.runs import coverage, releases, store
from records.kinds import RunSource
from records.runs import RunPreset
from records.series import CaseExtent, MeasurementConditions
from support.builders.detection_nights import Nights
from support.builders.run_records import FIRST_NIGHT, a_machine, a_preset, measurements_for
from support.builders.technique_runs import (
    CPU,
    GPU,
    RESNET,
    VERSION,
    Measured,
    environment,
    fingerprint,
    machine,
    outcomes,
    preset,
    run,
)

EAGER, COMPILED = f"{RESNET}/eager", f"{RESNET}/compile=default"
FLOOR = "latency_floor"
NEWER = "2.14.0+cpu"
PLACE = fingerprint(CPU), preset().fingerprint


def measure(
    database: Database,
    night: int,
    *cases: str,
    version: str = VERSION,
    hardware: str = CPU,
    floor: float = 10.0,
    harness: str = "harness-1f3a",
) -> None:
    made = run(
        f"night-{night}", version=version, hardware=hardware, started_at=FIRST_NIGHT + timedelta(days=night)
    )
    store.save_run(database, replace(made, harness=harness))
    measured = outcomes([Measured(case, (floor, floor)) for case in cases], version=version)
    store.save_outcomes(database, made.id, measured)
    store.save_measurements(database, made.id, measurements_for(measured))


def runs(found: Sequence[MeasurementConditions]) -> list[tuple[str, str]]:
    return [(place.hardware_label, place.run) for place in found]


def test_a_place_is_named_with_the_newest_run_there(database: Database) -> None:
    measure(database, 1, EAGER, COMPILED)
    measure(database, 3, EAGER, hardware=GPU)
    # Arrived late: newest is by when it started.
    measure(database, 2, EAGER)
    assert runs(coverage.places(database, FLOOR)) == [(GPU, "night-3"), (CPU, "night-2")]
    (first, _) = coverage.places(database, FLOOR)
    assert (first.preset_name, first.settings) == ("quiet", preset().settings)
    assert coverage.places(database, "compile_cold") == []


def test_techniques_have_places_of_their_own(database: Database) -> None:
    measure(database, 1, EAGER, COMPILED)
    measure(database, 2, EAGER)
    measure(database, 3, EAGER, hardware=GPU)
    assert runs(coverage.places(database, FLOOR, techniques=True)) == [(CPU, "night-1")]
    assert releases.technique_versions(database, FLOOR, fingerprint(GPU), PLACE[1]) == frozenset()


def test_a_forgotten_run_leaves_no_place(database: Database) -> None:
    measure(database, 1, EAGER)
    delete_run.forget_run(database, "night-1")
    assert coverage.places(database, FLOOR) == []


def test_versions_are_those_of_the_place_alone(database: Database) -> None:
    measure(database, 1, EAGER)
    measure(database, 2, COMPILED, version=NEWER)
    measure(database, 3, EAGER, version="2.15.0+cpu", hardware=GPU)
    assert releases.technique_versions(database, FLOOR, *PLACE) == {NEWER}
    versions = [VERSION, "2.15.0+cpu", "1.0"]
    assert releases.version_places(database, FLOOR, versions) == {
        (VERSION, *PLACE),
        ("2.15.0+cpu", fingerprint(GPU), PLACE[1]),
    }


def test_harnesses_are_those_of_the_runs_that_measured_a_version_somewhere(database: Database) -> None:
    for night, harness, version in ((1, "old", VERSION), (2, "new", VERSION), (3, "newest", NEWER)):
        measure(database, night, EAGER, version=version, harness=harness)
    measure(database, 4, EAGER, hardware=GPU)
    # One that crashed before anything was measured.
    measure(database, 5, harness="never")
    assert releases.version_harnesses(database, VERSION, FLOOR) == {
        PLACE: ("new", "old"),
        (fingerprint(GPU), PLACE[1]): ("harness-1f3a",),
    }
    assert releases.version_harnesses(database, VERSION, "compile_cold") == {}
    assert releases.version_harnesses(database, "1.0", FLOOR) == {}


def test_the_last_point_of_a_version_is_found_below_newer_ones(database: Database) -> None:
    for night in range(4):
        measure(database, night, EAGER, COMPILED, floor=10.0 + night)
    for night in range(4, 9):
        measure(database, night, EAGER, version=NEWER)
    measure(database, 9, EAGER, hardware=GPU)
    last = partial(releases.points_of_version, database, FLOOR, VERSION, hardware=PLACE[0], preset=PLACE[1])
    found = last()
    assert [(key.case, point.run, point.point) for key, point in found] == [
        (COMPILED, "night-3", 13.0),
        (EAGER, "night-3", 13.0),
    ]
    several = releases.points_of_version(database, FLOOR, VERSION, techniques=True, newest=3)
    assert [point.run for _, point in several] == ["night-1", "night-2", "night-3"]
    assert len(last(newest=100)) == 8


def test_of_two_versions_in_one_run_only_the_requested_one_answers(database: Database) -> None:
    made = run("both")
    store.save_run(database, replace(made, environments=(environment(), environment(NEWER))))
    for version, floor in ((VERSION, 10.0), (NEWER, 20.0)):
        measured = outcomes([Measured(EAGER, (floor, floor))], version=version)
        store.save_outcomes(database, "both", measured)
        store.save_measurements(database, "both", measurements_for(measured))
    (found,) = releases.points_of_version(database, FLOOR, NEWER, newest=5)
    assert (found[1].point, found[1].torch_version, found[1].machine) == (20.0, NEWER, machine().name)


def test_a_place_with_many_nights_comes_before_a_newer_one_with_few(database: Database) -> None:
    assert coverage.most_nights(database) == []
    measure(database, 90, EAGER, hardware="by hand")
    assert coverage.most_nights(database) == [], "no schedule measured it"
    long_gone = Nights(database, machine=a_machine("gone", "Gone"))
    long_gone.add(range(10))
    Nights(database, schedule="nightly", machine=a_machine("rich", "Rich")).add(range(70, 75))
    Nights(database, schedule="weekly", machine=a_machine("new", "New")).add(range(78, 80))
    quiet = a_preset().fingerprint
    assert coverage.most_nights(database) == [("hardware-Rich", quiet), ("hardware-New", quiet)]


def test_presets_of_other_tools_are_known(database: Database) -> None:
    measure(database, 1, EAGER)
    assert coverage.foreign_presets(database) == set()
    foreign = replace(run("file"), preset=RunPreset("f" * 64, "a tool", {}), source=RunSource.IMPORTED)
    store.save_run(database, foreign)
    assert coverage.foreign_presets(database) == {"f" * 64}


def test_the_place_with_the_longest_series_comes_first(database: Database) -> None:
    assert coverage.longest_series(database) == []
    measure(database, 3, EAGER, COMPILED, hardware="single")
    measure(database, 1, EAGER, hardware="long")
    measure(database, 2, EAGER, hardware="long")
    measure(database, 4, EAGER, COMPILED, hardware="longer")
    measure(database, 5, EAGER, COMPILED, hardware="longer")
    own = preset().fingerprint
    assert coverage.longest_series(database) == [
        (fingerprint(name), own) for name in ("longer", "long", "single")
    ]


def test_points_of_cases_are_counted_all_or_of_the_last_nights(database: Database) -> None:
    measure(database, 1, EAGER, COMPILED, floor=40.0)
    measure(database, 70, EAGER)
    measure(database, 71, EAGER, COMPILED, floor=11.0)
    measure(database, 72, EAGER, hardware=GPU)
    ask = partial(coverage.case_extents, database, FLOOR)
    recent = partial(ask, recent=True)
    assert recent((PLACE[0],), PLACE[1]) == {EAGER: CaseExtent(2, 1.1), COMPILED: CaseExtent(1, 1.0)}
    assert ask((PLACE[0],), PLACE[1]) == {EAGER: CaseExtent(3, 4.0), COMPILED: CaseExtent(2, 40 / 11)}
    both = ask((PLACE[0], fingerprint(GPU)), PLACE[1])
    assert both == {EAGER: CaseExtent(4, 4.0), COMPILED: CaseExtent(2, 40 / 11)}
    assert ask((PLACE[0],), "another") == recent((PLACE[0],), "another") == {}


def test_a_point_of_0_makes_no_ratio(database: Database) -> None:
    for night, breaks in enumerate((0.0, 5.0)):
        made = run(f"night-{night}", started_at=FIRST_NIGHT + timedelta(days=night))
        store.save_run(database, made)
        measured = outcomes([Measured(EAGER, (10.0,), metrics={"graph_breaks": breaks})])
        store.save_outcomes(database, made.id, measured)
        store.save_measurements(database, made.id, measurements_for(measured))
    found = coverage.case_extents(database, "graph_breaks", (PLACE[0],), PLACE[1])
    assert found == {EAGER: CaseExtent(2, 1.0)}
