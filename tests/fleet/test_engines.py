"""The conformance suite of engines, with two nodes each: agents in this process, a real Ray, a real Slurm."""

import json
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from configuration.schema import SlurmSettings
from fleet import node_orders
from fleet.agent import Agent
from fleet.engine import Engine, EngineAway, Handle, NodeLost, NodeRefused, NodeSilent, Order
from fleet.ray.engine import RayEngine
from fleet.slurm import engine as slurm_engine
from fleet.slurm import queue as slurm_queue
from fleet.slurm.engine import SlurmEngine
from scheduled_jobs.jobs.context import ChildExit
from support.fakes import order_program
from support.fakes.local_engine import LocalEngine
from support.servers.fleet_heads import processes
from support.servers.ray_fleet import Fleet, a_fleet, an_engine, named
from support.servers.slurm_cluster import SlurmCluster, slurm_cluster
from support.waiting import PATIENCE_SECONDS, until

Answer = TypeVar("Answer")
PROGRAM = Path(order_program.__file__)
#: Writes to stdout and ends with exit code 7.
STEP = (sys.executable, "-c", "import sys; print('from the other node'); sys.exit(7)")
#: Runs until its stdin ends, as torchrun does, and has a child.
STAYING_STEP = (
    *(sys.executable, "-c"),
    "import select, subprocess, sys\n"
    "subprocess.Popen(['sleep', '600', *sys.argv[1:]]) if len(sys.argv) > 3 else None\n"
    "open(sys.argv[1], 'w').close()\n"
    "end = select.poll(); end.register(0, select.POLLHUP); end.poll()",
)


@dataclass
class Cluster:
    """An engine with the nodes `first` and `second`; `kill` removes one."""

    engine: Engine
    first: str
    second: str
    folder: Path
    kill: Callable[[str], object]

    def order(self, kind: str, run: str = "a", *step: str, node: str = "", nodes: int = 1) -> Order:
        """An order for a node that runs the program."""
        ids = {each.name: each.id for each in tried(self.engine.nodes)}
        # Several tests use the nodes of one cluster.
        run = f"{self.folder.name}-{run}"
        return Order(ids[node or self.first], (kind, str(self.folder), run, *step), run, nodes)

    def begun(self, order: Order) -> Handle:
        """Submit an order, and poll it until it has started."""
        handle = tried(lambda: self.engine.submit(order))
        until(lambda: tried(handle.done) or self.began(order), "it has begun")
        return handle

    def began(self, order: Order) -> list[int]:
        """The process ids of the programs that were started for an order."""
        file = self.folder / f"began-{order.run}"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def go_on(self, order: Order) -> None:
        (self.folder / f"go-{order.run}").touch()

    def read(self, order: Order, path: str, at: int = 0, *, final: bool = True) -> bytes:
        return tried(lambda: self.engine.read_files(order.node, {path: at}, final=final))[path].data

    def events(self, order: Order, handle: Handle) -> list[Mapping[str, object]]:
        return [json.loads(line) for line in self.read(order, handle.paths.events).splitlines()]


def tried(call: Callable[[], Answer]) -> Answer:
    """The answer of a call that is repeated until it has one."""
    found: list[Answer] = []

    def answered() -> bool:
        with suppress(NodeSilent, EngineAway):
            found.append(call())
        return bool(found)

    until(answered, "a node answers")
    return found[0]


@contextmanager
def local(folder: Path) -> Generator[Cluster]:
    """Agents in this process."""
    agents: dict[str, Agent] = {}
    for name in ("one", "two"):
        (folder / name).mkdir()
        # A project: its data lies in it.
        (folder / name / "pyrometer.toml").touch()
        agents[name] = Agent(folder / name, (sys.executable, str(PROGRAM)))
    engine = LocalEngine(agents)
    yield Cluster(engine, "one", "two", folder, lambda name: engine.agents.pop(name).close())
    engine.close()


@contextmanager
def on_ray(folder: Path, fleet: Fleet, engine: RayEngine) -> Generator[Cluster]:
    """Nodes that joined a head; the program replaces their `pyrometer`."""

    def kill(name: str) -> None:
        member = fleet.members[name]
        member.raylet.kill()
        member.process.wait(PATIENCE_SECONDS)

    names, members = ("node-1", "node-2"), fleet.members
    gone = [name for name in names if name not in members or members[name].process.poll() is not None]
    fleet.joined(*(fleet.begin(name, PYTHONPATH=str(fleet.folder / "stand-in")) for name in gone))
    for name in names:
        named(engine, name)
    yield Cluster(engine, *names, folder, kill)


@contextmanager
def on_slurm(folder: Path, cluster: SlurmCluster) -> Generator[Cluster]:
    """Nodes of a Slurm cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", cluster.variables["SLURM_CONF"])
        patch.setattr(slurm_engine, "POLL_SECONDS", 0.2)
        for name in ("JOBS_SECONDS", "NODES_SECONDS"):
            patch.setattr(slurm_queue, name, 0.2)
        patch.setattr(slurm_queue, "UNSEEN_SECONDS", 1.0)
        command = (sys.executable, str(PROGRAM))
        shared = folder / "shared"
        made = SlurmEngine(SlurmSettings(), shared, folder, None, command=command, folder=folder)
        yield Cluster(made, "alpha", "beta", folder, lambda name: cluster.set_node(name, "down"))
        made.close()
        cluster.clear()


@pytest.fixture(scope="module")
def ray_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with a_fleet(tmp_path_factory.mktemp("ray")) as fleet:
        # This folder comes before the installed Pyrometer on the path.
        (fleet.folder / "stand-in" / "cli").mkdir(parents=True)
        (fleet.folder / "stand-in" / "cli" / "__init__.py").touch()
        (fleet.folder / "stand-in" / "cli" / "app.py").write_text(STAND_IN)
        shutil.copy(PROGRAM, fleet.folder / "stand-in" / "cli" / "order_program.py")
        yield fleet


#: `pyrometer fleet` is the real one; every other command is the program.
STAND_IN = """
import sys
def main():
    if sys.argv[1] != "fleet":
        from .order_program import main as program
        return program()
    sys.path[:] = [each for each in sys.path if not each.endswith("stand-in")]
    for name in [each for each in sys.modules if each.partition(".")[0] == "cli"]:
        del sys.modules[name]
    from cli.app import main as real
    return real()
"""


@pytest.fixture(scope="module")
def ray_engine(ray_fleet: Fleet) -> Iterator[RayEngine]:
    """The engine of all tests: to start its driver takes longer than most of them."""
    with an_engine(ray_fleet) as engine:
        yield engine


@pytest.fixture(scope="module")
def cluster_of_slurm() -> Iterator[SlurmCluster]:
    with slurm_cluster() as made:
        yield made


@pytest.fixture(
    params=[
        "local",
        pytest.param("ray", marks=pytest.mark.slow),
        pytest.param("slurm", marks=pytest.mark.slow),
    ]
)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "local":
        made = local(tmp_path)
    elif request.param == "ray":
        made = on_ray(tmp_path, *map(request.getfixturevalue, ("ray_fleet", "ray_engine")))
    else:
        made = on_slurm(tmp_path, request.getfixturevalue("cluster_of_slurm"))
    with made as opened:
        yield opened
    until(lambda: not processes(tmp_path), "nothing of an order is left")


def test_nodes_are_listed_and_describe_themselves(cluster: Cluster) -> None:
    there = {node.name: node for node in tried(cluster.engine.nodes)}
    assert set(there) == {cluster.first, cluster.second}
    assert not any(node.reserved for node in there.values())
    facts = tried(lambda: cluster.engine.describe(there[cluster.first].id))
    assert {"machine", "labels", "version", "python", "examined", "environments"} <= facts.keys()
    with pytest.raises(NodeLost):
        tried(lambda: cluster.engine.describe("0" * 56))


def test_an_order_is_carried_out_once_and_its_files_are_read(cluster: Cluster) -> None:
    order = cluster.order("quick")
    handle = cluster.begun(order)
    assert tried(handle.result) == ChildExit(0, None, "this is all")
    assert tried(handle.done)
    assert cluster.events(order, handle) == [{"event": "began"}]
    assert cluster.read(order, handle.paths.log) == b"pyrometer: this is all\n"
    assert cluster.read(order, handle.paths.journal) == b"first\nhalf of the second\n"
    assert cluster.read(order, handle.paths.journal, 6) == b"half of the second\n"
    runs = {each.run: each for each in tried(lambda: cluster.engine.runs(order.node))}
    there = runs[order.run]
    assert (there.size, there.in_use) == (25, False)
    assert cluster.read(order, there.path, 20) == b"cond\n"
    # An order that is submitted again is known.
    again = tried(lambda: cluster.engine.submit(order))
    assert tried(again.result) == ChildExit(0, None, "this is all")
    assert len(cluster.began(order)) == 1


def test_a_journal_is_read_as_it_grows_in_whole_lines(cluster: Cluster) -> None:
    order = cluster.order("waits")
    handle = cluster.begun(order)
    journal = handle.paths.journal
    assert not tried(handle.done)
    until(lambda: cluster.read(order, journal, final=False), "a line is written")
    assert cluster.read(order, journal, final=False) == b"first\n"
    assert cluster.read(order, journal, final=True) == b"first\nhalf of"
    cluster.go_on(order)
    until(lambda: cluster.read(order, journal, 6, final=False), "the second line is written")
    assert tried(handle.result).code == 0
    assert cluster.read(order, journal, 6, final=False) == b"half of the second\n"


@pytest.mark.parametrize(
    ("kind", "ended"),
    [("fails", ChildExit(3, None, "this is all")), ("killed", ChildExit(None, signal.SIGKILL, ""))],
)
def test_how_a_program_ends_badly_is_its_result(cluster: Cluster, kind: str, ended: ChildExit) -> None:
    order = cluster.order(kind)
    cluster.go_on(order)
    handle = cluster.begun(order)
    assert tried(handle.result) == ended
    assert cluster.read(order, handle.paths.journal) == b"first\nhalf of the second\n"


def test_a_cancelled_order_keeps_what_it_has_and_ends(cluster: Cluster) -> None:
    order = cluster.order("waits")
    handle = cluster.begun(order)
    tried(handle.cancel)
    tried(handle.cancel)
    assert tried(handle.result).code == 130
    assert cluster.events(order, handle) == [{"event": "began"}, {"event": "interrupted"}]
    assert cluster.read(order, handle.paths.journal) == b"first\nhalf of"


def test_an_order_that_is_cancelled_at_once_does_not_end_well(cluster: Cluster) -> None:
    for number in range(3):
        order = cluster.order("waits", f"{number}")
        handle = tried(lambda: cluster.engine.submit(order))  # noqa: B023
        tried(handle.cancel)
        with suppress(NodeLost):
            assert tried(handle.result).code in (None, 130)
    # Its node is free for the next one.
    assert tried(cluster.begun(cluster.order("quick", "next")).result).code == 0


def test_two_orders_on_two_nodes_run_at_once(cluster: Cluster) -> None:
    orders = [cluster.order("waits"), cluster.order("waits", "b", node=cluster.second)]
    handles = [cluster.begun(order) for order in orders]
    assert not any(tried(handle.done) for handle in handles)
    for order in orders:
        cluster.go_on(order)
    assert [tried(handle.result).code for handle in handles] == [0, 0]
    for order, handle in zip(orders, handles, strict=True):
        assert cluster.read(order, handle.paths.journal) == b"first\nhalf of the second\n"
        assert len(cluster.began(order)) == 1


def test_a_path_that_leads_elsewhere_is_refused(cluster: Cluster) -> None:
    order = cluster.order("quick")
    handle = cluster.begun(order)
    assert tried(handle.result).code == 0
    for path in ("/etc/passwd", f"{Path(handle.paths.log).parent}/../../../etc/passwd"):
        with pytest.raises(NodeRefused):
            cluster.read(order, path)


def test_an_order_over_two_nodes_runs_steps_on_the_second(cluster: Cluster) -> None:
    order = cluster.order("nodes", "a", *STEP, nodes=2)
    handle = cluster.begun(order)
    # Slurm chooses which of its nodes is first.
    reserved = [node.name for node in tried(cluster.engine.nodes) if node.reserved]
    assert reserved in ([], [cluster.second])
    cluster.go_on(order)
    assert tried(handle.result) == ChildExit(0, None, "this is all")
    _, nodes, step = cluster.events(order, handle)
    assert sorted(nodes["nodes"]) == sorted((cluster.first, cluster.second)), nodes
    assert step == {"code": 7, "out": "from the other node\n"}
    assert not any(node.reserved for node in tried(cluster.engine.nodes))
    # Both are free again.
    both = [cluster.order("quick", "b"), cluster.order("quick", "c", node=cluster.second)]
    assert [tried(cluster.begun(each).result).code for each in both] == [0, 0]


def test_a_step_ends_with_the_process_that_wants_it(cluster: Cluster) -> None:
    mark = cluster.folder / "step"
    order = cluster.order("nodes", "a", *STAYING_STEP, str(mark), "stays", nodes=2)
    cluster.go_on(order)
    handle = cluster.begun(order)
    until(lambda: tried(handle.done) or mark.exists(), "the step runs")
    assert any(str(mark) in part for each in processes(mark) for part in each.cmdline())
    (cluster.folder / f"end-{order.run}").touch()
    assert tried(handle.result).code == 0
    until(lambda: not processes(mark), "the step has ended")


def test_an_order_that_is_no_longer_polled_releases_its_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As when its head has died or abandoned it.
    with local(tmp_path) as cluster:
        order = cluster.order("nodes", "a", *STEP, nodes=2)
        handle = cluster.begun(order)
        assert [node.name for node in cluster.engine.nodes() if node.reserved] == [cluster.second]
        other = cluster.engine.submit(cluster.order("quick", "b", node=cluster.second))
        assert not other.done() and other.wait_reason == "its nodes have other orders"
        monkeypatch.setattr(node_orders, "_ABANDONED_SECONDS", 0.0)
        until(lambda: not any(node.reserved for node in cluster.engine.nodes()), "it is forgotten")
        monkeypatch.undo()
        again = cluster.engine.submit(cluster.order("quick", "b", node=cluster.second))
        assert again.result().code == 0
        # The next order on the first node ends what runs there.
        assert cluster.engine.submit(cluster.order("quick", "c")).result().code == 0
        assert handle.result().code == 130


def test_an_order_for_more_nodes_than_there_are_is_refused(cluster: Cluster) -> None:
    order = cluster.order("quick", nodes=3)
    # Slurm may accept the job, and report later that it will never start.
    with pytest.raises((NodeRefused, NodeLost)):
        tried(lambda: cluster.engine.submit(order).result())
    assert cluster.began(order) == []


def test_an_order_on_a_node_that_goes_away_does_not_end_well(cluster: Cluster) -> None:
    order = cluster.order("waits", node=cluster.second)
    handle = cluster.begun(order)
    (program,) = cluster.began(order)
    cluster.kill(cluster.second)
    # On Slurm the job gets SIGTERM, and may write its exit itself.
    with suppress(NodeLost):
        assert tried(handle.result).code in (None, 130)
    until(lambda: cluster.second not in [node.name for node in tried(cluster.engine.nodes)], "it is gone")
    until(lambda: not psutil.pid_exists(program), "the program has ended")
    # The other node still works.
    other = cluster.order("quick", "b")
    assert tried(cluster.begun(other).result).code == 0
