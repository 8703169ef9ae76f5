"""Tables and columns get the names of the glossary; no row changes.

`fire` becomes `scheduled_run` and its `how` becomes `kind`; `profile`, the settings of a measurement, becomes
`preset`; `telemetry.rung` becomes `utilisation_source`. Constraints are named after what they are about.
"""

from alembic import op

revision = "0011"
down_revision = "0010"

KINDS = "kind IN ('timetable', 'caught up', 'by hand', 'follow-up', 'missed', 'first seen')"
DUE = ["schedule", "due_at"]
#: The tables that refer to a preset.
OWNED = ("series", "run", "case_fingerprint")


def upgrade() -> None:
    """Rename the tables, the columns and their constraints."""
    op.execute("ALTER TABLE telemetry RENAME COLUMN rung TO utilisation_source")
    _scheduled_run()
    _preset()


def _scheduled_run() -> None:
    with op.batch_alter_table("task") as task:
        task.drop_constraint(op.f("fk_task_schedule_due_at_fire"), type_="foreignkey")
    op.rename_table("fire", "scheduled_run")
    op.execute("ALTER TABLE scheduled_run RENAME COLUMN how TO kind")
    with op.batch_alter_table("scheduled_run") as scheduled_run:
        scheduled_run.drop_constraint(op.f("ck_fire_how"), type_="check")
        scheduled_run.create_check_constraint(op.f("ck_scheduled_run_kind"), KINDS)
        scheduled_run.drop_constraint(op.f("pk_fire"), type_="primary")
        scheduled_run.create_primary_key(op.f("pk_scheduled_run"), DUE)
    with op.batch_alter_table("task") as task:
        task.create_foreign_key(op.f("fk_task_schedule_due_at_scheduled_run"), "scheduled_run", DUE, DUE)


def _preset() -> None:
    for name in OWNED:
        with op.batch_alter_table(name) as table:
            table.drop_constraint(op.f(f"fk_{name}_profile_id_profile"), type_="foreignkey")
        op.execute(f"ALTER TABLE {name} RENAME COLUMN profile_id TO preset_id")
    op.rename_table("profile", "preset")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER SEQUENCE profile_id_seq RENAME TO preset_id_seq")
    with op.batch_alter_table("preset") as preset:
        preset.drop_constraint(op.f("uq_profile_fingerprint"), type_="unique")
        preset.create_unique_constraint(op.f("uq_preset_fingerprint"), ["fingerprint"])
        preset.drop_constraint(op.f("pk_profile"), type_="primary")
        preset.create_primary_key(op.f("pk_preset"), ["id"])
    with op.batch_alter_table("series") as series:
        series.drop_constraint(op.f("uq_series_case_id_metric_hardware_id_profile_id"), type_="unique")
        series.create_unique_constraint(
            op.f("uq_series_case_id_metric_hardware_id_preset_id"),
            ["case_id", "metric", "hardware_id", "preset_id"],
        )
    for name in OWNED:
        with op.batch_alter_table(name) as table:
            table.create_foreign_key(op.f(f"fk_{name}_preset_id_preset"), "preset", ["preset_id"], ["id"])
