"""What the findings come to without being read: how many of each group, and which schedules have any."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import case, func, select

from records.findings import FindingGroup, group_of

from ..connection.engine import Database
from ..schema.finding_tables import Finding
from .store import silenced_at


def by_group(database: Database, now: datetime, schedule: str | None = None) -> Mapping[FindingGroup, int]:
    """How many findings are in each group at a moment, of all schedules or of one; no group is left out."""
    silenced = case((silenced_at(now), 1), else_=0)
    query = select(Finding.state, Finding.direction, silenced, func.count()).group_by(
        Finding.state, Finding.direction, silenced
    )
    if schedule is not None:
        query = query.where(Finding.schedule == schedule)
    found = dict.fromkeys(FindingGroup, 0)
    with database.reading() as connection:
        for state, direction, is_silenced, count in connection.execute(query):
            found[group_of(state, direction, silenced=bool(is_silenced))] += count
    return found


def open_regressions(database: Database, now: datetime) -> int:
    """How many regressions are confirmed and open, and not muted at a moment."""
    return by_group(database, now)[FindingGroup.OPEN]


def schedules_with_findings(database: Database) -> list[str]:
    """The schedules in whose nights anything was ever found, by name."""
    with database.reading() as connection:
        # Not sorted by the database: each has its own order of texts.
        return sorted(connection.execute(select(Finding.schedule).distinct()).scalars())
