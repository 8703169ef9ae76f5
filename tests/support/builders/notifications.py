"""Nights to report: findings, tasks and schedulers as detection and the queue leave them."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from records.evidence import Evidence
from records.findings import Finding
from records.series import SeriesKey
from records.tasks import SchedulerSeen, Task
from scheduled_jobs.notifications.digest import DigestData, PartResult
from support.builders.run_records import RESNET

#: When the digest of the night is made, and when the one before was.
MORNING = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)
BEFORE = MORNING - timedelta(days=1)
#: When the night was due.
DUE = datetime(2026, 11, 22, 2, 30, tzinfo=UTC)


def a_finding(id: int = 1, case: str = RESNET, *, metric: str = "latency", **changes: Any) -> Finding:
    """A regression that was confirmed this night, found the night before."""
    values: dict[str, Any] = {
        "key": SeriesKey(case, metric, "hardware", "H200", "profile", "quiet"),
        "schedule": "nightly",
        "track": "nightly",
        "label": "h200",
        "direction": "worse",
        "shape": "step",
        "at_run": "run-2",
        "at": DUE - timedelta(days=1),
        "before_run": "run-1",
        "before": DUE - timedelta(days=2),
        "machine": "h200",
        "old_environment": "old",
        "old_torch_version": "2.14.0.dev20261119",
        "new_environment": "new",
        "new_torch_version": "2.14.0.dev20261120",
        "change": 0.1,
        "low": 0.08,
        "high": 0.12,
        "state": "confirmed",
        "found_at": BEFORE,
        "decided_at": DUE,
        "evidence": Evidence(),
        "group_key": "",
    }
    return Finding(id=id, **{**values, **changes})


def a_task(id: int = 1, **changes: Any) -> Task:
    """The task of the night, done by h200 in run-9."""
    values: dict[str, Any] = {
        "schedule": "nightly",
        "due_at": DUE,
        "part": "nightly@h200",
        "job": "measure",
        "spec": {"track": "nightly"},
        "label": "h200",
        "state": "done",
        "attempts": 1,
        "run_id": "run-9",
        "owner": "h200/boot/7/1",
        "ended_at": DUE + timedelta(hours=1),
    }
    return Task(id=id, **{**values, **changes})


def a_scheduler(
    machine: str = "h200", seen_at: datetime = MORNING, labels: tuple[str, ...] = ()
) -> SchedulerSeen:
    """A scheduler of a machine, started a week ago."""
    return SchedulerSeen(
        f"{machine}/boot/7/1", machine, labels, MORNING - timedelta(days=7), seen_at, 3, "0.1.0"
    )


def a_ran(machine: str = "h200", **changes: Any) -> PartResult:
    """What became of the night on a machine: all 17 cases ok."""
    values: dict[str, Any] = {"state": "done", "run": f"run-{machine}", "ok": 17, "cases": 17}
    return PartResult(
        **{
            "schedule": "nightly",
            "part": f"nightly@{machine}",
            "due_at": DUE,
            "machine": machine,
            **values,
            **changes,
        }
    )


def a_night(**changes: Any) -> DigestData:
    """A night of two machines on which nothing moved."""
    values: dict[str, Any] = {"ran": [a_ran(), a_ran("a10")], "cases": 34}
    return DigestData(date(2026, 11, 22), "UTC", BEFORE, MORNING, **{**values, **changes})
