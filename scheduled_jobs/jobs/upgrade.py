"""Job `upgrade`: an upgrade judged by `pyrometer upgrade`, its decision and its report kept."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from records.tasks import Task
from scheduled_jobs.jobs.context import Done, Hands
from scheduled_jobs.jobs.environment_aliases import resolved
from scheduled_jobs.jobs.measure import options, why
from scheduled_jobs.scheduler.task_runs import Measured, measured
from workflows.load_run import retell

#: Reasons of a decision that are kept, the weightiest first.
_REASONS = 5


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
    return Done(result=_decided(hands, run, old, new, report))


def report_file(data_dir: Path, old: str, new: str, task: Task) -> Path:
    """Where the report of an upgrade is written."""
    name = re.sub(r"[^A-Za-z0-9.+-]+", "-", f"{old}-to-{new}").strip("-.")
    return data_dir / "reports" / f"upgrade-{name}-{task.id}.html"


def _decided(hands: Hands, run: Measured, old: str, new: str, report: Path) -> dict[str, Any]:
    told = retell(hands.data_dir, run.run, hands.open_database)
    assert told.header is not None
    comparison = told.header.compared
    assert comparison is not None
    verdict = comparison.verdict(comparison.results(told.result.outcomes))
    first = dict.fromkeys([*verdict.grounds, *verdict.reasons])
    reasons: Sequence[str] = [reason.text for reason in first][:_REASONS]
    return {
        "run": run.run,
        "old": old,
        "new": new,
        "decision": verdict.decision,
        "reasons": list(reasons),
        "broken": [one.case for one in verdict.broken],
        # One that was gone on with after an interruption writes none, nor does another machine:
        # `pyrometer report RUN` tells it.
        "report": str(report) if report.exists() else "",
        "summary": f"{old} -> {new}: {verdict.decision}, {reasons[0]}",
    }
