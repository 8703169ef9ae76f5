"""The report of a scheduler, and an index for the newest run of each machine."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column, empty for schedulers that did not report it, and the index."""
    op.add_column("scheduler", sa.Column("facts", sa.Text(), nullable=True))
    op.create_index(op.f("ix_run_machine_id_started_at"), "run", ["machine_id", "started_at"])
