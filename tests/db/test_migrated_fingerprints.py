"""Fingerprints of schema 0011 get the hardware of the run before them, with GPUs where they are of one."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from db.connection.engine import open_database
from db.runs.fingerprints import fingerprints_under
from support.builders.run_records import MLP, RESNET, a_machine, fingerprint_conditions

OLD = Path(__file__).parent / "old_databases" / "0011.db"

_HARDWARE = "INSERT INTO hardware SELECT 100 + :day, :gpu, :gpu, json_object('gpus', json_array(:gpu))"
#: A run on that hardware, in the host of the database.
_RUN = """
INSERT INTO run SELECT 100 + :day, :gpu, suite, :at, ended_at, state, machine_id, preset_id, harness, planned,
  command, notes, facts, counts, 100 + :day, kind, source, source_format FROM run WHERE id = 'night-0'
"""
_FINGERPRINT = """
INSERT INTO case_fingerprint SELECT case_id, environment_id, :machine, preset_id, harness, :device,
  fingerprint_id, status, reason, :at FROM case_fingerprint ORDER BY case_id LIMIT 1
"""


def _at(day: int) -> str:
    return f"2027-01-{day:02} 02:00:00.000000"


def test_each_gets_the_hardware_of_the_run_before_it(tmp_path: Path) -> None:
    path = tmp_path / "pyrometer.db"
    shutil.copy(OLD, path)
    with closing(sqlite3.connect(path)) as old:
        for day, gpu in ((5, "H100"), (7, "H200")):
            values = {"day": day, "gpu": gpu, "at": _at(day)}
            old.execute(_HARDWARE, values)
            old.execute(_RUN, values)
        old.execute("INSERT INTO machine VALUES (101, 'no run', 'bench-9', '{}')")
        (host,) = old.execute("SELECT machine_id FROM run WHERE id = 'H100'").fetchone()
        for machine, device, day in (
            *((host, "cuda:0, 550", 6), (host, "cuda:0, 580", 8), (host, "cuda:0, 535", 4)),
            (101, "cpu", 8),
        ):
            old.execute(_FINGERPRINT, {"machine": machine, "device": device, "at": _at(day)})
        old.commit()
    with open_database(f"sqlite:///{path}") as database:
        # Those on the CPU are of the host without its GPUs, though runs with them came later.
        assert set(fingerprints_under(database, fingerprint_conditions(), [MLP, RESNET])) == {MLP, RESNET}
    with closing(sqlite3.connect(path)) as new:
        query = (
            "SELECT device, hardware.fingerprint FROM case_fingerprint "
            "JOIN hardware ON hardware.id = hardware_id ORDER BY device"
        )
        found = new.execute(query).fetchall()
    on_cpu = a_machine().hardware.fingerprint
    assert found == [
        *(("cpu", on_cpu), ("cpu", on_cpu)),
        *(("cuda:0, 535", "H100"), ("cuda:0, 550", "H100"), ("cuda:0, 580", "H200")),
    ]
