"""The status of a fleet: its machines, their tasks, and the tasks that wait, with the reason."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from analysis.staleness import WaitReason, alive
from db.queue import queries as queue_queries
from records.tasks import SchedulerSeen, Task
from scheduled_jobs.scheduler.process_identity import dead_process, machine_name, this_process
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.fleet_status import MEASURING, URGENCY, FleetStatus, fleet_status

from .drain import drained
from .engine import Engine, EngineError, NodeSeen

#: A scheduler shows within half a minute that one of its machines lives.
_ALIVE_MINUTES = 2
_MOST_TASKS = 1000
#: A machine whose doctor nobody asked yet.
_DESCRIBE_SECONDS, _AGAIN_SECONDS = 60.0, 1.0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A machine of the fleet. `state`: measures, idle, drained, silent, gone, joined.

    Gone is one that left without being drained, joined one that no scheduler has taken up. `facts` are what
    it tells of itself.
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
class FleetReport:
    """The machines by name, the tasks that wait, those first that nobody can do; `notes` are sentences."""

    nodes: tuple[NodeStatus, ...]
    waiting: tuple[tuple[Task, WaitReason], ...]
    notes: tuple[str, ...]
    now: datetime

    @property
    def names(self) -> frozenset[str]:
        """What the machines are called."""
        return frozenset(node.name for node in self.nodes)

    def body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "nodes": [node.body() for node in self.nodes],
            "waiting": [
                {"task": task.id, **_task_body(task), "why": why.why, "machines": list(why.machines)}
                for task, why in self.waiting
            ],
            "notes": list(self.notes),
        }


def fleet_report(app: AppContext, *, describe: bool = False) -> FleetReport:
    """The report on the configured fleet; with `describe` each machine is asked what it can measure.

    Raises UsageError where no fleet is configured, DatabaseError, and JobError.
    """
    now = datetime.now(UTC)
    with app.open_database() as database:
        everybody = queue_queries.schedulers(database)
        running = queue_queries.running(database)
        left, newer = queue_queries.waiting(database, oldest=_MOST_TASKS)
    status = fleet_status(everybody, recently_seen(everybody, now), running, now)
    found = _known_nodes(app, status)
    found |= {name: replace(node, state="gone") for name, node in found.items() if name in status.gone}
    notes = [f"{newer} tasks more wait, which were due after all that are listed"] if newer else []
    # A scheduler of this head knows them; without one the engine is asked, which takes seconds.
    heads = [one for one in status.living if one.machine == machine_name()]
    for one in heads:
        notes += _warnings(one)
    if not heads:
        notes.append("no scheduler of this head is there to use them: start one with `pyrometer scheduler`")
        found |= _joined(app, found, notes, describe=describe)
    return FleetReport(
        nodes=tuple(found[name] for name in sorted(found)),
        waiting=_sorted(left, status),
        notes=tuple(notes),
        now=now,
    )


def recently_seen(schedulers: Iterable[SchedulerSeen], now: datetime) -> list[SchedulerSeen]:
    """Those that were seen lately, and whose process is not known to be dead."""
    me = this_process(machine_name())
    return [one for one in alive(schedulers, now, _ALIVE_MINUTES) if dead_process(one.owner, me) is None]


def _warnings(one: SchedulerSeen) -> list[str]:
    """Why machines that joined are not used, as a scheduler told."""
    found = one.facts.get("troubles")
    return [str(each) for each in found] if isinstance(found, list) else []


def _known_nodes(app: AppContext, status: FleetStatus) -> dict[str, NodeStatus]:
    """The machines that schedulers told of."""
    off, there = drained(app.places.data_dir), {one.owner for one in status.living}
    found: dict[str, NodeStatus] = {}
    for one in sorted(status.seen, key=lambda one: one.seen_at):
        facts = one.facts.get("node")
        if not isinstance(facts, dict):
            continue
        own = status.running.get(one.machine, ())
        state = "drained" if one.machine in off else "measures" if own else "idle"
        if one.owner not in there:
            state = "silent"
        found[one.machine] = NodeStatus(one.machine, state, one.labels, facts, one.seen_at, own)
    return found


def _joined(
    app: AppContext, known: Mapping[str, NodeStatus], notes: list[str], *, describe: bool
) -> dict[str, NodeStatus]:
    """The machines that joined, and that no scheduler told of."""
    engine = engine_of(app, looks=True)
    try:
        taken = {node.name for node in known.values() if node.state != "silent"}
        seen = [node for node in engine.nodes() if node.name not in taken]
        facts = _facts(engine, seen, notes) if describe else {}
        return {
            node.name: NodeStatus(
                node.name,
                "joined",
                tuple(f"{key}={value}" for key, value in sorted(node.labels.items())),
                facts.get(node.name, {}),
            )
            for node in seen
        }
    except EngineError as error:
        notes.append(f"the fleet's engine is away: {error}")
        return {}
    finally:
        engine.close()


def _facts(engine: Engine, nodes: Iterable[NodeSeen], notes: list[str]) -> dict[str, Mapping[str, Any]]:
    """What machines tell of themselves by their names; a doctor whom nobody asked before takes a while."""
    found: dict[str, Mapping[str, Any]] = {}
    left, give_up = list(nodes), time.monotonic() + _DESCRIBE_SECONDS
    while left and time.monotonic() < give_up:
        for node in tuple(left):
            try:
                found[node.name] = engine.call(node.id, "describe", {}, _DESCRIBE_SECONDS)
            except EngineError as error:
                notes.append(f"{node.name}: {error}")
                left.remove(node)
            else:
                if found[node.name].get("hardware"):
                    left.remove(node)
        time.sleep(_AGAIN_SECONDS if left else 0.0)
    return found


def _sorted(left: Iterable[Task], status: FleetStatus) -> tuple[tuple[Task, WaitReason], ...]:
    """What waits for a machine that measures, and why."""
    found = [(task, status.why(task)) for task in left if task.job in MEASURING]
    return tuple(sorted(found, key=lambda one: (URGENCY.index(one[1].why), one[0].due_at, one[0].id)))


def _task_body(task: Task) -> dict[str, Any]:
    return {"schedule": task.schedule, "part": task.part, "job": task.job, "label": task.label}


def engine_of(app: AppContext, *, looks: bool = False) -> Engine:
    """The engine that [fleet] names; with `looks` it only lists and describes nodes.

    Raises UsageError where no fleet is configured, and JobError where the engine is not available.
    """
    # Imported here: an engine takes seconds to import, and only one is used.
    fleet, data_dir = app.settings.fleet, app.places.data_dir
    if fleet.engine == "ray":
        from .ray.engine import RayEngine

        return RayEngine(str(fleet.address), fleet.token(data_dir), data_dir / "fleet", looks=looks)
    if fleet.engine == "slurm":
        from .slurm.engine import SlurmEngine

        shared = app.settings.slurm.folder or data_dir / "fleet" / "slurm"
        return SlurmEngine(app.settings.slurm, shared, data_dir / "environments", app.settings.file)
    where = app.settings.file.name if app.settings.file else "pyrometer.toml"
    raise UsageError(f"no fleet is configured: {where} has no [fleet] with an engine; see docs/fleet.md")
