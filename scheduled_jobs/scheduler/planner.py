"""From schedules to scheduled runs: which are due, and what is to be done at each."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from common.atomic_file import write_whole
from configuration.schedules import MEASURE, ScheduleSettings, zone
from configuration.settings import Settings
from configuration.suggestions import unknown
from db.connection.engine import Database, one_transaction
from db.queue.commands import plan_run, supersede, withdraw_missed
from db.queue.queries import last_due, last_taken_up, scheduled_runs
from records.tasks import NewTask
from workflows.errors import NoSuchSchedule

from . import timetable
from .timetable import MISSED, Due

DETECT = "detect"
MANUAL, FOLLOW_UP = "by hand", "follow-up"
#: Marks the moment from which on a schedule counts: nothing before it is caught up.
FIRST_SEEN = "first seen"
_DEFAULT_SUITE = "smoke"
#: Scheduled runs among which the newest one that is not in the future is searched.
_LOOKED_BACK = 200
_MEASURED_BY = (
    *("suite", "preset", "cases", "case_files"),
    *("nodes", "replicates", "budget_seconds", "device", "lock_clocks"),
)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A scheduled run that is in the database now: its schedule, fire time, kind and number of tasks.

    `instead_of` counts earlier tasks of the schedule that had not started: they are cancelled for it.
    """

    schedule: str
    due: Due
    tasks: int
    instead_of: int = 0


class Planner:
    """Enqueues the scheduled runs that are due; it may be called at any time, and after any error.

    A scheduled run is stored under its schedule and fire time, once and for ever, so another planner, or a
    restarted one, enqueues nothing twice. The schedules that were seen switched off belong to this machine,
    as other machines have settings of their own: they are kept in the file `memory`, where one is given.
    """

    def __init__(self, memory: Path | None = None) -> None:
        self._since: dict[str, datetime] = {}
        self._rules: dict[str, str] = {}
        self._reached: datetime | None = None
        self._memory = memory
        #: Those that were seen switched off, or not written down any more; and those that the file has.
        self._off = self._read_memory()
        self._kept = frozenset(self._off)

    def plan(self, database: Database, settings: Settings, now: datetime) -> list[PlannedRun]:
        """Enqueue what became due since the last call; raises DatabaseError, and may then be called again."""
        found: list[PlannedRun] = []
        last: dict[str, datetime] | None = None
        enabled = {name: each for name, each in settings.schedules.items() if each.enabled}
        self._off |= (settings.schedules.keys() | self._since.keys()) - enabled.keys()
        for name, schedule in enabled.items():
            if name in self._off:
                # No run was due while it was switched off: it counts from now, as a new one does.
                plan_run(database, name, now, FIRST_SEEN, (), now)
                self._since[name] = now
                self._off.discard(name)
            if name not in self._since:
                last = last_due(database) if last is None else last
                self._since[name] = _begin(database, name, last.get(name), now)
            found += self._plan_one(database, settings, name, schedule, now)
        self._remember()
        self.advance(now)
        return found

    def advance(self, now: datetime) -> None:
        """Note that everything due until `now` has been enqueued: a rule that changes counts from then on."""
        self._reached = now

    def _read_memory(self) -> set[str]:
        try:
            return set(self._memory.read_text(encoding="utf-8").splitlines()) if self._memory else set()
        except (OSError, ValueError):
            return set()

    def _remember(self) -> None:
        if self._memory is None or frozenset(self._off) == self._kept:
            return
        # What cannot be kept is only forgotten when this process ends: then a night too many is caught up.
        with suppress(OSError):
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._memory, "".join(f"{name}\n" for name in sorted(self._off)))
            self._kept = frozenset(self._off)

    def _plan_one(
        self, database: Database, settings: Settings, name: str, schedule: ScheduleSettings, now: datetime
    ) -> list[PlannedRun]:
        since, rule = self._since[name], f"{schedule.cron} {settings.timezone}"
        if self._rules.setdefault(name, rule) != rule and self._reached is not None:
            since = max(since, min(self._reached, now))
            if since <= now:
                # For a planner that begins later as well: it knows only what is stored.
                plan_run(database, name, since, FIRST_SEEN, (), now)
        if now < since:
            # The clock was set back: what was missed meanwhile is yet to come.
            withdraw_missed(database, name, now)
            since = now
        found: list[PlannedRun] = []
        for due in timetable.due(schedule.cron, zone(settings.timezone), since, now):
            tasks = () if due.kind == MISSED else _in_turn(database, name, tasks_of(settings, name))
            # Together: a planner that is killed in between leaves no earlier night waiting beside this one.
            with one_transaction(database) as whole:
                if not plan_run(whole, name, due.moment, due.kind, tasks, now):
                    continue
                instead_of = supersede(whole, name, due.moment, now) if tasks else 0
            found.append(PlannedRun(name, due, len(tasks), instead_of))
        self._since[name], self._rules[name] = now, rule
        return found


def _in_turn(database: Database, name: str, tasks: tuple[NewTask, ...]) -> tuple[NewTask, ...]:
    """The tasks of a scheduled run in the order of claiming: the one that has waited longest is first.

    If all together take longer than until the next run, the last ones are superseded: not the same ones
    each time.
    """
    if len(tasks) < 2:
        return tasks
    begun = last_taken_up(database, name)
    first = datetime.min.replace(tzinfo=UTC)
    return tuple(sorted(tasks, key=lambda task: begun.get(task.part, first)))


def _begin(database: Database, name: str, last: datetime | None, now: datetime) -> datetime:
    """The time up to which a schedule's fire times have been processed."""
    if last is None:
        plan_run(database, name, now, FIRST_SEEN, (), now)
        return now
    if last <= now:
        return last
    # The clock was set back while no scheduler was running.
    withdraw_missed(database, name, now)
    dealt_with = (timetable.TIMETABLE, timetable.CAUGHT_UP, MISSED, FIRST_SEEN)
    before = [
        run.due_at
        for run in scheduled_runs(database, name, newest=_LOOKED_BACK)
        if run.kind in dealt_with and run.due_at <= now
    ]
    return max(before, default=now)


def trigger_schedule(database: Database, settings: Settings, name: str, now: datetime) -> datetime:
    """Enqueue a scheduled run now; returns its fire time. Raises NoSuchSchedule, DatabaseError."""
    return plan_now(database, name, MANUAL, tasks_of(settings, name), now)


def plan_now(
    database: Database, schedule: str, kind: str, tasks: Sequence[NewTask], now: datetime
) -> datetime:
    """Enqueue these tasks now; returns the fire time, later where another run has the same microsecond."""
    moment = now
    while not plan_run(database, schedule, moment, kind, tasks, now):
        moment += timedelta(microseconds=1)
    return moment


def tasks_of(settings: Settings, name: str) -> tuple[NewTask, ...]:
    """The tasks of a scheduled run; `detect:NAME` looks at what schedule NAME measured.

    Raises NoSuchSchedule.
    """
    job, _, followed = name.rpartition(":")
    schedule = settings.schedules.get(followed)
    if job == DETECT and schedule is not None and schedule.job == MEASURE:
        return _detect_tasks(followed, schedule)
    schedule = settings.schedules.get(name)
    if schedule is None:
        raise NoSuchSchedule(unknown("schedule", name, names(settings)))
    if schedule.job == MEASURE:
        return tuple(
            NewTask(part_of(track, label), MEASURE, measure_spec(schedule, track), label=label)
            for label in labels_of(schedule)
            for track in schedule.environments
        )
    if schedule.job == "upgrade":
        spec = {"old": schedule.old, "new": schedule.new, **_measured_by(schedule)}
        spec |= _judged_by(name, schedule)
        return tuple(NewTask(label, "upgrade", spec, label=label) for label in labels_of(schedule))
    if schedule.job == DETECT:
        followed_ones = [(each, one) for each, one in settings.schedules.items() if one.job == MEASURE]
        return tuple(
            task for each, one in followed_ones for task in _detect_tasks(each, one, prefix=f"{each}/")
        )
    return (NewTask("", schedule.job, {}),)


def names(settings: Settings) -> list[str]:
    """Every name that can be triggered."""
    measuring = [name for name, schedule in settings.schedules.items() if schedule.job == MEASURE]
    return [*settings.schedules, *(f"{DETECT}:{name}" for name in measuring)]


def labels_of(schedule: ScheduleSettings) -> tuple[str, ...]:
    """The labels that a schedule asks machines by; the empty one is any machine."""
    return schedule.machines or ("",)


def part_of(track: str, label: str) -> str:
    """The name of a task within its scheduled run: `nightly@h200`, or `nightly` on any machine."""
    return f"{track}@{label}" if label else track


def measure_spec(schedule: ScheduleSettings, track: str) -> dict[str, Any]:
    """What a `measure` task does: the track, the schedule's baseline, and what of a run is not as usual."""
    spec = {"track": track, "baseline": schedule.baseline, **_measured_by(schedule)}
    if not any(spec.get(name) for name in ("suite", "cases", "case_files")):
        spec["suite"] = _DEFAULT_SUITE
    return spec


def detect_task(schedule: str, track: str, label: str, prefix: str = "") -> NewTask:
    """A look at what a schedule measured of one track."""
    spec = {"schedule": schedule, "track": track, "label": label}
    return NewTask(f"{prefix}{part_of(track, label)}", DETECT, spec)


def _detect_tasks(name: str, schedule: ScheduleSettings, prefix: str = "") -> tuple[NewTask, ...]:
    return tuple(
        detect_task(name, track, label, prefix)
        for label in labels_of(schedule)
        for track in schedule.environments
    )


def _judged_by(name: str, schedule: ScheduleSettings) -> dict[str, Any]:
    """What was written of how to judge an upgrade, as plain JSON values; the schedule waives cases."""
    written = {"policy": schedule.policy, "pairs": schedule.pairs}
    spec: dict[str, Any] = {key: value for key, value in written.items() if value is not None}
    if schedule.waive:
        spec |= {"waive": list(schedule.waive), "because": list(schedule.waive.values())}
        spec["waived_by"] = f"schedule {name}"
    return spec


def _measured_by(schedule: ScheduleSettings) -> Mapping[str, Any]:
    """What was written of how to measure, as plain JSON values."""
    written = schedule.model_dump(mode="json", include=set(_MEASURED_BY))
    return {key: value for key, value in written.items() if value is not None}


#: Fire times of each schedule that are advertised.
_ADVERTISED = 7


def advertised_facts(settings: Settings, now: datetime, *, measures: bool) -> dict[str, Any]:
    """Time zone, what counts as silent, late and disturbed, and every schedule with its next fire times.

    `measures` says whether this scheduler measures, or only plans and thinks. Nothing of it is a secret.
    """
    local_zone = zone(settings.timezone)
    return {
        "measures": measures,
        "timezone": settings.timezone,
        "silent_minutes": settings.alerts.silent_minutes,
        "overdue_hours": settings.alerts.overdue_hours,
        "disturbed_share": settings.alerts.disturbed_share,
        "schedules": [
            {
                "schedule": name,
                "job": schedule.job,
                "cron": schedule.cron,
                "enabled": schedule.enabled,
                "built_in": name in settings.built_in_schedules,
                "labels": [label for label in labels_of(schedule) if label],
                "next": [moment.isoformat() for moment in _next_fire_times(schedule, local_zone, now)],
                **_about(schedule),
            }
            for name, schedule in settings.schedules.items()
        ],
    }


def _next_fire_times(schedule: ScheduleSettings, local_zone: tzinfo, now: datetime) -> list[datetime]:
    return timetable.next_fire_times(schedule.cron, local_zone, now, _ADVERTISED) if schedule.enabled else []


def _about(schedule: ScheduleSettings) -> dict[str, Any]:
    """What is measured, where anything is."""
    if schedule.job == MEASURE:
        suite = measure_spec(schedule, "").get("suite") or "chosen cases"
        environments = list(schedule.environments)
        return {"suite": suite, "environments": environments, "baseline": schedule.baseline or ""}
    if schedule.job == "upgrade":
        return {"suite": schedule.suite or "", "environments": [schedule.old, schedule.new], "baseline": ""}
    return {"suite": "", "environments": [], "baseline": ""}
