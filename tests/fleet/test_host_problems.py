"""Nodes that joined and cannot be used are reported on pages and by commands, not only in the log."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from db.connection.engine import Database, open_database
from db.queue.queries import schedulers
from fleet.engine import EngineNode
from fleet.hosts import FleetHosts
from scheduled_jobs.scheduler import scheduler
from scheduled_jobs.scheduler.log import Log
from scheduled_jobs.scheduler.process_identity import machine_name
from support.command_line import called
from support.fakes.loopback_engine import LoopbackEngine, Node
from support.servers.fleet_heads import Head
from support.servers.schedulers import a_service, in_thread, settings_of
from support.sqlite_files import open_with_tables
from support.waiting import until

_SECOND = "another node called two is not used: each needs a name of its own"


@contextmanager
def a_head(head: Head, engine: LoopbackEngine, folder: Path) -> Iterator[Database]:
    """A scheduler with the engine's nodes, and its database."""
    head.data_dir.mkdir()
    url, log = f"sqlite:///{folder}/pyrometer.db", Log("json", lambda: datetime.now(UTC))
    hosts = FleetHosts(engine, head.data_dir, partial(open_database, url))
    settings = settings_of("", head.data_dir)
    service = a_service(url, head.data_dir, settings, log, machine=machine_name(), hosts=hosts)
    with open_with_tables(url) as database, in_thread(service):
        yield database


def reported(database: Database) -> Sequence[str]:
    """What the scheduler reports about nodes that it does not use."""
    seen = {one.machine: one.facts for one in schedulers(database)}
    assert all("problems" not in facts for name, facts in seen.items() if name != machine_name())
    return seen.get(machine_name(), {}).get("problems", [])


def test_a_node_that_cannot_be_used_is_reported_for_as_long_as_that_is_so(
    head: Head, engine: LoopbackEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(scheduler, "BEAT_SECONDS", 0.1)
    engine.own_nodes["again"] = Node(tmp_path / "more", "again")
    real = engine.nodes

    def nodes() -> list[EngineNode]:
        return [EngineNode(one.id, "two" if one.name == "again" else one.name, one.labels) for one in real()]

    monkeypatch.setattr(engine, "nodes", nodes)
    (tmp_path / "pyrometer.toml").write_text('[fleet]\nengine = "ray"\naddress = "127.0.0.1:26379"\n')
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PYROMETER_")}
    with a_head(head, engine, tmp_path) as database:
        until(lambda: reported(database) == [_SECOND], "the second node of one name is reported")
        status = called(tmp_path, environ, "fleet", "status")
        assert (status.code, status.err) == (0, f"note: {_SECOND}\n")
        assert "two" in status.out
        engine.gone.add("again")
        until(lambda: reported(database) == [], "it went")
        engine.away = "no address answers"
        until(lambda: reported(database) == ["the fleet's engine is away: no address answers"], "it is away")
        engine.away = ""
        until(lambda: reported(database) == [], "it is back")
