"""Operator tables are found by run and by workload, newest run first, and nothing else is taken for one."""

from dataclasses import replace

from builders import MLP, RESNET, RESNET_COMPILED, a_night, a_run, an_outcome

from db.engine import Database
from db.store import save_outcomes, save_run
from db.traces import operator_tables

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
    assert table.hardware.startswith("Xeon 6430, 2 cores (") and table.profile.startswith("quiet (")
    assert replace(table, case=RESNET).workload == "resnet50/infer/batch=8,image=224"
