"""A fleet on one machine: a Ray head and nodes that are `pyrometer fleet head` and `join`, as on real ones.

Each node has an address of the loopback's own, and a name of its own by a namespace.
"""

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from common.processes import die_with
from fleet.engine import EngineAway, EngineError, EngineNode, NodeSilent
from fleet.ray.engine import RayEngine
from fleet.ray.processes import PORTS, ray_folder
from support.processes import processes_below
from support.site import COMMAND, LOCK_FOLDER, unavailable
from support.waiting import PATIENCE_SECONDS, until

_HEAD_IP = "127.0.0.2"
#: Below the ports that the kernel gives away by itself.
_FIRST_PORT, _LAST_PORT = 20_000, 31_000
_STARTS_SECONDS = 200.0


@dataclass
class Member:
    """A `pyrometer fleet head` or `join` in a folder of its own."""

    name: str
    folder: Path
    process: subprocess.Popen[bytes]

    def said(self) -> str:
        """What it has said for people."""
        return (self.folder / "said").read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end, and answer its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)

    def below(self, pattern: str) -> list[psutil.Process]:
        """Its processes whose command line has something."""
        return processes_below(lambda line: bool(re.search(pattern, " ".join(line))), self.process.pid)

    @property
    def raylet(self) -> psutil.Process:
        """The process that Ray knows a node by."""
        (found,) = self.below(r"raylet/raylet ")
        return found


@dataclass
class Fleet:
    """A head with nodes; `close` leaves nothing of them."""

    folder: Path
    port: int
    head_settings: str = ""
    node_settings: str = ""
    members: dict[str, Member] = field(default_factory=dict[str, Member])

    @property
    def address(self) -> str:
        """Where the head listens."""
        return f"{_HEAD_IP}:{self.port}"

    @property
    def home(self) -> Path:
        """The head's folder."""
        return self.folder / "head"

    @property
    def token(self) -> Path:
        """The head's token."""
        return self.home / ".pyrometer" / "fleet" / "token"

    def start_head(self) -> Member:
        """The head; answers when it stands."""
        self.home.mkdir(parents=True, exist_ok=True)
        own = f'[fleet]\nengine = "ray"\naddress = "{self.address}"\n'
        (self.home / "pyrometer.toml").write_text(self.head_settings + own)
        return self._started(self._start("head", self.home, ["head", *self._ports(0)]), "listens at")

    def begin(self, name: str, *arguments: str, **variables: str) -> Member:
        """A node that joins; answers at once."""
        number = int(name.rpartition("-")[2])
        folder = self.folder / name
        token = folder / ".pyrometer" / "fleet" / "token"
        if not token.exists():
            token.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.token, token)
        (folder / "pyrometer.toml").write_text(self.node_settings)
        ip = f"127.0.0.{2 + number}"
        command = ["join", self.address, "--ip", ip, *self._ports(number), *arguments]
        return self._start(name, folder, command, **variables)

    def joined(self, *members: Member) -> None:
        """Wait until these have joined."""
        for member in members:
            self._started(member, "measures for")

    def environ(self, folder: Path, **variables: str) -> dict[str, str]:
        """This process's variables without settings of ours or Ray's; a lock and a home of its own."""
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYROMETER_", "RAY_", "OMP_"))
        }
        own = {"TMPDIR": str(temporary), "HOME": str(folder), "PYROMETER_CONTENTION_LIMIT": "1"}
        return {**kept, LOCK_FOLDER: str(temporary), **own, **variables}

    def close(self) -> None:
        """End all processes: in order, and by SIGKILL where that fails."""
        for member in reversed(self.members.values()):
            member.process.terminate()
        for member in reversed(self.members.values()):
            try:
                member.process.wait(30)
            except subprocess.TimeoutExpired:
                for each in member.below(""):
                    each.kill()
                member.process.kill()
                member.process.wait()
            # Below a test's own folder there is no room for sockets.
            role = "head" if member.name == "head" else "node"
            shutil.rmtree(ray_folder(member.folder / ".pyrometer", role), ignore_errors=True)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`pyrometer` with these arguments in the head's folder, to its end."""
        environ = self.environ(self.home)
        command = [str(COMMAND), *arguments]
        return subprocess.run(command, cwd=self.home, env=environ, capture_output=True, text=True)

    def _ports(self, number: int) -> list[str]:
        return ["--ports", str(self.port + 1 + number * PORTS)]

    def _start(self, name: str, folder: Path, arguments: list[str], **variables: str) -> Member:
        command = [str(COMMAND), "fleet", *arguments]
        if name != "head":
            command = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name, *command]
        parent = os.getpid()
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=self.environ(folder, **variables),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                # Also when this process is killed nothing stays.
                preexec_fn=lambda: die_with(parent, signal.SIGTERM),
            )
        member = self.members[name] = Member(name, folder, process)
        return member

    def _started(self, member: Member, sign: str) -> Member:
        def stands() -> bool:
            assert member.process.poll() is None, member.said() + _log_of(member)
            return sign in member.said()

        until(stands, f"{member.name} is up", _STARTS_SECONDS)
        return member


def _log_of(member: Member) -> str:
    logs = (member.folder / ".pyrometer" / "fleet").glob("ray-*.log")
    return "".join(log.read_text()[-2000:] for log in logs)


@contextmanager
def a_fleet(folder: Path, head_settings: str = "", node_settings: str = "") -> Generator[Fleet]:
    """A fleet whose head stands; skips the test where a machine cannot have several names."""
    tried = subprocess.run(["unshare", "--uts", "hostname", "tried"], capture_output=True, text=True)
    if tried.returncode:
        unavailable(f"nodes need namespaces of their own: {tried.stderr.strip()}")
    fleet = Fleet(folder, _free_port(), head_settings, node_settings)
    try:
        fleet.start_head()
        yield fleet
    finally:
        fleet.close()


def _free_port() -> int:
    """A port behind which there is room for those of four machines."""
    chosen = random.Random(os.getpid() ^ time.time_ns())
    while True:
        first = chosen.randrange(_FIRST_PORT, _LAST_PORT)
        # Some ports of each machine show whether another fleet has them.
        tried = [first + 1 + number * PORTS + each for number in range(4) for each in (0, 1, 10)]
        if all(map(_is_free, [first, *tried])):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("", port))
        except OSError:
            return False
    return True


@contextmanager
def an_engine(fleet: Fleet, token: Path | None = None) -> Generator[RayEngine]:
    """The engine of the head's scheduler."""
    engine = RayEngine(fleet.address, token or fleet.token, fleet.home / ".pyrometer" / "fleet")
    try:
        yield engine
    finally:
        engine.close()


def answer(engine: RayEngine, node: str, method: str, **arguments: Any) -> Mapping[str, Any]:
    """What a node answers in the end, however often it takes."""
    errors: list[str] = []

    def tried() -> Mapping[str, Any] | None:
        try:
            return engine.call(node, method, arguments, 20.0) or {"ok": True}
        except (NodeSilent, EngineAway) as error:
            errors.append(str(error))
            return None

    try:
        return until(lambda: tried(), f"{node} answers to {method}") or {}
    except AssertionError as error:
        raise AssertionError(f"{error}: {errors[-3:]}") from None


def named(engine: RayEngine, name: str) -> EngineNode:
    """The node of that name, once it is there."""

    def tried() -> EngineNode | None:
        try:
            return next((node for node in engine.nodes() if node.name == name), None)
        except EngineError:
            return None

    found = until(tried, f"{name} is there")
    assert found is not None
    return found


def main() -> None:
    """For trying by hand: PYTHONPATH=tests python -m support.servers.ray_fleet FOLDER."""
    with a_fleet(Path(sys.argv[1])) as fleet:
        fleet.joined(fleet.begin("node-1", "--label", "kind=a"), fleet.begin("node-2", "--label", "kind=b"))
        print(fleet.address, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
