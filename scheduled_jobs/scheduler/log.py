"""The scheduler's log: one line per event, as text or as JSON."""

import json
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Literal, TextIO

Form = Literal["plain", "json"]
Level = Literal["info", "warning", "error"]


class Log:
    """Writes events from any thread; a closed reader is ignored.

    A JSON line has `time` (ISO, with offset), `level`, `event`, `text` with a sentence if there is one, and
    its subject: `schedule`, `task`, `run`, and further fields of the event.
    """

    def __init__(self, form: Form, now: Callable[[], datetime], stream: TextIO | None = None) -> None:
        self._form, self._now = form, now
        self._stream = sys.stdout if stream is None else stream
        self._lock = threading.Lock()

    def __call__(
        self, event: str, text: str = "", about: Mapping[str, object] | None = None, level: Level = "info"
    ) -> None:
        """Write one event; empty fields of `about` are left out."""
        fields = {key: value for key, value in (about or {}).items() if value not in (None, "")}
        line = self._line(event, text, level, fields)
        with self._lock, suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()

    def _line(self, event: str, text: str, level: Level, about: Mapping[str, object]) -> str:
        moment = self._now()
        if self._form == "json":
            body = {"time": moment.isoformat(), "level": level, "event": event, **about}
            return json.dumps(body | ({"text": text} if text else {}), default=str)
        parts = [f"{key}={value}" for key, value in about.items()]
        sign = {"info": "", "warning": "warning: ", "error": "error: "}[level]
        line = " ".join([f"{moment.astimezone():%Y-%m-%d %H:%M:%S %Z}", f"{sign}{event}", *parts])
        return f"{line}: {text}" if text else line
