"""One case over two nodes: real gloo between two network namespaces, and what becomes of a loss."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from runner.environment import MeasuredEnvironment
from runner.errors import MachineBusy, NodeFailed
from runner.execution import harness
from runner.execution.machine_lock import exclusive
from runner.nodes import Node, environment_difference, inspect, read_nodes, write
from runner.preset import MachinePreset
from runner.worker.distributed.node_agent import take_variables
from support.measuring import CASE_FILES, Scratch
from support.processes import alive
from support.servers.network_namespaces import NAME, OF_THE_NODE, TwoNodes, stopped, two_nodes
from support.site import LOCK_FOLDER, Done, carriers
from support.waiting import until

DDP = "blocks/train/batch=4/nodes=2,parallel=ddp,ranks=2"
PIPELINE = "blocks/train/batch=4/nodes=2,parallel=pp,ranks=2"
#: Collectives, and messages from one rank to the next; the other ways to divide a model have no third.
OVER_TWO = [DDP, PIPELINE]
#: Weights and biases of the small transformer: two linear layers around three blocks of three each.
PARAMETERS = 16 * 16 + 16 + 16 * 8 + 8 + 3 * (16 * 16 + 16 + 16 * 32 + 32 + 32 * 16 + 16)
DIES, TWICE, STOPS = (
    f"ends/train/how={how}/nodes=2,parallel=ddp,ranks=2" for how in ("dies", "twice", "stops")
)


@pytest.fixture(scope="module")
def nodes(module_scratch: Scratch) -> Iterator[TwoNodes]:
    """Two of them, for all tests here."""
    yield from two_nodes(module_scratch.folder, CASE_FILES / "over_nodes.py")


@pytest.fixture(scope="module")
def measured(nodes: TwoNodes) -> Done:
    """One run of everything that ends by itself."""
    return nodes.run(*OVER_TWO, DIES).end()


def outcome_of(done: Done, case: str) -> dict[str, Any]:
    """The outcome of a case, as `--json` prints it."""
    (body,) = [body for body in done.events if body["event"] == "outcome" and body["case"] == case]
    return body


@pytest.mark.torch
@pytest.mark.parametrize("case", OVER_TWO)
def test_ranks_on_two_nodes_compute_what_one_process_computes(measured: Done, case: str) -> None:
    outcome = outcome_of(measured, case)
    assert (outcome["status"], outcome["reason"]) == ("ok", ""), (measured.err, outcome["log_tail"])
    assert "lost_before" not in outcome["facts"], "ready, and waiting while the others start, none is lost"
    assert outcome["facts"]["check"]["error"] <= outcome["facts"]["check"]["tolerance"]
    assert outcome["facts"]["exit"]["strays"] == []
    assert carriers(measured.run) == []


@pytest.mark.torch
def test_a_pipeline_divides_three_blocks_in_two_and_is_counted_whole(measured: Done) -> None:
    outcome = outcome_of(measured, PIPELINE)
    facts = outcome["facts"]
    assert (facts["micro_batches"], facts["items"], facts["parameters"]) == (2, 8, PARAMETERS)
    assert [member["threads"] for member in facts["members"]] == [1, 1]
    assert outcome["metrics"]["throughput"] == pytest.approx(8e3 / outcome["metrics"]["latency"])


@pytest.mark.torch
def test_the_nodes_of_a_case_are_its_facts(measured: Done, nodes: TwoNodes) -> None:
    facts = outcome_of(measured, DDP)["facts"]
    first, second = facts["members"]
    assert ("node" not in first, second["node"]) == (True, NAME)
    assert (first["during_block"]["held"], second["during_block"]) == (True, None)
    assert facts["nodes"][0]["name"] == NAME and facts["nodes"][0]["interface"] != nodes.interface
    assert facts["interface"] == nodes.interface
    # Their clocks are a day apart, and no number depends on them.
    assert "started_apart_us" not in facts


@pytest.mark.torch
def test_the_run_belongs_to_the_hardware_of_both(measured: Done) -> None:
    machine = measured.events[0]["about"]["machine"]
    (node,) = machine["nodes"]
    assert machine["hardware_label"] == f"2 x ({node['hardware_label']})"
    assert machine["hardware_fingerprint"] != node["hardware_fingerprint"]
    ended = measured.events[-1]
    assert (ended["event"], ended["stored"]) == ("ended", True)


@pytest.mark.torch
def test_a_rank_killed_on_the_other_node_is_named(measured: Done) -> None:
    outcome = outcome_of(measured, DIES)
    known = (outcome["status"], outcome["reason"])
    assert known == ("crashed", f"rank 1 on {NAME} was killed by SIGKILL")


@pytest.mark.torch
def test_what_is_lost_in_mid_step_is_measured_again_and_a_killed_run_leaves_nothing_on_the_other_node(
    nodes: TwoNodes, module_scratch: Scratch
) -> None:
    running = nodes.run(TWICE, STOPS)
    # The baseline: from here on only ranks are waited for.
    running.until("outcome")
    (pid,) = until(lambda: stopped(module_scratch, "twice"), "rank 1 stops")
    assert not OF_THE_NODE.items() & psutil.Process(pid).environ().items()
    with pytest.MonkeyPatch.context() as of_the_node:
        of_the_node.setenv(LOCK_FOLDER, str(nodes.lock_folder))
        with pytest.raises(MachineBusy), exclusive(lambda: None, wait_seconds=0.0):
            pytest.fail("another run measures the other node")
    nodes.plug(0, "down")
    # Neither side gets a message: the leader notices by itself, and ends what it had started there.
    until(lambda: not alive(pid), "the rank of the lost node is ended")
    nodes.plug(0, "up")
    (pid,) = until(lambda: stopped(module_scratch, "twice"), "rank 1 stops in the second attempt")
    # The command that reaches the node is what torchrun descends from there.
    (command,) = [each for each in psutil.Process(pid).parents() if each.name() == "unshare"]
    command.kill()
    outcome = running.until("outcome", case=TWICE)
    assert (outcome["status"], outcome["reason"]) == ("ok", ""), outcome["log_tail"]
    assert outcome["facts"]["lost_before"] == [
        f"rank 1 on {NAME}: the connection was lost (no answer)",
        f"rank 1 on {NAME}: its node was lost (its command ended with code -9)",
    ]
    running.until("outcome")
    (pid,) = until(lambda: stopped(module_scratch, "stops"), "rank 1 of the other case stops")
    running.process.send_signal(signal.SIGKILL)
    until(lambda: not alive(pid), "the rank of the other node is ended")
    run = running.end().run
    until(lambda: carriers(run) == [], "everything of the run is ended")


@pytest.mark.torch
def test_a_node_that_is_not_reached_ends_the_run_before_it_begins(
    nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "nodes.json"
    write(file, [Node("first", "10.77.0.1"), Node("far", "10.77.0.3", ("false",))])
    monkeypatch.setattr(nodes, "file", file)
    done = nodes.run(DDP).end()
    assert (done.code, done.out) == (2, "")
    sentence = done.err.splitlines()[-1]
    assert sentence == "pyrometer: node far cannot be reached: it ended with code 1"


def test_ranks_have_what_changes_a_measurement_from_their_leader_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_the_node = {"PATH": "/bin", "OMP_NUM_THREADS": "7", "MKL_CBWR": "AVX2", "CUDA_VISIBLE_DEVICES": "3"}
    of_the_node |= {"PYROMETER_ENVIRONMENTS__A__INDEX": "https://me:secret@index", "PYROMETER_TOKEN": "run:1"}
    monkeypatch.setattr(os, "environ", of_the_node)
    take_variables({"OMP_NUM_THREADS": "1", "LD_PRELOAD": "/usr/lib/libjemalloc.so"})
    assert of_the_node == {
        "PATH": "/bin",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "3",
        "PYROMETER_TOKEN": "run:1",
        "LD_PRELOAD": "/usr/lib/libjemalloc.so",
    }


def test_a_node_whose_command_cannot_be_started_is_named(tmp_path: Path) -> None:
    far = (Node("first", "10.77.0.1"), Node("far", "10.77.0.3", ("no-such-command",)))
    environment = MeasuredEnvironment("default", sys.executable, {"fingerprint": "a"}, (), {})
    with pytest.raises(NodeFailed, match="node far cannot be reached: No such file"):
        inspect(far, environment, harness.build(tmp_path), MachinePreset("as-it-comes"), 0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is no list of nodes"),
        ("[" * 100_000, "is no list of nodes"),
        pytest.param(" " * ((1 << 20) + 1), "cannot be read: it is larger than 1,024 KiB", id="large"),
        ('[{"name": "a"}]', "is no list of nodes"),
        ('[{"name": "a", "address": 1}]', "name and address are text"),
        ('[{"name": "a", "address": "b", "command": "srun"}]', "command is a list of words"),
        ("[]", "names no node"),
        ('[{"name": "a", "address": "b"}, {"name": "a", "address": "c", "command": ["d"]}]', "or one twice"),
        ('[{"name": "a", "address": "b"}, {"name": "c", "address": "d"}]', "by which node c is reached"),
    ],
)
def test_a_file_that_names_no_nodes_is_refused(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(text)
    with pytest.raises(NodeFailed, match=why):
        read_nodes(file)


def test_a_file_of_nodes_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    written = (Node("a", "10.0.0.1"), Node("b", "10.0.0.2", ("srun", "--nodelist=b")))
    write(file, written)
    assert read_nodes(file) == written
    with pytest.raises(NodeFailed, match="No such file"):
        read_nodes(tmp_path / "none.json")


def test_what_differs_between_environments_is_said() -> None:
    ours = {"fingerprint": "a", "torch": "2.13.0", "python": "3.12.3", "packages": ["numpy==2.0"]}
    assert environment_difference(ours, ours) == ""
    for changed, said in (
        ({"torch": "2.12.0"}, "its environment has torch 2.12.0, and 2.13.0 measures here"),
        ({"python": "3.11.0"}, "its environment has python 3.11.0, and 3.12.3 measures here"),
        ({"packages": []}, "its environment has other packages (numpy==2.0 is on one side only)"),
        ({}, "its environment has another build of the same torch"),
    ):
        assert environment_difference({**ours, "fingerprint": "b", **changed}, ours) == said
