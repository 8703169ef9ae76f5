"""Children on nodes: their results, and failures of node, network, disk and head."""

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet import engine as fleet_engine
from fleet.agent import Agent
from fleet.engine import NodeRefused
from runner import journal
from runner.journal import Journal
from scheduled_jobs.jobs.context import ChildExit, ChildLost, JobStopped
from support.fakes.loopback_engine import LoopbackEngine, Node
from support.fakes.pyrometer_run import CASES
from support.servers.fleet_heads import RUN, Head, processes, under_way
from support.servers.schedulers import executions, executions_of, wait_until_midway
from support.waiting import until
from workflows.errors import CANNOT_RESUME

WELL = ChildExit(0, None, "")
WELL_BODY = {"code": 0, "signal": None, "sentence": ""}

#: Writes much, with characters of several bytes, and is killed in the middle of a line.
CHATTY = """
import json, os, signal, sys
from pathlib import Path
folder = Path(sys.argv[1], "runs", sys.argv[-1])
folder.mkdir(parents=True)
out = sys.stdout.buffer
line = lambda body: json.dumps(body, ensure_ascii=False).encode() + b"\\n"
with open(folder / "journal.jsonl", "wb", buffering=0) as file:
    for number in range(60):
        file.write(line({"n": number, "of": "Maß 🔥" * (number % 7)}))
        out.write(line({"event": "measured", "of": f"Größe {number} 🔥"}))
        out.flush()
    file.write(b'{"half a ')
sys.stderr.write("note: zu groß\\npyrometer: das war alles 🔥\\n")
sys.stderr.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


#: Takes back half a line, as a journal does when the disk is full.
RELUCTANT = """
import os, sys, time
from pathlib import Path
folder = Path(sys.argv[1], "runs", sys.argv[-1])
folder.mkdir(parents=True)
with open(folder / "journal.jsonl", "ab", buffering=0) as file:
    file.write(b"whole\\nhalf of a li")
    print('{"event": "half"}', flush=True)
    while not Path("go-on").exists():
        time.sleep(0.02)
    file.truncate(6)
    file.write(b"another one\\n")
"""


def test_a_run_on_a_node_is_mirrored_byte_for_byte(head: Head, engine: LoopbackEngine) -> None:
    logs = head.logs()
    assert head.measure("quick", logs=logs) == WELL
    node = engine.own_nodes["one"]
    assert head.mirror() == node.journal(RUN).read_bytes() != b""
    assert len(journal.read_contents(head.data_dir / "runs" / RUN / journal.FILE).outcomes) == len(CASES)
    assert head.events == [{"event": "began"}]
    assert logs.events.read_bytes() == b'{"event": "began"}\n'
    assert executions(node.data_dir) == executions_of(RUN)
    assert executions(engine.own_nodes["two"].data_dir) == []
    assert head.lost == 0
    # The process that ingests the mirror must not find it locked.
    assert not journal.in_use(head.data_dir / "runs" / RUN / journal.FILE)


@pytest.mark.parametrize("seed", range(4))
def test_lost_repeated_and_late_calls_change_nothing(head: Head, engine: LoopbackEngine, seed: int) -> None:
    engine.lost_every, engine.twice_every, engine.late_every = ((2, 3, 5), (3, 2, 4), (5, 7, 2), (2, 2, 3))[
        seed
    ]
    runs = [f"{RUN[:-1]}{number}" for number in range(3)]
    for run in runs:
        assert head.measure("quick", run=run) == WELL
    node = engine.own_nodes["one"]
    assert executions(node.data_dir) == [line for run in runs for line in executions_of(run)]
    assert [head.mirror(run) for run in runs] == [node.journal(run).read_bytes() for run in runs]
    assert head.events == [{"event": "began"}] * 3


def test_half_lines_and_half_signs_at_the_border_of_pieces(
    head: Head, engine: LoopbackEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_engine, "CHUNK_BYTES", 13)
    engine.own_nodes["one"] = node = Node(tmp_path, "chatty", command=[sys.executable, "-c", CHATTY])
    logs = head.logs()
    ended = head.run("run", RUN, logs=logs)
    assert ended == ChildExit(None, signal.SIGKILL, "das war alles 🔥")
    assert [event["of"] for event in head.events] == [f"Größe {number} 🔥" for number in range(60)]
    assert logs.log.read_text() == "note: zu groß\npyrometer: das war alles 🔥\n"
    assert head.mirror() == node.journal(RUN).read_bytes()
    assert head.mirror().endswith(b'{"half a ')
    assert len([method for _, method in engine.calls if method == "read"]) > len(head.mirror()) / 13


def test_half_a_line_that_is_taken_back_is_never_mirrored(
    head: Head, engine: LoopbackEngine, tmp_path: Path
) -> None:
    node = Node(tmp_path, "reluctant", command=[sys.executable, "-c", RELUCTANT])
    engine.own_nodes["one"] = node
    with under_way(lambda: head.run("run", RUN)) as future:
        until(lambda: head.mirror() == b"whole\n" and head.events, "the whole line is here")
        calls = len(engine.calls)
        until(lambda: len(engine.calls) > calls + 2, "it is looked at again")
        node.go_on()
    assert future.result() == WELL
    assert head.mirror() == node.journal(RUN).read_bytes() == b"whole\nanother one\n"


def test_no_answer_is_larger_than_three_mebibytes(head: Head, engine: LoopbackEngine, tmp_path: Path) -> None:
    talks = (
        "import sys, os\nos.makedirs(f'{sys.argv[1]}/runs/{sys.argv[-1]}')\nmuch = 'x' * 3_000_000 + '\\n'\n"
    )
    talks += "open(f'{sys.argv[1]}/runs/{sys.argv[-1]}/journal.jsonl', 'w').write(much)\n"
    talks += "sys.stdout.write(much); sys.stderr.write(much)\n"
    engine.own_nodes["one"] = Node(tmp_path, "talks", command=[sys.executable, "-c", talks])
    logs = head.logs()
    assert head.run("run", RUN, logs=logs).code == 0
    assert len(head.mirror()) == logs.log.stat().st_size == logs.events.stat().st_size == 3_000_001
    assert 2 << 20 < engine.largest <= (3 << 20) + 200


def test_a_stop_keeps_what_is_measured(head: Head, engine: LoopbackEngine) -> None:
    node = engine.own_nodes["one"]
    with under_way(lambda: head.measure("patient")) as future:
        wait_until_midway(node.data_dir)
        head.stop.set()
    with pytest.raises(JobStopped):
        future.result()
    assert head.mirror() == node.journal(RUN).read_bytes()
    assert len(journal.read_contents(head.data_dir / "runs" / RUN / journal.FILE).outcomes) == 2
    head.stop.clear()
    node.go_on()
    # The next attempt resumes the run on that node, and its mirror grows from its end.
    assert head.resume() == WELL
    assert executions(node.data_dir) == executions_of(RUN)
    assert head.mirror() == node.journal(RUN).read_bytes()


def test_a_stop_before_it_began_has_it_never_begin(head: Head, engine: LoopbackEngine) -> None:
    engine.before = lambda method: head.stop.set() if method == "submit" else None
    engine.lost_every = 2
    with pytest.raises(JobStopped):
        head.measure("patient")
    head.stop.set()
    with pytest.raises(JobStopped):
        head.measure("patient", run=f"{RUN[:-1]}1")
    assert not engine.own_nodes["one"].journal(f"{RUN[:-1]}1").exists()


def test_a_killed_child_and_a_killed_supervisor_are_reported(
    head: Head, engine: LoopbackEngine, tmp_path: Path
) -> None:
    ended = head.measure("suicidal")
    assert (ended.code, ended.signal) == (None, signal.SIGKILL)
    assert len(journal.read_contents(head.data_dir / "runs" / RUN / journal.FILE).outcomes) == 2

    other = f"{RUN[:-1]}1"
    node = engine.own_nodes["two"]
    with under_way(lambda: head.measure("patient", name="two", run=other)) as future:
        wait_until_midway(node.data_dir)
        (guard,) = processes(node.folder, "common.supervisor")
        guard.kill()
    assert future.result() == ChildExit(None, None, "the supervisor was killed")
    # The kernel terminates its child, which stores its results; the next child waits for that.
    node.go_on()
    assert head.resume(name="two", run=other) == WELL
    assert executions(node.data_dir) == executions_of(other)
    assert head.mirror(other) == node.journal(other).read_bytes()


def test_an_agent_that_was_started_anew_knows_nothing(head: Head, engine: LoopbackEngine) -> None:
    node = engine.own_nodes["one"]
    with under_way(lambda: head.measure("patient")) as future:
        wait_until_midway(node.data_dir)
        node.start_anew()
    with pytest.raises(ChildLost, match="node one is lost: its agent restarted"):
        future.result()
    assert head.lost == 1
    node.go_on()
    assert head.resume() == WELL
    assert executions(node.data_dir) == executions_of(RUN)
    assert head.mirror() == node.journal(RUN).read_bytes()


def test_a_journal_that_is_still_written_to_is_waited_for(head: Head, engine: LoopbackEngine) -> None:
    node = engine.own_nodes["one"]
    head.measure("suicidal")
    writer = Journal(node.journal(RUN).parent)
    node.start_anew()
    with under_way(head.resume) as future:
        until(lambda: [m for _, m in engine.calls].count("done") > 4, "it is asked again and again")
        assert not processes(node.folder)
        writer.close()
    assert future.result() == WELL
    assert executions(node.data_dir) == executions_of(RUN)


def test_a_node_that_is_silent_for_a_while_is_waited_for(head: Head, engine: LoopbackEngine) -> None:
    node = engine.own_nodes["one"]
    with under_way(lambda: head.measure("patient")) as future:
        wait_until_midway(node.data_dir)
        engine.silent.add("one")
        node.go_on()
        until(lambda: len(executions(node.data_dir)) == len(CASES), "it measures on")
        assert not future.done()
        engine.silent.clear()
    assert future.result() == WELL
    assert head.mirror() == node.journal(RUN).read_bytes()


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        (lambda engine: engine.silent.add("one"), "node one was silent for 2 s: no answer to (done|read)"),
        (lambda engine: setattr(engine, "away", "no address"), "node one was silent for 2 s: no address"),
        (lambda engine: engine.gone.add("one"), "node one is lost: its machine is gone"),
    ],
)
def test_a_node_that_is_lost_goes_on_and_nothing_is_measured_twice(
    head: Head, engine: LoopbackEngine, trouble: Callable[[LoopbackEngine], object], sentence: str
) -> None:
    node = engine.own_nodes["one"]
    with under_way(lambda: head.measure("patient")) as future:
        wait_until_midway(node.data_dir)
        trouble(engine)
    with pytest.raises(ChildLost, match=sentence):
        future.result()
    assert head.lost == 1
    engine.silent.clear()
    engine.gone.clear()
    engine.away = ""
    # The orphan holds the journal: it is terminated first, stores its results, and its run is resumed.
    with under_way(head.resume) as future:
        until(
            lambda: future.done() or not processes(node.folder, RUN) or _resumes(node), "the zombie is ended"
        )
        node.go_on()
    assert future.result() == WELL
    assert executions(node.data_dir) == executions_of(RUN)
    assert head.mirror() == node.journal(RUN).read_bytes()


def _resumes(node: Node) -> bool:
    return bool(processes(node.folder, "--resume"))


def test_an_order_that_comes_too_late_begins_nothing(head: Head, engine: LoopbackEngine) -> None:
    agent = engine.own_nodes["one"].agent
    orders = [
        {"token": f"{number:032x}", "arguments": ["run", "--run-id", f"r{number}"], "run": f"r{number}"}
        for number in range(3)
    ]
    first, late, second = (str(order["token"]) for order in orders)
    agent.answer("submit", orders[0])
    assert agent.answer("done", {"token": first, "seconds": 30})["ended"] == WELL_BODY
    # An order that is not polled does not start, and never does once another one has.
    agent.answer("submit", orders[1])
    agent.answer("submit", orders[2])
    assert agent.answer("done", {"token": second, "seconds": 30})["ended"] == WELL_BODY
    ended = agent.answer("done", {"token": late, "seconds": 1})["ended"]
    assert ended == {"code": None, "signal": None, "sentence": "another order has started on this node"}
    for number in range(3, 12):
        agent.answer("cancel", {"token": f"{number:032x}"})
    # A late call for an order that the agent has dropped.
    for order in orders[:2]:
        with pytest.raises(NodeRefused, match="another order has started on this node"):
            agent.answer("submit", order)
    assert executions(engine.own_nodes["one"].data_dir) == [*executions_of("r0"), *executions_of("r2")]


def test_a_second_child_ends_the_first(head: Head, engine: LoopbackEngine) -> None:
    node, other = engine.own_nodes["one"], f"{RUN[:-1]}1"
    with under_way(lambda: head.measure("patient")) as first:
        wait_until_midway(node.data_dir)
        assert head.measure("quick", run=other) == WELL
    assert first.result() == ChildExit(130, None, "interrupted")
    assert executions(node.data_dir) == [*executions_of(RUN)[:2], *executions_of(other)]


def test_a_journal_that_is_another_one_is_left_as_it_is(head: Head, engine: LoopbackEngine) -> None:
    mine = head.data_dir / "runs" / RUN / journal.FILE
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b'{"v": 1}\n')
    ended = head.measure("patient")
    assert ended.code == CANNOT_RESUME
    assert "on the node differs from the one in" in ended.sentence
    assert mine.read_bytes() == b'{"v": 1}\n'
    until(lambda: not processes(engine.own_nodes["one"].folder), "it was stopped")


def test_a_command_that_cannot_be_started_has_a_reason(head: Head, engine: LoopbackEngine) -> None:
    node = engine.own_nodes["one"]
    node.agent = Agent(node.folder, ["/no/such/program"])
    ended = head.measure("quick")
    assert (ended.code, ended.signal) == (None, None)
    assert ended.sentence.startswith("cannot start /no/such/program: ")
    (node.folder / "pyrometer.toml").write_text("data_dri = 1\n")
    with pytest.raises(ChildLost, match=r"node one: .*data_dri"):
        head.measure("quick")
    assert head.mirror() == b""


def test_a_listener_that_fails_leaves_nothing_behind(head: Head, engine: LoopbackEngine) -> None:
    def fails(event: object) -> None:
        raise RuntimeError(json.dumps(event))

    node = engine.own_nodes["one"]
    arguments = ["run", "--environment", "patient", "--run-id", RUN, "--json"]
    with pytest.raises(RuntimeError, match="began"):
        head.host().run(arguments, head.logs(), head.stop, fails, RUN)
    until(lambda: not processes(node.folder), "the child is gone")
    assert head.lost == 1


def test_a_mirror_that_another_process_writes_is_completed_later(head: Head, engine: LoopbackEngine) -> None:
    held: list[Journal] = []

    def hold(method: str) -> None:
        if method == "done" and not held:
            held.append(Journal(head.data_dir / "runs" / RUN))

    engine.before = hold
    with pytest.raises(ChildLost, match="another process writes"):
        head.measure("patient")
    held[0].close()
    assert head.lost == 1, "the journal is fetched later"
    until(lambda: not processes(engine.own_nodes["one"].folder), "the child is ended")


def test_a_child_without_room_for_its_files_is_lost(head: Head, engine: LoopbackEngine) -> None:
    head.data_dir.mkdir(parents=True)
    (head.data_dir / "tasks").write_text("in the way")
    with pytest.raises(ChildLost, match=r"files of node one cannot be written on the head.*tasks"):
        head.measure("quick")
    assert executions(engine.own_nodes["one"].data_dir) == []
