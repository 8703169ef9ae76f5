"""Two machines in one: two networks with a cable between them; the second has its own clock and name."""

import json
import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from measuring import Scratch
from measuring_site import COMMAND, Running, Site, measured_python, unavailable

#: What the second machine is called, and by how many seconds its clock is ahead: as booted a day earlier.
NAME, AHEAD_SECONDS = "second", 86_400
_HOSTS = ("10.77.0.1", "10.77.0.2")
_PORT = 7391
ADDRESS = f"{_HOSTS[1]}:{_PORT}"
#: Who takes part and what becomes of a loss is the point, not the numbers: as short as they can be had.
_SHORT = """
[suites.smoke]
measure_seconds = 0.05
warm_up_max_seconds = 0.3
observe_seconds = 0
deadline_seconds = 600
"""


class Machines:
    """Two folders with settings, each in a network of its own. `leader` runs, `neighbour` lends."""

    def __init__(
        self,
        folder: Path,
        case_file: Path | None,
        settings: tuple[str, str] = (_SHORT, _SHORT),
        profile: str = "as-it-comes",
    ) -> None:
        self._tag = uuid.uuid4().hex[:6]
        self._folder = folder
        self._both = (*(("--cases", str(case_file)) if case_file else ()), "--profile", profile)
        self._started: list[subprocess.Popen[str]] = []
        self.sites: list[Site] = []
        for number in (0, 1):
            ip("netns", "add", self._net(number))
            ip("-n", self._net(number), "link", "set", "lo", "up")
            (folder / str(number)).mkdir()
            self.sites.append(Site(folder / str(number), measured_python(), settings=settings[number]))
        ends = [self._end(number) for number in (0, 1)]
        ip(
            *("link", "add", ends[0], "netns", self._net(0), "type", "veth"),
            *("peer", "name", ends[1], "netns", self._net(1)),
        )
        for number, host in enumerate(_HOSTS):
            ip("-n", self._net(number), "addr", "add", f"{host}/24", "dev", ends[number])
            self.plug(number)

    def plug(self, number: int = 0, state: str = "up") -> None:
        """Plug one end of the cable in, or `down`: pull it."""
        ip("-n", self._net(number), "link", "set", self._end(number), state)

    @property
    def interface(self) -> str:
        """Of the leader, on the cable."""
        return self._end(0)

    def lend(self, *arguments: str) -> tuple[Running, int]:
        """`pyrometer lend` on the second machine, once it listens, and its process id."""
        world = ("unshare", "--uts", "--time", "--monotonic", str(AHEAD_SECONDS), "--fork", "--kill-child")
        script = f'hostname {NAME}; exec "$0" "$@"'
        running = self._start(
            1, *world, "sh", "-c", script, str(COMMAND), "lend", "--listen", ADDRESS, *self._both, *arguments
        )
        pid = int(running.until("listening")["pid"])
        secret = self.sites[0].folder / ".pyrometer/lending/secret"
        secret.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.sites[1].folder / ".pyrometer/lending/secret", secret)
        return running, pid

    def run(self, *cases: str, replicates: int = 1) -> Running:
        """`pyrometer run` of these cases on the first machine, with the second as its neighbour."""
        chosen = [part for case in cases for part in ("--case", case)]
        beside = ("--neighbour", ADDRESS, "--suite", "smoke", "--replicates", str(replicates))
        return self._start(0, str(COMMAND), "run", *beside, *self._both, *chosen)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`pyrometer` on the first machine, to its end."""
        command, site = self._inside(0, str(COMMAND), *arguments), self.sites[0]
        return subprocess.run(
            command, cwd=site.folder, env=site.environ({}), capture_output=True, text=True, check=False
        )

    def slow(self, rate: str) -> None:
        """Let no more pass the cable than so much, as `1gbit` or `100mbit`; empty: all that it can."""
        for number in (0, 1):
            place = ("dev", self._end(number), "root")
            limit = self._inside(number, "tc", "qdisc")
            subprocess.run([*limit, "del", *place], check=False, capture_output=True)
            if rate:
                limits = ("tbf", "rate", rate, "burst", "256kb", "latency", "20ms")
                subprocess.run([*limit, "add", *place, *limits], check=True, capture_output=True)

    def _start(self, number: int, *command: str) -> Running:
        err = self._folder / f"stderr-{len(self._started)}"
        site = self.sites[number]
        with err.open("w") as file:
            process = subprocess.Popen(
                self._inside(number, *command, "--json"),
                cwd=site.folder,
                env=site.environ({}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        self._started.append(process)
        return Running(process, err)

    def close(self) -> None:
        """End whatever a failed test left, and take the networks away."""
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
            if process.stdout:
                process.stdout.close()
        for number in (0, 1):
            subprocess.run(["ip", "netns", "del", self._net(number)], check=False, capture_output=True)

    def _inside(self, number: int, *command: str) -> list[str]:
        """A command in a machine's network."""
        return ["nsenter", f"--net=/run/netns/{self._net(number)}", *command]

    def _net(self, number: int) -> str:
        return f"pyro-{self._tag}-{number}"

    def _end(self, number: int) -> str:
        return f"py{self._tag}{number}"


def two_machines(folder: Path, case_file: Path) -> Iterator[Machines]:
    """For fixtures: skips the test where namespaces cannot be made, fails it where all must run."""
    if os.geteuid() != 0:
        unavailable("only root can make network namespaces")
    if missing := [tool for tool in ("ip", "nsenter", "unshare") if shutil.which(tool) is None]:
        unavailable(f"{missing[0]} is not installed: no network namespaces")
    for options in (["--net"], ["--uts", "--time", "--monotonic", str(AHEAD_SECONDS), "--fork"]):
        tried = subprocess.run(["unshare", *options, "true"], capture_output=True, text=True)
        if tried.returncode != 0:
            unavailable(f"no namespaces can be made here: {tried.stderr.strip()}")
    machines = Machines(folder, case_file)
    try:
        yield machines
    finally:
        machines.close()


def ip(*arguments: str) -> None:
    """The tool of iproute2."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def outcomes(lines: list[str]) -> dict[str, dict[str, Any]]:
    """Outcomes by their case, from the lines of `--json`."""
    bodies = [json.loads(line) for line in lines]
    return {body["case"]: body for body in bodies if body["event"] == "outcome"}


def next_of(running: Running, *events: str) -> dict[str, Any]:
    """The next event of one of these kinds that a command tells."""
    assert running.process.stdout is not None
    for line in running.process.stdout:
        running.lines.append(line)
        if (body := json.loads(line))["event"] in events:
            return body
    raise AssertionError(f"ended without {events}: {running.lines[-3:]} {running.said()}")


def stopped(scratch: Scratch, name: str) -> bool:
    """Whether a process that wrote its id down under `name` has stopped itself."""
    for pid in scratch.pids(name):
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
                return True
    return False
