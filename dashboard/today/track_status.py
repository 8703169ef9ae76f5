"""The status of each track from its nights, and of each schedule from the reports of schedulers."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from analysis.decision.run_cases import FAILED
from analysis.staleness import (
    GONE_FOR_GOOD,
    Coverage,
    MachineDisturbance,
    MeasuredNight,
    Outage,
    WaitCause,
    alive,
    coverage,
    eligible_machines,
    machine_disturbance,
    newest_measured,
    part_label,
    present,
    unplanned_outage,
    unplanned_since,
    wait_reason,
)
from dashboard.components import wording
from records.outcomes import OutcomeCount, OutcomeStatus
from records.runs import RunSummary
from records.tasks import SchedulerSeen, Task, TaskState
from workflows.fleet_status import Patience, measures


@dataclass(frozen=True, slots=True)
class ServedSchedule:
    """A schedule that one or several schedulers serve: `by` are their machines, in order.

    `alive`: one of them was seen lately. `next` are its next fire times as announced last; those of a dead
    scheduler may be in the past. `labels` is empty for any machine.
    """

    schedule: str
    job: str
    cron: str
    timezone: str
    enabled: bool
    built_in: bool
    suite: str
    environments: tuple[str, ...]
    baseline: str
    labels: tuple[str, ...]
    next: tuple[datetime, ...] = ()
    by: tuple[str, ...] = ()
    alive: bool = False


def served_schedules(
    schedulers: Sequence[SchedulerSeen], now: datetime, silent_minutes: int
) -> list[ServedSchedule]:
    """Every schedule that any scheduler serves, by name; equal ones of several schedulers once."""
    living = {one.owner for one in alive(schedulers, now, silent_minutes)}
    by_schedules: dict[ServedSchedule, list[tuple[SchedulerSeen, tuple[datetime, ...]]]] = defaultdict(list)
    for one in schedulers:
        zone = str(one.facts.get("timezone") or "UTC")
        for body in _bodies(one.facts.get("schedules")):
            by_schedules[_about(body, zone)].append((one, _moments(body.get("next"))))
    results: list[ServedSchedule] = []
    for about, own in by_schedules.items():
        _, schedule = max(own, key=lambda each: each[0].seen_at)
        by = tuple(sorted({one.machine for one, _ in own}))
        results.append(replace(about, next=schedule, by=by, alive=any(one.owner in living for one, _ in own)))
    return sorted(results, key=lambda each: (each.schedule, not each.alive, each.cron))


def _about(body: Mapping[str, Any], zone: str) -> ServedSchedule:
    """A timetable, without its scheduler."""
    return ServedSchedule(
        schedule=str(body.get("schedule") or ""),
        job=str(body.get("job") or ""),
        cron=str(body.get("cron") or ""),
        timezone=zone,
        enabled=body.get("enabled") is True,
        built_in=body.get("built_in") is True,
        suite=str(body.get("suite") or ""),
        environments=_texts(body.get("environments")),
        baseline=str(body.get("baseline") or ""),
        labels=_texts(body.get("labels")),
    )


# Another version may have written it: unreadable parts are left out.


def _bodies(value: object) -> list[Mapping[str, Any]]:
    items = cast(list[object], value) if isinstance(value, list) else []
    return [cast(Mapping[str, Any], each) for each in items if isinstance(each, Mapping)]


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, cast(list[object], value))) if isinstance(value, list) else ()


def _moments(value: object) -> tuple[datetime, ...]:
    results: list[datetime] = []
    for text in _texts(value):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            continue
        if moment.tzinfo is not None:
            results.append(moment)
    return tuple(sorted(results))


#: The number of nights of a part that are displayed.
NIGHTS = 14

#: The number of runs of its schedule without a task after which a part is no longer expected.
_WITHOUT = 2
#: The worst first; what is no longer scheduled comes last.
_ORDER = (
    "late",
    TaskState.FAILED,
    TaskState.LOST,
    "missed",
    TaskState.CANCELLED,
    TaskState.WAITING,
    TaskState.RUNNING,
    TaskState.DONE,
    "no longer scheduled",
)
_MISSING = (TaskState.FAILED, TaskState.LOST, "missed", TaskState.CANCELLED)

#: The fire time of a night, and its result.
Night = tuple[datetime, str]


@dataclass(frozen=True, slots=True)
class TrackStatus:
    """A part of a schedule.

    `tasks` and `nights` are newest first, at least one of each. `late` is a sentence about a missing or late
    night, if any. `waits` is the reason why its newest night waits, None if it does not. `scheduled`: some
    scheduler still has it in its timetable, as far as known. `summary` is the run of the newest task with a
    run. `coverage` is that of the newest ended night, None without earlier nights to compare with. `failed`
    is the number of its outcomes that crashed, were wrong, ran eager or the like; `disturbed` is a sentence
    about outcomes spoiled by the machine, if they exceed the limit. `spent` are the seconds of all ended
    attempts at the newest task, and their number; None without one.
    """

    tasks: tuple[Task, ...]
    nights: tuple[Night, ...]
    late: Outage | None = None
    waits: WaitCause | None = None
    scheduled: bool = True
    summary: RunSummary | None = None
    coverage: Coverage | None = None
    spent: tuple[float, int] | None = None
    failed: int = 0
    disturbed: MachineDisturbance | None = None

    @property
    def newest(self) -> Task:
        """The task of the newest night."""
        return self.tasks[0]

    @property
    def name(self) -> tuple[str, str]:
        """Schedule and target: the identity of the track."""
        return self.newest.schedule, self.newest.part

    @property
    def state(self) -> str:
        """Its status in a word: late, the state of its newest night, or no longer scheduled."""
        if not self.scheduled:
            return "no longer scheduled"
        return "late" if self.late else self.nights[0][1]

    @property
    def without_task(self) -> bool:
        """Whether its newest night was missed, so that the newest task is that of an earlier night."""
        return self.nights[0][0] > self.newest.due_at

    @property
    def unmeasured(self) -> bool:
        """Whether its newest night is over and measured nothing."""
        return self.nights[0][1] in _MISSING and (self.without_task or self.night_task != self.newest)

    @property
    def unschedulable(self) -> bool:
        """Whether its newest night waits, not for long yet, and no live scheduler can claim it."""
        return self.scheduled and not self.late and self.waits in ("unscheduled", "no such label")

    @property
    def lost_count(self) -> int:
        """The number of usual cases that were not measured in the newest night."""
        return len(self.coverage.lost) if self.coverage and self.scheduled else 0

    @property
    def blank(self) -> bool:
        """Whether its newest night is done without any measurement, because no outcome is ok."""
        counts = self.summary.counts if self.summary and self.summary.id == self.newest.run_id else {}
        return self.state == TaskState.DONE and any(counts.values()) and not counts.get(OutcomeStatus.OK)

    @property
    def tone(self) -> wording.Tone:
        """The tone of the status: the worst of its task, its outcomes, and disturbances."""
        tone = (
            "bad" if self.lost_count or self.unschedulable or self.blank else wording.status(self.state).tone
        )
        has_problem = self.scheduled and (self.failed > 0 or self.disturbed is not None)
        return "odd" if has_problem and tone != "bad" else tone

    @property
    def missing(self) -> int:
        """The number of displayed nights without a complete result."""
        return sum(state in _MISSING for _, state in self.nights)

    @property
    def night(self) -> MeasuredNight | None:
        """The newest ended night with a run, with the earlier runs of its coverage."""
        return newest_measured(self.tasks)

    @property
    def night_task(self) -> Task | None:
        """The task of that night."""
        return self.night and self.night.task

    @property
    def last_done(self) -> Task | None:
        """The newest night that is done."""
        return next((task for task in self.tasks if task.state == TaskState.DONE), None)

    @property
    def seriousness(self) -> tuple[int, int, tuple[str, str]]:
        """The sort key of parts, worst first."""
        place = _ORDER.index(self.state) if self.state in _ORDER else 0
        # Lost coverage and an unschedulable night weigh as much as a night that failed.
        return (min(place, 1) if self.tone == "bad" else place, -self.lost_count, self.name)


def standings(
    tasks: Iterable[Task],
    missed_runs: Mapping[str, Sequence[datetime]],
    schedulers: Sequence[SchedulerSeen],
    plan: Sequence[ServedSchedule],
    now: datetime,
    patience: Patience,
    overdue: Mapping[str, Outage],
) -> list[TrackStatus]:
    """Every part with a task, worst first; `tasks` and moments are newest first.

    `overdue` are the nights that did not begin, by name.
    """
    tasks = list(tasks)
    parts: dict[tuple[str, str], list[Task]] = defaultdict(list)
    for task in tasks:
        parts[task.schedule, task.part].append(task)
    hours, minutes = patience.overdue_hours, patience.silent_minutes
    able = eligible_machines(one for one in present(alive(schedulers, now, minutes)) if measures(one))
    busy = {task.machine for task in tasks if task.state == TaskState.RUNNING}
    fire_times = {name: {task.due_at for task in own} for name, own in _by_schedule(tasks).items()}
    off = {each.schedule for each in plan} - {each.schedule for each in plan if each.enabled}
    unplanned_ones = _overdue_schedules(tasks, missed_runs, plan, off, now)
    served_names = _schedule_names(plan)
    results: list[TrackStatus] = []
    for (schedule, part), own in parts.items():
        name = part_label(schedule, part)
        since = unplanned_ones.get(schedule)
        late = overdue.get(name) or (since and unplanned_outage(name, since, now, hours)) or None
        # Two runs without a task for a part: it was taken out of the schedule.
        was_dropped = sum(due_at > own[0].due_at for due_at in fire_times[schedule]) >= _WITHOUT
        # A disabled schedule runs only when it is triggered by hand: it has no missing nights.
        silent_since = own[0].due_at if schedule in off else since
        is_gone = silent_since is not None and now - silent_since > GONE_FOR_GOOD
        is_scheduled = (served_names is None or schedule in served_names) and not was_dropped and not is_gone
        without = _missed_of(own, missed_runs.get(schedule, ()), fire_times[schedule])
        nights = sorted(_nights(own, without), reverse=True)[:NIGHTS]
        waits = wait_reason(own[0], able, busy, now).why if own[0].state == TaskState.WAITING else None
        results.append(
            TrackStatus(tuple(own), tuple(nights), late if is_scheduled else None, waits, is_scheduled)
        )
    return sorted(results, key=lambda one: one.seriousness)


def with_results(
    one: TrackStatus,
    summaries: Mapping[str, RunSummary],
    endings: Mapping[str, Sequence[OutcomeCount]],
    durations: Mapping[int, tuple[float, int]],
    disturbed_share: float,
) -> TrackStatus:
    """A part with its newest run, its coverage, its duration and its disturbances.

    `endings` are by run, `durations` is by task; disturbances are mentioned from `disturbed_share` on.
    """
    run = next((task.run_id for task in one.tasks if task.run_id), None)
    night = one.night
    night_endings = endings.get(night.runs[0], ()) if night else ()
    disturbance = machine_disturbance(
        night.task.machine if night else "", [{each.status: each.count} for each in night_endings]
    )
    return replace(
        one,
        summary=summaries.get(run or ""),
        coverage=coverage(night, endings) if night and night.before else None,
        spent=durations.get(one.newest.id),
        failed=sum(each.count for each in night_endings if each.status in FAILED),
        disturbed=disturbance if disturbance.reported(disturbed_share) else None,
    )


def _by_schedule(tasks: Iterable[Task]) -> dict[str, list[Task]]:
    by_schedule: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        by_schedule[task.schedule].append(task)
    return by_schedule


def _nights(own: Iterable[Task], missed_runs: Iterable[datetime]) -> list[Night]:
    """The result of each moment."""
    result: dict[datetime, str] = dict.fromkeys(missed_runs, "missed")
    for task in own:
        result[task.due_at] = task.state
    return list(result.items())


def _missed_of(
    own: Sequence[Task], missed_runs: Iterable[datetime], fire_times: Collection[datetime]
) -> list[datetime]:
    """The missed runs of a schedule that would have had a task for a target, as far as known.

    Runs before its first task do not count if an earlier fire time had no task for it, nor runs after its
    newest one if a later fire time had none: the target was added or removed meanwhile.
    """
    was_added, was_removed = own[-1].due_at > min(fire_times), own[0].due_at < max(fire_times)
    return [
        at
        for at in missed_runs
        if not (was_added and at < own[-1].due_at) and not (was_removed and at > own[0].due_at)
    ]


def _overdue_schedules(
    tasks: Iterable[Task],
    missed_runs: Mapping[str, Sequence[datetime]],
    plan: Iterable[ServedSchedule],
    off: Collection[str],
    now: datetime,
) -> dict[str, datetime]:
    """By schedule, the time since which a run is missing in the queue."""
    announced_times: dict[str, list[datetime]] = defaultdict(list)
    living: set[str] = set()
    for each in plan:
        if each.enabled:
            announced_times[each.schedule] += each.next
            living |= {each.schedule} if each.alive else set()
    result: dict[str, datetime] = {}
    for schedule, own in _by_schedule(tasks).items():
        # While a scheduler is running nothing is missing: due runs are planned within seconds.
        if schedule in living or schedule in off:
            continue
        due = sorted({task.due_at for task in own} | set(missed_runs.get(schedule, ())), reverse=True)
        since = unplanned_since(due, announced_times[schedule], now)
        if since is not None:
            result[schedule] = since
    return result


def _schedule_names(plan: Sequence[ServedSchedule]) -> frozenset[str] | None:
    """The schedules with a scheduler; None if no live scheduler reports them."""
    if not any(each.alive for each in plan):
        return None
    return frozenset(each.schedule for each in plan)
