"""Dispatch fingerprints: contents, and which case had which of them where."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

STATUSES = (
    "'ok', 'skipped', 'unsupported', 'oom', 'timeout', 'crashed', 'wrong', 'not_compiled', 'contended', "
    "'throttled', 'lost'"
)
KEY = ("case_id", "environment_id", "machine_id", "profile_id", "harness", "device")
#: Columns that name a row of another table.
OWNERS = {
    "case_id": "benchmark_case",
    "environment_id": "environment",
    "machine_id": "machine",
    "profile_id": "profile",
    "fingerprint_id": "dispatch_fingerprint",
}


def upgrade() -> None:
    """Make both tables; they begin empty."""
    op.create_table(
        "dispatch_fingerprint",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dispatch_fingerprint")),
        sa.UniqueConstraint("hash", name=op.f("uq_dispatch_fingerprint_hash")),
    )
    op.create_table(
        "case_fingerprint",
        *(sa.Column(name, sa.Integer() if name in OWNERS else sa.Text(), nullable=False) for name in KEY),
        sa.Column("fingerprint_id", sa.Integer(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint(*KEY, name=op.f("pk_case_fingerprint")),
        sa.CheckConstraint(f"status IN ({STATUSES})", name=op.f("ck_case_fingerprint_status")),
        *(
            sa.ForeignKeyConstraint([name], [f"{owner}.id"], name=op.f(f"fk_case_fingerprint_{name}_{owner}"))
            for name, owner in OWNERS.items()
        ),
    )
    op.create_index(op.f("ix_case_fingerprint_environment_id"), "case_fingerprint", ["environment_id"])
