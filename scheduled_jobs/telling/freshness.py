"""What is not as fresh as it should be: silent machines, missing nights, cases no longer measured."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from db.endings import Ending
from db.queue_records import SchedulerSeen, Task

#: A machine that was not seen for so long is not waited for any more.
GONE_FOR_GOOD = timedelta(days=14)

#: A case counts as measured until now that was in at least half of so many runs before.
RUNS_BEFORE = 7

#: Outcomes that say something of the machine and nothing of the case.
_DISTURBED = ("throttled", "contended")


@dataclass(frozen=True, slots=True)
class Silence:
    """Something that should be heard of and is not, aware `since` when. `kind`: machine or night.

    `name` and `since` tell it from every other silence; `sentence` is for people.
    """

    kind: str
    name: str
    since: datetime
    sentence: str

    @property
    def key(self) -> str:
        """The silence in one text: the same for as long as it lasts."""
        return f"{self.kind} {self.name} {self.since.isoformat()}"


@dataclass(frozen=True, slots=True)
class Fallen:
    """A case that used to be measured and, in the newest run of its track, was not: how it ended instead."""

    schedule: str
    part: str
    case: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class Disturbed:
    """So many of the outcomes of a machine's runs were spoiled by the machine itself."""

    machine: str
    throttled: int
    contended: int
    outcomes: int

    @property
    def share(self) -> float:
        """The spoiled ones of all, from 0 to 1."""
        return (self.throttled + self.contended) / self.outcomes


def silent_machines(seen: Iterable[SchedulerSeen], now: datetime, minutes: int) -> list[Silence]:
    """The machines whose schedulers were all last seen more than so many minutes ago, by name.

    One that stopped as it was told to has said so and is not among `seen`.
    """
    last: dict[str, datetime] = {}
    for one in seen:
        last[one.machine] = max(one.seen_at, last.get(one.machine, one.seen_at))
    return [
        Silence("machine", machine, at, _silent(machine, now - at))
        for machine, at in sorted(last.items())
        if timedelta(minutes=minutes) < now - at <= GONE_FOR_GOOD
    ]


def _silent(machine: str, length: timedelta) -> str:
    return f"machine {machine} is silent: no scheduler was seen there for {in_words(length)}"


def overdue_nights(
    measuring: Iterable[Task], seen: Collection[SchedulerSeen], now: datetime, *, hours: int, minutes: int
) -> list[Silence]:
    """The parts of schedules that should have been measured hours ago and that nobody has begun, by name.

    `measuring` are the newest tasks that measure, in any state. A part that waits for several nights, each
    standing for the one before, is silent since the first of them.
    """
    parts: dict[str, list[Task]] = defaultdict(list)
    for task in sorted(measuring, key=lambda task: task.due_at, reverse=True):
        parts[shown(task.schedule, task.part)].append(task)
    found: list[Silence] = []
    for name, own in sorted(parts.items()):
        unbegun = list(takewhile(lambda task: not _has_begun(task), own))
        if not any(task.state == "waiting" for task in unbegun):
            continue
        first = unbegun[-1]
        if now - max(first.due_at, first.not_before or first.due_at) > timedelta(hours=hours):
            found.append(Silence("night", name, first.due_at, _overdue(first, seen, now, minutes)))
    return found


def is_back(
    kind: str, name: str, since: datetime, seen: Iterable[SchedulerSeen], measuring: Iterable[Task]
) -> bool:
    """Whether what fell silent was heard of since, and did not merely stop being waited for."""
    if kind == "machine":
        return any(one.machine == name and one.seen_at > since for one in seen)
    return any(
        shown(task.schedule, task.part) == name and task.due_at >= since and _has_begun(task)
        for task in measuring
    )


def _has_begun(task: Task) -> bool:
    return task.state not in ("waiting", "cancelled") or task.attempts > 0


def _overdue(task: Task, seen: Collection[SchedulerSeen], now: datetime, minutes: int) -> str:
    alive = [one for one in seen if now - one.seen_at <= timedelta(minutes=minutes)]
    able = [one for one in alive if task.label in ("", one.machine, *one.labels)]
    what = f"{shown(task.schedule, task.part)} was due {in_words(now - task.due_at)} ago and has not begun"
    if able:
        return f"{what}: {', '.join(sorted({one.machine for one in able}))} is there and did not come to it"
    return f"{what}: no scheduler is there{f' for {task.label}' if task.label else ''}"


def fallen(task: Task, before: Sequence[str], endings: Mapping[str, Sequence[Ending]]) -> list[Fallen]:
    """The cases that were measured in half of the runs `before` or more, and not in the task's run, by key.

    `endings` are by run. Measured is a case of which at least one replicate ended ok. A case that the newest
    run was not asked for is none that fell.
    """
    times: dict[str, int] = defaultdict(int)
    for run in before:
        for case in {ending.case for ending in endings.get(run, ()) if ending.status == "ok"}:
            times[case] += 1
    newest: dict[str, list[Ending]] = defaultdict(list)
    for ending in endings.get(task.run_id or "", ()):
        newest[ending.case].append(ending)
    found: list[Fallen] = []
    for case, ended in sorted(newest.items()):
        if 2 * times[case] >= len(before) > 0 and all(ending.status != "ok" for ending in ended):
            most = max(ended, key=lambda ending: ending.count)
            found.append(Fallen(task.schedule, task.part, case, most.status, most.reason))
    return found


def disturbed(machine: str, counts: Iterable[Mapping[str, int]]) -> Disturbed:
    """What the counts by status of a machine's runs say of the machine."""
    total: dict[str, int] = defaultdict(int)
    for each in counts:
        for status, count in each.items():
            total[status] += count
    throttled, contended = (total[status] for status in _DISTURBED)
    return Disturbed(machine, throttled, contended, max(1, sum(total.values())))


def shown(schedule: str, part: str) -> str:
    """A part of a schedule for people."""
    return f"{schedule} ({part})" if part else schedule


def in_words(length: timedelta) -> str:
    """A length of time for people: `45 minutes`, `13 hours`, `3 days`."""
    minutes = int(length.total_seconds() // 60)
    if minutes < 120:
        return f"{minutes} minutes"
    return f"{minutes // 60} hours" if minutes < 48 * 60 else f"{minutes // (24 * 60)} days"
