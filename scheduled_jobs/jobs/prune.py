"""The job `prune`: what `pyrometer db prune` does, by itself, and old leftovers of runs."""

from records.tasks import Task
from workflows.database_upkeep import Kept, clear, prune

from .context import Done, Hands


def tidy(task: Task, hands: Hands) -> Done:
    """Delete the raw rows that are older than they are kept, and what runs left behind on this machine."""
    kept = Kept(hands.settings.telemetry_days, hands.settings.samples_days)
    with hands.open_database() as database:
        gone = list(prune(database, kept))
    gone += clear(hands.data_dir, hands.now())
    return Done("done", {"gone": gone, "summary": "; ".join(gone) or "nothing is old enough"})
