"""The status of a fleet at a moment: schedulers, running tasks, waiting tasks with reasons, silent machines.

The command line, the pages, the digest and the alerts use it; `analysis.staleness` judges what is late or
silent.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from analysis.staleness import (
    Outage,
    WaitReason,
    eligible_machines,
    overdue_nights,
    present,
    silent_machines,
    wait_reason,
)
from configuration.schema import AlertSettings
from db.connection.engine import Database
from db.queue import queries
from records.tasks import SchedulerSeen, Task, TaskState, machine_of

#: The jobs that need a machine exclusively; the others run in parallel with any job.
MEASURING = frozenset({"measure", "upgrade", "confirm"})
#: The period of nights, and the most of their tasks: two nights of a thousand machines.
_BACK, _TASKS = timedelta(days=35), 3000
#: The reasons of open tasks in the order of the list: those that need an action first.
URGENCY = ("no such label", "unscheduled", "running", "busy", "not yet", "next")


@dataclass(frozen=True, slots=True)
class Patience:
    """The times after which a machine counts as silent and a night as late, and the share from which on a
    machine counts as disturbed.
    """

    silent_minutes: int
    overdue_hours: int
    disturbed_share: float

    @staticmethod
    def of(alerts: AlertSettings) -> "Patience":
        """The limits of the settings."""
        return Patience(alerts.silent_minutes, alerts.overdue_hours, alerts.disturbed_share)


def announced_patience(schedulers: Sequence[SchedulerSeen]) -> Patience:
    """The limits that the last seen scheduler announced; the defaults without one."""
    usual = AlertSettings()
    for one in sorted(schedulers, key=lambda one: one.seen_at, reverse=True):
        minutes, hours = (one.facts.get(name) for name in ("silent_minutes", "overdue_hours"))
        if isinstance(minutes, int) and isinstance(hours, int) and min(minutes, hours) > 0:
            share = one.facts.get("disturbed_share")
            # An earlier version does not report it.
            return Patience(minutes, hours, share if isinstance(share, float) else usual.disturbed_share)
    return Patience.of(usual)


def measures(one: SchedulerSeen) -> bool:
    """Whether a scheduler runs jobs that measure; True for versions that do not report it."""
    return one.facts.get("measures") is not False


def runs_control_jobs(one: SchedulerSeen) -> bool:
    """Whether a scheduler runs jobs that do not measure; a node of a fleet does not."""
    return one.facts.get("head") is None


@dataclass(frozen=True, slots=True)
class Outages:
    """The silent machines and the late nights."""

    machines: tuple[Outage, ...]
    nights: tuple[Outage, ...]


def outages(
    database: Database, schedulers: Sequence[SchedulerSeen], now: datetime, patience: Patience
) -> Outages:
    """The machines and nights that are silent or late at this moment; raises DatabaseError."""
    minutes = patience.silent_minutes
    # Not the newest tasks: in a large fleet those are of a night or two, and "since when" moves on with them.
    unbegun = queries.not_started(database, "measure")
    nights = overdue_nights(unbegun, schedulers, now, hours=patience.overdue_hours, minutes=minutes)
    return Outages(tuple(silent_machines(schedulers, now, minutes)), tuple(nights))


def recent_nights(database: Database, until: datetime) -> list[Task]:
    """The tasks that measure and were due in the 35 days until a moment, newest first; raises DatabaseError.

    The digest and the pages judge the coverage of a part by these (`analysis.staleness.coverage`).
    """
    return queries.night_tasks(database, until - _BACK, until, _TASKS)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A machine of the fleet. `state`: measures, idle, drained, silent, gone, joined.

    `gone` means that it left without being drained, `joined` that no scheduler has reported it. `facts` are
    what it reports about itself.
    """

    name: str
    state: str
    labels: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seen_at: datetime | None = None
    doing: tuple[Task, ...] = ()

    def body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "node": self.name,
            "state": self.state,
            "labels": list(self.labels),
            "seen_at": self.seen_at.isoformat() if self.seen_at else None,
            "tasks": [{"task": task.id, "run": task.run_id, **_task_body(task)} for task in self.doing],
            "facts": dict(self.facts),
        }


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """Schedulers, the nodes that they reported, and tasks, at a moment.

    `seen` are all known schedulers, `living` those that are online. `nodes` are by name, `running` by
    machine. `waiting` are tasks with the reason why they wait, unschedulable ones first. `notes` are
    sentences about the fleet.
    """

    now: datetime
    seen: tuple[SchedulerSeen, ...]
    living: tuple[SchedulerSeen, ...]
    nodes: Mapping[str, NodeStatus]
    running: Mapping[str, tuple[Task, ...]]
    waiting: tuple[tuple[Task, WaitReason], ...]
    notes: tuple[str, ...] = ()

    def silent_takers(self, task: Task) -> tuple[str, ...]:
        """The machines that should take tasks but are not online."""
        owners = {one.owner for one in self.living}
        away = (one for one in self.seen if one.owner not in owners)
        return eligible_machines(away if task.job in MEASURING else filter(runs_control_jobs, away)).of(
            task.label
        )

    def body(self) -> dict[str, Any]:
        """Nodes, waiting tasks and notes as plain JSON values."""
        return {
            "nodes": [self.nodes[name].body() for name in sorted(self.nodes)],
            "waiting": [
                {"task": task.id, **_task_body(task), "why": why.why, "machines": list(why.machines)}
                for task, why in self.waiting
            ],
            "notes": list(self.notes),
        }


def fleet_status(
    seen: Iterable[SchedulerSeen],
    reporting: Sequence[SchedulerSeen],
    tasks: Iterable[Task],
    now: datetime,
    drained: Collection[str] = (),
) -> FleetStatus:
    """The status from all known schedulers, those `reporting` lately, and tasks that run or wait.

    Nodes in `drained` get no new task.
    """
    seen, tasks, living = tuple(seen), list(tasks), present(reporting)
    departed = frozenset({one.machine for one in reporting} - {one.machine for one in living})
    running: dict[str, tuple[Task, ...]] = {}
    for task in tasks:
        if task.state == TaskState.RUNNING:
            machine = machine_of(task.owner)
            running[machine] = (*running.get(machine, ()), task)
    return FleetStatus(
        now=now,
        seen=seen,
        living=tuple(living),
        nodes=_nodes(seen, {one.owner for one in living}, departed, running, drained),
        running=running,
        waiting=_waiting_tasks(tasks, living, running, now),
    )


def _nodes(
    schedulers: Iterable[SchedulerSeen],
    living: Collection[str],
    departed: Collection[str],
    running: Mapping[str, tuple[Task, ...]],
    drained: Collection[str],
) -> dict[str, NodeStatus]:
    """The nodes that schedulers have reported; `living` are the owners of those that are online."""
    found: dict[str, NodeStatus] = {}
    for one in sorted(schedulers, key=lambda one: one.seen_at):
        facts = one.facts.get("node")
        if not isinstance(facts, dict):
            continue
        own = running.get(one.machine, ())
        state = "drained" if one.machine in drained else "measures" if own else "idle"
        if one.owner not in living:
            state = "silent"
        if one.machine in departed:
            state = "gone"
        about = cast("dict[str, Any]", facts)
        found[one.machine] = NodeStatus(one.machine, state, one.labels, about, one.seen_at, own)
    return found


def _waiting_tasks(
    tasks: Iterable[Task],
    living: Sequence[SchedulerSeen],
    running: Mapping[str, tuple[Task, ...]],
    now: datetime,
) -> tuple[tuple[Task, WaitReason], ...]:
    """The tasks that no scheduler has begun with the reasons, in the order of URGENCY, oldest first."""
    able = {
        True: eligible_machines(filter(measures, living)),
        False: eligible_machines(filter(runs_control_jobs, living)),
    }
    busy: dict[bool, set[str]] = {True: set(), False: set()}
    for machine, own in running.items():
        for task in own:
            busy[task.job in MEASURING].add(machine)
    found: list[tuple[Task, WaitReason]] = []
    for task in tasks:
        if task.state == TaskState.WAITING:
            alone = task.job in MEASURING
            found.append((task, wait_reason(task, able[alone], busy[alone], now)))
    return tuple(sorted(found, key=lambda one: (URGENCY.index(one[1].why), one[0].due_at, one[0].id)))


def _task_body(task: Task) -> dict[str, Any]:
    return {"schedule": task.schedule, "part": task.part, "job": task.job, "label": task.label}
