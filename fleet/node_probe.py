"""What a node can measure, as its own `pyrometer doctor` reports; asked when nothing is measured."""

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
from scheduled_jobs.scheduler.child_process import Child, Logs

from .child_waiter import RunningChild

#: A node that has nothing to do looks again after so long.
AGAIN_SECONDS = 6 * 3600.0
#: After a doctor that was interrupted, or failed.
_RETRY_SECONDS = 60.0

#: In the agent's folder: the last report.
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
    """Has the last report of a doctor, and asks for another one when that is due. From any thread.

    `folder` is always the agent's, with the last report of the time before it was started.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._child: RunningChild | None = None
        self._looking = False
        self._due_at = 0.0
        self._last: Mapping[str, Any] | None = None
        self._fresh = False

    def report(self, folder: Path) -> dict[str, Any]:
        """The last report; `examined` is whether it is of this agent's life."""
        if self._last is None:
            self._last = _read(folder / _FILE)
        return {"examined": self._fresh, **self._last}

    def look(self, folder: Path) -> None:
        """Have the machine examined in the background, if it is time."""
        with self._lock:
            if self._looking or time.monotonic() < self._due_at:
                return
            self._looking = True
        threading.Thread(target=self._examine, args=(folder,), name="doctor", daemon=True).start()

    def stop(self) -> bool:
        """Whether nothing is examined now; what is has been asked to end."""
        with self._lock:
            if self._child is not None:
                self._child.ask()
            return not self._looking

    def _examine(self, folder: Path) -> None:
        body = None
        try:
            # A run that is measured here by hand is not disturbed, and one that begins waits for this.
            with suppress(MachineBusy, OSError), exclusive(lambda: None, wait_seconds=0.0):
                body = self._ask(Logs(folder / "children" / uuid.uuid4().hex, 1))
        finally:
            with self._lock:
                self._child, self._looking = None, False
                self._due_at = time.monotonic() + (AGAIN_SECONDS if body else _RETRY_SECONDS)
                if body is not None:
                    self._last, self._fresh = body, True
        if body is not None:
            with suppress(OSError):
                (folder / _FILE).write_text(json.dumps(body))

    def _ask(self, logs: Logs) -> dict[str, Any] | None:
        with self._lock:
            child = self._child = RunningChild(self._start(["doctor", "--json"], logs))
        ended = child.ended(None)
        return _short(logs.events) if ended and ended.code == 0 else None


def _read(file: Path) -> Mapping[str, Any]:
    try:
        kept = json.loads(file.read_text())
    except (OSError, ValueError):
        kept = None
    return cast("dict[str, Any]", kept) if isinstance(kept, dict) else _NOTHING


def _short(file: Path) -> dict[str, Any] | None:
    """What of a doctor's answer travels: the database keeps it for each node."""
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
    of_each = [(f"GPU {gpu['index']}", gpu["capabilities"]) for gpu in gpus]
    for part, capabilities in (*of_each, ("CPU", cpu)):
        for one in capabilities:
            yield {"of": part, **one}
