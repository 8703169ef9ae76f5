"""The status of the configured fleet: what schedulers reported, nodes that none has reported, drained nodes.

A drained node gets no new task: it is a file in the head's data folder.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from analysis.staleness import alive
from configuration.data_dirs import environments_folder
from db.queue import queries as queue_queries
from records.tasks import SchedulerSeen
from scheduled_jobs.scheduler.process_identity import dead_process, machine_name, this_process
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.fleet_status import MEASURING, FleetStatus, NodeStatus, fleet_status

from .engine import Engine, EngineError, EngineNode

#: A scheduler reports each of its machines at least every half minute.
_ALIVE_MINUTES = 2
_MOST_TASKS = 1000
#: How long the doctor of a machine that has just joined may take, and how often it is polled.
_DESCRIBE_SECONDS, _POLL_SECONDS = 60.0, 1.0


def configured_fleet(app: AppContext, *, describe: bool = False) -> FleetStatus:
    """The status of the configured fleet; with `describe` each machine is asked what it can measure.

    Raises UsageError where no fleet is configured, DatabaseError, and JobError.
    """
    with app.open_database() as database:
        now = queue_queries.shared_time(database, datetime.now(UTC))
        schedulers = queue_queries.schedulers(database)
        running = queue_queries.running_tasks(database)
        waiting, newer = queue_queries.waiting_tasks(database, oldest=_MOST_TASKS)
    tasks = [*running, *(task for task in waiting if task.job in MEASURING)]
    status = fleet_status(
        schedulers, recently_seen(schedulers, now), tasks, now, drained_nodes(app.places.data_dir)
    )
    notes = [f"{newer} tasks more wait, which were due after all that are listed"] if newer else []
    # A scheduler of this head knows the machines; without one the engine is asked, which takes seconds.
    heads = [one for one in status.living if one.machine == machine_name()]
    for one in heads:
        notes += _warnings(one)
    nodes = status.nodes
    if not heads:
        notes.append("no scheduler of this head is there to use them: start one with `pyrometer scheduler`")
        nodes = {**nodes, **_engine_nodes(app, nodes, notes, describe=describe)}
    return replace(status, nodes=nodes, notes=tuple(notes))


def recently_seen(schedulers: Iterable[SchedulerSeen], now: datetime) -> list[SchedulerSeen]:
    """The schedulers that reported lately, and whose process is not known to be dead.

    `now` is by the clock that all machines share.
    """
    me = this_process(machine_name())
    return [one for one in alive(schedulers, now, _ALIVE_MINUTES) if dead_process(one.owner, me) is None]


def _warnings(one: SchedulerSeen) -> list[str]:
    """Why machines that joined are not used, as a scheduler reported."""
    # A scheduler of 0.1.0 calls them troubles.
    found = one.facts.get("problems", one.facts.get("troubles"))
    return [str(each) for each in found] if isinstance(found, list) else []


def _engine_nodes(
    app: AppContext, known: Mapping[str, NodeStatus], notes: list[str], *, describe: bool
) -> dict[str, NodeStatus]:
    """The machines that joined and that no scheduler has reported."""
    engine = engine_of(app)
    try:
        names = {node.name for node in known.values() if node.state != "silent"}
        others = [node for node in engine.nodes() if node.name not in names]
        facts = _facts(engine, others, notes) if describe else {}
        return {
            node.name: NodeStatus(
                node.name,
                "joined",
                tuple(f"{key}={value}" for key, value in sorted(node.labels.items())),
                facts.get(node.name, {}),
            )
            for node in others
        }
    except EngineError as error:
        notes.append(f"the fleet's engine is away: {error}")
        return {}
    finally:
        engine.close()


def _facts(engine: Engine, nodes: Iterable[EngineNode], notes: list[str]) -> dict[str, Mapping[str, Any]]:
    """The facts that machines report, by their names."""
    found: dict[str, Mapping[str, Any]] = {}
    pending, give_up = list(nodes), time.monotonic() + _DESCRIBE_SECONDS
    while pending and time.monotonic() < give_up:
        for node in tuple(pending):
            try:
                found[node.name] = engine.describe(node.id)
            except EngineError as error:
                notes.append(f"{node.name}: {error}")
                pending.remove(node)
            else:
                if found[node.name].get("hardware"):
                    pending.remove(node)
        time.sleep(_POLL_SECONDS if pending else 0.0)
    return found


def engine_of(app: AppContext) -> Engine:
    """The engine that [fleet] names.

    Raises UsageError where no fleet is configured, and JobError where the engine is not available.
    """
    # Imported here: an engine takes seconds to import, and only one is used.
    fleet, data_dir = app.settings.fleet, app.places.data_dir
    if fleet.engine == "ray":
        from .ray.engine import RayEngine

        return RayEngine(str(fleet.address), fleet.token(data_dir), data_dir / "fleet")
    if fleet.engine == "slurm":
        from .slurm.engine import SlurmEngine

        shared = app.settings.slurm.folder or data_dir / "fleet" / "slurm"
        environments = environments_folder(app.settings, data_dir)
        return SlurmEngine(app.settings.slurm, shared, environments, app.settings.file)
    where = app.settings.file.name if app.settings.file else "pyrometer.toml"
    raise UsageError(f"no fleet is configured: {where} has no [fleet] with an engine; see docs/fleet.md")


def drained_nodes(data_dir: Path) -> frozenset[str]:
    """The names of the drained nodes, online or not."""
    try:
        return frozenset(unquote(each.name) for each in _drained_folder(data_dir).iterdir())
    except FileNotFoundError:
        return frozenset()


def drain(data_dir: Path, node: str) -> bool:
    """Give a node no new task; it finishes the one that it has. Returns false if it was drained before."""
    folder = _drained_folder(data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    fresh = node not in drained_nodes(data_dir)
    (folder / _drained_name(node)).touch()
    return fresh


def undrain(data_dir: Path, node: str) -> bool:
    """Give a node tasks again; returns whether it was drained."""
    try:
        (_drained_folder(data_dir) / _drained_name(node)).unlink()
    except FileNotFoundError:
        return False
    return True


def _drained_folder(data_dir: Path) -> Path:
    return data_dir / "fleet" / "drained"


def _drained_name(node: str) -> str:
    # A node's name may hold characters that the name of a file cannot.
    return quote(node, safe="").replace(".", "%2E") if node.startswith(".") else quote(node, safe="")
