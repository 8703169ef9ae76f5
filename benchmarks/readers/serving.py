"""Servers in processes of their own: the dashboard as users start it, and an empty Streamlit page."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
_EMPTY = 'import streamlit as st\n\nst.html("<p>empty</p>")\n'
_OPTIONS = ("--server.headless=true", "--server.address=127.0.0.1", "--browser.gatherUsageStats=false")


class Server:
    """A process that serves pages at `url`; `ready` is how many seconds it took until it said so."""

    def __init__(self, command: Sequence[str], log: Path, more: Mapping[str, str], url: str = "") -> None:
        self._log = log
        started = time.perf_counter()
        environment = {**os.environ, **more}
        with log.open("w") as file:
            self.process = subprocess.Popen(
                command, cwd=log.parent, env=environment, stdout=file, stderr=file
            )
        self.url = url or self._said()
        if url:
            self._answers()
        self.ready = time.perf_counter() - started

    def cpu_seconds(self) -> float:
        """CPU time that the process has used, all of its threads together."""
        # Linux's clock of another process's CPU time: to the nanosecond, where /proc has hundredths.
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def resident_mib(self) -> float:
        """Memory of the process, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(30)

    def _said(self) -> str:
        while "Dashboard: " not in (log := self._log.read_text()):
            self._wait()
        return log.partition("Dashboard: ")[2].split()[0]

    def _answers(self) -> None:
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=10):
                    return
            except (urllib.error.URLError, ConnectionError):
                self._wait()

    def _wait(self) -> None:
        if self.process.poll() is not None:
            raise SystemExit(self._log.read_text())
        time.sleep(0.01)


def dashboard(database: str, folder: Path) -> Server:
    """The dashboard on a database's URL, as users start it."""
    command = [str(Path(sys.executable).parent / "pyrometer"), "dashboard", "--port", _port()]
    return Server(command, folder / "dashboard.log", _about(database, folder))


def observed(database: str, folder: Path, questions: Path) -> Server:
    """The same, which writes every question to the database into a file."""
    command = [sys.executable, str(FOLDER / "observed.py"), str(questions), "dashboard", "--port", _port()]
    return Server(command, folder / "observed.log", _about(database, folder))


def empty(folder: Path) -> Server:
    """A page with one word on it, as Streamlit's own command serves it."""
    script = folder / "empty.py"
    script.write_text(_EMPTY)
    return _streamlit(folder, script)


def plain(folder: Path) -> Server:
    """A page with a plain chart and some choices, served the same way."""
    return _streamlit(folder, FOLDER / "plain_page.py")


def _streamlit(folder: Path, script: Path) -> Server:
    port = _port()
    command = [sys.executable, "-m", "streamlit", "run", str(script), f"--server.port={port}", *_OPTIONS]
    return Server(command, folder / f"{script.stem}.log", {}, f"http://127.0.0.1:{port}")


def _port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def _about(database: str, folder: Path) -> dict[str, str]:
    return {"PYROMETER_DATABASE_URL": database, "PYROMETER_DATA_DIR": str(folder / "data")}
