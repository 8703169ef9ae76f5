"""The dashboard, with every question to the database written down: python observed.py FILE dashboard [...].

A line of JSON each: the function of `db` that asked, the milliseconds until its answer was put together, and
how many statements that took.
"""

import json
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from sqlalchemy import Connection, Engine, event

import db
from cli.app import main
from db.connection.engine import Database

_ROOM = str(Path(db.__path__[0]))
_asking = threading.local()


def observe(written: TextIO) -> None:
    """Write down what is asked from now on."""
    reading = Database.reading

    @contextmanager
    def observed(self: Database) -> Generator[Connection]:
        _asking.statements = 0
        started = time.perf_counter()
        try:
            with reading(self) as connection:
                yield connection
        finally:
            line = {
                "question": _asker(),
                "ms": (time.perf_counter() - started) * 1e3,
                "statements": _asking.statements,
            }
            written.write(json.dumps(line) + "\n")
            written.flush()

    def count(*_: Any) -> None:
        _asking.statements = getattr(_asking, "statements", 0) + 1

    event.listen(Engine, "before_cursor_execute", count)
    Database.reading = observed  # pyright: ignore[reportAttributeAccessIssue]


def _asker() -> str:
    """The function of `db` that the caller called."""
    frame, found = sys._getframe(1), "?"  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_ROOM) and not code.co_filename.endswith("engine.py"):
            found = f"{Path(code.co_filename).stem}.{code.co_name}"
        frame = frame.f_back
    return found


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w") as file:
        observe(file)
        sys.argv = ["pyrometer", *sys.argv[2:]]
        main()
