"""The locks of other nodes: held while a run lasts, waited for, and released however it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from common.file_lock import lock
from runner.errors import MachineBusy, NodeFailed
from runner.execution.machine_lock import exclusive
from runner.node_locks import exclusive_nodes
from runner.nodes import Node
from support.site import LOCK_FOLDER, PATIENCE_SECONDS
from support.waiting import until

LEADER = """
import sys, time
from runner.node_locks import exclusive_nodes
from runner.nodes import Node
with exclusive_nodes([Node("first", ""), Node("second", "", tuple(sys.argv[1:]))], print):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the second node has its lock; this machine's is beside it."""
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    monkeypatch.setenv(LOCK_FOLDER, str(tmp_path / "first"))
    return tmp_path / "second"


def two(*command: str) -> list[Node]:
    """Two nodes, the second of which is reached by this command."""
    return [Node("first", "10.0.0.1"), Node("second", "10.0.0.2", command)]


def reached(folder: Path) -> tuple[str, ...]:
    """A command that is run where the lock lies in this folder."""
    return ("env", f"{LOCK_FOLDER}={folder}")


def is_free(folder: Path) -> bool:
    """Whether another run could measure the node whose lock lies in this folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LOCK_FOLDER, str(folder))
        try:
            with exclusive(lambda: None, wait_seconds=0.0):
                return True
        except MachineBusy:
            return False


def unexpected(sentence: str) -> None:
    pytest.fail(sentence)


def test_no_other_run_measures_a_node_meanwhile(folder: Path) -> None:
    assert is_free(folder)
    with exclusive(lambda: None), exclusive_nodes(two(*reached(folder)), unexpected):
        assert not is_free(folder)
    assert is_free(folder)


def test_a_run_that_measures_a_node_is_waited_for(folder: Path) -> None:
    other = os.open(folder / "pyrometer-measuring.lock", os.O_RDONLY | os.O_CREAT)
    assert lock(other)
    sentences: list[str] = []

    def end_it(sentence: str) -> None:
        sentences.append(sentence)
        os.close(other)

    with exclusive(lambda: None), exclusive_nodes(two(*reached(folder)), end_it):
        assert not is_free(folder)
    (sentence,) = sentences
    assert sentence.startswith(f"another run measures node second (process {os.getpid()}")


def test_two_nodes_on_one_machine_share_its_lock(folder: Path) -> None:
    nodes = [*two(*reached(folder)), Node("third", "", reached(folder)), Node("fourth", "", ("env",))]
    with exclusive(lambda: None), exclusive_nodes(nodes, unexpected):
        assert not is_free(folder)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("/nowhere/srun",), "node second cannot be reached: "),
        (("sh", "-c", "echo the link is down; exit 255"), "node second cannot be reached: the link is down"),
    ],
)
def test_a_node_that_is_not_reached_is_named(folder: Path, command: tuple[str, ...], reason: str) -> None:
    with (
        exclusive(lambda: None),
        pytest.raises(NodeFailed) as failed,
        exclusive_nodes(two(*command), unexpected),
    ):
        pytest.fail("it measures")
    assert str(failed.value).startswith(reason)


def test_a_node_whose_lock_is_no_file_is_named(folder: Path) -> None:
    os.mkfifo(folder / "pyrometer-measuring.lock")
    nodes = two(*reached(folder))
    with exclusive(lambda: None), pytest.raises(NodeFailed) as failed, exclusive_nodes(nodes, unexpected):
        pytest.fail("it measures")
    assert str(failed.value).startswith("node second: ")
    assert str(failed.value).endswith("is no file: remove it")


def test_the_lock_of_a_killed_run_is_free(folder: Path) -> None:
    command = [sys.executable, "-c", LEADER, *reached(folder)]
    with exclusive(lambda: None), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as leader:
        assert leader.stdout is not None and leader.stdout.readline() == "held\n"
        assert not is_free(folder)
        leader.send_signal(signal.SIGKILL)
        leader.wait(PATIENCE_SECONDS)
        until(lambda: is_free(folder), "the lock is free")
