"""What runs now, what waits, and why it waits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

import pandas as pd

from analysis.staleness import WaitReason, alive
from dashboard.components import links, markup, wording
from dashboard.today.load import TodayData
from records.tasks import Task, TaskState
from reports.text.staleness_text import in_its_turn, in_words, some
from workflows.fleet_status import MEASURING, URGENCY, fleet_status, machine_of


@dataclass(frozen=True, slots=True)
class Open:
    """A task that runs or waits. `why`: running, or what `analysis.staleness` says; `text` is for people."""

    task: Task
    why: str
    text: str

    @property
    def seriousness(self) -> tuple[int, datetime, int]:
        """The order of tasks: unschedulable ones first, the oldest first."""
        return URGENCY.index(self.why), self.task.due_at, self.task.id


def opened(tasks: Iterable[Task], morning: TodayData, said: Mapping[int, str], now: datetime) -> list[Open]:
    """Every task with why it waits, unschedulable ones first.

    `said` is what some that run wait for before they measure, by task.
    """
    reporting = alive(morning.seen, now, morning.patience.silent_minutes)
    status = fleet_status(morning.seen, reporting, tasks, now)
    found = [
        Open(task, TaskState.RUNNING, "; ".join(filter(None, (_running(task, now), said.get(task.id)))))
        for own in status.running.values()
        for task in own
    ]
    for task, reason in status.waiting:
        text = _because(task, reason, status.silent_takers(task), alone=task.job in MEASURING)
        found.append(Open(task, reason.why, text))
    return sorted(found, key=lambda one: one.seriousness)


def table(items: Sequence[Open], now: datetime) -> str:
    """What runs and what waits."""
    columns = [("State", False), ("Task", False), ("Due", False), ("Where", False), ("Why", False)]
    rows = (
        (
            markup.chip(one.task.state),
            f"{escape(one.task.schedule)}<small>{escape(_what(one.task))}</small>",
            f"{wording.ago(one.task.due_at, now)}<small>{wording.timestamp(one.task.due_at)}</small>",
            escape(machine_of(one.task) or one.task.label or "any machine"),
            _why(one),
        )
        for one in items
    )
    return markup.table("What runs and what waits", columns, rows, folded=True)


def frame(items: Iterable[Open]) -> pd.DataFrame:
    """The same for a CSV file."""
    rows = [
        (
            one.task.id,
            one.task.state,
            one.task.schedule,
            one.task.part,
            one.task.job,
            one.task.label,
            machine_of(one.task),
            one.task.due_at,
            one.task.started_at,
            one.task.run_id or "",
            one.text,
        )
        for one in items
    ]
    columns = ("task", "state", "schedule", "part", "job", "label", "machine", "due_at", "started_at")
    return pd.DataFrame(rows, columns=[*columns, "run", "why"])


def _because(task: Task, because: WaitReason, silent: Sequence[str], *, alone: bool) -> str:
    why = because.why
    if why in ("unscheduled", "no such label") and silent:
        return f"{some(silent)} would do it and {'is' if len(silent) == 1 else 'are'} silent"
    if why == "unscheduled":
        kind = "that measures " if alone else ""
        return f"no scheduler {kind}is running: start one with pyrometer scheduler"
    if why == "no such label":
        joining = f", or by pyrometer fleet join --label {task.label}" if "=" in task.label else ""
        return (
            f'no running scheduler has the label "{task.label}": a machine gets it by machine_labels '
            f"in its pyrometer.toml{joining}"
        )
    return in_its_turn(because, task.attempts, task.not_before)


def _running(task: Task, now: datetime) -> str:
    again = f", attempt {task.attempts}" if task.attempts > 1 else ""
    return f"for {in_words(now - task.started_at)}{again}" if task.started_at else f"it began{again}"


def _why(one: Open) -> str:
    tone = "bad" if one.why in ("unscheduled", "no such label") else "quiet"
    sign = "× " if tone == "bad" else ""
    run = f" {markup.link(links.run(one.task.run_id), 'Run →')}" if one.task.run_id else ""
    return f'<span class="py-reason py-{tone}">{escape(sign + one.text)}</span>{run}'


def _what(task: Task) -> str:
    return " · ".join(part for part in (task.job, task.part, f"task {task.id}") if part)
