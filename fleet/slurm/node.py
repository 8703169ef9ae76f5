"""The script of a job on its node: runs the command of the job, and leaves no process behind.

It passes SIGTERM on to the command, which stores its results. SIGTERM comes from the head, from Slurm shortly
before the time limit, and from `scancel`.
"""

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from common.text import os_reason
from runner import nodes
from scheduled_jobs.jobs.context import ChildExit
from scheduled_jobs.scheduler.child_process import Child
from scheduled_jobs.scheduler.process_identity import machine_name

from .job import Job, JobFolder, write_host

#: A step on one other node that shares the allocation of the job, and is bound to no CPU.
_STEP = ("--nodes=1", "--ntasks=1", "--overlap", "--mem=0", "--cpu-bind=none")
#: Exit code of an interrupted run.
_INTERRUPTED = 130


def _foreign(folder: Path) -> str:
    """Why an order is not obeyed: another user could have written its command line; else empty."""
    for path in (folder, folder / "order.json"):
        with suppress(FileNotFoundError):
            found = path.lstat()
            if found.st_uid != os.getuid() or found.st_mode & stat.S_IWOTH or stat.S_ISLNK(found.st_mode):
                return f"another user may have written the order: {path} is not ours alone"
    return ""


def main() -> None:
    """Run the job in the folder that the first argument names."""
    folder = JobFolder(Path(sys.argv[1]))
    if why := _foreign(folder.path):
        sys.exit(why)
    try:
        job = folder.job
    except OSError as error:
        sys.exit(f"the order in {folder.path} cannot be read: {error.strerror or error}")
    if job is None:
        sys.exit(f"there is no order in {folder.path}: do the nodes see that folder?")
    if not folder.begin():
        sys.exit("another job, or an earlier start of this one, has run this order")
    began, was_stopped = time.monotonic(), False
    if folder.stop.exists():
        ended, was_stopped = ChildExit(_INTERRUPTED, None, ""), True
    else:
        try:
            ended, was_stopped = _run(folder, job)
        except OSError as error:
            ended = ChildExit(None, None, f"it cannot be started: {os_reason(error)}")
    folder.write_end({**asdict(ended), "asked": was_stopped, "seconds": time.monotonic() - began})


def _run(folder: JobFolder, job: Job) -> tuple[ChildExit, bool]:
    """The exit of the command, and whether SIGTERM came before it."""
    data = Path(job.data_dir)
    data.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        write_host(data.parent, machine_name())
    own = data.parent / "environments"
    with suppress(FileExistsError):
        # Nodes that cannot use the head's environments have a folder of their own next to their runs.
        (data / "environments").symlink_to(own if own.is_dir() else job.environments)
    with tempfile.TemporaryDirectory(prefix="pyrometer-", ignore_cleanup_errors=True) as local:
        # SQLite needs a local file system. The head reads the journal, never this database.
        own_variables = {
            "PYROMETER_DATABASE_URL": f"sqlite:///{local}/pyrometer.db",
            "PYROMETER_DATA_DIR": str(data),
        }
        if job.nodes > 1:
            file = Path(local) / "nodes.json"
            nodes.write(file, _job_nodes())
            own_variables["PYROMETER_NODES_FILE"] = str(file)
        variables = {**os.environ, **job.variables, **own_variables}
        child = Child(job.command, folder.logs, Path(job.folder), variables)
        signals: list[int] = []

        def terminate(number: int, frame: object) -> None:
            signals.append(number)
            child.terminate()

        signal.signal(signal.SIGTERM, terminate)
        child.has_ended(None)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return child.end(), bool(signals)


def _job_nodes() -> list[nodes.Node]:
    """The nodes of this job, this one first; a command for the others runs as a step. Raises OSError."""
    this_node = os.environ["SLURMD_NODENAME"]
    names = _scontrol("hostnames", os.environ["SLURM_JOB_NODELIST"]).split()
    found: list[nodes.Node] = []
    for name in sorted(names, key=lambda name: name != this_node):
        address = re.search(r"\bNodeAddr=(\S+)", _scontrol("node", name))
        step = ("srun", f"--nodelist={name}", *_STEP) if name != this_node else ()
        found.append(nodes.Node(name, address[1] if address else name, step))
    return found


def _scontrol(*arguments: str) -> str:
    done = subprocess.run(["scontrol", "show", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"scontrol does not answer: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
