"""A real Slurm cluster and its head."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from configuration.schema import SlurmSettings
from fleet import remote_host
from fleet.slurm import engine as slurm_engine
from fleet.slurm import queue as slurm_queue
from support.servers.fleet_heads import processes
from support.servers.slurm_cluster import SlurmCluster, slurm_cluster
from support.servers.slurm_site import Site
from support.waiting import until

#: A secret that no job may see.
SECRET = "postgresql://head:hunter2@db/pyrometer"


@pytest.fixture(scope="session")
def cluster() -> Iterator[SlurmCluster]:
    with slurm_cluster() as made:
        yield made


@pytest.fixture
def in_a_hurry_with_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system is local; Slurm may be queried often, and may be slow."""
    monkeypatch.setattr(slurm_engine, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(slurm_queue, "JOBS_SECONDS", 0.2)
    monkeypatch.setattr(slurm_queue, "NODES_SECONDS", 0.2)
    monkeypatch.setattr(slurm_queue, "UNSEEN_SECONDS", 1.0)
    monkeypatch.setattr(slurm_queue, "SWEEP_SECONDS", 0.0)
    monkeypatch.setattr(remote_host, "SILENT_SECONDS", 60.0)


@pytest.fixture
def at_slurm(
    tmp_path: Path, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch, in_a_hurry_with_slurm: None
) -> Iterator[Site]:
    """A head; afterwards no job and none of their processes is left."""
    monkeypatch.setenv("SLURM_CONF", cluster.variables["SLURM_CONF"])
    monkeypatch.setenv("PYROMETER_DATABASE_URL", SECRET)
    monkeypatch.setenv("PYROMETER_CONTENTION_LIMIT", "1")
    yield Site(tmp_path, cluster, SlurmSettings())
    cluster.clear()
    until(lambda: not processes(tmp_path), "nothing of a job is left")
