"""How long raw rows and old tasks are kept; all that was made of them stays."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from db.engine import Database
from db.prune import prune_queue, prune_samples, prune_telemetry
from db.records import Pruned


@dataclass(frozen=True, slots=True)
class Kept:
    """For how many days after the start of a run its raw rows are kept; None: for ever."""

    telemetry_days: int | None = None
    samples_days: int | None = None


FOR_EVER = Kept()

#: For so long the queue keeps what it did and what made no run: longer than anybody asks what it was.
QUEUE_DAYS = 400


def prune(database: Database, kept: Kept, *, dry_run: bool = False) -> Iterator[str]:
    """Delete what is older than it is kept, or only look; answers for a sentence what went, or would go.

    That is how much of what and how old, and that all metrics stay; nothing where nothing is old enough.
    Raises DatabaseError.
    """
    if kept.telemetry_days is not None and (before := _days_ago(kept.telemetry_days)):
        gone = prune_telemetry(database, before, dry_run=dry_run)
        if gone.count:
            recordings = "1 recording" if gone.count == 1 else f"{gone.count} recordings"
            yield f"{recordings} {_described(gone, kept.telemetry_days)}"
    if kept.samples_days is not None and (before := _days_ago(kept.samples_days)):
        gone = prune_samples(database, before, dry_run=dry_run)
        if gone.count:
            outcomes = "1 outcome" if gone.count == 1 else f"{gone.count} outcomes"
            yield f"the samples of {outcomes} {_described(gone, kept.samples_days)}"
    if fires := prune_queue(database, datetime.now(UTC) - timedelta(days=QUEUE_DAYS), dry_run=dry_run):
        moments = "1 moment" if fires == 1 else f"{fires} moments"
        yield f"the tasks of {moments} that were due more than {QUEUE_DAYS} days ago and made no run"


def _days_ago(days: int) -> datetime | None:
    """The moment so many days ago; None for more than the calendar has: that is to keep everything."""
    try:
        return datetime.now(UTC) - timedelta(days=days)
    except OverflowError:
        return None


def _described(pruned: Pruned, days: int) -> str:
    age = "1 day" if days == 1 else f"{days} days"
    size = f"{pruned.bytes / 2**20:.1f} MiB" if pruned.bytes >= 2**20 else f"{pruned.bytes / 2**10:.1f} KiB"
    return f"({size}) of runs that started more than {age} ago; all metrics stay"
