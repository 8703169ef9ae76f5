"""What a node can measure: the report of its own `pyrometer doctor`, which runs while the node is idle."""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from runner.errors import MachineBusy
from runner.execution.machine_lock import exclusive
from scheduled_jobs.scheduler.child_process import Child, Logs, RunningChild

#: An idle node repeats its doctor after so long.
REPEAT_SECONDS = 6 * 3600.0
#: The same after a doctor that was interrupted or failed.
_RETRY_SECONDS = 60.0

#: The last report, in the agent's folder.
_FILE = "doctor.json"
_NOTHING: Mapping[str, Any] = {
    "hardware": "",
    "gpus": [],
    "capabilities": [],
    "environments": [],
    "cannot": [],
}

#: Starts a command of `pyrometer` on this node; raises OSError.
Start = Callable[[list[str], Logs], Child]


class NodeProbe:
    """The last report of the doctor, and the doctor while it runs. May be used from any thread.

    `folder` is the agent's; it keeps the report over a restart of the agent.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._child: RunningChild | None = None
        self._is_running = False
        self._due_at = 0.0
        self._last: Mapping[str, Any] | None = None
        self._fresh = False

    def report(self, folder: Path) -> dict[str, Any]:
        """The last report; `examined` is whether it was made since the agent started."""
        if self._last is None:
            self._last = _read_report(folder / _FILE)
        return {"examined": self._fresh, **self._last}

    def start_if_due(self, folder: Path) -> None:
        """Start the doctor in the background if a report is due."""
        with self._lock:
            if self._is_running or time.monotonic() < self._due_at:
                return
            self._is_running = True
        threading.Thread(target=self._examine, args=(folder,), name="doctor", daemon=True).start()

    def stop(self) -> bool:
        """Terminate the doctor; returns whether it has ended."""
        with self._lock:
            if self._child is not None:
                self._child.terminate()
            return not self._is_running

    def _examine(self, folder: Path) -> None:
        body = None
        try:
            # It never runs during a run that was started by hand, and a run that starts waits for it.
            with suppress(MachineBusy, OSError), exclusive(lambda: None, wait_seconds=0.0):
                body = self._run_doctor(Logs(folder / "children" / uuid.uuid4().hex, 1))
        finally:
            with self._lock:
                self._child, self._is_running = None, False
                self._due_at = time.monotonic() + (REPEAT_SECONDS if body else _RETRY_SECONDS)
                if body is not None:
                    self._last, self._fresh = body, True
        if body is not None:
            with suppress(OSError):
                (folder / _FILE).write_text(json.dumps(body))

    def _run_doctor(self, logs: Logs) -> dict[str, Any] | None:
        with self._lock:
            child = self._child = RunningChild(self._start(["doctor", "--json"], logs))
        ended = child.wait_for_exit(None)
        return _short(logs.events) if ended and ended.code == 0 else None


def _read_report(file: Path) -> Mapping[str, Any]:
    try:
        report = json.loads(file.read_text())
    except (OSError, ValueError):
        report = None
    return cast("dict[str, Any]", report) if isinstance(report, dict) else _NOTHING


def _short(file: Path) -> dict[str, Any] | None:
    """The part of a doctor's report that the head stores for each node."""
    try:
        body = json.loads(file.read_text())
        gpus = body["telemetry"]["gpu"]["gpus"]
        return {
            "hardware": body["hardware"],
            "gpus": [gpu["name"] for gpu in gpus],
            "capabilities": list(_capabilities(gpus, body["telemetry"]["cpu"])),
            "environments": [{"name": name, "says": says} for name, says in body["environments"].items()],
            "cannot": body["cannot"],
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _capabilities(gpus: list[dict[str, Any]], cpu: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    parts = [(f"GPU {gpu['index']}", gpu["capabilities"]) for gpu in gpus]
    for part, capabilities in (*parts, ("CPU", cpu)):
        for one in capabilities:
            yield {"of": part, **one}
