"""The job `measure`: one environment on one machine by `pyrometer run`, followed by a look at its history.

Most tracks are environments as typed; `latest` is the newest release tonight.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from configuration.settings import Settings
from records.outcomes import OutcomeStatus
from records.tasks import Task, TaskState
from runner.environments.interpreter import look_at
from runner.environments.package_index import list_versions
from runner.environments.recipe import Recipe
from runner.errors import IndexFailed
from runner.suites.suite import is_glob

from ..scheduler.planner import DETECT, detect_task
from ..scheduler.task_runs import MeasuredRun, run_measurement
from .context import FollowUp, JobContext, JobResult

#: The keys of a task's spec, and their options of `pyrometer run`.
_OPTIONS = {
    "suite": "--suite",
    "preset": "--preset",
    "profile": "--preset",  # in tasks of 0.1.0
    "replicates": "--replicates",
    "budget_seconds": "--budget",
    "device": "--device",
    "lock_clocks": "--lock-clocks",
}


def measure(task: Task, context: JobContext) -> JobResult:
    """Measure the task; a failed case is a result, a run that cannot begin is a failure."""
    track = str(task.spec["track"])
    environment = resolve_alias(track, context.settings)
    command = ["run", "--environment", environment, *run_options(task.spec, context)]
    if not context.away:
        # A remote machine does not store in this database.
        command.append("--fingerprint")
    run = run_measurement(task, context, command)
    if not run.stored:
        return JobResult(TaskState.FAILED, {"run": run.run} if run.began else {}, error=failure_reason(run))
    result = {
        "run": run.run,
        "environment": environment,
        "statuses": dict(run.counts),
        "summary": status_counts(run.counts),
    }
    look = FollowUp(f"{DETECT}:{task.schedule}", (detect_task(task.schedule, track, task.label),))
    return JobResult(TaskState.DONE, result, follow_ups=(look,))


def run_options(spec: Mapping[str, Any], context: JobContext) -> list[str]:
    """The command line options of a spec."""
    options = [
        part for key, option in _OPTIONS.items() if spec.get(key) for part in (option, _text(spec[key]))
    ]
    chosen = [part for case in spec.get("cases") or () for part in ("--case", _all_of(str(case)))]
    return [*options, *chosen, *case_files(spec.get("case_files") or (), context)]


def _all_of(pattern: str) -> str:
    """A workload's bare name as all of its cases: `pyrometer run --case NAME` alone means a small one."""
    return pattern if "/" in pattern or is_glob(pattern) else f"{pattern}/"


def case_files(names: Iterable[str], context: JobContext) -> list[str]:
    """Files of own cases for a command line; relative paths count from the folder of pyrometer.toml.

    A remote machine has its own pyrometer.toml, in the folder in which its commands run.
    """
    file = context.settings.file
    folder = file.parent if file is not None and not context.away else Path()
    return [part for name in names for part in ("--cases", str(folder / Path(name).expanduser()))]


def status_counts(statuses: Mapping[OutcomeStatus, int]) -> str:
    """The number of replicates by status, most first: `66 ok, 2 crashed`."""
    most_first = sorted(statuses.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{count} {status}" for status, count in most_first) or "nothing measured"


def failure_reason(run: MeasuredRun) -> str:
    """The reason, as a sentence, why a run did not finish or is not in the database."""
    if run.refused:
        return run.refused
    if run.ended is None:
        return "the run did not finish"
    return run.ended.sentence or f"pyrometer ended with {run.ended.code} without a message"


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


LATEST = "latest"


def resolve_alias(track: str, settings: Settings) -> str:
    """The present environment of a track; raises IndexFailed if the newest release is unknown.

    A declared environment of that name takes precedence.
    """
    return track if track != LATEST or track in settings.environments else newest_release()


def newest_release() -> str:
    """The newest release that the package index offers to this machine; raises IndexFailed."""
    # Without `pre` an index returns releases only.
    releases = list_versions(Recipe(), look_at(""))
    if not releases:
        raise IndexFailed("the package index offers no release of PyTorch")
    return releases[-1]
