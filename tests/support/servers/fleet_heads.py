"""A head for nodes that are folders: what children on them come to, and which of their processes live."""

import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from fleet.remote_host import RemoteHost
from runner import journal
from scheduled_jobs.jobs.context import ChildExit
from scheduled_jobs.scheduler.child_process import Logs
from support.fakes.loopback_engine import LoopbackEngine
from support.waiting import PATIENCE_SECONDS

RUN = "20261122-000000-0000abcd"


class Head:
    """A data folder, an engine, and what children on its nodes come to."""

    def __init__(self, folder: Path, engine: LoopbackEngine) -> None:
        self.folder, self.engine, self.data_dir = folder, engine, folder / "head"
        self.events: list[Mapping[str, Any]] = []
        self.stop = threading.Event()
        self.lost = 0
        self._attempts = 0

    def host(self, name: str = "one") -> RemoteHost:
        """A node as a host."""
        host = RemoteHost(self.engine, name, self.data_dir, self._lose)
        host.update(f"id-{name}", ["lab"])
        return host

    def logs(self) -> Logs:
        """Where the next attempt's logs lie."""
        self._attempts += 1
        return Logs(self.data_dir / "tasks" / "1", self._attempts)

    def run(
        self,
        *arguments: str,
        name: str = "one",
        run: str = RUN,
        logs: Logs | None = None,
        nodes: int = 1,
    ) -> ChildExit:
        """Have `pyrometer ARGUMENTS` done on a node."""
        return self.host(name).run(arguments, logs or self.logs(), self.stop, self.events.append, run, nodes)

    def measure(
        self, kind: str, *, name: str = "one", run: str = RUN, logs: Logs | None = None, nodes: int = 1
    ) -> ChildExit:
        """Have a run begin on a node."""
        wish = ("run", "--environment", kind, "--run-id", run, "--json")
        return self.run(*wish, name=name, run=run, logs=logs, nodes=nodes)

    def resume(self, *, name: str = "one", run: str = RUN) -> ChildExit:
        """Have a run resumed."""
        return self.run("run", "--resume", run, "--json", name=name, run=run)

    def mirror(self, run: str = RUN) -> bytes:
        """The run's journal here."""
        path = self.data_dir / "runs" / run / journal.FILE
        return path.read_bytes() if path.exists() else b""

    def _lose(self) -> None:
        self.lost += 1


@contextmanager
def under_way(work: Callable[[], ChildExit]) -> Generator["Future[ChildExit]"]:
    """Work in a thread; it must have ended behind the block, however."""
    future: Future[ChildExit] = Future()

    def done() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=done)
    thread.start()
    try:
        yield future
    finally:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def processes(folder: Path, what: str = "") -> list[psutil.Process]:
    """The living processes that work for nodes below a folder, with their guards; `what` they run."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line: list[str] = process.info["cmdline"] or []
        ours = any(part.startswith(str(folder)) for part in line)
        if ours and process.info["status"] != psutil.STATUS_ZOMBIE and any(what in part for part in line):
            found.append(process)
    return found
