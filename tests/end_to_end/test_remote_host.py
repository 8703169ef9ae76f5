"""A real run on a node, and a head whose disk runs full under what comes from there."""

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from db.connection.engine import open_database
from db.runs import queries
from fleet import remote_host
from fleet.agent import Agent
from runner import journal
from scheduled_jobs.jobs.context import ChildExit, ChildLost, JobStopped
from support.fakes.loopback_engine import LoopbackEngine, Node
from support.servers.fleet_heads import RUN, Head, under_way
from support.site import ADD, ROOT, Site, of_the_plan
from support.waiting import PATIENCE_SECONDS, until
from workflows.ingest import ingest_pending

#: Writes large lines on request, a small one before.
LARGE = """
import sys, time
from pathlib import Path
folder = Path(sys.argv[1], "runs", sys.argv[-1])
folder.mkdir(parents=True, exist_ok=True)
with open(folder / "journal.jsonl", "ab", buffering=0) as file:
    file.write(b"small\\n")
    while not Path("go-on").exists():
        time.sleep(0.02)
    for number in range(20):
        file.write(b"%d" % number * 50_000 + b"\\n")
"""


class RealNode(Node):
    """A node that really measures, with the cases of a site."""

    def __init__(self, site: Site) -> None:
        self.folder, self.name, self.data_dir = site.folder, "real", site.folder / ".pyrometer"
        self.site = site
        self.agent = self._agent()

    def _agent(self) -> Agent:
        return Agent(self.folder, variables=self.site.environ({"PYTHONPATH": str(ROOT)}))


@pytest.mark.torch
def test_a_run_on_a_node_is_stopped_resumed_and_stored_on_the_head(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_host, "POLL_SECONDS", 0.2)
    node = RealNode(site)
    head = Head(tmp_path / "head", LoopbackEngine(node))
    arguments = ["--cases", "cases.py", "--case", ADD, "--replicates", "3", "--json"]
    begin = partial(head.run, "run", "--suite", "long", "--run-id", RUN, *arguments, name="real")
    with under_way(begin) as future:
        until(lambda: any(event["event"] == "outcome" for event in head.events), "a replicate is measured")
        head.stop.set()
        with pytest.raises(JobStopped):
            future.result(PATIENCE_SECONDS)
    path = head.data_dir / "runs" / RUN / journal.FILE
    assert 1 <= len(journal.read_contents(path).outcomes) < 3
    assert head.mirror() == node.journal(RUN).read_bytes()
    head.stop.clear()
    assert head.run("run", "--resume", RUN, "--json", name="real") == ChildExit(0, None, "")
    assert head.mirror() == node.journal(RUN).read_bytes()
    with (
        open_database(f"sqlite:///{tmp_path}/head.db") as head_database,
        open_database(site.url) as node_database,
    ):
        (stored,) = ingest_pending(head.data_dir, head_database)
        assert getattr(stored, "set_aside", None) == ()
        assert queries.run_record(head_database, RUN) == queries.run_record(node_database, RUN)
        outcomes = queries.outcomes_of_run(head_database, RUN)
        assert outcomes == queries.outcomes_of_run(node_database, RUN)
        assert [outcome.status for outcome in of_the_plan(outcomes)] == ["ok"] * 3
    refused = head.run("run", "--suite", "lnog", name="real", run="")
    assert refused.code == 2 and "lnog" in refused.sentence


@pytest.fixture
def full(small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Head, Node]]:
    """A head on a small disk, and a node that writes much."""
    monkeypatch.setattr(remote_host, "PAUSE_SECONDS", 0.02)
    node = Node(tmp_path, "one", command=[sys.executable, "-c", LARGE])
    yield Head(small_disk, LoopbackEngine(node)), node
    node.agent.close()


def fill(disk: Path) -> Path:
    """Take all that is left of a disk; answers the file that holds it."""
    ballast = disk / "ballast"
    descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(descriptor, bytes(4096))
    except OSError:
        return ballast
    finally:
        os.close(descriptor)


def test_a_full_disk_is_waited_for(full: tuple[Head, Node]) -> None:
    head, node = full
    with under_way(lambda: head.run("run", RUN)) as future:
        until(lambda: head.mirror() == b"small\n", "it has begun")
        ballast = fill(head.folder)
        node.go_on()
        until(lambda: node.journal(RUN).stat().st_size > 1_500_000, "all is measured")
        with pytest.raises(TimeoutError):
            future.result(3)
        # Each attempt writes what fits, and takes it back.
        until(lambda: head.mirror() == b"small\n", "nothing is kept of a line that does not fit")
        ballast.unlink()
    assert future.result() == ChildExit(0, None, "")
    assert head.mirror() == node.journal(RUN).read_bytes()


def test_a_disk_that_stays_full_loses_the_child_and_damages_nothing(
    full: tuple[Head, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    head, node = full
    monkeypatch.setattr(remote_host, "SILENT_SECONDS", 2.0)
    logs = head.logs()
    with under_way(lambda: head.run("run", RUN, logs=logs)) as future:
        until(lambda: head.mirror() == b"small\n", "it has begun")
        ballast = fill(head.folder)
        node.go_on()
        with pytest.raises(
            ChildLost, match=r"cannot be written on the head.*: No space left on device; it is kept"
        ):
            future.result(PATIENCE_SECONDS)
    assert head.mirror() == b"small\n" and head.lost == 1
    ballast.unlink()
    assert head.run("run", RUN) == ChildExit(0, None, "")
    assert head.mirror() == node.journal(RUN).read_bytes()
