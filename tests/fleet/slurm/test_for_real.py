"""The real `pyrometer run` as a job of a real Slurm cluster."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from configuration.tables.slurm import SlurmSettings
from db.connection.engine import open_database
from db.runs import queries
from fleet.remote_host import RemotePlace
from fleet.slurm.engine import SlurmEngine
from runner import journal
from scheduled_jobs.scheduler.child_process import Logs
from support.servers.fleet_heads import RUN
from support.servers.slurm_cluster import SlurmCluster
from support.site import LOCK_FOLDER
from support.site import Site as Folder
from workflows.ingest import ingest

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("in_a_hurry_with_slurm")]


def test_a_run_is_measured_on_a_node_and_stored_by_its_head(
    site: Folder, cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", cluster.variables["SLURM_CONF"])
    monkeypatch.setenv("PYROMETER_CONTENTION_LIMIT", "1")
    # The lock that has one run at a time measure a machine lies there.
    monkeypatch.setenv(LOCK_FOLDER, str(site.temporary))
    monkeypatch.setenv("TMPDIR", str(site.temporary))
    settings, config = SlurmSettings(environment=("TMPDIR", LOCK_FOLDER)), site.folder / "pyrometer.toml"
    engine = SlurmEngine(settings, tmp_path / "shared", tmp_path / "environments", config, folder=site.folder)
    place = RemotePlace(engine, "beta", tmp_path / "head")
    place.told("beta", [])
    events: list[Mapping[str, Any]] = []
    wish = [
        "run",
        "--suite",
        "quick",
        "--cases",
        "cases.py",
        *site.narrowed("quick"),
        "--json",
        "--run-id",
        RUN,
    ]
    ended = place.run(wish, Logs(tmp_path / "logs", 1), threading.Event(), events.append, RUN)
    assert (ended.code, ended.signal) == (0, None), (ended, Logs(tmp_path / "logs", 1).log.read_text())
    assert [event["event"] for event in events].count("outcome") == 4
    mirrored = tmp_path / "head" / "runs" / RUN / journal.FILE
    written = tmp_path / "shared" / "data" / "beta" / RUN / "runs" / RUN / journal.FILE
    assert mirrored.read_bytes() == written.read_bytes()
    with open_database(f"sqlite:///{tmp_path}/head.db") as database:
        assert ingest(mirrored, database).new_outcomes == 4
        run = queries.run_record(database, RUN)
        assert run is not None and run.state == "complete"
