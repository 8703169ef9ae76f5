"""Job `upgrade`: an upgrade judged by `pyrometer upgrade`, its decision and its report kept."""

import re
from pathlib import Path
from typing import Any

from analysis.comparison.comparison import DECIDED
from db.runs.queries import run_record
from records.tasks import Task, TaskState
from scheduled_jobs.jobs.context import JobContext, JobResult
from scheduled_jobs.jobs.environment_aliases import resolve_alias
from scheduled_jobs.jobs.measure import failure_reason, run_options
from scheduled_jobs.scheduler.task_runs import MeasuredRun, run_measurement


def upgrade(task: Task, context: JobContext) -> JobResult:
    """Measure new against old and keep the decision: go, no-go, or unclear. Raises Stopped, ChildLost."""
    old, new = (resolve_alias(str(task.spec[name]), context.settings) for name in ("old", "new"))
    report = report_file(context.data_dir, old, new, task)
    report.parent.mkdir(parents=True, exist_ok=True)
    # Another machine would write it into a folder of its own.
    report_option = [] if context.away else ["--report", str(report)]
    run = run_measurement(
        task, context, ["upgrade", old, new, *run_options(task.spec, context), *report_option]
    )
    if not run.complete:
        return JobResult(TaskState.FAILED, {"run": run.run} if run.began else {}, error=failure_reason(run))
    decided = _decided(context, run, old, new, report)
    if decided is None:
        return JobResult(TaskState.FAILED, {"run": run.run}, error=f"run {run.run} has no verdict")
    return JobResult(result=decided)


def report_file(data_dir: Path, old: str, new: str, task: Task) -> Path:
    """Where the report of an upgrade is written."""
    name = re.sub(r"[^A-Za-z0-9.+-]+", "-", f"{old}-to-{new}").strip("-.")
    return data_dir / "reports" / f"upgrade-{name}-{task.id}.html"


def _decided(
    context: JobContext, run: MeasuredRun, old: str, new: str, report: Path
) -> dict[str, Any] | None:
    """The verdict that was stored with the run; None where it has none."""
    with context.open_database() as database:
        stored = run_record(database, run.run)
    decided = stored.facts.get(DECIDED) if stored else None
    if decided is None:
        return None
    # A run of an earlier version has its first ground alone.
    reasons = decided.get("reasons") or [decided["because"]]
    return {
        "run": run.run,
        "old": old,
        "new": new,
        "decision": decided["decision"],
        "reasons": reasons,
        "broken": decided.get("broken", []),
        # One that was resumed after an interruption writes none, nor does another machine:
        # `pyrometer report RUN` shows it.
        "report": str(report) if report.exists() else "",
        "summary": f"{old} -> {new}: {decided['decision']}, {reasons[0]}",
    }
