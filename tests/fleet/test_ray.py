"""Ray as the engine: a real head and nodes on one machine, killed and frozen during requests."""

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from db.connection.engine import open_database
from db.queue.queries import attempts, tasks
from db.runs.queries import outcomes_of_run, run_record
from fleet.engine import EngineAway, EngineError, NodeLost, NodeRefused, NodeSilent
from fleet.ray import engine as ray_engine
from fleet.ray.engine import RayEngine
from support.measuring import CASE_FILES
from support.processes import alive
from support.servers.ray_fleet import Fleet, Member, a_fleet, an_engine, answer, named
from support.site import measured_python
from support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.slow

TINY = """
[suites.tiny]
cases = ["mlp_overhead/infer/batch=1/eager"]
replicates = 1
measure_seconds = 0.05
warm_up_max_seconds = 1
observe_seconds = 0
[environments.default]
python = "{python}"
"""
NIGHT = """
[schedules.night]
cron = "0 0 1 1 *"
suite = "tiny"
machines = ["b"]
"""
_TWO_NODES = "blocks/train/batch=4/nodes=2,parallel=ddp,ranks=2"
WIDE = f"""
[schedules.wide]
cron = "0 0 1 1 *"
suite = "tiny"
preset = "as-it-comes"
case_files = ["{CASE_FILES / "over_nodes.py"}"]
cases = ["{_TWO_NODES}"]
nodes = 2
machines = ["a"]
"""


class Engines:
    """One engine for all tests in which no other head needs the nodes."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._stack = fleet, ExitStack()
        self._engine: RayEngine | None = None

    def get(self) -> RayEngine:
        """The engine, created if needed."""
        if self._engine is None:
            self._engine = self._stack.enter_context(an_engine(self._fleet))
        return self._engine

    def release(self) -> None:
        """Close the engine."""
        self._stack.close()
        self._engine = None


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A head with two nodes, `node-1` of kind a and `node-2` of kind b."""
    tiny = TINY.format(python=measured_python())
    with a_fleet(tmp_path_factory.mktemp("fleet"), tiny + NIGHT + WIDE, tiny) as made:
        one = made.begin("node-1", "--label", "kind=a", A_SIGN="of the node's own")
        two = made.begin("node-2", "--label", "kind=b", "--label", "rack=7")
        made.joined(one, two)
        yield made


@pytest.fixture(scope="module")
def engines(fleet: Fleet) -> Iterator[Engines]:
    made = Engines(fleet)
    yield made
    made.release()


@pytest.fixture
def engine(engines: Engines) -> RayEngine:
    return engines.get()


@pytest.fixture(scope="module")
def scheduled(fleet: Fleet, engines: Engines) -> str:
    """The log of a scheduler that had both schedules' tasks measured."""
    engines.release()
    for schedule in ("night", "wide"):
        triggered = fleet.call("schedule", "trigger", schedule)
        assert triggered.returncode == 0, triggered.stderr
    done = fleet.call("scheduler", "--once", "--no-measuring", "--log", "json")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_machines_measure_tasks_for_their_labels(fleet: Fleet, scheduled: str) -> None:
    with open_database(f"sqlite:///{fleet.home}/pyrometer.db") as database:
        every = [task for name in ("night", "wide") for task in tasks(database, schedule=name, job="measure")]
        measured = {task.label: task for task in every}
        by = {label: attempts(database, task.id) for label, task in measured.items()}
        stored = {label: run_record(database, str(task.run_id)) for label, task in measured.items()}
    assert {label: task.state for label, task in measured.items()} == {"a": "done", "b": "done"}, scheduled
    owners = {label: [each.owner.partition("/")[0] for each in own] for label, own in by.items()}
    assert owners == {"a": ["node-1"], "b": ["node-2"]}
    for label, name in (("a", "node-1"), ("b", "node-2")):
        record = stored[label]
        assert record is not None and record.state == "complete"
        journal = Path(".pyrometer") / "runs" / str(measured[label].run_id) / "journal.jsonl"
        theirs = (fleet.folder / name / journal).read_bytes()
        assert (fleet.home / journal).read_bytes() == theirs != b""
    # The agents ended with the scheduler, and no process of theirs is left on the nodes.
    for name in owners["a"] + owners["b"]:
        until(lambda name=name: not fleet.members[name].below("RayAgent|cli.app.*run"), f"{name} is idle")


def test_a_case_over_two_nodes_is_measured_on_both(fleet: Fleet, scheduled: str) -> None:
    with open_database(f"sqlite:///{fleet.home}/pyrometer.db") as database:
        (task,) = tasks(database, schedule="wide", job="measure")
        outcomes = outcomes_of_run(database, str(task.run_id))
    assert task.state == "done", (task, scheduled)
    (outcome,) = [each for each in outcomes if each.case == _TWO_NODES]
    assert (outcome.status, outcome.reason) == ("ok", "")
    (other,) = outcome.facts["nodes"]
    assert (other["name"], other["address"]) == ("node-2", "127.0.0.4")
    for name in ("node-1", "node-2"):
        until(lambda name=name: not fleet.members[name].below("harness|step_client"), f"{name} is idle")


def test_nodes_are_seen_with_their_labels_and_each_answers_for_itself(
    fleet: Fleet, engine: RayEngine
) -> None:
    nodes = {node.name: node for node in engine.nodes()}
    assert {name: dict(node.labels) for name, node in nodes.items()} == {
        "node-1": {"kind": "a"},
        "node-2": {"kind": "b", "rack": "7"},
    }
    for name, node in nodes.items():
        facts = answer(engine, node.id, "describe")
        assert (facts["machine"], facts["folder"]) == (name, str(fleet.folder / name))
    with pytest.raises(NodeRefused, match="does not know 'dance'"):
        engine.call(nodes["node-1"].id, "dance", {}, PATIENCE_SECONDS)
    with pytest.raises(NodeLost):
        engine.call("0" * 56, "describe", {}, PATIENCE_SECONDS)


def test_a_child_has_the_environment_of_its_node_and_ends_with_the_driver(
    fleet: Fleet, engine: RayEngine
) -> None:
    member, node = fleet.members["node-1"], named(engine, "node-1")
    child = _begin_something_long(engine, node.id, member)
    # A measured process inherits nothing from Ray: no variable, niceness, OOM score or cgroup.
    given = fleet.environ(member.folder, A_SIGN="of the node's own")
    assert _without_the_shells(child.environ()) == _without_the_shells(given)
    joined = psutil.Process(member.process.pid)
    assert (child.nice(), child.cpu_affinity()) == (joined.nice(), joined.cpu_affinity())
    for file in ("oom_score_adj", "cgroup"):
        assert Path(f"/proc/{child.pid}/{file}").read_text() == Path(f"/proc/{joined.pid}/{file}").read_text()
    assert _line(child.pid, "SigBlk") == "0" * 16
    # Without the driver its agents die, their children store their results and end, and a new one starts.
    before = engine.process
    assert before is not None
    os.kill(before, signal.SIGKILL)
    with pytest.raises(EngineAway):
        while True:
            engine.call(node.id, "runs", {}, 5.0)
    until(lambda: not alive(child.pid), "the child has ended")
    assert answer(engine, node.id, "done", token="f" * 32, seconds=0.0)["unknown"]
    assert engine.process not in (before, None)


def test_a_driver_killed_while_nodes_are_allocated_loses_none(
    fleet: Fleet, engine: RayEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "_RESTART_SECONDS", 0.0)
    wanted = {"arguments": ["--version"], "run": "", "nodes": 2}
    for _ in range(2):
        node = named(engine, "node-1").id
        answer(engine, node, "submit", token=uuid.uuid4().hex, **wanted)
        os.kill(engine.process or 0, signal.SIGKILL)
    node, token = named(engine, "node-1").id, uuid.uuid4().hex
    answer(engine, node, "submit", token=token, **wanted)
    ended = until(lambda: answer(engine, node, "done", token=token, seconds=1.0)["ended"], "it has ended")
    assert ended["code"] == 0


def test_a_node_that_hangs_is_silent_and_answers_again(fleet: Fleet, engine: RayEngine) -> None:
    member, node = fleet.members["node-2"], named(engine, "node-2")
    answer(engine, node.id, "runs")
    frozen = [member.raylet, *member.below("^ray::")]
    assert len(frozen) > 1
    for process in frozen:
        process.suspend()
    try:
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(NodeSilent, match="no answer within 2 s"):
                engine.call(node.id, "runs", {}, 2.0)
            assert time.monotonic() - began >= 2.0
        # The others do not wait for it.
        assert "runs" in answer(engine, named(engine, "node-1").id, "runs")
    finally:
        for process in frozen:
            process.resume()
    assert "runs" in answer(engine, node.id, "runs")
    assert named(engine, "node-2").id == node.id


def test_a_node_that_is_killed_is_lost_and_joins_as_another(fleet: Fleet, engine: RayEngine) -> None:
    member, node = fleet.members["node-2"], named(engine, "node-2")
    answer(engine, node.id, "runs")
    member.raylet.kill()
    lost = until(lambda: _lost(engine, node.id), "the node is lost")
    assert "Ray does not know it any more" in str(lost)
    assert [each.name for each in engine.nodes()] == ["node-1"]
    assert member.process.wait(PATIENCE_SECONDS) == 2
    assert "Ray ended unexpectedly" in member.said()
    fleet.joined(fleet.begin("node-2", "--label", "kind=c"))
    again = named(engine, "node-2")
    assert (again.id != node.id, again.labels) == (True, {"kind": "c"})
    assert answer(engine, again.id, "describe")["machine"] == "node-2"


def test_an_engine_and_a_node_with_a_wrong_token_are_refused(fleet: Fleet, tmp_path: Path) -> None:
    wrong = tmp_path / "token"
    wrong.write_text("0" * 64)
    wrong.chmod(0o600)
    stranger = fleet.folder / "node-3" / ".pyrometer" / "fleet"
    stranger.mkdir(parents=True)
    (stranger / "token").write_text("0" * 64)
    (stranger / "token").chmod(0o600)
    member = fleet.begin("node-3")
    with an_engine(fleet, wrong) as engine, pytest.raises(EngineAway, match="refuses our token"):
        engine.nodes()
    assert member.process.wait(PATIENCE_SECONDS) == 2
    assert "the head refuses this machine's token" in member.said()
    del fleet.members["node-3"]


def _begin_something_long(engine: RayEngine, node: str, member: Member) -> psutil.Process:
    """A child of the node's agent that does not end by itself."""
    token = uuid.uuid4().hex
    wanted = {"arguments": ["scheduler", "--no-measuring"], "run": "", "nodes": 1}
    answer(engine, node, "submit", token=token, **wanted)

    def begun() -> list[psutil.Process]:
        assert answer(engine, node, "done", token=token, seconds=1.0)["ended"] is None
        return member.below(r"^\S+ -P -c from cli.app .*scheduler --no-measuring")

    (found,) = until(begun, "it runs")
    return found


def _without_the_shells(environ: dict[str, str]) -> dict[str, str]:
    theirs = ("PWD", "OLDPWD", "SHLVL", "_", "PYTEST_CURRENT_TEST")
    return {name: text for name, text in environ.items() if name not in theirs}


def _lost(engine: RayEngine, node: str) -> NodeLost | None:
    try:
        engine.call(node, "runs", {}, 5.0)
    except NodeLost as error:
        return error
    except EngineError:
        return None
    return None


def _line(pid: int, name: str) -> str:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith(f"{name}:"))
