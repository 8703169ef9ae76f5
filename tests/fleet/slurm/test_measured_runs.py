"""The real `pyrometer run` as a job of a real Slurm cluster."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from configuration.schema import SlurmSettings
from db.connection.engine import open_database
from db.runs import queries
from fleet.remote_host import RemoteHost
from fleet.slurm.engine import SlurmEngine
from runner import journal
from scheduled_jobs.scheduler.child_process import Logs
from support.measuring import CASE_FILES
from support.servers.fleet_heads import RUN
from support.servers.slurm_cluster import SlurmCluster
from support.site import LOCK_FOLDER
from support.site import Site as Folder
from workflows.ingest import ingest

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("in_a_hurry_with_slurm")]


#: As short as possible: the numbers do not matter.
_SHORT = """
[suites.smoke]
measure_seconds = 0.05
warm_up_max_seconds = 0.3
observe_seconds = 0
deadline_seconds = 600
"""
_TWO_NODES = "blocks/train/batch=4/nodes=2,parallel=ddp,ranks=2"


class Head:
    """A head whose jobs are the real `pyrometer run` in a site's folder."""

    def __init__(
        self, site: Folder, cluster: SlurmCluster, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SLURM_CONF", cluster.variables["SLURM_CONF"])
        monkeypatch.setenv("PYROMETER_CONTENTION_LIMIT", "1")
        # The machine lock is in this folder.
        monkeypatch.setenv(LOCK_FOLDER, str(site.temporary))
        monkeypatch.setenv("TMPDIR", str(site.temporary))
        settings, config = SlurmSettings(environment=("TMPDIR", LOCK_FOLDER)), site.folder / "pyrometer.toml"
        self._engine = SlurmEngine(
            settings, folder / "shared", folder / "environments", config, folder=site.folder
        )
        self._folder = folder
        self.events: list[Mapping[str, Any]] = []
        self.logs = Logs(folder / "logs", 1)

    def measure(self, *options: str, nodes: int = 1) -> Path:
        """Measure a run on beta to its end; returns its mirrored journal, equal to the original."""
        host = RemoteHost(self._engine, "beta", self._folder / "head")
        host.update("beta", [])
        wish = ["run", *options, "--json", "--run-id", RUN]
        ended = host.run(wish, self.logs, threading.Event(), self.events.append, RUN, nodes)
        assert (ended.code, ended.signal) == (0, None), (ended, self.logs.log.read_text())
        mirrored = self._folder / "head" / "runs" / RUN / journal.FILE
        written = self._folder / "shared" / "data" / "beta" / RUN / "runs" / RUN / journal.FILE
        assert mirrored.read_bytes() == written.read_bytes()
        return mirrored


def test_a_case_over_two_nodes_is_measured_by_one_job_and_stored_by_its_head(
    site: Folder, cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (site.folder / "pyrometer.toml").open("a") as file:
        file.write(_SHORT)
    head = Head(site, cluster, tmp_path, monkeypatch)
    cases = ("--cases", str(CASE_FILES / "over_nodes.py"), "--case", _TWO_NODES)
    quick = ("--preset", "as-it-comes", "--suite", "smoke", "--replicates", "1")
    mirrored = head.measure(*cases, *quick, nodes=2)
    contents = journal.read_contents(mirrored)
    assert {(one.status, one.reason) for one in contents.outcomes} == {("ok", "")}
    (outcome,) = [one for one in contents.outcomes if one.case == _TWO_NODES]
    (node,) = outcome.facts["nodes"]
    assert node["name"] in {"alpha", "beta"} and node["address"] == "127.0.0.1"
    # The case, and the eager one beside which it is measured.
    assert [event["event"] for event in head.events].count("outcome") == len(contents.outcomes) == 2
    with open_database(f"sqlite:///{tmp_path}/head.db") as database:
        assert ingest(mirrored, database).new_outcomes == 2
        run = queries.run_record(database, RUN)
        assert run is not None and run.state == "complete"
