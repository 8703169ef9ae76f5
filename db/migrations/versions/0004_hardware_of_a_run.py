"""The hardware is the run's own: a host may be measured with and without its GPUs, or on fewer CPUs."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

# What a run measured on before is what its machine was first stored with: nothing else is known.
FILL = """
UPDATE run SET hardware_id = (SELECT machine.hardware_id FROM machine WHERE machine.id = run.machine_id)
"""


def upgrade() -> None:
    """Move the hardware from the machine to its runs."""
    with op.batch_alter_table("run") as run:
        run.add_column(sa.Column("hardware_id", sa.Integer(), nullable=True))
    op.execute(FILL)
    with op.batch_alter_table("run") as run:
        run.alter_column("hardware_id", existing_type=sa.Integer(), nullable=False)
        run.create_foreign_key(op.f("fk_run_hardware_id_hardware"), "hardware", ["hardware_id"], ["id"])
    with op.batch_alter_table("machine") as machine:
        machine.drop_constraint(op.f("fk_machine_hardware_id_hardware"), type_="foreignkey")
        machine.drop_column("hardware_id")
