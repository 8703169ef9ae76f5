"""Job `upgrade`: an upgrade judged by `pyrometer upgrade`, its decision and its report kept."""

import re
from pathlib import Path
from typing import Any

from analysis.comparison.comparison import DECIDED
from db.runs.queries import run_record
from records.tasks import Task
from scheduled_jobs.jobs.context import Done, Hands
from scheduled_jobs.jobs.environment_aliases import resolved
from scheduled_jobs.jobs.measure import options, why
from scheduled_jobs.scheduler.task_runs import Measured, measured


def upgrade(task: Task, hands: Hands) -> Done:
    """Measure new against old and keep the decision: go, no-go, or unclear. Raises Stopped, ChildLost."""
    old, new = (resolved(str(task.spec[name]), hands.settings) for name in ("old", "new"))
    report = report_file(hands.data_dir, old, new, task)
    report.parent.mkdir(parents=True, exist_ok=True)
    # Another machine would write it into a folder of its own.
    told = [] if hands.away else ["--report", str(report)]
    run = measured(task, hands, ["upgrade", old, new, *options(task.spec, hands), *told])
    if not run.complete:
        return Done("failed", {"run": run.run} if run.began else {}, error=why(run))
    decided = _decided(hands, run, old, new, report)
    if decided is None:
        return Done("failed", {"run": run.run}, error=f"run {run.run} has no verdict")
    return Done(result=decided)


def report_file(data_dir: Path, old: str, new: str, task: Task) -> Path:
    """Where the report of an upgrade is written."""
    name = re.sub(r"[^A-Za-z0-9.+-]+", "-", f"{old}-to-{new}").strip("-.")
    return data_dir / "reports" / f"upgrade-{name}-{task.id}.html"


def _decided(hands: Hands, run: Measured, old: str, new: str, report: Path) -> dict[str, Any] | None:
    """The verdict that was stored with the run; None where it has none."""
    with hands.open_database() as database:
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
        # One that was gone on with after an interruption writes none, nor does another machine:
        # `pyrometer report RUN` tells it.
        "report": str(report) if report.exists() else "",
        "summary": f"{old} -> {new}: {decided['decision']}, {reasons[0]}",
    }
