"""Two nodes in one machine: two networks with a cable between them; the second has its own clock and name."""

import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from runner.nodes import Node, write
from support.measuring import Scratch
from support.site import COMMAND, LOCK_FOLDER, Running, Site, measured_python, unavailable

#: What the second node is called, and by how many seconds its clock is ahead: as booted a day earlier.
NAME, AHEAD_SECONDS = "second", 86_400
_HOSTS = ("10.77.0.1", "10.77.0.2")
#: Variables that are set there, as an agent's are, and that no rank may have.
OF_THE_NODE = {"MKL_CBWR": "AVX2", "PYROMETER_DATABASE_URL": "sqlite:///of-the-node.db"}
#: What becomes of a loss is the point, not the numbers: as short as they can be had.
_SHORT = """
[suites.smoke]
measure_seconds = 0.05
warm_up_max_seconds = 0.3
observe_seconds = 0
deadline_seconds = 600
budget_seconds = 7200
"""


class TwoNodes:
    """A folder with settings, and two networks: in the first `pyrometer run` runs, the second is reached."""

    def __init__(self, folder: Path, case_file: Path) -> None:
        self._tag = uuid.uuid4().hex[:6]
        self._folder = folder
        quick = ("--preset", "as-it-comes", "--suite", "smoke", "--replicates", "1")
        self._options = ("--cases", str(case_file), *quick)
        self._started: list[subprocess.Popen[str]] = []
        self.site = Site(folder, measured_python(), settings=_SHORT)
        for number in (0, 1):
            ip("netns", "add", self._net(number))
            ip("-n", self._net(number), "link", "set", "lo", "up")
        ends = [self._end(number) for number in (0, 1)]
        ip(
            *("link", "add", ends[0], "netns", self._net(0), "type", "veth"),
            *("peer", "name", ends[1], "netns", self._net(1)),
        )
        for number, host in enumerate(_HOSTS):
            ip("-n", self._net(number), "addr", "add", f"{host}/24", "dev", ends[number])
            self.plug(number)
        self.file = folder / "nodes.json"
        world = ("unshare", "--uts", "--time", "--monotonic", str(AHEAD_SECONDS), "--fork", "--kill-child")
        #: Where the second node has the lock of its machine.
        self.lock_folder = folder / "second-lock"
        self.lock_folder.mkdir()
        own = {**OF_THE_NODE, LOCK_FOLDER: str(self.lock_folder)}
        variables = " ".join(f"{name}={value}" for name, value in own.items())
        script = f'hostname {NAME}; exec env {variables} "$@"'
        self.command = (*self._inside(1), *world, "sh", "-c", script, "sh")
        write(self.file, [Node("first", _HOSTS[0]), Node(NAME, _HOSTS[1], self.command)])

    def plug(self, number: int = 0, state: str = "up") -> None:
        """Plug one end of the cable in, or `down`: pull it."""
        ip("-n", self._net(number), "link", "set", self._end(number), state)

    @property
    def interface(self) -> str:
        """Of the first node, on the cable."""
        return self._end(0)

    def run(self, *cases: str) -> Running:
        """`pyrometer run` of these cases on the first node."""
        chosen = [part for case in cases for part in ("--case", case)]
        err = self._folder / f"stderr-{len(self._started)}"
        with err.open("w") as file:
            process = subprocess.Popen(
                [*self._inside(0), str(COMMAND), "run", *self._options, *chosen, "--json"],
                cwd=self.site.folder,
                # As the job of a fleet does.
                env=self.site.environ({"PYROMETER_NODES_FILE": str(self.file)}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        self._started.append(process)
        return Running(process, err)

    def close(self) -> None:
        """End what a failed test left, and take the networks away."""
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
            if process.stdout:
                process.stdout.close()
        for number in (0, 1):
            subprocess.run(["ip", "netns", "del", self._net(number)], check=False, capture_output=True)

    def _inside(self, number: int) -> tuple[str, ...]:
        """What stands before a command for the network of a node."""
        return ("nsenter", f"--net=/run/netns/{self._net(number)}")

    def _net(self, number: int) -> str:
        return f"pyro-{self._tag}-{number}"

    def _end(self, number: int) -> str:
        return f"py{self._tag}{number}"


def two_nodes(folder: Path, case_file: Path) -> Iterator[TwoNodes]:
    """For fixtures: skips the test where namespaces cannot be made, fails it where all must run."""
    if os.geteuid() != 0:
        unavailable("only root can make network namespaces")
    if missing := [tool for tool in ("ip", "nsenter", "unshare") if shutil.which(tool) is None]:
        unavailable(f"{missing[0]} is not installed: no network namespaces")
    for options in (["--net"], ["--uts", "--time", "--monotonic", str(AHEAD_SECONDS), "--fork"]):
        tried = subprocess.run(["unshare", *options, "true"], capture_output=True, text=True)
        if tried.returncode != 0:
            unavailable(f"no namespaces can be made here: {tried.stderr.strip()}")
    nodes = TwoNodes(folder, case_file)
    try:
        yield nodes
    finally:
        nodes.close()


def ip(*arguments: str) -> None:
    """The tool of iproute2."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def stopped(scratch: Scratch, name: str) -> list[int]:
    """The processes that wrote their ids down under `name` and have stopped themselves."""
    found: list[int] = []
    for pid in scratch.pids(name):
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
                found.append(pid)
    return found
