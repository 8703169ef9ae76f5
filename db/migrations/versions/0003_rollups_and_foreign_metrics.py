"""Rollups of releases, made of the measurements that are there, and metrics that came from outside."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

# What `db.series.rollups` does today, written out: that module will move on, and this revision must not.
FILL = """
INSERT INTO release_rollup
    (torch_version, series_id, runs, median, lowest, highest, oldest_at, newest_at)
SELECT torch_version, series_id, count(DISTINCT run_number),
    min(middle) + 0.5 * (max(middle) - min(middle)),
    min(point), max(point), min(started_at), max(started_at)
FROM (
    SELECT torch_version, series_id, run_number, started_at, point,
        CASE WHEN 2 * place BETWEEN points AND points + 2 THEN point END AS middle
    FROM (
        SELECT e.torch_version, m.series_id, m.run_number, m.started_at, m.point,
            row_number() OVER (PARTITION BY e.torch_version, m.series_id ORDER BY m.point) AS place,
            count(*) OVER (PARTITION BY e.torch_version, m.series_id) AS points
        FROM measurement AS m JOIN environment AS e ON e.id = m.environment_id
        WHERE e.torch_version <> ''
    ) AS placed
) AS marked
GROUP BY torch_version, series_id
"""


def upgrade() -> None:
    """Make both tables and fill the first, and indexes: a version's environments, a suite's newest runs."""
    op.create_index(op.f("ix_run_suite_started_at"), "run", ["suite", "started_at"])
    op.create_index(op.f("ix_environment_torch_version"), "environment", ["torch_version"])
    op.create_table(
        "release_rollup",
        sa.Column("torch_version", sa.Text(), nullable=False),
        sa.Column(
            "series_id",
            sa.Integer(),
            sa.ForeignKey("series.id", name=op.f("fk_release_rollup_series_id_series")),
            nullable=False,
        ),
        sa.Column("runs", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=False) for name in ("median", "lowest", "highest")),
        *(sa.Column(name, sa.DateTime(timezone=True), nullable=False) for name in ("oldest_at", "newest_at")),
        sa.PrimaryKeyConstraint("torch_version", "series_id", name=op.f("pk_release_rollup")),
        sqlite_with_rowid=False,
    )
    op.execute(FILL)
    op.create_table(
        "metric",
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("name", "title", "unit", "better")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_metric")),
        sa.CheckConstraint("better IN ('lower', 'higher', 'neither')", name=op.f("ck_metric_better")),
    )
