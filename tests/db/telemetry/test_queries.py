"""Recordings are listed, read back as they went in, and deleted without anything else."""

from dataclasses import replace
from datetime import timedelta
from typing import get_args

import pytest
from sqlalchemy import select, update

from db.admin.prune import PruneResult
from db.admin.prune import prune_telemetry as prune
from db.connection.engine import Database
from db.errors import DamagedTelemetry, SchemaTooNew
from db.runs import queries, store
from db.schema import core_tables as tables
from db.telemetry.queries import UTILISATION, recording, windows
from records.telemetry import Recording, TelemetryWindow
from runner.telemetry.capability import UtilisationSource
from runner.telemetry.columns import COLUMNS
from support.builders.run_records import (
    MLP,
    RESNET,
    a_machine,
    a_night,
    a_recording,
    a_run,
    an_environment,
    an_outcome,
)
from support.builders.run_records import measurements_for as measured

ENVIRONMENT = an_environment()

#: A long busy row and a short idle one: their plain mean would be 50.
GPU = a_recording(
    "GPU-1",
    utilisation_source="gpm",
    lengths_ms=[300, 100, 100],
    values={
        "sm_utilisation": (100.0, 0.0, None),
        "gpu_busy": (1.0, 1.0, 1.0),
        "power": (700.0, 100.0, None),
        "temperature": (60.0, None, 61.0),
    },
    notes=("no NVLink: not supported",),
)
HOST = a_recording()


def observed(database: Database, id: str = "run-1", night: int = 0) -> None:
    """A run of two outcomes with two recordings each, the MLP's after the other."""
    run = a_run(id, started_at=a_night(night), machine=a_machine("bench-7"))
    outcomes = [
        an_outcome(case, telemetry=[HOST, GPU], started_at=a_night(night) + timedelta(minutes=minute))
        for minute, case in enumerate((RESNET, MLP))
    ]
    store.save_run(database, run)
    store.save_outcomes(database, id, outcomes)
    store.save_measurements(database, id, measured(outcomes))


def only(database: Database, *recordings: Recording) -> list[TelemetryWindow]:
    """The windows of a database that holds nothing but these recordings."""
    store.save_run(database, a_run())
    store.save_outcomes(database, "run-1", [an_outcome(telemetry=recordings)])
    return windows(database)


def whose(found: list[TelemetryWindow]) -> list[tuple[str, str, str]]:
    return [(each.run, each.case, each.device) for each in found]


def test_a_window_tells_whose_it_is_and_what_it_comes_to(database: Database) -> None:
    observed(database)
    gpu, host = windows(database, run="run-1", case=RESNET)
    assert gpu == TelemetryWindow(
        run="run-1",
        started_at=a_night(0),
        case=RESNET,
        environment=ENVIRONMENT.fingerprint,
        environment_name=ENVIRONMENT.name,
        torch_version="2.13.0+cpu",
        hardware="Xeon 6430, 2 cores",
        hardware_fingerprint="hardware-Xeon 6430, 2 cores",
        machine="bench-7",
        replicate=0,
        device="GPU-1",
        name="NVIDIA H200",
        utilisation_source="gpm",
        rows=3,
        seconds=0.5,
        utilisation=75.0,
        power=550.0,
        temperature=61.0,
    )
    assert (host.device, host.utilisation_source, host.utilisation) == ("host", "none", 50.0)
    assert (host.power, host.temperature) == (None, None)


def test_power_is_that_of_the_energy_counter_where_there_is_one(database: Database) -> None:
    # The driver's own reading is a mean over the last second: it still has what was before.
    values = {"power": (120.0, 120.0, 600.0), "energy": (60.0, None, 180.0)}
    (window,) = only(database, a_recording("GPU-1", lengths_ms=[100, 100, 300], values=values))
    assert window.power == pytest.approx(240 / 0.4)


def test_each_source_is_about_its_own_column(database: Database) -> None:
    columns = {column: (float(place),) for place, column in enumerate(UTILISATION.values())}
    found = only(
        database,
        *(
            a_recording(
                f"GPU-{utilisation_source}",
                utilisation_source=utilisation_source,
                values=columns,
                lengths_ms=[9],
            )
            for utilisation_source in UTILISATION
        ),
    )
    assert {each.utilisation_source: each.utilisation for each in found} == {
        utilisation_source: float(place) for place, utilisation_source in enumerate(UTILISATION)
    }
    assert tuple(UTILISATION) == get_args(UtilisationSource) and set(UTILISATION.values()) <= COLUMNS.keys()


def test_what_no_row_has_is_none_and_not_zero(database: Database) -> None:
    nothing = a_recording(
        "GPU-1", utilisation_source="gpm", values={"power": (None,) * 3, "sm_utilisation": (None,) * 3}
    )
    instant = a_recording("GPU-2", utilisation_source="samples", values={"gpu_busy": (40.0,)}, lengths_ms=[0])
    lost = a_recording(
        "GPU-3", utilisation_source="none", values={}, lengths_ms=[], notes=("it fell off the bus",)
    )
    strange = a_recording(
        "GPU-4", utilisation_source="a later one", values={"power": (1.0, float("nan"), 3.0)}
    )
    found = only(database, nothing, instant, lost, strange)
    assert [(each.rows, each.seconds, each.utilisation, each.power) for each in found] == [
        (3, 0.6, None, None),
        (1, 0.0, None, None),
        (0, 0.0, None, None),
        (3, 0.6, None, 2.0),
    ]
    assert recording(database, "run-1", MLP, ENVIRONMENT.fingerprint, 0, "GPU-3") == lost


def test_the_newest_comes_first_and_a_list_can_be_cut(database: Database) -> None:
    for night in (1, 0, 2):
        observed(database, f"run-{night}", night)
    order = [
        (f"run-{n}", case, device)
        for n in (2, 1, 0)
        for case in (MLP, RESNET)
        for device in ("GPU-1", "host")
    ]
    assert whose(windows(database)) == order
    assert whose(windows(database, limit=5)) == order[:5]
    assert whose(windows(database, run="run-1")) == order[4:8]
    assert whose(windows(database, case=MLP)) == [each for each in order if each[1] == MLP]
    assert windows(database, run="run-9") == windows(database, case=MLP[:-1]) == []


def test_a_recording_comes_back_as_it_was(database: Database) -> None:
    observed(database)
    whole = "run-1", MLP, ENVIRONMENT.fingerprint, 0, "GPU-1"
    assert recording(database, *whole) == GPU
    assert recording(database, *whole[:-1], "host") == HOST
    for place, other in enumerate(("run-2", "nobody", "nowhere", 1, "GPU-2")):
        strange = [*whole[:place], other, *whole[place + 1 :]]
        assert recording(database, *strange) is None  # pyright: ignore[reportArgumentType]


def test_of_two_recordings_of_one_device_the_first_stays(database: Database) -> None:
    (found,) = only(database, HOST, replace(HOST, notes=("the second",), values={}))
    assert found.utilisation == 50.0
    assert recording(database, "run-1", MLP, ENVIRONMENT.fingerprint, 0, "host") == HOST


def test_recordings_of_another_length_leave_nothing_of_their_outcome(database: Database) -> None:
    with pytest.raises(ValueError, match="different lengths"):
        only(database, replace(HOST, ended_ns=()))
    assert queries.outcomes_of_run(database, "run-1") == []


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [({"blob": b"gone"}, DamagedTelemetry, "cannot be read: "), ({"codec": 9}, SchemaTooNew, "form 9")],
)
def test_damage_is_a_sentence_and_hurts_no_list(
    database: Database, values: dict[str, object], error: type[Exception], text: str
) -> None:
    observed(database)
    with database.writing() as connection:
        connection.execute(update(tables.TelemetryRow).values(values))
    with pytest.raises(error, match=text):
        recording(database, "run-1", MLP, ENVIRONMENT.fingerprint, 0, "host")
    assert len(windows(database)) == 4


def test_pruning_takes_old_recordings_and_nothing_else(database: Database) -> None:
    for night in range(3):
        observed(database, f"run-{night}", night)
    with database.reading() as connection:
        sizes = connection.execute(select(tables.TelemetryRow.run_number, tables.TelemetryRow.blob)).all()
    old = sum(len(each.blob) for each in sizes) * 2 // 3
    kept = [_but_telemetry(database, f"run-{night}") for night in range(3)]

    assert prune(database, a_night(2), dry_run=True) == PruneResult(8, old)
    assert len(windows(database)) == 12, "a dry run deletes nothing"
    assert prune(database, a_night(2)) == PruneResult(8, old)
    assert {each.run for each in windows(database)} == {"run-2"}, "it started then, and not before"
    assert [_but_telemetry(database, f"run-{night}") for night in range(3)] == kept
    assert prune(database, a_night(2)) == prune(database, a_night(2), dry_run=True) == PruneResult(0, 0)


def test_what_was_pruned_does_not_come_back_with_its_outcome(database: Database) -> None:
    observed(database)
    prune(database, a_night(1))
    observed(database)
    assert windows(database) == []


def _but_telemetry(database: Database, run: str) -> tuple[object, ...]:
    """Everything about a run that must stay for ever."""
    samples = queries.samples(database, run, MLP, ENVIRONMENT.fingerprint, 0)
    assert samples and queries.measurements_of_run(database, run)
    return (
        queries.run_record(database, run),
        queries.outcomes_of_run(database, run),
        queries.measurements_of_run(database, run),
        samples,
    )
