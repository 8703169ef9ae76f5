"""The machines of a fleet: state, current task, and telemetry."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

import pandas as pd

from analysis.staleness import alive
from dashboard.components import links, markup, wording
from dashboard.machines.load import ROWS, Able, OpenTasks
from dashboard.today.load import TodayData
from records.kinds import RunSource
from records.runs import RunSummary
from records.tasks import SchedulerSeen, Task
from reports.table import Column, DataTable
from reports.tables import reason_text
from reports.text.staleness_text import in_words
from workflows.fleet_status import MEASURING, fleet_status, measures, runs_control_jobs

#: The order of states: problems first; a machine whose scheduler was not seen for weeks is no longer
#: expected.
_ORDER = ("silent", "alive", "gone", "by hand")


@dataclass(frozen=True, slots=True)
class MachineStatus:
    """A machine by its name.

    `state`: alive, silent, gone (its scheduler), or by hand without one. `scheduler` is the one that was seen
    last, `run` the newest run, `doing` the tasks that run there now; `by_hand` is whether its newest run is
    still running and belongs to no task.
    """

    name: str
    state: str
    scheduler: SchedulerSeen | None
    run: RunSummary | None
    doing: tuple[Task, ...] = ()
    by_hand: bool = False

    @property
    def seriousness(self) -> tuple[int, str]:
        """The sort key of machines, worst first."""
        return _ORDER.index(self.state), self.name

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels, including the empty one, which means any machine, unless its scheduler is gone."""
        own = {self.name, *(self.scheduler.labels if self.scheduler else ())}
        return tuple(sorted({"", *own} if self.state in ("alive", "silent") else own))

    def can_run(self, task: Task) -> bool:
        """Whether a waiting task is for its labels, or for any machine and one of its scheduler's jobs."""
        if task.label or self.scheduler is None:
            return task.label in self.labels
        does = measures if task.job in MEASURING else runs_control_jobs
        return "" in self.labels and does(self.scheduler)


#: A machine with the telemetry that its newest run found.
Abilities = tuple[MachineStatus, Able]


def machines(
    morning: TodayData,
    runs: Iterable[RunSummary],
    running: Iterable[Task],
    now: datetime,
    without_task: Collection[str] = (),
) -> list[MachineStatus]:
    """Every machine with a scheduler or a run, worst first; `runs` are newest first.

    `without_task` are the ids of running runs that were started by hand.
    """
    schedulers: dict[str, SchedulerSeen] = {}
    for one in sorted(morning.seen, key=lambda one: one.seen_at):
        schedulers[one.machine] = one
    reporting = alive(morning.seen, now, morning.patience.silent_minutes)
    status = fleet_status(morning.seen, reporting, running, now)
    living = {one.machine for one in status.living}
    silent = {one.name for one in morning.silent}
    newest: dict[str, RunSummary] = {}
    for run in runs:
        # Imported runs were measured on other machines.
        if run.source == RunSource.MEASURED:
            newest.setdefault(run.machine, run)
    results: list[MachineStatus] = []
    for name in sorted({*schedulers, *newest}):
        state = "alive" if name in living else "silent" if name in silent else "gone"
        state = state if name in schedulers else "by hand"
        run, does = newest.get(name), status.running.get(name, ())
        # The run of a task that has just begun is not recorded for the task yet.
        measures_there = any(task.job in MEASURING for task in does)
        by_hand = run is not None and run.id in without_task and not measures_there
        results.append(MachineStatus(name, state, schedulers.get(name), run, does, by_hand))
    return sorted(results, key=lambda one: one.seriousness)


def cards(items: Sequence[MachineStatus], tasks: OpenTasks, following: datetime | None, now: datetime) -> str:
    """The fleet as a row of numbers."""
    states = [one.state for one in items]
    silent, living = states.count("silent"), states.count("alive")
    running, waiting = len(tasks.running), len(tasks.waiting) + tasks.newer
    tone = "bad" if silent else "good" if living else "quiet"
    sign = {"bad": "×", "good": "✓", "quiet": "–"}[tone]
    counts = f"{living} alive" + (f", {silent} silent" if silent else "")
    coming = f"{following:%H:%M} UTC" if following else wording.NONE
    when = (
        f"in {in_words(following - now)}, {following:%Y-%m-%d}" if following else "no scheduler reported one"
    )
    return markup.panels(
        markup.card("Machines", f"{len(items):,}", "that have a scheduler or a run"),
        markup.card(
            "Schedulers", f'<span class="py-{tone}">{sign} {escape(counts)}</span>', "at this moment"
        ),
        markup.card("Running now", f"{running:,}", "tasks of schedules"),
        markup.card("Waiting", f"{waiting:,}", "tasks of schedules"),
        markup.card("Next run", escape(coming), escape(when)),
    )


def table(items: Sequence[MachineStatus], now: datetime) -> DataTable[MachineStatus]:
    """The machines, each with a link that opens it."""
    columns: list[Column[MachineStatus]] = [
        Column(
            "machine",
            "Machine",
            lambda one: one.name,
            html=lambda one: (
                f"{markup.link(links.machine(one.name), one.name)}<small>{escape(_hardware(one))}</small>"
            ),
        ),
        Column("hardware", value=_hardware),
        Column(
            "scheduler",
            "Scheduler",
            lambda one: one.state,
            html=lambda one: f"{_chip(one.state)}<small>{escape(_scheduler_text(one, now))}</small>",
        ),
        Column("seen_at", value=lambda one: one.scheduler.seen_at if one.scheduler else None),
        Column("version", value=lambda one: one.scheduler.version if one.scheduler else ""),
        Column(
            "labels",
            "Labels",
            lambda one: " ".join(one.scheduler.labels) if one.scheduler else "",
            lambda one: ", ".join(one.scheduler.labels) if one.scheduler else "",
        ),
        Column(
            "doing",
            "Current task",
            lambda one: "; ".join([*(_task_name(task) for task in one.doing), *_by_hand(one)]),
            html=_activity_text,
        ),
        Column(
            "newest_run",
            "Newest run",
            lambda one: one.run.id if one.run else "",
            html=lambda one: _run(one, now),
        ),
        Column("started_at", value=lambda one: one.run.started_at if one.run else None),
        Column("run_state", value=lambda one: one.run.state if one.run else ""),
    ]
    return DataTable("Machines", columns, items, ROWS, "more machines; the CSV has all")


def abilities(rows: Sequence[Abilities], omission_count: int) -> DataTable[Abilities]:
    """The available telemetry of machines, and the absent one with reasons; `omission_count` machines are
    counted.
    """
    columns: list[Column[Abilities]] = [
        Column("", "Machine", format=lambda row: row[0].name, link=lambda row: links.machine(row[0].name)),
        Column(
            "",
            "Telemetry available",
            format=lambda row: reason_text(", ".join(row[1].present) or wording.NONE),
        ),
        Column(
            "",
            "Missing, and why",
            html=lambda row: (
                "".join(f"{reason_text(each)}<br>" for each in row[1].absent)
                or '<span class="py-good">✓ nothing is missing</span>'
            ),
        ),
    ]
    rest = "more machines; the CSV has all with telemetry"
    return DataTable("What machines can measure", columns, rows, rest=rest, omitted=omission_count)


def abilities_frame(items: Iterable[Abilities]) -> pd.DataFrame:
    """The same for a CSV file, a row for each."""
    rows = [
        (one.name, one.run.id if one.run else "", capability, present)
        for one, able in items
        for present, every in ((True, able.present), (False, able.absent))
        for capability in every
    ]
    return pd.DataFrame(rows, columns=["machine", "run", "capability", "present"])


def facts(
    one: MachineStatus, about: Mapping[str, object], conditions: Mapping[str, object], now: datetime
) -> str:
    """One machine opened: its scheduler, its hardware, and the conditions of its newest run."""
    scheduler = one.scheduler
    seen_at = scheduler.seen_at if scheduler else None
    values = {
        "state": one.state,
        "seen": f"{wording.timestamp(seen_at)}, {wording.ago(seen_at, now)}" if seen_at else None,
        "started": wording.timestamp(scheduler.started_at) if scheduler else None,
        "version": scheduler.version if scheduler else None,
        "labels": list(scheduler.labels) if scheduler else [],
        "measures": measures(scheduler) if scheduler else None,
    }
    return markup.panels(
        markup.facts("Scheduler", one.name, values),
        markup.facts("Hardware", _hardware(one) or "unknown before its first run", about),
        markup.facts("Conditions of its newest run", one.run.id if one.run else wording.NONE, conditions),
        kind="py-facts",
    )


def _chip(state: str) -> str:
    if state in ("alive", "silent"):
        return markup.chip(state)
    return f'<span class="py-chip py-quiet">{wording.NONE} {escape(state)}</span>'


def _hardware(one: MachineStatus) -> str:
    return one.run.hardware if one.run else ""


def _scheduler_text(one: MachineStatus, now: datetime) -> str:
    if one.scheduler is None:
        return "no scheduler: runs by hand"
    plans = "" if measures(one.scheduler) else "plans, measures nothing · "
    return f"{plans}seen {wording.ago(one.scheduler.seen_at, now)} · version {one.scheduler.version}"


def _activity_text(one: MachineStatus) -> str:
    parts = [
        markup.link(links.run(task.run_id), _task_name(task)) if task.run_id else escape(_task_name(task))
        for task in one.doing
    ]
    parts += [markup.link(links.run(one.run.id), each) for each in _by_hand(one) if one.run]
    return "<br>".join(parts) or ("nothing" if one.state == "alive" else "")


def _by_hand(one: MachineStatus) -> list[str]:
    return [f"{one.run.id} by hand"] if one.by_hand and one.run else []


def _task_name(task: Task) -> str:
    return " ".join(part for part in (task.schedule, task.part) if part)


def _run(one: MachineStatus, now: datetime) -> str:
    if one.run is None:
        return f'<span class="py-quiet">{wording.NONE}</span>'
    torch = " ".join(one.run.torch_versions) or wording.NONE
    when = f"{wording.ago(one.run.started_at, now)} · torch {torch}"
    link = markup.link(links.run(one.run.id), one.run.id)
    return f"{link} {markup.chip(one.run.state)}<small>{escape(when)}</small>"
