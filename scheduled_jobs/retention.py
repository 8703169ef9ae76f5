"""How long raw telemetry is kept."""

from datetime import UTC, datetime, timedelta

from db import telemetry
from db.engine import Database
from db.records import Pruned


def prune(database: Database, days: int, *, dry_run: bool = False) -> Pruned:
    """Delete the recordings of runs that started more than `days` days ago, or only count them.

    Raises DatabaseError.
    """
    now = datetime.now(UTC)
    try:
        before = now - timedelta(days=days)
    except OverflowError:
        # Whoever asks for more years than the calendar has wants to keep them.
        return Pruned(0, 0)
    return telemetry.prune(database, before, dry_run=dry_run)


def described(pruned: Pruned, days: int) -> str:
    """What went, or would go, for a sentence: how many recordings, how large, of what age, and what stays."""
    recordings = "1 recording" if pruned.windows == 1 else f"{pruned.windows} recordings"
    age = "1 day" if days == 1 else f"{days} days"
    size = f"{pruned.bytes / 2**20:.1f} MiB" if pruned.bytes >= 2**20 else f"{pruned.bytes / 2**10:.1f} KiB"
    return f"{recordings} ({size}) of runs that started more than {age} ago; all metrics stay"
