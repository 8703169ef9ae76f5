"""The status of each track by its nights, and of each schedule by the facts that schedulers store."""

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
    """A schedule as one scheduler or several serve it: `by` are their machines, in order.

    `alive`: one of them was seen lately. `next` are its next fire times as announced last;
    of a scheduler that died some lie in the past. `labels` is empty for any machine.
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
    seen: Sequence[SchedulerSeen], now: datetime, silent_minutes: int
) -> list[ServedSchedule]:
    """Every schedule that any scheduler serves, by name; alike ones of several schedulers once."""
    living = {one.owner for one in alive(seen, now, silent_minutes)}
    by_schedules: dict[ServedSchedule, list[tuple[SchedulerSeen, tuple[datetime, ...]]]] = defaultdict(list)
    for one in seen:
        zone = str(one.facts.get("timezone") or "UTC")
        for body in _bodies(one.facts.get("schedules")):
            by_schedules[_about(body, zone)].append((one, _moments(body.get("next"))))
    found: list[ServedSchedule] = []
    for about, own in by_schedules.items():
        _, announced = max(own, key=lambda each: each[0].seen_at)
        by = tuple(sorted({one.machine for one, _ in own}))
        found.append(replace(about, next=announced, by=by, alive=any(one.owner in living for one, _ in own)))
    return sorted(found, key=lambda each: (each.schedule, not each.alive, each.cron))


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


# Another version may have written it: what cannot be read is not shown.


def _bodies(value: object) -> list[Mapping[str, Any]]:
    listed = cast(list[object], value) if isinstance(value, list) else []
    return [cast(Mapping[str, Any], each) for each in listed if isinstance(each, Mapping)]


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, cast(list[object], value))) if isinstance(value, list) else ()


def _moments(value: object) -> tuple[datetime, ...]:
    found: list[datetime] = []
    for text in _texts(value):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            continue
        if moment.tzinfo is not None:
            found.append(moment)
    return tuple(sorted(found))


#: Nights of a part that are shown one by one.
NIGHTS = 14

#: After so many runs of its schedule without a task for it, a part is no longer expected.
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

#: When a night was due, and its result.
Night = tuple[datetime, str]


@dataclass(frozen=True, slots=True)
class TrackStatus:
    """A part of a schedule. `tasks` and `nights` are the newest first, and there is at least one of each.

    `late` says in a sentence what should have happened and did not, if anything. `waits` is why its newest
    night waits, None where it does not. `scheduled`: some scheduler still has it in its timetable, as far as
    is known. `summary` is the run of the newest task that has one. `coverage` is that of the newest night
    that is over, None where there is nothing to hold it against. `failed` of its outcomes crashed, were
    wrong, ran eager or the like; `disturbed` says how many the machine spoiled, where that is worth a word.
    `spent` are the seconds of all attempts at the newest task that are over, and how many those are; None
    before there are any.
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
        """Its status in a word: late, the state of its newest night, or not scheduled any more."""
        if not self.scheduled:
            return "no longer scheduled"
        return "late" if self.late else self.nights[0][1]

    @property
    def without_task(self) -> bool:
        """Whether its newest night was missed: the newest task is an earlier night's."""
        return self.nights[0][0] > self.newest.due_at

    @property
    def unmeasured(self) -> bool:
        """Whether its newest night is over and measured nothing."""
        return self.nights[0][1] in _MISSING and (self.without_task or self.night_task != self.newest)

    @property
    def unschedulable(self) -> bool:
        """Whether its newest night waits, not for long yet, and no live scheduler could claim it."""
        return self.scheduled and not self.late and self.waits in ("unscheduled", "no such label")

    @property
    def lost_count(self) -> int:
        """How many cases used to be measured and were not in the newest night."""
        return len(self.coverage.lost) if self.coverage and self.scheduled else 0

    @property
    def blank(self) -> bool:
        """Whether its newest night is done and has no number: whatever it measured ended some other way."""
        counts = self.summary.counts if self.summary and self.summary.id == self.newest.run_id else {}
        return self.state == TaskState.DONE and any(counts.values()) and not counts.get(OutcomeStatus.OK)

    @property
    def tone(self) -> wording.Tone:
        """How good that is: the worst of its task, of how its cases ended, and of what disturbed them."""
        tone = (
            "bad" if self.lost_count or self.unschedulable or self.blank else wording.status(self.state).tone
        )
        spoiled = self.scheduled and (self.failed > 0 or self.disturbed is not None)
        return "odd" if spoiled and tone != "bad" else tone

    @property
    def missing(self) -> int:
        """How many of the nights shown brought nothing whole."""
        return sum(state in _MISSING for _, state in self.nights)

    @property
    def night(self) -> MeasuredNight | None:
        """The newest night that is over and has a run, with the runs that its coverage is held against."""
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
        """What sorts parts, the worst first."""
        place = _ORDER.index(self.state) if self.state in _ORDER else 0
        # Lost coverage and an unschedulable night weigh as much as a night that failed.
        return (min(place, 1) if self.tone == "bad" else place, -self.lost_count, self.name)


def standings(
    tasks: Iterable[Task],
    missed: Mapping[str, Sequence[datetime]],
    seen: Sequence[SchedulerSeen],
    plan: Sequence[ServedSchedule],
    now: datetime,
    patience: Patience,
    overdue: Mapping[str, Outage],
) -> list[TrackStatus]:
    """Every part of which there is a task, the worst first; `tasks` and moments come newest first.

    `overdue` are the nights that did not begin, by name.
    """
    tasks = list(tasks)
    parts: dict[tuple[str, str], list[Task]] = defaultdict(list)
    for task in tasks:
        parts[task.schedule, task.part].append(task)
    hours, minutes = patience.overdue_hours, patience.silent_minutes
    able = eligible_machines(one for one in present(alive(seen, now, minutes)) if measures(one))
    busy = {task.machine for task in tasks if task.state == TaskState.RUNNING}
    fire_times = {name: {task.due_at for task in own} for name, own in _by_schedule(tasks).items()}
    off = {each.schedule for each in plan} - {each.schedule for each in plan if each.enabled}
    unplanned_ones = _overdue_schedules(tasks, missed, plan, off, now)
    served = _schedule_names(plan)
    found: list[TrackStatus] = []
    for (schedule, part), own in parts.items():
        name = part_label(schedule, part)
        since = unplanned_ones.get(schedule)
        late = overdue.get(name) or (since and unplanned_outage(name, since, now, hours)) or None
        # Two runs without a task for a part: it was taken out of the schedule.
        dropped = sum(due_at > own[0].due_at for due_at in fire_times[schedule]) >= _WITHOUT
        # A schedule that is switched off runs only when it is triggered by hand: nothing of it is missing.
        silent_since = own[0].due_at if schedule in off else since
        gone = silent_since is not None and now - silent_since > GONE_FOR_GOOD
        scheduled = (served is None or schedule in served) and not dropped and not gone
        without = _missed_of(own, missed.get(schedule, ()), fire_times[schedule])
        nights = sorted(_nights(own, without), reverse=True)[:NIGHTS]
        waits = wait_reason(own[0], able, busy, now).why if own[0].state == TaskState.WAITING else None
        found.append(TrackStatus(tuple(own), tuple(nights), late if scheduled else None, waits, scheduled))
    return sorted(found, key=lambda one: one.seriousness)


def with_results(
    one: TrackStatus,
    summaries: Mapping[str, RunSummary],
    endings: Mapping[str, Sequence[OutcomeCount]],
    spent: Mapping[int, tuple[float, int]],
    disturbed_share: float,
) -> TrackStatus:
    """A part with its newest run, its coverage, its time and what disturbed it.

    `endings` are by run, `spent` is by task; what was disturbed counts from `disturbed_share` on.
    """
    run = next((task.run_id for task in one.tasks if task.run_id), None)
    night = one.night
    ended = endings.get(night.runs[0], ()) if night else ()
    spoiled = machine_disturbance(
        night.task.machine if night else "", [{each.status: each.count} for each in ended]
    )
    return replace(
        one,
        summary=summaries.get(run or ""),
        coverage=coverage(night, endings) if night and night.before else None,
        spent=spent.get(one.newest.id),
        failed=sum(each.count for each in ended if each.status in FAILED),
        disturbed=spoiled if spoiled.reported(disturbed_share) else None,
    )


def _by_schedule(tasks: Iterable[Task]) -> dict[str, list[Task]]:
    found: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        found[task.schedule].append(task)
    return found


def _nights(own: Iterable[Task], missed: Iterable[datetime]) -> list[Night]:
    """What became of each moment."""
    found: dict[datetime, str] = dict.fromkeys(missed, "missed")
    for task in own:
        found[task.due_at] = task.state
    return list(found.items())


def _missed_of(
    own: Sequence[Task], missed: Iterable[datetime], fire_times: Collection[datetime]
) -> list[datetime]:
    """The missed runs of a schedule that would have had a task for a target, as far as is known.

    None before its first task where an earlier one of `fire_times` had none for it, and none after its newest
    where a later one had none: it joined the schedule meanwhile, or left it.
    """
    joined, left = own[-1].due_at > min(fire_times), own[0].due_at < max(fire_times)
    return [at for at in missed if not (joined and at < own[-1].due_at) and not (left and at > own[0].due_at)]


def _overdue_schedules(
    tasks: Iterable[Task],
    missed: Mapping[str, Sequence[datetime]],
    plan: Iterable[ServedSchedule],
    off: Collection[str],
    now: datetime,
) -> dict[str, datetime]:
    """By schedule, since when a run of it is missing in the queue."""
    announced: dict[str, list[datetime]] = defaultdict(list)
    living: set[str] = set()
    for each in plan:
        if each.enabled:
            announced[each.schedule] += each.next
            living |= {each.schedule} if each.alive else set()
    found: dict[str, datetime] = {}
    for schedule, own in _by_schedule(tasks).items():
        # Where a scheduler runs nothing is missing: what is due is planned within seconds.
        if schedule in living or schedule in off:
            continue
        due = sorted({task.due_at for task in own} | set(missed.get(schedule, ())), reverse=True)
        since = unplanned_since(due, announced[schedule], now)
        if since is not None:
            found[schedule] = since
    return found


def _schedule_names(plan: Sequence[ServedSchedule]) -> frozenset[str] | None:
    """The schedules with a scheduler; None where no scheduler is alive to report them."""
    if not any(each.alive for each in plan):
        return None
    return frozenset(each.schedule for each in plan)
