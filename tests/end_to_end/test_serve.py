"""`pyrometer serve`: scheduler and dashboard in one, from its start to its end, and nothing is left."""

import json
import os
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from db.connection.engine import open_database
from db.queue.queries import schedulers, tasks
from scheduled_jobs.scheduler.child_process import OURSELVES
from support.servers.ports import free_port
from support.waiting import PATIENCE_SECONDS, until

TOML = """
[schedules.tidy]
cron = "0 0 1 1 *"
job = "prune"
"""


class Serving:
    """The command in a folder of its own, what it said line by line, and its processes."""

    def __init__(self, folder: Path) -> None:
        (folder / "pyrometer.toml").write_text(TOML)
        self.folder = folder
        self.lines: list[str] = []
        self._environment = {k: v for k, v in os.environ.items() if not k.startswith("PYROMETER_")}
        self.process = subprocess.Popen(
            [*OURSELVES, "serve", "--port", str(free_port()), "--no-measuring", "--log", "json"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=self._environment,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    @property
    def url(self) -> str:
        """Where the dashboard answers, once it says so."""

        def said() -> str | None:
            assert self.process.poll() is None, "it has ended"
            urls = [line.split()[1] for line in list(self.lines) if line.startswith("Dashboard: ")]
            return urls[-1] if urls else None

        return str(until(said, "the dashboard says where it is"))

    def events(self, name: str, **about: object) -> list[dict[str, Any]]:
        """What the scheduler said of that name."""
        lines = [json.loads(line) for line in list(self.lines) if line.startswith("{")]
        return [each for each in lines if each["event"] == name and about.items() <= each.items()]

    def processes(self) -> list[psutil.Process]:
        """It and everything that it has started."""
        first = psutil.Process(self.process.pid)
        return [first, *first.children(recursive=True)]

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another command in the same folder."""
        return subprocess.run(
            [*OURSELVES, *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_SECONDS,
        )

    def end(self, number: int) -> int:
        """Send a signal and wait; answers the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        self._listener.join(PATIENCE_SECONDS)
        return code


def ready(url: str) -> str:
    """What the dashboard answers when it is asked whether it is ready."""
    with urllib.request.urlopen(f"{url.rstrip('/')}/readyz", timeout=PATIENCE_SECONDS) as answer:
        return str(json.loads(answer.read())["status"])


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    made = Serving(tmp_path)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            for process in reversed(made.processes()):
                process.kill()
        made.process.wait()
        assert made.process.stdout is not None
        made.process.stdout.close()


def test_it_serves_does_what_is_due_and_leaves_nothing(serving: Serving) -> None:
    assert ready(serving.url) == "ready"
    (scheduler,) = until(lambda: serving.events("started"), "the scheduler has started")
    triggered = json.loads(serving.call("schedule", "trigger", "tidy", "--json").stdout)
    number = triggered["tasks"][0]["task"]
    (ended,) = until(lambda: serving.events("ended", task=number), "what was triggered is done")
    assert (ended["state"], ended["schedule"]) == ("done", "tidy")
    before, url = serving.processes(), serving.url
    assert len(before) > 1, "the dashboard is a process of its own"
    assert serving.end(signal.SIGTERM) == 0
    assert [each["event"] for each in map(json.loads, filter(is_event, serving.lines))][-1] == "stopped"
    assert [each for each in before if each.is_running()] == []
    with pytest.raises(OSError, match="refused"):
        ready(url)
    with open_database(f"sqlite:///{serving.folder}/pyrometer.db") as database:
        assert schedulers(database) == [] and scheduler["owner"]
        assert {task.state for task in tasks(database, schedule="tidy")} == {"done"}


def is_event(line: str) -> bool:
    return line.startswith("{")


def test_killed_it_takes_its_dashboard_along(serving: Serving) -> None:
    assert ready(serving.url) == "ready"
    others = serving.processes()[1:]
    assert serving.end(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: not any(each.is_running() for each in others), "the dashboard has ended too")
