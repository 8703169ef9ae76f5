"""A dispatch fingerprint belongs to the hardware that it was taken on, as a run does.

Before, it belonged to its machine and device alone: GPUs of two models that followed each other in one host
shared theirs. Each gets the hardware of the newest run of its machine and device that began before it was
taken, or else of the first one. Those without such a run are deleted, and taken again when needed.
"""

import json
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

KEY = ["case_id", "environment_id", "machine_id", "hardware_id", "preset_id", "harness", "device"]

HARDWARE = sa.text("SELECT id, facts FROM hardware")
RUNS = sa.text("SELECT machine_id, hardware_id, started_at FROM run ORDER BY machine_id, started_at")
TAKEN = sa.text("SELECT DISTINCT machine_id, device, taken_at FROM case_fingerprint")
FILL = sa.text(
    "UPDATE case_fingerprint SET hardware_id = :hardware "
    "WHERE machine_id = :machine AND device = :device AND taken_at = :taken"
)


def upgrade() -> None:
    """Add the column, fill it, and make it part of the key."""
    with op.batch_alter_table("case_fingerprint") as table:
        table.add_column(sa.Column("hardware_id", sa.Integer(), nullable=True))
    connection = op.get_bind()
    if filled := _filled(connection):
        connection.execute(FILL, filled)
    op.execute("DELETE FROM case_fingerprint WHERE hardware_id IS NULL")
    with op.batch_alter_table("case_fingerprint") as table:
        table.alter_column("hardware_id", existing_type=sa.Integer(), nullable=False)
        table.drop_constraint(op.f("pk_case_fingerprint"), type_="primary")
        table.create_primary_key(op.f("pk_case_fingerprint"), KEY)
        table.create_foreign_key(
            op.f("fk_case_fingerprint_hardware_id_hardware"), "hardware", ["hardware_id"], ["id"]
        )


def _filled(connection: sa.Connection) -> list[dict[str, Any]]:
    """The hardware of each machine, device and time of taking; those without one are missing."""
    with_gpus = {row.id for row in connection.execute(HARDWARE) if json.loads(row.facts).get("gpus")}
    runs = {
        machine: [(run.started_at, run.hardware_id) for run in own]
        for machine, own in groupby(connection.execute(RUNS).all(), lambda run: run.machine_id)
    }
    found: list[dict[str, Any]] = []
    for machine, device, taken in connection.execute(TAKEN):
        gpu = device.startswith("cuda")
        own = [run for run in runs.get(machine, ()) if (run[1] in with_gpus) == gpu]
        before = [run for run in own if run[0] <= taken]
        if own:
            (_, hardware) = before[-1] if before else own[0]
            found.append({"machine": machine, "device": device, "taken": taken, "hardware": hardware})
    return found
