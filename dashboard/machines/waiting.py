"""What runs now, what waits, and why it waits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from analysis.staleness import WaitReason, alive
from dashboard.components import links, markup, wording
from dashboard.machines.load import ROWS
from dashboard.today.load import TodayData
from records.tasks import Task, TaskState
from reports.table import Column, DataTable
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


def table(items: Sequence[Open], now: datetime, every: str = "all") -> DataTable[Open]:
    """What runs and what waits; `every`: what the CSV file has of those that are left out."""
    columns: list[Column[Open]] = [
        Column("task", value=lambda one: one.task.id),
        Column("state", "State", lambda one: one.task.state, html=lambda one: markup.chip(one.task.state)),
        Column(
            "schedule",
            "Task",
            lambda one: one.task.schedule,
            html=lambda one: f"{escape(one.task.schedule)}<small>{escape(_what(one.task))}</small>",
        ),
        Column("part", value=lambda one: one.task.part),
        Column("job", value=lambda one: one.task.job),
        Column("label", value=lambda one: one.task.label),
        Column(
            "due_at",
            "Due",
            lambda one: one.task.due_at,
            html=lambda one: (
                f"{wording.ago(one.task.due_at, now)}<small>{wording.timestamp(one.task.due_at)}</small>"
            ),
        ),
        Column(
            "machine",
            "Where",
            lambda one: machine_of(one.task),
            lambda one: machine_of(one.task) or one.task.label or "any machine",
        ),
        Column("started_at", value=lambda one: one.task.started_at),
        Column("run", value=lambda one: one.task.run_id or ""),
        Column("why", "Why", lambda one: one.text, html=_why),
    ]
    return DataTable("What runs and what waits", columns, items, ROWS, f"more tasks; the CSV has {every}")


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
