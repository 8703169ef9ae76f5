"""Staleness: silent machines, missing nights, cases no longer measured.

Digest and pages use these functions, so that they agree.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise, takewhile
from typing import Literal

from records.outcomes import OutcomeCount, OutcomeStatus
from records.tasks import SchedulerSeen, Task, TaskState

#: A machine that was not seen for this time is no longer expected.
GONE_FOR_GOOD = timedelta(days=14)

#: The final states of a task.
OVER = (TaskState.DONE, TaskState.FAILED, TaskState.LOST, TaskState.CANCELLED)

#: A case is a usual one if it was in at least half of this number of earlier runs.
RUNS_BEFORE = 7

#: Statuses that describe the machine, not the case.
DISTURBED = (OutcomeStatus.THROTTLED, OutcomeStatus.CONTENDED)

#: The fewest moments from which the usual interval can be estimated.
_KNOWN_MOMENTS = 3


@dataclass(frozen=True, slots=True)
class Outage:
    """An expected machine or night without news since `since` (aware).

    `kind`: machine or night. `name` and `since` identify the outage. `lasts` is its duration, `cause` whether
    a night was not planned or not begun; then `machines` are those of `label` that could have begun it.
    """

    kind: str
    name: str
    since: datetime
    lasts: timedelta
    cause: Literal["unseen", "not planned", "not begun"] = "unseen"
    machines: tuple[str, ...] = ()
    label: str = ""

    @property
    def key(self) -> str:
        """The identity of the outage as one text, which is stable while it lasts."""
        return f"{self.kind} {self.name} {self.since.isoformat()}"


@dataclass(frozen=True, slots=True)
class LostCase:
    """A usual case that was not measured in the newest run of its track, with its status."""

    schedule: str
    part: str
    case: str
    status: OutcomeStatus | Literal["not reached"]
    reason: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """The coverage of a part: all of its `usual` cases except `lost` have a number in its newest run."""

    usual: int
    lost: tuple[LostCase, ...]

    @property
    def measured_cases(self) -> int:
        """The number of usual cases with a number."""
        return self.usual - len(self.lost)


#: The reasons why a task waits: it must not start yet, no machine is online, no online machine has its label,
#: all machines that could run it are busy, or it starts next.
WaitCause = Literal["not yet", "unscheduled", "no such label", "busy", "next"]


@dataclass(frozen=True, slots=True)
class WaitReason:
    """The reason why a task waits, and the names of the online machines that could run it."""

    why: WaitCause
    machines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineDisturbance:
    """The number of outcomes of a machine's runs that were spoiled by the machine."""

    machine: str
    throttled: int
    contended: int
    outcomes: int

    @property
    def share(self) -> float:
        """The share of spoiled outcomes, from 0 to 1."""
        return (self.throttled + self.contended) / self.outcomes

    def reported(self, share: float) -> bool:
        """Whether the share reaches the limit for reporting."""
        return self.throttled + self.contended > 0 and self.share >= share


def silent_machines(schedulers: Iterable[SchedulerSeen], now: datetime, minutes: int) -> list[Outage]:
    """The machines whose schedulers were all last seen more than the given minutes ago, by name.

    A scheduler that stopped on request has unregistered and is not among `schedulers`.
    """
    last: dict[str, datetime] = {}
    for one in schedulers:
        last[one.machine] = max(one.seen_at, last.get(one.machine, one.seen_at))
    return [
        Outage("machine", machine, at, now - at)
        for machine, at in sorted(last.items())
        if timedelta(minutes=minutes) < now - at <= GONE_FOR_GOOD
    ]


def overdue_nights(
    measuring: Iterable[Task],
    schedulers: Collection[SchedulerSeen],
    now: datetime,
    *,
    hours: int,
    minutes: int,
) -> list[Outage]:
    """The targets of schedules that should have been measured hours ago and have not begun, by name.

    `measuring` are the newest tasks that measure, in any state, or the result of `db.queue.queries.unbegun`,
    which is sufficient. A part that has waited for several nights, each replacing the one before, is silent
    since the first of them.
    """
    able = eligible_machines(present(alive(schedulers, now, minutes)))
    parts: dict[str, list[Task]] = defaultdict(list)
    for task in sorted(measuring, key=lambda task: task.due_at, reverse=True):
        # A task that people cancelled before it began is not missing.
        if _has_begun(task) or task.state == TaskState.WAITING or task.superseded:
            parts[part_label(task.schedule, task.part)].append(task)
    found: list[Outage] = []
    for name, own in sorted(parts.items()):
        unbegun = list(takewhile(lambda task: not _has_begun(task), own))
        if not any(task.state == TaskState.WAITING for task in unbegun):
            continue
        first = unbegun[-1]
        if now - max(first.due_at, first.not_before or first.due_at) > timedelta(hours=hours):
            lasts = now - first.due_at
            there = able.of(first.label)
            found.append(Outage("night", name, first.due_at, lasts, "not begun", there, first.label))
    return found


def recovered(
    kind: str, name: str, since: datetime, schedulers: Iterable[SchedulerSeen], measuring: Iterable[Task]
) -> bool:
    """Whether a silent machine or schedule is back, and is not only no longer expected."""
    if kind == "machine":
        return any(one.machine == name and one.seen_at > since for one in schedulers)
    return any(
        part_label(task.schedule, task.part) == name and task.due_at >= since and _has_begun(task)
        for task in measuring
    )


def _has_begun(task: Task) -> bool:
    return task.state not in (TaskState.WAITING, TaskState.CANCELLED) or task.attempts > 0


def alive(schedulers: Iterable[SchedulerSeen], now: datetime, minutes: int) -> list[SchedulerSeen]:
    """The schedulers that were seen within the given minutes."""
    return [one for one in schedulers if now - one.seen_at <= timedelta(minutes=minutes)]


def present(living: Sequence[SchedulerSeen]) -> list[SchedulerSeen]:
    """The schedulers that are alive; the record of a node remains after it has left, which its head
    reports.
    """
    missing: set[tuple[str, str]] = set()
    for one in living:
        listed = one.facts.get("missing")
        missing |= {(one.machine, str(each)) for each in listed} if isinstance(listed, list) else set()
    return [one for one in living if (str(one.facts.get("head")), one.machine) not in missing]


@dataclass(frozen=True, slots=True)
class EligibleMachines:
    """The machines that claim tasks: the names of `every` machine, and the names by label."""

    every: tuple[str, ...]
    by_label: Mapping[str, tuple[str, ...]]

    def of(self, label: str) -> tuple[str, ...]:
        """The machines that claim tasks with a label; tasks without a label are for all machines."""
        return self.by_label.get(label, ()) if label else self.every


def eligible_machines(there: Iterable[SchedulerSeen]) -> EligibleMachines:
    """The machines of these schedulers, by name."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in there:
        for label in (one.machine, *one.labels):
            found[label].add(one.machine)
    every = {machine for machines in found.values() for machine in machines}
    return EligibleMachines(
        tuple(sorted(every)), {label: tuple(sorted(each)) for label, each in found.items()}
    )


def wait_reason(task: Task, able: EligibleMachines, busy: AbstractSet[str], now: datetime) -> WaitReason:
    """The reason why a task waits that has not begun.

    `able` are the live machines that run such jobs, `busy` the machines that run a task now.
    """
    there = able.of(task.label)
    if task.not_before is not None and task.not_before > now:
        return WaitReason("not yet", there)
    if not there:
        return WaitReason("no such label" if able.every and task.label else "unscheduled")
    return WaitReason("busy" if all(machine in busy for machine in there) else "next", there)


def unplanned_since(due: Sequence[datetime], announced: Iterable[datetime], now: datetime) -> datetime | None:
    """The first moment after the newest of `due` at which a schedule should have run and did not.

    `due` are the stored moments, newest first, each once; `announced` are those that schedulers announced. If
    none was announced after the newest one, the longest usual interval is used: a schedule of working days
    pauses at the weekend. None without a missing run, or if that is unknown.
    """
    if not due:
        return None
    coming = sorted(moment for moment in announced if moment > due[0])
    if coming:
        return coming[0] if coming[0] <= now else None
    if len(due) < _KNOWN_MOMENTS:
        return None
    expected = due[0] + max(later - earlier for later, earlier in pairwise(due))
    return expected if expected <= now else None


def unplanned_outage(name: str, since: datetime, now: datetime, hours: int) -> Outage | None:
    """The outage of a target whose schedule should have run more than the given hours ago; else None.

    After `GONE_FOR_GOOD` it is no longer expected.
    """
    if not timedelta(hours=hours) < now - since <= GONE_FOR_GOOD:
        return None
    return Outage("night", name, since, now - since, "not planned")


@dataclass(frozen=True, slots=True)
class MeasuredNight:
    """An ended night of a part with a run, and the earlier runs of its coverage."""

    task: Task
    before: tuple[str, ...]

    @property
    def runs(self) -> tuple[str, ...]:
        """All runs whose outcomes are needed, newest first."""
        return (self.task.run_id or "", *self.before)


def newest_measured(tasks: Iterable[Task]) -> MeasuredNight | None:
    """The newest ended night of a part with a run; `tasks` are all of that part, newest first."""
    tasks = list(tasks)
    over = next((task for task in tasks if task.run_id and task.state in OVER), None)
    return over and MeasuredNight(over, runs_before(over, tasks))


def runs_before(task: Task, tasks: Iterable[Task]) -> tuple[str, ...]:
    """The runs of earlier nights that are done, newest first like `tasks`, at most seven."""
    earlier = (one for one in tasks if one.due_at < task.due_at and one.state == TaskState.DONE)
    return tuple(one.run_id for one in earlier if one.run_id)[:RUNS_BEFORE]


def coverage(night: MeasuredNight, endings: Mapping[str, Sequence[OutcomeCount]]) -> Coverage:
    """The coverage of a night: of the cases measured in at least half of the earlier runs, those measured in
    it.

    `endings` are by run. A case is measured if at least one replicate ended ok. A case without any outcome is
    not lost if the night is done, because it was not planned; else it was not reached.
    """
    times: dict[str, int] = defaultdict(int)
    for run in night.before:
        for case in {ending.case for ending in endings.get(run, ()) if ending.status == OutcomeStatus.OK}:
            times[case] += 1
    task = night.task
    newest: dict[str, list[OutcomeCount]] = defaultdict(list)
    for ending in endings.get(task.run_id or "", ()):
        newest[ending.case].append(ending)
    usual = {case for case, count in times.items() if 2 * count >= len(night.before)}
    asked = sorted(usual & newest.keys() if task.state == TaskState.DONE else usual)
    lost: list[LostCase] = []
    for case in asked:
        ended = newest.get(case)
        if not ended:
            lost.append(LostCase(task.schedule, task.part, case, "not reached", ""))
        elif all(ending.status != OutcomeStatus.OK for ending in ended):
            most = max(ended, key=lambda ending: ending.count)
            lost.append(LostCase(task.schedule, task.part, case, most.status, most.reason))
    return Coverage(len(asked), tuple(lost))


def machine_disturbance(machine: str, counts: Iterable[Mapping[OutcomeStatus, int]]) -> MachineDisturbance:
    """The disturbance of a machine from the counts by status of its runs."""
    total: dict[OutcomeStatus, int] = defaultdict(int)
    for each in counts:
        for status, count in each.items():
            total[status] += count
    throttled, contended = (total[status] for status in DISTURBED)
    return MachineDisturbance(machine, throttled, contended, max(1, sum(total.values())))


def part_label(schedule: str, part: str) -> str:
    """The name of a target: `nightly (2.13.0@h200)`, without repetitions."""
    if part == schedule or part.startswith(f"{schedule}@"):
        return part
    return f"{schedule} ({part})" if part else schedule
