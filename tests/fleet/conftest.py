"""Two nodes and their head, with short waits."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet import hosts, journal_mirror, remote_host
from support.fakes.loopback_engine import LoopbackEngine, Node
from support.servers.fleet_heads import Head, processes
from support.site import LOCK_FOLDER
from support.waiting import until


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Short intervals, and a machine lock of the test's own, so that no doctor waits for another run."""
    monkeypatch.setattr(remote_host, "PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(remote_host, "SILENT_SECONDS", 2.0)
    monkeypatch.setattr(remote_host, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(hosts, "REFRESH_SECONDS", 0.05)
    monkeypatch.setattr(hosts, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(hosts, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(journal_mirror, "LOCK_SECONDS", 0.5)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(LOCK_FOLDER, str(tmp_path))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LoopbackEngine]:
    """Nodes `one` and `two`; afterwards none of their processes runs."""
    made = LoopbackEngine(Node(tmp_path, "one", "h200"), Node(tmp_path, "two", "a10"))
    yield made
    for node in made.own_nodes.values():
        node.agent.close()
    until(lambda: not processes(tmp_path), "all children are gone")


@pytest.fixture
def head(tmp_path: Path, engine: LoopbackEngine) -> Head:
    return Head(tmp_path, engine)
