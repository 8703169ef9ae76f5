"""The schedules with their next and last runs, running and waiting tasks, and the age of each track."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from html import escape

from analysis.staleness import WaitReason, alive
from common.text import some
from dashboard.components import links, markup, wording
from dashboard.machines.load import ENVIRONMENTS, ROWS
from dashboard.today import cards
from dashboard.today.load import TodayData
from dashboard.today.track_status import ServedSchedule, TrackStatus
from records.environments import EnvironmentUsed
from records.tasks import LastScheduledRun, Task, TaskState, machine_of
from reports.table import Column, DataTable
from reports.text.staleness_text import in_its_turn, in_words, silence
from workflows.fleet_status import MEASURING, URGENCY, fleet_status

#: Days of the calendar.
_DAYS = 7


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule: `served` is None without a scheduler, `last_run` is None before the first run."""

    schedule: str
    served: ServedSchedule | None
    last_run: LastScheduledRun | None

    @property
    def place(self) -> tuple[int, str]:
        """The sort key of schedules: configured ones, built-in ones, follow-ups, the others."""
        if self.served is None:
            return (2 if ":" in self.schedule else 3), self.schedule
        return int(self.served.built_in), self.schedule


def rows(plan: Iterable[ServedSchedule], last_runs: Iterable[LastScheduledRun]) -> list[ScheduleRow]:
    """Every schedule that is served or has run; a name with two different definitions has two rows."""
    last = {last_run.schedule: last_run for last_run in last_runs}
    matches = [ScheduleRow(each.schedule, each, last.get(each.schedule)) for each in plan]
    names = {row.schedule for row in matches}
    matches += [ScheduleRow(name, None, last_run) for name, last_run in last.items() if name not in names]
    return sorted(matches, key=lambda row: row.place)


def next_fire_time(plan: Iterable[ServedSchedule], now: datetime) -> datetime | None:
    """The next fire time of a schedule of a live scheduler."""
    return min((moment for each in plan if each.alive for moment in each.next if moment > now), default=None)


def schedules(items: Sequence[ScheduleRow], now: datetime) -> DataTable[ScheduleRow]:
    """The schedules."""

    def schedule_column(name: str, value: Callable[[ServedSchedule], object]) -> Column[ScheduleRow]:
        return Column(name, value=lambda row: value(row.served) if row.served else None)

    def last(name: str, value: Callable[[LastScheduledRun], object]) -> Column[ScheduleRow]:
        return Column(name, value=lambda row: value(row.last_run) if row.last_run else None)

    columns: list[Column[ScheduleRow]] = [
        Column(
            "schedule",
            "Schedule",
            lambda row: row.schedule,
            html=lambda row: f"{escape(row.schedule)}<small>{escape(_kind(row))}</small>",
        ),
        Column("", "When", html=_when),
        Column("", "What", html=_what),
        Column("", "Next run (UTC)", html=lambda row: _next(row, now)),
        Column("", "Last run", html=lambda row: _last(row, now)),
        Column("", "Scheduler", html=_by),
        schedule_column("job", lambda one: one.job),
        schedule_column("cron", lambda one: one.cron),
        schedule_column("timezone", lambda one: one.timezone),
        schedule_column("enabled", lambda one: one.enabled),
        schedule_column("built_in", lambda one: one.built_in),
        schedule_column("suite", lambda one: one.suite),
        schedule_column("environments", lambda one: " ".join(one.environments)),
        schedule_column("baseline", lambda one: one.baseline),
        schedule_column("labels", lambda one: " ".join(one.labels)),
        schedule_column("next", lambda one: " ".join(moment.isoformat() for moment in one.next)),
        schedule_column("served_by", lambda one: " ".join(one.by)),
        schedule_column("alive", lambda one: one.alive),
        last("last_due_at", lambda one: one.due_at),
        last("last_kind", lambda one: one.kind),
        last("last_states", lambda one: _states(one.states)),
        last("last_error", lambda one: one.error),
    ]
    return DataTable("Schedules", columns, items, ROWS, "more schedules; the CSV has all")


def week(plan: Iterable[ServedSchedule], now: datetime) -> DataTable[ServedSchedule]:
    """The scheduled runs of the next seven days (UTC): a row for each configured schedule."""
    days = [now.date() + timedelta(days=day) for day in range(_DAYS)]
    rows = [one for one in plan if one.alive and not one.built_in and one.next]

    def column(day: date) -> Column[ServedSchedule]:
        def times(one: ServedSchedule) -> str:
            own = [moment.astimezone(UTC) for moment in one.next if moment > now]
            return ", ".join(f"{moment:%H:%M}" for moment in own if moment.date() == day)

        return Column(label=f"{day:%a %d %b}", format=times)

    first: Column[ServedSchedule] = Column(label="Schedule", format=lambda one: one.schedule)
    return DataTable("The next seven days", [first, *map(column, days)], rows)


def _kind(row: ScheduleRow) -> str:
    if row.served is None:
        return "after another schedule" if ":" in row.schedule else "no scheduler serves it"
    parts = [row.served.job, "built in" if row.served.built_in else ""]
    return " · ".join(filter(None, (*parts, "" if row.served.enabled else "switched off")))


def _when(row: ScheduleRow) -> str:
    if row.served is None:
        return wording.NONE
    return f"<code>{escape(row.served.cron)}</code><small>{escape(row.served.timezone)}</small>"


def _what(row: ScheduleRow) -> str:
    one = row.served
    if one is None or not (one.suite or one.environments):
        return wording.NONE
    tracks = [f"{each} (pinned)" if each == one.baseline else each for each in one.environments]
    where = f"on {', '.join(one.labels)}" if one.labels else "on any machine"
    suite = f"suite {one.suite}" if one.suite else ""
    return f"{escape(', '.join(tracks))}<small>{escape(' · '.join(filter(None, (suite, where))))}</small>"


def _next(row: ScheduleRow, now: datetime) -> str:
    one = row.served
    if one is None or not one.next:
        return wording.NONE
    first = one.next[0]
    if first <= now and not one.alive:
        text = f"was due {in_words(now - first)} ago, and its scheduler is silent"
        return f'<span class="py-bad">× {first:%Y-%m-%d %H:%M}</span><small>{escape(text)}</small>'
    coming = [moment for moment in one.next if moment > now] or [first]
    then = ", ".join(f"{moment:%m-%d %H:%M}" for moment in coming[1:3])
    soon = f"in {in_words(coming[0] - now)}" if coming[0] > now else "now"
    text = " · then ".join(filter(None, (soon, then)))
    return f"{coming[0]:%Y-%m-%d %H:%M}<small>{escape(text)}</small>"


def _last(row: ScheduleRow, now: datetime) -> str:
    last_run = row.last_run
    if last_run is None:
        return '<span class="py-quiet">never</span>'
    states = last_run.states or ({"missed": 1} if last_run.kind == "missed" else {})
    chips = "".join(markup.chip(state, many if many > 1 else None) for state, many in sorted(states.items()))
    kind = "" if last_run.kind == "timetable" else f" · {last_run.kind}"
    text = f"{wording.ago(last_run.due_at, now)}{kind}"
    error = f'<small class="py-reason">{escape(last_run.error)}</small>' if last_run.error else ""
    return f'<span class="py-chips">{chips}</span><small>{escape(text)}</small>{error}'


def _by(row: ScheduleRow) -> str:
    if row.served is None:
        return wording.NONE
    state = "alive" if row.served.alive else "silent"
    return f"{markup.chip(state)}<small>{escape(some(row.served.by))}</small>"


def _states(states: Mapping[TaskState, int]) -> str:
    return ", ".join(f"{many} {state}" for state, many in sorted(states.items()))


@dataclass(frozen=True, slots=True)
class Open:
    """A running or waiting task. `why` is `running` or a reason of `analysis.staleness`; `text` is its
    sentence.
    """

    task: Task
    why: str
    text: str

    @property
    def seriousness(self) -> tuple[int, datetime, int]:
        """The order of tasks: unschedulable ones first, the oldest first."""
        return URGENCY.index(self.why), self.task.due_at, self.task.id


def explain_tasks(
    tasks: Iterable[Task], morning: TodayData, wait_reasons: Mapping[int, str], now: datetime
) -> list[Open]:
    """Every task with the reason why it waits, unschedulable ones first.

    `wait_reasons` are the reasons why running tasks do not measure yet, by task.
    """
    reporting = alive(morning.seen, now, morning.patience.silent_minutes)
    status = fleet_status(morning.seen, reporting, tasks, now)
    matches = [
        Open(
            task,
            TaskState.RUNNING,
            "; ".join(filter(None, (_running_text(task, now), wait_reasons.get(task.id)))),
        )
        for own in status.running.values()
        for task in own
    ]
    for task, reason in status.waiting:
        text = _because(task, reason, status.silent_takers(task), alone=task.job in MEASURING)
        matches.append(Open(task, reason.why, text))
    return sorted(matches, key=lambda one: one.seriousness)


def open_tasks(items: Sequence[Open], now: datetime, every: str = "all") -> DataTable[Open]:
    """The running and waiting tasks; `every` describes the tasks in the CSV file."""
    columns: list[Column[Open]] = [
        Column("task", value=lambda one: one.task.id),
        Column("state", "State", lambda one: one.task.state, html=lambda one: markup.chip(one.task.state)),
        Column(
            "schedule",
            "Task",
            lambda one: one.task.schedule,
            html=lambda one: f"{escape(one.task.schedule)}<small>{escape(_about_task(one.task))}</small>",
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
            lambda one: machine_of(one.task.owner),
            lambda one: machine_of(one.task.owner) or one.task.label or "any machine",
        ),
        Column("started_at", value=lambda one: one.task.started_at),
        Column("run", value=lambda one: one.task.run_id or ""),
        Column("why", "Why", lambda one: one.text, html=_why),
    ]
    return DataTable("Running and waiting tasks", columns, items, ROWS, f"more tasks; the CSV has {every}")


def _because(task: Task, because: WaitReason, silent: Sequence[str], *, alone: bool) -> str:
    why = because.why
    if why in ("unscheduled", "no such label") and silent:
        return f"{some(silent)} could run it but {'is' if len(silent) == 1 else 'are'} silent"
    if why == "unscheduled":
        kind = "that measures " if alone else ""
        return f"no scheduler {kind}is running: start one with pyrometer scheduler"
    if why == "no such label":
        joining = f", or by pyrometer fleet join --label {task.label}" if "=" in task.label else ""
        return (
            f'no running scheduler has the label "{task.label}": add it to machine_labels '
            f"in the pyrometer.toml of a machine{joining}"
        )
    return in_its_turn(because, task.attempts, task.not_before)


def _running_text(task: Task, now: datetime) -> str:
    again = f", attempt {task.attempts}" if task.attempts > 1 else ""
    return f"for {in_words(now - task.started_at)}{again}" if task.started_at else f"it began{again}"


def _why(one: Open) -> str:
    tone = "bad" if one.why in ("unscheduled", "no such label") else "quiet"
    sign = "× " if tone == "bad" else ""
    run = f" {markup.link(links.run(one.task.run_id), 'Run →')}" if one.task.run_id else ""
    return f'<span class="py-reason py-{tone}">{escape(sign + one.text)}</span>{run}'


def _about_task(task: Task) -> str:
    return " · ".join(part for part in (task.job, task.part, f"task {task.id}") if part)


def freshness(items: Sequence[TrackStatus], now: datetime) -> DataTable[TrackStatus]:
    """The age of each track: its newest night that is done, late nights, and missing nights."""
    columns: list[Column[TrackStatus]] = [
        Column("schedule", value=lambda one: one.newest.schedule),
        Column(
            "track",
            "Track",
            lambda one: one.newest.track,
            html=lambda one: (
                f"{escape(one.newest.track or one.newest.part)}<small>{escape(_where(one))}</small>"
            ),
        ),
        Column("label", value=lambda one: one.newest.label),
        Column(
            "state", "Status", lambda one: one.state, html=lambda one: markup.chip(one.state) + _late(one)
        ),
        Column("due_at", value=lambda one: one.newest.due_at),
        Column("late", value=lambda one: silence(one.late) if one.late else ""),
        Column(
            "last_done_due_at",
            "Last done",
            lambda one: one.last_done.due_at if one.last_done else None,
            html=lambda one: _done(one, now),
        ),
        Column("last_done_run", value=lambda one: one.last_done.run_id if one.last_done else ""),
        Column("nights", "Last nights, newest right", lambda one: len(one.nights), html=cards.strip),
        Column(
            "missing",
            "Missing",
            lambda one: one.missing,
            lambda one: f"{one.missing} of {len(one.nights)}",
            number=True,
        ),
    ]
    return DataTable("Freshness", columns, items, ROWS, "more tracks; the CSV has all")


def environments(items: Sequence[EnvironmentUsed], now: datetime) -> DataTable[EnvironmentUsed]:
    """The environments in use."""

    def last_used(one: EnvironmentUsed) -> str:
        run = markup.link(links.run(one.run), wording.ago(one.started_at, now))
        return f'<span class="py-line">{run}<small>{escape(wording.timestamp(one.started_at))}</small></span>'

    columns: list[Column[EnvironmentUsed]] = [
        Column("fingerprint", value=lambda one: one.fingerprint),
        Column(
            "name",
            "Environment",
            lambda one: one.name,
            html=lambda one: markup.one_line(one.name, one.fingerprint[: links.FINGERPRINT]),
        ),
        Column("torch_version", "PyTorch", lambda one: one.torch_version),
        Column("python_version", "Python", lambda one: one.python_version),
        Column("run", value=lambda one: one.run),
        Column("started_at", "Last used", lambda one: one.started_at, html=last_used),
        Column("machine", "Machine", lambda one: one.machine),
        Column("runs", "Runs", lambda one: one.runs, lambda one: f"{one.runs:,}", number=True),
    ]
    return DataTable(
        "Environments", columns, items, ENVIRONMENTS, "more environments; the CSV has all", dense=True
    )


def _where(one: TrackStatus) -> str:
    task = one.newest
    return " · ".join(filter(None, (task.schedule, task.label or "any machine")))


def _late(one: TrackStatus) -> str:
    reason = silence(one.late) if one.late else "no scheduler can run it" if one.unschedulable else ""
    return f'<small class="py-reason">{escape(reason)}</small>' if reason else ""


def _done(one: TrackStatus, now: datetime) -> str:
    task = one.last_done
    if task is None:
        return '<span class="py-quiet">never</span>'
    when = wording.ago(task.due_at, now)
    link = markup.link(links.run(task.run_id), when) if task.run_id else escape(when)
    return f"{link}<small>{escape(wording.timestamp(task.due_at))}</small>"
