"""The job `prune`: what `pyrometer db prune` does, by itself."""

from db.queue_records import Task

from ..retention import Kept, prune
from .jobs import Done, Hands


def tidy(task: Task, hands: Hands) -> Done:
    """Delete the raw rows that are older than they are kept."""
    kept = Kept(hands.settings.telemetry_days, hands.settings.samples_days)
    with hands.open_database() as database:
        gone = list(prune(database, kept))
    return Done("done", {"gone": gone, "summary": "; ".join(gone) or "nothing is old enough"})
