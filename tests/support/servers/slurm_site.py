"""A head at a real Slurm cluster, whose jobs measure nothing."""

import shlex
from pathlib import Path

from configuration.schema import SlurmSettings
from fleet.remote_host import RemoteHost
from fleet.slurm.engine import SlurmEngine
from runner import journal
from scheduled_jobs.jobs.context import ChildExit
from support.fakes.pyrometer_run import HEADER
from support.servers.fleet_heads import RUN, Head
from support.servers.schedulers import NO_COMMAND, wait_until_midway, write_header
from support.servers.slurm_cluster import SlurmCluster
from support.waiting import until

WELL = ChildExit(0, None, "")


class Site(Head):
    """A head at the cluster; its jobs measure nothing."""

    def __init__(self, folder: Path, cluster: SlurmCluster, settings: SlurmSettings) -> None:
        self.shared = folder / "shared"
        self.shared.mkdir(exist_ok=True)
        write_header(self.shared)
        script = folder / "pyrometer.sh"
        script.write_text(
            '#!/bin/sh\nenv > "$PYROMETER_DATA_DIR/environ"\n'
            f'cp {self.shared}/{HEADER} "$PYROMETER_DATA_DIR"\n'
            f'exec {shlex.join(NO_COMMAND)} "$PYROMETER_DATA_DIR" "$@"\n'
        )
        script.chmod(0o755)
        self.cluster = cluster
        made = SlurmEngine(
            settings, self.shared, folder / "environments", None, command=[str(script)], folder=folder
        )
        super().__init__(folder, made)

    def host(self, name: str = "alpha") -> RemoteHost:
        host = RemoteHost(self.engine, name, self.data_dir, self._lose)
        host.update(name, ["lab"])
        return host

    def node_data(self, name: str = "alpha", run: str = RUN) -> Path:
        """What a run has for a data folder on a node."""
        return self.shared / "data" / name / run

    def journal(self, name: str = "alpha", run: str = RUN) -> bytes:
        """The run's journal as its node has it."""
        return (self.node_data(name, run) / "runs" / run / journal.FILE).read_bytes()

    def midway(self, name: str = "alpha", run: str = RUN) -> None:
        """Wait until a patient run has measured two of its cases, and the head knows it."""
        wait_until_midway(self.node_data(name, run))
        until(lambda: self.mirror(run).count(b'"outcome"') == 2, "two cases are mirrored")

    def go_on(self) -> None:
        """Let patient runs go on."""
        (self.folder / "go-on").touch()

    def there(self) -> list[str]:
        """The nodes that take jobs."""
        return [node.name for node in self.engine.nodes()]

    def all_logs(self) -> str:
        """What the logs say."""
        return "".join(path.read_text() for path in sorted(self.data_dir.glob("tasks/1/*.log")))

    def number(self) -> str:
        """The number of the one job that there is."""
        until(self.cluster.jobs, "a job is there")
        return self.cluster.jobs()[0][0]
