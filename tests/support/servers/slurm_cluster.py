"""A real Slurm cluster on this machine: its own munge, a controller and two nodes, in a folder of its own."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from common.processes import die_with
from support.servers.ports import free_port
from support.site import unavailable
from support.waiting import PATIENCE_SECONDS

#: What Debian calls the packages that a cluster takes, by a program of each.
PACKAGES = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
NODES = ("alpha", "beta")
#: Debian has the daemons where only root's PATH looks.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

_CONF = """
ClusterName=pyrometer
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1
SwitchType=switch/none
MpiDefault=none
ReturnToService=1
KillWait=3
GresTypes=gpu
NodeName=alpha Port={ports[1]} Feature=rack7,a10 {here}
NodeName=beta Port={ports[2]} Feature=rack7 Gres=gpu:h200:1 {here}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=ALL MaxTime=5 State=UP
"""


def missing_programs() -> list[str]:
    """The Debian packages that would have to be installed."""
    return [package for program, package in PACKAGES.items() if shutil.which(program, path=_PATH) is None]


class SlurmCluster:
    """Two nodes that are this machine; `variables` have Slurm's commands speak to it."""

    def __init__(self, folder: Path) -> None:
        # Munge requires that no other user can write where its socket lies.
        folder.chmod(0o755)
        self.folder, self.variables = folder, {"SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "state").mkdir()
        key = folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        host = socket.gethostname()
        text = _CONF.format(
            folder=folder,
            host=host,
            user=pwd.getpwuid(os.geteuid()).pw_name,
            ports=[free_port() for _ in range(3)],
            here=f"NodeHostname={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN",
        )
        (folder / "slurm.conf").write_text(text)
        (folder / "gres.conf").write_text("NodeName=beta Name=gpu Type=h200 File=/dev/null\n")

    def start(self) -> None:
        """Start all of it, and return when both nodes take jobs."""
        names = {"pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        files = [f"--{option}={self.folder}/munge.{name}" for option, name in names.items()]
        key, listens = self.folder / "munge.key", self.folder / "munge.socket"
        self._start("munged", "--foreground", f"--key-file={key}", f"--socket={listens}", *files)
        self.wait_for(listens.exists, "munge listens")
        self.start_controller()
        for node in NODES:
            self._start("slurmd", "-D", "-N", node, name=node)
        self.wait_for(lambda: self.states() == dict.fromkeys(NODES, "idle"), "the nodes are idle")

    def start_controller(self) -> None:
        """Start slurmctld, as `kill_controller` left it."""
        self._start("slurmctld", "-D")

    def kill_controller(self) -> None:
        """Kill slurmctld as a power cut would, once it has written down each job in the state it has now.

        It writes within five seconds after a change.
        """
        state, now = self.folder / "state" / "job_state", time.time()
        for number, *_ in self.jobs():
            self.call("scontrol", "update", f"JobId={number}", "Comment=written down")
        self.wait_for(lambda: not self.jobs() or state.stat().st_mtime > now, "the jobs are written down")
        self._daemons["slurmctld"].kill()
        self._daemons["slurmctld"].wait()

    @contextmanager
    def impatience(self) -> Generator[None]:
        """Within the block Slurm's commands wait one second for a controller that is away, not ten."""
        patient, hurried = self.variables["SLURM_CONF"], self.folder / "hurried.conf"
        hurried.write_text(f"{Path(patient).read_text()}MessageTimeout=1\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", str(hurried))
            yield

    def call(self, program: str, *arguments: str) -> str:
        """What one of Slurm's commands answers; empty where it fails. It knows nothing of Pyrometer."""
        others = {name: value for name, value in os.environ.items() if not name.startswith("PYROMETER_")}
        environ = {**others, **self.variables, "PATH": _PATH}
        return subprocess.run([program, *arguments], env=environ, capture_output=True, text=True).stdout

    def states(self) -> dict[str, str]:
        """The nodes' states."""
        output = self.call("sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %T")
        return dict(line.split() for line in output.splitlines())

    def set_node(self, node: str, state: str, reason: str = "by a test") -> None:
        """Have an operator change a node."""
        self.call("scontrol", "update", f"nodename={node}", f"state={state}", f"reason={reason}")

    def jobs(self, *options: str) -> list[list[str]]:
        """Number, state, name and node of the jobs that wait or run; with options of others as well."""
        output = self.call("squeue", "--noheader", "--format=%i|%T|%j|%N", *options)
        return [line.split("|") for line in output.splitlines()]

    def clear(self) -> None:
        """No jobs, and all nodes as at the start."""
        if self._daemons["slurmctld"].poll() is not None:
            self.start_controller()
        self.call("scancel", f"--user={os.geteuid()}")
        self.wait_for(lambda: not self.jobs(), "there are no jobs")
        for node, state in self.states().items():
            if state != "idle":
                self.set_node(node, "resume")
        self.wait_for(lambda: self.states() == dict.fromkeys(NODES, "idle"), "the nodes are idle")

    def wait_for(self, happened: Callable[[], object], what: str) -> None:
        """Wait for something; fails where it does not come."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            assert time.monotonic() < give_up, f"waited in vain: {what}\n{self.said()}"
            time.sleep(0.05)

    def said(self) -> str:
        """The last words of each daemon."""
        outs = sorted(self.folder.glob("*.out"))
        return "\n".join(f"{out.name}: {out.read_text()[-1500:]}" for out in outs)

    def close(self) -> None:
        """End jobs and daemons, in this order: who watches over a job is no child of ours."""
        with suppress(AssertionError):
            self.call("scancel", f"--user={os.geteuid()}")
            self.wait_for(lambda: not self.jobs(), "there are no jobs")
        for daemon in self._daemons.values():
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()

    def _start(self, program: str, *arguments: str, name: str = "") -> None:
        path = shutil.which(program, path=_PATH)
        assert path is not None
        me = os.getpid()
        with (self.folder / f"{name or program}.out").open("ab") as out:
            self._daemons[name or program] = subprocess.Popen(
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **self.variables, "PATH": _PATH},
                preexec_fn=lambda: die_with(me, signal.SIGKILL),
            )


@contextmanager
def slurm_cluster() -> Generator[SlurmCluster]:
    """A cluster that runs within; without Slurm the test is skipped."""
    if missing := missing_programs():
        unavailable(f"there is no Slurm here: as root, apt-get install {' '.join(missing)}")
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="pyrometer-", dir="/tmp") as folder:
        made = SlurmCluster(Path(folder))
        try:
            made.start()
            yield made
        finally:
            made.close()
