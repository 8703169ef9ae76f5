"""A whole service with nodes: each task runs on a node with its label, and resumes when that was lost."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from db.connection.engine import open_database
from db.queue.commands import plan_run
from db.queue.queries import attempts, task
from db.runs import queries
from fleet.hosts import FleetHosts
from records.tasks import NewTask, machine_of
from scheduled_jobs.scheduler import scheduler, worker_pool
from scheduled_jobs.scheduler.log import Log
from support.fakes.loopback_engine import LoopbackEngine
from support.servers.fleet_heads import Head
from support.servers.schedulers import (
    a_service,
    executions,
    executions_of,
    in_thread,
    settings_of,
    wait_until_midway,
)
from support.waiting import until

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("lossy", [0, 3])
def test_tasks_are_done_on_their_nodes_and_gone_on_with(
    head: Head, engine: LoopbackEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lossy: int
) -> None:
    monkeypatch.setattr(scheduler, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(worker_pool, "REST_SECONDS", 0.1)
    engine.lost_every = lossy
    url, log = f"sqlite:///{tmp_path}/pyrometer.db", Log("json", lambda: datetime.now(UTC))
    head.data_dir.mkdir()
    hosts = FleetHosts(engine, head.data_dir, partial(open_database, url), lambda text: log("fleet", text))
    service = a_service(url, head.data_dir, settings_of("", head.data_dir), log, hosts=hosts)
    one, two = engine.own_nodes["one"], engine.own_nodes["two"]
    now = datetime.now(UTC)
    new = [
        NewTask(f"{kind}@{label}", "measure", {"track": kind}, label)
        for kind, label in (("patient", "h200"), ("quick", "a10"), ("quick", "two"))
    ]
    with open_database(url) as database:
        plan_run(database, "night", now, "by hand", new, now)
        with in_thread(service):
            wait_until_midway(one.data_dir)
            engine.gone.add("one")
            until(lambda: [each.ended for each in attempts(database, 1)][:1] == ["lost"], "it is lost")
            one.go_on()
            engine.gone.clear()
            for number in (1, 2, 3):
                until(lambda: getattr(task(database, number), "state", "") == "done", "it is done")  # noqa: B023
        assert engine.closed
        done = [each for number in (1, 2, 3) if (each := task(database, number)) is not None]
        runs = [str(each.run_id) for each in done]
        where = [{machine_of(each.owner) for each in attempts(database, number)} for number in (1, 2, 3)]
        assert where == [{"one"}, {"two"}, {"two"}]
        assert [each.ended for each in attempts(database, 1)] == ["lost", "done"]
        # No case is measured twice, and the other tasks ran one after the other.
        assert executions(one.data_dir) == executions_of(runs[0])
        first, last = sorted(runs[1:], key=lambda run: _begun(two.data_dir, run))
        assert executions(two.data_dir) == [*executions_of(first), *executions_of(last)]
        for run, node in zip(runs, (one, two, two), strict=True):
            assert head.mirror(run) == node.journal(run).read_bytes()
            stored = queries.run_record(database, run)
            assert stored is not None and stored.state == "complete"


def _begun(data_dir: Path, run: str) -> int:
    """The line of the record of executions at which a run started."""
    return [line.split()[0] for line in executions(data_dir)].index(run)
