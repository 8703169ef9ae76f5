"""Recordings of telemetry windows, a blob each."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make their table; nothing that is stored changes."""
    key = ("run_number", "case_id", "environment_id", "replicate")
    op.create_table(
        "telemetry",
        *(sa.Column(column, sa.Integer(), nullable=False) for column in key),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("rung", sa.Text(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("utilisation", sa.Double(), nullable=True),
        sa.Column("power", sa.Double(), nullable=True),
        sa.Column("temperature", sa.Double(), nullable=True),
        sa.Column("codec", sa.Integer(), nullable=False),
        sa.Column("blob", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint(*key, "device", name=op.f("pk_telemetry")),
        sa.ForeignKeyConstraint(key, [f"outcome.{column}" for column in key], name="fk_telemetry_outcome"),
    )
