"""A service with hosts: they come, are drained, vanish in mid-task and come back; its head is killed."""

import shutil
import signal
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from db.connection.engine import Database
from db.queue.commands import cancel
from db.queue.queries import attempts, schedulers
from db.runs import queries
from records.tasks import Task, TaskAttempt, machine_of
from support.fakes import folder_hosts
from support.fakes.pyrometer_run import CASES
from support.servers.databases import on_both
from support.servers.schedulers import (
    Installation,
    Process,
    enqueue,
    executions,
    executions_of,
    scheduler,
    settings_of,
)
from support.waiting import until


class Fleet(Installation):
    """The installation of a head with its hosts."""

    def __init__(self, folder: Path, url: str, database: Database) -> None:
        super().__init__(folder, url, database)
        self.nodes = self.data_dir / "nodes"
        self.nodes.mkdir()
        settings_of("", self.data_dir)

    def come(self, name: str, *labels: str, drained: bool = False) -> None:
        folder_hosts.come(self.nodes, name, *labels, drained=drained)

    def go(self, name: str) -> None:
        folder_hosts.go(self.nodes, name)

    def trigger(self, kind: str, *labels: str) -> list[Task]:
        """Have something measured on machines of each label; answers the tasks."""
        return enqueue(self.database, kind, *labels)

    def over(self, enqueued: Task) -> Task:
        """The task, which is done."""
        done = super().over(enqueued)
        assert done.state == "done"
        return done

    def tried(self, enqueued: Task) -> list[TaskAttempt]:
        return attempts(self.database, enqueued.id)

    def where(self, enqueued: Task) -> list[tuple[str, str]]:
        """On which machines it was tried, and how that ended."""
        return [(machine_of(each.owner), each.ended) for each in self.tried(enqueued)]

    def measured(self, name: str) -> list[str]:
        """What was measured on a host: run and case."""
        return executions(self.nodes / name)

    def midway(self, *names: str) -> None:
        """Wait until a patient run has measured two of its cases on each of these hosts."""
        until(lambda: all(len(self.measured(name)) == 2 for name in names), f"two cases on {names}")

    def there(self) -> list[str]:
        """The machines that the database knows of."""
        return [each.machine for each in schedulers(self.database)]

    def beats(self, machine: str) -> int:
        """How often a machine was reported; 0 before the first time."""
        return sum(each.beats for each in schedulers(self.database) if each.machine == machine)

    def problems(self) -> str:
        """Why hosts are not used, as the head reports it now."""
        (own,) = [one for one in schedulers(self.database) if one.machine == "here"]
        return " ".join(own.facts.get("problems", []))

    def missing(self) -> list[str]:
        """Which hosts are gone, as the head reports it now."""
        (own,) = [one for one in schedulers(self.database) if one.machine == "here"]
        return own.facts.get("missing", [])

    def head(self) -> AbstractContextManager[Process]:
        """A scheduler with these hosts."""
        return scheduler(self.url, self.data_dir)


@pytest.fixture
def fleet(tmp_path: Path, url: str, database: Database) -> Fleet:
    return Fleet(tmp_path, url, database)


def test_a_place_that_comes_measures_what_is_for_its_labels(fleet: Fleet) -> None:
    (wanted, other) = fleet.trigger("quick", "gpu", "tpu")
    with fleet.head() as head:
        head.wait_for("started")
        assert fleet.there() in ([], ["here"])
        fleet.come("a", "gpu")
        done = fleet.over(wanted)
        about = {each.machine: each for each in schedulers(fleet.database)}
        assert about["a"].labels == ("a", "gpu") and about["a"].owner == done.owner
        facts = about["a"].facts
        assert (facts["measures"], facts["head"], facts["node"]["folder"]) == (
            True,
            "here",
            str(fleet.nodes / "a"),
        )
        # Who only measures looks at no timetable.
        assert "schedules" not in facts and about["here"].facts["schedules"]
        assert head.end() == 0
    assert fleet.where(wanted) == [("a", "done")] and fleet.now(other).state == "waiting"
    assert fleet.measured("a") == executions_of(done.run_id) and executions(fleet.data_dir) == []
    stored = queries.run_record(fleet.database, str(done.run_id))
    assert stored is not None and stored.state == "complete"
    assert fleet.there() == []


def test_a_place_measures_one_task_at_a_time_and_places_run_in_parallel(fleet: Fleet) -> None:
    fleet.come("a", "gpu")
    fleet.come("b", "gpu")
    enqueued = fleet.trigger("patient", *["gpu"] * 4)
    with fleet.head() as head:
        fleet.midway("a", "b")
        states = sorted(fleet.now(each).state for each in enqueued)
        assert states == ["running", "running", "waiting", "waiting"]
        assert {machine_of(fleet.now(each).owner) for each in enqueued} == {"a", "b", ""}
        fleet.go_on()
        tried = [attempt for each in enqueued if fleet.over(each) for attempt in fleet.tried(each)]
        assert head.end() == 0
    assert [each.ended for each in tried] == ["done"] * 4
    for machine in ("a", "b"):
        own = [each for each in tried if machine_of(each.owner) == machine]
        times = sorted((each.started_at, each.ended_at or each.started_at) for each in own)
        assert all(before[1] <= after[0] for before, after in pairwise(times))
    both = [*fleet.measured("a"), *fleet.measured("b")]
    assert len(both) == len(set(both)) == 4 * len(CASES)


def test_a_place_that_vanishes_in_mid_task_loses_it_to_another(fleet: Fleet) -> None:
    fleet.come("a", "gpu")
    (enqueued,) = fleet.trigger("patient", "gpu")
    with fleet.head() as head:
        fleet.midway("a")
        first = fleet.now(enqueued).run_id
        fleet.go("a")
        assert head.wait_for("lost", task=enqueued.id)["text"] == "a is gone"
        head.wait_for("host vanished", machine="a")
        until(lambda: fleet.missing() == ["a"], "readers see it")
        fleet.go_on()
        fleet.come("b", "gpu")
        done = fleet.over(enqueued)
        # It left without a notice: it is missed until it is drained.
        assert fleet.there() == ["a", "b", "here"]
        assert head.end() == 0
    assert fleet.there() == ["a"]
    assert fleet.where(enqueued) == [("a", "lost"), ("b", "done")]
    assert done.run_id != first and fleet.measured("b") == executions_of(done.run_id)
    # What was measured before is not lost: it is a run that was interrupted.
    stored = queries.run_record(fleet.database, str(first))
    assert stored is not None and len(queries.outcomes_of_run(fleet.database, str(first))) == 2


def test_a_place_that_comes_back_goes_on_with_its_run(fleet: Fleet) -> None:
    fleet.come("a", "gpu")
    (enqueued,) = fleet.trigger("patient", "gpu")
    with fleet.head() as head:
        fleet.midway("a")
        fleet.go("a")
        head.wait_for("lost", task=enqueued.id)
        until(lambda: fleet.now(enqueued).state == "waiting", "it waits again")
        fleet.go_on()
        fleet.come("a", "gpu")
        done = fleet.over(enqueued)
        until(lambda: not fleet.missing(), "readers see that it is back")
    assert fleet.where(enqueued) == [("a", "lost"), ("a", "done")]
    assert len({each.run_id for each in fleet.tried(enqueued)}) == 1
    assert fleet.measured("a") == executions_of(done.run_id)


def test_a_drained_place_finishes_what_it_has_takes_nothing_new_and_leaves(fleet: Fleet) -> None:
    fleet.come("a", "gpu")
    (first,) = fleet.trigger("patient", "gpu")
    with fleet.head() as head:
        fleet.midway("a")
        fleet.come("a", "gpu", drained=True)
        head.wait_for("host drained", machine="a")
        (second,) = fleet.trigger("quick", "gpu")
        fleet.go_on()
        fleet.over(first)
        until(
            lambda: [each.facts["measures"] for each in schedulers(fleet.database)] == [False, True],
            "reported",
        )
        assert fleet.now(second).state == "waiting"
        fleet.go("a")
        head.wait_for("host left", machine="a")
        until(lambda: fleet.there() == ["here"], "it is not missed")
        fleet.come("b", "gpu")
        fleet.over(second)
    assert (fleet.where(first), fleet.where(second)) == ([("a", "done")], [("b", "done")])


@on_both
def test_what_a_killed_head_had_done_is_gone_on_with_on_the_same_places_by_the_next(
    fleet: Fleet,
) -> None:
    fleet.come("a", "lab")
    fleet.come("b", "lab")
    # For every machine there is, the head's own too.
    enqueued = fleet.trigger("patient", "lab", "lab", "lab")
    with fleet.head() as killed:
        fleet.midway("a", "b")
        until(lambda: len(executions(fleet.data_dir)) == 2, "two cases here")
        before = {machine_of(fleet.now(each).owner): each for each in enqueued}
        killed.end(signal.SIGKILL)
    assert sorted(before) == ["a", "b", "here"]
    # The head's own slot is idle and claims first, and leaves the tasks of the hosts to them.
    assert cancel(fleet.database, before.pop("here").id, datetime.now(UTC))
    # Of one run nothing was copied before: the journal on the host counts.
    shutil.rmtree(fleet.data_dir / "runs" / str(fleet.now(before["a"]).run_id), ignore_errors=True)
    fleet.go_on()
    with fleet.head() as alive:
        for machine, each in before.items():
            done = fleet.over(each)
            assert fleet.where(each) == [(machine, "lost"), (machine, "done")]
            assert [one.run_id for one in fleet.tried(each)] == [done.run_id] * 2
            assert fleet.measured(machine) == executions_of(done.run_id)
        lost = alive.events("lost")
        assert {each["task"] for each in lost} == {each.id for each in before.values()}
        assert all("its scheduler died" in each["text"] for each in lost)
        until(lambda: fleet.there() == ["a", "b", "here"], "each is known once")
        workers = {each.owner.partition("/")[2] for each in schedulers(fleet.database)}
        assert workers == {alive.events("started")[0]["owner"].partition("/")[2]}


def test_a_place_that_vanished_with_the_head_is_missed_by_the_next(fleet: Fleet) -> None:
    fleet.come("a", "gpu")
    with fleet.head() as killed:
        until(lambda: fleet.there() == ["a", "here"], "both are there")
        killed.end(signal.SIGKILL)
    (silent, _) = schedulers(fleet.database)
    fleet.go("a")
    with fleet.head() as head:
        until(lambda: len(fleet.there()) == 2 and fleet.there()[1] == "here", "the head is there")
        # A scheduler that comes back under load writes its row anew, so that there is none for a moment.
        until(lambda: any(one.beats > 2 for one in schedulers(fleet.database)[1:]), "it has looked")
        assert schedulers(fleet.database)[0] == silent
        fleet.come("a", "gpu")
        until(lambda: silent not in schedulers(fleet.database), "the host is online again")
        assert fleet.there() == ["a", "here"]
        assert head.end() == 0
    shutil.rmtree(fleet.nodes)
    with fleet.head() as without:
        without.wait_for("started")
        until(lambda: fleet.there() == ["here"], "a service without hosts misses none")


def test_a_head_that_is_stopped_gives_back_what_its_places_do(fleet: Fleet) -> None:
    fleet.come("a", "gpu")
    (enqueued,) = fleet.trigger("patient", "gpu")
    with fleet.head() as stopped:
        fleet.midway("a")
        assert stopped.end() == 0
    assert (fleet.now(enqueued).state, fleet.now(enqueued).attempts) == ("waiting", 0)
    assert fleet.there() == []
    fleet.go_on()
    with fleet.head():
        fleet.over(enqueued)
    assert fleet.where(enqueued) == [("a", "released"), ("a", "done")]
    assert len(fleet.measured("a")) == len(CASES)


def test_a_place_of_this_machines_own_name_is_left_out(fleet: Fleet) -> None:
    fleet.come("here", "gpu")
    (enqueued,) = fleet.trigger("quick", "gpu")
    with fleet.head() as head:
        head.wait_for("host refused", machine="here")
        until(lambda: fleet.beats("here") > 2, "it has looked")
        assert fleet.there() == ["here"] and fleet.now(enqueued).state == "waiting"
        assert "has the name of this machine" in fleet.problems()
        fleet.go("here")
        until(lambda: not fleet.problems(), "it went, and is reported no more")
    assert len(head.events("host refused")) == 1
