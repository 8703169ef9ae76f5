"""Which nodes are hosts: nodes join, describe themselves, are drained or lost, and come back."""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from db.connection.engine import Database, open_database
from db.queue.commands import claim, plan_run, set_run
from db.runs import queries
from fleet import hosts as modules
from fleet.hosts import FleetHosts
from fleet.status import drain, drained_nodes, undrain
from records.tasks import NewTask
from runner import journal
from scheduled_jobs.jobs.context import ChildLost
from scheduled_jobs.scheduler.hosts import HostProvider
from support.builders.journals import write_journal
from support.fakes.loopback_engine import LoopbackEngine, Node
from support.fakes.pyrometer_run import CASES
from support.servers.fleet_heads import RUN, Head, processes, under_way
from support.servers.schedulers import executions, wait_until_midway
from support.waiting import until
from workflows.ingest import FORGOTTEN

Fleet = Callable[[], FleetHosts]


@pytest.fixture
def said() -> list[str]:
    """The reported sentences."""
    return []


@pytest.fixture
def fleet(head: Head, database: Database, said: list[str], tmp_path: Path) -> Iterator[Fleet]:
    """The hosts on the engine's nodes."""
    made: list[FleetHosts] = []

    def make() -> FleetHosts:
        opened = partial(open_database, f"sqlite:///{tmp_path}/pyrometer.db")
        made.append(FleetHosts(head.engine, head.data_dir, opened, said.append))
        assert made[-1].wait_until_known(30)
        return made[-1]

    yield make
    for each in made:
        each.close()


def names(hosts: HostProvider) -> list[str]:
    return [seen.host.machine for seen in hosts.look()]


def test_nodes_are_hosts_with_all_their_labels(fleet: Fleet, engine: LoopbackEngine) -> None:
    engine.labels = {"one": {"accel": "H200", "rack": ""}}
    hosts = fleet()
    one, two = hosts.look()
    assert one.host.labels == ("one", "accel=H200", "H200", "h200")
    assert two.host.labels == ("two", "a10")
    assert one.facts["folder"] == str(engine.own_nodes["one"].folder)
    assert {"machine", "version", "python", "capabilities", "environments", "examined"} <= one.facts.keys()
    assert not one.drained and hosts.problems() == ()


def test_nodes_come_and_go_and_stay_the_same_host(
    fleet: Fleet, engine: LoopbackEngine, tmp_path: Path
) -> None:
    hosts = fleet()
    before = {seen.host.machine: seen.host for seen in hosts.look()}
    engine.gone.add("two")
    engine.own_nodes["three"] = Node(tmp_path, "three")
    until(lambda: names(hosts) == ["one", "three"], "one went, another came")
    engine.gone.clear()
    until(lambda: names(hosts) == ["one", "three", "two"], "it came back")
    assert {seen.host.machine: seen.host for seen in hosts.look()}.items() >= before.items()


def test_an_engine_that_is_away_has_no_hosts_and_a_reason(
    fleet: Fleet, engine: LoopbackEngine, said: list[str]
) -> None:
    hosts = fleet()
    engine.away = "no address answers"
    until(lambda: not hosts.look(), "no host is there")
    assert hosts.away == "no address answers"
    engine.away = ""
    until(lambda: names(hosts) == ["one", "two"], "they are there again")
    assert hosts.away == ""
    assert said == ["the fleet's engine is away: no address answers", "the fleet's engine is back"]
    hosts.close()
    assert engine.closed


def test_a_drained_node_is_there_and_reported(fleet: Fleet, head: Head) -> None:
    hosts = fleet()
    odd = "../o n e%"
    assert drain(head.data_dir, "two") and not drain(head.data_dir, "two") and drain(head.data_dir, odd)
    assert drained_nodes(head.data_dir) == {"two", odd}
    until(lambda: [seen.drained for seen in hosts.look()] == [False, True], "it is drained")
    assert undrain(head.data_dir, "two") and not undrain(head.data_dir, "two") and undrain(head.data_dir, odd)
    until(lambda: [seen.drained for seen in hosts.look()] == [False, False], "it is not any more")
    assert [each.name for each in (head.data_dir / "fleet").iterdir()] == ["drained"]


def test_a_node_that_cannot_describe_itself_is_not_used_and_reported(
    fleet: Fleet, engine: LoopbackEngine, said: list[str], tmp_path: Path
) -> None:
    settings = engine.own_nodes["one"].folder / "pyrometer.toml"
    well = settings.read_text()
    settings.write_text("data_dri = 1")
    for name in ("no/name", "two"):
        engine.own_nodes[f"x-{name}"] = namesake = Node(tmp_path / "more", name.replace("/", "-"))
        namesake.name = name
    nodes = engine.nodes
    engine.nodes = lambda: [  # type: ignore[method-assign]
        type(each)(each.id, engine.own_nodes[each.name].name, each.labels) for each in nodes()
    ]
    hosts = fleet()
    assert names(hosts) == ["two"]
    why = " ".join(hosts.problems())
    assert "node one is not used:" in why and "data_dri" in why
    assert "another node called two is not used" in why
    assert "'no/name' is not used" in why
    assert len(said) == len(set(said)) == 3
    settings.write_text(well)
    until(lambda: names(hosts) == ["one", "two"], "it can describe itself now")


def test_a_node_that_lost_a_child_has_to_describe_itself_again(
    fleet: Fleet, head: Head, engine: LoopbackEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # While it measures it is not polled otherwise.
    monkeypatch.setattr(modules, "BUSY_SECONDS", 1000.0)
    hosts = fleet()
    one = hosts.look()[0].host
    arguments = ["run", "--environment", "patient", "--run-id", RUN, "--json"]

    def measure() -> object:
        return one.run(arguments, head.logs(), head.stop, head.events.append, RUN)

    with under_way(measure) as future:
        wait_until_midway(engine.own_nodes["one"].data_dir)
        time.sleep(0.5)
        engine.silent.add("one")
        with pytest.raises(ChildLost):
            future.result(60)
        # The engine lists it as alive, and it would lose task after task.
        assert names(hosts) == ["two"]
        assert "not used" in " ".join(hosts.problems())
        engine.silent.clear()
    until(lambda: names(hosts) == ["one", "two"], "it answers again")
    engine.own_nodes["one"].agent.close()


def test_a_child_that_is_lost_while_its_node_describes_itself_is_not_forgotten(
    fleet: Fleet, head: Head, engine: LoopbackEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modules, "DESCRIBED_SECONDS", 0.1)
    hosts, carry = fleet(), engine.call
    one, used = hosts.look()[0].host, list[list[str]]()

    def call(node: str, method: str, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        answer = carry(node, method, arguments, timeout)
        if (node, method) == ("id-one", "describe"):
            used.append(names(hosts))
            if len(used) == 1:
                # Before the head has its facts.
                engine.silent.add("one")
                with pytest.raises(ChildLost):
                    one.run(["run"], head.logs(), head.stop, head.events.append, RUN)
                engine.silent.clear()
        return answer

    monkeypatch.setattr(engine, "call", call)
    until(lambda: len(used) > 1, "it is asked again")
    assert used[:2] == [["one", "two"], ["two"]]
    until(lambda: names(hosts) == ["one", "two"], "it is used again")


@pytest.mark.parametrize("defect", ["_labels", "fetch"])
def test_a_defect_leaves_a_node_unused_until_its_next_poll(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, defect: str
) -> None:
    def broken(*_: object) -> object:
        raise KeyError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr(modules, defect, broken)
        hosts = fleet()
        assert names(hosts) == []
        assert all("by a defect in Pyrometer: KeyError" in each for each in hosts.problems())
    until(lambda: names(hosts) == ["one", "two"], "they are asked again")


def a_task_that_names(database: Database, head: Head, run: str) -> None:
    """A task with an attempt that started this run."""
    now = datetime.now(UTC)
    plan_run(database, "nightly", now, "timetable", [NewTask("", "measure", {"track": "nightly"})], now)
    claimed = claim(database, owner="one/b/1/2", labels=[], jobs=["measure"], token=run, now=now)
    assert claimed is not None and set_run(database, run, run)


def test_runs_measured_while_the_head_was_away_are_fetched(
    fleet: Fleet, head: Head, engine: LoopbackEngine, database: Database, said: list[str]
) -> None:
    node = engine.own_nodes["one"]
    with under_way(lambda: head.measure("patient")) as future:
        wait_until_midway(node.data_dir)
        until(lambda: len(head.mirror().splitlines()) == 3, "they are mirrored")
        engine.gone.add("one")
        with pytest.raises(ChildLost):
            future.result(60)
    node.go_on()
    until(lambda: not processes(node.folder), "it measured on")
    assert len(head.mirror()) < len(node.journal(RUN).read_bytes())
    # Neither was mirrored; a task names one of them, the other is of another head.
    named, foreign = f"{RUN[:-1]}1", f"{RUN[:-1]}2"
    for run in (named, foreign):
        engine.gone.clear()
        head.measure("quick", run=run)
        engine.gone.add("one")
        (head.data_dir / "runs" / run / journal.FILE).unlink()
    a_task_that_names(database, head, named)
    # Started by hand on the node: not fetched.
    write_journal(node.data_dir, "20260101-000000-00000000", replicates=1)
    engine.gone.clear()
    fleet()
    for run in (RUN, named):
        assert head.mirror(run) == node.journal(run).read_bytes()
        stored = queries.run_record(database, run)
        assert stored is not None and stored.state == "complete"
        assert len(queries.outcomes_of_run(database, run)) == len(CASES)
    assert head.mirror(foreign) == b""
    assert queries.run_ids(database) == {RUN, named}
    assert sorted(said) == [
        f"node one: run {run}: fetched, with 4 outcomes that were not known here" for run in (named, RUN)
    ]


def test_a_journal_that_is_longer_on_the_head_or_forgotten_is_kept(
    fleet: Fleet, head: Head, engine: LoopbackEngine, said: list[str]
) -> None:
    node, other = engine.own_nodes["one"], f"{RUN[:-1]}1"
    head.measure("quick")
    head.measure("quick", run=other)
    longer = head.data_dir / "runs" / RUN / journal.FILE
    longer.write_bytes(head.mirror() + b"more\n")
    shorter = head.data_dir / "runs" / other / journal.FILE
    shorter.write_bytes(head.mirror(other)[:-3])
    shorter.with_name(FORGOTTEN).touch()
    before = head.mirror(), head.mirror(other)
    fleet()
    assert (head.mirror(), head.mirror(other)) == before
    assert said == [f"node one: {longer} is longer than the journal on the node; it is left as it is"]
    assert node.journal(RUN).exists()


def test_a_zombie_s_journal_is_fetched_when_it_has_ended(
    fleet: Fleet, head: Head, engine: LoopbackEngine, database: Database
) -> None:
    node = engine.own_nodes["one"]
    with under_way(lambda: head.measure("patient")) as future:
        until(lambda: len(head.mirror().splitlines()) == 3, "two cases are mirrored")
        engine.gone.add("one")
        with pytest.raises(ChildLost):
            future.result(60)
    engine.gone.clear()
    hosts = fleet()
    assert "one" in names(hosts) and len(head.mirror().splitlines()) == 3
    node.go_on()
    until(lambda: queries.run_record(database, RUN), "it is fetched and stored")
    assert head.mirror() == node.journal(RUN).read_bytes() and len(executions(node.data_dir)) == len(CASES)
