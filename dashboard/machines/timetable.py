"""The schedules: the next run of each, how the last one ended, and which scheduler serves it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from html import escape

from dashboard.components import markup, wording
from dashboard.machines.load import ROWS
from dashboard.today.schedule_heartbeat import Served
from records.tasks import LastScheduledRun, TaskState
from reports.table import Column, DataTable
from reports.text.staleness_text import in_words

#: Machines that serve a schedule are named one by one up to so many.
_NAMED = 3
#: Days of the calendar.
_DAYS = 7


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule: as `served`, None without a scheduler, and its `last_run`, None before the first."""

    schedule: str
    served: Served | None
    last_run: LastScheduledRun | None

    @property
    def place(self) -> tuple[int, str]:
        """What sorts schedules: those people wrote, those built in, those that follow another, the rest."""
        if self.served is None:
            return (2 if ":" in self.schedule else 3), self.schedule
        return int(self.served.built_in), self.schedule


def rows(plan: Iterable[Served], last_runs: Iterable[LastScheduledRun]) -> list[ScheduleRow]:
    """Every schedule that is served or ever ran; a name that is served in two ways has two rows."""
    last = {last_run.schedule: last_run for last_run in last_runs}
    found = [ScheduleRow(each.schedule, each, last.get(each.schedule)) for each in plan]
    known = {row.schedule for row in found}
    found += [ScheduleRow(name, None, last_run) for name, last_run in last.items() if name not in known]
    return sorted(found, key=lambda row: row.place)


def following(plan: Iterable[Served], now: datetime) -> datetime | None:
    """The next fire time of a schedule of a live scheduler."""
    return min((moment for each in plan if each.alive for moment in each.next if moment > now), default=None)


def table(items: Sequence[ScheduleRow], now: datetime) -> DataTable[ScheduleRow]:
    """The schedules."""

    def served(name: str, value: Callable[[Served], object]) -> Column[ScheduleRow]:
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
        served("job", lambda one: one.job),
        served("cron", lambda one: one.cron),
        served("timezone", lambda one: one.timezone),
        served("enabled", lambda one: one.enabled),
        served("built_in", lambda one: one.built_in),
        served("suite", lambda one: one.suite),
        served("environments", lambda one: " ".join(one.environments)),
        served("baseline", lambda one: one.baseline),
        served("labels", lambda one: " ".join(one.labels)),
        served("next", lambda one: " ".join(moment.isoformat() for moment in one.next)),
        served("served_by", lambda one: " ".join(one.by)),
        served("alive", lambda one: one.alive),
        last("last_due_at", lambda one: one.due_at),
        last("last_kind", lambda one: one.kind),
        last("last_states", lambda one: _states(one.states)),
        last("last_error", lambda one: one.error),
    ]
    return DataTable("Schedules", columns, items, ROWS, "more schedules; the CSV has all")


def week(plan: Iterable[Served], now: datetime) -> DataTable[Served]:
    """The scheduled runs of the next seven days (UTC): a row for each schedule that people wrote."""
    days = [now.date() + timedelta(days=day) for day in range(_DAYS)]
    rows = [one for one in plan if one.alive and not one.built_in and one.next]

    def column(day: date) -> Column[Served]:
        def times(one: Served) -> str:
            own = [moment.astimezone(UTC) for moment in one.next if moment > now]
            return ", ".join(f"{moment:%H:%M}" for moment in own if moment.date() == day)

        return Column(label=f"{day:%a %d %b}", format=times)

    first: Column[Served] = Column(label="Schedule", format=lambda one: one.schedule)
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
        text = f"was due {in_words(now - first)} ago, and who serves it is silent"
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
    names = ", ".join(row.served.by[:_NAMED])
    more = f" and {len(row.served.by) - _NAMED} more" if len(row.served.by) > _NAMED else ""
    state = "alive" if row.served.alive else "silent"
    return f"{markup.chip(state)}<small>{escape(names + more)}</small>"


def _states(states: Mapping[TaskState, int]) -> str:
    return ", ".join(f"{many} {state}" for state, many in sorted(states.items()))
