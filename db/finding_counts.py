"""What the findings come to without being read: how many are open, and which schedules have any."""

from datetime import datetime

from sqlalchemy import func, or_, select

from .engine import Database
from .finding_tables import Finding


def open_regressions(database: Database, now: datetime) -> int:
    """How many regressions are confirmed and open, and not muted at a moment."""
    heard = or_(Finding.muted_until.is_(None), Finding.muted_until <= now)
    query = (
        select(func.count())
        .select_from(Finding)
        .where(Finding.state == "confirmed", Finding.direction == "worse", Finding.triage == "open", heard)
    )
    with database.reading() as connection:
        return connection.execute(query).scalar_one()


def schedules_with_findings(database: Database) -> list[str]:
    """The schedules in whose nights anything was ever found, by name."""
    with database.reading() as connection:
        # Not sorted by the database: each has its own order of texts.
        return sorted(connection.execute(select(Finding.schedule).distinct()).scalars())
