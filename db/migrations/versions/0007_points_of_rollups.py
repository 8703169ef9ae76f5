"""The number of points in each rollup, so that one more is added without reading the others."""

import struct
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

VERSIONS = sa.text("SELECT DISTINCT torch_version FROM release_rollup")
POINTS = sa.text("""
SELECT m.series_id, m.point
FROM measurement AS m JOIN environment AS e ON e.id = m.environment_id
WHERE e.torch_version = :version
ORDER BY m.series_id, m.point
""")
FILL = sa.text(
    "UPDATE release_rollup SET points = :points WHERE torch_version = :version AND series_id = :series"
)


def _packed(rows: Iterable[sa.Row[Any]]) -> bytes:
    # One zero of the two: they are equal and not the same bytes.
    values = [row.point + 0.0 for row in rows]
    return struct.pack(f">{len(values)}d", *values)


def upgrade() -> None:
    """Add the column and fill it."""
    clustered = {"sqlite_with_rowid": False}
    with op.batch_alter_table("release_rollup", table_kwargs=clustered) as rollup:
        rollup.add_column(sa.Column("points", sa.LargeBinary(), nullable=True))
    connection = op.get_bind()
    for version in connection.execute(VERSIONS).scalars().all():
        rows = connection.execute(POINTS, {"version": version})
        filled = [
            {"points": _packed(group), "version": version, "series": series}
            for series, group in groupby(rows, key=lambda row: row[0])
        ]
        if filled:
            connection.execute(FILL, filled)
    # What no measurement stands behind is none: `pyrometer db check` would have said so.
    connection.execute(sa.text("DELETE FROM release_rollup WHERE points IS NULL"))
    with op.batch_alter_table("release_rollup", table_kwargs=clustered) as rollup:
        rollup.alter_column("points", existing_type=sa.LargeBinary(), nullable=False)
