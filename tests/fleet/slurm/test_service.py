"""A service whose tasks are measured by jobs of a real Slurm cluster."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from db.connection.engine import open_database
from db.queue.queries import attempts, schedulers, task
from db.runs import queries
from fleet.hosts import FleetHosts
from records.tasks import machine_of
from scheduled_jobs.scheduler import scheduler
from scheduled_jobs.scheduler.log import Log
from scheduled_jobs.scheduler.process_identity import machine_name
from support.fakes.pyrometer_run import CASES
from support.servers.schedulers import (
    a_service,
    enqueue,
    executions,
    in_thread,
    settings_of,
    wait_until_midway,
)
from support.servers.slurm_cluster import SlurmCluster
from support.servers.slurm_site import Site
from support.waiting import until


@contextmanager
def head(at_slurm: Site, url: str) -> Generator[None]:
    """A service with the cluster as its fleet."""
    at_slurm.data_dir.mkdir(exist_ok=True)
    hosts = FleetHosts(at_slurm.engine, at_slurm.data_dir, partial(open_database, url, timeout=30))
    service = a_service(
        url,
        at_slurm.data_dir,
        settings_of("", at_slurm.data_dir),
        Log("json", lambda: datetime.now(UTC)),
        hosts=hosts,
    )
    with closing(hosts), in_thread(service):
        yield


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(scheduler, "TICK_SECONDS", 0.2)
    monkeypatch.setattr(scheduler, "BEAT_SECONDS", 0.4)
    return f"sqlite:///{tmp_path}/pyrometer.db"


def test_a_task_goes_to_the_node_that_it_asks_for(at_slurm: Site, url: str) -> None:
    with open_database(url, timeout=30) as database:
        (enqueued,) = enqueue(database, "quick", "gpu:h200")
        with head(at_slurm, url):
            until(lambda: getattr(task(database, enqueued.id), "state", "") == "done", "it is done")
            about = {each.machine: each for each in schedulers(database)}
            # The host name of the node may be known by now.
            known = ("beta", "rack7", "gpu:h200", "h200", "gpu")
            assert about["beta"].labels in (known, (*known, machine_name()))
        done = task(database, enqueued.id)
        assert done is not None and machine_of(done.owner) == "beta"
        run = queries.run_record(database, str(done.run_id))
        assert run is not None and run.state == "complete"
        assert len(executions(at_slurm.node_data("beta", str(done.run_id)))) == len(CASES)


def test_a_task_whose_node_goes_down_is_taken_over(at_slurm: Site, cluster: SlurmCluster, url: str) -> None:
    with open_database(url, timeout=30) as database, head(at_slurm, url):
        (enqueued,) = enqueue(database, "patient", "rack7")
        # The node may have other folders next to that of the run.
        (begun,) = until(lambda: list(at_slurm.shared.glob("data/*/*/executions")), "it is begun")
        wait_until_midway(begun.parent)
        (first,) = attempts(database, enqueued.id)
        cluster.set_node(machine_of(first.owner), "down")
        until(lambda: attempts(database, enqueued.id)[0].ended == "lost", "it is lost")
        at_slurm.go_on()
        until(lambda: getattr(task(database, enqueued.id), "state", "") == "done", "it is done")
        tried = attempts(database, enqueued.id)
        assert [each.ended for each in tried] == ["lost", "done"]
        assert {machine_of(each.owner) for each in tried} == {"alpha", "beta"}
        assert "NODE_FAIL" in tried[0].detail
        assert tried[0].run_id != tried[1].run_id
