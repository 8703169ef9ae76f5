"""Job `upgrade`: runs `pyrometer upgrade` and stores its decision and its report."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from analysis.decision.comparison import DECIDED, stored_comparison
from db.runs.queries import run_record
from records.tasks import Task, TaskState
from scheduled_jobs.jobs.context import JobContext, JobResult
from scheduled_jobs.jobs.measure import LATEST, failure_reason, resolve_alias, run_options
from scheduled_jobs.scheduler.task_runs import MeasuredRun, run_measurement
from workflows.errors import UsageError
from workflows.planning.plan_upgrade import UpgradeRequest

#: Further keys of a task, and their options. `case`, in a task of `pyrometer upgrade --on`, are cases as
#: typed; `cases`, of a schedule, are whole workloads.
_OPTIONS = {
    "policy": "--policy",
    "pairs": "--pairs",
    "cold_pairs": "--cold-pairs",
    "deadline": "--deadline",
    "waived_by": "--waived-by",
}
_REPEATED = {
    "case": "--case",
    "also": "--also",
    "waive": "--waive",
    "because": "--because",
    "packages": "--package",
}
#: The keys of a spec that differ from the field of the request.
_KEYS = {"cases": "case", "budget": "budget_seconds", "fingerprints": "fingerprint"}
_SHARED = frozenset({"old", "new", "suite", "preset", "device", "budget_seconds", "fingerprint", "screen"})
#: The reasons why options cannot be used on other machines.
_STAYS = {
    "case_files": "--cases cannot be combined with --on: the file is on this machine only",
    "census": "--census cannot be combined with --on: the file is on this machine only",
    "step": "--step cannot be combined with --on: the script is on this machine only",
    "packages": "--package cannot be combined with --on: it is only for a script of --step",
    "run_id": "--run-id cannot be combined with --on: each machine has its own run",
}


def upgrade(task: Task, context: JobContext) -> JobResult:
    """Measure new against old and keep the decision: go, no-go, or unclear. Raises JobStopped, ChildLost."""
    old, new = (resolve_alias(str(task.spec[name]), context.settings) for name in ("old", "new"))
    report = report_file(context.data_dir, old, new, task)
    report.parent.mkdir(parents=True, exist_ok=True)
    # Another machine would write it to its own folder.
    report_option = [] if context.away else ["--report", str(report)]
    options = (*run_options(task.spec, context), *_own_options(task.spec))
    run = run_measurement(task, context, ["upgrade", old, new, *options, *report_option])
    if not run.stored:
        return JobResult(TaskState.FAILED, {"run": run.run} if run.began else {}, error=failure_reason(run))
    decided = _stored_decision(context, run, task.spec, (old, new), report)
    if decided is None:
        return JobResult(TaskState.FAILED, {"run": run.run}, error=f"run {run.run} has no verdict")
    return JobResult(result=decided)


def task_spec(request: UpgradeRequest) -> dict[str, Any]:
    """The spec of a task that carries out a request on another machine.

    Raises UsageError for an option that cannot be carried out there.
    """
    usual, spec = UpgradeRequest(), dict[str, Any]()
    for one in fields(request):
        value, key = getattr(request, one.name), _KEYS.get(one.name, one.name)
        if value == getattr(usual, one.name):
            continue
        if key not in (*_SHARED, *_OPTIONS, *_REPEATED):
            option = one.name.replace("_", "-")
            raise UsageError(_STAYS.get(one.name, f"--{option} cannot be combined with --on"))
        spec[key] = list(value) if isinstance(value, tuple) else value
    return spec


def _own_options(spec: Mapping[str, Any]) -> list[str]:
    """The options of `pyrometer upgrade` that `run` does not have."""
    options = [part for key, option in _OPTIONS.items() if spec.get(key) for part in (option, str(spec[key]))]
    for key, option in _REPEATED.items():
        values: Sequence[object] = spec.get(key) or ()
        options += [part for value in values for part in (option, str(value))]
    options += ["--screen"] if spec.get("screen") else []
    return options if spec.get("fingerprint", True) else [*options, "--no-fingerprint"]


def report_file(data_dir: Path, old: str, new: str, task: Task) -> Path:
    """Where the report of an upgrade is written."""
    name = re.sub(r"[^A-Za-z0-9.+-]+", "-", f"{old}-to-{new}").strip("-.")
    return data_dir / "reports" / f"upgrade-{name}-{task.id}.html"


def _stored_decision(
    context: JobContext, run: MeasuredRun, spec: Mapping[str, Any], sides: tuple[str, str], report: Path
) -> dict[str, Any] | None:
    """The verdict that was stored with the run, with the present names of the `sides`; None without one."""
    with context.open_database() as database:
        stored = run_record(database, run.run)
    decided = stored.facts.get(DECIDED) if stored else None
    if stored is None or decided is None:
        return None
    comparison = stored_comparison(stored.facts)
    measured = comparison.asked if comparison else sides
    # A resumed run compares with the release that was the newest when it began.
    old, new = (
        was if spec[name] == LATEST else side
        for name, side, was in zip(("old", "new"), sides, measured, strict=True)
    )
    # A run of an earlier version has only its first reason.
    reasons = decided.get("reasons") or [decided["because"]]
    return {
        "run": run.run,
        "old": old,
        "new": new,
        "decision": decided["decision"],
        "reasons": reasons,
        "broken": decided.get("broken", []),
        # A resumed run writes no report, nor does another machine: `pyrometer report RUN` prints it.
        "report": str(report) if report.exists() else "",
        "summary": f"{old} -> {new}: {decided['decision']}, {reasons[0]}",
    }
