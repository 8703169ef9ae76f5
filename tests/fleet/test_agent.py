"""The answers of an agent: the facts of its node, the report of its doctor, and why it refuses."""

import json
import sys
from pathlib import Path

import pytest

from fleet import engine as fleet_engine
from fleet import node_probe
from fleet.agent import Agent
from fleet.engine import NodeRefused
from runner.execution.machine_lock import exclusive
from runner.journal import Journal
from support.builders.journals import write_journal
from support.fakes.loopback_engine import LoopbackEngine, Node
from support.fakes.pyrometer_run import CASES
from support.servers.fleet_heads import RUN
from support.servers.schedulers import executions
from support.waiting import until

TOKEN = "0123456789abcdef" * 2

#: A `pyrometer doctor` that waits for a file, and a stand-in for every other command.
DOCTOR = """
import json, sys, time
from pathlib import Path
data = Path(sys.argv[1])
if sys.argv[2] != "doctor":
    sys.exit(0)
(data / "examined").open("a").write("x")
while not (data / "well").exists():
    time.sleep(0.02)
capability = {"name": "sm", "present": True, "detail": "gpm"}
gpu = {"index": 0, "uuid": "u", "name": "NVIDIA H200", "utilisation_source": "gpm"}
gpu["capabilities"] = [capability]
print(json.dumps({
    "hardware": "1x NVIDIA H200", "cannot": ["turbo is on"], "environments": {"default": "torch 2.13.0"},
    "telemetry": {"gpu": {"gpus": [gpu]}, "cpu": [{"name": "power", "present": False, "detail": "no RAPL"}]},
}, indent=2))
"""


@pytest.fixture
def examined(tmp_path: Path) -> Node:
    """A node whose doctor waits until it may end."""
    return Node(tmp_path, "examined", "lab", command=[sys.executable, "-c", DOCTOR])


def looks(node: Node) -> int:
    """How many doctors were started."""
    path = node.data_dir / "examined"
    return len(path.read_text()) if path.exists() else 0


def test_an_idle_node_has_itself_examined(examined: Node) -> None:
    first = examined.agent.describe()
    assert (first["labels"], first["idle"], first["examined"]) == (["lab"], True, False)
    assert (first["capabilities"], first["environments"]) == ([], [])
    (examined.data_dir / "well").touch()
    until(lambda: examined.agent.describe()["examined"], "the doctor came")
    report = examined.agent.describe()
    assert report["hardware"] == "1x NVIDIA H200" and report["gpus"] == ["NVIDIA H200"]
    assert report["capabilities"] == [
        {"of": "GPU 0", "name": "sm", "present": True, "detail": "gpm"},
        {"of": "CPU", "name": "power", "present": False, "detail": "no RAPL"},
    ]
    assert report["environments"] == [{"name": "default", "says": "torch 2.13.0"}]
    assert report["cannot"] == ["turbo is on"]
    assert json.loads(json.dumps(report)) == report
    assert looks(examined) == 1
    # A restarted agent has the last report, and starts a doctor of its own.
    anew = Agent(examined.folder, ["/bin/false"]).describe()
    assert (anew["hardware"], anew["examined"]) == ("1x NVIDIA H200", False)


def test_a_child_ends_the_doctor_and_a_run_by_hand_is_not_disturbed(
    examined: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = examined.agent
    with exclusive(lambda: None):
        agent.describe()
        until(lambda: agent._probe.stop(), "it sees that the machine is taken")
        assert looks(examined) == 0
    examined.start_anew()
    agent = examined.agent
    with monkeypatch.context() as soon:
        # On a busy machine another process may hold the lock: repeat the call at once, not in a minute.
        soon.setattr(node_probe, "_RETRY_SECONDS", 0.0)
        until(lambda: agent.describe() and looks(examined) == 1, "the doctor is there")
    agent.submit(TOKEN, ["run"], "")
    assert agent.done(TOKEN)["wait_reason"].startswith("the machine is examined")
    assert agent.describe()["idle"] is False
    until(lambda: not agent.done(TOKEN)["wait_reason"], "the doctor has gone")
    assert agent.done(TOKEN, 30)["ended"] == {"code": 0, "signal": None, "sentence": ""}
    assert looks(examined) == 1


def test_a_doctor_that_fails_is_started_again(examined: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_probe, "_RETRY_SECONDS", 0.0)
    (examined.data_dir / "well").mkdir()
    examined.agent = Agent(examined.folder, [sys.executable, "-c", "print('{}')"])
    assert not examined.agent.describe()["examined"]
    children = examined.data_dir / "fleet" / "children"
    until(lambda: examined.agent.describe() and len(list(children.glob("*"))) > 2, "it is asked again")
    assert not examined.agent.describe()["examined"]
    examined.agent.close()


def test_a_refusal_is_one_sentence(engine: LoopbackEngine) -> None:
    agent = engine.own_nodes["one"].agent
    wish = {"token": TOKEN, "arguments": [], "run": RUN}
    read = {"final": True}
    wrong = [
        ("close", {}, "does not know 'close'"),
        ("_child", {}, "does not know '_child'"),
        ("cancel", {}, "cancel does not take these arguments"),
        ("submit", wish | {"token": "../../x"}, "'../../x' is not the token of an order"),
        ("submit", wish | {"run": "../x"}, "'../x' is not the id of a run"),
        ("step", {"token": TOKEN, "step": "1" * 32, "command": ["true"]}, "not reserved for that order"),
        ("read", read | {"offsets": {"/etc/passwd": 0}}, "is not a file of an order"),
        ("read", read | {"offsets": {"pyrometer.toml": 0}}, "is not a file of an order"),
        ("read", read | {"offsets": {"runs/../journal.jsonl": 0}}, "is not a file of an order"),
        ("read", read | {"offsets": {"fleet/children/../token": 0}}, "is not a file of an order"),
    ]
    for method, arguments, sentence in wrong:
        with pytest.raises(NodeRefused, match=sentence):
            agent.answer(method, arguments)
    missing = agent.answer("read", read | {"offsets": {f"runs/{RUN}/journal.jsonl": 0}})
    assert missing == {"files": [{"data": "", "more": False}]}


def test_an_order_that_lost_its_node_never_gets_it_back(engine: LoopbackEngine) -> None:
    agent = engine.own_nodes["one"].agent
    first, second = ("1" * 32, "2" * 32)
    assert agent.reserve(first) == agent.reserve(second) == {"wait_reason": ""}
    # As a call that was late.
    with pytest.raises(NodeRefused, match="another order"):
        agent.reserve(first)
    assert agent.step(second, "3" * 32, ["true"]) == {}


def test_runs_of_orders_are_listed_and_read(engine: LoopbackEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    node = engine.own_nodes["one"]
    write_journal(node.data_dir, "20260101-000000-00000000", replicates=1)
    agent = node.agent
    arguments = ["run", "--environment", "quick", "--run-id", RUN]
    agent.submit(TOKEN, arguments, RUN)
    assert agent.done(TOKEN, 30)["ended"]["code"] == 0
    assert len(executions(node.data_dir)) == len(CASES)
    size = node.journal(RUN).stat().st_size
    path = f"runs/{RUN}/journal.jsonl"
    assert agent.runs() == {"runs": [{"run": RUN, "path": path, "size": size, "in_use": False}]}
    whole = node.journal(RUN).read_bytes()
    monkeypatch.setattr(fleet_engine, "CHUNK_BYTES", 100)
    chunk = engine.read_files("one", {path: 7}, final=True)[path]
    assert (chunk.data, chunk.more) == (whole[7:107], True)
    monkeypatch.undo()
    with Journal(node.journal(RUN).parent) as writing, writing.path.open("ab") as file:
        file.write(b"half")
        file.flush()
        # A line without a newline may be taken back.
        assert agent.runs()["runs"][0]["in_use"]
        assert engine.read_files("one", {path: 0}, final=False)[path].data == whole
    assert engine.read_files("one", {path: 0}, final=True)[path].data == whole + b"half"


def test_a_niceness_that_children_would_inherit_is_said(
    engine: LoopbackEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpriority", lambda which, who: 15)
    (note,) = engine.own_nodes["one"].agent.describe()["notes"]
    assert "niceness 15" in note
