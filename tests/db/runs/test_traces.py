"""Operator tables are found by run and by workload, newest run first, and nothing else is taken for one."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from db.connection.engine import Database
from db.runs.store import save_outcomes, save_run
from db.runs.traces import newest_operator_table, operator_tables
from records.machines import Machine
from records.series import SeriesKey
from support.builders.run_records import (
    MLP,
    RESNET,
    RESNET_COMPILED,
    a_machine,
    a_night,
    a_preset,
    a_run,
    an_environment,
    an_outcome,
)

ROWS = [{"name": "aten::addmm", "kind": "operator", "calls": 3.0, "self_cpu_us": 1.5}]
TRACED = {"operators": ROWS, "device": "cpu"}


def fill(database: Database) -> None:
    for night, cases in enumerate([(RESNET, RESNET_COMPILED), (RESNET, MLP)]):
        run = a_run(f"run-{night}", suite="profile", started_at=a_night(night))
        save_run(database, run)
        save_outcomes(database, run.id, [an_outcome(case, metrics={}, facts=TRACED) for case in cases])
    measured = a_run("measured", started_at=a_night(5))
    save_run(database, measured)
    save_outcomes(database, measured.id, [an_outcome(RESNET)])
    failed = a_run("failed", suite="profile", started_at=a_night(6))
    save_run(database, failed)
    save_outcomes(database, failed.id, [an_outcome(RESNET, status="crashed", reason="no")])


def traced(
    database: Database,
    id: str,
    night: int,
    *cases: str,
    facts: Mapping[str, Any] = TRACED,
    status: str = "ok",
    machine: Machine | None = None,
    torch_version: str = "2.13.0+cpu",
) -> None:
    """A run of traces, begun one after the other."""
    environment = an_environment(torch_version)
    run = a_run(id, suite="profile", started_at=a_night(night), environments=[environment], machine=machine)
    save_run(database, run)
    outcomes = [
        an_outcome(
            case,
            environment=environment,
            status=status,
            metrics={},
            facts=facts,
            blocks=(),
            started_at=a_night(night) + timedelta(seconds=second),
        )
        for second, case in enumerate(cases)
    ]
    save_outcomes(database, id, outcomes)


def many(number: int) -> list[str]:
    return [f"case_{each:03}/infer/-/eager" for each in range(number)]


def found(database: Database, **which: str) -> list[tuple[str, str]]:
    return [(table.run, table.case) for table in operator_tables(database, **which)]


def test_tables_by_run_and_by_workload(database: Database) -> None:
    fill(database)
    assert [run for run, _ in found(database)] == ["run-1", "run-1", "run-0", "run-0"]
    assert set(found(database, run="run-1")) == {("run-1", RESNET), ("run-1", MLP)}
    workload = RESNET.rpartition("/")[0]
    assert [run for run, _ in found(database, workload=workload)] == ["run-1", "run-0", "run-0"]
    # An underscore stands for itself, and a workload for no longer one.
    assert found(database, workload=workload.replace("r", "_", 1)) == []
    assert found(database, workload=workload[:-1]) == []
    assert found(database, run="measured") == found(database, run="failed") == []


def test_a_table_tells_what_must_be_alike(database: Database) -> None:
    fill(database)
    table = operator_tables(database, run="run-1")[0]
    assert table.rows == tuple(ROWS)
    assert (table.device, table.torch_version) == ("cpu", "2.13.0+cpu")
    assert table.hardware.startswith("Xeon 6430, 2 cores (") and table.preset.startswith("quiet (")
    assert replace(table, case=RESNET).workload == "resnet50/infer/batch=8,image=224"


def test_what_holds_no_table_hides_none(database: Database) -> None:
    traced(database, "good", 0, MLP)
    traced(database, "crashed", 1, *many(100), status="crashed", facts={"threads": 1})
    traced(database, "no-trace", 2, *many(100), facts={"note": '"operators":[{'})
    assert found(database) == found(database, workload=MLP.rpartition("/")[0]) == [("good", MLP)]
    assert [table.run for table in operator_tables(database, limit=1)] == ["good"]


def test_all_tables_of_one_run_are_listed(database: Database) -> None:
    traced(database, "wide", 0, *many(130))
    assert found(database, run="wide") == [("wide", case) for case in many(130)]
    assert found(database, run="wide", case=many(130)[-1]) == [("wide", many(130)[-1])]
    assert len(found(database)) == 100


def test_a_workload_is_spelled_as_it_is(database: Database) -> None:
    traced(database, "run-1", 0, "Net/infer/-/eager", "net/infer/-/eager", "nét/infer/-/eager")
    for workload in ("Net/infer/-", "net/infer/-", "nét/infer/-"):
        assert found(database, workload=workload) == [("run-1", f"{workload}/eager")]


def test_tables_of_other_hardware_hide_none_that_are_like_those_of_a_run(database: Database) -> None:
    traced(database, "old", 0, MLP)
    traced(database, "mine", 1, MLP)
    for number in range(100):
        traced(database, f"other-{number}", 2, MLP, machine=a_machine("bench-2", "EPYC"))
    workload = MLP.rpartition("/")[0]
    assert found(database, workload=workload, like="mine") == [("mine", MLP), ("old", MLP)]
    assert len(found(database, workload=workload, like="other-7")) == 100
    assert found(database, workload=workload, like="none") == []


@pytest.mark.slow
def test_the_newest_table_of_a_version_is_found_behind_any_others(database: Database) -> None:
    for number, version in enumerate(("2.12.0+cpu", "2.13.0+cpu", "2.13.0+cpu")):
        traced(database, f"run-{number}", number, MLP, torch_version=version)
    for number in range(100):
        traced(database, f"other-{number}", 4, MLP, RESNET, machine=a_machine("bench-2", "EPYC"))
    hardware, preset = a_machine().hardware, a_preset()
    names = (hardware.fingerprint, hardware.label, preset.fingerprint, preset.name)

    def newest(case: str, version: str) -> str | None:
        table = newest_operator_table(database, SeriesKey(case, "latency", *names), version)
        return table and table.run

    assert (newest(MLP, "2.12.0+cpu"), newest(MLP, "2.13.0+cpu")) == ("run-0", "run-2")
    assert newest(MLP, "2.13.0") is newest(RESNET, "2.13.0+cpu") is None
