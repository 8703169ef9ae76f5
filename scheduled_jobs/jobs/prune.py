"""The job `prune`: the same as `pyrometer db prune`, and removal of old files of runs."""

from records.tasks import Task, TaskState
from workflows.database_upkeep import Retention, clear, prune

from .context import JobContext, JobResult


def prune_rows(task: Task, context: JobContext) -> JobResult:
    """Delete raw rows beyond their retention, and files that runs left on this machine."""
    retention = Retention(context.settings.telemetry_days, context.settings.samples_days)
    with context.open_database() as database:
        sentences = list(prune(database, retention))
    sentences += clear(context.data_dir, context.now())
    summary = "; ".join(sentences) or "nothing is old enough"
    return JobResult(TaskState.DONE, {"gone": sentences, "summary": summary})
